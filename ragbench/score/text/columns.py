"""Scores of many predictions by many metrics: one score column per metric."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from ragbench.errors import AdapterError, OptionError, RagbenchError
from ragbench.executors.base import Executor, Facts, LostItem, Task, blocks_of
from ragbench.score.base import ROUNDING
from ragbench.score.text import base
from ragbench.score.text.gold_words import has_no_answer
from ragbench.score.text.judged_rows import JUDGED_PARTS, JudgedRows
from ragbench.score.text.notation import parse_metric
from ragbench.signature import Signature, fingerprint_json, fingerprint_unordered
from ragbench.text.refusals import refuses
from ragbench.types import CauseArray, ScoreColumn, ToolCall
from ragbench.types.lookups import omit_keys, take_items
from ragbench.types.records import nuggets_fingerprint
from ragbench.types.scores import Cause

_BLOCK, _MODEL_BLOCK = 128, 16  # rows per task of a worker, without and with a model


class TextScorer:
    """Scorer of the texts of several systems, one system after another.

    Metrics of one declaration share tokens, so that each distinct text is tokenised once.
    Computations on references and loaded models are kept for the next system.
    `TextScorer(["bleu"])` raises OptionError for an unknown metric, and MissingExtra or DataError
    if a metric cannot be computed here; with an `executor` its workers compute expensive metrics.
    Metrics of tool calls need `calls`, metrics of abstention `answerable`: else `score` raises
    OptionError; it raises AdapterError if a metric of the user fails.

    Attributes:
        metrics: Parsed metrics, in the order of the request.
    """

    def __init__(
        self, metrics: Sequence[str | base.Metric], executor: Executor | None = None
    ) -> None:
        """Parse the metrics; with an executor, expensive ones are computed by its workers.

        Without one, everything is computed in this process. Packages and models of a metric that
        workers compute are looked up there: `score` raises AdapterError without them.

        Raises:
            OptionError: An unknown metric or option, or a function of the user that takes other
                arguments than a metric.
            MissingExtra: A metric needs a package that is not installed.
            DataError: A model is not in the cache of the hub, which cannot be reached, or code of
                the user cannot be imported.
        """
        self.metrics = [parse_metric(name) for name in metrics]
        groups: dict[tuple[int, str], list[base.Metric]] = {}
        for metric in self.metrics:
            # metrics of one declaration with equal options share tokens and a model
            key = (id(metric.declaration), repr(metric.options))
            groups.setdefault(key, []).append(metric)
        self._groups: list[tuple[list[base.Metric], base.Scorer]] = []
        for group in groups.values():
            if executor and group[0].declaration.computes:
                self._groups.append((group, _WorkerScorer(group, executor)))
            else:
                self._groups.append((group, _open(group[0])))
        self._gold: list[tuple[str, ...]] = []
        self._print_of_gold = gold_print([])

    def steps(self, n_rows: int) -> int:
        """Return the number of steps that `score` reports to `advance` for `n_rows` rows.

        A step is a row by the metrics of one declaration and equal options.
        """
        return n_rows * len(self._groups)

    def score(
        self,
        predictions: Sequence[str | None],
        references: Sequence[Sequence[str]],
        advance: base.Advance | None = None,
        calls: base.CallRows | None = None,
        answerable: Sequence[bool | None] | None = None,
        questions: Sequence[str] | None = None,
        sources: Sequence[base.AnswerSources] | None = None,
        judged: JudgedRows | None = None,
    ) -> list[ScoreColumn]:
        """Score predictions against their references; return a column per metric, in order.

        A prediction of None, no answer, gets no score; an empty text is an answer and is scored. An
        item without references gets no score by metrics that need one. One text is a list of one
        reference. `advance` is called with `steps(len(predictions))` steps in total; `calls` are
        the tool calls for metrics that read them, and `answerable` tells for others of each item
        whether its question has an answer, None if nothing tells. `questions` are the texts of the
        questions, for the metric `right`; without `answerable`, gold answers that all decline stand
        for a question without an answer. `sources` are the passages and gold documents for metrics
        of citations, `judged` the judgements of the answers for metrics that count them. A row
        whose computation ended its worker twice, or is too long for its metric, has no value, with
        the cause `error`.

        Raises:
            DataError: The lists differ in length, or a member is no text.
            OptionError: A metric of tool calls, without `calls`, of abstention, without
                `answerable`, of citations, without `sources`, or of judgements, without `judged`.
            AdapterError: A metric of the user fails, or returns no number.
            ValueError: `calls`, `answerable` or `sources` has another length than the predictions.

        Example:
            >>> scorer = TextScorer(["rouge1", "rouge1(stemmer=true)"])
            >>> columns = scorer.score(["a cat", None], [["the cats"], ["a dog"]])
            >>> [(column.name, column.values.tolist()) for column in columns]
            [('rouge1', [0.0, nan]), ('rouge1(stemmer=true)', [0.5, nan])]
        """
        texts = base.checked_rows(predictions, references)
        gold = [references for _, references in texts]
        # all systems of a run have the same references: hash them once
        if gold != self._gold:
            self._gold, self._print_of_gold = gold, gold_print(gold)
        report: base.Advance = advance or (lambda n: None)
        columns: dict[base.Metric, ScoreColumn] = {}
        facts = _ItemFacts(
            texts, gold, self._print_of_gold, calls, answerable, questions, sources, judged
        )
        for group, scorer in self._groups:
            print_of_gold, inputs = facts.inputs_of(group[0])
            rows: list[base.Row] = []
            causes = np.full(len(texts), Cause.SCORED, np.uint8)
            for number, row in enumerate(inputs):
                if isinstance(row, Cause):
                    causes[number] = row
                else:
                    rows.append(row)
            signed = shared_signature(group[0], print_of_gold)
            if isinstance(scorer, base.WeighsReferences):
                scorer.weigh(gold)
            scored = scorer(rows, group, report)
            # rows that are not scored count as completed steps
            report(len(texts) - len(rows))
            for metric, column in zip(group, scored, strict=True):
                columns[metric] = _score_column(metric, column, causes, signed)
        return take_items(columns, self.metrics)


class _WorkerScorer:
    """Scorer that sends rows to workers, for the metrics of one declaration."""

    def __init__(self, metrics: Sequence[base.Metric], executor: Executor) -> None:
        declaration = metrics[0].declaration
        self._executor = executor
        # `weigh` shows on the class of the scorer: no model is loaded here
        self._weighs = hasattr(declaration.open, "weigh")
        self._block = _MODEL_BLOCK if "device" in metrics[0].options else _BLOCK
        self._gold: Sequence[Sequence[str]] = ()

    def weigh(self, references: Sequence[Sequence[str]]) -> None:
        # kept only for metrics with weights: references are sent to every worker
        self._gold = list(references) if self._weighs else ()

    def __call__(
        self, rows: Sequence[base.Row], metrics: Sequence[base.Metric], advance: base.Advance
    ) -> list[base.Column]:
        names = [metric.canonical for metric in metrics]
        options = {"metrics": names, "gold": self._gold}
        task = Task("text metrics", _Component, options, _row_values, _facts_of, _facts(metrics))
        columns: list[list[float | str]] = [[] for _ in metrics]
        for results in self._executor.map(task, blocks_of(rows, self._block)):
            for result in results:
                is_lost = isinstance(result, LostItem)
                outcomes = [result.why] * len(metrics) if is_lost else result
                for column, outcome in zip(columns, outcomes, strict=True):
                    column.append(outcome)
            advance(len(results))
        return [*map(base.Column.of, columns)]


class _Component:
    """Metrics of one declaration in a worker process."""

    def __init__(self, metrics: Sequence[str], gold: Sequence[Sequence[str]]) -> None:
        self.metrics = [parse_metric(name) for name in metrics]
        self.scorer = _open(self.metrics[0])
        if isinstance(self.scorer, base.WeighsReferences):
            self.scorer.weigh(gold)


def _row_values(component: _Component, rows: list[base.Row]) -> list[tuple[float | str, ...]]:
    """Return the values of each row, one per metric of `component`, or why there is none."""
    columns = component.scorer(rows, component.metrics, lambda n: None)
    outcomes = []
    for column in columns:
        values: list[float | str] = list(column.values)
        for row, reason in column.lost.items():
            values[row] = reason
        outcomes.append(values)
    return list(zip(*outcomes, strict=True))


def _facts(metrics: Sequence[base.Metric]) -> Facts:
    """Return names, options, versions and models of metrics, to compare with a worker's."""
    return {"metrics": [f"{m.signed_name}|{shared_signature(m, '')}" for m in metrics]}


