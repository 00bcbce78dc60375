"""Labels of people as words: yes and no, pass and fail, true and false, or the texts of levels."""

from __future__ import annotations

from collections.abc import Iterable

from ragbench.calibration.label_scale import LabelScale
from ragbench.score.judge.base import Rubric
from ragbench.score.judge.rubric import end_words, level_words


def label_words(scale: LabelScale, rubric: Rubric | None) -> dict[str, float]:
    """Return word in lower case -> its label on a scale.

    `pass` and `supported` are the better end of the scale, `yes` and `true` its upper end; these
    differ for a rubric whose lower scores are better. On the scale of the rubric, the text of a
    level is a word for it too. A table of ratings has no rubric (None): higher is better.

    Example:
        >>> label_words(LabelScale(1, 5), None)["pass"]
        5
    """
    is_lower_better = rubric is not None and rubric.direction == "lower"
    words = {}
    for word, is_high in end_words(lower_is_better=is_lower_better).items():
        words[word] = scale.high if is_high else scale.low
    if rubric is None or not rubric.scale or scale != LabelScale.of_rubric(rubric):
        return words
    # shares have no levels, although the rubric may
    if len(scale.levels) == rubric.levels:
        for text, level in level_words(rubric).items():
            words[text] = scale.levels[level - 1]
    return words


def scale_of_column(values: Iterable[object], scale: LabelScale) -> LabelScale:
    """Return the scale of the labels in a column: 0..1 if a column for 1..2 has a 0, else `scale`.

    Example:
        >>> scale_of_column(["0", "1", ""], LabelScale(1, 2))
        LabelScale(low=0, high=1)
    """
    has_zero = any(str(value).strip() in ("0", "0.0") for value in values)
    return LabelScale(0, 1) if has_zero and scale == LabelScale(1, 2) else scale


def is_unclear(values: Iterable[object], scale: LabelScale) -> bool:
    """Return True for a column for 1..2 with a 1 but neither 0 nor 2: the 1 may mean either end.

    Example:
        >>> is_unclear(["1", "yes", ""], LabelScale(1, 2)), is_unclear(["1", "2"], LabelScale(1, 2))
        (True, False)
    """
    if scale != LabelScale(1, 2):
        return False
    numbers = set()
    for value in values:
        numbers.add(str(value).strip().removesuffix(".0"))
    return "1" in numbers and not numbers & {"0", "2"}
