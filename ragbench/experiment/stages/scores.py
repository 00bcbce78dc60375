"""Scoring stages: rankings by qrels and gold answers, answers by text and tool call metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.comparison.forbidden import forbidden_ranks, unclear_warning
from ragbench.comparison.gold import GoldPiece
from ragbench.comparison.passage_places import PlacedRankings, unplaced_warning
from ragbench.comparison.slices import answerable_questions
from ragbench.errors import DataError
from ragbench.experiment import records
from ragbench.experiment.calls import FileRankings, without_value
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.stages import keys
from ragbench.experiment.stages.answers import AnswerQueries, AskApp
from ragbench.experiment.stages.base import ItemGroup, Keep, Outputs, Slot, Stage, Step
from ragbench.experiment.stages.controls import CANARY, canary_columns
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.matching import passage_order, scored_ids
from ragbench.experiment.stages.model_judgements import Judgements
from ragbench.experiment.stages.passages import hits_of, ranked_passages
from ragbench.experiment.stages.retrieval import BuildRanking
from ragbench.records.codec import from_line
from ragbench.records.columns import ColumnRow, column_row, read_column_row
from ragbench.records.score import RunCounts
from ragbench.score.base import Advance
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.score_run import (
    Rules,
    score_forbidden,
    score_gold,
    score_passages,
    score_run,
)
from ragbench.score.text.base import AnswerSources, CallRows, Metric
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.gold_words import GoldWords
from ragbench.score.text.judged_rows import JUDGED_PARTS, JudgedRows
from ragbench.score.text.notation import text_notes
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Cause, Qrels, ScoreColumn, ToolCall
from ragbench.types.byte_ids import ByteIds, as_bytes
from ragbench.types.json_fields import Prose, Record
from ragbench.types.lookups import index_by_name, index_positions, take_items
from ragbench.types.records import nuggets_fingerprint
from ragbench.types.rows import Mapped

# Packages whose version may change the value of a metric: their versions are part of the keys.
_LIBRARIES = ("rouge-score", "sacrebleu", "nltk", "bert-score", "sentence-transformers", "torch")


class _StoredColumn(Record):
    """Column of a measure as it is stored."""

    column: ColumnRow
    # numbers of queries and hits of the ranking; None without qrels
    counts: RunCounts | None = None
    # warnings about passages without text, or without a place in a document
    warnings: tuple[Prose, ...]


# Column of a measure, and the item that it was read from.
RankingItem = tuple[ScoreColumn, _StoredColumn]


@dataclass(frozen=True, slots=True)
class RankingScores:
    """Scores of a ranking.

    Attributes:
        columns: Measure -> its column.
        counts: Numbers of queries and hits of the ranking; None without qrels.
        warnings: Warnings about passages without text, or without a place in a document.
    """

    columns: Mapping[str, ScoreColumn] = field(default_factory=dict)
    counts: RunCounts | None = None
    warnings: Sequence[str] = ()


class ScoreRanking(Stage[Sequence[RankingScores]]):
    """Stage that scores the rankings of a system by every measure of the plan, each by itself.

    It has a slot per ranking and measure, ranking by ranking. Its output has the scores of each
    ranking; it is empty for an app without passages.
    """

    kind, version = "score", 4
    unit = "measures"

    def __init__(
        self,
        plan: Plan,
        system: System,
        ranks: Sequence[BuildRanking],
        judgements: Stage[Judgements],
    ) -> None:
        super().__init__(plan, f"score {system.name}", (*ranks, judgements), ranks[0].under)
        self.system, self._ranks, self._judgements = system, ranks, judgements

    def _rankings(self, inputs: Outputs) -> list[records.RetrieverRun]:
        """Return the rankings of the system; [] where any repetition has no passages."""
        rankings = take_items(inputs, self._ranks)
        present = []
        for ranking in rankings:
            if ranking is not None:
                present.append(ranking)
        return present if len(present) == len(rankings) else []

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return a slot for each ranking and measure; none without a ranking."""
        slots = list[Slot | None]()
        if not self.plan.measures:
            return slots
        for ranking in self._rankings(inputs):
            group = self.group(ranking.name, self._key_parts(ranking, inputs[self._judgements]))
            for name in self.plan.measures:
                slots.append(Slot(group, name + keys.own_code(name), len(slots)))
        return slots

    def _key_parts(self, ranking: records.RetrieverRun, judgements: Judgements) -> list[str]:
        """Return the parts of the key: code, rules, ranking, qrels, gold answers and corpus."""
        # the measures are the keys of the items
        rules, causes = self.plan.config.metrics.retrieval, self.plan.config.causes
        fingerprint_of = self.plan.collection.fingerprint
        return [
            # any change of a measure's module makes all its columns again
            keys.code_in("ragbench.score.retrieval"),
            # the measures are keys of the items: another one leaves the others stored
            repr(replace(rules, measures=None)),
            ranking.name,
            fingerprint(_ranking_pieces(ranking, self.plan.ids), keys.KEY_DIGITS),
            fingerprint(_bytes_of(as_bytes(ranking.run.query_ids))),
            "none" if judgements.qrels is None else judgements.qrels.fingerprint(),
            repr(judgements.source),
            fingerprint_of("answers") or "none",
            fingerprint_of("spans") or "none",
            fingerprint_of("forbidden") or "none",
            fingerprint_of("corpus") or "none",
            *map(keys.code_of, (PlacedRankings, forbidden_ranks)),
            # gold is met by the rules of causes, and the words of gold answers by the question
            *map(keys.code_of, (GoldFacts, GoldPiece, GoldWords)),
            repr((causes.relevant, causes.words, causes.searched)),
            fingerprint_of("queries") or "none",
            *_pool_parts(self.plan).values(),
        ]

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Score the rankings by the measures of some slots.

        A query whose retrieval failed has its cause, without a value.

        Raises:
            AdapterError: A measure of the user fails.
            DataError: The qrels lack subtopics, or no passage has a text, and a measure reads them.
        """
        rankings, n = self._rankings(inputs), len(self.plan.measures)
        for number, positions in groupby(todo, lambda position: position // n):
            self._score(rankings[number], [*positions], inputs[self._judgements], keep)
        advance(len(todo))

    def _score(
        self,
        ranking: records.RetrieverRun,
        positions: Sequence[int],
        judgements: Judgements,
        keep: Keep,
    ) -> None:
        """Score a ranking by the measures of its slots, and keep each column."""
        scorer = RankingScorer(self.plan, ranking, judgements)
        names = []
        for position in positions:
            names.append(self.plan.measures[position % len(self.plan.measures)])
        measures = parse_measures(names)
        columns, counts, warnings = scorer.score(measures)
        failed = dict(without_value(ranking.outcomes))
        for position, measure in zip(positions, measures, strict=True):
            column = columns[measure.label]
            # without a cut-off, the depth of the ranking is part of the signature
            if measure.k is None:
                top_k = self.plan.config.metrics.retrieval.top_k
                column = replace(column, signature=column.signature.with_parts(top_k=top_k))
            pools = _pool_parts(self.plan)
            column = replace(column, signature=column.signature.with_parts(**pools))
            row = column_row(records.with_failures(column, failed))
            keep(position, _StoredColumn(column=row, counts=counts, warnings=warnings))

    def read(self, line: bytes) -> RankingItem:
        """Return (column of a stored line, the record of the line).

        Raises a DataError, ValueError or LookupError for another form.
        """
        item = from_line(_StoredColumn, line)
        return read_column_row(item.column), item

    def output(
        self, inputs: Outputs, values: Sequence[RankingItem | None]
    ) -> Sequence[RankingScores]:
        """Return the columns of each ranking that are made, with their counts and warnings.

        Where no hit has a known id, measures of ids have the cause `UNKNOWN_IDS` for all queries.
        """
        n, rankings = len(self.plan.measures), self._rankings(inputs)
        scores = []
        for number, ranking in enumerate(rankings):
            scores.append(self._scores_of(ranking, values[number * n : (number + 1) * n]))
        return scores

    def _scores_of(
        self, ranking: records.RetrieverRun, values: Sequence[RankingItem | None]
    ) -> RankingScores:
        """Return the scores of one ranking from the values of its slots."""
        columns, counts, warnings = dict[str, ScoreColumn](), list[RunCounts](), dict[str, None]()
        for name, value in zip(self.plan.measures, values, strict=False):
            if value is None:
                continue
            columns[name], item = value
            warnings |= dict.fromkeys(item.warnings)
            if item.counts:
                counts.append(item.counts)
        for measure in parse_measures(self.plan.measures) if ranking.has_unknown_ids else ():
            if measure.spec.reads_ids and measure.label in columns:
                column = columns[measure.label]
                columns[measure.label] = column.without_scores(True, Cause.UNKNOWN_IDS)
        return RankingScores(columns, _joined_counts(counts), [*warnings])

    def add(self, outputs: Outputs, results: records.Results) -> None:
        """Add the columns, counts and warnings to the results; nothing without a ranking.

        Counts and warnings are those of the first ranking.
        """
        scores = outputs[self]
        if not scores:
            return
        results.add_scores(self.system, {}, "retrieval", scores[0].counts)
        parts = {} if self._ranks[0].retrieve is None else self._ranks[0].retrieve.signed
        for name in scores[0].columns:
            columns = []
            for of_ranking in scores:
                column = of_ranking.columns[name]
                columns.append(replace(column, signature=column.signature.with_parts(**parts)))
            results.add_samples(self.system, name, columns, "retrieval")
        results.warnings += scores[0].warnings

    def step(self, outputs: Outputs, work: records.Work | None) -> Step | None:
        """Return a step with the number of stored columns; None for apps and recorded systems.

        Whether those have a ranking is known in a run only. None too without measures.
        """
        if self._ranks[0].retrieve is None or not self.plan.measures:
            return None
        return self.node(work, len(self.plan.measures) * len(self._ranks))


def _pool_parts(plan: Plan) -> dict[str, str]:
    """Return the parts of a signature about the pools of the queries; {} without pools."""
    fingerprint_of_pools = plan.collection.fingerprint("pools")
    if fingerprint_of_pools is None:
        return {}
    return {"pool": fingerprint_of_pools, "statistics": plan.collection.pool_statistics}


@dataclass(frozen=True, slots=True)
class RankingScorer:
    """Scores of one ranking by the measures of each kind."""

    plan: Plan
    ranking: records.RetrieverRun
    judgements: Judgements  # judgements with the gold of the queries

    def score(
        self, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], RunCounts | None, tuple[str, ...]]:
        """Return (label -> column of each measure, counts of the run, warnings)."""
        by_id = []
        for measure in measures:
            if measure.spec.reads_ids:
                by_id.append(measure)
        by_text, by_place, by_gold, forbidden = [], [], [], []
        for measure in measures:
            if measure.spec.reads == "passages":
                by_text.append(measure)
            elif measure.spec.reads == "spans":
                by_place.append(measure)
            elif measure.spec.reads == "gold":
                by_gold.append(measure)
            elif measure.spec.reads == "forbidden":
                forbidden.append(measure)
        columns, counts, warnings = dict[str, ScoreColumn](), None, tuple[str, ...]()
        if by_id and self.judgements.qrels is not None:
            columns, counts = self._score_ids(self.judgements.qrels, by_id)
        if by_text:
            text_columns, warnings = self._score_texts(by_text)
            columns |= text_columns
        if by_place:
            span_columns, unplaced = self._score_spans(by_place)
            columns, warnings = columns | span_columns, (*warnings, *unplaced)
        columns |= index_by_name(self._score_gold(by_gold))
        leaks, unclear = self._score_forbidden(forbidden)
        columns |= index_by_name(leaks)
        warnings = (*warnings, *unclear)
        return columns, counts, warnings

    def _score_ids(
        self, qrels: Qrels, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], RunCounts | None]:
        """Return label -> column of measures that read ids, and the counts of the run."""
        match, columns = self.plan.config.metrics.retrieval.match, dict[str, ScoreColumn]()
        scored = score_run(self.ranking.run, qrels, measures, **asdict(self._rules()))
        if scored.ranked is not None:
            self.ranking.store_ranks(qrels, scored.ranked)
        row_of = index_positions(scored.query_ids)
        # -1, a query without judgements, reads the NaN that is appended to the values
        rows = np.array([row_of.get(name, -1) for name in self.plan.ids], dtype=np.int64)
        for column in scored.columns:
            signature = column.signature.with_parts(match=match.rule)
            if self.judgements.source is not None:
                signature = signature.replacing(qrels=self.judgements.source)
            columns[column.name] = self._with_ambiguous(
                replace(
                    column,
                    values=np.append(column.values, np.nan)[rows],
                    causes=np.append(column.causes, np.uint8(Cause.NO_JUDGEMENTS))[rows],
                    signature=signature,
                )
            )
        return columns, scored.counts

    def _score_texts(
        self, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], tuple[str, ...]]:
        """Return (label -> column of measures that search passages for gold answers, warnings)."""
        # passages are those that were retrieved, before they are folded or matched
        plan, ranking, warnings = self.plan, self.ranking, tuple[str, ...]()
        order, deepest = passage_order(ranking, plan), self._deepest(measures)
        passages, n_unknown, n_read = list[list[str]](), 0, 0
        for name, outcome in zip(plan.ids, ranking.outcomes, strict=True):
            texts = []
            for rank, hit in enumerate(ranked_passages(outcome, order.get(name, ()), plan.corpus)):
                texts.append("" if hit is None else hit.full_text)
                n_unknown += hit is None and rank < deepest
            passages.append(texts)
            n_read += len(texts[:deepest])
        if n_unknown:
            message = f"{ranking.name}: {n_unknown} of {n_read} passages have no text"
            if n_unknown == n_read:
                allowed = "a retriever that returns texts, or a data set with these documents"
                raise DataError(f"{message} for {measures[0].label}", allowed=allowed)
            warnings = (f"{message}: {measures[0].label} cannot find an answer in them",)
        retrieved = RetrievedPassages(
            passages,
            [plan.collection.answers.get(name, ()) for name in plan.ids],
        )
        columns = score_passages(retrieved, measures, self._rules(), missing=self._missing())
        return index_by_name(columns), warnings

    def _score_spans(
        self, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], tuple[str, ...]]:
        """Return (label -> column of measures that compare places with gold spans, warnings)."""
        # passages are those that were retrieved, before they are folded or matched
        plan, ranking = self.plan, self.ranking
        placed = self.judgements.gold.placed(ranking).first(self._deepest(measures))
        warnings = unplaced_warning(ranking.name, plan.ids, placed)
        columns = score_passages(placed.spans, measures, self._rules(), missing=self._missing())
        return {c.name: self._with_ambiguous(c) for c in columns}, tuple(warnings)

    def _score_gold(self, measures: Sequence[Measure]) -> list[ScoreColumn]:
        """Return the columns of measures that read the ranks at which the gold is met."""
        if not measures:
            return []
        gold, parts = self.judgements.gold, self.judgements.gold.signature_parts
        parts["match"] = self.plan.config.metrics.retrieval.match.rule
        if self.judgements.source is not None:
            parts["qrels"] = self.judgements.source
        ranks = gold.gold_ranks(self.ranking)
        return score_gold(ranks, measures, self._rules(), missing=self._missing(), **parts)

    def _score_forbidden(
        self, measures: Sequence[Measure]
    ) -> tuple[list[ScoreColumn], tuple[str, ...]]:
        """Return (columns of measures that read the ranks of forbidden hits, warnings)."""
        if not measures:
            return [], ()
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        forbidden = [*map(plan.collection.forbidden.get, plan.ids)]
        forbidden_ids = plan.collection.forbidden
        hits = hits_of(self.ranking, plan, forbidden_ids, self._deepest(measures))
        unknown = range(len(plan.ids)) if self.ranking.has_unknown_ids else ()
        ranks = forbidden_ranks(hits, forbidden, plan.collection.documents, unknown)
        parts = {"forbidden": plan.collection.fingerprint("forbidden")}
        parts["match"] = rules.match.rule
        columns = score_forbidden(ranks, measures, self._rules(), missing=self._missing(), **parts)
        # a gate passes on the other questions: what it did not see has to be told
        warnings = unclear_warning(self.ranking.name, plan.ids, columns)
        return columns, tuple(warnings)

    def _deepest(self, measures: Sequence[Measure]) -> int:
        """Return the last rank that one of the measures reads."""
        top_k = self.plan.config.metrics.retrieval.top_k
        return max(measure.k or top_k for measure in measures)

    def _with_ambiguous(self, column: ScoreColumn) -> ScoreColumn:
        """Return a column in which queries with an ambiguous gold passage have that cause."""
        ambiguous = self.plan.collection.ambiguous_gold
        if not ambiguous:
            return column
        rows = np.array([query in ambiguous for query in self.plan.ids])
        values = np.where(rows, np.nan, column.values)
        causes = np.where(rows, np.uint8(Cause.AMBIGUOUS_QUOTE), column.causes)
        return replace(column, values=values, causes=causes)

    def _missing(self) -> list[int]:
        """Return the rows of the queries that the ranking lacks, also failed ones, ascending."""
        ranking = self.ranking
        run = ranking.run if ranking.unmatched is None else ranking.unmatched
        rows = []
        for row, name in enumerate(self.plan.ids):
            if name not in run.query_index:
                rows.append(row)
        return rows

    def _rules(self) -> Rules:
        """Return the rules of scoring."""
        return Rules.from_options(self.plan.config.metrics.retrieval)


class ScoreAnswers(Stage[Sequence[ScoreColumn | None]]):
    """Stage that scores the answers of a system by every metric, each sample by itself.

    It has a slot per sample and metric, sample by sample; an item is a column of scores, and the
    output is the list of columns. `scorer_of` returns the scorer of some metrics. `judged` is the
    result of `judged_queries`; None if no metric reads judgements of answers.
    """

    kind, version = ScoreRanking.kind, ScoreRanking.version
    unit = "metrics"

    def __init__(
        self,
        plan: Plan,
        answer: AnswerQueries,
        scorer_of: Callable[[tuple[Metric, ...]], TextScorer],
        ranks: Sequence[BuildRanking] = (),
        judged: Mapping[str, Set[str]] | None = None,
    ) -> None:
        # the ranking of an app is scored as well
        title = f"score {answer.system.name}{' (answers)' if isinstance(answer, AskApp) else ''}"
        # rankings tell the documents of passages, which metrics of citations alone read
        self._reads_citations = any(m.declaration.reads == "citations" for m in plan.metrics)
        self._ranks = tuple(ranks) if self._reads_citations else ()
        inputs = (answer, *self._ranks)
        super().__init__(plan, title, inputs, None if answer.is_recorded else answer)
        self._answer, self._scorer_of, self._judged_queries = answer, scorer_of, judged

    def _gold(self) -> Sequence[Sequence[str]]:
        """Return the gold answers of each query, read on access; empty for a query without any."""
        answers = self.plan.collection.answers
        return Mapped(lambda name: answers.get(name, ()), self.plan.ids)

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return a slot for each sample and metric, sample by sample.

        The key depends on what the metric reads, answers and gold answers or tool calls, so that
        equal ones of two systems are scored once.
        """
        slots, metrics = list[Slot | None](), self.plan.metrics
        answerable, kinds = self._answerable(), {metric.declaration.reads for metric in metrics}
        for number, sample in enumerate(inputs[self._answer].by_sample()):
            groups = {}
            for reads in kinds:
                sources = self._sources(inputs, number) if reads == "citations" else None
                groups[reads] = self._group_of(sample, reads, answerable, sources)
            for metric in metrics:
                group = groups[metric.declaration.reads]
                slots.append(Slot(group, _metric_key(metric), len(slots)))
        return slots

    def _group_of(
        self,
        sample: records.Answers,
        reads: str,
        answerable: list[bool | None] | None,
        sources: list[AnswerSources] | None,
    ) -> ItemGroup:
        """Return the group of the metrics that read one kind of data of a sample."""
        if reads == "tool_calls":
            parts = [_calls_key(self._calls(sample))]
        elif reads == "texts":
            parts = [_texts_key(_texts_of(sample), self._gold())]
        elif reads == "questions":
            parts = [_texts_key(_texts_of(sample), self._gold())]
            parts.append(fingerprint_json(self.plan.questions))
            parts.append(fingerprint_json(answerable))
        elif (judged := self._judged()) is not None and reads in JUDGED_PARTS:
            rows = [answer and answer.to_list() for answer in judged.answers]
            texts = _texts_key(_texts_of(sample), [()] * len(self.plan.ids))
            nuggets = [*map(nuggets_fingerprint, judged.nuggets)]
            parts = [texts, fingerprint_json([rows, [*map(sorted, judged.judged)], nuggets])]
        elif sources is not None:
            rows = []
            for source in sources:
                rows.append(
                    [source.documents, source.gold and sorted(source.gold), source.has_known_ids]
                )
            texts = _texts_key(_texts_of(sample), [()] * len(self.plan.ids))
            parts = [texts, fingerprint_json(rows)]
        else:
            texts = _texts_key(_texts_of(sample), [()] * len(self.plan.ids))
            parts = [texts, fingerprint_json(answerable)]
        return self.group(sample.name, parts)

    def _answerable(self) -> list[bool | None] | None:
        """Return True for a question with an answer, False without one, None if nothing tells."""
        # judgements of people count, those of a model do not
        plan = self.plan
        if all(m.declaration.reads not in ("answerable", "questions") for m in plan.metrics):
            return None
        least = plan.config.causes.relevant
        return answerable_questions(plan.queries, plan.collection.answers, plan.qrels, least)

    def _calls(self, answers: records.Answers) -> CallRows:
        """Return the tool calls of the answers beside the gold ones; None where there are none."""
        expected = self.plan.collection.expected_tool_calls
        return CallRows(
            [None if o.value is None else o.value.tool_calls for o in answers.outcomes],
            [*map(expected.get, self.plan.ids)],
        )

    def _judged(self) -> JudgedRows | None:
        """Return the judgements of the answers, which the data set holds; None if none is read."""
        if self._judged_queries is None:
            return None
        system, collection = self._answer.system.name, self.plan.collection
        return JudgedRows.of_system(collection, system, self.plan.ids, self._judged_queries)

    def _sources(self, inputs: Outputs, sample: int) -> list[AnswerSources] | None:
        """Return the documents that each answer may cite, beside the gold; None if none is read."""
        if not self._reads_citations:
            return None
        plan, answers = self.plan, inputs[self._answer]
        rankings = take_items(inputs, self._ranks)
        # a generator may read one ranking alone; each answer of an app has its own
        n_rankings = len(rankings)
        if self._answer.system.generator is not None:
            n_rankings = min(answers.rankings, n_rankings)
        ranking = rankings[sample % n_rankings] if n_rankings else None
        ids = {} if ranking is None else scored_ids(ranking, plan)
        has_known_ids = ranking is None or not ranking.has_unknown_ids
        judged = {} if plan.qrels is None else plan.qrels.by_query
        least, sources = plan.config.causes.relevant, list[AnswerSources]()
        outcomes = answers.by_sample()[sample].outcomes
        for query, outcome in zip(plan.ids, outcomes, strict=True):
            documents, names = None, ids.get(query, {})
            if outcome.value is not None and outcome.value.contexts is not None:
                documents = [names.get(p.id, p.id) for p in outcome.value.contexts]
            of_answer = AnswerSources.of_grades(
                documents, judged.get(query), least, has_known_ids=has_known_ids
            )
            sources.append(of_answer)
        return sources

    def _groups(self, todo: Sequence[int]) -> Iterator[tuple[int, list[int], TextScorer]]:
        """Yield the number of each sample, the numbers of its missing metrics, and their scorer."""
        metrics = self.plan.metrics
        for sample, positions in groupby(todo, lambda position: position // len(metrics)):
            numbers = [position % len(metrics) for position in positions]
            yield sample, numbers, self._scorer_of(tuple(take_items(metrics, numbers)))

    def progress_total(self, inputs: Outputs, todo: Sequence[int]) -> tuple[int, str]:
        """Return the number of steps of the scorers, which may load a model, and "scores"."""
        n = len(self.plan.queries)
        return sum(scorer.steps(n) for _, _, scorer in self._groups(todo)), "scores"

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Score each sample by the metrics of its slots, and keep each column.

        Raises AdapterError if a metric of the user fails; errors of making a scorer, such as a
        MissingExtra, pass through.
        """
        samples, answerable = inputs[self._answer].by_sample(), self._answerable()
        questions = self.plan.questions
        for sample, numbers, scorer in self._groups(todo):
            answers = samples[sample]
            texts, calls = [*_texts_of(answers)], self._calls(answers)
            sources = self._sources(inputs, sample)
            columns = scorer.score(
                texts, self._gold(), advance, calls, answerable, questions, sources, self._judged()
            )
            for number, column in zip(numbers, columns, strict=True):
                keep(sample * len(self.plan.metrics) + number, column)

    def read(self, line: bytes) -> ScoreColumn:
        """Return a stored column; a DataError, ValueError or LookupError for another form."""
        return read_column_row(from_line(ColumnRow, line))

    def write(self, value: ScoreColumn) -> ColumnRow:
        """Return the row of a column."""
        return column_row(value)

    def output(
        self, inputs: Outputs, values: Sequence[ScoreColumn | None]
    ) -> Sequence[ScoreColumn | None]:
        """Return the columns in the order of the slots."""
        return values

    def add(self, outputs: Outputs, results: records.Results) -> None:
        """Add the columns to the results, with causes where answers failed, and notes.

        The control `injection` gets the column `canary` too.
        """
        metrics, answers = self.plan.metrics, outputs[self._answer]
        samples, stored = answers.by_sample(), [c for c in outputs[self] if c is not None]
        for number, metric in enumerate(metrics):
            pairs = zip(samples, stored[number :: len(metrics)], strict=True)
            columns = []
            for sample, column in pairs:
                columns.append(records.with_failures_of(sample, replace(column, name=metric.name)))
            results.add_samples(self._answer.system, metric.name, columns, "generation")
        if self._answer.system.control == "injection":
            canaries = canary_columns(answers, self.plan.ids, self.plan.config.seed)
            results.add_samples(self._answer.system, CANARY, canaries, "generation")
        # notes on words that a metric cannot see, such as those of a script without spaces
        notes, n = text_notes(_texts_of(answers), self._gold(), metrics), answers.name
        for note in notes:
            results.notes.append(f"{n}: {note}")

    def step(self, outputs: Outputs, work: records.Work | None) -> Step | None:
        """Return a step with the number of stored columns; None without metrics.

        None too for a control.
        """
        if not self.plan.metrics or self._answer.system.role == "control":
            return None
        return self.node(work, len(self.plan.metrics) * self._answer.samples)


def _joined_counts(counts: Sequence[RunCounts]) -> RunCounts | None:
    """Return the counts of one run from those of its measures; None without any."""
    # measures may be stored by several runs, each with the grades of its own measures
    if not counts:
        return None
    without_grade = {}
    for of_one in counts:
        for grade, n in of_one.without_grade.items():
            without_grade[grade] = n
    return structs.replace(counts[0], without_grade=without_grade)


def _texts_of(answers: records.Answers) -> Sequence[str | None]:
    """Return the text of each answer, read on access; None where the answer failed."""
    return Mapped(lambda o: None if o.value is None else o.value.answer, answers.outcomes)


def _ranking_pieces(
    ranking: records.RetrieverRun, query_ids: Sequence[str]
) -> Iterator[str | bytes]:
    """Yield the ids, scores, texts, metadata and causes of a ranking, to hash them."""
    if isinstance(ranking.outcomes, FileRankings):
        run = ranking.outcomes.run(ranking.name)
        yield from ("recorded", run.starts.tobytes(), run.scores.tobytes())
        for ids in (ranking.outcomes.query_ids, run.query_ids, run.documents):
            yield from _bytes_of(as_bytes(ids))
        return
    for query, outcome in zip(query_ids, ranking.outcomes, strict=True):
        yield from (query, outcome.cause.word, outcome.detail)
        for hit in () if outcome.value is None else outcome.value.documents:
            yield from (hit.id, repr(hit.score), hit.title or "", hit.text or "")
            if hit.metadata:
                yield fingerprint_json(dict(hit.metadata))


def _bytes_of(ids: ByteIds) -> list[bytes]:
    """Return the arrays of packed ids as bytes, to hash them: starts, lengths, then data."""
    return [column.tobytes() for column in (ids.starts, ids.lengths, ids.data)]


def _texts_key(texts: Sequence[str | None], gold: Sequence[Sequence[str]]) -> str:
    """Return a hash of the answers and gold answers of all queries, in their order."""

    def pieces() -> Iterator[str]:
        for text, references in zip(texts, gold, strict=True):
            yield from ("none",) if text is None else ("text", text)
            yield from (str(len(references)), *references)

    return fingerprint(pieces(), keys.KEY_DIGITS)


def _calls_key(calls: CallRows) -> str:
    """Return a hash of the tool calls and gold tool calls of all queries, in their order."""

    def to_json(row: Sequence[ToolCall] | None) -> list[dict[str, Any]] | None:
        return None if row is None else [call.to_dict() for call in row]

    rows = []
    for actual, expected in zip(calls.actual, calls.expected, strict=True):
        rows.append([to_json(actual), to_json(expected)])
    return fingerprint_json(rows, keys.KEY_DIGITS)


def _metric_key(metric: Metric) -> str:
    """Return a hash of a metric with its options, version and facts, and of library versions."""
    declared_facts = metric.declaration.facts
    facts = declared_facts(metric.options) if callable(declared_facts) else declared_facts
    definition = (metric.canonical, metric.declaration.version, dict(facts))
    code = filter(None, [keys.own_code(metric.base)])
    return fingerprint_json([*definition, keys.versions_of(_LIBRARIES), *code])
