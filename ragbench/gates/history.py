"""What a history adds to `max_drop`: evidence of a drop that no single commit shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragbench.comparison.method import Method, look_of
from ragbench.comparison.pairs import PairedScores, Scored, at_least, pair_scores
from ragbench.comparison.sources import ScoredSystems, from_history
from ragbench.data.runs.history import is_history
from ragbench.gates.base import Decision
from ragbench.records.gate import Evidence
from ragbench.stats import drop_evidence
from ragbench.types import FloatArray


def is_absent(file: Path) -> bool:
    """Tell whether a file is a history that no run has started yet."""
    return is_history(file) and not (file.exists() and file.stat().st_size)


def history_before(base: ScoredSystems, run_id: str) -> ScoredSystems:
    """Return a history without a run and all later ones, so that no run is its own evidence."""
    ids = [commit.run_id for commit in base.commits]
    if not run_id or run_id not in ids:
        return base
    earlier = base.commits[: ids.index(run_id)]
    return from_history(base.source, earlier) if earlier else replace(base, commits=())


def add_evidence(
    found: Decision, pairs: PairedScores, record: Scored, max_drop: float, method: Method
) -> Decision:
    """Return what was decided of a run and the record, with the evidence of all commits since.

    Evidence can only fail a run: if the e-value shows a drop and the run itself is not back within
    the margin. If queries failed that could bring the e-value below the limit, it is undecided.
    """
    if not math.isfinite(pairs.range[1] - pairs.range[0]):
        return replace(found, why=f"{found.why}; no evidence adds up, as the score has no bound")
    since, *commits = _having(record)
    earlier = [_differences(pair_scores(commit, record), pairs.query_ids) for commit in commits]

    def weigh(newest: FloatArray) -> tuple[Evidence, bool]:
        evidence = _weigh([*earlier, newest], pairs, max_drop, method, since[0].run_id)
        known = newest[~np.isnan(newest)]
        is_back = not known.size or at_least(known.mean(keepdims=True), -max_drop)[0]
        return evidence, evidence.e >= evidence.fails_from and not is_back

    evidence, is_shown = weigh(pairs.differences())
    words = _shown(evidence)
    if not is_shown or found.verdict == "fail":
        return replace(found, why=f"{found.why}; {words}", evidence=evidence)
    why = f"{words}: a drop by more than {max_drop:g}; this run: {found.why}"
    if pairs.failed.any() and not weigh(pairs.with_failed("best"))[1]:
        turned = f"failures on {int(pairs.failed.sum())} queries could turn fail"
        why = f"{turned}; without them: {why}"
        return replace(found, verdict="undecided", why=why, evidence=evidence)
    return replace(found, verdict="fail", why=why, evidence=evidence, power=None)


def _having(record: Scored) -> list[Scored]:
    """The commits that have a score of a system, the oldest, its record, first."""
    base, system, score = record
    return [
        (commit, commit.systems[system.name], score)
        for commit in base.commits
        if system.name in commit.systems and score in commit.systems[system.name].columns
    ]


def _differences(pairs: PairedScores, query_ids: Sequence[str]) -> FloatArray:
    """The differences in the order of the run's queries; none where the judge stops early."""
    if look_of(pairs.system, pairs.baseline) is not None:
        return np.full(len(query_ids), np.nan)  # whom it leaves out depends on the scores
    found = dict(zip(pairs.query_ids, pairs.differences().tolist(), strict=True))
    return np.array([found.get(query, math.nan) for query in query_ids])


def _weigh(
    differences: Sequence[FloatArray],
    pairs: PairedScores,
    max_drop: float,
    method: Method,
    since: str,
) -> Evidence:
    *earlier, newest = differences
    if look_of(pairs.system, pairs.baseline) is not None:
        newest = np.full(len(newest), np.nan)
    found = drop_evidence(
        np.array([*earlier, newest]),
        max_drop,
        range=pairs.range,
        clusters=None if pairs.clusters is None else np.asarray(pairs.clusters),
        confidence=method.confidence,
    )
    return Evidence(
        e=found.e,
        fails_from=found.fails_from,
        commits=len(differences),
        changed=found.n_commits,
        since=since,
    )


def _shown(evidence: Evidence) -> str:
    n, changed = evidence.commits, evidence.changed
    commits = f"{n} commit{'s' if n > 1 else ''}"
    of_them = f" ({changed} changed scores)" if changed < n else ""
    limit = f"fails from {evidence.fails_from:.3g}"
    return (
        f"evidence over {commits}{of_them} since {evidence.since}: e = {evidence.e:.3g} ({limit})"
    )
