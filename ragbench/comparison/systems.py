"""A system: one retriever, one retriever with one generator, or what the records came with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragbench.records.summary import Kind, Role
from ragbench.score.base import ScoreColumn
from ragbench.signature import Signature
from ragbench.types import Cause, FloatArray


@dataclass(frozen=True, slots=True)
class SystemScores:
    """The scores of one system over the queries of an experiment."""

    name: str
    """`bm25`, `bm25/extractive`, `given`."""
    retriever: str | None
    """The retriever's name; None for a system that the records came with."""
    generator: str | None
    """The generator's name; None for a retriever alone."""
    columns: Mapping[str, ScoreColumn] = field(default_factory=dict)
    """Score name -> its column, in the order of the config."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """Score name -> what it looks at."""
    counts: Mapping[str, Any] = field(default_factory=dict)
    """How a run was read: missing queries, repeated documents, judged share."""
    role: Role = "system"
    """Whether it is a whole app, or a control: what a generator answers from something else than
    what a retriever found, which no system competes with."""
    costs: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    """`latency_ms`, `tokens.input`, `tokens.output`, `usd` -> of each query; NaN: not known."""


def with_cost_column(system: SystemScores, cost: str) -> SystemScores:
    """Return the system with a cost as its only column; with none where it is not known.

    `latency_ms.p95` is of the times that `latency_ms` has.
    """
    values = system.costs.get(cost, system.costs.get(cost.partition(".")[0]))
    if values is None:
        return replace(system, columns={})
    causes = np.where(np.isnan(values), Cause.NO_ANSWER, Cause.SCORED).astype(np.uint8)
    column = ScoreColumn(cost, values, causes, Signature(cost), "lower", 0.0, math.inf)
    return replace(system, columns={cost: column})


def baseline_of(
    system: SystemScores, systems: Mapping[str, SystemScores], retriever: str | None
) -> SystemScores | None:
    """Return the system that `system` is compared with, or None where it is the baseline itself.

    A retriever is compared with the baseline retriever, a pair with the baseline retriever's
    pair of the same generator, or where the generator does not run on it, with the generator's
    first pair; a control with what it is a control of, which is that pair; an app with the first
    system of the baseline retriever; systems of the records with the one that is named, or the
    first.
    """
    others = [s for s in systems.values() if s.role != "control"]
    if system.role == "app":
        own = [s for s in others if retriever in (s.retriever, s.name)]
        found = [*own, *others][0]
    elif system.retriever is None:
        given = {s.name: s for s in others if s.retriever is None}
        found = given.get(retriever or "", next(iter(given.values())))
    else:
        peers = [s for s in others if s.generator == system.generator and s.retriever]
        if not peers:  # a control of a generator that no retriever has
            return None
        found = next((s for s in peers if s.retriever == retriever), peers[0])
    return None if found is system else found


def baselines(
    systems: Sequence[SystemScores], retriever: str | None
) -> dict[str, dict[str, SystemScores | None]]:
    """Return score -> system that has it -> what it is compared with by this score."""
    names = dict.fromkeys(name for system in systems for name in system.columns)
    having = {name: {s.name: s for s in systems if name in s.columns} for name in names}
    return {
        name: {each.name: baseline_of(each, own, retriever) for each in own.values()}
        for name, own in having.items()
    }