def _facts_of(component: _Component) -> Facts:
    return _facts(component.metrics)


def _open(metric: base.Metric) -> base.Scorer:
    """Return the scorer of a metric, after its options are checked."""
    # first: a missing package or model is an error before any text is read
    metric.check()
    declaration = metric.declaration
    if declaration.open is not None:
        return declaration.open(metric.options)
    return base.row_scorer(lambda metrics: _reader(metrics, metric.options), makes_cycles=True)


def _reader(metrics: Sequence[base.Metric], options: base.Options) -> base.RowReader:
    """Return a function of a prediction and its references, with one value per metric."""
    function = metrics[0].declaration.function
    is_built_in = str(getattr(function, "__module__", "")).startswith("ragbench.")
    ranges = [metric.range for metric in metrics]

    def read(prediction: str, references: Sequence[str]) -> Sequence[float | str]:
        """Return the values of one row for the metrics of a group."""
        try:
            result = function(prediction, references, **options)
            values = [getattr(result, m.part) if m.part else result for m in metrics]
        except base.TextTooLong as error:
            return [str(error)] * len(metrics)
        except Exception as error:  # code of the user's may raise anything
            if is_built_in or isinstance(error, RagbenchError):
                raise
            reason = f"{type(error).__name__}: {error}"
            raise AdapterError(f"metric '{metrics[0].name}': {reason}") from error
        for metric, value, (low, high) in zip(metrics, values, ranges, strict=True):
            allowed = ""
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                allowed = "a number"
            # NaN is a missing value, which the caller refuses or counts
            elif value < low - ROUNDING or value > high + ROUNDING or math.isinf(value):
                allowed = f"finite numbers from {low:g} to {high:g}, the range that it declares"
                if math.isinf(low) and math.isinf(high):
                    allowed = "a finite number"
            if allowed:
                raise AdapterError(f"metric '{metric.name}': found {value!r}, allowed: {allowed}")
        return values

    return read


