"""Rows of predictions and references, as the scorers that keep a model take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragbench.errors import DataError
from ragbench.score.text.base import Advance, Row


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
        (_text(f"predictions[{row}]", prediction), _texts(f"references[{row}]", gold))
        for row, (prediction, gold) in enumerate(zip(predictions, references, strict=True))
    ]


def _texts(place: str, gold: str | Sequence[str]) -> tuple[str, ...]:
    texts = (gold,) if isinstance(gold, str) else tuple(gold or ())
    if not texts:
        raise DataError(f"{place}: found {gold!r}", allowed="a text, or a list with at least one")
    return tuple(_text(place, text) for text in texts)


def _text(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise DataError(f"{place}: found {value!r}", allowed="a text")
    return value


def in_rows(advance: Advance | None, n_texts: int, n_rows: int) -> Callable[[int], None]:
    """Return what is told of texts and tells `advance` of rows, in proportion.

    Example:
        >>> told = []
        >>> report = in_rows(told.append, n_texts=4, n_rows=3)
        >>> report(3), report(1), told
        (None, None, [2, 1])
    """
    texts_done = rows_done = 0

    def report(n: int) -> None:
        nonlocal texts_done, rows_done
        texts_done += n
        rows = n_rows * texts_done // max(n_texts, 1) if texts_done < n_texts else n_rows
        if advance is not None:
            advance(rows - rows_done)
        rows_done = rows

    return report
