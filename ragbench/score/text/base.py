"""Metrics of answers: functions of a prediction and its references, declared by `@metric`.

    @metric("ends_politely", version=1, needs_reference=False)
    def ends_politely(prediction: str, references: Sequence[str]) -> float: ...

Options are keyword parameters annotated with `Option`, which says what each one means; the name
of a metric sets them in parentheses: `ends_politely(words=3)`. A metric that is faster on many rows
at once, or keeps a model, declares `open` as well. A third party names the function in the entry
point group `ragbench.metrics`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from ragbench.errors import AdapterError, DataError, OptionError
from ragbench.registry import checked, plain_signature, source_print
from ragbench.score.base import Advance as Advance
from ragbench.score.base import write_options
from ragbench.types import Aggregate
from ragbench.types.conversation import ToolCall
from ragbench.types.scores import Direction


class UnseenText(UserWarning):
    """A text has words, but none that the metric sees with these options; it scores 0."""


class OverlapScore(NamedTuple):
    """Precision, recall and F of one prediction; as a number it is the F.

    Attributes:
        precision: How much of the prediction is in the reference.
        recall: How much of the reference is in the prediction.
        fmeasure: Harmonic mean of the two.
    """

    precision: float
    recall: float
    fmeasure: float

    def __float__(self) -> float:
        return self.fmeasure

    def to_dict(self) -> dict[str, float]:
        """Return a JSON-ready mapping."""
        return self._asdict()


class RougeScore(OverlapScore):
    """Precision, recall and F of a prediction by a ROUGE type, each 0..1."""

    __slots__ = ()

    @classmethod
    def of_counts(cls, hits: int, n_prediction: int, n_reference: int) -> RougeScore:
        """Score so many hits among the tokens of a prediction and of its reference."""
        if not hits:
            return NO_OVERLAP
        precision, recall = hits / n_prediction, hits / n_reference
        # the order of operations of rouge-score, so that the last bit is the same
        return cls(precision, recall, 2 * precision * recall / (precision + recall))


NO_OVERLAP = RougeScore(0.0, 0.0, 0.0)


class BertScore(OverlapScore):
    """BERTScore of one prediction: tokens count by their similarity to their best match."""

    __slots__ = ()


class RougeScores(dict[str, RougeScore]):
    """ROUGE type -> its scores, in the order asked for; as a number it is the F of the first."""

    def __float__(self) -> float:
        return next(iter(self.values())).fmeasure

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return a JSON-ready mapping."""
        return {name: score.to_dict() for name, score in self.items()}


