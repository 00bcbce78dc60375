"""What rankings and answers are worth: by judgements, by gold answers, over several samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np

from ragbench.config.schema import RetrievalMetrics
from ragbench.errors import DataError
from ragbench.experiment.calls import Outcome
from ragbench.experiment.records import Answers, Ranked
from ragbench.experiment.stages.answers import document_of
from ragbench.generate.base import Generator
from ragbench.score.base import ScoreColumn
from ragbench.score.judge.base import Item
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.score.retrieval.score_run import Rules, score_passages, score_run
from ragbench.score.text.base import Advance, Metric
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.notation import text_notes
from ragbench.types import Cause, Document, Qrels, Query

_OF_THE_QUERY = (
    Cause.NO_RELEVANT,
    Cause.NO_JUDGEMENTS,
    Cause.NO_REFERENCE,
    Cause.NO_QUESTION,
    Cause.NO_GUIDELINES,
    Cause.STOPPED_EARLY,
)
"""Causes that lie in the data or in the plan, not in what a system made of them."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the item in one row has no output that could be scored."""

    cause: Cause
    detail: str = ""


def failures(outcomes: Sequence[Outcome[Any]]) -> dict[int, Failure]:
    """Return row -> failure for the outcomes without a value."""
    return {
        row: Failure(outcome.cause, outcome.detail)
        for row, outcome in enumerate(outcomes)
        if outcome.value is None
    }


def with_failures(column: ScoreColumn, failed: Mapping[int, Failure]) -> ScoreColumn:
    """Return the column without values where the system had no output, with the causes.

    Where the score could not have applied, whatever the output, it still does not apply.
    """
    failed = {row: f for row, f in failed.items() if column.causes[row] not in _OF_THE_QUERY}
    if not failed:
        return column
    values, causes = column.values.copy(), column.causes.copy()
    for row, failure in failed.items():
        values[row], causes[row] = nan, failure.cause
    details = {row: failure.detail for row, failure in failed.items() if failure.detail}
    return replace(column, values=values, causes=causes, details={**column.details, **details})


def with_failures_of(answers: Answers, column: ScoreColumn) -> ScoreColumn:
    """Return the column without values where a system has no answer, with the causes."""
    return with_failures(column, failures(answers.outcomes))


def score_answers(
    answers: Answers,
    queries: Sequence[Query],
    references: Mapping[str, Sequence[str]],
    scorer: TextScorer,
    advance: Advance,
) -> list[ScoreColumn]:
    """Score a system's answers against the gold ones."""
    predictions = [o.value.answer if o.value is not None else None for o in answers.outcomes]
    gold = [references.get(query.id, ()) for query in queries]
    return scorer.score(predictions, gold, advance)


def notes_on_answers(
    answers: Answers,
    queries: Sequence[Query],
    references: Mapping[str, Sequence[str]],
    metrics: Sequence[Metric],
) -> list[str]:
    """Say what the metrics cannot see in these texts; one sentence each."""
    predictions = [o.value.answer if o.value is not None else None for o in answers.outcomes]
    gold = [references.get(query.id, ()) for query in queries]
    return [f"{answers.name}: {note}" for note in text_notes(predictions, gold, metrics)]


def judged_items(
    answers: Answers, queries: Sequence[Query], references: Mapping[str, Sequence[str]]
) -> list[Item]:
    """Return a system's answers as a judge sees them; a query without an answer is not judged."""
    return [
        Item(
            question=query.text,
            answer=None if outcome.value is None else outcome.value.answer,
            contexts=passage_texts(outcome),
            references=list(references.get(query.id, ())),
            query_id=query.id,
            queries=None if outcome.value is None else outcome.value.queries or None,
            sample=sample,
        )
        for sample, each in enumerate(answers.each())
        for query, outcome in zip(queries, each.outcomes, strict=True)
    ]


def passage_texts(outcome: Outcome[Any]) -> list[str] | None:
    """Return the passages that an answer was made from, as the judge reads them."""
    if outcome.value is None or outcome.value.contexts is None:
        return None
    return [document.full_text for document in outcome.value.contexts]


def split_samples(column: ScoreColumn, samples: int) -> list[ScoreColumn]:
    """Return the column of each sample, of one that has all of them one after the other."""
    if samples == 1:
        return [column]
    n = len(column.values) // samples
    return [_part(column, start, start + n) for start in range(0, samples * n, n)]


