"""Stage that scores answers by text and tool call metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import groupby
from typing import Any

from ragbench.comparison.slices import answerable_questions
from ragbench.experiment import records
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.stages import keys
from ragbench.experiment.stages.answers import AnswerQueries, AskApp
from ragbench.experiment.stages.base import ItemGroup, Keep, Outputs, Slot, Stage, Step
from ragbench.experiment.stages.controls import CANARY, canary_columns
from ragbench.experiment.stages.matching import scored_ids
from ragbench.experiment.stages.ranking_scores import ScoreRanking
from ragbench.experiment.stages.retrieval import BuildRanking
from ragbench.records.codec import from_line
from ragbench.records.columns import ColumnRow, column_row, read_column_row
from ragbench.score.base import Advance
from ragbench.score.text.base import AnswerSources, CallRows, Metric
from ragbench.score.text.columns import TextScorer
from ragbench.score.text.judged_rows import JUDGED_PARTS, JudgedRows
from ragbench.score.text.notation import text_notes
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import ScoreColumn, ToolCall
from ragbench.types.lookups import take_items
from ragbench.types.records import nuggets_fingerprint
from ragbench.types.rows import Mapped

# Packages whose version may change the value of a metric: their versions are part of the keys.
_LIBRARIES = ("rouge-score", "sacrebleu", "nltk", "bert-score", "sentence-transformers", "torch")


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


def _texts_of(answers: records.Answers) -> Sequence[str | None]:
    """Return the text of each answer, read on access; None where the answer failed."""
    return Mapped(lambda o: None if o.value is None else o.value.answer, answers.outcomes)


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
