"""Labels of people by rater and answer, and the numbers and words that are labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import chain

from ragbench.calibration.judged_run import Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.label_words import label_words
from ragbench.data.files.rows import Entry
from ragbench.score.judge.base import Rubric

# System of a table without a column of systems.
ONE_SYSTEM = "given"


@dataclass(slots=True)
class Labels:
    """Labels of people by one rubric; `read_labels` and `read_ratings` return them.

    An answer is a pair (system, query id).

    Attributes:
        by_rater: Rater -> answer -> label on the scale of the file.
        draws: Answer -> signature of the draw on its sheet, empty for other files; answers without
            a label included.
        probabilities: Answer -> number in the cell `probability` on its sheet; NaN without one.
        groups: Answer -> text in the column of groups that was asked for; empty without one.
        ceiling: Labels of the raters behind a joint label, in the form of `by_rater`; they are only
            compared with each other. Empty if `by_rater` has the labels of each rater.
        shifts: Differences between labels on the scale and labels as written: 1 for a column with
            0 and 1 on a scale 1..2.
    """

    by_rater: dict[str, dict[Key, float]] = field(default_factory=dict)
    draws: dict[Key, str] = field(default_factory=dict)
    probabilities: dict[Key, float] = field(default_factory=dict)
    groups: dict[Key, str] = field(default_factory=dict)
    ceiling: dict[str, dict[Key, float]] = field(default_factory=dict)
    shifts: set[float] = field(default_factory=set)

    @property
    def shift(self) -> float:
        """Shift that all columns have; 0 if they differ. A printed label is lower by it."""
        return next(iter(self.shifts)) if len(self.shifts) == 1 else 0.0

    @property
    def labelled(self) -> set[Key]:
        """Answers with a label of at least one rater."""
        return set(chain.from_iterable(self.by_rater.values()))


def add_group(labels: Labels, key: Key, entry: Entry, by: str) -> None:
    """Add the group of an answer to its labels; an empty or missing cell adds none."""
    value = entry.values.get(by)
    if by and value not in (None, ""):
        labels.groups[key] = str(value)


def allowed_labels(scale: LabelScale) -> str:
    """Return the numbers and words that are labels on a scale, for messages."""
    numbers = f"a number from {scale.low:g} to {scale.high:g}"
    if scale == LabelScale(1, 2):
        numbers = "0 and 1, or 1 and 2"
    return f"{numbers}, pass/fail, yes/no, true/false"


def read_rating(
    entry: Entry, column: str, scale: LabelScale, option: str, rubric: Rubric | None = None
) -> float | None:
    """Return the label in a cell, a number on a scale or a word; None for an empty cell.

    Raises:
        DataError: There is no such column, or the cell holds no label; the message has the line.
    """
    value = entry.field(column)
    text = str(value).strip() if value is not None else ""
    if not text:
        return None
    words = label_words(scale, rubric)
    if text.casefold() in words:
        return float(words[text.casefold()])
    allowed = f"{allowed_labels(scale)}, or an empty cell"
    try:
        rating = float(text)
    except ValueError as error:
        raise entry.error(f"{column}: {value!r}", allowed=allowed) from error
    if not math.isfinite(rating) or not scale.holds(rating):
        hint = f"; another scale: {option} LOW..HIGH"
        raise entry.error(f"{column}: {value!r}", allowed=allowed + hint)
    return rating
