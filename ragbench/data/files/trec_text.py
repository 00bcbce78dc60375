"""Parser of the text of run files, many lines at a time where these are uniform.

Columns of decimal numbers are read exactly as `float` does, without a loop over the numbers: eight
digits are one 64-bit word, which a few operations on whole arrays turn into a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from ragbench.data.files.lines import Pieces, nul_byte, wrong_columns
from ragbench.errors import DataError
from ragbench.types.byte_ids import PADDING, ByteArray, ByteIds, joined_bytes, words_from
from ragbench.types.rows import HitBlock

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

_WORD = 8  # digits in a 64-bit word
_SELDOM = 100  # numbers per call of `float`: one call takes as long as these in words
_MOST_BEFORE = _WORD  # digits before the point
_MOST_AFTER = 22  # digits after it: 10^22 is the last power of ten that a double holds exactly
_EXACT = 2.0**53  # up to here doubles hold every integer, so one division rounds correctly
_LARGEST = 9.2e18  # of a 64-bit integer, with room for rounding
_POWERS = np.array([float(10**n) for n in range(_MOST_AFTER + 1)])
_WHOLE_POWERS = np.array([10**n for n in range(19)] + [0] * 4, np.int64)
_SPLIT = 134217729.0  # 2^27 + 1: cuts a double into two halves whose products are exact

_LAST_BYTES = np.array([(1 << 64) - (1 << 8 * (8 - n)) for n in range(9)], np.uint64)
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)

_SPACE, _TAB, _NEWLINE = (ord(character) for character in " \t\n")

Positions = NDArray[np.int64]
COLUMNS = "query Q0 document rank score tag"


def read_decimals(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> Floats | None:
    """Return the numbers in spans of a buffer; None if one is NaN, no number, or has an underscore.

    Signs, up to 8 digits before the point and 22 after it are read eight digits at a time, with the
    rounding of `float`. Other forms, such as exponents and inf, go through `float`. The spans
    ascend, and at least `PADDING` bytes follow the last one. No spans give an empty array.
    """
    values, is_odd = _read_same_places(data, starts, ends) or _read_any(data, starts, ends)
    for row in np.flatnonzero(is_odd).tolist():
        text = data[int(starts[row]) : int(ends[row])].tobytes()
        value = read_number(text)
        if value is None:
            return None
        values[row] = value
    return values


def _read_same_places(
    data: NDArray[np.uint8], starts: Ints, ends: Ints
) -> tuple[Floats, NDArray[np.bool_]] | None:
    """Read numbers with as many digits after the point as the first one; the usual form of scores.

    Return (values, mask of those that `float` must read). None if many differ from the first
    number, or if the digits of a number do not fit into one word. Also None without numbers, or if
    the first one is negative or has no point.
    """
    sample = data[int(starts[0]) : int(ends[0])].tobytes() if len(starts) else b""
    places = len(sample) - sample.find(b".") - 1
    if not 0 < places < min(_WORD, len(sample)) or len(data) < 3 * _WORD or sample[:1] == b"-":
        return None
    n_before = ends - starts
    n_before -= places + 1
    # as unsigned words, in which negative numbers are large: one comparison finds both
    is_odd: NDArray[np.bool_] = n_before.view(np.uint64) > np.uint64(_WORD - places)
    first = ends - 2 * _WORD
    if first[0] < 0:  # too near to the start for two words before their end
        is_odd |= first < 0
        first = np.maximum(first, 0)
    n_odd = np.count_nonzero(is_odd)
    if n_odd > len(is_odd) // _SELDOM + 2:
        return None
    if n_odd:
        n_before[is_odd] = 0
    words = words_from(data, first)
    early, late = next(words), next(words)
    # the digits before the point, less '0', shifted next to the digits after it
    digits = late << np.uint64(8 * places + 8)
    digits |= early >> np.uint64(56 - 8 * places)
    digits ^= _ZEROS
    digits &= _LAST_BYTES[n_before]
    digits >>= np.uint64(8 * places)
    late ^= _ZEROS
    point = late & (_LAST_BYTES[places + 1] ^ _LAST_BYTES[places])
    late &= _LAST_BYTES[places]
    digits |= late
    whole, wrong = _value(digits)
    wrong |= point ^ np.uint64((ord(".") ^ ord("0")) << (56 - 8 * places))
    is_odd |= wrong != 0
    if np.count_nonzero(is_odd) > len(is_odd) // _SELDOM + 2:
        return None
    return whole / _POWERS[places], is_odd


def _read_any(
    data: NDArray[np.uint8], starts: Ints, ends: Ints
) -> tuple[Floats, NDArray[np.bool_]]:
    """Read numbers of any form; return (values, mask of those that `float` must read).

    Masked values have no meaning.
    """
    negative = data[starts] == ord("-")
    first = starts + negative
    point = _find_points(data, first, ends)
    n_before, n_after = point - first, np.maximum(ends - point - 1, 0)
    is_odd = (n_before > _MOST_BEFORE) | (n_after > _MOST_AFTER) | (n_before + n_after == 0)
    places = _one_number(np.minimum(n_after, _MOST_AFTER))

    high, wrong = _digits(data, point, np.minimum(n_before, _MOST_BEFORE))
    low, wrong_low = _fraction(data, ends, places)
    wrong |= wrong_low
    values, unsure = _scaled(high, low, places)
    is_odd |= unsure
    is_odd |= wrong != 0
    values[negative] = -values[negative]
    return values, is_odd


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

    A minus sign is allowed. None if one has more than 8 digits, a plus sign, or another character.
    """
    first, length = data[starts], ends - starts
    # the usual grades have one digit
    if (length == 1).all():
        digits = first - np.uint8(ord("0"))  # what is below '0' wraps around
        return digits.astype(np.int64) if (digits <= 9).all() else None
    negative = first == ord("-")
    count = length - negative
    if (count < 1).any() or (count > 8).any():
        return None
    values, wrong = _digits(data, ends, _one_number(count))
    signed: Ints = np.where(negative, -values, values)
    return None if wrong.any() else signed


