"""Compare the systems of several runs, or of one: `ragbench.comparison/1` with all its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache

import numpy as np

from ragbench.comparison.causes import flow_of
from ragbench.comparison.differences import TestedPairs, compare_systems
from ragbench.comparison.matching import Met
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.systems import summarize
from ragbench.data.files.trec_files import read_run
from ragbench.data.runs.query_view import QUESTIONS_FILE
from ragbench.data.runs.run_lines import CAUSES_FILE, Lines, read_causes
from ragbench.data.runs.run_list import CONFIG_FILE, changes, read_facts
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.records.causes import CauseFlow
from ragbench.records.comparison import (
    ComparedRuns,
    ComparedSystem,
    Comparisons,
    Difference,
    MeasureComparison,
    MovedQueries,
    MovedQuery,
    RunSince,
)
from ragbench.records.manifest import QuestionRow
from ragbench.stats.multiple_comparisons import SystemPairs
from ragbench.types import ScoreColumn

_LETTERS = "abcdefghijklmnoprstuvwxyz"  # without q, which has no superscript in most fonts
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
# How many documents of a ranking are shown.
DEPTH = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A system that is compared, with the marks of tables.

    Attributes:
        letter: Stands for it in marks: `a`, `b`, and after `z` `a1`.
        label: Unlike that of any other row: `bm25`, or `bm25 (runs/new)`.
        source: The number of its source; 0 is the base.
        group: What it is compared with has the same group: the name of the system in the base.
        scores: The columns of the compared measures, over the compared queries, under the system's
            name.
    """

    letter: str
    label: str
    source: int
    group: str
    scores: SystemScores


def rows_of(met: Met) -> list[Row]:
    """Name the systems, those that are compared with each other side by side."""
    places = [
        (group, place, met.sources[place].systems[name])
        for group, names in met.groups.items()
        for place, name in enumerate(names)
        if name is not None
    ]
    columns = [
        {name: system.columns[name] for name in met.measures if name in system.columns}
        for _, _, system in places
    ]
    # those with the same measures stand together, so that the letters of a table have no gaps
    kinds = list(dict.fromkeys(map(tuple, columns)))
    order = [row for kind in kinds if kind for row, c in enumerate(columns) if tuple(c) == kind]
    names = [places[row][2].name for row in order]
    tails = short_names([source.source for source in met.sources])
    rows = []
    for i, row in enumerate(order):
        group, place, system = places[row]
        turn, letter = divmod(i, len(_LETTERS))
        is_unique = names.count(system.name) == 1
        rows.append(
            Row(
                letter=f"{_LETTERS[letter]}{turn or ''}",
                label=system.name if is_unique else f"{system.name} ({tails[place]})",
                source=place,
                group=group,
                scores=replace(system, columns=columns[row]),
            )
        )
    return rows


def short_names(sources: Sequence[str]) -> list[str]:
    """Cut paths to as many of their last parts as tell them apart; number what is the same.

    Run folders of one day go without it.

    Example:
        >>> short_names(["runs/a/20261122-183350-2371", "runs/a/20261122-190412-1ce2"])
        ['183350-2371', '190412-1ce2']
    """
    parts = [source.replace("\\", "/").rstrip("/").split("/") for source in sources]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            days = {name[:9] if _RUN_ID.fullmatch(name) else name for name in names}
            return [name[9:] for name in names] if len(days) == 1 < len(names) else names
    return [f"{source} #{place}" for place, source in enumerate(sources, start=1)]


