"""Names that a gate may refer to: scores and systems, as declared before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.comparison.systems import find_score
from ragbench.errors import RagbenchError
from ragbench.records.score import Kind


@dataclass(frozen=True, slots=True)
class ScoreFacts:
    """A score as its measure, metric or rubric declares it, before it is computed.

    Attributes:
        name: Name in tables and keys.
        kind: Whether it scores rankings, or answers by a formula or a judge.
        direction: `higher` or `lower`, whichever is better.
        low: Smallest possible value; -inf without one.
        high: Largest possible value; inf without one.
        aggregate: How the values of queries become one number.
    """

    name: str
    kind: Kind
    direction: str
    low: float
    high: float
    aggregate: str


@dataclass(frozen=True, slots=True)
class GateNames:
    """Scores and systems that a gate may refer to, as far as they are known before a run.

    Attributes:
        scores: Name -> declared score.
        open_kinds: Kinds that may have other scores, as the data decide, or as a judge was skipped.
        retrievers: Systems that have scores of rankings.
        pairs: Pairs of a retriever and a generator.
        apps: Systems that retrieve and answer in one, and have scores of both kinds.
        sweeps: Swept retriever -> the names of its combinations.
        may_have_others: Whether the data set may bring systems of its own, with unknown names.
    """

    scores: Mapping[str, ScoreFacts]
    open_kinds: frozenset[Kind] = frozenset()
    retrievers: Sequence[str] = ()
    pairs: Sequence[str] = ()
    apps: Sequence[str] = ()
    sweeps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    may_have_others: bool = False

    @property
    def systems(self) -> list[str]:
        """Systems that are known before the data are read."""
        return [*self.retrievers, *self.pairs, *self.apps]

    def systems_with(self, score: ScoreFacts | None) -> list[str]:
        """Return the systems that may have a score; all systems if the score is None."""
        if score is None:
            return self.systems
        return [*(self.retrievers if score.kind == "retrieval" else self.pairs), *self.apps]

    def find(self, name: str) -> ScoreFacts | None:
        """Return the score that a name means, in any spelling; None if there is no such score.

        A score of an open kind is found by its name alone.
        """
        score = find_score(name, list(self.scores))
        if score is not None:
            return self.scores[score]
        # the first kind that knows the name counts
        kinds: tuple[Kind, ...] = ("retrieval", "generation", "judge")
        possible = (score_facts(name, kind) for kind in kinds if kind in self.open_kinds)
        return next((score for score in possible if score is not None), None)


def score_facts(source: str | Path | Mapping[str, Any], kind: Kind) -> ScoreFacts | None:
    """Return a score as its measure, metric or rubric declares it; None if there is none.

    Args:
        source: Name of the score; a rubric may also be a file or a mapping.
        kind: `retrieval` for a measure, `generation` for a metric, `judge` for a rubric.
    """
    # imported here: a config without gates needs none of them
    from ragbench.score.judge.rubric import load_rubric
    from ragbench.score.retrieval.notation import parse_measure
    from ragbench.score.text.notation import parse_metric

    name = str(source)
    try:
        if kind == "retrieval":
            spec = parse_measure(name).spec
            return ScoreFacts(name, kind, spec.direction, spec.low, spec.high, spec.aggregate)
        if kind == "generation":
            metric = parse_metric(name)
            facts = metric.declaration
            return ScoreFacts(name, kind, facts.direction, *metric.range, facts.aggregate)
        rubric = load_rubric(source)
    except RagbenchError:  # an unknown name, or one whose problem stands in the metrics
        return None
    return ScoreFacts(rubric.name, "judge", rubric.direction, 0.0, 1.0, "mean")
