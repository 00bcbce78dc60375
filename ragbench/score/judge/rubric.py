"""Rubrics: what a judge is asked, as a YAML file; built-in ones and the user's own alike."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ragbench.errors import OptionError
from ragbench.registry import nearest
from ragbench.score.judge.base import Rubric
from ragbench.score.judge.rubric_file import read_rubric

__all__ = [
    "About",
    "DEFAULT_RUBRICS",
    "Rubric",
    "about",
    "built_in_rubrics",
    "default_rubrics",
    "load_rubric",
    "read_rubric",
]

DEFAULT_RUBRICS = ("faithfulness", "answer_relevancy", "correctness")
"""What is asked where nobody names rubrics: is it grounded, to the point, and right."""

_FOLDER = Path(__file__).parent / "rubrics"


def built_in_rubrics() -> list[str]:
    """Return the names of the rubrics that come with ragbench."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def default_rubrics(served: Sequence[str] | None) -> tuple[str, ...]:
    """Return what a judge is asked where nobody names rubrics.

    Args:
        served: What it can apply; None is any. One that can apply none of the usual three is asked
            all that it can.
    """
    if served is None:
        return DEFAULT_RUBRICS
    return tuple(name for name in DEFAULT_RUBRICS if name in served) or tuple(served)


def load_rubric(name: str | Path) -> Rubric:
    """Return a built-in rubric by name, or one from a file.

    Raises:
        OptionError: Neither a built-in rubric nor a file.
        DataError: The file is not a rubric; says where and what is allowed.

    Example:
        >>> rubric = load_rubric("answer_relevancy")
        >>> rubric.levels, rubric.score_of(4)
        (5, 0.75)
    """
    if str(name) in (known := built_in_rubrics()):
        return _built_in(str(name))
    if Path(name).is_file():
        return read_rubric(Path(name))
    allowed = f"{', '.join(known)}, or the path of a file"
    raise OptionError("rubric", "name", str(name), allowed, nearest(str(name), known))


class About(NamedTuple):
    """What the comment of a built-in rubric says to people; no judge is sent it."""

    measures: str
    """What the score says."""
    limits: str
    """When not to use it, and how to read it."""
    source: str
    """Where the definition comes from."""


def about(name: str) -> About:
    """Return what the file of a built-in rubric says about it.

    Example:
        >>> about("fluency").measures.partition("?")[0]
        'Is the answer good language'
    """
    text = (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8").partition("\nname: ")[0]
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        sentence = line.removeprefix("# ")
        starts = ("Not ", "Read it ") if len(parts) == 1 else ("Source: ",)
        if sentence.startswith(starts):
            parts.append([])
        parts[-1].append(sentence)
    measures, limits, source = (" ".join(part) for part in parts)
    return About(measures, limits, source.removeprefix("Source: "))


@functools.cache
def _built_in(name: str) -> Rubric:
    return read_rubric(_FOLDER / f"{name}.yaml")
