"""What rankings and answers are worth: by judgements, by gold answers, over several samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from ragbench.errors import DataError
from ragbench.experiment.calls import FileRankings, without_value
from ragbench.experiment.plan.records import System
from ragbench.experiment.records import (
    Answers,
    Results,
    RetrieverRun,
    with_failures,
    with_failures_of,
)
from ragbench.experiment.stages.answers import AnswerQueries, AskApp
from ragbench.experiment.stages.base import Keep, Node, Slot, StoredStage, Workspace
from ragbench.experiment.stages.item_json import read_column, write_column
from ragbench.experiment.stages.keys import KEY_DIGITS, code_in, versions_of
from ragbench.experiment.stages.matching import document_of
from ragbench.experiment.stages.model_judgements import JudgePassages
from ragbench.experiment.stages.retrieval import Rank
from ragbench.records.codec import Record, from_json, to_json
from ragbench.records.score import RunCounts
from ragbench.score.base import Advance
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.notation import Measure, parse_measures
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.score.retrieval.score_run import Rules, score_passages, score_run
from ragbench.score.text.base import CallRows, Metric
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.notation import text_notes
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.store.items import StageItems
from ragbench.types import Cause, Qrels, ScoreColumn
from ragbench.types.byte_ids import ByteIds, as_bytes
from ragbench.types.conversation import Json
from ragbench.types.rows import Mapped

# Distributions whose version may move what a metric gives.
_LIBRARIES = ("rouge-score", "sacrebleu", "nltk", "bert-score", "sentence-transformers", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored(Record):
    """A measure of a ranking as it is stored, with how the ranking was read."""

    column: Mapping[str, Json]
    counts: RunCounts | None = None
    warnings: tuple[str, ...]


class ScoreRanking(StoredStage):
    """Score a ranking by every measure of the plan."""

    kind, version = "score", 2
    unit = "measures"

    def __init__(
        self, workspace: Workspace, system: System, rank: Rank, judgements: JudgePassages
    ) -> None:
        super().__init__(workspace, f"score {system.name}", rank.under)
        self.system, self._rank, self._judgements = system, rank, judgements

    @property
    def _ranking(self) -> RetrieverRun:
        if self._rank.ranking is None:
            raise ValueError(f"{self.system.name} has no ranking")
        return self._rank.ranking

    def slots(self) -> list[Slot | None]:
        """One for each measure."""
        items = self.items_of(self._ranking.name, self._key_parts())
        return [Slot(items, name, row) for row, name in enumerate(self.plan.measures)]

    def _key_parts(self) -> list[str]:
        """Return all that the scores of a ranking depend on but the measures."""
        ranking, judgements = self._ranking, self._judgements
        rules = self.plan.config.metrics.retrieval
        fingerprint_of = self.plan.collection.fingerprint
        return [
            code_in("ragbench.score.retrieval"),
            repr(replace(rules, measures=None)),
            ranking.name,
            fingerprint(_pieces(ranking), KEY_DIGITS),
            fingerprint(_columns_of(as_bytes(ranking.run.query_ids))),
            "none" if judgements.qrels is None else judgements.qrels.fingerprint(),
            repr(judgements.source),
            fingerprint_of("answers") or "none",
            fingerprint_of("corpus") or "none",
        ]

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Score by all measures that are missing."""
        measures = parse_measures([self.plan.measures[at] for at in todo])
        by_id = [measure for measure in measures if measure.spec.reads != "passages"]
        by_text = [measure for measure in measures if measure.spec.reads == "passages"]
        columns, counts, warnings = dict[str, ScoreColumn](), None, tuple[str, ...]()
        if by_id and self._judgements.qrels is not None:
            columns, counts = self._score_ids(self._judgements.qrels, by_id)
        if by_text:
            of_texts, warnings = self._score_texts(by_text)
            columns |= of_texts
        failed = dict(without_value(self._ranking.outcomes))
        for at, measure in zip(todo, measures, strict=True):
            column = columns[measure.written]
            if measure.k is None:
                top_k = self.plan.config.metrics.retrieval.top_k
                column = replace(column, signature=column.signature.with_parts(top_k=top_k))
            stored = write_column(with_failures(column, failed))
            keep(at, to_json(_Stored(column=stored, counts=counts, warnings=warnings)))
        advance(len(todo))

    def _score_ids(
        self, qrels: Qrels, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], RunCounts | None]:
        """Return the columns of measures that read ids, a row per query, and how it was read."""
        rules, columns = self.plan.config.metrics.retrieval, dict[str, ScoreColumn]()
        scored = score_run(
            self._ranking.run,
            qrels,
            measures,
            missing=rules.missing,
            no_relevant=rules.no_relevant,
            ties=rules.ties,
            trec_eval=rules.trec_eval,
        )
        if scored.ranked is not None:
            self._ranking.note_ranks(qrels, scored.ranked)
        row_of = {query_id: row for row, query_id in enumerate(scored.query_ids)}
        # -1 is a query without judgements
        rows = np.array([row_of.get(name, -1) for name in self.plan.ids], dtype=np.int64)
        for column in scored.columns:
            signature = column.signature.with_parts(match=rules.match.rule)
            if self._judgements.source is not None:
                signature = signature.replacing(qrels=self._judgements.source)
            columns[column.name] = replace(
                column,
                values=np.append(column.values, np.nan)[rows],
                causes=np.append(column.causes, np.uint8(Cause.NO_JUDGEMENTS))[rows],
                signature=signature,
            )
        return columns, scored.counts

    def _score_texts(
        self, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], tuple[str, ...]]:
        """Look into passages as they were retrieved, whatever judgements call a document."""
        plan, ranking, warnings = self.plan, self._ranking, tuple[str, ...]()
        rules = plan.config.metrics.retrieval
        run = ranking.run if ranking.unmatched is None else ranking.unmatched
        order = ranked_documents(run, ties=rules.ties, trec_eval=rules.trec_eval)
        passages = []
        for name, outcome in zip(plan.ids, ranking.outcomes, strict=True):
            hits = [] if outcome.value is None else outcome.value.documents
            texts = {hit.id: document_of(hit, plan.corpus) for hit in reversed(hits)}
            ranked = (texts.get(document) for document in order.get(name, ()))
            passages.append([None if d is None else d.full_text for d in ranked])
        deepest = max((measure.k or rules.top_k) for measure in measures)
        looked_at = [text for texts in passages for text in texts[:deepest]]
        if unknown := sum(text is None for text in looked_at):
            what = f"{ranking.name}: {unknown} of {len(looked_at)} passages have no text"
            if unknown == len(looked_at):
                allowed = "a retriever that returns texts, or a data set with these documents"
                raise DataError(f"{what} for {measures[0].written}", allowed=allowed)
            warnings = (f"{what}: {measures[0].written} cannot find an answer in them",)
        retrieved = RetrievedPassages(
            [[text or "" for text in texts] for texts in passages],
            [plan.collection.answers.get(name, ()) for name in plan.ids],
        )
        missing = [row for row, name in enumerate(plan.ids) if name not in order]
        kept = Rules(rules.ties, rules.trec_eval, rules.missing, rules.no_relevant)
        columns = score_passages(retrieved, measures, kept, missing=missing)
        return {column.name: column for column in columns}, warnings

    def read(self, stored: object) -> tuple[ScoreColumn, _Stored]:
        """Return the column, and how the ranking was read."""
        kept = from_json(_Stored, stored)
        return read_column(kept.column), kept

    def collect(self, results: Results) -> None:
        """Add the columns, and how the ranking was read."""
        if self._rank.ranking is None:
            return
        kept = self.items() if self.plan.measures else []
        columns = {name: each[0] for name, each in zip(self.plan.measures, kept, strict=True)}
        counts = next((about.counts for _, about in kept if about.counts), None)
        results.add_scores(self.system, columns, "retrieval", counts)
        results.warnings += dict.fromkeys(said for _, about in kept for said in about.warnings)

    def forecast(self) -> Node | None:
        """Look up the scores; not those of an app, which may tell no ranking, or of records."""
        if self._rank.source is None or not self.plan.measures:
            return None
        # where a model judges passages, the judgements are not known yet
        if self._rank.is_known and self.plan.fill is None:
            self.items()
        return self.node(len(self.plan.measures))


