"""Rubric files: load, check and describe built-in rubrics and those of users."""

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
from ragbench.types.lookups import all_are, index_by_name, is_list_of

# Default rubrics: is the answer grounded, to the point, and correct?
DEFAULT_RUBRICS = ("faithfulness", "answer_relevancy", "correctness")

_FOLDER = Path(__file__).parent / "rubrics"
# Word -> True for the upper end of the scale.
_TRUTHS = {"yes": True, "no": False, "true": True, "false": False}
# Word -> True for the better end, which is the lower one if lower scores are better.
_QUALITIES = {"pass": True, "fail": False, "supported": True, "unsupported": False}


def built_in_rubrics() -> list[str]:
    """Return the names of the built-in rubrics, sorted; all are in lower case."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def default_rubrics(judge: RubricJudge | JudgeFacts) -> tuple[str | Mapping[str, Any], ...]:
    """Return the default rubrics of a judge, as names or as the keys of a function's rubric.

    A plain function has its own rubric. Other judges have those of `DEFAULT_RUBRICS` that they can
    apply; a judge that can apply none of these has all its rubrics as default. A classifier has
    `supported`.
    """
    if judge.own_rubric is not None:
        return (judge.own_rubric,)
    if judge.served is None:
        return DEFAULT_RUBRICS
    # the rubric of classifiers: `faithfulness` takes a chat model as well
    if "supported" in judge.served:
        return ("supported",)
    return tuple(name for name in DEFAULT_RUBRICS if name in judge.served) or tuple(judge.served)


def not_applied(rubric: Rubric, judge: RubricJudge | JudgeFacts) -> str | None:
    """Return the rubrics of a judge as text if it cannot apply this rubric, else None.

    The result is None also for a judge whose rubrics are not yet known. The names are joined by
    commas, in the order of the judge, with the `served_note` of the judge behind them.
    """
    if judge.served is None or rubric.name in judge.served:
        return None
    return ", ".join(judge.served) + getattr(judge, "served_note", "")


def load_rubric(name: str | Path | Mapping[str, Any]) -> Rubric:
    """Return a built-in rubric by name and options, or one from a file or mapping.

    A mapping has the keys of a rubric file. A built-in name, in its case, comes before a file of
    that name. A text that is no built-in name is the path of a file.

    Raises:
        OptionError: No built-in rubric and no file has this name, or an option is wrong.
        DataError: A folder, or a file or mapping that is no rubric.

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
    names = built_in_rubrics()
    if os.path.exists(name):
        return read_rubric(Path(name))
    allowed = f"{', '.join(names)}, or the path of a file"
    raise OptionError("rubric", "name", str(name), allowed, nearest(str(name), names))


def is_built_in(name: str | Path) -> bool:
    """Return True for the name of a built-in rubric, in its case, with or without options.

    The options are not checked.
    """
    match = _NAME.fullmatch(str(name))
    return match is not None and match[1] in built_in_rubrics()


def rubric_options(name: str) -> dict[str, DeclaredOption]:
    """Return name -> option for the options of a built-in rubric's name; empty without options.

    Names are `score`, `as` and `model`, as far as the rubric has them. `name` stands without
    options; an unknown name gives {}.
    """
    options = []
    if name == "nugget_recall":
        help_text = Option("Which published score: vital nuggets or all, partial support or none.")
        options.append(DeclaredOption("score", NuggetScore, "strict_vital", help_text))
    if name in RAGAS:
        help_text = Option("Whose definition: ours, or that of the metric of ragas.")
        options.append(DeclaredOption("as", Literal["own", "ragas"], "own", help_text))
    if name in RAGAS and RAGAS[name].embeds:
        help_text = Option("as=ragas: the model that embeds texts, a folder or a name on the hub.")
        options.append(DeclaredOption("model", str, _EMBEDS, help_text))
    return index_by_name(options)


def embedding_identity(rubric: Rubric) -> str | None:
    """Return the identity of a rubric's embedding model, for signatures; None without a model.

    It is the name on the hub, or `sha256-` and a hash of the folder. The model is not loaded.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        OptionError: The model does not exist.
        DataError: The model is not in the cache of the hub, and the hub cannot be reached.
    """
    if rubric.model is None:
        return None
    from ragbench.embed.base import need_packages
    from ragbench.embed.sentence_transformers import EXTRA, PACKAGES, check_model

    need_packages(f"rubric '{rubric.name}'", EXTRA, PACKAGES)
    return check_model(rubric.name, rubric.model).identity