def compare_met(met: Met, method: Method, clusters: Sequence[str] | None = None) -> ComparedRuns:
    """Compare the systems of sources that may be compared.

    Each system of a run is compared with that of the base; within one source, each with the
    source's baseline. The family of a measure are these comparisons. Which of all rows is better
    than which is tested by max-T over all pairs.
    """
    rows = rows_of(met)
    systems = [_relabelled(row, met) for row in rows]
    base, several = met.sources[0], len(met.sources) > 1
    tested = TestedPairs(systems, method, clusters)
    baseline = "0" if several else base.baseline
    comparisons = compare_systems(systems, baseline, method, clusters, tested)
    return ComparedRuns(
        baseline=base.source if several else base.baseline,
        **asdict(method),
        measures=tuple(_with_all_pairs(f, rows, met, tested) for f in comparisons.measures),
        sources=tuple(source.source for source in met.sources),
        queries=len(base.query_ids),
        left_out=dict(met.left_out),
        differing=dict(met.differing),
        systems=tuple(
            ComparedSystem(
                name=row.label,
                letter=row.letter,
                system=row.scores.name,
                source=met.sources[row.source].source,
                retriever=row.scores.retriever,
                generator=row.scores.generator,
                scores={
                    name: summarize(column, confidence=method.confidence, clusters=clusters)
                    for name, column in row.scores.columns.items()
                },
            )
            for row in rows
        ),
        notes=met.notes,
    )


def _relabelled(row: Row, met: Met) -> SystemScores:
    """Return the row as `compare_systems` pairs it: sources as retrievers, groups as generators."""
    if len(met.sources) == 1:
        return row.scores
    return replace(
        row.scores,
        name=row.label,
        retriever=str(row.source),
        generator=row.group,
        # an app or a control is compared with its like: that it is one says nothing here
        role="system",
    )


def _with_all_pairs(
    family: MeasureComparison, rows: Sequence[Row], met: Met, tested: TestedPairs
) -> MeasureComparison:
    """Return the comparisons of a measure with the tests of all pairs, and failures counted."""
    name, query_ids = family.measure, met.sources[0].query_ids
    columns = {row.label: row.scores.columns[name] for row in rows if name in row.scores.columns}
    better = better_than(columns, tested.of(name), tested.method.confidence)

    def with_failed(difference: Difference) -> Difference:
        system, baseline = columns[difference.system], columns[difference.baseline]
        n_failed = int(PairedScores(system, baseline, query_ids).failed.sum())
        return replace(difference, n_failed=n_failed)

    return replace(
        family,
        better_than={system: tuple(worse) for system, worse in better.items()},
        comparisons=tuple(map(with_failed, family.comparisons)),
    )


def with_changes(compared: ComparedRuns, met: Met) -> ComparedRuns:
    """Add what run folders tell beyond scores: what changed in config and data, and in causes.

    A source without a config, such as a baseline file, is not said to have changed.
    """
    folders = [source.folder for source in met.sources]
    facts = [
        read_facts(folder) if folder is not None and (folder / CONFIG_FILE).is_file() else None
        for folder in folders
    ]
    first = facts[0]
    runs = tuple(
        RunSince(
            source=source.source,
            started=run.manifest.started,
            commit=run.manifest.commit,
            changed=() if run is first else changes(first, run),
        )
        for source, run in zip(met.sources, facts, strict=True)
        if first is not None and run is not None
    )
    flows = tuple(_flows(compared, met))
    question_of = _questions(met)
    moved = dict.fromkeys(q for flow in flows for move in flow.moves for q in move.queries)
    questions = {query: text for query in moved if (text := question_of(query))}
    return replace(compared, runs=runs, causes=flows, questions=questions)


def _flows(compared: ComparedRuns, met: Met) -> Iterator[CauseFlow]:
    """Yield the moves of queries between causes, for each comparison of run folders."""
    rows = {row.label: row for row in rows_of(met)}
    causes = [
        {} if source.folder is None else read_causes(source.folder / CAUSES_FILE)
        for source in met.sources
    ]
    pairs = ((c.system, c.baseline) for family in compared.measures for c in family.comparisons)
    for system, baseline in dict.fromkeys(pairs):
        new, old = (
            causes[row.source].get(row.scores.name, {}) for row in (rows[system], rows[baseline])
        )
        ids = [query for query in met.sources[0].query_ids if query in old and query in new]
        if ids:
            before, after = ([side[query].cause for query in ids] for side in (old, new))
            yield flow_of(system, baseline, before, after, ids)


