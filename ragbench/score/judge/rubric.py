"""Rubrics: what a judge is asked, as a YAML file; built-in ones and the user's own alike."""

from __future__ import annotations

import functools
import os
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import YamlError, load_yaml
from ragbench.registry import DeclaredOption, Option, nearest
from ragbench.score.base import read_options, split_options, write_options
from ragbench.score.judge.base import NEEDS, JudgeFacts, Rubric, RubricJudge
from ragbench.score.judge.grounding import FORMULAS
from ragbench.score.judge.published import RAGAS, NuggetScore, SupportScore
from ragbench.types.conversation import read_turns

# The default rubrics: is it grounded, to the point, and right.
DEFAULT_RUBRICS = ("faithfulness", "answer_relevancy", "correctness")

_FOLDER = Path(__file__).parent / "rubrics"


def built_in_rubrics() -> list[str]:
    """Return the names of the rubrics that come with ragbench."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def default_rubrics(judge: RubricJudge | JudgeFacts) -> tuple[str | Mapping[str, Any], ...]:
    """Return the default rubrics of a judge, or of one that is yet to be made.

    A plain function has its own. One that serves any has the usual three, as far as it can apply
    them, and a judge that can apply none of these is asked all that it can.
    """
    if judge.own_rubric is not None:
        return (judge.own_rubric,)
    if judge.served is None:
        return DEFAULT_RUBRICS
    return tuple(name for name in DEFAULT_RUBRICS if name in judge.served) or tuple(judge.served)


def not_applied(rubric: Rubric, judge: RubricJudge | JudgeFacts) -> str | None:
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
        return _RubricReader(Path("rubric"), _as_texts(name)).read()
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


class RubricDescription(NamedTuple):
    """What the comment of a built-in rubric says to people; no judge is sent it.

    Attributes:
        measures: What the score says.
        limits: When not to use it, and how to read it.
        source: Where the definition comes from.
    """

    measures: str
    limits: str
    source: str


def describe_rubric(name: str) -> RubricDescription:
    """Return what the file of a built-in rubric says about it.

    Example:
        >>> describe_rubric("fluency").measures.partition("?")[0]
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
    return RubricDescription(measures, limits, source.removeprefix("Source: "))


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
# Method -> the numbers that it can make.
_FORMULAS: Mapping[str, tuple[str, ...]] = {
    "claims": tuple(FORMULAS),
    "nuggets": typing.get_args(NuggetScore),
    "support": typing.get_args(SupportScore),
}
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
    try:
        text = path.read_text(encoding="utf-8-sig")
        rubric = load_yaml(text)  # scalars as texts: `no` is a word in a rubric
    except YamlError as error:
        problem = f"not YAML: {error.problem}"
        raise DataError(problem, file=path, line=error.line, allowed=_SHAPE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file=path) from error
    import yaml

    node = yaml.compose(text, Loader=yaml.BaseLoader)
    if not isinstance(node, yaml.MappingNode) or not isinstance(rubric, dict):
        raise DataError("not a mapping", file=path, allowed=", ".join(_KEYS))
    reader = _RubricReader(path, rubric)
    for key, _ in node.value:
        if key.value in reader.lines:
            raise reader.error(key.value, f"repeated on line {key.start_mark.line + 1}", "once")
        reader.lines[str(key.value)] = key.start_mark.line + 1
    return reader.read()


