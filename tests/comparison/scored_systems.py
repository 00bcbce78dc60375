"""Scored systems made of numbers, for the tests of what is compared with what."""

import numpy as np

from ragbench.data.runs.scored_systems import ScoredSystems, SystemScores
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn

NAN = float("nan")


def column(values, measure="mrr", causes=None, signature=None, **facts):
    values = np.asarray(values, dtype=float)
    if causes is None:
        causes = np.where(np.isnan(values), Cause.NO_RELEVANT, Cause.SCORED)
    signature = Signature.of(measure, **{"qrels": "1a", "v": 1, **(signature or {})})
    return ScoreColumn(measure, values, np.asarray(causes, np.uint8), signature, **facts)


def system(name, *columns, kind="retrieval"):
    retriever, _, generator = name.partition("/")
    by_name = {score_column.name: score_column for score_column in columns}
    return SystemScores(name, retriever, generator or None, by_name, dict.fromkeys(by_name, kind))


def source(where, *systems, ids=None, **facts):
    n = len(next(iter(systems[0].columns.values())).values)
    ids = ids or [f"q{i}" for i in range(n)]
    return ScoredSystems(
        where, {scored_system.name: scored_system for scored_system in systems}, ids, **facts
    )