class BleuScore(NamedTuple):
    """BLEU of one prediction, and what it is made of.

    Attributes:
        score: 0..1: sacrebleu's sentence BLEU with effective order, divided by 100.
        precisions: Clipped n-gram precisions for n = 1, 2, ..., 0..1, not smoothed.
        brevity_penalty: 1 unless the prediction is shorter than the closest reference.
        prediction_length: Tokens of the prediction.
        reference_length: Tokens of the reference whose length is closest.
    """

    score: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    prediction_length: int
    reference_length: int

    def __float__(self) -> float:
        return self.score

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready mapping."""
        return {**self._asdict(), "precisions": list(self.precisions)}


# A prediction and its references; of a metric that reads tool calls, those made and the gold.
Row = tuple[str, Sequence[str]]
# Option -> value, defaults included.
Options = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CallRows:
    """The tool calls of some items, for metrics that read them.

    Attributes:
        actual: The calls of the system per item; None where they are not known.
        expected: The gold calls per item; None where there are none.
    """

    actual: Sequence[Sequence[ToolCall] | None]
    expected: Sequence[Sequence[ToolCall] | None]


@dataclass(frozen=True, slots=True)
class Column:
    """The values of one metric, row by row.

    Attributes:
        values: One value per row.
        total: The value of all rows together, where that is not the mean of the values.
        lost: Row -> why it has no value, where computing it ended its worker.
    """

    values: list[float]
    total: float | None = None
    lost: Mapping[int, str] = field(default_factory=dict)


class Scorer(Protocol):
    """Scores rows by the metrics of one declaration; lives as long as the run.

    What it computes of a REFERENCE it may keep from call to call: every system is scored against
    the same ones. Predictions come once.
    """

    def __call__(
        self, rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance
    ) -> list[Column]:
        """Return a column per metric; `advance` has been told of every row by then."""
        ...


# Prediction and references -> a value per metric.
RowReader = Callable[[str, Sequence[str]], Sequence[float]]


def row_scorer(reader_of: Callable[[Sequence[Metric]], RowReader]) -> Scorer:
    """Return a scorer that reads row by row; `reader_of` prepares a reader for some metrics."""

    def score(rows: Sequence[Row], metrics: Sequence[Metric], advance: Advance) -> list[Column]:
        read = reader_of(metrics)
        columns: list[list[float]] = [[] for _ in metrics]
        for prediction, references in rows:
            for column, value in zip(columns, read(prediction, references), strict=True):
                column.append(value)
            advance(1)
        return [Column(values) for values in columns]

    return score


@runtime_checkable
class WeighsReferences(Protocol):
    """A scorer whose values depend on all references of the run."""

    def weigh(self, references: Sequence[Sequence[str]]) -> None:
        """Be told the references of every item, also of those that a system did not answer."""
        ...


@dataclass(frozen=True, slots=True)
class Declaration:
    """Properties of a metric, declared by `@metric`.

    Attributes:
        names: The metrics that the function computes.
        function: The function for one prediction; its annotated keyword parameters are the options.
        parts: Fields of the result that can be named after a dot; the first is the default.
        range: Smallest and largest possible value.
        aggregate: How the values become one number.
        equals: The reference implementation, and how closely its values are met.
        not_for: When another metric says more.
        version: Version of the definition; moves only when numbers move.
        needs_reference: Whether an item without a reference has no score.
        computes: Whether a row is worth a way to a worker, and depends on nothing but its texts,
            the options and what `weigh` is told: no server is asked, no file written.
        reads: What is compared: the answer with its references, or tool calls with gold ones.
        open: Makes what scores many rows at once; None calls the function row by row.
        facts: What else the numbers depend on; goes into the signature.
        unsigned: Options that no number depends on, or that `facts` has in a better form.
        check: Raises MissingExtra or OptionError where the metric cannot be computed here.
        notes: What readers should know about how the metric sees these texts, in sentences.
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
    reads: Literal["texts", "tool_calls"] = "texts"
    open: Callable[[Options], Scorer] | None = None
    facts: Mapping[str, str] | Callable[[Options], Mapping[str, str]] = field(default_factory=dict)
    unsigned: frozenset[str] = frozenset()
    check: Callable[[Options], None] = lambda options: None
    notes: Callable[[Sequence[str], Options], list[str]] = lambda texts, options: []


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as a caller names it: `rouge1`, `rouge1(stemmer=true).precision`.

    Attributes:
        name: As the caller wrote it.
        base: The name without its part and options: `rouge1`.
        part: The field of the result; empty where the result is a number.
        options: Every option of the declaration with its value.
        chosen: Those that differ from their default.
    """

    name: str
    base: str
    part: str
    options: Options
    chosen: Options
    declaration: Declaration

    def __hash__(self) -> int:
        return hash((self.name, self.canonical))

    @property
    def canonical(self) -> str:
        """Name without needless spelling: equal for equal scores."""
        return f"{self.base}{write_options(self.chosen)}{self._part}"

    @property
    def signed_name(self) -> str:
        """The name that goes into signatures; the options follow there as parts of their own."""
        return f"{self.base}{self._part}"

    @property
    def _part(self) -> str:
        return "" if self.part in ("", *self.declaration.parts[:1]) else f".{self.part}"

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest possible value, with these options."""
        declared = self.declaration.range
        return declared(self.options) if callable(declared) else declared

    def check(self) -> None:
        """See whether the metric can be computed here."""
        self.declaration.check(self.options)


def metric(*names: str, **declared: Any) -> Callable[[Function], Function]:
    """Declare a function as a metric.

    Called by its name, it refuses a bad option with an `OptionError`; what the names of metrics
    say was checked when they were read, so that rows are scored without another look. `names` are
    the metrics that it computes, `declared` has further fields of `Declaration`.
    """

    def declare(function: Function) -> Function:
        owner = names[0] if len(names) == 1 else function.__name__
        guarded = _with_texts_checked(owner, checked(owner, function))
        guarded.__dict__["declaration"] = Declaration(names, function, **declared)
        return cast(Function, guarded)

    return declare