def _as_texts(value: Any) -> Any:
    """Plain data as YAML is read here: every scalar a text."""
    if isinstance(value, Mapping):
        return {str(key): _as_texts(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_texts(part) for part in value]
    return value if isinstance(value, str) else str(value)


class _RubricReader:
    """Checks the keys of one rubric; `lines` has the line of each key in its file."""

    def __init__(self, path: Path, keys: Mapping[str, Any]) -> None:
        self._path, self._keys = path, keys
        self.lines: dict[str, int] = {}

    def error(self, key: str, found: str, allowed: str, close: str | None = None) -> DataError:
        """Return the error of a key, with its line."""
        line = self.lines.get(key)
        return DataError(
            found, file=self._path, line=line, record=key, allowed=allowed, nearest=close
        )

    def read(self) -> Rubric:
        """Return the rubric, once all keys are checked."""
        keys = self._keys
        for key in keys:
            if key not in _KEYS:
                raise self.error(key, "unknown key", ", ".join(_KEYS), nearest(key, _KEYS))
        for key in _REQUIRED:
            if key not in keys:
                raise self.error(key, "missing", "a rubric has " + ", ".join(_REQUIRED))
        scale, needs = self._scale(keys["scale"]), self._texts("needs")
        for need in needs:
            if need not in NEEDS:
                raise self.error("needs", repr(need), ", ".join(NEEDS), nearest(need, NEEDS))
        pair = keys.get("asks") == "pair" or keys.get("method") == "pairwise"
        asks = self._choice("asks", "pair" if pair else "answer")
        method = self._choice("method", "pairwise" if pair else "rating")
        self._check_method(asks, method)
        formula = None
        if method in _FORMULAS:
            of_claims = "faithfulness" if "contexts" in needs else "claim_f1"
            usual = {"claims": of_claims, "nuggets": "strict_vital", "support": "precision"}
            formula = self._choice("formula", usual[method], _FORMULAS[method])
        name = keys["name"]
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise self.error("name", repr(name), "letters, digits and _ . -")
        return Rubric(
            name=name,
            asks=asks,
            needs=_all_needs(needs, asks, method, formula),
            scale=scale,
            steps=self._texts("steps"),
            examples=self._examples(max(scale), _JUDGED[asks]),
            method=method,
            direction=self._choice("direction", "higher"),
            formula=formula,
            verdicts=self._choice("verdicts", "own"),
            guidelines=self._texts("guidelines"),
        )

    def _choice(self, key: str, default: str, words: Sequence[str] = ()) -> str:
        value, allowed = self._keys.get(key, default), words or _CHOICES[key]
        if value not in allowed:
            close = nearest(value, allowed) if isinstance(value, str) else None
            raise self.error(key, repr(value), ", ".join(allowed), close)
        return str(value)

    def _check_method(self, asks: str, method: str) -> None:
        """Check what the method demands of other keys."""
        keys = self._keys
        if (asks == "pair") != (method == "pairwise"):
            raise self.error("method", f"{method} of {asks}", "pairwise of pair, or neither")
        if method in _OF_CONVERSATIONS and asks != "conversation":
            allowed = f"{method} with asks: conversation"
            raise self.error("method", f"{method} of {asks}", allowed)
        for key, methods in _ONLY_FOR.items():
            if key in keys and method not in methods:
                allowed = f"with method {' or '.join(methods)}"
                raise self.error(key, f"the method is {method}", allowed)
        if self._path.parent == _FOLDER:  # there they are for people, and for tests
            return
        unsent = {"examples"} if method in _FORMULAS else set()
        if method == "support" or keys.get("verdicts") == "shared":
            unsent.add("steps")
        for key in unsent & set(keys):
            allowed = "no such key: its prompts are those of all rubrics of the method"
            problem = f"no judge is shown the {key} of this rubric ({method})"
            raise self.error(key, problem, allowed)

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._keys.get(key, [])
        if not _is_texts(value):
            raise self.error(key, repr(value), "a list of texts")
        return tuple(value)

    def _scale(self, value: Any) -> dict[int, str]:
        allowed = "a mapping of levels 1 to n to texts, with texts for 1 and n at least"
        if not isinstance(value, dict) or len(value) < 2:
            raise self.error("scale", repr(value), allowed)
        for level, text in value.items():
            if not re.fullmatch("[1-9][0-9]?", level) or not isinstance(text, str):
                raise self.error("scale", f"{level}: {text!r}", allowed)
        scale = {int(level): text for level, text in value.items()}
        if 1 not in scale:
            raise self.error("scale", f"levels {', '.join(map(str, scale))}", allowed)
        return dict(sorted(scale.items()))

    def _examples(self, levels: int, judged: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
        examples = self._keys.get("examples", [])
        if not isinstance(examples, list):
            raise self.error("examples", repr(examples), "a list of judged items")
        numbered = enumerate(examples, start=1)
        return tuple(self._example(*entry, levels, judged) for entry in numbered)

    def _example(
        self, number: int, example: Any, levels: int, judged: Sequence[str]
    ) -> Mapping[str, Any]:
        def error(found: str, allowed: str, close: str | None = None) -> DataError:
            return self.error("examples", f"number {number}{found}", allowed, close)

        if not isinstance(example, dict):
            raise error(f" is {example!r}", "a mapping")
        for key, value in example.items():
            if key not in _EXAMPLE_KEYS:
                close = nearest(key, _EXAMPLE_KEYS)
                raise error(f" has '{key}'", ", ".join(_EXAMPLE_KEYS), close)
            # turns are checked where they are read
            if key != "turns" and not (
                _is_texts(value) if key in _LISTS else isinstance(value, str)
            ):
                allowed = "a list of texts" if key in _LISTS else "a text"
                raise error(f": {key} is {value!r}", allowed)
        for key in (*judged, "reasoning"):
            if not example.get(key):
                raise error(f" has no '{key}'", f"{key}, of which a judge learns")
        if "turns" in example:
            turns = read_turns(example["turns"], lambda f, allowed: error(f": turns: {f}", allowed))
            example = {**example, "turns": turns}
        level = str(example.get("level", ""))
        if not level.isdecimal() or not 1 <= int(level) <= levels:
            raise error(f" has level {level or 'none'}", f"an integer from 1 to {levels}")
        return {**example, "level": int(level)}


def _all_needs(
    needs: Sequence[str], asks: str, method: str, formula: str | None
) -> tuple[str, ...]:
    """The needs of the file, and those that follow from the rest: a rubric needs what it judges."""
    implied = [*_JUDGED[asks]]
    if method == "claims":
        implied += FORMULAS[formula or ""].needs
    if method == "support":
        implied.append("contexts")
    if method == "retention":
        implied.insert(0, "turns")
    if method == "nuggets":
        implied += ["question"] if "contexts" in needs else ["question", "reference"]
    return tuple(dict.fromkeys([*needs, *implied]))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
