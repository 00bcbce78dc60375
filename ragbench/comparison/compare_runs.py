"""Compare the systems of several runs, or of one: `ragbench.comparison/1` with all its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

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
from ragbench.types import Run, ScoreColumn

_LETTERS = "abcdefghijklmnoprstuvwxyz"  # without q, which has no superscript in most fonts
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
DEPTH = 5
"""How many documents of a ranking are shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """One of the systems that are compared."""

    letter: str
    """Stands for it in marks: `a`, `b`, and after `z` `a1`."""
    label: str
    """Unlike that of any other row: `bm25`, or `bm25 (runs/new)`."""
    source: int
    """The number of its source; 0 is the base."""
    group: str
    """What it is compared with has the same group: the name of the system in the base."""
    scores: SystemScores
    """Its columns of the measures and over the queries that are compared, under its own name."""


def rows_of(met: Met) -> list[Row]:
    """Name the systems, those that are compared with each other side by side."""
    found = [
        (group, place, _compared(met.sources[place].systems[name], met))
        for group, names in met.groups.items()
        for place, name in enumerate(names)
        if name is not None
    ]
    having = [tuple(system.columns) for _, _, system in found]
    # those with the same measures stand together, so that the letters of a table have no gaps
    kinds = [names for names in dict.fromkeys(having) if names]
    found = [f for kind in kinds for f, names in zip(found, having, strict=True) if names == kind]
    names = [system.name for _, _, system in found]
    tails = short_names([source.source for source in met.sources])
    labels = [
        system.name if names.count(system.name) == 1 else f"{system.name} ({tails[place]})"
        for _, place, system in found
    ]
    return [
        Row(_letter(i), label, place, group, system)
        for i, (label, (group, place, system)) in enumerate(zip(labels, found, strict=True))
    ]


def _compared(system: SystemScores, met: Met) -> SystemScores:
    columns = system.columns
    return replace(system, columns={m: columns[m] for m in met.measures if m in columns})


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


def _letter(i: int) -> str:
    turn, place = divmod(i, len(_LETTERS))
    return f"{_LETTERS[place]}{turn or ''}"


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
    found = compare_systems(systems, "0" if several else base.baseline, method, clusters, tested)
    return ComparedRuns(
        baseline=base.source if several else base.baseline,
        **asdict(method),
        measures=tuple(_whole(family, rows, met, tested) for family in found.measures),
        sources=tuple(source.source for source in met.sources),
        queries=len(base.query_ids),
        left_out=dict(met.left_out),
        differing=dict(met.differing),
        systems=tuple(_described(row, met, method, clusters) for row in rows),
        notes=met.notes,
    )


def _relabelled(row: Row, met: Met) -> SystemScores:
    """The row as `compare_systems` pairs it: sources are its retrievers, groups its generators."""
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


def _whole(
    family: MeasureComparison, rows: Sequence[Row], met: Met, tested: TestedPairs
) -> MeasureComparison:
    name, query_ids = family.measure, met.sources[0].query_ids
    having = {row.label: row.scores.columns[name] for row in rows if name in row.scores.columns}
    better = better_than(having, tested.of(name), tested.method.confidence)

    def with_failed(made: Difference) -> Difference:
        pairs = PairedScores(having[made.system], having[made.baseline], query_ids)
        return replace(made, n_failed=int(pairs.failed.sum()))

    return replace(
        family,
        better_than={system: tuple(others) for system, others in better.items()},
        comparisons=tuple(map(with_failed, family.comparisons)),
    )


