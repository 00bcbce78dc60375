"""What a metric is: a function of a prediction and its references, declared with `@metric`.

    @metric("ends_politely", version=1, needs_reference=False)
    def ends_politely(prediction: str, references: Sequence[str]) -> float: ...

Options are keyword parameters annotated with `Option`. A third party names the function in the
entry point group `ragbench.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ragbench.errors import OptionError
from ragbench.types.scores import Direction


class RougeScore(NamedTuple):
    """One ROUGE type of one prediction, each value 0..1."""

    precision: float
    """Share of the prediction that is in the reference."""
    recall: float
    """Share of the reference that is in the prediction."""
    fmeasure: float
    """Harmonic mean of the two."""


class BleuScore(NamedTuple):
    """BLEU of one prediction, and what it is made of."""

    score: float
    """0..1: sacrebleu's sentence BLEU with effective order, divided by 100."""
    precisions: tuple[float, ...]
    """Clipped n-gram precisions for n = 1, 2, ..., 0..1, not smoothed."""
    brevity_penalty: float
    """1 unless the prediction is shorter than the closest reference."""
    prediction_length: int
    """Tokens of the prediction."""
    reference_length: int
    """Tokens of the reference whose length is closest."""


Row = tuple[str, Sequence[str]]
"""A prediction and its references."""
Batch = Callable[[Sequence[Row], Sequence["Metric"], Mapping[str, Any]], list[list[float]]]
"""Rows, metrics of one declaration, options -> the values of each metric, row by row."""
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Declaration:
    """What `@metric` says about a function."""

    names: tuple[str, ...]
    """The metrics that the function computes."""
    function: Callable[..., Any]
    """The function for one prediction; its keyword parameters are the options."""
    parts: tuple[str, ...]
    """Fields of the result that can be named after a dot; the first is the default."""
    direction: Direction
    """Which way is better."""
    low: float
    """Smallest possible value."""
    high: float
    """Largest possible value."""
    version: int
    """Version of the definition; moves only when numbers move."""
    needs_reference: bool
    """Whether an item without a reference has no score."""
    batch: Batch | None
    """Computes many rows at once; None calls the function row by row."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else the numbers depend on and no option changes; goes into the signature."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as a caller names it: `rouge1`, `rouge1.precision`."""

    name: str
    """As the caller wrote it."""
    base: str
    """The name without its part: `rouge1`."""
    part: str
    """The field of the result; empty where the result is a number."""
    declaration: Declaration
    """Where it comes from."""

    @property
    def canonical(self) -> str:
        """The one spelling that goes into signatures."""
        parts = self.declaration.parts
        return self.base if self.part in ("", *parts[:1]) else f"{self.base}.{self.part}"


def metric(
    *names: str,
    parts: tuple[str, ...] = (),
    direction: Direction = "higher",
    range: tuple[float, float] = (0.0, 1.0),
    version: int = 1,
    needs_reference: bool = True,
    batch: Batch | None = None,
    facts: Mapping[str, str] | None = None,
) -> Callable[[Function], Function]:
    """Declare a function as a metric; the function itself stays as it is."""

    def declare(function: Function) -> Function:
        function.__dict__["declaration"] = Declaration(
            names=names,
            function=function,
            parts=parts,
            direction=direction,
            low=range[0],
            high=range[1],
            version=version,
            needs_reference=needs_reference,
            batch=batch,
            facts=facts or {},
        )
        return function

    return declare


def reference_list(owner: str, references: str | Sequence[str]) -> Sequence[str]:
    """Return references as a sequence; one text may stand for a list of one.

    Raises:
        OptionError: There is none.
    """
    if isinstance(references, str):
        return (references,)
    if not references:
        raise OptionError(owner, "references", references, "a text, or a list with at least one")
    return references