def declaration_of(function: object) -> Declaration | None:
    """Return the properties of a function that `@metric` declared; None for others."""
    declared = getattr(function, "declaration", None)
    return declared if isinstance(declared, Declaration) else None


@functools.cache
def plain_metric(name: str, function: Callable[..., Any]) -> Declaration:
    """Return the declaration of a function of the user's own that declares nothing.

    It is a function of a prediction and of a list of references, or of a prediction alone, and
    returns a number or whether something holds. Its range is not known, and more is better.
    """
    inputs, signature = plain_signature(
        function, f"metric '{name}'", (1, 2), "(prediction) or (prediction, references)"
    )

    def run(*texts: Any, **options: Any) -> Any:
        try:
            value = function(*texts[:inputs], **options)
        except Exception as error:  # code of the user's may raise anything
            raise AdapterError(f"metric '{name}': {type(error).__name__}: {error}") from error
        return float(value) if isinstance(value, bool) else value

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
    """Return a metric that refuses what is no text, where it is called with one prediction."""
    names = [*inspect.signature(function).parameters][:2]
    if len(names) < 2 or names[0] != "prediction":
        return function  # those of many predictions look at their rows

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        # two texts, or a text and a list, are nearly all calls: they pay for three looks
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
    if isinstance(references, str):
        return
    if isinstance(references, Mapping) or not isinstance(references, Iterable):
        raise OptionError(owner, name, references, "a text, or a list with at least one")
    if isinstance(references, Collection):  # what is read only once is left to the metric
        for position, text in enumerate(references):
            if not isinstance(text, str):
                raise OptionError(owner, f"{name}[{position}]", text, "a text")


def takes_options_of(other: Callable[..., Any], **defaults: Any) -> Callable[[Function], Function]:
    """Declare that a function takes the options of another one, some with other defaults."""

    def declare(function: Function) -> Function:
        signature = inspect.signature(function)
        inputs = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        options = [
            parameter.replace(default=defaults.get(name, parameter.default))
            for name, parameter in inspect.signature(other).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        ]
        function.__dict__["__signature__"] = signature.replace(parameters=[*inputs, *options])
        function.__annotations__ = inspect.unwrap(other).__annotations__ | function.__annotations__
        return function

    return declare


def reference_list(owner: str, references: str | Sequence[str]) -> Sequence[str]:
    """Return references as a sequence; one text may stand for a list of one."""
    if isinstance(references, str):
        return (references,)
    if not references:
        raise OptionError(owner, "references", references, "a text, or a list with at least one")
    return references


def paired_rows(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> list[Row]:
    """Pair predictions with their references by position; a text may stand for a list of one.

    Example:
        >>> paired_rows(["a", "b"], ["the a", ["the b", "a b"]])
        [('a', ('the a',)), ('b', ('the b', 'a b'))]
    """
    if isinstance(predictions, str) or isinstance(references, str):
        raise DataError("found a text", allowed="lists of texts, one per item")
    if len(predictions) != len(references):
        raise DataError(
            f"{len(predictions)} predictions and {len(references)} references",
            allowed="one reference, or list of references, for each prediction",
        )
    return [
        (_text(f"predictions[{row}]", prediction), _references(f"references[{row}]", gold))
        for row, (prediction, gold) in enumerate(zip(predictions, references, strict=True))
    ]


def as_texts(place: str, texts: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return a text or a list of texts as a tuple; empty for None or an empty list.

    Raises:
        DataError: A member is no text; `place` names the argument in the message.
    """
    members = (texts,) if isinstance(texts, str) else texts or ()
    return tuple(_text(place, text) for text in members)


def _references(place: str, texts: str | Sequence[str]) -> tuple[str, ...]:
    references = as_texts(place, texts)
    if not references:
        raise DataError(f"{place}: found {texts!r}", allowed="a text, or a list with at least one")
    return references


def _text(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place}: found {value!r}", allowed="a text")
    return value
