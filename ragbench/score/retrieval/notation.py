"""Reads names of measures: `ndcg(gain=exp)@10`, also as trec_eval and ir_measures spell them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragbench.errors import AdapterError, OptionError
from ragbench.registry import PYTHON, nearest
from ragbench.score.base import Aggregate
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import MeasureSpec, RankedGrades, options_of, spec_of
from ragbench.score.retrieval.spellings import OPTION_SPELLINGS, SPELLINGS, WITH_CUTOFFS
from ragbench.types import Direction, FloatArray

_FORM = re.compile(r"(?P<name>[^()@]+)(?:\((?P<options>[^()]*)\)\s*)?(?:@(?P<k>.*))?")
_TREC_EVAL = re.compile(rf"({'|'.join(WITH_CUTOFFS)})[._](\d+(?:,\d+)*)", re.IGNORECASE)
_NO_ROWS = np.zeros(0, np.int64)
_NO_QUERIES = RankedGrades(
    (), _NO_ROWS, _NO_ROWS, _NO_ROWS, np.zeros(1, np.int64), _NO_ROWS, _NO_ROWS,
    np.zeros(1, np.int64),
)  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """A measure with its options and its cut-off, ready to score."""

    name: str
    """The canonical name, options at their default left out: `ndcg(gain=exp)@10`."""
    written: str
    """The name as the caller wrote it: what tables and keys show."""
    spec: MeasureSpec
    """What the implementation declares."""
    kernel: Callable[..., FloatArray]
    """The function of `RankedGrades`."""
    options: Mapping[str, Any]
    """The options that differ from their default, without the cut-off."""
    k: int | None = None
    """The cut-off; None looks at whole rankings."""

    @property
    def direction(self) -> Direction:
        """Which way is better."""
        return self.spec.direction

    @property
    def aggregate(self) -> Aggregate:
        """How the values of the queries become one number."""
        return self.spec.aggregate

    @property
    def low(self) -> float:
        """The smallest possible value of one query."""
        return self.spec.low

    @property
    def high(self) -> float:
        """The largest possible value of one query; inf where unbounded."""
        return self.spec.high

    def score(self, ranked: RankedGrades) -> FloatArray:
        """Return one value per query; NaN where the measure does not apply."""
        cutoff = {} if self.k is None else {"k": self.k}
        return self.kernel(ranked, **self.options, **cutoff)

    def signature_parts(self, ranked: RankedGrades | None = None) -> dict[str, Any]:
        """Return every option with its value, defaults included.

        Args:
            ranked: Fills in the options that are read off the qrels, such as `max` of `err`.
        """
        declared = options_of(self.kernel)
        parts = {name: option.default for name, option in declared.items() if name != "k"}
        if ranked is not None:
            parts |= {name: read(ranked) for name, read in self.spec.from_qrels.items()}
        return parts | dict(self.options)


def parse_measure(name: object) -> Measure:
    """Read the name of one measure.

    Args:
        name: `ndcg@10`, `precision(rel=2)@5`, `P_5`, `nDCG@10`, or an object of ir_measures.

    Raises:
        OptionError: No such measure, option or cut-off; names what is allowed and the nearest.
        NotBuiltYet: The design has it, this version does not.

    Example:
        >>> parse_measure("nDCG(dcg='exp-log2')@10").name
        'ndcg(gain=exp)@10'
    """
    found = _parse(str(name).strip())
    if len(found) > 1:
        names = ", ".join(measure.written for measure in found)
        raise OptionError("measure", "", str(name), f"one measure; this names {names}")
    return found[0]


def parse_measures(names: object) -> list[Measure]:
    """Read several names, in order; trec_eval's `ndcg_cut.5,10` is two measures.

    Args:
        names: Names as `parse_measure` takes them, or a single one.

    Raises:
        OptionError: No such measure, option or cut-off.
        NotBuiltYet: The design has it, this version does not.

    Example:
        >>> [measure.name for measure in parse_measures(["map", "ndcg_cut.5,10"])]
        ['map', 'ndcg@5', 'ndcg@10']
    """
    if isinstance(names, Measure):
        return [names]
    if isinstance(names, str) or not isinstance(names, Iterable):
        return _parse(str(names).strip())
    return [measure for name in names for measure in parse_measures(name)]


def _parse(written: str) -> list[Measure]:
    if match := _TREC_EVAL.fullmatch(written):
        family, cutoffs = match[1], match[2].split(",")
        names = [written] if len(cutoffs) == 1 else [f"{family}_{k}" for k in cutoffs]
        ours = _spelt(family.casefold())
        return [_measure(name, ours, "", k) for name, k in zip(names, cutoffs, strict=True)]
    match = _FORM.fullmatch(written)
    if match is None or written.isdecimal():
        raise OptionError(
            "measure",
            "",
            written,
            "a name such as ndcg@10 or precision(rel=2)@5; "
            'quote a name with a comma in a YAML flow list: ["ndcg(gain=exp,discount=jk)@10"]',
        )
    name = match["name"].strip()
    return [_measure(written, _spelt(name), match["options"] or "", match["k"])]


def _spelt(name: str) -> str:
    """Return our name for a spelling, with the options that it implies."""
    if name.startswith(PYTHON) or name in MEASURES.table:
        return name
    folded = name.casefold()
    return SPELLINGS.get(folded) or _built_in_names().get(folded) or _other_name(name)


def _other_name(name: str) -> str:
    """Return the name of a measure that is planned or comes from an installed package."""
    return name.casefold() if name.casefold() in MEASURES.planned else name


@functools.cache
def _built_in_names() -> Mapping[str, str]:
    """Every name and alias of the built-in measures -> the name in the table."""
    specs = {name: spec_of(MEASURES.load(name)) for name in MEASURES.table}
    return {alias: name for name, spec in specs.items() if spec for alias in (name, *spec.aliases)}


def _measure(written: str, spelling: str, options: str, k: str | None) -> Measure:
    name, _, implied = spelling.rstrip(")").partition("(")
    kernel = _load(name, written)
    spec = spec_of(kernel)
    if spec is None:
        raise AdapterError(f"'{name}' is not a measure: declare it with @measure")
    given = _options(spec.name, kernel, [*_split(implied), *_split(options)])
    cutoff = _cutoff(spec, k)
    # a measure over no queries costs nothing and checks what the options demand of each other
    kernel(_NO_QUERIES, **given, **({} if cutoff is None else {"k": cutoff}))
    inside = ",".join(f"{option}={value}" for option, value in given.items())
    shown = f"{spec.name}({inside})" if inside else spec.name
    canonical = shown if cutoff is None else f"{shown}@{cutoff}"
    return Measure(canonical, written, spec, kernel, given, cutoff)


def _load(name: str, written: str) -> Callable[..., FloatArray]:
    """Load a measure; the error for an unknown one lists them all, and the nearest spelling."""
    known = name in MEASURES.table or name in MEASURES.planned or name.startswith(PYTHON)
    if not known and name not in MEASURES.names():
        close = nearest(name, [*_built_in_names(), *SPELLINGS, *MEASURES.planned])
        whole = written.replace(name, close, 1) if close else None
        raise OptionError("measure", "", written, ", ".join(_forms()), whole)
    kernel: Callable[..., FloatArray] = MEASURES.load(name)
    return kernel


def _forms() -> list[str]:
    """Every measure as it may be written: `precision@k`, `map`."""
    specs = ((name, spec_of(MEASURES.load(name))) for name in MEASURES.names())
    return [f"{name}@k" if spec and spec.cutoff == "required" else name for name, spec in specs]


def _split(options: str) -> list[str]:
    return [part.strip() for part in options.split(",")] if options.strip() else []


def _options(owner: str, kernel: Callable[..., Any], parts: list[str]) -> dict[str, Any]:
    """Read `gain=exp`, `p=0.5`; those at their default are left out, the others in their order."""
    declared = {name: option for name, option in options_of(kernel).items() if name != "k"}
    allowed = ", ".join(f"{name}={option.allowed}" for name, option in declared.items())
    given: dict[str, Any] = {}
    for part in parts:
        key, equals, text = (piece.strip() for piece in part.partition("="))
        key, text = OPTION_SPELLINGS.get((key, text.strip("'\"")), (key, text.strip("'\"")))
        if not equals or key not in declared:
            wanted = f"options in the form name=value: {allowed}" if allowed else "no options"
            raise OptionError(owner, "options", part, wanted, nearest(key, declared))
        if key in given:
            raise OptionError(owner, key, f"{given[key]} and {text}", "one value")
        given[key] = declared[key].check(owner, _value(text))
    return {
        name: given[name]
        for name, option in declared.items()
        if name in given and given[name] != option.default
    }


def _value(text: str) -> Any:
    """Read an integer, a number, or a word; 2.0 is the integer 2, so that names are unique."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _cutoff(spec: MeasureSpec, k: str | None) -> int | None:
    if k is None:
        if spec.cutoff == "required":
            raise OptionError(spec.name, "k", None, f"a cut-off, as in {spec.name}@10")
        return None
    if spec.cutoff == "none":
        raise OptionError(spec.name, "k", k, f"no cut-off: {spec.name}")
    digits = k.strip()
    if not (digits.isascii() and digits.isdigit() and int(digits) >= 1):
        found: object = int(k) if re.fullmatch(r"-?\d+", k) else k
        raise OptionError(spec.name, "k", found, "an integer >= 1")
    return int(digits)
