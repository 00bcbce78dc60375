"""Method `nuggets`: the facts that matter, and how many of them an answer has."""

from __future__ import annotations

from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.hearing import Trail
from ragbench.score.judge.nuggets import nugget_recall
from ragbench.score.judge.prompt import assignment_prompt, nuggets_prompt
from ragbench.types.scores import Cause, Verdict


async def count_nuggets(trail: Trail, item: Item, rubric: Rubric) -> Verdict:
    """Make nuggets of the references, or of the passages, and look for them in the answer."""
    sources = item.references if "reference" in rubric.needs else item.contexts or []
    steps = rubric.own_steps
    made = await trail.ask(
        nuggets_prompt(sources, item.question, steps=steps, few_shot=trail.few_shot)
    )
    nuggets = [entry for entry in made.value["nuggets"] if entry["nugget"].strip()]
    if not nuggets:
        return not_applicable(Cause.NO_CLAIMS, "no fact was found that an answer should have")
    texts = [entry["nugget"] for entry in nuggets]
    assigned = await trail.ask(
        assignment_prompt(
            texts, item.answer or "", item.question, steps=steps, few_shot=trail.few_shot
        )
    )
    found = [assigned.value[f"nugget_{n}"] for n in range(1, len(texts) + 1)]
    importances = [entry["importance"] for entry in nuggets]
    supports = [entry["verdict"] for entry in found]
    reasoning = "\n".join(
        f"nugget {n} ({importance}): {each['verdict']} ({each['reason']}): {text}"
        for n, (importance, each, text) in enumerate(
            zip(importances, found, texts, strict=True), start=1
        )
    )
    score = nugget_recall(importances, supports)
    if score is None:
        return not_applicable(Cause.NO_CLAIMS, f"no nugget is vital\n{reasoning}")
    return Verdict(score, reasoning=reasoning)