def gold_print(gold: Sequence[Sequence[str]]) -> str:
    """Return the fingerprint of the gold answers of all items, whatever the order of the items."""
    return fingerprint_unordered(map(sorted, gold))


def calls_print(expected: Sequence[Sequence[ToolCall] | None]) -> str:
    """Return the fingerprint of the gold tool calls of all items, whatever their order."""
    prints = []
    for calls in expected:
        row = None if calls is None else [call.to_dict() for call in calls]
        prints.append([fingerprint_json(row)])
    return fingerprint_unordered(prints)


def shared_signature(metric: base.Metric, gold: str) -> Signature:
    """Return the signature that all metrics of one declaration and options share.

    `gold` is the fingerprint of the references, left out for metrics without any; the name is
    empty. Errors of `Declaration.facts` are passed on, as for a missing model.
    """
    declaration = metric.declaration
    facts = declaration.facts
    parts = dict(facts(metric.options) if callable(facts) else facts)
    parts |= omit_keys(metric.options, declaration.unsigned)
    if declaration.needs_reference:
        # gold answers may be the same where the gold calls are others
        # gold documents are those of the judgements
        names = {"tool_calls": "tool_calls", "citations": "qrels", "nuggets": "nuggets"}
        parts[names.get(declaration.reads, "gold")] = gold
    return Signature.of("", **parts, v=declaration.version)


# Arguments of a metric for one item, or the cause why the item has no score.
_Inputs = base.Row | Cause


