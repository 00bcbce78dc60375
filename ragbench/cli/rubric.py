"""What judges are asked: `ragbench rubric` shows prompts, `nuggets RUN` makes facts to look for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from ragbench.cli.output import (
    behind,
    echo,
    file_option,
    json_option,
    number_option,
    resumable,
    run_argument,
    several,
    write_json,
    write_notes,
)
from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.grounding import FORMULAS
from ragbench.score.judge.methods import conversation
from ragbench.score.judge.methods import prompt as prompts
from ragbench.score.judge.methods.templates import Material, Together, prompt_fingerprint
from ragbench.score.judge.published import RAGAS
from ragbench.text.tokenize import sentences
from ragbench.types import Turn

_STAND_IN = Item(
    question="When was the harbour bridge opened?",
    answer="It was opened on 3 May 1932.",
    contexts=["The harbour bridge was opened to traffic on 3 May 1932."],
    references=["The harbour bridge was opened in 1932."],
    queries=["harbour bridge opening date"],
    guidelines=["Answer in one sentence."],
    other="In the year 1923.",
    turns=(
        Turn("user", "I want to cross the harbour bridge. How long is it?"),
        Turn("assistant", "It is 503 metres long."),
    ),
)


class Preview(NamedTuple):
    """One prompt and what it is for."""

    purpose: str
    """What is asked, in a few words."""
    prompt: prompts.Prompt


def preview(
    rubric: Rubric, *, few_shot: bool = True, passages: Together = "together"
) -> list[Preview]:
    """Return the prompts that a rubric sends for its first example, in order.

    Claims and nuggets come from a model's reply in a real run; here sentences stand in for them.
    A prompt that is sent once per passage is shown for the first. `passages` says how claims are
    checked against them. A rubric that counts words sends none.
    """
    if rubric.method == "overlap":
        return []
    item = prompts.example_item(rubric.examples[0]) if rubric.examples else _STAND_IN
    if rubric.method == "rating":
        passage = 0 if rubric.asks == "context" else None
        prompt = prompts.rating_prompt(rubric, item, passage=passage, few_shot=few_shot)
        return [Preview(f"rate {rubric.asks}", prompt)]
    if rubric.method == "pairwise":
        prompt = prompts.pairwise_prompt(rubric, item, few_shot=few_shot)
        other = prompts.pairwise_prompt(rubric, item, swapped=True, few_shot=few_shot)
        return [Preview("compare", prompt), Preview("compare, in the other order", other)]
    if rubric.method == "nuggets":
        return _nuggets(rubric, item, few_shot)
    if rubric.method in ("intentions", "retention"):
        return _conversation(rubric, item, few_shot)
    if rubric.method == "support":
        return [_support(item, few_shot)]
    if rubric.method == "ragas":
        return _ragas(rubric, item)
    return _claims(rubric, item, few_shot, passages)


def _claims(rubric: Rubric, item: Item, few_shot: bool, passages: Together) -> list[Preview]:
    contexts = item.contexts or [""]
    texts = {
        "answer": item.answer or "",
        "reference": "\n".join(item.references),
        "passages": contexts[0],
    }
    sides = [side.split("_") for side in FORMULAS[rubric.formula or ""].sides]
    said: prompts.Shown = {"steps": rubric.own_steps, "few_shot": few_shot}
    found = []
    for claimant in dict.fromkeys(side[0] for side in sides):
        prompt = prompts.claims_prompt(sentences(texts[claimant]), item.asked, few_shot=few_shot)
        found.append(Preview(f"split the {claimant} into claims", prompt))
    for claimant, source in sides:
        claims = sentences(texts[claimant])
        if source == "passages" and passages == "together":
            against = "the passages"
            prompt = prompts.passages_prompt(claims, contexts, item.asked, **said)
        else:
            against = "each passage" if source == "passages" else f"the {source}"
            prompt = prompts.verdicts_prompt(claims, texts[source], item.asked, **said)
        found.append(Preview(f"check the claims of the {claimant} against {against}", prompt))
    return found


def _support(item: Item, few_shot: bool) -> Preview:
    passage, statements = (item.contexts or [""])[0], sentences(item.answer or "")
    prompt = prompts.support_prompt(statements, passage, item.asked, few_shot=few_shot)
    return Preview("check the sentences that cite a passage first", prompt)


def _ragas(rubric: Rubric, item: Item) -> list[Preview]:
    """Each prompt once; sentences stand in for statements."""
    question, context = prompts.asked(item.question), "\n".join(item.contexts or [])
    answer, reference = item.answer or "", (item.references or [""])[0]
    of_reference = "reference" in rubric.needs
    gold = reference if of_reference else answer
    numbered, own = prompts.numbered, sentences(answer)
    shown: Mapping[str, tuple[str, Material]] = {
        "question": ("make a question of the answer, 3 times", [("answer", answer)]),
        "statements": ("split a text into statements", [*question, ("text", answer)]),
        "inference": ("infer statements", [("context", context), *numbered("statement", own)]),
        "usefulness": (
            "judge each passage",
            [*question, ("answer", gold), ("passage", (item.contexts or [""])[0])],
        ),
        "attribution": (
            "attribute statements",
            [*question, ("context", context), ("answer", gold)],
        ),
        "classification": (
            "compare statements",
            [*question, *numbered("answer", own), *numbered("reference", sentences(reference))],
        ),
    }
    return [
        Preview(shown[step][0], prompts.ragas_prompt(step, shown[step][1]))
        for step in RAGAS[rubric.formula or ""].steps
    ]


def _nuggets(rubric: Rubric, item: Item, few_shot: bool) -> list[Preview]:
    sources = item.references if "reference" in rubric.needs else item.contexts or []
    steps = rubric.own_steps
    making = prompts.nuggets_prompt(sources, item.asked, steps=steps, few_shot=few_shot)
    facts = [sentence for source in sources for sentence in sentences(source)]
    assigning = prompts.assignment_prompt(
        facts, item.answer or "", item.asked, steps=steps, few_shot=few_shot
    )
    return [Preview("make nuggets", making), Preview("look for them in the answer", assigning)]


def _conversation(rubric: Rubric, item: Item, few_shot: bool) -> list[Preview]:
    steps, messages = rubric.own_steps, conversation.messages_of(item)
    wanted = [each.text for each in messages if each.role == "user"]
    if rubric.method == "intentions":
        listing = conversation.intentions_prompt(messages, steps=steps, few_shot=few_shot)
        checking = conversation.satisfaction_prompt(
            messages, wanted, steps=steps, few_shot=few_shot
        )
        return [Preview("list what the user wanted", listing), Preview("look for it", checking)]
    telling = conversation.facts_prompt(messages, steps=steps, few_shot=few_shot)
    # before a first message nothing was told that it could lose
    answers = [n for n, each in enumerate(messages) if each.role == "assistant" and n]
    facts = {n: [each.text] for n, each in enumerate(messages) if each.role == "user"}
    checking = conversation.retention_prompt(
        messages, facts, answers, steps=steps, few_shot=few_shot
    )
    return [Preview("list what the user told", telling), Preview("look what was lost", checking)]


@click.group(name="rubric")
def command() -> None:
    """Show the prompts of rubrics, word for word."""


@command.command(name="show")
@click.argument("rubric", metavar="NAME|FILE")
@click.option("--zero-shot", is_flag=True, help="Without worked examples.")
@json_option(help="Print JSON, with the schemas of the replies.")
def show(rubric: str, zero_shot: bool, as_json: bool) -> None:
    """Print the exact prompts that a rubric sends to a language model.

    RUBRIC is the name of a built-in one or the path of a file. The prompts are filled with the
    rubric's first example; nothing is sent. A rubric that counts words has no prompts: its steps
    say how.
    """
    from ragbench.score.judge.rubric import load_rubric

    loaded = load_rubric(rubric)
    previews = preview(loaded, few_shot=not zero_shot)
    if as_json:
        shown: dict[str, Any] = {
            "rubric": loaded.name,
            "asks": loaded.asks,
            "needs": loaded.needs,
            "method": loaded.method,
            "direction": loaded.direction,
            "fingerprint": prompt_fingerprint(loaded, few_shot=not zero_shot),
            "prompts": [
                {
                    "purpose": purpose,
                    "system": each.system,
                    "user": each.user,
                    "schema": each.schema,
                }
                for purpose, each in previews
            ],
        }
        write_json(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        _print_text(loaded, previews)


def _print_text(rubric: Rubric, previews: list[Preview]) -> None:
    needs = ", ".join(rubric.needs)
    echo(f"{rubric.name}: asks of {rubric.asks}, by {rubric.method}; needs {needs}")
    if rubric.verdicts == "shared":
        echo("its prompts are shared: verdicts that another rubric has requested are used again")
    if not previews:
        echo("it counts words (type: lexical) and sends no prompt:")
        for number, step in enumerate(rubric.steps, start=1):
            echo(f"{number}. {step}")
    for number, (purpose, prompt) in enumerate(previews, start=1):
        schema = json.dumps(prompt.schema, indent=2)
        for part, text in (("system", prompt.system), ("user", prompt.user), ("schema", schema)):
            echo()
            echo(f"=== {number} of {len(previews)}: {purpose}: {part}", bold=True)
            echo(text)


@click.command(name="nuggets")
@run_argument
@file_option(
    *("-o", "--output"),
    required=True,
    help="The file, such as nuggets.jsonl; an existing file is not replaced.",
)
@click.option("--judge", metavar="NAME", help="The judge of the run; default: the first that asks.")
@number_option(
    "--depth",
    metavar=None,
    default=20,
    show_default=True,
    help="How many passages of each system are read.",
)
@several(
    *("--trust", "trusted"),
    metavar="URL|NAME",
    help="Ask this address, or send this variable, which the run folder names; repeatable. Without "
    "it no key and no text leaves for an address that only a run folder names, and no variable but "
    "OPENAI_API_KEY is sent.",
)
def nuggets(
    run: Path, output: Path, judge: str | None, depth: int, trusted: tuple[str, ...]
) -> None:
    """Let the judge of a finished RUN make nuggets of what its systems retrieved.

    The passages of all systems form one pool for each query, as in the TREC RAG track. FILE has a
    line for each query. Read it and correct it: `nuggets: FILE` at a judge then scores answers by
    these nuggets, the same for every system and every later run.
    """
    from ragbench.data.runs.run_folder import json_lines
    from ragbench.errors import DataError
    from ragbench.experiment.nuggets import make_nuggets
    from ragbench.files import write_file
    from ragbench.report.progress import Progress
    from ragbench.report.text import counted

    if output.exists():
        allowed = "a new file: this one may hold what people have corrected"
        raise DataError("exists already", file=output, allowed=allowed)
    bars = Progress(brief=not sys.stderr.isatty(), stream=behind(sys.stderr))
    with resumable():
        made = make_nuggets(run, judge, depth=depth, trusted=trusted, progress=bars)
    write_file(output, "".join(json_lines(made.rows())))
    nuggets = [nugget for found in made.nuggets.values() for nugget in found]
    vital = sum(nugget.importance == "vital" for nugget in nuggets)
    echo(
        f"nuggets: {output}: {counted(len(nuggets), 'nuggets')} ({vital} vital) of "
        f"{counted(len(made.nuggets), 'queries')}, from {counted(made.passages, 'passages')}"
    )
    sent = made.totals
    notes = [f"judge {made.judge}: {sent.calls} calls, {sent.stored} replies from the store"]
    empty = sum(not found for found in made.nuggets.values())
    if empty:
        notes.append(f"no passage of {counted(empty, 'queries')} has anything that helps to answer")
    if made.failures:
        first = next(iter(made.failures))
        notes.append(
            f"{counted(len(made.failures), 'queries')} failed and are not in the file; "
            f"{first}: {made.failures[first]}"
        )
    write_notes(notes)