def _find_points(data: NDArray[np.uint8], starts: Ints, ends: Ints) -> Ints:
    """Return the position of the decimal point of each number, or its end if it has none."""
    if not len(starts):
        return ends
    # most files give all their scores as many digits after the point as the first one
    sample = data[int(starts[0]) : int(ends[0])].tobytes()
    guess: Ints = ends - (len(sample) - max(sample.find(b"."), 0))
    if (guess >= starts).all() and (data[guess] == ord(".")).all():
        return guess
    base = int(starts[0])
    points = np.flatnonzero(data[base : int(ends[-1])] == ord(".")) + base
    following: Ints = np.append(points, ends[-1])[np.searchsorted(points, starts)]
    points_or_ends: Ints = np.minimum(following, ends)
    return points_or_ends


def _one_number(values: Ints) -> Ints | int:
    """Return the common value of an array as an int, which NumPy handles faster; else the array.

    An empty array gives 0.
    """
    first = int(values[0]) if len(values) else 0
    return first if (values == first).all() else values


def _digits(data: NDArray[np.uint8], ends: Ints, count: Ints | int) -> tuple[Ints, Words]:
    """Read up to 8 digits that end at each position.

    Return (numbers, words that are 0 where all characters are digits).
    """
    return _value(_word(data, ends, count))


def _word(data: NDArray[np.uint8], ends: Ints, count: Ints | int) -> Words:
    """Return the `count` characters before each end, less '0', at the end of a word of zeros.

    A count of 0 gives the word 0.
    """
    at_every_byte = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    words: Words = at_every_byte[np.maximum(ends - 8, 0)].astype(np.uint64, copy=False)
    if len(ends) and ends[0] < 8:  # too near to the start: the word holds bytes after the end
        early = np.flatnonzero(ends < 8)
        words[early] <<= (8 * np.minimum(8 - ends[early], 8)).astype(np.uint64)
    words ^= _ZEROS
    words &= _LAST_BYTES[count]
    return words


