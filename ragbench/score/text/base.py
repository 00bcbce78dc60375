"""Metrics of answers: functions of a prediction and its references, declared with `@metric`.

    @metric("ends_politely", version=1, needs_reference=False)
    def ends_politely(prediction: str, references: Sequence[str]) -> float: ...

Options are keyword parameters annotated with `Option`, which describes them; the name of a metric
sets them in parentheses: `ends_politely(words=3)`. A metric that is faster on many rows at once, or
that loads a model, also declares `open`. A third party registers the function in the entry point
group `ragbench.metrics`.
"""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    cast,
    runtime_checkable,
)

from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.registry import checked, plain_signature, source_print
from ragbench.score.base import Advance as Advance
from ragbench.score.base import check_range, write_options
from ragbench.types import Aggregate, Cause
from ragbench.types.conversation import ToolCall
from ragbench.types.display import counted
from ragbench.types.scores import Direction

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TextTooLong(DataError):
    """Text beyond the limit of a metric whose time grows with the square of the words.

    Args:
        metric: Name of the metric.
        words: Words of the prediction.
        gold_words: Words of all its references.
        most: Largest product of the two that the metric takes.
    """

    def __init__(self, metric: str, words: int, gold_words: int, most: int) -> None:
        problem = f"{metric}: {words:,} words x {gold_words:,} words of references"
        super().__init__(problem, allowed=f"a product of at most {most:,}")


class UnseenText(UserWarning):
    """Warning of texts that a metric ignores, cuts or splits otherwise than a user expects.

    `evaluate_texts` warns once per note, and a direct call of `rouge` too; the other metric
    functions do not warn.
    """


class OverlapScore(NamedTuple):
    """Precision, recall and F of one prediction; `float()` gives the F.

    `BertScore` is a subclass. Values are from 0 to 1, and for BERTScore below too.

    Attributes:
        precision: Share of the prediction that is in the reference.
        recall: Share of the reference that is in the prediction.
        fmeasure: Harmonic mean of precision and recall; of `BertScore` only with one reference and
            without rescaling.
    """

    precision: float
    recall: float
    fmeasure: float

    def __float__(self) -> float:
        return self.fmeasure

    def to_dict(self) -> dict[str, float]:
        """Return a JSON-ready mapping.

        The keys are `precision`, `recall` and `fmeasure`.
        """
        return self._asdict()

    @classmethod
    def of_counts(cls, hits: int, n_prediction: int, n_reference: int) -> OverlapScore:
        """Return the scores of a prediction that shares `hits` units with its reference.

        Units are tokens or n-grams; the other two numbers count those of each text. All scores are
        0 without a hit, also for empty texts.
        """
        if not hits:
            return NO_OVERLAP
        precision, recall = hits / n_prediction, hits / n_reference
        # the order of operations of rouge-score, so that the last bit is the same
        return cls(precision, recall, 2 * precision * recall / (precision + recall))


NO_OVERLAP = OverlapScore(0.0, 0.0, 0.0)


class BertScore(OverlapScore):
    """Precision, recall and F by BERTScore of one prediction; `float()` gives the F.

    `bertscore` and `BERTScorer` return it.

    Precision is the mean similarity of the tokens of the prediction to their best matches in the
    reference, recall the same from the reference. Values are cosines from -1 to 1, or rescaled with
    at most 1; 0 for a prediction without tokens, or without a reference that has some. Each value
    is that of its best reference: with several, or rescaled, F is not the harmonic mean of the
    other two.
    """

    __slots__ = ()


# Names of the ROUGE types, and of the values of each, for type checkers.
RougeType = Literal[
    "rouge1", "rouge2", "rouge3", "rouge4", "rouge5", "rouge6", "rouge7", "rouge8", "rouge9",
    "rougeL", "rougeLsum",
]  # fmt: skip
RougePart = Literal["precision", "recall", "fmeasure"]
TypeName = TypeVar("TypeName", bound=str)


