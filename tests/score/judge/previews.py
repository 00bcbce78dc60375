"""The prompts that each method of a rubric sends, built one by one, for tests of their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.grounding import FORMULAS
from ragbench.score.judge.methods.prompt import (
    JudgePrompt,
    Prompts,
    example_item,
    messages_of,
    numbered,
    ragas_prompt,
)
from ragbench.score.judge.methods.templates import Material, Together
from ragbench.text.tokenize import sentences
from ragbench.types import Turn

# Metric of ragas -> its prompts, in the order in which they are sent
RAGAS_STEPS: Mapping[str, tuple[str, ...]] = {
    "answer_relevancy": ("question",),
    "faithfulness": ("statements", "inference"),
    "context_precision": ("usefulness",),
    "context_recall": ("attribution",),
    "context_utilization": ("usefulness",),
    "correctness": ("statements", "classification"),
    "noise_sensitivity": ("statements", "inference"),
}
_STAND_IN = JudgedItem(
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
    """Hold one prompt and its purpose."""

    # What is asked, in a few words
    purpose: str
    prompt: JudgePrompt


def preview(
    rubric: Rubric, *, few_shot: bool = True, passages: Together = "together"
) -> list[Preview]:
    """Return the prompts that a rubric sends for its first example, in order.

    Claims and nuggets come from a model's reply in a real run; here sentences stand in for them.
    A prompt that is sent once per passage is shown for the first. `passages` says how claims are
    checked against them.
    """
    item = example_item(rubric.examples[0]) if rubric.examples else _STAND_IN
    prompts = Prompts(rubric, item, few_shot)
    if rubric.method == "rating":
        return [
            Preview(f"rate {rubric.asks}", prompts.rating(0 if rubric.asks == "context" else None))
        ]
    if rubric.method == "pairwise":
        other = Preview("compare, in the other order", prompts.pairwise(swapped=True))
        return [Preview("compare", prompts.pairwise()), other]
    if rubric.method == "nuggets":
        return _nuggets(prompts)
    if rubric.method in ("intentions", "retention"):
        return _conversation(prompts)
    if rubric.method == "support":
        support = prompts.support(sentences(item.answer or ""), (item.contexts or [""])[0])
        return [Preview("check the sentences that cite a passage first", support)]
    if rubric.method == "ragas":
        return _ragas(rubric, item)
    return _claims(prompts, passages)


def _claims(prompts: Prompts, passages: Together) -> list[Preview]:
    item, contexts = prompts.item, prompts.item.contexts or [""]
    texts = {
        "answer": item.answer or "",
        "reference": "\n".join(item.references),
        "passages": contexts[0],
    }
    sides = [side.split("_") for side in FORMULAS[prompts.rubric.formula or ""].sides]
    previews = []
    for claimant in dict.fromkeys(side[0] for side in sides):
        prompt = prompts.claims(sentences(texts[claimant]))
        previews.append(Preview(f"split the {claimant} into claims", prompt))
    for claimant, source in sides:
        claims = sentences(texts[claimant])
        if source == "passages" and passages == "together":
            against, prompt = "the passages", prompts.passages(claims, contexts)
        else:
            against = "each passage" if source == "passages" else f"the {source}"
            prompt = prompts.verdicts(claims, texts[source])
        previews.append(Preview(f"check the claims of the {claimant} against {against}", prompt))
    return previews


def _ragas(rubric: Rubric, item: JudgedItem) -> list[Preview]:
    """Return the prompts of ragas, once each; sentences stand in for statements."""
    question, context = [("question", item.question or "")], "\n".join(item.contexts or [])
    answer, reference = item.answer or "", (item.references or [""])[0]
    of_reference = "reference" in rubric.needs
    gold = reference if of_reference else answer
    statements = sentences(answer)
    inputs: Mapping[str, tuple[str, Material]] = {
        "question": ("make a question of the answer, 3 times", [("answer", answer)]),
        "statements": ("split a text into statements", [*question, ("text", answer)]),
        "inference": (
            "infer statements",
            [("context", context), *numbered("statement", statements)],
        ),
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
            [
                *question,
                *numbered("answer", statements),
                *numbered("reference", sentences(reference)),
            ],
        ),
    }
    return [
        Preview(inputs[step][0], ragas_prompt(step, inputs[step][1]))
        for step in RAGAS_STEPS[rubric.formula or ""]
    ]


def _nuggets(prompts: Prompts) -> list[Preview]:
    item = prompts.item
    sources = item.references if "reference" in prompts.rubric.needs else item.contexts or []
    facts = [sentence for source in sources for sentence in sentences(source)]
    assigning = Preview("look for them in the answer", prompts.assignment(facts))
    return [Preview("make nuggets", prompts.nuggets(sources)), assigning]


def _conversation(prompts: Prompts) -> list[Preview]:
    messages = list(enumerate(messages_of(prompts.item), start=1))
    if prompts.rubric.method == "intentions":
        intentions = [message.text for _, message in messages if message.role == "user"]
        checking = Preview("look for it", prompts.satisfaction(intentions))
        return [Preview("list what the user wanted", prompts.intentions()), checking]
    # before a first message nothing was told that it could lose
    answers = [n for n, message in messages if message.role == "assistant" and n > 1]
    facts = {n: [message.text] for n, message in messages if message.role == "user"}
    checking = Preview("look what was lost", prompts.retention(facts, answers))
    return [Preview("list what the user told", prompts.facts()), checking]
