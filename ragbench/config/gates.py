"""The `gates` list: what of each entry goes together, and whether what it names is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.config.gate_block import COSTS, Gate
from ragbench.config.known_scores import KnownScore, KnownScores
from ragbench.config.options import check_block
from ragbench.config.problems import some_of
from ragbench.config.references import Context, resolve_path
from ragbench.config.schema import Component
from ragbench.config.tree import Item
from ragbench.config.yaml_reader import UNREADABLE
from ragbench.registry import nearest

_SUBJECTS = ("measure", "failed", "certificate")
_CONDITIONS = ("min", "max", "max_drop", "max_queries_worse")
_ALWAYS = {"system", "undecided"}
_MEANS_SOMETHING = {
    "min": {"measure", "min", "decide"},
    "max": {"measure", "max", "decide"},
    "max_drop": {"measure", "max_drop", "against", "decide"},
    "max_queries_worse": {"measure", "max_queries_worse", "by", "against"},
}
_COST_CONDITIONS = {
    "max": {"measure", "max"},
    "max_increase": {"measure", "max_increase", "against"},
}
_FAILED_KEYS = {"failed", "max"}
_CERTIFICATE_KEYS = {"certificate", "rubric", "min_kappa", "decide"}


@dataclass(frozen=True, slots=True)
class GateContext:
    """What gates may refer to."""

    context: Context
    scores: KnownScores
    pairs: Sequence[str]
    """The names of all pairs of a retriever and a generator."""
    apps: Sequence[str]
    """The names of what retrieves and answers in one, and has scores of both kinds."""
    may_have_others: bool
    """Whether the data set may bring systems of its own, whose names it alone knows."""

    @property
    def systems(self) -> list[str]:
        """Every system that is known before the data are read."""
        return [*self.context.retrievers, *self.pairs, *self.apps]

    def having(self, score: KnownScore | None) -> list[str]:
        """Return the systems that may have a score; all of them for what is no score."""
        if score is None:
            return self.systems
        of_rankings = score.kind == "retrieval"
        return [*(self.context.retrievers if of_rankings else self.pairs), *self.apps]


def pairs_of(retrievers: Sequence[str], generators: Mapping[str, Component | None]) -> list[str]:
    """Return the names of all pairs; a generator that is not known better goes with everyone."""
    return [
        f"{retriever}/{name}"
        for retriever in retrievers
        for name, generator in generators.items()
        if generator is None or generator.retrievers is None or retriever in generator.retrievers
    ]


def check_gates(item: Item, known: GateContext) -> tuple[tuple[Gate, ...], list[Any]]:
    """Check every gate; what is wrong goes into the report.

    Returns:
        The gates without a problem, and all of them as plain data.
    """
    report = known.context.report
    if not isinstance(item.value, tuple):
        if item.value is not UNREADABLE:
            found = f"{item.shown()} is not a list"
            report.add(item.place, item.path, found, "a list: - {measure: ndcg@10, min: 0.4}")
        return (), []
    gates, written = [], []
    for entry in item.items:
        before = len(report)
        values, _ = check_block(entry, Gate, report)
        written.append(entry.as_written())
        # whatever is wrong with a single value is said; what depends on it is not guessed at
        if len(report) == before:
            gate = _Check(entry, Gate(**values, place=entry.place), known).checked()
            if gate.system is not None:
                written[-1]["system"] = gate.system
            if len(report) == before:
                gates.append(gate)
    return tuple(gates), written


class _Check:
    """The checks of one gate whose values are right, each taken alone."""

    def __init__(self, item: Item, gate: Gate, known: GateContext) -> None:
        self.item, self.gate, self.known = item, gate, known
        self.report, self.base = known.context.report, known.context.base
        self.file: Path | None = None
        self.systems: list[str] | None = None

    def checked(self) -> Gate:
        subjects = [key for key in _SUBJECTS if self._given(key)]
        if len(subjects) != 1:
            both = f"{' and '.join(subjects)} are both given" if subjects else "it names no subject"
            self.report.add(self.item.place, self.item.path, both, f"one of {', '.join(_SUBJECTS)}")
            return self.gate
        check = {
            "measure": self._measure, "failed": self._failed, "certificate": self._certificate
        }[subjects[0]]  # fmt: skip
        check()
        values = {key: getattr(self.gate, key) for key in Gate.__slots__}
        return Gate(**{**values, "file": self.file, "system": self.systems})

    def _measure(self) -> None:
        if self.gate.measure in COSTS:
            self._cost()
            return
        condition = self._one_of(_CONDITIONS)
        if condition is None:
            return
        self._only(_MEANS_SOMETHING[condition], f"it means nothing with {condition}")
        score = self._score("measure")
        if score is not None:
            self._check_condition(condition, score)
        self._check_systems(score)
        if condition in ("max_drop", "max_queries_worse"):
            self._check_against()

    def _cost(self) -> None:
        condition = self._one_of(tuple(_COST_CONDITIONS))
        if condition is not None:
            keys = _COST_CONDITIONS[condition]
            self._only(keys, f"it means nothing with {condition} of {self.gate.measure}")
        self._check_systems(None)
        if condition == "max_increase":
            self._check_against()

    def _one_of(self, conditions: Sequence[str]) -> str | None:
        """The one condition of those that go with the subject; None, with a problem."""
        given = [key for key in conditions if self._given(key)]
        if len(given) == 1:
            return given[0]
        found = f"{' and '.join(given)} in one gate" if given else "no condition"
        allowed = f"one of {', '.join(conditions)}"
        self.report.add(self.item.place, self.item.path, found, allowed)
        return None

    def _check_condition(self, condition: str, score: KnownScore) -> None:
        width = score.high - score.low
        if condition in ("min", "max"):
            wanted = "min" if score.direction == "higher" else "max"
            if condition != wanted:
                found = f"{score.direction} {score.name} is better"
                self._wrong(condition, found, f"{wanted}: a number")
            elif score.aggregate != "sum":
                value = getattr(self.gate, condition)
                if not score.low <= value <= score.high:
                    self._out_of_range(condition, score.low, score.high)
        elif score.aggregate == "sum":
            found = f"{score.name} is a sum over the queries, which is not compared"
            self._wrong(condition, found, "min or max")
        else:
            key = "max_drop" if condition == "max_drop" else "by"
            if (getattr(self.gate, key) or 0) > width:
                self._out_of_range(key, 0, width)

    def _failed(self) -> None:
        self._only(_FAILED_KEYS, "it means nothing with failed")
        self._require(("max",))
        if self.gate.max is not None and not 0 <= self.gate.max <= 1:
            self._out_of_range("max", 0, 1)
        self._check_systems(self._score("failed"))

    def _certificate(self) -> None:
        self._only(_CERTIFICATE_KEYS, "it means nothing with certificate")
        if (system := self.item.get("system")) is not None:
            place = self.item.entries["system"].key_place
            self.report.add(place, system.path, "a certificate is of a judge, not of a system")
        self._require(("rubric", "min_kappa"))
        path = self.item.get("certificate")
        self.file = None if path is None else resolve_path(path, self.base, self.report)

    def _score(self, key: str) -> KnownScore | None:
        item = self.item.get(key)
        name = str(getattr(self.gate, key))
        found = self.known.scores.find(name)
        if found is None and item is not None:
            names = [*self.known.scores.named, *(COSTS if key == "measure" else ())]
            allowed = some_of(names) if names else "a measure, metric or rubric"
            text = f"{item.shown()} is not scored"
            self.report.add(item.place, item.path, text, allowed, nearest(name, names))
        return found

    def _check_systems(self, score: KnownScore | None) -> None:
        """Every named system is there and has the score; a sweep is all that it stands for."""
        item, members = self.item.get("system"), self.known.context.members
        if item is None or item.value is None:
            return
        if item.value == ():
            self._wrong("system", "an empty list names no system", some_of(self.known.systems))
            return
        parts = item.items or (item,)
        names = [str(part.value) for part in parts]
        self.systems = [each for name in names for each in members.get(name, (name,))]
        if self.known.may_have_others:
            return
        fitting = self.known.having(score)
        for part in parts:
            if part.value in fitting or (
                part.value in members and members[str(part.value)][0] in fitting
            ):
                continue
            found = f"no system {part.shown()}"
            if score is not None and part.value in self.known.systems:
                found = f"{part.shown()} has no {score.name}"
            allowed = some_of(fitting) or "a retriever, or a pair retriever/generator"
            close = nearest(str(part.value), fitting)
            self.report.add(part.place, part.path, found, allowed, close)

    def _check_against(self) -> None:
        item = self.item.get("against")
        if item is None or item.value is None:
            return
        if item.value in self.known.systems:
            if self.gate.systems == (item.value,):
                self._wrong("against", f"{item.shown()} against itself", "another system")
            return
        path = self.base / str(item.value)
        if self.known.may_have_others and not path.exists() and not path.suffix:
            return  # a system of the records, known when they are read
        close = nearest(str(item.value), self.known.systems)
        if close is not None and not path.exists() and not path.suffix:
            text = f"no system or file {item.shown()}"
            self.report.add(item.place, item.path, text, some_of(self.known.systems), close)
            return
        self.file = resolve_path(item, self.base, self.report)

    def _given(self, key: str) -> bool:
        return getattr(self.gate, key) is not None

    def _only(self, keys: set[str], found: str) -> None:
        for key, entry in self.item.entries.items():
            if key not in keys | _ALWAYS and getattr(self.gate, key) is not None:
                allowed = ", ".join(sorted(keys | _ALWAYS))
                self.report.add(entry.key_place, entry.item.path, found, allowed)

    def _require(self, keys: Sequence[str]) -> None:
        for key in keys:
            if not self._given(key):
                self.report.add(self.item.place, self.item.path, f"missing key '{key}'")

    def _out_of_range(self, key: str, low: float, high: float) -> None:
        item = self.item.get(key)
        shown = item.shown() if item is not None else key
        self._wrong(key, f"{shown} is out of range", f"a number from {low:g} to {high:g}")

    def _wrong(self, key: str, found: str, allowed: str) -> None:
        item = self.item.get(key)
        if item is not None:
            self.report.add(item.place, item.path, found, allowed)
