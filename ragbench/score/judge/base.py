"""What a judge is: anything that applies a rubric to an item and gives a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ragbench.score.judge.rubric import Rubric
from ragbench.types.scores import Cause, Verdict


@dataclass(frozen=True, slots=True)
class Item:
    """One answered question, as a judge sees it."""

    question: str | None = None
    """What was asked."""
    answer: str | None = None
    """The system's answer; None where it has none, empty where it said nothing."""
    contexts: list[str] | None = None
    """The passages that the system retrieved, best first; None where they are not known."""
    references: list[str] = field(default_factory=list)
    """Gold answers."""
    query_id: str = ""
    """The query, for files."""


class Judge(Protocol):
    """Applies rubrics to items."""

    label: str
    """One sentence that says what kind of judge this is, shown beside its scores."""
    model: str
    """What gives the verdicts: a model as its server names it, or a method with its version."""
    served: Sequence[str] | None
    """Names of the rubrics that it can apply; None: any."""
    options: Mapping[str, Any]
    """What else its verdicts depend on; goes into the signature."""

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
        """Apply a rubric whose needs the item fulfils."""
        ...


_MISSING = {
    "answer": Cause.NO_ANSWER,
    "contexts": Cause.NO_CONTEXTS,
    "reference": Cause.NO_REFERENCE,
}


def missing_input(item: Item, rubric: Rubric) -> Cause | None:
    """Return why a rubric does not apply to an item: it needs what the item lacks."""
    present = {
        "answer": item.answer is not None,
        "contexts": bool(item.contexts),
        "reference": bool(item.references),
    }
    # what the data lack comes first: it does not depend on the system
    for need in ("reference", "answer", "contexts"):
        if need in rubric.needs and not present[need]:
            return _MISSING[need]
    return None


def not_applicable(cause: Cause, reasoning: str) -> Verdict:
    """Return the verdict that a rubric does not apply."""
    return Verdict(None, reasoning=reasoning, status="not_applicable", cause=cause.word)
