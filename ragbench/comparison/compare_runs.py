"""Comparison of the systems of several runs, or of one: the record `ragbench.comparison/1`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
from msgspec import structs

from ragbench.comparison.causes import flow_of
from ragbench.comparison.differences import compare_systems, doubtful_intervals
from ragbench.comparison.matching import QUERY_PARTS, Matching
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.systems import summarize
from ragbench.data.files.trec_files import read_run
from ragbench.data.runs.query_view import HITS_FOLDER, QUESTIONS_FILE
from ragbench.data.runs.run_lines import CAUSES_FILE, Lines, read_cause_rows
from ragbench.data.runs.run_list import CONFIG_FILE, RunFacts, changes, read_facts
from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.records.causes import AnswerCause, CauseFlow, CauseRow, Quantity
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
from ragbench.records.manifest import HitsRow, QuestionRow
from ragbench.stats.unpaired import FEWEST_WITHOUT_BOUND

# Letters of systems in tables; most fonts have no superscript q.
_LETTERS = "abcdefghijklmnoprstuvwxyz"
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
# Number of documents of each ranking beside a query that moved.
DEPTH = 5


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """System of a comparison, with its label and letter in tables; `compared_rows` returns them.

    Attributes:
        letter: Letter in marks of significance: `a`, `b` to `z` without `q`, then `a1`.
        label: Name that no other row has: `bm25`, or `bm25 (runs/new)`.
        source: Position of its source; 0 is the base.
        group: Its key in `Matching.groups`: mostly the name of the same system in the base.
        scores: System under its own name, with the columns of the compared measures only.
    """

    letter: str
    label: str
    source: int
    group: str
    scores: SystemScores


def compared_rows(matching: Matching) -> list[ComparedRow]:
    """Return a row for each system, those that are compared with each other side by side.

    Systems without any of the measures have no row. They are ordered by their set of measures, then
    by group and source; letters follow this order. Labels of systems of the same name end with the
    short name of their source.
    """
    # a table has the systems of the same measures: together, so that its letters have no gaps
    by_measures: dict[tuple[str, ...], list[tuple[str, int, SystemScores]]] = {}
    for group, names_of_group in matching.groups.items():
        for place, name in enumerate(names_of_group):
            if name is not None:
                system = matching.sources[place].systems[name]
                measures = tuple(m for m in matching.measures if m in system.columns)
                by_measures.setdefault(measures, []).append((group, place, system))
    by_measures.pop((), None)
    names = [system.name for _, _, system in chain.from_iterable(by_measures.values())]
    tails = short_names([source.source for source in matching.sources])
    rows = []
    for i, (group, place, system) in enumerate(chain.from_iterable(by_measures.values())):
        turn, letter = divmod(i, len(_LETTERS))
        columns = {}
        for m in matching.measures:
            if m in system.columns:
                columns[m] = system.columns[m]
        is_unique = names.count(system.name) == 1
        rows.append(
            ComparedRow(
                letter=f"{_LETTERS[letter]}{turn or ''}",
                label=system.name if is_unique else f"{system.name} ({tails[place]})",
                source=place,
                group=group,
                scores=replace(system, columns=columns),
            )
        )
    return rows


def short_names(sources: Sequence[str]) -> list[str]:
    """Return the shortest ends of paths that differ, in the order of the paths.

    Run folders of the same day are named without the date. If two paths are equal, all keep their
    full path and get a number: `path #1`, `path #2`. Without paths the list is empty.

    Example:
        >>> short_names(["runs/a/20261122-183350-2371", "runs/a/20261122-190412-1ce2"])
        ['183350-2371', '190412-1ce2']
        >>> short_names([])
        []
    """
    parts = []
    for source in sources:
        parts.append(source.replace("\\", "/").rstrip("/").split("/"))
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = []
        for part in parts:
            names.append("/".join(part[-length:]))
        if len(set(names)) == len(names):
            days = set()
            for name in names:
                days.add(name[:9] if _RUN_ID.fullmatch(name) else name)
            return [name[9:] for name in names] if len(days) == 1 < len(names) else names
    return _numbered(sources)


def unique_names(sources: Sequence[str]) -> list[str]:
    """Return the paths, with numbers as in `short_names` if two of them are equal."""
    return list(sources) if len(set(sources)) == len(sources) else _numbered(sources)


def _numbered(sources: Sequence[str]) -> list[str]:
    """Return `path #1`, `path #2` and so on, in the order of the paths."""
    return [f"{source} #{place}" for place, source in enumerate(sources, start=1)]


def compare_sources(
    matching: Matching, method: Method, clusters: Sequence[str] | None = None
) -> ComparedRuns:
    """Compare each system of a run with its system of the base, measure by measure.

    With one source, each system is compared with the source's baseline. All pairs of rows by one
    measure are a family, corrected by step-down max-T, whose decisions letters and verdicts share.
    Unpaired sources have one of the comparisons alone, corrected by Holm's procedure.

    Args:
        matching: Sources over the same queries.
        method: Interval and family; the test is by sign flips.
        clusters: Cluster label of each query; None if queries are units.

    Returns:
        The comparison with its systems, in the order of `compared_rows`, and by measure in the
        order of the matching. Its `baseline` is the base; of one source its own baseline. Changes,
        moves and questions are empty: `add_changes` adds them. Unpaired sources have no
        `better_than`.

    Raises:
        OptionError: An option of the method is not allowed for these data, or `clusters` are not
            one label per query.
    """
    rows = compared_rows(matching)
    systems = [_as_experiment(row, matching) for row in rows]
    base, several = matching.sources[0], len(matching.sources) > 1
    # the retriever of a row is its source: that of the base is 0, see `_as_experiment`
    baseline = "0" if several else base.baseline
    is_paired = not matching.unpaired
    comparisons = compare_systems(
        systems,
        baseline,
        # letters rest on sign flips, so that the p-values beside them do, too
        replace(method, test="randomization"),
        clusters,
        every_pair=is_paired,
        unpaired=matching.unpaired,
        # `match_sources` compared the queries themselves
        tolerated=QUERY_PARTS,
        user_systems=[row.label for row in rows if _is_users(row, matching)],
    )
    measures = comparisons.measures
    if is_paired:
        measures = tuple(_with_failed(family, rows, matching) for family in measures)
    facts = {key: getattr(comparisons, key) for key in asdict(method)}
    names = unique_names([source.source for source in matching.sources])
    sizes = [len(source.query_ids) for source in matching.sources]
    compared = [_summarize_row(row, matching, method, clusters) for row in rows]
    return ComparedRuns(
        baseline=base.source if several else base.baseline,
        **facts | ({} if is_paired else {"test": "unpaired", "resamples": None}),
        measures=measures,
        unpaired=dict(zip(names, sizes, strict=True)) if matching.unpaired else {},
        sources=tuple(source.source for source in matching.sources),
        queries=len(base.query_ids),
        left_out=dict(matching.left_out),
        differing=dict(matching.differing),
        systems=tuple(compared),
        notes=(
            *_source_notes(matching.sources),
            *matching.notes,
            *_notes_on_few(measures),
            *doubtful_intervals(measures),
        ),
    )


def _summarize_row(
    row: ComparedRow, matching: Matching, method: Method, clusters: Sequence[str] | None
) -> ComparedSystem:
    """Return the scores of a row, and the causes of its lost answers if queries are unpaired."""
    scores = {}
    for name, column in row.scores.columns.items():
        scores[name] = summarize(column, confidence=method.confidence, clusters=clusters)
    return ComparedSystem(
        name=row.label,
        letter=row.letter,
        system=row.scores.name,
        source=matching.sources[row.source].source,
        retriever=row.scores.retriever,
        generator=row.scores.generator,
        scores=scores,
        causes=_cause_counts(row, matching) if matching.unpaired else {},
    )


def _source_notes(sources: Sequence[ScoredSystems]) -> Iterator[str]:
    """Yield the notes of the sources, with their names; a note that all share comes without."""
    names: dict[str, list[str]] = {}
    for source in sources:
        for note in source.notes:
            names.setdefault(note, []).append(source.source)
    for note, owners in names.items():
        yield note if len(owners) == len(sources) else f"{', '.join(owners)}: {note}"


def _notes_on_few(measures: Sequence[MeasureComparison]) -> Iterator[str]:
    """Yield a note for each unpaired measure that has too few questions for a decision."""
    for family in measures:
        rows = family.comparisons
        if any(row.differs is False and row.p is None and row.n_baseline for row in rows):
            need = f"a score without a bound needs {FEWEST_WITHOUT_BOUND} of each system"
            yield f"{family.measure}: no difference shown: too few questions, {need}"


def _is_users(row: ComparedRow, matching: Matching) -> bool:
    """Return True if a row is a system of the user by the summary of its run."""
    summary = matching.sources[row.source].summary
    return summary is not None and row.scores.name in summary.user_systems


def _cause_counts(row: ComparedRow, matching: Matching) -> Mapping[AnswerCause, Quantity]:
    """Return cause -> number of queries of a row; {} if its source is no run folder."""
    summary = matching.sources[row.source].summary
    systems = () if summary is None else summary.systems
    for s in systems:
        if s.name == row.scores.name:
            return s.causes
    return {}


def _as_experiment(row: ComparedRow, matching: Matching) -> SystemScores:
    """Return the scores of a row as a system of one experiment with all rows."""
    # `compare_systems` pairs a system with that of the baseline retriever and the same generator:
    # the source stands for the retriever, the group for the generator, the label for the name.
    if len(matching.sources) == 1:
        return row.scores
    # apps and controls are compared with the same app or control of the base
    system = replace(row.scores, role="system", retriever=str(row.source), generator=row.group)
    return replace(system, name=row.label)


def _with_failed(
    family: MeasureComparison, rows: Sequence[ComparedRow], matching: Matching
) -> MeasureComparison:
    """Return the comparisons of a measure with the number of failed queries."""
    name, query_ids = family.measure, matching.sources[0].query_ids
    columns = {}
    for row in rows:
        if name in row.scores.columns:
            columns[row.label] = row.scores.columns[name]

    def with_failed(difference: Difference) -> Difference:
        """Return a difference with its number of failed queries."""
        system, baseline = columns[difference.system], columns[difference.baseline]
        n_failed = int(PairedScores(system, baseline, query_ids).failed.sum())
        return structs.replace(difference, n_failed=n_failed)

    return structs.replace(family, comparisons=tuple(map(with_failed, family.comparisons)))


def add_changes(compared: ComparedRuns, matching: Matching) -> ComparedRuns:
    """Add changes of config and data, moves between causes, and the questions of moved queries.

    They are read from the run folders. Changes of the config need the config of both sides, which
    a baseline file lacks.

    Raises:
        DataError: A run folder cannot be read.
    """
    # ids of different questions may be equal
    runs = tuple(_runs_since_base(matching))
    flows = () if matching.unpaired else tuple(_flows(compared, matching))
    question_of, questions = _questions(matching), {}
    queries: dict[str, None] = {}
    for flow in flows:
        queries.update(dict.fromkeys(flow.moved_queries()))
    for query in queries:
        if text := question_of(query):
            questions[query] = text
    return structs.replace(compared, runs=runs, causes=flows, questions=questions)


def _runs_since_base(matching: Matching) -> Iterator[RunSince]:
    """Yield the changes of each run folder since the base; none if the base has no config."""
    base: RunFacts | None = None
    for source in matching.sources:
        if source.folder is None or not (source.folder / CONFIG_FILE).is_file():
            if base is None:
                return
            continue
        run = read_facts(source.folder)
        yield RunSince(
            source=source.source,
            started=run.manifest.started,
            commit=run.manifest.commit,
            changed=() if base is None else changes(base, run),
            has_unseen=any(
                of.manifest.unseen or of.manifest.live for of in (run, base) if of is not None
            ),
        )
        base = run if base is None else base


def _flows(compared: ComparedRuns, matching: Matching) -> Iterator[CauseFlow]:
    """Yield the moves of queries between causes for each comparison; none without causes."""
    rows = {row.label: row for row in compared_rows(matching)}
    causes = list[Mapping[str, Mapping[str, Sequence[CauseRow]]]]()
    for source in matching.sources:
        folder = source.folder
        causes.append({} if folder is None else read_cause_rows(folder / CAUSES_FILE))

    def causes_of(row: ComparedRow) -> Mapping[str, Sequence[CauseRow]]:
        """Return query -> causes of the repetitions of a compared system."""
        return causes[row.source].get(row.scores.name, {})

    pairs: dict[tuple[str, str], None] = {}
    for family in compared.measures:
        for comparison in family.comparisons:
            pairs[comparison.system, comparison.baseline] = None
    # several measures compare the same two systems: their queries move once
    for system, baseline in pairs:
        old, new = causes_of(rows[baseline]), causes_of(rows[system])
        ids = []
        for query in matching.sources[0].query_ids:
            if query in old and query in new:
                ids.append(query)
        if ids:
            old_causes = []
            for query in ids:
                old_causes.append([row.cause for row in old[query]])
            new_causes = []
            for query in ids:
                new_causes.append([row.cause for row in new[query]])
            yield flow_of(system, baseline, old_causes, new_causes, ids)


def paired_rows(
    comparison: Comparisons, matching: Matching, measure: str, clusters: Sequence[str] | None = None
) -> Iterator[tuple[ComparedRow, ComparedRow, PairedScores]]:
    """Yield system, baseline and their paired scores for each comparison by a measure.

    `clusters` has the cluster label of each query; None if queries are units. A measure that was
    not compared yields nothing. `measure` and `names` of the scores are empty, `decision` is that
    of the comparison.
    """
    rows = {row.label: row for row in compared_rows(matching)}
    family = comparison.measure(measure)
    for difference in () if family is None else family.comparisons:
        pair = rows[difference.system], rows[difference.baseline]
        system, baseline = (row.scores.columns[measure] for row in pair)
        ids, changes = matching.sources[0].query_ids, matching.changes[pair[0].source]
        scores = PairedScores(system, baseline, ids, clusters, changes=changes, decision=difference)
        yield *pair, scores


def moved_most(
    comparison: Comparisons, matching: Matching, measure: str, n: int
) -> tuple[MovedQueries, ...]:
    """Return the `n` queries with the largest changes, up or down, for each comparison.

    They come with both scores, the question, and the first five documents of both rankings with the
    ranks of gold. Queries without a change, or without a score of both systems, are never among
    them. Largest change first; equal changes in the order of the queries. `up`, `down` and `same`
    count all queries with both scores; up is better, also where lower scores are. `difference` is
    score minus baseline. A measure that was not compared gives an empty tuple. Raises DataError if
    a file of a run cannot be read, IndexError if the sources are unpaired.
    """
    rankings, question_of = _Rankings(matching), _questions(matching)
    moved = []
    for system, baseline, pairs in paired_rows(comparison, matching, measure):
        d = pairs.gains
        # queries without a difference count as 0: they come last, and are dropped below
        order = np.argsort(-np.abs(np.nan_to_num(d)), kind="stable")[:n]
        queries = []
        for position in order[np.nan_to_num(d)[order] != 0].tolist():
            query = pairs.query_ids[position]
            score, baseline_score = (c.values[position] for c in (pairs.system, pairs.baseline))
            ranking, gold = rankings.first(system, query)
            baseline_ranking, baseline_gold = rankings.first(baseline, query)
            queries.append(
                MovedQuery(
                    query_id=query,
                    score=float(score),
                    baseline_score=float(baseline_score),
                    difference=float(score - baseline_score),
                    question=question_of(query),
                    ranking=ranking,
                    baseline_ranking=baseline_ranking,
                    gold=gold,
                    baseline_gold=baseline_gold,
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


class _Rankings:
    """First documents of the rankings of systems, each file read once; made from a matching."""

    def __init__(self, matching: Matching) -> None:
        self._sources = matching.sources
        self._read, self._lines = cache(read_run), cache(Lines)

    def first(self, row: ComparedRow, query: str) -> tuple[tuple[str, ...] | None, tuple[int, ...]]:
        """Return the first 5 documents of a query, best first, and the ranks of gold among them."""
        source = self._sources[row.source]
        file = source.rankings.get(row.scores.name)
        if file is None:
            return None, ()
        ranking = tuple(document for document, _ in self._read(file).ranking(query)[:DEPTH])
        gold = set() if source.folder is None else self._gold(source.folder, file, query)
        ranks = []
        for rank, name in enumerate(ranking, start=1):
            if name in gold:
                ranks.append(rank)
        return ranking, tuple(ranks)

    def _gold(self, folder: Path, file: Path, query: str) -> set[str]:
        """Return the documents of which a passage in a ranking meets gold."""
        stored = self._lines(folder / HITS_FOLDER / f"{file.stem}.jsonl")
        documents = set[str]()
        if stored:
            for row in stored.read(HitsRow, query):
                for hit in row.hits:
                    if hit.gold:
                        documents.add(hit.document or hit.id)
            return documents
        for question in self._lines(folder / QUESTIONS_FILE).read(QuestionRow, query):
            for name, grade in question.judged.items():
                if grade > 0:
                    documents.add(name)
        return documents


def _questions(matching: Matching) -> Callable[[str], str]:
    """Return a function from a query to its question, from the first source that has it."""
    folders = []
    for source in matching.sources:
        if source.folder is not None:
            folders.append(source.folder)
    files = [Lines(folder / QUESTIONS_FILE) for folder in folders]

    def question_of(query: str) -> str:
        """Return the text of a query; it is empty if no source has it."""
        for source in matching.sources:
            if text := source.questions.get(query):
                return text
        for lines in files:
            for row in lines.read(QuestionRow, query):
                return row.question
        return ""

    return question_of