def pairs_of(
    comparison: Comparisons, met: Met, measure: str, clusters: Sequence[str] | None = None
) -> Iterator[tuple[Row, Row, PairedScores]]:
    """Yield (system, baseline, both columns) for each comparison of a measure."""
    rows = {row.label: row for row in rows_of(met)}
    family = comparison.measure(measure)
    for difference in () if family is None else family.comparisons:
        pair = rows[difference.system], rows[difference.baseline]
        system, baseline = (row.scores.columns[measure] for row in pair)
        yield *pair, PairedScores(system, baseline, met.sources[0].query_ids, clusters)


def better_than(
    columns: Mapping[str, ScoreColumn], pairs: SystemPairs, confidence: float = 0.95
) -> dict[str, list[str]]:
    """Name, for each system, those that it is significantly better than.

    Tests all pairs of systems as one family by step-down max-T, as the marks in tables of
    papers do. `better` obeys the direction of the measure. A count that is summed is not tested.

    Example:
        >>> from ragbench.signature import Signature
        >>> column = lambda x: ScoreColumn(
        ...     "mrr", np.full(12, x), np.zeros(12, np.uint8), Signature("mrr"))
        >>> pairs = SystemPairs([[0.5, 0.75]] * 12)
        >>> better_than({"bm25": column(0.5), "dense": column(0.75)}, pairs)
        {'bm25': [], 'dense': ['bm25']}
    """
    names = list(columns)
    worse: dict[str, list[str]] = {name: [] for name in names}
    if len(names) < 2 or next(iter(columns.values())).aggregate == "sum":
        return worse
    up = columns[names[0]].direction == "higher"
    tests = zip(pairs.first, pairs.second, pairs.differences.T, pairs.p_values, strict=True)
    for first, second, d, p in tests:
        if p <= 1 - confidence:
            x, y = names[first], names[second]
            winner, loser = (x, y) if (np.nansum(d) > 0) == up else (y, x)
            worse[winner].append(loser)
    return {name: sorted(losers, key=names.index) for name, losers in worse.items()}


def moved_most(comparison: Comparisons, met: Met, measure: str, n: int) -> tuple[MovedQueries, ...]:
    """Return, for each comparison of a measure, the `n` queries that moved most, up or down."""
    read, question_of = cache(read_run), _questions(met)

    def top(row: Row, query: str) -> tuple[str, ...] | None:
        """Return the first documents of a query; None if no rankings are at hand."""
        file = met.sources[row.source].rankings.get(row.scores.name)
        if file is None:
            return None
        return tuple(document for document, _ in read(file).ranking(query)[:DEPTH])

    moved = []
    for system, baseline, pairs in pairs_of(comparison, met, measure):
        d = pairs.gains
        order = np.argsort(-np.abs(np.nan_to_num(d)), kind="stable")[:n]
        queries = []
        for position in order[np.nan_to_num(d)[order] != 0].tolist():
            query = pairs.query_ids[position]
            score, before = (c.values[position] for c in (pairs.system, pairs.baseline))
            queries.append(
                MovedQuery(
                    query_id=query,
                    score=float(score),
                    baseline_score=float(before),
                    difference=float(score - before),
                    question=question_of(query),
                    ranking=top(system, query),
                    baseline_ranking=top(baseline, query),
                )
            )
        moved.append(
            MovedQueries(
                measure=measure,
                system=system.label,
                baseline=baseline.label,
                up=int(np.count_nonzero(d > 0)),
                down=int(np.count_nonzero(d < 0)),
                same=int(np.count_nonzero(d == 0)),
                queries=tuple(queries),
            )
        )
    return tuple(moved)


def _questions(met: Met) -> Callable[[str], str]:
    """Return a function from a query to its text, by the first run folder that has it."""
    folders = [source.folder for source in met.sources if source.folder is not None]
    files = [Lines(folder / QUESTIONS_FILE) for folder in folders]

    def question_of(query: str) -> str:
        rows = (row for lines in files for row in lines.read(QuestionRow, query))
        return next((row.question for row in rows), "")

    return question_of