class RougeScore(dict[RougePart, float]):
    """Precision, recall and F of a prediction by a ROUGE type, each 0..1; `float()` gives the F.

    `rouge` returns it: a mapping, so that JSON has the names. All values are 0 if no token or
    n-gram is shared, as where a text is empty.
    """

    __slots__ = ()

    @property
    def precision(self) -> float:
        """Share of the prediction that is in the reference."""
        return self["precision"]

    @property
    def recall(self) -> float:
        """Share of the reference that is in the prediction."""
        return self["recall"]

    @property
    def fmeasure(self) -> float:
        """Harmonic mean of precision and recall."""
        return self["fmeasure"]

    def __float__(self) -> float:
        return self["fmeasure"]

    def to_dict(self) -> dict[RougePart, float]:
        """Return the values by name, as a plain mapping."""
        return dict(self)


class RougeScores(dict[TypeName, RougeScore]):
    """ROUGE type -> scores, in the order of the request; `float()` gives the F of the first.

    `rouge` returns it. `float()` of an empty one raises StopIteration.
    """

    def __float__(self) -> float:
        return next(iter(self.values())).fmeasure

    def to_dict(self) -> dict[TypeName, dict[RougePart, float]]:
        """Return a JSON-ready mapping.

        The keys are the types; a value has precision, recall and fmeasure.
        """
        return {name: score.to_dict() for name, score in self.items()}