class RubricDescription(NamedTuple):
    """Description of a built-in rubric for readers, from the comment of its file.

    `describe_rubric` returns it; each part is plain text in one line.

    Attributes:
        measures: Meaning of the score.
        limits: Cases in which not to use the rubric, and how to read the score.
        source: Origin of the definition.
    """

    measures: str
    limits: str
    source: str


def describe_rubric(name: str) -> RubricDescription:
    """Return the description of a built-in rubric, without sending it to any judge.

    The name has no options.

    Raises:
        FileNotFoundError: No built-in rubric has this name.

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
def _built_in(full_name: str) -> Rubric:
    """Return a built-in rubric after applying the options of its name; cached by the whole name."""
    match = _NAME.fullmatch(full_name)
    name, text = match.groups() if match else (full_name, None)
    rubric = read_rubric(_FOLDER / f"{name}.yaml")
    if text is None:
        return rubric
    declared = rubric_options(name)
    chosen = read_options(name, split_options(text), declared)
    rubric = replace(rubric, name=f"{name}{write_options(chosen)}")
    # only values other than the default are in `chosen`
    if "score" in chosen:
        return replace(rubric, formula=chosen["score"])
    if "as" not in chosen:
        if "model" in chosen:
            raise OptionError(name, "model", chosen["model"], "a model with as=ragas alone")
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
# Method -> the formulas that it can compute.
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
# Method -> the only object that it judges.
_ASKS = {"pairwise": "pair", "intentions": "conversation", "retention": "conversation"}


def read_rubric(path: Path) -> Rubric:
    """Read and check a rubric file.

    The name of the rubric is that of its key `name`. A key that is absent has its default; `name`,
    `needs` and `scale` are required.

    Raises:
        DataError: The file cannot be read, is no YAML mapping, repeats a key, or has a wrong key
            or value; with the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        rubric = load_yaml(text)  # scalars stay texts: `no` is a word in a rubric, not False
    except YamlError as error:
        problem = f"not YAML: {error.problem}"
        raise DataError(problem, file=path, line=error.line, allowed=_SHAPE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file=path) from error
    import yaml

    # read a second time for the lines of keys, and for repeated keys, which a mapping hides
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # of libyaml: ten times as fast
    node = yaml.compose(text, Loader=loader)
    if not isinstance(node, yaml.MappingNode) or not isinstance(rubric, dict):
        raise DataError("not a mapping", file=path, allowed=", ".join(_KEYS))
    reader = _RubricReader(path, rubric)
    for key, _ in node.value:
        if key.value in reader.lines:
            raise reader.error(key.value, f"repeated on line {key.start_mark.line + 1}", "once")
        reader.lines[str(key.value)] = key.start_mark.line + 1
    return reader.read()


def _as_texts(value: Any) -> Any:
    """Return data with every scalar as text, as YAML is read here."""
    if isinstance(value, Mapping):
        texts = {}
        for key, part in value.items():
            texts[str(key)] = _as_texts(part)
        return texts
    if isinstance(value, (list, tuple)):
        return [_as_texts(part) for part in value]
    return value if isinstance(value, str) else str(value)


# Keys of a scale of two levels, the lower one first.
_TWO_LEVELS = (("no", "yes"), ("fail", "pass"), ("false", "true"), ("0", "1"))


def _two_levels(scale: Any) -> dict[str, str] | None:
    """Return key -> text of a scale of two named levels, lower first; None for another scale."""
    if not isinstance(scale, dict) or not all_are(scale.values(), str):
        return None
    texts = {}
    for key, text in scale.items():
        texts[str(key).casefold()] = text
    for keys in _TWO_LEVELS:
        if len(scale) == len(texts) == 2 and set(texts) == set(keys):
            texts_of = {}
            for key in keys:
                is_number = key.isdecimal() or texts[key].casefold() == key
                texts_of[key] = (
                    texts[key] if is_number or not texts[key] else f"{key}: {texts[key]}"
                )
            return texts_of
    return None


