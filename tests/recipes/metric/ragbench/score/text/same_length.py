"""Length of an answer compared with that of a reference: `same_length`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from ragbench.registry import Option
from ragbench.score.text.base import metric, reference_list

Unit = Annotated[Literal["words", "characters"], Option("What is counted.")]


@metric("same_length", equals="its definition", not_for="anything but a test")
def same_length(prediction: str, references: str | Sequence[str], *, unit: Unit = "words") -> float:
    """Return 1 where a prediction is as long as a reference, else 0.

    Example:
        >>> same_length("a cat", ["the dog", "dogs"])
        1.0
    """
    length = len if unit == "characters" else _words
    texts = reference_list("same_length", references)
    return float(any(length(text) == length(prediction) for text in texts))


def _words(text: str) -> int:
    return len(text.split())
