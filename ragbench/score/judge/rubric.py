"""Rubrics: what a judge is asked, as a YAML file; built-in ones and the user's own alike."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.signature import fingerprint_json

_FOLDER = Path(__file__).parent / "rubrics"
_CHOICES = {
    "asks": ("answer", "context", "query", "pair"),
    "method": ("rating", "claims", "pairwise", "nuggets"),
    "direction": ("higher", "lower"),
}
_NEEDS = ("question", "answer", "contexts", "reference", "queries")
_KEYS = ("name", "asks", "needs", "scale", "steps", "examples", "method", "direction")
_EXAMPLE_KEYS = (*_NEEDS, "level", "reasoning")
_REQUIRED = ("name", "needs", "scale")


@dataclass(frozen=True)
class Rubric:
    """What a judge is asked, and what its levels mean."""

    name: str
    """The name of the score."""
    asks: str
    """What is judged: answer, context, query or pair."""
    needs: tuple[str, ...]
    """What an item must have."""
    scale: Mapping[int, str]
    """Level -> what it means; the levels run from 1 to the largest."""
    steps: tuple[str, ...]
    """What the judge does, in order."""
    examples: tuple[Mapping[str, Any], ...]
    """Judged items."""
    method: str
    """How the verdict is made: rating, claims, pairwise or nuggets."""
    direction: str
    """Which way is better."""

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return max(self.scale)

    def meaning(self, level: int) -> str:
        """Say what a level means; one without a text lies between its neighbours."""
        if level in self.scale:
            return self.scale[level]
        below = max(known for known in self.scale if known < level)
        above = min(known for known in self.scale if known > level)
        return f"between '{self.scale[below]}' and '{self.scale[above]}'"

    def score_of(self, level: float) -> float:
        """Turn a level of 1..n into a score of 0..1."""
        return (level - 1) / (self.levels - 1)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A short hash of everything that the rubric says."""
        scale = {str(level): text for level, text in self.scale.items()}
        said = (self.name, self.asks, self.needs, scale, self.steps, self.examples)
        return fingerprint_json([*said, self.method, self.direction])


def built_in_rubrics() -> list[str]:
    """Return the names of the rubrics that come with ragbench."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


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


@functools.cache
def _built_in(name: str) -> Rubric:
    return read_rubric(_FOLDER / f"{name}.yaml")


def read_rubric(path: Path) -> Rubric:
    """Read a rubric file.

    Raises:
        DataError: The file is not a rubric; says where and what is allowed.
    """
    return _Reader(path).read()


class _Reader:
    """Checks one file; knows the line of each key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, int] = {}

    def read(self) -> Rubric:
        found = self._load()
        for key in found:
            if key not in _KEYS:
                self._fail(key, "unknown key", ", ".join(_KEYS), nearest(key, _KEYS))
        for key in _REQUIRED:
            if key not in found:
                self._fail(key, "missing", "a rubric has " + ", ".join(_REQUIRED))
        scale = self._scale(found["scale"])
        return Rubric(
            name=self._name(found["name"]),
            asks=self._choice(found, "asks", "answer"),
            needs=self._needs(found["needs"]),
            scale=scale,
            steps=tuple(self._texts("steps", found.get("steps", []))),
            examples=tuple(self._examples(found.get("examples", []), max(scale))),
            method=self._choice(found, "method", "rating"),
            direction=self._choice(found, "direction", "higher"),
        )

    def _load(self) -> dict[str, Any]:
        import yaml

        try:
            text = self._path.read_text(encoding="utf-8-sig")
            node = yaml.compose(text, Loader=yaml.BaseLoader)
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read: {error}", file=self._path) from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else None
            problem = getattr(error, "problem", None) or str(error)
            raise DataError(f"not YAML: {problem}", file=self._path, line=line) from error
        if not isinstance(node, yaml.MappingNode):
            raise DataError("not a mapping", file=self._path, allowed=", ".join(_KEYS))
        for key, _ in node.value:
            if key.value in self._lines:
                self._fail(key.value, f"repeated on line {key.start_mark.line + 1}", "once")
            self._lines[str(key.value)] = key.start_mark.line + 1
        # The base loader leaves every scalar a text: `no` is a word in a rubric.
        return dict(yaml.load(text, Loader=yaml.BaseLoader))  # builds texts only

    def _fail(self, key: str, found: str, allowed: str, close: str | None = None) -> NoReturn:
        line = self._lines.get(key)
        raise DataError(
            found, file=self._path, line=line, record=key, allowed=allowed, nearest=close
        )

    def _name(self, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+", value):
            self._fail("name", repr(value), "letters, digits and _ . -")
        return value

    def _choice(self, found: Mapping[str, Any], key: str, default: str) -> str:
        value, allowed = found.get(key, default), _CHOICES[key]
        if value not in allowed:
            close = nearest(value, allowed) if isinstance(value, str) else None
            self._fail(key, repr(value), ", ".join(allowed), close)
        return str(value)

    def _texts(self, key: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            self._fail(key, repr(value), "a list of texts")
        return value

    def _needs(self, value: Any) -> tuple[str, ...]:
        needs = self._texts("needs", value)
        for need in needs:
            if need not in _NEEDS:
                self._fail("needs", repr(need), ", ".join(_NEEDS), nearest(need, _NEEDS))
        return tuple(needs)

    def _scale(self, value: Any) -> dict[int, str]:
        allowed = "a mapping of levels 1 to n to texts, with texts for 1 and n at least"
        if not isinstance(value, dict) or len(value) < 2:
            self._fail("scale", repr(value), allowed)
        for level, text in value.items():
            if not re.fullmatch("[1-9][0-9]?", level) or not isinstance(text, str):
                self._fail("scale", f"{level}: {text!r}", allowed)
        scale = {int(level): text for level, text in value.items()}
        if 1 not in scale:
            self._fail("scale", f"levels {', '.join(map(str, scale))}", allowed)
        return dict(sorted(scale.items()))

    def _examples(self, value: Any, levels: int) -> list[Mapping[str, Any]]:
        if not isinstance(value, list):
            self._fail("examples", repr(value), "a list of judged items")
        read: list[Mapping[str, Any]] = []
        for number, example in enumerate(value, start=1):
            if not isinstance(example, dict):
                self._fail("examples", f"number {number} is {example!r}", "a mapping")
            for key in example:
                if key not in _EXAMPLE_KEYS:
                    allowed = ", ".join(_EXAMPLE_KEYS)
                    close = nearest(key, _EXAMPLE_KEYS)
                    self._fail("examples", f"number {number} has '{key}'", allowed, close)
            level = str(example.get("level", ""))
            if not level.isdecimal() or not 1 <= int(level) <= levels:
                found = f"number {number} has level {level or 'none'}"
                self._fail("examples", found, f"an integer from 1 to {levels}")
            read.append({**example, "level": int(level)})
        return read