class BleuScore(float):
    """BLEU of one prediction, or of all together: a number with its parts as attributes.

    `bleu` and `corpus_bleu` return it. Lengths are summed over the predictions. Arithmetic gives
    plain numbers, and two scores are equal if their numbers are.

    Attributes:
        precisions: Clipped n-gram precisions for n = 1, 2, ..., 0..1, not smoothed.
        brevity_penalty: 1, or exp(1 - reference_length / prediction_length) for a prediction that
            is shorter; 0 for an empty one, 1 if both are empty.
        prediction_length: Tokens of the prediction.
        reference_length: Tokens of the reference whose length is closest; the shorter of two.
    """

    __slots__ = ("brevity_penalty", "precisions", "prediction_length", "reference_length")

    precisions: tuple[float, ...]
    brevity_penalty: float
    prediction_length: int
    reference_length: int

    def __new__(
        cls,
        score: float,
        precisions: tuple[float, ...],
        brevity_penalty: float,
        prediction_length: int,
        reference_length: int,
    ) -> BleuScore:
        """Return the number `score` with its parts."""
        self = super().__new__(cls, score)
        self.precisions, self.brevity_penalty = precisions, brevity_penalty
        self.prediction_length, self.reference_length = prediction_length, reference_length
        return self

    @property
    def score(self) -> float:
        """BLEU of sacrebleu divided by 100, 0..1; of one prediction with effective order."""
        return float(self)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.score, *(getattr(self, name) for name in BleuScore.__annotations__))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value}" for name, value in self.to_dict().items())
        return f"BleuScore({parts})"

    def __str__(self) -> str:
        return repr(self.score)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping of the score and the attributes, in their order."""
        return {
            "score": self.score,
            "precisions": list(self.precisions),
            "brevity_penalty": self.brevity_penalty,
            "prediction_length": self.prediction_length,
            "reference_length": self.reference_length,
        }


_REPORTED_AT_ONCE = 50  # rows per progress report: a report may cost more than a score

# Prediction and references; for metrics of tool calls, actual and gold calls.
Row = tuple[str, Sequence[str]]
# Data that a metric reads, as `Declaration` explains them.
MetricReads = Literal[
    "texts",
    "tool_calls",
    "answerable",
    "questions",
    "citations",
    "support",
    "nuggets",
    "length",
    "repetitions",
]
# Option -> value, defaults included.
Options = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CallRows:
    """Tool calls of several items, for metrics of tool calls.

    Both lists have an entry per item; this class does not check that.

    Attributes:
        actual: Calls of the system per item, in order; None if they are unknown.
        expected: Gold calls per item; None if the item has no gold calls.
    """

    actual: Sequence[Sequence[ToolCall] | None]
    expected: Sequence[Sequence[ToolCall] | None]


class AskedQuestion(NamedTuple):
    """Question of an item, for the metric `right`.

    Attributes:
        text: Text of the question; empty if it is not known.
        answers: Gold answers.
        answerable: True for a question with an answer, False without one; None if nothing tells.
    """

    text: str
    answers: Sequence[str]
    answerable: bool | None = None


class AnswerSources(NamedTuple):
    """Passages that an answer may cite, and the gold of its question, for `citation_gold.*`.

    Attributes:
        documents: Document of each passage, in the order of the passages: marker [1] cites the
            first; None if the passages are unknown.
        gold: Gold documents of the question; None if it has no judgement.
        has_known_ids: False if no passage of the system is judged or in the corpus.
    """

    documents: Sequence[str] | None
    gold: frozenset[str] | None
    has_known_ids: bool = True

    @classmethod
    def of_grades(
        cls,
        documents: Sequence[str] | None,
        grades: Mapping[str, int] | None,
        rel: int = 1,
        *,
        has_known_ids: bool = True,
    ) -> AnswerSources:
        """Return the sources whose gold documents have a grade of at least `rel`.

        `grades` are those of the judged documents; None without a judgement.
        """
        gold = None
        if grades is not None:
            gold = frozenset(name for name, grade in grades.items() if grade >= rel)
        return cls(documents, gold, has_known_ids)

    @property
    def relevant(self) -> frozenset[str]:
        """Gold documents; empty without a judgement."""
        return self.gold or frozenset()


@dataclass(frozen=True, slots=True)
class Column:
    """Values of one metric, row by row, as a `Scorer` returns them.

    Attributes:
        values: One value per row; of a corpus metric its pseudo-value, whose mean is the total.
            NaN for a lost row.
        total: Value of all rows together, of a corpus metric; None where it is the mean of the
            values.
        lost: Row, from 0, -> reason; rows that ended their worker process, or are too long.
    """

    values: list[float]
    total: float | None = None
    lost: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, outcomes: Iterable[float | str]) -> Column:
        """Return the column of a value, or the reason why there is none, for each row."""
        values, lost = list[float](), dict[int, str]()
        for row, outcome in enumerate(outcomes):
            if isinstance(outcome, str):
                lost[row], outcome = outcome, math.nan
            values.append(outcome)
        return cls(values, lost=lost)


class Scorer(Protocol):
    """Scorer of rows by the metrics of one declaration, alive as long as the run.

    A call `scorer(rows, metrics, advance)` returns a `Column` per metric, in order; `advance` gets
    the number of further scored rows. `Declaration.open` or `block_scorer` makes it. A scorer may
    cache computations on references, since every system is scored against the same ones.
    """

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        """Return a column per metric, in order; call `advance` with the number of scored rows.

        A column has a value per row, in order.
        """
        ...


# Function that returns a value per metric, or the reason why there is none.
RowReader = Callable[[str, Sequence[str]], Sequence[float | str]]
# Function that returns for each of several rows what a `RowReader` returns.
BlockReader = Callable[[Sequence[Row]], Iterable[Sequence[float | str]]]


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Search for no reference cycles during the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def row_scorer(
    reader_of: Callable[[Sequence[Metric]], RowReader], *, makes_cycles: bool = False
) -> Scorer:
    """Return a scorer that scores one row at a time: a function of rows, metrics and `advance`.

    `reader_of(metrics)` returns the function of a prediction and its references that returns a
    value per metric, or the reason why there is none. Everything else is as for `block_scorer`.
    """

    def block_reader(metrics: Sequence[Metric]) -> BlockReader:
        read = reader_of(metrics)
        return lambda rows: itertools.starmap(read, rows)

    return block_scorer(block_reader, makes_cycles=makes_cycles)


def block_scorer(
    reader_of: Callable[[Sequence[Metric]], BlockReader], *, makes_cycles: bool = False
) -> Scorer:
    """Return a scorer that scores 50 rows at a time: a function of rows, metrics and `advance`.

    `reader_of(metrics)` returns the function of rows that returns for each of them a value per
    metric, or the reason why there is none. The scorer returns a column per metric, and calls
    `advance` after each block; no rows give empty columns. A function that returns another number
    of values raises ValueError. `makes_cycles`: the function may make reference cycles, as code of
    users may.
    """

    def score(rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance) -> list[Column]:
        read = reader_of(metrics)
        columns: list[list[float | str]] = [[] for _ in metrics]
        # a search through all objects of the process may take longer than the scores
        with nullcontext() if makes_cycles else _paused_collector():
            for start in range(0, len(rows), _REPORTED_AT_ONCE):
                block = rows[start : start + _REPORTED_AT_ONCE]
                for values in read(block):
                    for column, value in zip(columns, values, strict=True):
                        column.append(value)
                advance(len(block))
        return [*map(Column.of, columns)]

    return score


@runtime_checkable
class WeighsReferences(Protocol):
    """Scorer whose values depend on all references of the run.

    Its method `weigh` is called before rows are scored, and again for the next system.
    `isinstance` is True for any object with such a method.
    """

    def weigh(self, references: Sequence[Sequence[str]]) -> None:
        """Set the weights from the references of all items, unanswered ones included.

        They replace earlier weights.
        """
        ...


@dataclass(frozen=True, slots=True)
class Declaration:
    """Properties of a metric, declared by `@metric`.

    `declaration_of` returns that of a function, `plain_metric` that of a function without
    `@metric`. Values are not checked.

    Attributes:
        names: Metrics that the function computes.
        function: Function of one prediction; its annotated keyword parameters are the options.
        parts: Fields of the result that a name can select after a dot; the first is the default.
        direction: `higher` or `lower`, whichever is better.
        range: Smallest and largest possible value, or a function of the options that returns them.
        aggregate: `mean` of the values of a run, or `corpus`: one value of all texts together.
        equals: Reference implementation, and the tolerance within which values are equal to it.
        not_for: Cases in which another metric is better.
        version: Version of the definition; it changes only when values change.
        needs_reference: True if an item without a reference gets no score.
        computes: True if a row is worth sending to a worker process, and depends only on its texts,
            the options and `weigh`: no server is called, no file is written.
        reads: `texts`: answers and references; `tool_calls`: actual and gold calls; `answerable`:
            whether the answer refuses, and whether the question has an answer; `questions`: the
            answer, and the question with its gold answers; `citations`: the answer, its passages
            and the gold documents of the question; `support`, `nuggets`, `length`: this part of
            the judgements of the answer (`AnswerJudgements`); `repetitions`: `right` of all answers
            to a question, which a run alone knows.
        open: Function that creates a scorer of many rows; None: the function is called per row.
        facts: Further parts of the signature, or a function of the options that returns them.
        unsigned: Options without effect on values, or that `facts` has in another form.
        check: Function that raises MissingExtra or OptionError if the metric cannot be computed.
        notes: Function that returns notes on texts that the metric reads only in part.
        gold_cause: Function of the references that returns the cause why an item has no score;
            SCORED if it has one.
    """

    names: tuple[str, ...]
    function: Callable[..., Any]
    parts: tuple[str, ...] = ()
    direction: Direction = "higher"
    range: tuple[float, float] | Callable[[Options], tuple[float, float]] = (0.0, 1.0)
    aggregate: Aggregate = "mean"
    equals: str = ""
    not_for: str = ""
    version: int = 1
    needs_reference: bool = True
    computes: bool = False
    reads: MetricReads = "texts"
    open: Callable[[Options], Scorer] | None = None
    facts: Mapping[str, str] | Callable[[Options], Mapping[str, str]] = field(default_factory=dict)
    unsigned: frozenset[str] = frozenset()
    check: Callable[[Options], None] = lambda options: None
    notes: Callable[[Sequence[str], Options], list[str]] = lambda texts, options: []
    gold_cause: Callable[[Sequence[str]], Cause] = lambda references: Cause.SCORED


@dataclass(frozen=True, slots=True)
class Metric:
    """Parsed name of a metric, such as `rouge1` or `rouge1(stemmer=true).precision`.

    `parse_metric` makes it, and raises OptionError for an unknown name, field or option. `check`
    raises MissingExtra, OptionError or DataError if the metric cannot be computed here.

    Attributes:
        name: Name as the caller wrote it.
        base: Name without part and options: `rouge1`.
        part: Field of the result; empty if the result is a number.
        options: Option -> value, defaults included.
        chosen: Option -> value, for values other than the default.
        declaration: Properties of the metric.
    """

    name: str
    base: str
    part: str
    options: Options
    chosen: Options
    declaration: Declaration

    def __hash__(self) -> int:
        # a dictionary of options has no hash; the canonical name contains them
        return hash((self.name, self.canonical))

    @property
    def canonical(self) -> str:
        """Name in its shortest spelling, equal for equal scores.

        Options that are the default, and the first part, are left out.
        """
        return f"{self.base}{write_options(self.chosen)}{self._part}"

    @property
    def signed_name(self) -> str:
        """Name for signatures, without options, which are parts of their own there."""
        return f"{self.base}{self._part}"

    @property
    def _part(self) -> str:
        return "" if self.part in ("", *self.declaration.parts[:1]) else f".{self.part}"

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest possible value with these options.

        Ends may be infinite.
        """
        declared = self.declaration.range
        return declared(self.options) if callable(declared) else declared

    def check(self) -> None:
        """Check that the metric can be computed here.

        Raises:
            MissingExtra: A package or model is missing.
            OptionError: An option has a value that does not work here.
            DataError: A model is not in the cache of the hub, and the hub cannot be reached.
        """
        self.declaration.check(self.options)


