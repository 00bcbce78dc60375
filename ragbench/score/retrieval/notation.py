"""Parser of measure names: `ndcg(gain=exp)@10`, and the spellings of trec_eval and ir_measures."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ragbench.errors import AdapterError, OptionError, RagbenchError
from ragbench.records.causes import FOUND_SPELLINGS
from ragbench.registry import PYTHON, declared_options, nearest
from ragbench.score.base import read_options, read_value, split_options
from ragbench.score.retrieval import MEASURES, base
from ragbench.score.retrieval.found import MetGold
from ragbench.score.retrieval.leak import ForbiddenRanks
from ragbench.score.retrieval.ranking import rank
from ragbench.score.retrieval.trec_eval import CUT_ONLY, expand
from ragbench.score.retrieval.trec_eval_parameters import read_parameters
from ragbench.types import FloatArray

# Spelling, in lower case -> our name, with the options that it implies.
SPELLINGS = {
    "ndcg_exp": "ndcg(gain=exp)",
    "ndcg_jk": "ndcg(discount=jk)",
    "dcg_exp": "dcg(gain=exp)",
    "dcg_jk": "dcg(discount=jk)",
    **FOUND_SPELLINGS,
    # trec_eval
    "recip_rank": "mrr",
    "gm_map": "gmap",
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    # ir_measures
    "p": "precision",
    "r": "recall",
    "rr": "mrr",
    "ap": "map",
    "numq": "num_q",
    "numret": "num_ret",
    "numrel": "num_rel",
    "numrelret": "num_rel_ret",
    "setp": "set_p",
    "setrelp": "set_relative_p",
    "setr": "set_recall",
    "setf": "set_f",
    "setap": "set_map",
    "strecall": "subtopic_recall",
}

# Spellings of ir_measures with another meaning if they have options: `NumRet(rel=1)`.
WITH_OPTIONS = {"numret": "num_rel_ret", "err": "err"}

# Spellings in exactly these letters: ir_measures takes ERR from gdeval, whose scale ends at 4.
EXACT_SPELLINGS = {"ERR": "err(max=4)"}

# Option and value of ir_measures -> ours.
OPTION_SPELLINGS = {("dcg", "log2"): ("gain", "linear"), ("dcg", "exp-log2"): ("gain", "exp")}

# ir_measures rounds recall levels as trec_eval 9 does, whatever the rest of a run uses.
_INTERPOLATED = "iprec_at_recall@0.1, which has the values of ir_measures with trec_eval: 9"

# Objects of ir_measures whose name is another measure of ours -> advice.
FALSE_FRIENDS = {"Accuracy": "a measure that ragbench has; its accuracy@k is hit_rate@k"}

_OPTIONS = r"\((?P<{}>[^()]*)\)\s*"
_FORM = re.compile(
    rf"(?P<name>[^()@]+)(?:{_OPTIONS.format('options')})?"
    rf"(?:@(?P<k>[^()]*)(?:{_OPTIONS.format('behind')})?)?"
)
_NO_QUERIES: Mapping[base.Reads, Any] = {
    "grades": rank({}, {}),
    "subtopics": (),
    "passages": base.RetrievedPassages((), ()),
    "spans": base.RetrievedSpans((), ()),
    "gold": MetGold.of_no_queries(),
    "forbidden": ForbiddenRanks.of_no_queries(),
}


@dataclass(frozen=True)
class Measure:
    """A measure with its options and its cut-off, ready to score.

    `parse_measure` makes it. `score` takes a record of the kind that `spec.reads` names and returns
    a value per query. It raises OptionError for averaged ties that the measure does not support,
    and AdapterError if code of the user fails.

    Attributes:
        name: The canonical name, options at their default left out: `ndcg(gain=exp)@10`.
        label: Name as the caller wrote it, for tables and keys.
        spec: Properties that the implementation declares.
        kernel: The function of the record that `spec.reads` names.
        options: The options that differ from their default, without the cut-off; a value after `@`
            that is no rank, such as a recall, is one of them.
        k: The cut-off; None looks at whole rankings.
    """

    name: str
    label: str
    spec: base.MeasureSpec
    kernel: Callable[..., FloatArray]
    options: Mapping[str, Any]
    k: int | None = None

    @property
    def is_built_in(self) -> bool:
        """True for a measure of ragbench, False for one of a user or of another package."""
        return self.kernel.__module__.startswith("ragbench.")

    def check(self) -> None:
        """Check that the options fit together, by scoring an empty record.

        Raises:
            OptionError: They do not, such as a base without effect.
        """
        self.score(_NO_QUERIES[self.spec.reads])

    def score(self, record: Any) -> FloatArray:
        """Return the score of each query of a record; NaN if the measure does not apply.

        `record` is of the kind that `spec.reads` names. The result has the shape (n,). Raises
        OptionError for averaged ties that it does not support, AdapterError if code of the user
        fails.
        """
        cutoff = {} if self.k is None else {"k": self.k}
        try:
            return self.kernel(record, **self.options, **cutoff)
        except Exception as error:  # code of the user's may raise anything
            if isinstance(error, RagbenchError) or self.is_built_in:
                raise
            reason = f"{type(error).__name__}: {error}"
            raise AdapterError(f"measure '{self.label}': {reason}") from error

    def signature_parts(self, ranked: base.RankedGrades | None = None) -> dict[str, Any]:
        """Return option -> value, defaults included, for signatures.

        `ranked` gives the defaults that depend on the qrels, such as `max` of `err`. The cut-off is
        left out. Code of the user without a version adds its hash as `code`.
        """
        declared = declared_options(self.kernel)
        parts = {}
        for name, option in declared.items():
            if name != "k":
                parts[name] = option.default
        parts |= {"code": self.spec.code} if self.spec.code else {}
        if ranked is not None:
            parts |= {name: read(ranked) for name, read in self.spec.from_qrels.items()}
        return parts | dict(self.options)


def parse_measure(name: object) -> Measure:
    """Return the measure of one name.

    Names are `ndcg@10`, `precision(rel=2)@5`, `P_5`, `nDCG@10`, or objects of ir_measures. Options
    may also follow the cut-off: `precision@5(rel=2)`. White space around is ignored; code of
    `python:module:name` is imported.

    Raises:
        OptionError: An unknown measure, option or cut-off, or a name of several measures; or a
            plug-in or code of the user is no measure.
        DataError: The code of `python:module:name` cannot be imported.

    Example:
        >>> parse_measure("nDCG(dcg='exp-log2')@10").name
        'ndcg(gain=exp)@10'
    """
    measures = _parse(_text(name))
    if len(measures) > 1:
        names = ", ".join(measure.label for measure in measures)
        raise OptionError("measure", "", str(name), f"one measure; this names {names}")
    return measures[0]


def parse_measures(
    names: object,
    *,
    trec_eval_defaults: bool = False,
    trec_eval: int = 10,
    implied: Mapping[str, Any] | None = None,
) -> list[Measure]:
    """Return the measures of several names, in order; `ndcg_cut.5,10` gives two.

    Args:
        names: Names as `parse_measure` takes them, `Measure` objects, or a single one.
        trec_eval_defaults: Let a bare `P`, `recall`, `Rprec_mult` and so on stand for trec_eval's
            cut-offs, and `official`, `set` and `all_trec` for its sets. A family that is asked for
            with parameters has these alone.
        trec_eval: Version of trec_eval that has these sets, 9 or 10.
        implied: Option -> value for the measures that have it and whose name does not set it; None
            for none. A wrong value is an OptionError too.

    Returns:
        Measures in the order of the names, repeated ones too; no names give an empty list.

    Raises:
        OptionError: An unknown measure, option or cut-off, or a plug-in or code of the user is no
            measure.
        DataError: The code of `python:module:name` cannot be imported.

    Example:
        >>> [measure.name for measure in parse_measures(["map", "ndcg_cut.5,10"])]
        ['map', 'ndcg@5', 'ndcg@10']
        >>> [measure.name for measure in parse_measures("success", trec_eval_defaults=True)]
        ['hit_rate@1', 'hit_rate@5', 'hit_rate@10']
        >>> [measure.name for measure in parse_measures(["map", "ndcg"], implied={"rel": 2})]
        ['map(rel=2)', 'ndcg']
    """
    if isinstance(names, (Measure, str)) or not isinstance(names, Iterable):
        names = [names]
    measures: list[Measure] = []
    entries: list[str | Measure] = []
    families = set()
    for name in names:
        entry = name if isinstance(name, Measure) else _text(name)
        entries.append(entry)
        if isinstance(entry, str):
            for part in read_parameters(entry):
                families.add(part.family)
    for name in entries:
        if isinstance(name, Measure):
            measures.append(name)
            continue
        words = expand(name, replaced=families, trec_eval=trec_eval)
        # without trec_eval's defaults a bare name is the measure over whole rankings
        for word in words if trec_eval_defaults else (name,):
            measures += _parse(word, implied or {})
    return measures


# Measure that needs a cut-off -> the measure of the whole ranking.
_WHOLE = {
    "recall": "set_recall",
    "precision": "set_p",
    "f1": "set_f",
    "relative_p": "set_relative_p",
}


def measures_of_ids(names: Iterable[str]) -> list[Measure]:
    """Return the measures, of some names, that read the ids of hits."""
    return [measure for measure in parse_measures(names) if measure.spec.reads_ids]


def _text(name: object) -> str:
    """Return the name of a measure as text, also of an object of ir_measures."""
    theirs = str(getattr(name, "NAME", ""))
    if theirs in FALSE_FRIENDS:
        raise OptionError("measure", "", str(name), FALSE_FRIENDS[theirs])
    return str(name).strip()


def _parse(text: str, implied: Mapping[str, Any] = MappingProxyType({})) -> list[Measure]:
    """Return the measures that a name stands for; a family gives several."""
    if parts := read_parameters(text):
        measures = []
        for part in parts:
            name = _spelt(part.family.casefold())
            measures.append(_measure(part.printed, name, part.options, part.k, implied))
        return measures
    match = _FORM.fullmatch(text)
    if match is None or text.isdecimal():
        allowed = "a name such as ndcg@10 or precision(rel=2)@5"
        if text.count("(") != text.count(")"):  # YAML cuts names in a list at a comma
            allowed += "; a parenthesis is missing: in a YAML list, quote a name with a comma"
        raise OptionError("measure", "", text, allowed)
    name, k = match["name"].strip(), match["k"]
    options = ",".join(filter(None, [match["options"], match["behind"]]))
    if options.strip().isdecimal():  # ndcg(10)
        raise OptionError("measure", "", text, "a cut-off behind @", nearest_measure(text))
    uncut = CUT_ONLY.get(name.casefold())
    if uncut and k is None:
        raise OptionError(name, "k", None, f"a cut-off, as in {name}_10; uncut it is {uncut}")
    if name == "IPrec":
        raise OptionError("measure", "", text, _INTERPOLATED)
    # NumRet(rel=1) of ir_measures counts relevant documents, NumRet all
    ours = (WITH_OPTIONS.get(name.casefold()) if options else None) or _spelt(name)
    if k == "all":  # over the whole ranking: a measure that needs a cut-off has a sister without
        ours, k = _WHOLE.get(ours, ours), None
    return [_measure(text, ours, options, k, implied)]


def _spelt(name: str) -> str:
    """Return our name for a spelling, with implied options; unknown names are unchanged."""
    if name.startswith(PYTHON) or name in MEASURES.table:
        return name
    folded = name.casefold()
    return (
        EXACT_SPELLINGS.get(name) or SPELLINGS.get(folded) or _built_in_names().get(folded) or name
    )


# Canonical names of built-in measures whose options fit together.
_FITTING: set[str] = set()


@functools.cache
def _built_in_names() -> Mapping[str, str]:
    """Return name or alias -> canonical name of the built-in measures."""
    names: dict[str, str] = {}
    for name in MEASURES.table:
        spec = base.spec_of(MEASURES.load(name))
        if spec:
            names.update(dict.fromkeys((name, *spec.aliases), name))
    return names


def _measure(
    text: str, spelling: str, options: str, k: str | None, implied: Mapping[str, Any]
) -> Measure:
    """Return the measure of a name that is split into its parts."""
    name, _, spelt = spelling.rstrip(")").partition("(")
    kernel = _load(name, text)
    parts = (*split_options(spelt), *split_options(options))
    if name not in MEASURES.table:  # code of the user's is not called before a run
        return _create_measure(text, name, kernel, parts, k, implied)
    if implied:
        return _fitting(_create_measure(text, name, kernel, parts, k, implied))
    return _built_in_measure(text, name, kernel, parts, k)


@functools.lru_cache(maxsize=1024)  # each stage parses the same few
def _built_in_measure(
    text: str, name: str, kernel: Callable[..., FloatArray], parts: tuple[str, ...], k: str | None
) -> Measure:
    return _fitting(_create_measure(text, name, kernel, parts, k, {}))


def _fitting(measure: Measure) -> Measure:
    """Return a built-in measure; check that its options fit together, once for each name."""
    if measure.name not in _FITTING:
        measure.check()
        _FITTING.add(measure.name)
    return measure


def _create_measure(
    text: str,
    name: str,
    kernel: Callable[..., FloatArray],
    parts: Sequence[str],
    k: str | None,
    implied: Mapping[str, Any],
) -> Measure:
    """Create a measure from its kernel, its options as texts and its cut-off."""
    if (spec := base.spec_of(kernel)) is None:
        kernel = base.plain_measure(name, kernel)
        spec = kernel.__dict__["measure_spec"]
    declared = declared_options(kernel)
    declared.pop(spec.at, None)
    # those at their default are left out, the others come in their order
    values = read_options(spec.name, parts, declared, _respell, implied)
    inside = ",".join(f"{option}={value}" for option, value in values.items())
    canonical = f"{spec.name}({inside})" if inside else spec.name
    cutoff = _cutoff(spec, kernel, k)
    if cutoff is not None:
        canonical += f"@{cutoff}"
    if cutoff is not None and spec.at != "k":
        values, cutoff = values | {spec.at: cutoff}, None
    return Measure(canonical, text, spec, kernel, values, cutoff)


def _load(name: str, text: str) -> Callable[..., FloatArray]:
    """Return the function of the measure with a canonical or `python:` name."""
    registered = name in MEASURES.table or name.startswith(PYTHON)
    if not registered and name not in MEASURES.names():
        forms = []
        for entry in MEASURES.names():
            spec = base.spec_of(MEASURES.load(entry))
            forms.append(f"{entry}@{spec.at}" if spec and spec.cutoff == "required" else entry)
        raise OptionError("measure", "", text, ", ".join(forms), nearest_measure(text))
    kernel: Callable[..., FloatArray] = MEASURES.load(name)
    return kernel


# Short names of measures that are no alias of ours -> ours, for suggestions.
_NICKNAMES = {"hit": "hit_rate", "hits": "hit_rate", "prec": "precision", "rec": "recall"}

# Number words, as in `map@ten`.
_NUMBERS = {"one": "1", "three": "3", "five": "5", "ten": "10", "twenty": "20", "hundred": "100"}

# What ends a misspelt name: a number, behind the signs that join it to the name.
_LAST_NUMBER = re.compile(rf"(.*?(?<![\d.]))(\d+|{'|'.join(_NUMBERS)})", re.IGNORECASE)
_JOINT = " \t\n_-"


def nearest_measure(text: str) -> str | None:
    """Return the name that a misspelt measure means, as `parse_measure` reads it; None without one.

    A cut-off is understood in any usual writing. A measure that needs a cut-off gets 10.

    Example:
        >>> [nearest_measure(text) for text in ("ndcg10", "recall_at_5", "P5", "ndgc@10", "recal")]
        ['ndcg@10', 'recall@5', 'precision@5', 'ndcg@10', 'recall@10']
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        return None
    name, options = match["name"].strip(), match["options"] or match["behind"] or ""
    if options.strip().isdecimal():  # ndcg(10)
        splits, options = [(name, options.strip())], ""
    else:
        splits = [(name, match["k"])] if match["k"] is not None else _split_numbers(name)
    for part, k in splits:
        ours = _known_measure(part)
        if ours is not None:
            return _readable(ours, options, k)
    part, k = splits[-1]
    near = nearest(part, [*_built_in_names(), *SPELLINGS])
    return None if near is None else _readable(_spelt(near), options, k)


