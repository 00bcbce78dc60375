"""The scores that a config asks for, with what a gate must know of each before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ragbench.config.schema import Metrics
from ragbench.errors import RagbenchError

Kind = Literal["retrieval", "generation", "judge"]


@dataclass(frozen=True, slots=True)
class KnownScore:
    """A score before it is computed."""

    name: str
    """As tables and keys will show it."""
    kind: Kind
    """What it looks at."""
    direction: str
    """Which way is better."""
    low: float
    """The smallest possible value."""
    high: float
    """The largest possible value."""
    aggregate: str
    """How the values become one number."""


@dataclass(frozen=True, slots=True)
class KnownScores:
    """The scores of a config, as far as they are known before the data are read."""

    named: Mapping[str, KnownScore]
    """Name -> score, of the blocks that the config has."""
    open: frozenset[Kind]
    """The kinds whose block is left out: the data will say which scores there are."""

    def find(self, name: str) -> KnownScore | None:
        """Return the score that a name means, in whatever spelling; None for no score."""
        if name in self.named:
            return self.named[name]
        meant = canonical(name)
        for written, score in self.named.items():
            if meant is not None and canonical(written) == meant:
                return score
        return next((s for s in (_measure(name), _metric(name), _rubric(name)) if self._fits(s)),
                    None)  # fmt: skip

    def _fits(self, score: KnownScore | None) -> bool:
        return score is not None and score.kind in self.open


def known_scores(metrics: Metrics) -> KnownScores:
    """Return what is known of the scores of a checked `metrics` block."""
    found = [_measure(name) for name in metrics.retrieval.measures or ()]
    found += [_metric(named.metric.name) for named in metrics.generation or ()]
    judges = metrics.judges or {}
    for judge, block in judges.items():
        for source in block.rubrics:
            rubric = _rubric(str(source))
            if rubric is not None:
                name = f"{rubric.name}(judge={judge})" if len(judges) > 1 else rubric.name
                found.append(KnownScore(name, "judge", rubric.direction, 0.0, 1.0, "mean"))
    blocks: dict[Kind, object] = {
        "retrieval": metrics.retrieval.measures,
        "generation": metrics.generation,
        "judge": metrics.judges,
    }
    named = {score.name: score for score in found if score is not None}
    return KnownScores(named, frozenset(kind for kind, block in blocks.items() if block is None))


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


def _measure(name: str) -> KnownScore | None:
    from ragbench.score.retrieval.notation import parse_measure

    try:
        found = parse_measure(name)
    except RagbenchError:  # reported where it stands in the metrics, or no measure at all
        return None
    return KnownScore(name, "retrieval", found.direction, found.low, found.high, found.aggregate)


def _metric(name: str) -> KnownScore | None:
    from ragbench.score.text.notation import parse_metric

    try:
        found = parse_metric(name)
    except RagbenchError:
        return None
    declared = found.declaration
    return KnownScore(name, "generation", declared.direction, *found.range, declared.aggregate)


def _rubric(name: str) -> KnownScore | None:
    from ragbench.score.judge.rubric import load_rubric

    try:
        found = load_rubric(name)
    except RagbenchError:
        return None
    return KnownScore(found.name, "judge", found.direction, 0.0, 1.0, "mean")