class _RubricReader:
    """Reader of the keys of one rubric."""

    def __init__(self, path: Path, keys: Mapping[str, Any]) -> None:
        self._path, self._keys = path, keys
        self.lines: dict[str, int] = {}
        self._words: dict[str, int] = {}  # word of a scale of two named levels -> its level

    def error(self, key: str, problem: str, allowed: str, close: str | None = None) -> DataError:
        """Return an error with file, key and line of the key; `close` is the nearest valid word."""
        line = self.lines.get(key)
        return DataError(
            problem, file=self._path, line=line, record=key, allowed=allowed, nearest=close
        )

    def read(self) -> Rubric:
        """Check all keys and return the rubric."""
        # Unknown keys are reported before missing ones.
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
        # one of the two keys implies the other
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
        # names become parts of score names, file names and signatures
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
        """Return the word of a key, or the default if the key is missing."""
        value, allowed = self._keys.get(key, default), words or _CHOICES[key]
        if value not in allowed:
            close = nearest(value, allowed) if isinstance(value, str) else None
            raise self.error(key, repr(value), ", ".join(allowed), close)
        return str(value)

    def _check_method(self, asks: str, method: str) -> None:
        """Check that the other keys fit the method."""
        keys = self._keys
        judged = _ASKS.get(method)
        if (asks == "pair") != (method == "pairwise") or judged not in (None, asks):
            allowed = f"asks: {judged}" if judged else "method: pairwise and asks: pair, or neither"
            raise self.error("method", f"{method} cannot be combined with asks: {asks}", allowed)
        for key, methods in _ONLY_FOR.items():
            if key in keys and method not in methods:
                allowed = f"method: {' or '.join(methods)}"
                raise self.error(key, f"no effect with method: {method}", allowed)
        if self._path.parent == _FOLDER:  # built-in rubrics have them for readers and tests
            return
        unsent = {"examples"} if method in _FORMULAS else set()
        if method == "support" or keys.get("verdicts") == "shared":
            unsent.add("steps")
        for key in unsent & set(keys):
            allowed = "no such key: its prompts are those of all rubrics of the method"
            problem = f"no judge is shown the {key} of this rubric ({method})"
            raise self.error(key, problem, allowed)

    def _texts(self, key: str) -> tuple[str, ...]:
        """Return the texts of a key, in order; () if it is missing or empty."""
        value = self._keys.get(key, [])
        if not is_list_of(value, str):
            raise self.error(key, repr(value), "a list of texts")
        return tuple(value)

    def _scale(self, value: Any) -> dict[int, str]:
        """Return level -> text, lowest level first; levels in between may be missing."""
        if (texts := _two_levels(value)) is not None:
            self._words = {word: level for level, word in enumerate(texts, start=1)}
            if "fail" in texts and self._keys.get("direction") == "lower":
                raise self.error("scale", "fail and pass", "direction: higher, or no and yes")
            return dict(enumerate(texts.values(), start=1))
        allowed = "levels 1 to n with texts for 1 and n at least, or {no: ..., yes: ...}"
        levels = value if isinstance(value, dict) and len(value) > 1 else {}
        if "1" not in levels or not all(
            re.fullmatch("[1-9][0-9]?", level) and isinstance(text, str)
            for level, text in levels.items()
        ):
            raise self.error("scale", repr(value), allowed)
        return dict(sorted((int(level), text) for level, text in levels.items()))

    def _examples(self, levels: int, judged: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
        """Return the checked examples, in order."""
        examples = self._keys.get("examples", [])
        if not isinstance(examples, list):
            raise self.error("examples", repr(examples), "a list of judged items")
        numbered = enumerate(examples, start=1)
        return tuple(self._example(*entry, levels, judged) for entry in numbered)

    def _example(
        self, number: int, example: Any, levels: int, judged: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return an example with its level as a number and its turns as records."""

        def error(problem: str, allowed: str, close: str | None = None) -> DataError:
            return self.error("examples", f"number {number}{problem}", allowed, close)

        if not isinstance(example, dict):
            raise error(f" is {example!r}", "a mapping")
        for key, value in example.items():
            if key not in _EXAMPLE_KEYS:
                allowed = ", ".join(_EXAMPLE_KEYS)
                raise error(f" has '{key}'", allowed, nearest(key, _EXAMPLE_KEYS))
            if key in _LISTS and not is_list_of(value, str):
                raise error(f": {key} is {value!r}", "a list of texts")
            # turns are checked by `read_turns` below
            if key not in (*_LISTS, "turns") and not isinstance(value, str):
                raise error(f": {key} is {value!r}", "a text")
        for key in (*judged, "reasoning"):
            if not example.get(key):
                raise error(f" has no '{key}'", f"{key}, which an example shows to the model")
        if "turns" in example:
            # an example is gold, and stays as it is
            turns = read_turns(
                example["turns"],
                lambda p, allowed: error(f": turns: {p}", allowed),
                reasoning="keep",
            )
            example = {**example, "turns": turns}
        level = str(example.get("level", ""))
        level = str(self._words.get(level.casefold(), level))
        if not level.isdecimal() or not 1 <= int(level) <= levels:
            raise error(f" has level {level or 'none'}", f"an integer from 1 to {levels}")
        return {**example, "level": int(level)}


def _all_needs(
    needs: Sequence[str], asks: str, method: str, formula: str | None
) -> tuple[str, ...]:
    """Return the needs of a rubric file, with those that follow from object, method and formula."""
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
