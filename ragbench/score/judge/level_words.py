"""Words for the levels of a scale: yes and no, pass and fail, or the texts of the levels."""

from __future__ import annotations

from ragbench.score.judge.base import Rubric

# Word -> True for the upper end of the scale.
_TRUTHS = {"yes": True, "no": False, "true": True, "false": False}
# Word -> True for the better end, which is the lower one if lower scores are better.
_QUALITIES = {"pass": True, "fail": False, "supported": True, "unsupported": False}


def end_words(*, lower_is_better: bool) -> dict[str, bool]:
    """Return word in lower case -> True for the upper end of a scale, False for the lower one.

    `pass` and `supported` are the better end, `yes` and `true` the upper one: where lower scores
    are better, they differ.
    """
    qualities = {}
    for word, is_better in _QUALITIES.items():
        qualities[word] = is_better is not lower_is_better
    return _TRUTHS | qualities


def level_words(rubric: Rubric) -> dict[str, int]:
    """Return word in lower case -> level: the texts of the levels; of two levels, `end_words` too.

    Example:
        >>> from ragbench.score.judge.rubric import load_rubric
        >>> scale = {"no": "It is rude.", "yes": "It is polite."}
        >>> words = level_words(load_rubric({"name": "n", "needs": ["answer"], "scale": scale}))
        >>> words["yes"], words["no: it is rude."]
        (2, 1)
    """
    words = {}
    if rubric.levels == 2:
        ends = end_words(lower_is_better=rubric.direction == "lower")
        words = {word: 2 if is_high else 1 for word, is_high in ends.items()}
    for level, text in rubric.scale.items():
        words[text.strip().casefold()] = level
    return words
