"""`--fail-if 'ndcg@10 drop > 0.01'`: the gate `max_drop` over every comparison of a measure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragbench.comparison.comparable import Met
from ragbench.comparison.compare_runs import pairs_of
from ragbench.comparison.method import Method
from ragbench.comparison.sources import ScoredSystems
from ragbench.errors import OptionError
from ragbench.gates.base import Decision
from ragbench.gates.drop import Drop
from ragbench.records.codec import to_json
from ragbench.records.comparison import ComparedGate, Comparisons

_FORM = re.compile(r"\s*(?P<measure>\S.*?)\s+drop\s*>\s*(?P<margin>\S+)\s*")
ALLOWED = "MEASURE drop > NUMBER, such as 'ndcg@10 drop > 0.01'"


@dataclass(frozen=True, slots=True)
class FailIf:
    """A drop that is not allowed."""

    text: str
    """As the user wrote it."""
    gate: Drop
    """The gate that it means."""

    @classmethod
    def parse(cls, text: str) -> FailIf:
        """Read a condition.

        Example:
            >>> FailIf.parse("ndcg@10 drop > 0.01").gate.text
            'ndcg@10 drop <= 0.01'
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise OptionError("fail_if", "", text, ALLOWED)
        try:
            margin = float(match["margin"])
        except ValueError:
            margin = math.nan
        if not 0 <= margin < math.inf:
            allowed = "a number from 0 on: a share of 1, not percent"
            raise OptionError("fail_if", "drop >", match["margin"], allowed)
        return cls(text, Drop(measure=match["measure"], max_drop=margin))


def why_skipped(condition: FailIf, sources: Sequence[ScoredSystems]) -> str | None:
    """Say which run skipped the judge that a condition is about; None where none did."""
    name = condition.gate.measure
    judged = any(
        system.kinds.get(name) == "judge"
        for source in sources
        for system in source.systems.values()
    )
    for source in sources:
        skipped = None if source.summary is None else source.summary.skipped_judges
        has_it = any(name in system.columns for system in source.systems.values())
        if judged and skipped and not has_it:
            reasons = "; ".join(f"{judge}: {why}" for judge, why in skipped.items())
            return f"a judge was skipped in {source.source}: {reasons}"
    return None


def undecided(condition: FailIf, why: str) -> ComparedGate:
    """Return the verdict on a condition whose measure was not computed."""
    return _entry(condition, condition.gate.measure, Decision("undecided", why))


def decide_all(
    conditions: Sequence[tuple[FailIf, str]],
    comparison: Comparisons,
    met: Met,
    method: Method,
    clusters: Sequence[str] | None = None,
) -> Iterator[ComparedGate]:
    """Decide each condition, with the name of its measure, for each system that is compared by it.

    The method is that of the comparison, so that the interval that decides is the one printed.
    """
    for condition, measure in conditions:
        compared = list(pairs_of(comparison, met, measure, clusters))
        if not compared:
            yield undecided(condition, f"no two systems are compared by {measure}")
        for system, base, pairs in compared:
            found = condition.gate.decide_pairs(pairs, method)
            yield _entry(condition, measure, found, system.label, base.label)


def _entry(
    condition: FailIf,
    measure: str,
    found: Decision,
    system: str | None = None,
    baseline: str | None = None,
) -> ComparedGate:
    return ComparedGate(
        gate=condition.text,
        system=system,
        baseline=baseline,
        measure=measure,
        max_drop=condition.gate.max_drop,
        verdict=found.verdict,
        why=found.why,
        facts={**found.facts, **({} if found.power is None else to_json(found.power))},
    )