def _split_numbers(name: str) -> list[tuple[str, str | None]]:
    """Return the pairs of name and cut-off that a name may be: f15 is f15, f1 and 5, f and 15."""
    splits: list[tuple[str, str | None]] = [(name, None)]
    match = _LAST_NUMBER.fullmatch(name)
    if match is None:
        return splits
    head, number = match.groups()
    if not number.isdigit():
        return [*splits, (_without_joint(head), number)]
    for digits in range(len(number) - 1, -1, -1):
        splits.append((_without_joint(head + number[:digits]), number[digits:]))
    return splits


def _without_joint(name: str) -> str:
    """Return a name without the signs, and the word `at`, `cut` or `top`, that end it."""
    name = name.rstrip(_JOINT)
    for word in ("at", "cut", "top"):
        if name.casefold().endswith(word):
            return name[: -len(word)].rstrip(_JOINT)
    return name


def _known_measure(name: str) -> str | None:
    """Return our name, with implied options, for a spelling of a built-in measure, or None."""
    ours = _NICKNAMES.get(name.casefold()) or _spelt(name)
    return ours if ours.partition("(")[0] in MEASURES.table else None


def _readable(ours: str, options: str, k: str | None) -> str:
    """Return the full name of a measure with a cut-off that it takes, and its options if right."""
    name, _, implied = ours.rstrip(")").partition("(")
    spec = base.spec_of(MEASURES.load(name))
    ranks = None if k is None else _ranks(k)
    if spec is None or spec.cutoff == "none":
        ranks = None
    elif spec.cutoff == "required" and (ranks is None or spec.at != "k"):
        ranks = "10" if spec.at == "k" else "0.5"
    cutoff = f"@{ranks}" if ranks else ""
    inside = ",".join(filter(None, [implied, options]))
    try:
        return parse_measure(f"{name}({inside}){cutoff}" if inside else name + cutoff).name
    except OptionError:  # an option is wrong, too
        return name + cutoff


