"""Records of all layers: documents, queries, runs, qrels, answers, usages, scores and verdicts.

Names that need NumPy are imported on first use, so that code with plain records does not load it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ragbench.types.conversation import ToolCall, Turn
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
from ragbench.types.score_column import Aggregate, ScoreColumn
from ragbench.types.scores import Cause, Direction, JudgedClaim, Score, Verdict
from ragbench.types.spans import Span

if TYPE_CHECKING:
    from ragbench.types.columnar import Qrels, Run
    from ragbench.types.rows import CauseArray, FloatArray, IntArray

_LAZY = {
    "CauseArray": "rows",
    "FloatArray": "rows",
    "IntArray": "rows",
    "Qrels": "columnar",
    "Run": "columnar",
}

__all__ = [
    "Aggregate",
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
    "ScoreColumn",
    "JudgedClaim",
    "ScoredDocument",
    "Span",
    "ToolCall",
    "Turn",
    "Usage",
    "Verdict",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
