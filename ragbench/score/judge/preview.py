"""What a rubric sends, shown with an item: its first example, unless there is a better one."""

from __future__ import annotations

from typing import NamedTuple

from ragbench.score.judge.base import Item, Rubric
from ragbench.score.judge.grounding import FORMULAS
from ragbench.score.judge.prompt import (
    Prompt,
    assignment_prompt,
    claims_prompt,
    example_item,
    nuggets_prompt,
    pairwise_prompt,
    rating_prompt,
    verdicts_prompt,
)
from ragbench.text.sentences import sentences

_STAND_IN = Item(
    question="When was the harbour bridge opened?",
    answer="It was opened on 3 May 1932.",
    contexts=["The harbour bridge was opened to traffic on 3 May 1932."],
    references=["The harbour bridge was opened in 1932."],
    queries=["harbour bridge opening date"],
    guidelines=["Answer in one sentence."],
    other="In the year 1923.",
)


class Preview(NamedTuple):
    """One prompt and what it is for."""

    purpose: str
    """What is asked, in a few words."""
    prompt: Prompt
    """What is sent."""


def preview(rubric: Rubric, *, few_shot: bool = True) -> list[Preview]:
    """Return the prompts that a rubric sends for its first example, in order.

    Claims and nuggets come from a model's reply in a real run; here sentences stand in for them.
    A prompt that is sent once per passage is shown for the first.
    """
    item = example_item(rubric.examples[0]) if rubric.examples else _STAND_IN
    if rubric.method == "rating":
        passage = 0 if rubric.asks == "context" else None
        prompt = rating_prompt(rubric, item, passage=passage, few_shot=few_shot)
        return [Preview(f"rate {rubric.asks}", prompt)]
    if rubric.method == "pairwise":
        prompt = pairwise_prompt(rubric, item, few_shot=few_shot)
        other = pairwise_prompt(rubric, item, swapped=True, few_shot=few_shot)
        return [Preview("compare", prompt), Preview("compare, in the other order", other)]
    if rubric.method == "nuggets":
        return _nuggets(rubric, item, few_shot)
    return _claims(rubric, item, few_shot)


def _claims(rubric: Rubric, item: Item, few_shot: bool) -> list[Preview]:
    texts = {
        "answer": item.answer or "",
        "reference": "\n".join(item.references),
        "passages": (item.contexts or [""])[0],
    }
    sides = [side.split("_") for side in FORMULAS[rubric.formula or ""].sides]
    found = []
    for claimant in dict.fromkeys(side[0] for side in sides):
        prompt = claims_prompt(sentences(texts[claimant]), item.question, few_shot=few_shot)
        found.append(Preview(f"split the {claimant} into claims", prompt))
    for claimant, source in sides:
        prompt = verdicts_prompt(
            sentences(texts[claimant]),
            texts[source],
            item.question,
            steps=rubric.own_steps,
            few_shot=few_shot,
        )
        against = "each passage" if source == "passages" else f"the {source}"
        found.append(Preview(f"check the claims of the {claimant} against {against}", prompt))
    return found


def _nuggets(rubric: Rubric, item: Item, few_shot: bool) -> list[Preview]:
    sources = item.references if "reference" in rubric.needs else item.contexts or []
    steps = rubric.own_steps
    making = nuggets_prompt(sources, item.question, steps=steps, few_shot=few_shot)
    facts = [sentence for source in sources for sentence in sentences(source)]
    assigning = assignment_prompt(
        facts, item.answer or "", item.question, steps=steps, few_shot=few_shot
    )
    return [Preview("make nuggets", making), Preview("look for them in the answer", assigning)]
