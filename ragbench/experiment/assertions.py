"""What the assertions of the pytest plug-in decide, and the words in which they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.comparison.evaluate import evaluate_run
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import pair_scores
from ragbench.comparison.sources import HasRunFolder, ScoredSystems, Source, read_scored
from ragbench.data.runs.baseline import write_baseline
from ragbench.data.runs.run_scores import read_run_scores
from ragbench.errors import DataError
from ragbench.gates.base import Decision
from ragbench.gates.drop import decide_drop
from ragbench.gates.limit import decide_score
from ragbench.gates.scores import find_score
from ragbench.registry import nearest
from ragbench.report.digits import printable, significant


@dataclass(frozen=True, slots=True)
class Finding:
    """One measure of one system, decided."""

    subject: str
    """What was asked: `ndcg@10 of bm25 drop <= 0.05 against main.json`."""
    found: Decision
    """What the data say."""

    def __str__(self) -> str:
        """Write the verdict with its interval, and the queries that lost most below it."""
        head = f"{self.subject}: {self.found.verdict}: {self.found.why}"
        return "\n".join([head, *worst_lines(self.found.facts)])


def worst_lines(facts: Mapping[str, Any]) -> list[str]:
    """Write the queries that lost most as an aligned table; nothing where none did."""
    worst = facts.get("worst_queries") or ()
    if not worst:
        return []
    rows = [("query", "score", "baseline")]
    rows += [
        (printable(row["query_id"]), significant(row["score"]), significant(row["baseline"]))
        for row in worst
    ]
    width = max(len(query) for query, _, _ in rows)
    return [f"  {query:{width}}  {score:>6}  {before}" for query, score, before in rows]


def find_retrieval(
    run: Any, qrels: Any, at_least: Mapping[str, float], *, decide: str = "mean"
) -> list[Finding]:
    """Hold the measures of one run against their limits.

    Args:
        run: Rankings, as `evaluate_run` takes them.
        qrels: Judgements, as `evaluate_run` takes them.
        at_least: Measure -> smallest value.
        decide: `mean`, or `interval` for the lower end of the interval.
    """
    evaluation = evaluate_run(run, qrels, list(at_least))
    return [
        Finding(
            f"{name} >= {least:g}",
            decide_score(
                evaluation.columns[name],
                least=least,
                decide="interval" if decide == "interval" else "mean",
            ),
        )
        for name, least in at_least.items()
    ]


def find_not_worse(
    now: Source,
    baseline: Source,
    measures: Mapping[str, float],
    *,
    system: str | None = None,
    method: Method | None = None,
) -> list[Finding]:
    """Compare the systems of a run with those of the same name in a baseline, by rule G.

    Args:
        now: An experiment, a run folder, or what `evaluate_run` returns.
        baseline: The same, or a baseline file.
        measures: Measure -> largest drop.
        system: Only this one.
        method: Confidence and resampling.

    Raises:
        DataError: Nothing to compare, or it may not be compared.
    """
    run, base = read_scored(now), read_scored(baseline)
    findings = []
    for name, other in _matches(run, base, system):
        for measure, max_drop in measures.items():
            score = _score(measure, run, name)
            theirs = _score(measure, base, other)
            pairs = pair_scores(
                (run, run.systems[name], score), (base, base.systems[other], theirs)
            )
            subject = f"{measure} of {name} drop <= {max_drop:g} against {base.source}"
            findings.append(Finding(subject, decide_drop(pairs, max_drop, method or Method())))
    return findings


def keep_baseline(now: Source, path: str, *, costs: bool = False) -> None:
    """Write a run as the baseline file that later runs are compared with, if asked with costs.

    Raises:
        DataError: Nothing was scored, or the file cannot be written.
    """
    folder = now.path if isinstance(now, HasRunFolder) else now
    if not isinstance(folder, (str, Path)):
        found = f"a baseline of {type(now).__name__}"
        raise DataError(found, file=path, allowed="an experiment, or a run folder")
    write_baseline(path, read_run_scores(folder), costs=costs)


def _matches(
    run: ScoredSystems, base: ScoredSystems, system: str | None
) -> Sequence[tuple[str, str]]:
    """Systems of one name, or one system on each side."""
    if system is None and len(run.systems) == len(base.systems) == 1:
        return [(next(iter(run.systems)), next(iter(base.systems)))]
    names = [name for name in run.systems if name in base.systems and system in (None, name)]
    if not names:
        wanted = f"'{system}'" if system else "in common"
        allowed = ", ".join(base.systems)
        close = nearest(system, list(base.systems)) if system else None
        raise DataError(f"no system {wanted}", file=base.source, allowed=allowed, nearest=close)
    return [(name, name) for name in names]


def _score(measure: str, source: ScoredSystems, system: str) -> str:
    names = list(source.systems[system].columns)
    found = find_score(measure, names)
    if found is None:
        raise DataError(
            f"system '{system}' has no '{measure}'",
            file=source.source,
            allowed=", ".join(names),
            nearest=nearest(measure, names),
        )
    return found