def _described(
    row: Row, met: Met, method: Method, clusters: Sequence[str] | None
) -> ComparedSystem:
    return ComparedSystem(
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


def with_changes(found: ComparedRuns, met: Met) -> ComparedRuns:
    """Add what run folders tell beyond scores: what changed in config and data, and in causes.

    What has no config, such as a baseline file, is not said to have changed.
    """
    folders = (source.folder for source in met.sources)
    facts = [
        read_facts(folder) if folder is not None and (folder / CONFIG_FILE).is_file() else None
        for folder in folders
    ]
    first = facts[0]
    runs = tuple(
        RunSince(
            source=source.source,
            started=own.manifest.started,
            commit=own.manifest.commit,
            changed=() if own is first else changes(first, own),
        )
        for source, own in zip(met.sources, facts, strict=True)
        if first is not None and own is not None
    )
    flows = tuple(_flows(found, met))
    asked = _questions(met)
    moved = dict.fromkeys(q for flow in flows for move in flow.moves for q in move.queries)
    questions = {query: text for query in moved if (text := asked(query))}
    return replace(found, runs=runs, causes=flows, questions=questions)


def _flows(found: ComparedRuns, met: Met) -> Iterator[CauseFlow]:
    """From which cause to which the queries moved, for each comparison of run folders."""
    by_label = {row.label: row for row in rows_of(met)}
    folders = (source.folder for source in met.sources)
    causes = [{} if folder is None else read_causes(folder / CAUSES_FILE) for folder in folders]
    made = (c for family in found.measures for c in family.comparisons)
    for system, baseline in dict.fromkeys((c.system, c.baseline) for c in made):
        after, before = (
            causes[row.source].get(row.scores.name, {})
            for row in (by_label[system], by_label[baseline])
        )
        ids = [query for query in met.sources[0].query_ids if query in before and query in after]
        if ids:
            old, new = [before[query].cause for query in ids], [after[query].cause for query in ids]
            yield flow_of(system, baseline, old, new, ids)


def pairs_of(
    comparison: Comparisons, met: Met, measure: str, clusters: Sequence[str] | None = None
) -> Iterator[tuple[Row, Row, PairedScores]]:
    """Yield (system, baseline, both columns) for each comparison of a measure."""
    by_label = {row.label: row for row in rows_of(met)}
    family = comparison.measure(measure)
    for made in () if family is None else family.comparisons:
        system, base = by_label[made.system], by_label[made.baseline]
        columns = (system.scores.columns[measure], base.scores.columns[measure])
        yield system, base, PairedScores(*columns, met.sources[0].query_ids, clusters)


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
    found: dict[str, list[str]] = {name: [] for name in names}
    if len(names) < 2 or next(iter(columns.values())).aggregate == "sum":
        return found
    up = columns[names[0]].direction == "higher"
    tests = zip(pairs.first, pairs.second, pairs.differences.T, pairs.p_values, strict=True)
    for first, second, d, p in tests:
        if p <= 1 - confidence:
            x, y = names[first], names[second]
            winner, loser = (x, y) if (np.nansum(d) > 0) == up else (y, x)
            found[winner].append(loser)
    return {name: sorted(others, key=names.index) for name, others in found.items()}


def moved_most(comparison: Comparisons, met: Met, measure: str, n: int) -> tuple[MovedQueries, ...]:
    """Find, for each comparison of a measure, the `n` queries that moved most, up or down."""
    readers: dict[Path, Run] = {}
    asked = _questions(met)
    found = []
    for system, base, pairs in pairs_of(comparison, met, measure):
        d = pairs.differences()
        rankings = [met.sources[row.source].rankings.get(row.scores.name) for row in (system, base)]
        found.append(
            MovedQueries(
                measure=measure,
                system=system.label,
                baseline=base.label,
                up=int(np.count_nonzero(d > 0)),
                down=int(np.count_nonzero(d < 0)),
                same=int(np.count_nonzero(d == 0)),
                queries=tuple(
                    replace(query, question=asked(query.query_id))
                    for query in _queries(pairs, n, rankings, readers)
                ),
            )
        )
    return tuple(found)


def _questions(met: Met) -> Callable[[str], str]:
    """What gives the text of a query: the first run folder that has its questions."""
    folders = [source.folder for source in met.sources if source.folder is not None]
    found = [Lines(folder / QUESTIONS_FILE) for folder in folders]

    def asked(query: str) -> str:
        rows = (row for lines in found for row in lines.read(QuestionRow, query))
        return next((row.question for row in rows), "")

    return asked


def _queries(
    pairs: PairedScores, n: int, files: list[Path | None], readers: dict[Path, Run]
) -> Iterator[MovedQuery]:
    d = np.nan_to_num(pairs.differences())
    order = np.argsort(-np.abs(d), kind="stable")[:n]
    for row in order[d[order] != 0].tolist():
        query = pairs.query_ids[row]
        first, second = (_top(file, query, readers) for file in files)
        yield MovedQuery(
            query_id=query,
            score=float(pairs.system.values[row]),
            baseline_score=float(pairs.baseline.values[row]),
            difference=float(pairs.system.values[row] - pairs.baseline.values[row]),
            ranking=first,
            baseline_ranking=second,
        )


def _top(file: Path | None, query: str, readers: dict[Path, Run]) -> tuple[str, ...] | None:
    """The first documents of a query; None where no rankings are at hand."""
    if file is None:
        return None
    if file not in readers:
        readers[file] = read_run(file)
    return tuple(document for document, _ in readers[file].ranking(query)[:DEPTH])