def _value(words: Words) -> tuple[Ints, Words]:
    """Return the numbers that words of 8 characters less '0' stand for.

    Return (numbers, words that are 0 where all characters are digits). Other characters give
    numbers without a meaning.
    """
    # 0x76 + 10 sets the high bit of a byte, 0x76 + 9 does not
    wrong = ((words + _ABOVE_NINE) | words) & _HIGH_BITS
    # eight digits, two at a time, then four, then all, within each word
    words = words * np.uint64(10) + (words >> np.uint64(8))
    low, high = words & np.uint64(0xFF000000FF), (words >> np.uint64(16)) & np.uint64(0xFF000000FF)
    low *= np.uint64(0x000F424000000064)
    high *= np.uint64(0x0000271000000001)
    low += high
    low >>= np.uint64(32)
    return low.view(np.int64), wrong


def _fraction(
    data: NDArray[np.uint8], ends: Ints, count: Ints | int
) -> tuple[tuple[Ints, ...], Words]:
    """Read up to 22 digits that end at each position, as columns of eight, the last digits first.

    Return (columns, words that are 0 where all characters are digits); there is always one column.
    """
    most = int(np.max(count, initial=0))
    digits, wrong = _digits(data, ends, np.minimum(count, 8))
    parts = [digits]
    for skipped in range(8, most, 8):
        digits, wrong_part = _digits(data, ends - skipped, np.clip(count - skipped, 0, 8))
        parts.append(digits)
        wrong |= wrong_part
    return tuple(parts), wrong


