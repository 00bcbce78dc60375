"""What the assertions of the pytest plug-in decide: limits and drops without a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.comparison.evaluate import evaluate_run
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import pair_scores
from ragbench.comparison.sources import ScoredSystems, Source, read_scored
from ragbench.errors import DataError
from ragbench.gates.base import Decide, Decision
from ragbench.gates.change import score_in
from ragbench.gates.drop import Drop
from ragbench.gates.limit import Limit
from ragbench.registry import nearest

Finding = tuple[str, Decision]
"""What was asked, `ndcg@10 of bm25 drop <= 0.05 against main.json`, and what the data say."""


def find_retrieval(
    run: Any, qrels: Any, at_least: Mapping[str, float], *, decide: str = "mean"
) -> list[Finding]:
    """Hold the measures of one run against their limits: measure -> smallest value."""
    columns = evaluate_run(run, qrels, list(at_least)).columns
    by: Decide = "interval" if decide == "interval" else "mean"
    gates = [Limit(measure=name, min=least, decide=by) for name, least in at_least.items()]
    return [
        (f"{gate.measure} >= {gate.limit:g}", gate.decide_column(columns[gate.measure]))
        for gate in gates
    ]


def find_not_worse(
    now: Source,
    baseline: Source,
    measures: Mapping[str, float],
    *,
    system: str | None = None,
    method: Method | None = None,
) -> list[Finding]:
    """Hold systems against those of the same name by `max_drop`; `measures` has the margins."""
    run, base = read_scored(now), read_scored(baseline)
    findings = []
    for name, other in _matches(run, base, system):
        for measure, max_drop in measures.items():
            pairs = pair_scores(
                (run, run.systems[name], score_in(run, name, measure)),
                (base, base.systems[other], score_in(base, other, measure)),
            )
            gate = Drop(measure=measure, max_drop=max_drop)
            subject = f"{measure} of {name} drop <= {max_drop:g} against {base.source}"
            findings.append((subject, gate.decide_pairs(pairs, method or Method())))
    return findings


def _matches(
    run: ScoredSystems, base: ScoredSystems, system: str | None
) -> Sequence[tuple[str, str]]:
    if system is None and len(run.systems) == len(base.systems) == 1:
        return [(next(iter(run.systems)), next(iter(base.systems)))]
    names = [name for name in run.systems if name in base.systems and system in (None, name)]
    if not names:
        wanted = f"'{system}'" if system else "in common"
        allowed = ", ".join(base.systems)
        close = nearest(system, list(base.systems)) if system else None
        raise DataError(f"no system {wanted}", file=base.source, allowed=allowed, nearest=close)
    return [(name, name) for name in names]
