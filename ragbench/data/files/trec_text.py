"""Parser of the text of run files, many lines at a time where these are uniform.

Columns of decimal numbers are read exactly as `float` does. Scores with as many digits after the
point are read without a loop over the numbers: eight digits are one 64-bit word, which a few
operations on whole arrays turn into a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from ragbench.data.files.lines import Pieces, nul_byte, wrong_columns
from ragbench.errors import DataError
from ragbench.types.byte_ids import PADDING, ByteArray, ByteIds, joined_bytes, spans, words_from
from ragbench.types.lookups import take_items
from ragbench.types.rows import HitBlock

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

_WORD = 8  # digits in a 64-bit word
_SELDOM = 100  # numbers per call of `float`: one call takes as long as these in words
_POWERS = np.array([float(10**n) for n in range(_WORD)])

_LAST_BYTES = np.array([(1 << 64) - (1 << 8 * (8 - n)) for n in range(9)], np.uint64)
_ZEROS = np.uint64(0x3030303030303030)
_ZERO = np.uint8(ord("0"))
_POINT = ord(".") ^ int(_ZERO)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)

_SPACE, _TAB, _NEWLINE = (ord(character) for character in " \t\n")

Positions = NDArray[np.int64]
COLUMNS = "query Q0 document rank score tag"

# Byte -> whether a number may begin with it.
_BEGINS_NUMBER = np.isin(np.arange(256), [*b"+-.0123456789"])


def read_decimals(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> Floats | None:
    """Return the numbers in spans of a buffer; None if one is NaN, no number, or has an underscore.

    Numbers of the usual form of scores are read eight digits at a time, with the rounding of
    `float`; columns of other forms go through `float`. The spans ascend, white space follows each
    of them, and at least `PADDING` bytes follow the last one.
    """
    usual = _read_same_places(data, starts, ends)
    if usual is not None:
        values, is_odd = usual
        for row in np.flatnonzero(is_odd).tolist():
            value = read_number(data[int(starts[row]) : int(ends[row])].tobytes())
            if value is None:
                return None
            values[row] = value
        return values
    fields = _fields(data, starts, ends)
    try:
        values = np.array([*map(float, fields)], np.float64)
    except ValueError:
        return None
    # a span with a blank in it is two fields; Python alone reads 1_000 as a number
    is_whole = len(fields) == len(starts) and b"_" not in b"".join(fields)
    return values if is_whole and not np.isnan(values).any() else None


def _read_same_places(
    data: NDArray[np.uint8], starts: Ints, ends: Ints
) -> tuple[Floats, NDArray[np.bool_]] | None:
    """Read numbers with equally many digits after the point, the usual form of scores."""
    sample = data[int(starts[0]) : int(ends[0])].tobytes() if len(starts) else b""
    places = len(sample) - sample.find(b".") - 1
    if not 0 < places < min(_WORD, len(sample)) or len(data) < 3 * _WORD or sample[:1] == b"-":
        return None
    n_before = ends - starts
    n_before -= places + 1
    # as unsigned words, in which negative numbers are large: one comparison finds both
    is_odd: NDArray[np.bool_] = n_before.view(np.uint64) > np.uint64(_WORD - places)
    if ends[0] < 2 * _WORD:  # too near to the start for two words before their end
        is_odd |= ends < 2 * _WORD
        ends = np.maximum(ends, 2 * _WORD)
    n_odd = np.count_nonzero(is_odd)
    if n_odd > len(is_odd) // _SELDOM + 2:
        return None
    if n_odd:
        n_before[is_odd] = 0
    if int(n_before.max()) < _WORD - places:
        whole, wrong = _values_with_point(data, ends, n_before, places)
    else:
        whole, wrong = _values_around_point(data, ends, n_before, places)
    is_odd |= wrong != 0
    if np.count_nonzero(is_odd) > len(is_odd) // _SELDOM + 2:
        return None
    return whole / _POWERS[places], is_odd


def _values_with_point(
    data: NDArray[np.uint8], ends: Ints, n_before: Ints, places: int
) -> tuple[Ints, Words]:
    """Return `_values` of numbers whose digits and point fit into the word before their end."""
    words = next(words_from(data, ends - _WORD))
    words ^= _ZEROS ^ np.uint64(_POINT << 8 * (_WORD - 1 - places))
    words &= _LAST_BYTES[places + 1 :][n_before]
    return _values(words, _WORD - 1 - places)


def _values_around_point(
    data: NDArray[np.uint8], ends: Ints, n_before: Ints, places: int
) -> tuple[Ints, Words]:
    """Return `_values` of numbers of up to 8 digits, with a point before the last `places`."""
    two_words = words_from(data, ends - 2 * _WORD)
    early, late = next(two_words), next(two_words)
    # shifted by a byte, the digits before the point stand next to those after it
    digits = late << np.uint64(8)
    early >>= np.uint64(56)
    digits |= early
    digits ^= _ZEROS
    digits &= (_LAST_BYTES >> np.uint64(8 * places))[n_before]
    late ^= _ZEROS ^ np.uint64(_POINT << 8 * (_WORD - 1 - places))
    not_point = late & (_LAST_BYTES[places + 1] ^ _LAST_BYTES[places])
    late &= _LAST_BYTES[places]
    digits |= late
    values, wrong = _values(digits)
    wrong |= not_point
    return values, wrong


def read_number(text: bytes) -> float | None:
    """Return the number in a text; None if it is NaN or no number.

    Infinities are numbers; text with an underscore is none, and neither is b''.
    """
    try:
        value = float(text)
    except ValueError:
        return None
    # Python alone reads 1_000 as a number
    return None if math.isnan(value) or b"_" in text else value


def read_integers(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> Ints | None:
    """Return the integers in spans of a buffer.

    A minus sign is allowed. The result is None if one has more than 8 digits, a plus sign, or
    another character. White space follows each span.
    """
    # the usual grades have one digit
    if (ends - starts == 1).all():
        digits = data[starts] - _ZERO  # what is below '0' wraps around
        return digits.astype(np.int64) if (digits <= 9).all() else None
    fields = _fields(data, starts, ends)
    bare = [field.removeprefix(b"-") for field in fields]
    if not all(digits.isdigit() and len(digits) <= _WORD for digits in bare):
        return None
    return np.array([*map(int, fields)], np.int64)


def _fields(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> list[bytes]:
    """Return the text of each span, in their order; [] without spans."""
    return data[spans(starts, ends + 1)].tobytes().split()


def _values(words: Words, point: int = -1) -> tuple[Ints, Words]:
    """Return the number in each word of 8 digits less '0', and a word that is 0 if it has one."""
    # byte number `point` is no digit, and has to be 0; -1: all bytes are digits
    # 0x76 + 10 sets the high bit of a byte, 0x76 + 9 does not; nor does 0x7f + 0
    wrong = words + (_ABOVE_NINE + np.uint64(9 << 8 * point) if point >= 0 else _ABOVE_NINE)
    wrong |= words
    wrong &= _HIGH_BITS
    # eight digits, two at a time, then all, within each word; the digits before the point count a
    # tenth of what they do without one
    weights = [10 ** (6 - byte - (byte < point)) for byte in range(0, _WORD, 2)]
    words = words * np.uint64(10) + (words >> np.uint64(8))
    low, high = words & np.uint64(0xFF000000FF), (words >> np.uint64(16)) & np.uint64(0xFF000000FF)
    low *= np.uint64(weights[0] << 32 | weights[2])
    high *= np.uint64(weights[1] << 32 | weights[3])
    low += high
    low >>= np.uint64(32)
    return low.view(np.int64), wrong


@dataclass(frozen=True, eq=False)
class ParsedText:
    """Lines of a run file as columns, with their place in the text; `parse_uniform` makes it.

    `text_from(query)` returns the text from the lines of a query to the end, as bytes.

    Attributes:
        block: The hits; a query whose lines stand apart is in it more than once.
        lines: Shape (n + 1,): start of each line, and the end of the last.
        tag: Last field of the last line; empty without lines.
    """

    block: HitBlock
    lines: Positions
    tag: bytes

    def text_from(self, query: int) -> bytes:
        """Return the text from the first line of query number `query` (from 0) to the end."""
        start, end = int(self.lines[self.block.starts[query]]), int(self.lines[-1])
        return self.block.documents.data[start:end].tobytes()


def parse_uniform(text: Pieces) -> ParsedText | None:
    """Parse whole lines of six fields with one space or tab between them, from pieces of bytes.

    The result is None if a line has another form, has no line end, is a comment, or has a score
    that is no number or a rank that does not begin as one. Some 0.1 s a million lines; memory is
    some 6 times the text. Empty text gives None.
    """
    data = joined_bytes(text)
    n_bytes = len(data) - len(PADDING)
    table = separators(data, data[:n_bytes] <= _SPACE, 6)
    if table is None:
        return None
    first_bytes = data.take(table[:, 2] + 1, mode="clip")
    # nearly all ranks begin with a digit; what is below '0' wraps around
    if not (first_bytes - _ZERO <= 9).all() and not _BEGINS_NUMBER[first_bytes].all():
        return None  # `normalize_lines` tells a blank in an id from a rank of another form
    lines = _line_starts(table)
    parsed = _columns(data, table, lines)
    if parsed is None or any(query.startswith(b"#") for query in parsed.block.query_ids):
        return None
    return parsed


def parse_normalized(text: list[bytes]) -> ParsedText:
    """Parse lines of `normalize_lines` or uniform lines, whose ids may hold control characters.

    Empty text gives a block without hits.

    Raises:
        AssertionError: A score cannot be read, which `normalize_lines` has read.
    """
    data = joined_bytes(text)
    body = data[: len(data) - len(PADDING)]
    white = (body == _SPACE) | (body == _NEWLINE) | (body == _TAB)
    table = np.flatnonzero(white).reshape(-1, 6)
    parsed = _columns(data, table, _line_starts(table))
    if parsed is None:
        raise AssertionError("a score that could be read before cannot be read now")
    return parsed


def normalize_lines(text: bytes, name: str, first_line: int) -> tuple[bytes, int, bool]:
    """Check lines one by one, and return the hits among them as uniform lines.

    Return (text of the hits, number of lines, whether one is a comment). Blank lines and comments
    are left out of the text but counted; further fields after the sixth are cut off. `name` and
    `first_line`, the number of the first line, are for messages.

    Raises:
        DataError: A line has a NUL byte, fewer than six fields, a score that is no number, or a
            blank in an id.
    """
    hits, has_comment, number = [], False, first_line - 1
    for number, line in enumerate(BytesIO(text), first_line):
        if b"\0" in line:
            raise nul_byte(line, name, number)
        fields = line.split()
        if line.startswith(b"#"):
            has_comment = True
        elif fields:
            if len(fields) < 6:
                raise wrong_columns(fields, line, "6", COLUMNS, name, number)
            if _has_blank_in_id(fields, line):
                raise DataError(
                    "a blank in an id: the columns after it are read one too early",
                    file=name,
                    line=number,
                    allowed=f"ids without blanks, such as: {_with_encoded_blank(fields, line)}",
                )
            if read_number(fields[4]) is None:
                quote = fields[4][:40].decode("utf-8", "backslashreplace")
                allowed = "a number, inf, -inf"
                raise DataError(f"score '{quote}'", file=name, line=number, allowed=allowed)
            hits.append(b" ".join(fields[:6]) + b"\n")
    return b"".join(hits), number - first_line + 1, has_comment


def _has_blank_in_id(fields: list[bytes], line: bytes) -> bool:
    """Return True if columns in front of the tag seem shifted by a blank in an id."""
    columns = line.rstrip(b"\r\n").split(b"\t")
    if len(columns) == 6:
        return any(len(column.split()) > 1 for column in columns[:5])
    return read_number(fields[3]) is None and any(map(_is_number, fields[5:]))


def _is_number(field: bytes) -> bool:
    return read_number(field) is not None


def _with_encoded_blank(fields: list[bytes], line: bytes) -> str:
    """Return the line with %20 for the blanks of its ids, if tabs or the last columns show them."""
    columns = [column.split() for column in line.rstrip(b"\r\n").split(b"\t")]
    if len(columns) == 6:
        words = [b"%20".join(column) for column in columns]
    else:
        score = max(n for n, field in enumerate(fields) if n > 4 and _is_number(field))
        words = [*fields[:2], b"%20".join(fields[2 : score - 1]), *fields[score - 1 :]]
    return b" ".join(words).decode("utf-8", "backslashreplace")


def separators(data: ByteArray, white: NDArray[np.bool_], columns: int) -> Positions | None:
    """Return the positions of white space as a table, a row per line and a column per field.

    The result is None unless all lines have `columns` fields with one space or tab between them.
    `white` marks the bytes of the text that are white space or control characters. Empty text, or
    text that begins with white space, gives None.
    """
    # two separators in a row would leave an empty field
    if not len(white) or white[0] or (white[1:] & white[:-1]).any():
        return None
    positions = np.flatnonzero(white)
    table = positions.reshape(-1, columns) if len(positions) % columns == 0 else None
    if table is None or not (data.take(table[:, -1], mode="clip") == _NEWLINE).all():
        return None
    body = data[: len(white)]
    between = np.count_nonzero(body == _SPACE)
    if between + len(table) < len(positions):
        between += np.count_nonzero(body == _TAB)
    # all other bytes are line ends within a line, or control characters
    return table if between + len(table) == len(positions) else None


def _line_starts(table: Positions) -> Positions:
    """Return the start of each line, and the end of the last, by the separators."""
    starts = np.zeros(len(table) + 1, np.int64)
    np.add(table[:, -1], 1, out=starts[1:])
    return starts


def _columns(data: ByteArray, table: Positions, lines: Positions) -> ParsedText | None:
    """Return the hits of lines by their separators; None if a score cannot be read."""
    # a copy: a column of the table is not contiguous, and slower to walk through many times
    scores = read_decimals(data, table[:, 3] + 1, table[:, 4].copy())
    if scores is None:
        return None
    queries = ByteIds(data, lines[:-1], table[:, 0] - lines[:-1])
    changes = np.flatnonzero(queries.differ_from_last()) + 1
    first = np.concatenate((np.zeros(min(1, len(queries)), np.int64), changes))
    starts = np.append(first, len(scores))
    ids = take_items(queries, first.tolist())
    document_starts = table[:, 1] + 1
    documents = ByteIds(data, document_starts, table[:, 2] - document_starts)
    tag = data[table[-1, 4] + 1 : table[-1, 5]].tobytes() if len(table) else b""
    return ParsedText(HitBlock(ids, starts, documents, scores), lines, tag)
