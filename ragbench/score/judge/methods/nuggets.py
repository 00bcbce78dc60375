"""Method `nuggets`: the facts that matter, and how many of them an answer has."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.score.judge.base import Item, Rubric, not_applicable
from ragbench.score.judge.methods.prompt import assignment_prompt, nuggets_prompt
from ragbench.score.judge.methods.session import ReplyLog
from ragbench.types.scores import Cause, Verdict


async def count_nuggets(log: ReplyLog, item: Item, rubric: Rubric) -> Verdict:
    """Make nuggets of the references, or of the passages, and look for them in the answer."""
    sources = item.references if "reference" in rubric.needs else item.contexts or []
    steps = rubric.own_steps
    made = await log.ask(nuggets_prompt(sources, item.question, steps=steps, few_shot=log.few_shot))
    nuggets = [entry for entry in made.value["nuggets"] if entry["nugget"].strip()]
    if not nuggets:
        return not_applicable(Cause.NO_CLAIMS, "no fact was found that an answer should have")
    texts = [entry["nugget"] for entry in nuggets]
    assigned = await log.ask(
        assignment_prompt(
            texts, item.answer or "", item.question, steps=steps, few_shot=log.few_shot
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


def nugget_recall(importances: Sequence[str], supports: Sequence[str]) -> float | None:
    """Return the share of vital nuggets that an answer supports in full.

    Args:
        importances: `vital` or `okay`, one for each nugget.
        supports: `support`, `partial_support` or `not_support`, one for each nugget.

    Returns:
        A number from 0 to 1; None where no nugget is vital. What is okay or supported in part does
        not count: this is the strict score that TREC ranks systems by.

    Example:
        >>> nugget_recall(["vital", "vital", "okay"], ["support", "partial_support", "support"])
        0.5

    References:
        Pradeep et al. (2024), Initial Nugget Evaluation Results for the TREC 2024 RAG Track.
    """
    vital = [
        support == "support"
        for importance, support in zip(importances, supports, strict=True)
        if importance == "vital"
    ]
    return sum(vital) / len(vital) if vital else None