class MetricFields(TypedDict, total=False):
    """Fields of `Declaration` that `@metric` takes as keywords."""

    parts: tuple[str, ...]
    direction: Direction
    range: tuple[float, float] | Callable[[Options], tuple[float, float]]
    aggregate: Aggregate
    equals: str
    not_for: str
    version: int
    needs_reference: bool
    computes: bool
    reads: MetricReads
    open: Callable[[Options], Scorer] | None
    facts: Mapping[str, str] | Callable[[Options], Mapping[str, str]]
    unsigned: frozenset[str]
    check: Callable[[Options], None]
    notes: Callable[[Sequence[str], Options], list[str]]
    gold_cause: Callable[[Sequence[str]], Cause]


def metric(*names: str, **declared: Unpack[MetricFields]) -> Callable[[Function], Function]:
    """Return a decorator that declares a function as a metric.

    A direct call of the function checks its options and texts, and raises `OptionError`. Scorers
    call the undecorated function, since the names of metrics were checked when they were parsed.
    `names` are the metrics that the function computes, `declared` further fields of `Declaration`.
    Raises OptionError for a name that is no text, such as the function of a bare `@metric`. The
    decorator raises OptionError for a wrong range, TypeError for a field that `Declaration` lacks.
    """
    _check_metric_names(names)

    def declare(function: Function) -> Function:
        owner = names[0] if len(names) == 1 else function.__name__
        if "range" in declared and not callable(declared["range"]):
            check_range(owner, declared["range"])
        guarded = _with_texts_checked(owner, checked(owner, function))
        # in __dict__, since functions have no typed attributes
        guarded.__dict__["declaration"] = Declaration(names, function, **declared)
        return cast(Function, guarded)

    return declare


