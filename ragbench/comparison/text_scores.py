"""Scores of answers by metrics that compare texts, with intervals and counts."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ragbench.comparison.evaluation import Evaluation
from ragbench.errors import OptionError, Phrase
from ragbench.log import log_notes
from ragbench.records.score import PairCounts
from ragbench.score.retrieval.notation import Measure
from ragbench.types import Cause, Prediction, ScoreColumn, tables
from ragbench.types.lookups import index_by_name
from ragbench.types.progress_line import Counted, ProgressChoice, Report, shown_progress
from ragbench.types.reasoning import Reasoning, check_reasoning
from ragbench.types.records import reasoning_notes, without_reasoning

if TYPE_CHECKING:  # scoring a run needs no text metrics
    from ragbench.score.text.base import AnswerSources, CallRows


def evaluate_texts(
    predictions: Sequence[str | None] | tables.Table,
    references: Sequence[str | Sequence[str] | None] | None = None,
    metrics: Sequence[str | Callable[..., Any]] = (),
    *,
    confidence: float = 0.95,
    progress: ProgressChoice = None,
    columns: Mapping[str, str] | None = None,
    reasoning: Reasoning = "cut",
) -> Evaluation:
    """Score predictions against references, paired by position, or the rows of a table.

    Args:
        predictions: n generated texts; None if a system has no answer. Or a table with answers and
            references: a data frame (pandas, polars, Arrow) or a list of mappings, whose columns
            have the names that files of records may have.
        references: n reference texts, or lists of several each; None or an empty list if an item
            has none. None with a table.
        metrics: Names of metrics: `rouge1`, `rougeL.recall`, `bleu(tokenize=zh)`; or functions, as
            `evaluate` takes them.
        confidence: Level of the intervals.
        progress: As `evaluate` takes it; a function is called with numbers of scores.
        columns: Names of the columns of a table, if they are not usual ones:
            `{"answer": ..., "reference": ...}`.
        reasoning: `cut` scores predictions without the reasoning of a model in front of them, such
            as `<think>`; `keep` scores them as they are. References stay as they are.

    Returns:
        Scores of the n items, whose ids are their positions as text, `0` first. Items without a
        prediction or a reference have no value, and no items give means of NaN.

    Raises:
        DataError: The two differ in length, a table lacks columns, or a model cannot be loaded.
        OptionError: A metric or option is not allowed, or the arguments do not fit together.
        MissingExtra: A metric needs a package that is not installed.
        AdapterError: A metric of the user fails, or returns no number.

    Warns:
        UnseenText: A metric does not read some of these texts as a user expects, or reasoning was
            cut; one warning for each of the `notes` of the result.

    Example:
        >>> result = evaluate_texts(["a red fox"], ["the red fox"], ["rouge1"])
        >>> round(result.mean["rouge1"], 4), result.summary["rouge1"].n
        (0.6667, 1)
        >>> rows = [{"response": "a red fox", "reference": "the red fox"}]
        >>> round(evaluate_texts(rows, metrics=["rouge1"]).mean["rouge1"], 4)
        0.6667
    """
    from ragbench.score.text.base import UnseenText

    if tables.is_table(predictions):
        if references is not None:
            problem, allowed = Phrase("references beside a table"), "none: the table holds them"
            raise OptionError("evaluate_texts", "references", problem, allowed)
        predictions, references = tables.texts_of_table(predictions, columns, "evaluate_texts")
    elif columns is not None:
        raise OptionError("evaluate_texts", "columns", columns, "None, for lists of texts")
    # a string is a sequence too: each of its letters would be an unknown metric
    if isinstance(metrics, str) or not metrics:
        raise OptionError("evaluate_texts", "metrics", metrics, "names of metrics, in a list")
    _check_order(predictions, references)
    texts = tables.column_of(predictions, "evaluate_texts", "predictions")
    gold = tables.column_of(references, "evaluate_texts", "references")
    with shown_progress(progress, "metrics") as report:
        evaluation = score_pairs(
            texts,
            gold,
            _metric_names(metrics),
            confidence=confidence,
            progress=report,
            reasoning=reasoning,
        )
    log_notes(evaluation.notes)
    for note in evaluation.notes:
        warnings.warn(note, UnseenText, stacklevel=2)
    return evaluation


def _check_order(predictions: Any, references: Any) -> None:
    """Raise an OptionError for two Series of pandas with equal indexes, but in another order."""
    # only pandas has positions and an index
    if not (hasattr(predictions, "iloc") and hasattr(references, "iloc")):
        return
    index, gold_index = predictions.index, references.index
    if not index.equals(gold_index) and set(index) == set(gold_index):
        problem = Phrase("the index of the predictions in another order")
        raise OptionError("evaluate_texts", "references", problem, "one order, or lists")


def _metric_names(metrics: Sequence[object]) -> list[Any]:
    """Return names of metrics as they are, and the metrics of functions."""
    # only here: scoring a run needs no text metrics
    from ragbench.comparison.function_scores import score_of_function

    names = []
    for metric in metrics:
        score = score_of_function(metric) if inspect.isroutine(metric) else metric
        if isinstance(score, Measure):
            allowed = "metrics, as a list of texts has no rankings"
            raise OptionError("evaluate_texts", "metrics", score.name, allowed)
        names.append(score)
    return names


def with_failed_answers(column: ScoreColumn) -> ScoreColumn:
    """Return a column in which an item without an answer has failed, as in a run."""
    is_missing = column.causes == Cause.NO_ANSWER
    causes = np.where(is_missing, np.uint8(Cause.MISSING_ANSWER), column.causes)
    return replace(column, causes=causes)


class PairFacts(NamedTuple):
    """Facts on the items of `score_pairs` besides predictions and references.

    Attributes:
        questions: Text of each question.
        answerable: True for a question with an answer, False without one; None if nothing tells.
        calls: Tool calls of each item.
        sources: Documents of the passages of each item, and its gold documents.
    """

    questions: Sequence[str]
    answerable: Sequence[bool | None]
    calls: CallRows
    sources: Sequence[AnswerSources]


def score_pairs(
    predictions: Sequence[str | None],
    references: Sequence[str | Sequence[str] | None],
    metrics: Sequence[str],
    *,
    confidence: float = 0.95,
    progress: Report | None = None,
    reasoning: Reasoning = "cut",
    facts: PairFacts | None = None,
) -> Evaluation:
    """Score lists of texts as `evaluate_texts` does, with notes in the result and no warnings.

    `metrics` has names of metrics; without any, the result has no scores. `progress` is called with
    the number of scores so far and in all. `facts` are for metrics that read more than texts; None
    refuses the metrics that need them.

    Returns:
        Scores of the n items, whose ids are their positions as text, `0` first.

    Raises:
        DataError: The lists differ in length, a member is no text, or a model cannot be loaded.
        OptionError: An unknown metric, an option that is not allowed, another `reasoning`, or
            confidence outside (0, 1).
        MissingExtra: A metric needs a package that is not installed.
        AdapterError: A metric of the user fails, or returns no number.
    """
    # only here: scoring a run needs no text metrics
    from ragbench.score.text.base import checked_rows
    from ragbench.score.text.columns import TextScorer
    from ragbench.score.text.notation import text_notes

    check_reasoning("evaluate_texts", reasoning)
    gold = []
    for _, texts in checked_rows(predictions, references):
        gold.append(list(texts))
    answers = []
    for text in predictions:
        answers.append(None if text is None else Prediction(text))
    if reasoning == "cut":
        answers = [answer and without_reasoning(answer) for answer in answers]
    predictions = [None if answer is None else answer.answer for answer in answers]
    scorer = TextScorer(metrics)
    advance = progress and Counted(progress, scorer.steps(len(gold)))
    scored = scorer.score(predictions, gold, advance, **({} if facts is None else facts._asdict()))
    columns = index_by_name(scored)
    counts = PairCounts(
        predictions=len(predictions),
        without_prediction=sum(prediction is None for prediction in predictions),
        without_reference=sum(not texts for texts in gold),
    )
    # here: the readers of run folders would slow down each start of `ragbench score`
    from ragbench.data.runs.run_lines import answer_fingerprints

    ids = [str(i) for i in range(len(gold))]
    prints = {"answers": answer_fingerprints(dict(zip(ids, gold, strict=True)))}
    notes = [*reasoning_notes({"": answers}), *text_notes(predictions, gold, scorer.metrics)]
    return Evaluation(ids, columns, counts, confidence, prints, tuple(notes))
