"""The records that everything else speaks in: documents, queries, runs, predictions, scores.

Loaded lazily, so that code which needs a plain record does not load NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragbench.types.columnar import Qrels, Run
    from ragbench.types.records import (
        Answered,
        Collection,
        Document,
        Prediction,
        Query,
        Retrieved,
        ScoredDocument,
        Usage,
    )
    from ragbench.types.rows import CauseArray, FloatArray, IntArray
    from ragbench.types.scores import Cause, Direction, Score, Verdict

_HOMES = {
    "columnar": ("Qrels", "Run"),
    "records": (
        "Answered",
        "Collection",
        "Document",
        "Prediction",
        "Query",
        "Retrieved",
        "ScoredDocument",
        "Usage",
    ),
    "rows": ("CauseArray", "FloatArray", "IntArray"),
    "scores": ("Cause", "Direction", "Score", "Verdict"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answered",
    "Cause",
    "CauseArray",
    "Collection",
    "Direction",
    "Document",
    "FloatArray",
    "IntArray",
    "Prediction",
    "Qrels",
    "Query",
    "Retrieved",
    "Run",
    "Score",
    "ScoredDocument",
    "Usage",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