def _ranks(k: str) -> str | None:
    """Return the cut-off that a text means, such as ten, 10.0 or 10x; 10 for none and for k."""
    text = k.strip().casefold()
    if text in ("", "k", "n"):
        return "10"
    match = re.fullmatch(r"[^\d.-]*0*([1-9]\d*)(?:\.0*)?[^\d.]*", text)
    return match[1] if match else _NUMBERS.get(text)


def _respell(key: str, text: str) -> tuple[str, str]:
    bare = text.strip("'\"")
    bare = bare.replace(" ", "") if bare.startswith("{") else bare
    return OPTION_SPELLINGS.get((key, bare), (key, bare))


def _cutoff(spec: base.MeasureSpec, kernel: Callable[..., Any], k: str | None) -> Any:
    """Return the value after `@`, usually a number of ranks; None without `@`."""
    if k is None:
        if spec.cutoff == "required":
            example = f"{spec.name}@{'10' if spec.at == 'k' else '0.5'}"
            raise OptionError(spec.name, spec.at, None, f"a cut-off, as in {example}")
        return None
    if spec.cutoff == "none":
        raise OptionError(spec.name, "k", k, f"no cut-off: {spec.name}")
    digits = k.strip()
    if spec.at != "k":
        return read_value(spec.name, declared_options(kernel)[spec.at], digits)
    if not (digits.isascii() and digits.isdigit() and int(digits) >= 1):
        value: object = int(k) if re.fullmatch(r"-?\d+", k) else k
        ranks = _ranks(k)
        near = f"{spec.name}@{ranks}" if ranks else None
        raise OptionError(spec.name, "k", value, "an integer >= 1", near)
    return int(digits)