@dataclass(frozen=True, slots=True)
class _ItemFacts:
    """Items to score, with all that metrics read of them; None is not known."""

    texts: Sequence[tuple[str | None, Sequence[str]]]  # predictions with their references
    gold: Sequence[Sequence[str]]  # the references alone
    print_of_gold: str  # fingerprint of the references
    calls: base.CallRows | None
    answerable: Sequence[bool | None] | None
    questions: Sequence[str] | None
    sources: Sequence[base.AnswerSources] | None
    judged: JudgedRows | None
    # several metrics read the refusals
    refuses: Callable[[str], bool | None] = field(default_factory=lambda: functools.cache(refuses))

    def inputs_of(self, metric: base.Metric) -> tuple[str, Iterator[_Inputs]]:
        """Return the fingerprint of the gold that a metric reads, and its inputs for each item."""
        declaration = metric.declaration
        predictions = [prediction for prediction, _ in self.texts]
        if declaration.reads == "texts":
            return self.print_of_gold, _text_inputs(declaration, self.texts)
        if declaration.reads == "answerable" and self.answerable is not None:
            states = fingerprint_unordered([str(state)] for state in self.answerable)
            function = declaration.function
            return states, _refusal_inputs(function, predictions, self.answerable, self.refuses)
        if declaration.reads == "tool_calls" and self.calls is not None:
            needs_gold = declaration.needs_reference
            inputs = _call_inputs(predictions, self.calls, needs_gold=needs_gold)
            return calls_print(self.calls.expected), inputs
        if declaration.reads == "questions":
            items = _asked_questions(self.gold, self.questions, self.answerable)
            return self.print_of_gold, _question_inputs(declaration.function, predictions, items)
        if declaration.reads == "citations" and self.sources is not None:
            relevant = fingerprint_unordered(sorted(s.relevant) for s in self.sources)
            return relevant, _citation_inputs(metric, predictions, self.sources)
        if declaration.reads in JUDGED_PARTS and self.judged is not None:
            nuggets = self.judged.nuggets
            facts = fingerprint_unordered([nuggets_fingerprint(of_item)] for of_item in nuggets)
            return facts, _judged_inputs(declaration.reads, predictions, self.judged)
        allowed = "metrics of texts; this one reads more: it is scored in a run over records"
        raise OptionError("metric", "name", metric.name, allowed)


def _text_inputs(
    declaration: base.Declaration, rows: Iterable[tuple[str | None, Sequence[str]]]
) -> Iterator[_Inputs]:
    """Yield prediction and references of each row, or the cause of its missing value."""
    for prediction, references in rows:
        # causes of the reference come first: they are the same for all systems
        if not references and declaration.needs_reference:
            yield Cause.NO_REFERENCE
        elif (cause := declaration.gold_cause(references)) is not Cause.SCORED:
            yield cause
        elif prediction is None:
            yield Cause.NO_ANSWER
        else:
            yield prediction, references


def _call_inputs(
    predictions: Sequence[str | None], calls: base.CallRows, *, needs_gold: bool
) -> Iterator[_Inputs]:
    """Yield actual and gold tool calls of each row, or the cause of its missing value."""
    rows = zip(predictions, calls.actual, calls.expected, strict=True)
    for prediction, actual, gold in rows:
        if gold is None and needs_gold:
            yield Cause.NO_EXPECTED_CALLS
        elif actual is None:
            yield Cause.NO_ANSWER if prediction is None else Cause.NO_TOOL_CALLS
        else:
            yield cast("base.Row", (actual, gold or ()))


def _refusal_inputs(
    function: Callable[[bool, bool], float],
    predictions: Sequence[str | None],
    answerable: Sequence[bool | None],
    refuses: Callable[[str], bool | None],
) -> Iterator[_Inputs]:
    """Yield (refusal, answerable) of each row, or the cause of its missing value."""
    for prediction, has_answer in zip(predictions, answerable, strict=True):
        # causes that lie in the question come before those of the reply
        if has_answer is None:
            yield Cause.NO_REFERENCE
        elif math.isnan(function(True, has_answer)):
            yield Cause.HAS_ANSWER if has_answer else Cause.HAS_NO_ANSWER
        elif prediction is None:
            yield Cause.NO_ANSWER
        elif (refusal := refuses(prediction)) is None:
            yield Cause.UNSURE_REFUSAL
        elif math.isnan(function(refusal, has_answer)):
            yield Cause.NO_REFUSAL
        else:
            yield cast("base.Row", (refusal, has_answer))


