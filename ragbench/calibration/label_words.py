"""Labels of people as words: yes and no, pass and fail, true and false, or the texts of levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ragbench.calibration.sheet import LabelScale
from ragbench.score.judge.base import Rubric

# Word -> True for the upper end of the scale.
_TRUTHS = {"yes": True, "no": False, "true": True, "false": False}
# Word -> True for the better end, which is the lower one if lower scores are better.
_QUALITIES = {"pass": True, "fail": False, "supported": True, "unsupported": False}


def label_words(scale: LabelScale, rubric: Rubric | None) -> dict[str, float]:
    """Return word in lower case -> its label on a scale.

    `pass` and `supported` are the better end, `yes` and `true` the upper one: for a rubric whose
    lower scores are better, they differ. The text of a level is its label if the scale is that of
    the rubric. None is a rubric of a table of ratings, where higher is better.

    Example:
        >>> label_words(LabelScale(1, 5), None)["pass"]
        5
    """
    ends = {True: scale.high, False: scale.low}
    words = {word: ends[is_high] for word, is_high in _TRUTHS.items()}
    is_lower_better = rubric is not None and rubric.direction == "lower"
    for word, is_better in _QUALITIES.items():
        words[word] = ends[is_better is not is_lower_better]
    if rubric is not None and rubric.scale and scale == LabelScale.of_rubric(rubric):
        words |= _level_words(rubric.scale, scale)
    return words


def _level_words(levels: Mapping[int, str], scale: LabelScale) -> dict[str, float]:
    """Return the text of each level -> its label; nothing if the labels are shares."""
    if len(scale.levels) != max(levels):
        return {}
    return {text.strip().casefold(): scale.levels[level - 1] for level, text in levels.items()}


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
    numbers = {str(value).strip().removesuffix(".0") for value in values}
    return "1" in numbers and not numbers & {"0", "2"}