def _scaled(
    integer: Ints, fraction: tuple[Ints, ...], places: Ints | int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (integer + fraction / 10^places, mask where `float` may round it otherwise).

    `fraction` has the digits after the point in columns of eight, the last digits first.
    """
    powers = _POWERS[places]
    size = integer * powers + sum(part * 10.0 ** (8 * n) for n, part in enumerate(fraction))
    unsure = size >= _LARGEST
    whole = integer * _WHOLE_POWERS[places] + fraction[0]
    for n, part in enumerate(fraction[1:], start=1):
        whole += part * 10 ** (8 * n)
    if not (size >= _EXACT).any():
        return whole / powers, unsure
    values = whole / powers
    long = np.flatnonzero((size >= _EXACT) & ~unsure)
    values[long], unsure[long] = _divided(whole[long], np.broadcast_to(powers, size.shape)[long])
    return values, unsure


def _divided(whole: Ints, power: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Divide integers of up to 63 bits by exact powers of ten, in twice the precision of a double.

    Return (quotients, mask of those so near to a rounding border that the result is open).
    """
    head = whole.astype(np.float64)
    tail = (whole - head.astype(np.int64)).astype(np.float64)
    quotient = head / power
    product = quotient * power
    q_head, q_tail = _halves(quotient)
    p_head, p_tail = _halves(power)
    lost = ((q_head * p_head - product) + q_head * p_tail + q_tail * p_head) + q_tail * p_tail
    low = (((head - product) - lost) + tail) / power
    value = quotient + low
    gap = np.abs((quotient - value) + low)
    step = np.spacing(value)
    # half a step up or down; below a power of two the steps are half as wide
    unsure = (np.abs(gap - step / 2) < step * 1e-9) | (np.abs(gap - step / 4) < step * 1e-9)
    return value, unsure


def _halves(values: Floats) -> tuple[Floats, Floats]:
    """Return the high and the low half of each number, whose products are exact (Dekker 1971)."""
    high = values * _SPLIT
    high = high - (high - values)
    return high, values - high


@dataclass(frozen=True, eq=False)
class ParsedText:
    """Lines of a run file as columns, with their place in the text; `parse_uniform` makes it.

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
    """Parse whole lines of six fields with one space or tab between them.

    None if a line has another form, is a comment, or has a score that is no number. Some 0.1 s a
    million lines; memory is some 6 times the text. Empty text gives None.
    """
    data = joined_bytes(text)
    n_bytes = len(data) - len(PADDING)
    table = separators(data, data[:n_bytes] <= _SPACE, 6)
    if table is None:
        return None
    lines = _line_starts(table)
    parsed = _columns(data, table, lines)
    if parsed is None or any(query.startswith(b"#") for query in parsed.block.query_ids):
        return None
    return parsed


def parse_normalized(text: list[bytes]) -> ParsedText:
    """Parse lines of `normalize_lines` or uniform lines, whose ids may hold control characters.

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
    are left out of the text but counted; further fields after the sixth are cut off.

    Raises:
        DataError: A line has a NUL byte, fewer than six fields, or a score that is no number.
    """
    hits, has_comment, number = [], False, first_line - 1
    for number, line in enumerate(BytesIO(text), first_line):
        if b"\0" in line:
            raise nul_byte(line, name, number)
        fields = hit_fields(line, name, number)
        if fields:
            hit_score(fields[4], name, number)
            hits.append(b" ".join(fields[:6]) + b"\n")
        has_comment = has_comment or line.startswith(b"#")
    return b"".join(hits), number - first_line + 1, has_comment


def separators(data: ByteArray, white: NDArray[np.bool_], columns: int) -> Positions | None:
    """Return the positions of white space as a table, a row per line and a column per field.

    None unless all lines have `columns` fields with one space or tab between them. `white` marks
    the bytes of the text that are white space or control characters. Empty text, or text that
    begins with white space, gives None.
    """
    # two separators in a row would leave an empty field
    if not len(white) or white[0] or (white[1:] & white[:-1]).any():
        return None
    positions = np.flatnonzero(white)
    table = positions.reshape(-1, columns) if len(positions) % columns == 0 else None
    if table is None or not (data[table[:, -1]] == _NEWLINE).all():
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
    """Return the hits of lines by their separators; None if a score cannot be read.

    No lines give a block without hits and the tag b''.
    """
    # a copy: a column of the table is not contiguous, and slower to walk through many times
    scores = read_decimals(data, table[:, 3] + 1, table[:, 4].copy())
    if scores is None:
        return None
    queries = ByteIds(data, lines[:-1], table[:, 0] - lines[:-1])
    changes = np.flatnonzero(queries.differ_from_last()) + 1
    first = np.concatenate((np.zeros(min(1, len(queries)), np.int64), changes))
    starts = np.append(first, len(scores))
    ids = [queries[row] for row in first.tolist()]
    document_starts = table[:, 1] + 1
    documents = ByteIds(data, document_starts, table[:, 2] - document_starts)
    tag = data[table[-1, 4] + 1 : table[-1, 5]].tobytes() if len(table) else b""
    return ParsedText(HitBlock(ids, starts, documents, scores), lines, tag)


def hit_fields(line: bytes, name: str, number: int) -> list[bytes]:
    """Return the fields of a line; [] for a blank line or a comment; a `DataError` below six."""
    if line.startswith(b"#"):
        return []
    fields = line.split()
    if fields and len(fields) < 6:
        raise wrong_columns(fields, line, "6", COLUMNS, name, number)
    return fields


def hit_score(text: bytes, name: str, number: int) -> float:
    """Return the score of a hit, also inf and -inf; raise a `DataError` if it is no number."""
    score = read_number(text)
    if score is None:
        quote = text[:40].decode("utf-8", "backslashreplace")
        allowed = "a number, inf, -inf"
        raise DataError(f"score '{quote}'", file=name, line=number, allowed=allowed)
    return score


def no_rankings(name: str) -> DataError:
    """Return the error for a run file of blank lines."""
    return DataError("no rankings, only blank lines", file=name, allowed=COLUMNS)
