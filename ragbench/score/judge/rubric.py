"""Rubrics: what a judge is asked, as a YAML file; built-in ones and the user's own alike."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.score.judge.base import NEEDS, Rubric
from ragbench.score.judge.grounding import FORMULAS

DEFAULT_RUBRICS = ("faithfulness", "answer_relevancy", "correctness")
"""The default rubrics: is it grounded, to the point, and right."""

_FOLDER = Path(__file__).parent / "rubrics"


def built_in_rubrics() -> list[str]:
    """Return the names of the rubrics that come with ragbench."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def default_rubrics(served: Sequence[str] | None) -> tuple[str, ...]:
    """Return the default rubrics of a judge.

    None serves any. A judge that can apply none of the usual three is asked all that it can.
    """
    if served is None:
        return DEFAULT_RUBRICS
    return tuple(name for name in DEFAULT_RUBRICS if name in served) or tuple(served)


def load_rubric(name: str | Path) -> Rubric:
    """Return a built-in rubric by name, or one from a file.

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


_CHOICES = {
    "asks": ("answer", "context", "query", "pair"),
    "method": ("rating", "claims", "pairwise", "nuggets"),
    "direction": ("higher", "lower"),
    "verdicts": ("own", "shared"),
    "formula": tuple(FORMULAS),
}
_KEYS = (
    "name",
    "asks",
    "needs",
    "scale",
    "steps",
    "examples",
    "method",
    "direction",
    "formula",
    "verdicts",
    "guidelines",
)
_SHAPE = "a mapping of texts, lists of texts, and examples"
_EXAMPLE_KEYS = (*NEEDS, "level", "reasoning")
_LISTS = ("contexts", "queries", "guidelines")
_REQUIRED = ("name", "needs", "scale")
_ONLY_FOR = {"formula": ("claims",), "verdicts": ("claims", "nuggets")}
_JUDGED = {
    "answer": ("answer",),
    "context": ("contexts",),
    "query": ("queries",),
    "pair": ("answer", "other"),
}


def read_rubric(path: Path) -> Rubric:
    """Read a rubric file."""
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
        scale, named = self._scale(found["scale"]), self._needs(found["needs"])
        pair = found.get("asks") == "pair" or found.get("method") == "pairwise"
        asks = self._choice(found, "asks", "pair" if pair else "answer")
        method = self._choice(found, "method", "pairwise" if pair else "rating")
        self._check_method(found, asks, method)
        usual = "faithfulness" if "contexts" in named else "claim_f1"
        formula = self._choice(found, "formula", usual) if method == "claims" else None
        return Rubric(
            name=self._name(found["name"]),
            asks=asks,
            needs=self._all_needs(named, asks, method, formula),
            scale=scale,
            steps=tuple(self._texts("steps", found.get("steps", []))),
            examples=tuple(self._examples(found.get("examples", []), max(scale), asks)),
            method=method,
            direction=self._choice(found, "direction", "higher"),
            formula=formula,
            verdicts=self._choice(found, "verdicts", "own"),
            guidelines=tuple(self._texts("guidelines", found.get("guidelines", []))),
        )

    def _load(self) -> dict[str, Any]:
        import yaml

        try:
            text = self._path.read_text(encoding="utf-8-sig")
            # The base loader leaves every scalar a text: `no` is a word in a rubric.
            loader = yaml.BaseLoader(text)
            node = loader.get_single_node()
            found = loader.construct_document(node) if node is not None else None  # texts only
        except RecursionError as error:
            raise DataError("nested too deeply", file=self._path, allowed=_SHAPE) from error
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read: {error}", file=self._path) from error
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else None
            problem = getattr(error, "problem", None) or str(error)
            raise DataError(f"not YAML: {problem}", file=self._path, line=line) from error
        if not isinstance(node, yaml.MappingNode) or not isinstance(found, dict):
            raise DataError("not a mapping", file=self._path, allowed=", ".join(_KEYS))
        for key, _ in node.value:
            if key.value in self._lines:
                self._fail(key.value, f"repeated on line {key.start_mark.line + 1}", "once")
            self._lines[str(key.value)] = key.start_mark.line + 1
        return found

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

    def _all_needs(
        self, named: Sequence[str], asks: str, method: str, formula: str | None
    ) -> tuple[str, ...]:
        """What the file names, and what follows from the rest: a rubric needs what it judges."""
        implied = [*_JUDGED[asks], *(FORMULAS[formula].needs if formula else ())]
        if method == "nuggets":
            implied += ["question"] if "contexts" in named else ["question", "reference"]
        return tuple(dict.fromkeys([*named, *implied]))

    def _check_method(self, found: Mapping[str, Any], asks: str, method: str) -> None:
        """Check what the method demands of other keys."""
        if (asks == "pair") != (method == "pairwise"):
            self._fail("method", f"{method} of {asks}", "pairwise of pair, or neither")
        for key, methods in _ONLY_FOR.items():
            if key in found and method not in methods:
                self._fail(key, f"the method is {method}", f"with method {' or '.join(methods)}")

    def _texts(self, key: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            self._fail(key, repr(value), "a list of texts")
        return value

    def _needs(self, value: Any) -> tuple[str, ...]:
        needs = self._texts("needs", value)
        for need in needs:
            if need not in NEEDS:
                self._fail("needs", repr(need), ", ".join(NEEDS), nearest(need, NEEDS))
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

    def _check_example(self, number: int, key: str, value: Any) -> None:
        if key not in _EXAMPLE_KEYS:
            allowed, close = ", ".join(_EXAMPLE_KEYS), nearest(key, _EXAMPLE_KEYS)
            self._fail("examples", f"number {number} has '{key}'", allowed, close)
        is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
        fits = is_list if key in _LISTS else isinstance(value, str)
        if not fits:
            allowed = "a list of texts" if key in _LISTS else "a text"
            self._fail("examples", f"number {number}: {key} is {value!r}", allowed)

    def _examples(self, value: Any, levels: int, asks: str) -> list[Mapping[str, Any]]:
        if not isinstance(value, list):
            self._fail("examples", repr(value), "a list of judged items")
        read: list[Mapping[str, Any]] = []
        for number, example in enumerate(value, start=1):
            if not isinstance(example, dict):
                self._fail("examples", f"number {number} is {example!r}", "a mapping")
            for key, value in example.items():
                self._check_example(number, key, value)
            for key in (*_JUDGED[asks], "reasoning"):
                if not example.get(key):
                    found = f"number {number} has no '{key}'"
                    self._fail("examples", found, f"{key}, of which a judge learns")
            level = str(example.get("level", ""))
            if not level.isdecimal() or not 1 <= int(level) <= levels:
                found = f"number {number} has level {level or 'none'}"
                self._fail("examples", found, f"an integer from 1 to {levels}")
            read.append({**example, "level": int(level)})
        return read