def _check_metric_names(names: Sequence[object]) -> None:
    """Raise an OptionError for a name that is no text: the function, of a bare `@rb.metric`."""
    for name in names:
        if not isinstance(name, str):
            label = getattr(name, "__name__", name)
            raise OptionError("metric", "names", label, "a name in brackets: @rb.metric('mine')")


def declaration_of(function: object) -> Declaration | None:
    """Return the declaration of a metric function; None for other objects."""
    declared = getattr(function, "declaration", None)
    return declared if isinstance(declared, Declaration) else None


# Names of a parameter for one gold answer
_ONE_REFERENCE = frozenset({"reference", "expected", "gold", "target", "ground_truth", "truth"})


def _number(value: Any) -> Any:
    """Return the result of a function as Python has it; a predicate counts as 1 or 0."""
    if callable(item := getattr(value, "item", None)):  # a number of NumPy
        value = item()
    return float(value) if isinstance(value, bool) else value


# one declaration per function: scorers group metrics by the identity of the declaration
@functools.cache
def plain_metric(name: str, function: Callable[..., Any]) -> Declaration:
    """Return a declaration for a user's plain function of a prediction and optional references.

    The function returns an int, a float, True or False; more is better, and the range is unbounded.
    A function with references gives no value to an item without one. A second parameter that names
    one text, such as `reference` or `expected`, gets each reference in turn, and the largest value
    counts; by another name it gets all references. Exceptions of the function become `AdapterError`
    with the name of the metric. The same function and name give the same declaration. Raises
    OptionError if the function takes other arguments.
    """
    inputs, signature = plain_signature(
        function, f"metric '{name}'", (1, 2), "(prediction) or (prediction, references)"
    )

    takes_one = inputs == 2 and list(signature.parameters)[1] in _ONE_REFERENCE

    def run(*texts: Any, **options: Any) -> Any:
        try:
            if takes_one:
                return max(_number(function(texts[0], text, **options)) for text in texts[1])
            return _number(function(*texts[:inputs], **options))
        except Exception as error:  # code of the user's may raise anything
            raise AdapterError(f"metric '{name}': {type(error).__name__}: {error}") from error

    run.__doc__ = function.__doc__
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    run.__dict__["__signature__"] = signature
    return Declaration(
        (name,),
        run,
        range=(-math.inf, math.inf),
        facts={"code": source_print(function)},
        needs_reference=inputs == 2,
    )


