"""Queries whose scores moved most between two runs, with the first documents of both rankings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from ragbench.comparison.compared_rows import ComparedRow, rows_by_label
from ragbench.comparison.matching import Matching
from ragbench.comparison.pairs import PairedScores
from ragbench.data.files.trec_files import read_run
from ragbench.data.runs.query_view import HITS_FOLDER, QUESTIONS_FILE
from ragbench.data.runs.run_lines import Lines
from ragbench.records.comparison import (
    Comparisons,
    MovedQueries,
    MovedQuery,
)
from ragbench.records.manifest import HitsRow, QuestionRow

# Number of documents of each ranking beside a query that moved.
DEPTH = 5


def paired_rows(
    comparison: Comparisons, matching: Matching, measure: str, clusters: Sequence[str] | None = None
) -> Iterator[tuple[ComparedRow, ComparedRow, PairedScores]]:
    """Yield system, baseline and their paired scores for each comparison by a measure.

    `clusters` has the cluster label of each query; None if queries are units. A measure that was
    not compared yields nothing. `measure` and `names` of the scores are empty, `decision` is that
    of the comparison.
    """
    rows = rows_by_label(matching)
    family = comparison.measure(measure)
    for difference in () if family is None else family.comparisons:
        system, baseline = rows[difference.system], rows[difference.baseline]
        pair = PairedScores(
            system.scores.columns[measure],
            baseline.scores.columns[measure],
            matching.sources[0].query_ids,
            clusters,
            changes=matching.changes[system.source],
            decision=difference,
        )
        yield system, baseline, pair


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
    rankings, question_of = _Rankings(matching), read_questions(matching)
    moved = []
    for system, baseline, pairs in paired_rows(comparison, matching, measure):
        d = pairs.gains
        # queries without a difference count as 0: they come last, and are dropped below
        order = np.argsort(-np.abs(np.nan_to_num(d)), kind="stable")[:n]
        queries = []
        for position in order[np.nan_to_num(d)[order] != 0].tolist():
            query = pairs.query_ids[position]
            score, baseline_score = pairs.system.values[position], pairs.baseline.values[position]
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
        gold = set[str]()
        if source.folder is not None:
            gold = self._gold(source.folder, file, query)
        elif source.qrels is not None:
            gold = _relevant(source.qrels.by_query.get(query, {}))
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
            documents |= _relevant(question.judged)
        return documents


def _relevant(judged: Mapping[str, int]) -> set[str]:
    """Return the documents with a grade above 0."""
    return {document for document, grade in judged.items() if grade > 0}


def read_questions(matching: Matching) -> Callable[[str], str]:
    """Return a function from a query to its question, from the first source that has it."""
    files = []
    for source in matching.sources:
        if source.folder is not None:
            files.append(Lines(source.folder / QUESTIONS_FILE))

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
