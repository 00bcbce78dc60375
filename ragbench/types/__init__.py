"""Records of all layers: documents, queries, runs, qrels, answers, usages, scores and verdicts.

Names that need NumPy are imported on first use, so that code with plain records does not load it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ragbench.types.conversation import ToolCall as ToolCall
from ragbench.types.conversation import Turn as Turn
from ragbench.types.records import Answered as Answered
from ragbench.types.records import Collection as Collection
from ragbench.types.records import Document as Document
from ragbench.types.records import Prediction as Prediction
from ragbench.types.records import Query as Query
from ragbench.types.records import Retrieved as Retrieved
from ragbench.types.records import ScoredDocument as ScoredDocument
from ragbench.types.records import Usage as Usage
from ragbench.types.score_column import Aggregate as Aggregate
from ragbench.types.score_column import ScoreColumn as ScoreColumn
from ragbench.types.scores import Cause as Cause
from ragbench.types.scores import Direction as Direction
from ragbench.types.scores import JudgedClaim as JudgedClaim
from ragbench.types.scores import Verdict as Verdict
from ragbench.types.spans import Span as Span

if TYPE_CHECKING:
    from ragbench.types.columnar import Qrels as Qrels
    from ragbench.types.columnar import Run as Run
    from ragbench.types.rows import CauseArray as CauseArray
    from ragbench.types.rows import FloatArray as FloatArray
    from ragbench.types.rows import IntArray as IntArray

_LAZY = {
    "CauseArray": "rows",
    "FloatArray": "rows",
    "IntArray": "rows",
    "Qrels": "columnar",
    "Run": "columnar",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