def _with_texts_checked(owner: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a metric that raises `OptionError` for arguments that are no text."""
    names = [*inspect.signature(function).parameters][:2]
    if len(names) < 2 or names[0] != "prediction":
        return function  # metrics of many predictions check their rows themselves

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        # nearly all calls have two texts: they cost only these three comparisons
        if len(args) < 2 or type(args[0]) is not str or type(args[1]) is not str:
            inputs = dict(zip(names, args, strict=False)) | options
            if all(name in inputs for name in names):  # else Python says which one is missing
                _check_texts(owner, names[1], inputs[names[0]], inputs[names[1]])
        return function(*args, **options)

    return run


def _check_texts(owner: str, name: str, prediction: object, references: object) -> None:
    if not isinstance(prediction, str):
        many = "; many at once: evaluate_texts" if isinstance(prediction, (list, tuple)) else ""
        raise OptionError(owner, "prediction", prediction, f"a text{many}")
    if isinstance(references, (str, AskedQuestion, AnswerSources)):
        return
    # an iterator could be read only once
    if isinstance(references, Mapping) or not isinstance(references, Collection):
        raise OptionError(owner, name, references, "a text, or a list with at least one")
    for position, text in enumerate(references):
        if not isinstance(text, str):
            raise OptionError(owner, f"{name}[{position}]", text, "a text")


def reference_list(owner: str, references: str | Sequence[str]) -> Sequence[str]:
    """Return references as a sequence; one text is a list of one.

    A sequence is returned unchanged, and its members are not checked. An empty text is a reference.

    Raises:
        OptionError: There is no reference; `owner` is the metric in the message.
    """
    if isinstance(references, str):
        return (references,)
    if not references:
        raise OptionError(owner, "references", references, "a text, or a list with at least one")
    return references


def checked_rows(
    predictions: Sequence[str | None], references: Sequence[str | Sequence[str] | None]
) -> list[tuple[str | None, tuple[str, ...]]]:
    """Pair predictions with their references by position.

    One text is a list of one reference; None and an empty list give (). A prediction may be None.

    Raises:
        DataError: The lists differ in length, a member is no text, or a text stands for a list.
    """
    if isinstance(predictions, str) or isinstance(references, str):
        place = "predictions" if isinstance(predictions, str) else "references"
        raise DataError("found a text", record=place, allowed="a list, with an entry per item")
    if len(predictions) != len(references):
        n_predictions = counted(len(predictions), "predictions")
        raise DataError(
            f"{n_predictions} and {counted(len(references), 'references')}",
            allowed="one reference, or list of references, for each prediction",
        )
    gold: list[tuple[str, ...]] = []
    for row, texts in enumerate(references):
        if texts is not None and not isinstance(texts, Iterable):
            raise DataError(f"references[{row}]: found {texts!r}", allowed="a text, or a list")
        gold.append((texts,) if isinstance(texts, str) else tuple(texts or ()))
    for row, (prediction, texts) in enumerate(zip(predictions, gold, strict=True)):
        if prediction is not None and not isinstance(prediction, str):
            raise DataError(f"predictions[{row}]: found {prediction!r}", allowed="a text")
        for n, text in enumerate(texts):
            if not isinstance(text, str):
                raise DataError(f"references[{row}][{n}]: found {text!r}", allowed="a text")
    return list(zip(predictions, gold, strict=True))


def paired_rows(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[Row]:
    """Pair predictions with their references by position; one text is a list of one reference.

    Raises:
        DataError: The lists differ in length, a member is no text, or a reference is missing.

    Example:
        >>> paired_rows(["a", "b"], ["the a", ["the b", "a b"]])
        [('a', ('the a',)), ('b', ('the b', 'a b'))]
    """
    rows: list[Row] = []
    for row, (prediction, gold) in enumerate(checked_rows(predictions, references)):
        if prediction is None or not gold:
            wrong = f"predictions[{row}]: found {prediction!r}"
            wrong += f", references[{row}]: found {references[row]!r}"
            raise DataError(wrong, allowed="a text, and one reference or more")
        rows.append((prediction, gold))
    return rows
