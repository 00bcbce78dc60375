"""One line of a TREC run: its fields, its score, and what can be wrong with them."""

from __future__ import annotations

from ragbench.data.decimals import read_number
from ragbench.data.judgements import wrong_columns
from ragbench.errors import DataError

COLUMNS = "query Q0 document rank score tag"


def hit_fields(line: bytes, name: str, number: int) -> list[bytes]:
    """Return the fields of a line; none where it is blank or a comment.

    Raises:
        DataError: Fewer than six columns.
    """
    if line.startswith(b"#"):
        return []
    fields = line.split()
    if fields and len(fields) < 6:
        raise wrong_columns(fields, line, "6", COLUMNS, name, number)
    return fields


def hit_score(text: bytes, name: str, number: int) -> float:
    """Return the score of a hit; inf and -inf are scores.

    Raises:
        DataError: It is NaN or no number.
    """
    score = read_number(text)
    if score is None:
        shown = text[:40].decode("utf-8", "backslashreplace")
        allowed = "a number, inf, -inf"
        raise DataError(f"score '{shown}'", file=name, line=number, allowed=allowed)
    return score


def no_rankings(name: str) -> DataError:
    """Return the error for a file of blank lines."""
    return DataError("no rankings, only blank lines", file=name, allowed=COLUMNS)
