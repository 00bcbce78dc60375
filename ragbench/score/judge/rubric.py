"""Rubrics: what a judge is asked, as a YAML file; built-in ones and the user's own alike."""

from __future__ import annotations

import functools
import os
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import YamlError, load_yaml
from ragbench.registry import DeclaredOption, Option, nearest
from ragbench.score.base import read_options, split_options, write_options
from ragbench.score.judge.base import NEEDS, Judge, KnownJudge, Rubric
from ragbench.score.judge.grounding import FORMULAS
from ragbench.score.judge.published import RAGAS, NuggetScore, SupportScore
from ragbench.types.conversation import Fail, read_turns

DEFAULT_RUBRICS = ("faithfulness", "answer_relevancy", "correctness")
"""The default rubrics: is it grounded, to the point, and right."""

_FOLDER = Path(__file__).parent / "rubrics"


def built_in_rubrics() -> list[str]:
    """Return the names of the rubrics that come with ragbench."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def default_rubrics(judge: Judge | KnownJudge) -> tuple[str | Mapping[str, Any], ...]:
    """Return the default rubrics of a judge, or of one that is yet to be made.

    A plain function has its own. One that serves any has the usual three, as far as it can apply
    them, and a judge that can apply none of these is asked all that it can.
    """
    if judge.own_rubric is not None:
        return (judge.own_rubric,)
    if judge.served is None:
        return DEFAULT_RUBRICS
    return tuple(name for name in DEFAULT_RUBRICS if name in judge.served) or tuple(judge.served)


def not_applied(rubric: Rubric, judge: Judge | KnownJudge) -> str | None:
    """Say what is allowed where a judge cannot apply a rubric; None: it can, as far as is known."""
    if judge.served is None or rubric.name in judge.served:
        return None
    return ", ".join(judge.served)


def load_rubric(name: str | Path | Mapping[str, Any]) -> Rubric:
    """Return a built-in rubric by name, with the options of the name, or one from a file.

    A mapping with the keys of such a file may stand for it.

    Example:
        >>> rubric = load_rubric("answer_relevancy")
        >>> rubric.levels, rubric.score_of(4)
        (5, 0.75)
        >>> load_rubric("nugget_recall(score=strict_vital)").name
        'nugget_recall'
        >>> load_rubric("nugget_recall( score = all )").name
        'nugget_recall(score=all)'
    """
    if isinstance(name, Mapping):
        return _Reader(Path("rubric"), name).read()
    if is_built_in(name):
        return _built_in(str(name))
    known = built_in_rubrics()
    if os.path.isfile(name):
        return read_rubric(Path(name))
    if os.path.isdir(name):
        raise DataError("a folder, not a file", file=name, allowed="the YAML file of a rubric")
    allowed = f"{', '.join(known)}, or the path of a file"
    raise OptionError("rubric", "name", str(name), allowed, nearest(str(name), known))


def is_built_in(name: str | Path) -> bool:
    """Whether a name, with options or without, is that of a built-in rubric."""
    named = _NAME.fullmatch(str(name))
    return named is not None and named[1] in built_in_rubrics()


def rubric_options(name: str) -> dict[str, DeclaredOption]:
    """Return the options that the name of a built-in rubric may have."""
    found = []
    if name == "nugget_recall":
        what = Option("Which published score: vital nuggets or all, partial support or none.")
        found.append(DeclaredOption("score", NuggetScore, "strict_vital", what))
    if name in RAGAS:
        what = Option("Whose definition: ours, or that of the metric of ragas.")
        found.append(DeclaredOption("as", Literal["own", "ragas"], "own", what))
    if name in RAGAS and RAGAS[name].embeds:
        what = Option("as=ragas: the model that embeds texts, a folder or a name on the hub.")
        found.append(DeclaredOption("model", str, _EMBEDS, what))
    return {option.name: option for option in found}


def embedding_identity(rubric: Rubric) -> str | None:
    """Return what the embeddings of a rubric depend on; None where it needs none.

    Raises:
        MissingExtra: A package is missing.
        OptionError: No such model.
    """
    if rubric.model is None:
        return None
    from ragbench.embed.base import need_packages
    from ragbench.embed.sentence_transformers import EXTRA, PACKAGES, check_model

    need_packages(f"rubric '{rubric.name}'", EXTRA, PACKAGES)
    return check_model(rubric.name, rubric.model).identity


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


_NAME = re.compile(r"([a-z_]+)\s*(?:\((.*)\))?", re.DOTALL)
_EMBEDS = "sentence-transformers/all-MiniLM-L6-v2"


@functools.cache
def _built_in(written: str) -> Rubric:
    """The rubric of a file, changed as the options of its name say."""
    named = _NAME.fullmatch(written)
    name, text = named.groups() if named else (written, None)
    rubric = read_rubric(_FOLDER / f"{name}.yaml")
    if text is None:
        return rubric
    declared = rubric_options(name)
    chosen = read_options(name, split_options(text), declared)
    rubric = replace(rubric, name=f"{name}{write_options(chosen)}")
    if "score" in chosen:
        return replace(rubric, formula=chosen["score"])
    if "as" not in chosen:
        if "model" in chosen:
            raise OptionError(name, "model", chosen["model"], "with as=ragas")
        return rubric
    return replace(
        rubric,
        method="ragas",
        formula=name,
        needs=RAGAS[name].needs,
        verdicts="shared",
        model=chosen.get("model", _EMBEDS) if RAGAS[name].embeds else None,
    )


_CHOICES = {
    "asks": ("answer", "context", "query", "pair", "conversation"),
    "method": ("rating", "claims", "pairwise", "nuggets", "support", "intentions", "retention"),
    "direction": ("higher", "lower"),
    "verdicts": ("own", "shared"),
}
_FORMULAS: Mapping[str, tuple[str, ...]] = {
    "claims": tuple(FORMULAS),
    "nuggets": typing.get_args(NuggetScore),
    "support": typing.get_args(SupportScore),
}
"""Method -> the numbers that it can make."""
_KEYS = tuple(field.name for field in fields(Rubric) if field.name != "model")
_SHAPE = "a mapping of texts, lists of texts, and examples"
_EXAMPLE_KEYS = (*NEEDS, "level", "reasoning")
_LISTS = ("contexts", "queries", "guidelines")
_REQUIRED = ("name", "needs", "scale")
_ONLY_FOR = {
    "formula": tuple(_FORMULAS),
    "verdicts": ("claims", "nuggets", "intentions", "retention"),
}
_JUDGED = {
    "answer": ("answer",),
    "context": ("contexts",),
    "query": ("queries",),
    "pair": ("answer", "other"),
    "conversation": ("question", "answer"),
}
_OF_CONVERSATIONS = ("intentions", "retention")


def read_rubric(path: Path) -> Rubric:
    """Read a rubric file."""
    return _Reader(path).read()


def _as_texts(value: Any) -> Any:
    """Plain data as YAML is read here: every scalar a text."""
    if isinstance(value, Mapping):
        return {str(key): _as_texts(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_texts(each) for each in value]
    return value if isinstance(value, str) else str(value)


class _Reader:
    """Checks one file; knows the line of each key."""

    def __init__(self, path: Path, found: Mapping[str, Any] | None = None) -> None:
        self._path, self._found = path, found
        self._lines: dict[str, int] = {}

    def read(self) -> Rubric:
        found = self._load() if self._found is None else _as_texts(self._found)
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
        formula = self._formula(found, method, named)
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
            found = load_yaml(text)  # scalars as texts: `no` is a word in a rubric
        except YamlError as error:
            problem = f"not YAML: {error.problem}"
            raise DataError(problem, file=self._path, line=error.line, allowed=_SHAPE) from error
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read: {error}", file=self._path) from error
        node = yaml.compose(text, Loader=yaml.BaseLoader)
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

    def _formula(self, found: Mapping[str, Any], method: str, named: Sequence[str]) -> str | None:
        usual = {
            "claims": "faithfulness" if "contexts" in named else "claim_f1",
            "nuggets": "strict_vital",
            "support": "precision",
        }
        if method not in usual:
            return None
        return self._choice(found, "formula", usual[method], _FORMULAS[method])

    def _choice(
        self, found: Mapping[str, Any], key: str, default: str, words: Sequence[str] = ()
    ) -> str:
        value, allowed = found.get(key, default), words or _CHOICES[key]
        if value not in allowed:
            close = nearest(value, allowed) if isinstance(value, str) else None
            self._fail(key, repr(value), ", ".join(allowed), close)
        return str(value)

    def _all_needs(
        self, named: Sequence[str], asks: str, method: str, formula: str | None
    ) -> tuple[str, ...]:
        """What the file names, and what follows from the rest: a rubric needs what it judges."""
        implied = [*_JUDGED[asks]]
        if method == "claims":
            implied += FORMULAS[formula or ""].needs
        if method == "support":
            implied.append("contexts")
        if method == "retention":
            implied.insert(0, "turns")
        if method == "nuggets":
            implied += ["question"] if "contexts" in named else ["question", "reference"]
        return tuple(dict.fromkeys([*named, *implied]))

    def _check_method(self, found: Mapping[str, Any], asks: str, method: str) -> None:
        """Check what the method demands of other keys."""
        if (asks == "pair") != (method == "pairwise"):
            self._fail("method", f"{method} of {asks}", "pairwise of pair, or neither")
        if method in _OF_CONVERSATIONS and asks != "conversation":
            self._fail("method", f"{method} of {asks}", f"{method} with asks: conversation")
        for key, methods in _ONLY_FOR.items():
            if key in found and method not in methods:
                self._fail(key, f"the method is {method}", f"with method {' or '.join(methods)}")
        if self._path.parent == _FOLDER:  # there they are for people, and for tests
            return
        unsent = {"examples"} if method in _FORMULAS else set()
        if method == "support" or found.get("verdicts") == "shared":
            unsent.add("steps")
        for key in unsent & set(found):
            allowed = "no such key: its prompts are those of all rubrics of the method"
            self._fail(key, f"no judge is shown the {key} of this rubric ({method})", allowed)

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
        if key == "turns":  # looked at where they are read
            return
        is_list = isinstance(value, list) and all(isinstance(text, str) for text in value)
        fits = is_list if key in _LISTS else isinstance(value, str)
        if not fits:
            allowed = "a list of texts" if key in _LISTS else "a text"
            self._fail("examples", f"number {number}: {key} is {value!r}", allowed)

    def _of_turns(self, number: int) -> Fail:
        line = self._lines.get("examples")

        def fail(found: str, allowed: str) -> Exception:
            what = f"number {number}: turns: {found}"
            return DataError(what, file=self._path, line=line, record="examples", allowed=allowed)

        return fail

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
            if "turns" in example:
                example["turns"] = read_turns(example["turns"], self._of_turns(number))
            level = str(example.get("level", ""))
            if not level.isdecimal() or not 1 <= int(level) <= levels:
                found = f"number {number} has level {level or 'none'}"
                self._fail("examples", found, f"an integer from 1 to {levels}")
            read.append({**example, "level": int(level)})
        return read