def join_samples(columns: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return one column with every answer as an item of its own."""
    if len(columns) == 1:
        return columns[0]
    values = np.concatenate([column.values for column in columns])
    causes = np.concatenate([column.causes for column in columns])
    return replace(columns[0], values=values, causes=causes, details={})


def _part(column: ScoreColumn, start: int, end: int) -> ScoreColumn:
    details = {row - start: text for row, text in column.details.items() if start <= row < end}
    values, causes = column.values[start:end], column.causes[start:end]
    return replace(column, values=values, causes=causes, details=details)


def mean_over_samples(columns: Sequence[ScoreColumn]) -> ScoreColumn:
    """Return one column of several: each query's mean over its answers that have a score.

    A query has no score only where none of its answers has one. Its cause is then the first that
    is a failure, else the first. A number that is computed from all queries at once is the mean of
    those of the samples.

    Args:
        columns: Of the same score and queries, one for each sample.

    Example:
        >>> from ragbench.signature import Signature
        >>> values, causes = np.array([1.0, np.nan]), np.array([0, Cause.TIMEOUT])
        >>> first = ScoreColumn("f1", values, causes, Signature("f1"))
        >>> second = replace(first, values=np.array([0.5, np.nan]))
        >>> mean_over_samples([first, second]).values.tolist()
        [0.75, nan]
    """
    if len(columns) == 1:
        return columns[0]
    values = np.stack([column.values for column in columns])
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    means = np.full(values.shape[1], np.nan)
    np.divide(np.where(known, values, 0.0).sum(axis=0), counts, out=means, where=counts > 0)
    causes, details = columns[0].causes.copy(), dict[int, str]()
    for row in range(len(means)):
        if counts[row]:
            causes[row] = Cause.SCORED
            continue
        chosen = next((c for c in columns if Cause(int(c.causes[row])).failed), columns[0])
        causes[row] = chosen.causes[row]
        if row in chosen.details:
            details[row] = chosen.details[row]
    totals = [c.total for c in columns if c.total is not None and np.isfinite(c.total)]
    total = float(np.mean(totals)) if totals else columns[0].total
    return replace(columns[0], values=means, causes=causes, details=details, total=total)


def failed_answers(columns: Sequence[ScoreColumn]) -> dict[str, int]:
    """Count the answers that failed in a score, by cause: also those of queries with a score."""
    codes = Counter(int(code) for column in columns for code in column.causes)
    return {Cause(code).word: n for code, n in sorted(codes.items()) if Cause(code).failed}


def doubtful_samples(name: str, generator: Generator, samples: int) -> list[str]:
    """Warn, before anything is paid for, of answers that may all be the same."""
    if samples == 1 or generator.temperature != 0:
        return []
    return [
        f"generator '{name}': samples is {samples} at temperature 0, where most servers give the "
        "same answer each time; set the temperature that is used, such as 0.7"
    ]


def sample_notes(systems: Iterable[Answers]) -> list[str]:
    """Say what scores of several answers are, and where these are all the same."""
    by_number: dict[int, list[str]] = {}
    same = []
    for answers in systems:
        if answers.samples > 1:
            by_number.setdefault(answers.samples, []).append(answers.name)
            if _all_the_same(answers):
                same.append(
                    f"{answers.name}: all answers to a query are the same text: asking "
                    f"{answers.samples} times told nothing"
                )
    notes = [
        f"{', '.join(names)}: each query was answered {n} times; its score is the mean over its "
        "answers, and intervals cover other answers of the generator as well as other queries"
        for n, names in by_number.items()
    ]
    return [*notes, *same]


def _all_the_same(answers: Answers) -> bool:
    texts = [
        [None if o.value is None else o.value.answer for o in each.outcomes]
        for each in answers.each()
    ]
    several = [set(row) - {None} for row in zip(*texts, strict=True)]
    return any(several) and all(len(found) < 2 for found in several)


def sample_warnings(answers: Answers) -> list[str]:
    """Say how many of several answers failed, by cause; no query need lack a score for it."""
    if answers.samples == 1:
        return []
    causes = Counter(o.cause.word for o in answers.outcomes if o.value is None and o.cause.failed)
    if not causes:
        return []
    said = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items()))
    return [
        f"{answers.name}: {sum(causes.values())} of {len(answers.outcomes)} answers failed "
        f"({said}); a query's score is the mean over its others"
    ]


@dataclass(frozen=True, slots=True)
class Gold:
    """What rankings are held against."""

    queries: Sequence[Query]
    """The queries that were asked: the rows of every column."""
    qrels: Qrels | None
    """Their judgements."""
    answers: Mapping[str, Sequence[str]]
    """Query -> gold answers."""
    corpus: Mapping[str, Document]
    """The documents whose text a hit without one has."""
    source: str | None = None
    """What signatures say of the judgements where a model has a part in them; None: people's."""


@dataclass(slots=True)
class ScoredRanking:
    """What a retriever's rankings are worth."""

    columns: dict[str, ScoreColumn] = field(default_factory=dict)
    """Measure -> its column, one row per query in the order of the queries."""
    counts: dict[str, Any] = field(default_factory=dict)
    """How the run was read: missing queries, judged share and the like; empty without qrels."""
    warnings: list[str] = field(default_factory=list)
    """What makes the numbers doubtful."""


def score_ranking(
    ranked: Ranked, gold: Gold, measures: Sequence[str], rules: RetrievalMetrics
) -> ScoredRanking:
    """Score a retriever's run by each measure, in their order.

    Raises:
        DataError: A measure reads passages, and none of the hits has a text.
    """
    parsed = parse_measures(measures)
    of_texts = [measure for measure in parsed if measure.spec.reads == "passages"]
    of_ids = [measure for measure in parsed if measure.spec.reads != "passages"]
    found = ScoredRanking()
    if of_ids and gold.qrels is not None:
        _score_ids(ranked, gold, gold.qrels, of_ids, rules, found)
    if of_texts:
        _score_texts(ranked, gold, of_texts, rules, found)
    failed = failures(ranked.outcomes)
    found.columns = {
        measure.written: with_failures(
            _with_depth(found.columns[measure.written], measure, rules.top_k), failed
        )
        for measure in parsed
    }
    return found


def _score_ids(
    ranked: Ranked,
    gold: Gold,
    qrels: Qrels,
    measures: Sequence[Measure],
    rules: RetrievalMetrics,
    found: ScoredRanking,
) -> None:
    scored = score_run(
        ranked.run,
        qrels,
        measures,
        missing=rules.missing,
        no_relevant=rules.no_relevant,
        ties=rules.ties,
        trec_eval=rules.trec_eval,
    )
    row_of = {query_id: row for row, query_id in enumerate(scored.query_ids)}
    rows = np.array([row_of.get(query.id, -1) for query in gold.queries], dtype=np.int64)
    for column in scored.columns:
        signature = column.signature.with_parts(match=rules.match.rule)
        if gold.source is not None:
            signature = signature.replacing(qrels=gold.source)
        found.columns[column.name] = replace(_aligned(column, rows), signature=signature)
    found.counts = scored.counts.to_dict()


def _aligned(column: ScoreColumn, rows: np.ndarray[Any, np.dtype[np.int64]]) -> ScoreColumn:
    """The column with its rows in another order; -1 is a query without judgements."""
    values = np.append(column.values, np.nan)[rows]
    causes = np.append(column.causes, np.uint8(Cause.NO_JUDGEMENTS))[rows]
    return replace(column, values=values, causes=causes)


def _with_depth(column: ScoreColumn, measure: Measure, top_k: int) -> ScoreColumn:
    """The column with `top_k` in its signature, where it has no cut-off of its own."""
    if measure.k is not None:
        return column
    return replace(column, signature=column.signature.with_parts(top_k=top_k))


def _score_texts(
    ranked: Ranked,
    gold: Gold,
    measures: Sequence[Measure],
    rules: RetrievalMetrics,
    found: ScoredRanking,
) -> None:
    """Look into the passages as they were retrieved, whatever the judgements call a document."""
    run = ranked.run if ranked.unmatched is None else ranked.unmatched
    order = ranked_documents(run, ties=rules.ties, trec_eval=rules.trec_eval)
    passages = [
        [texts.get(document) for document in order.get(query.id, ())]
        for query, texts in zip(gold.queries, _texts(ranked, gold.corpus), strict=True)
    ]
    deepest = max((measure.k or rules.top_k) for measure in measures)
    looked_at = [text for texts in passages for text in texts[:deepest]]
    if unknown := sum(text is None for text in looked_at):
        what = f"{ranked.name}: {unknown} of {len(looked_at)} passages have no text"
        if unknown == len(looked_at):
            allowed = "a retriever that returns texts, or a data set with these documents"
            raise DataError(f"{what} for {measures[0].written}", allowed=allowed)
        found.warnings.append(f"{what}: {measures[0].written} cannot find an answer in them")
    retrieved = RetrievedPassages(
        [[text or "" for text in texts] for texts in passages],
        [gold.answers.get(query.id, ()) for query in gold.queries],
    )
    missing = [row for row, query in enumerate(gold.queries) if query.id not in order]
    kept = Rules(rules.ties, rules.trec_eval, rules.missing, rules.no_relevant)
    for column in score_passages(retrieved, measures, kept, missing=missing):
        found.columns[column.name] = column


def _texts(ranked: Ranked, corpus: Mapping[str, Document]) -> Iterator[dict[str, str]]:
    """Yield for each query: id of a hit -> its text, as a generator reads it."""
    for outcome in ranked.outcomes:
        hits = [] if outcome.value is None else outcome.value.documents
        found = {hit.id: document_of(hit, corpus) for hit in reversed(hits)}
        yield {name: doc.full_text for name, doc in found.items() if doc is not None}
