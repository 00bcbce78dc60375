"""The prompts that each method of a rubric sends, built one by one, for tests of their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.grounding import FORMULAS
from ragbench.score.judge.methods import conversation
from ragbench.score.judge.methods import prompt as prompts
from ragbench.score.judge.methods.templates import Material, Together
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
    checked against them.
    """
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
