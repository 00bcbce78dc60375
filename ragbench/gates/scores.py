"""The scores that a gate may name, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.errors import RagbenchError
from ragbench.records.score import Kind
from ragbench.registry import PYTHON


@dataclass(frozen=True, slots=True)
class KnownScore:
    """A score before it is computed."""

    name: str
    """As tables and keys will show it."""
    kind: Kind
    """What it looks at."""
    direction: str
    low: float
    high: float
    aggregate: str
    """How the values become one number."""


@dataclass(frozen=True, slots=True)
class KnownScores:
    """The scores of a config, as far as they are known before the data are read."""

    named: Mapping[str, KnownScore]
    open: frozenset[Kind]
    """The kinds that may have other scores: their block is left out, so that the data decide, or
    what they name was not run."""

    def find(self, name: str) -> KnownScore | None:
        """Return the score that a name means, in whatever spelling; None for no score."""
        written = find_score(name, list(self.named))
        if written is not None:
            return self.named[written]
        kinds: tuple[Kind, ...] = ("retrieval", "generation", "judge")
        meant = (known_score(name, kind) for kind in kinds if kind in self.open)
        return next((each for each in meant if each is not None), None)


def find_score(name: str, scores: Sequence[str]) -> str | None:
    """Return the name under which a score is kept that is spelt in whatever way."""
    if name in scores:
        return name
    meant = canonical(name)
    if meant is None:
        return None
    # code that they name, as those of a run folder may, is not imported
    known = (score for score in scores if not score.startswith(PYTHON))
    return next((score for score in known if canonical(score) == meant), None)


def canonical(name: str) -> str | None:
    """Return the one spelling of a measure or metric; None for what is neither.

    Example:
        >>> canonical("nDCG@10"), canonical("em"), canonical("faithfulness")
        ('ndcg@10', 'exact_match', None)
    """
    from ragbench.score.retrieval.notation import parse_measure
    from ragbench.score.text.notation import parse_metric

    try:
        return parse_measure(name).name
    except RagbenchError:  # no measure; it may be a metric
        pass
    try:
        return parse_metric(name).canonical
    except RagbenchError:
        return None


def known_score(name: str, kind: Kind) -> KnownScore | None:
    """Return what is known of a measure, a metric or a rubric; None where there is none."""
    from ragbench.score.retrieval.notation import parse_measure
    from ragbench.score.text.notation import parse_metric

    try:
        if kind == "retrieval":
            of = parse_measure(name).spec
            return KnownScore(name, kind, of.direction, of.low, of.high, of.aggregate)
        if kind == "generation":
            metric = parse_metric(name)
            declared = metric.declaration
            return KnownScore(name, kind, declared.direction, *metric.range, declared.aggregate)
    except RagbenchError:  # reported where it stands in the metrics, or no score at all
        return None
    return known_rubric(name)


def known_rubric(source: str | Path | Mapping[str, Any]) -> KnownScore | None:
    """Return what is known of a rubric by name, in a file or as a mapping; None for no rubric."""
    from ragbench.score.judge.rubric import load_rubric

    try:
        rubric = load_rubric(source)
    except RagbenchError:  # reported where it stands in the metrics, or no score at all
        return None
    return KnownScore(rubric.name, "judge", rubric.direction, 0.0, 1.0, "mean")
