"""Names that a gate may refer to: the scores and systems of a run, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.comparison.systems import find_score
from ragbench.errors import RagbenchError
from ragbench.records.score import Kind


@dataclass(frozen=True, slots=True)
class KnownScore:
    """A score before it is computed.

    Attributes:
        name: As tables and keys will show it.
        kind: What it looks at.
        aggregate: How the values become one number.
    """

    name: str
    kind: Kind
    direction: str
    low: float
    high: float
    aggregate: str


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Scores and systems that a gate may refer to, as far as they are known when it is checked.

    Attributes:
        open_kinds: Kinds that may have other scores: their block is left out, so that the data
            decide, or what they name was not run.
        retrievers: Systems that have scores of rankings.
        pairs: Pairs of a retriever and a generator.
        apps: Systems that retrieve and answer in one, and have scores of both kinds.
        sweeps: Swept retrievers -> the names that they stand for.
        may_have_others: Whether the data set may bring systems of its own, whose names it alone
            knows.
    """

    scores: Mapping[str, KnownScore]
    open_kinds: frozenset[Kind] = frozenset()
    retrievers: Sequence[str] = ()
    pairs: Sequence[str] = ()
    apps: Sequence[str] = ()
    sweeps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    may_have_others: bool = False

    @property
    def systems(self) -> list[str]:
        """All systems that are known before the data are read."""
        return [*self.retrievers, *self.pairs, *self.apps]

    def systems_with(self, score: KnownScore | None) -> list[str]:
        """Return the systems that may have a score; without a score, all systems."""
        if score is None:
            return self.systems
        return [*(self.retrievers if score.kind == "retrieval" else self.pairs), *self.apps]

    def find(self, name: str) -> KnownScore | None:
        """Return the score that a name in any spelling means; None if it is no score."""
        score = find_score(name, list(self.scores))
        if score is not None:
            return self.scores[score]
        kinds: tuple[Kind, ...] = ("retrieval", "generation", "judge")
        possible = (known_score(name, kind) for kind in kinds if kind in self.open_kinds)
        return next((score for score in possible if score is not None), None)


def known_score(source: str | Path | Mapping[str, Any], kind: Kind) -> KnownScore | None:
    """Return the declared facts of a measure, a metric or a rubric; None if there is none.

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
            return KnownScore(name, kind, spec.direction, spec.low, spec.high, spec.aggregate)
        if kind == "generation":
            metric = parse_metric(name)
            facts = metric.declaration
            return KnownScore(name, kind, facts.direction, *metric.range, facts.aggregate)
        rubric = load_rubric(source)
    except RagbenchError:  # reported where it stands in the metrics, or no score at all
        return None
    return KnownScore(rubric.name, "judge", rubric.direction, 0.0, 1.0, "mean")