def _asked_questions(
    gold: Sequence[Sequence[str]],
    questions: Sequence[str] | None,
    answerable: Sequence[bool | None] | None,
) -> list[base.AskedQuestion]:
    """Return the question of each item; its text is empty without `questions`."""
    if answerable is None:
        answerable = [not has_no_answer(answers) if answers else None for answers in gold]
    texts = [""] * len(gold) if questions is None else questions
    return [*map(base.AskedQuestion, texts, gold, answerable)]


def _question_inputs(
    function: Callable[[str, base.AskedQuestion], float],
    predictions: Sequence[str | None],
    questions: Sequence[base.AskedQuestion],
) -> Iterator[_Inputs]:
    """Yield prediction and question of each row, or the cause of its missing value."""
    for prediction, question in zip(predictions, questions, strict=True):
        by_words = bool(question.answers) and question.answerable is not False
        if not by_words and question.answerable is None:
            yield Cause.NO_REFERENCE
        elif prediction is None:
            yield Cause.NO_ANSWER
        elif not by_words and math.isnan(function(prediction, question)):
            # an answer to a question with an answer that is not given is neither right nor wrong
            is_sure = question.answerable and refuses(prediction) is False
            yield Cause.NO_REFERENCE if is_sure else Cause.UNSURE_REFUSAL
        else:
            yield cast("base.Row", (prediction, question))


def _citation_inputs(
    metric: base.Metric,
    predictions: Sequence[str | None],
    sources: Sequence[base.AnswerSources],
) -> Iterator[_Inputs]:
    """Yield prediction and sources of each row, or the cause of its missing value."""
    function = metric.declaration.function
    for prediction, source in zip(predictions, sources, strict=True):
        # causes that lie in the question come before those of the answer
        if not source.gold:
            yield Cause.NO_JUDGEMENTS if source.gold is None else Cause.NO_RELEVANT
        elif prediction is None:
            yield Cause.NO_ANSWER
        elif source.documents is None:
            yield Cause.NO_CONTEXTS
        elif not source.has_known_ids:
            yield Cause.UNKNOWN_IDS
        elif math.isnan(function(prediction, source, **metric.options)):
            yield Cause.NO_CITATIONS
        else:
            yield cast("base.Row", (prediction, source))


def _judged_inputs(
    part: str, predictions: Sequence[str | None], judged: JudgedRows
) -> Iterator[_Inputs]:
    """Yield prediction and judgements of each row, or the cause of its missing value."""
    rows = zip(predictions, judged.answers, judged.judged, strict=True)
    for prediction, judgements, parts in rows:
        value = getattr(judgements, part, None)
        # causes that lie in the question come before those of the answer
        if part not in parts:
            yield Cause.NO_JUDGEMENTS
        elif prediction is None:
            yield Cause.NO_ANSWER
        elif value is None:
            yield Cause.NO_JUDGEMENTS
        else:
            yield cast("base.Row", (prediction, value))


def _score_column(
    metric: base.Metric, column: base.Column, causes: CauseArray, signed: Signature
) -> ScoreColumn:
    """Return the values of the scored rows as a column over all rows."""
    values = np.full(len(causes), np.nan)
    scored = np.flatnonzero(causes == Cause.SCORED)
    values[scored] = column.values
    if column.lost:
        causes = causes.copy()  # the array is shared with the other metrics
        causes[scored[list(column.lost)]] = Cause.ERROR
    declaration = metric.declaration
    # one query can change the score of a corpus by any amount
    low, high = (-np.inf, np.inf) if declaration.aggregate == "corpus" else metric.range
    return ScoreColumn(
        name=metric.name,
        values=values,
        causes=causes,
        signature=Signature(metric.signed_name, signed.parts),
        direction=declaration.direction,
        low=low,
        high=high,
        aggregate=declaration.aggregate,
        total=column.total,
        details={int(scored[row]): why for row, why in column.lost.items()},
    )