class ScoreAnswers(StoredStage):
    """What answers are worth by every metric of the plan, each sample by itself."""

    kind, version = ScoreRanking.kind, ScoreRanking.version
    unit = "metrics"

    def __init__(
        self,
        workspace: Workspace,
        answer: AnswerQueries,
        scorer_of: Callable[[tuple[Metric, ...]], TextScorer],
    ) -> None:
        # the ranking of an app is scored as well
        title = f"score {answer.system.name}{' (answers)' if isinstance(answer, AskApp) else ''}"
        super().__init__(workspace, title, None if answer.is_recorded else answer)
        self._answer, self._scorer_of = answer, scorer_of

    @cached_property
    def _samples(self) -> list[Answers]:
        return self._answer.answers.by_sample()

    @property
    def _gold(self) -> Sequence[Sequence[str]]:
        """The gold answers of each query, read when somebody looks at them."""
        answers = self.plan.collection.answers
        return Mapped(lambda name: answers.get(name, ()), self.plan.ids)

    def slots(self) -> list[Slot | None]:
        """One for each sample and metric; equal texts share it, whichever system wrote them."""
        slots = list[Slot | None]()
        for sample in self._samples:
            items = dict[str, StageItems]()
            for metric in self.plan.metrics:
                reads = metric.declaration.reads
                if reads not in items and reads == "texts":
                    part = _texts_parts(_texts_of(sample), self._gold)
                    items[reads] = self.items_of(sample.name, [part])
                elif reads not in items:
                    items[reads] = self.items_of(sample.name, [_calls_parts(self._calls(sample))])
                slots.append(Slot(items[reads], _metric_key(metric), len(slots)))
        return slots

    def _calls(self, answers: Answers) -> CallRows:
        expected = self.plan.collection.expected_tool_calls
        return CallRows(
            [None if o.value is None else o.value.tool_calls for o in answers.outcomes],
            [*map(expected.get, self.plan.ids)],
        )

    def _groups(self, todo: Sequence[int]) -> Iterator[tuple[int, list[int], TextScorer]]:
        """Yield each sample with the numbers of its missing metrics, and their scorer."""
        metrics = self.plan.metrics
        for sample, positions in groupby(todo, lambda at: at // len(metrics)):
            numbers = [at % len(metrics) for at in positions]
            yield sample, numbers, self._scorer_of(tuple(metrics[number] for number in numbers))

    def progress_total(self, todo: Sequence[int]) -> tuple[int, str]:
        """As many steps as the metrics have, some of which load a model."""
        n = len(self.plan.queries)
        return sum(scorer.steps(n) for _, _, scorer in self._groups(todo)), "scores"

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Score each sample by the metrics that are missing."""
        for sample, numbers, scorer in self._groups(todo):
            answers = self._samples[sample]
            texts = [*_texts_of(answers)]
            columns = scorer.score(texts, self._gold, advance, self._calls(answers))
            for number, column in zip(numbers, columns, strict=True):
                keep(sample * len(self.plan.metrics) + number, write_column(column))

    read = staticmethod(read_column)

    def collect(self, results: Results) -> None:
        """Add the columns; the causes are of this system, also where texts are shared."""
        metrics, answers = self.plan.metrics, self._answer.answers
        found = self.items() if metrics else []
        for number, metric in enumerate(metrics):
            columns = [
                with_failures_of(each, replace(column, name=metric.name))
                for each, column in zip(self._samples, found[number :: len(metrics)], strict=True)
            ]
            results.add_samples(self._answer.system, metric.name, columns, "generation")
        # what the metrics cannot see in these texts
        notes, n = text_notes(_texts_of(answers), self._gold, metrics), answers.name
        results.notes += [f"{n}: {note}" for note in notes]

    @property
    def computes(self) -> bool:
        """Whether any of the metrics takes long."""
        return any(metric.declaration.computes for metric in self.plan.metrics)

    def forecast(self) -> Node | None:
        """Look up the scores."""
        if not self.plan.metrics or self._answer.system.role == "control":
            return None
        if self._answer.is_known:
            self.items()
        return self.node(len(self.plan.metrics) * self._answer.samples)


def _texts_of(answers: Answers) -> Sequence[str | None]:
    """The answers, each read when somebody looks at it."""
    return Mapped(lambda o: None if o.value is None else o.value.answer, answers.outcomes)


def _pieces(ranking: RetrieverRun) -> Iterator[str | bytes]:
    if isinstance(ranking.outcomes, FileRankings):
        run = ranking.outcomes.run(ranking.name)
        yield from ("recorded", run.starts.tobytes(), run.scores.tobytes())
        for ids in (ranking.outcomes.query_ids, run.query_ids, run.documents):
            yield from _columns_of(as_bytes(ids))
        return
    for query, outcome in zip(ranking.queries, ranking.outcomes, strict=True):
        yield from (query.id, outcome.cause.word, outcome.detail)
        for hit in () if outcome.value is None else outcome.value.documents:
            yield from (hit.id, repr(hit.score), hit.title or "", hit.text or "")
            if hit.metadata:
                yield fingerprint_json(dict(hit.metadata))


def _columns_of(ids: ByteIds) -> list[bytes]:
    return [column.tobytes() for column in (ids.starts, ids.lengths, ids.data)]


def _texts_parts(texts: Sequence[str | None], gold: Sequence[Sequence[str]]) -> str:
    def pieces() -> Iterator[str]:
        for text, references in zip(texts, gold, strict=True):
            yield from ("none",) if text is None else ("text", text)
            yield from (str(len(references)), *references)

    return fingerprint(pieces(), KEY_DIGITS)


def _calls_parts(calls: CallRows) -> str:
    pairs = zip(calls.actual, calls.expected, strict=True)
    rows = [
        [None if each is None else [call.to_dict() for call in each] for each in pair]
        for pair in pairs
    ]
    return fingerprint_json(rows, KEY_DIGITS)


def _metric_key(metric: Metric) -> str:
    """A metric with its options, the content of the files they name, and the code behind it."""
    facts = metric.declaration.facts
    known = facts(metric.options) if callable(facts) else facts
    definition = (metric.canonical, metric.declaration.version, dict(known))
    return fingerprint_json([*definition, versions_of(_LIBRARIES)])
