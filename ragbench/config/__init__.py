"""The YAML file: read with positions, validated as a whole before anything runs.

Nothing is loaded until a name is asked for, so that whoever only needs the type pays nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragbench.config.assemble import load_config
    from ragbench.config.dump import dump_config
    from ragbench.config.gate_block import Gate
    from ragbench.config.json_schema import config_schema
    from ragbench.config.schema import Component, Executor, ExperimentConfig, JudgeBlock, Metrics
    from ragbench.config.scoring_blocks import Match, RetrievalMetrics, Statistics

_HOMES = {
    "assemble": ("load_config",),
    "dump": ("dump_config",),
    "gate_block": ("Gate",),
    "json_schema": ("config_schema",),
    "schema": (
        "Component",
        "Executor",
        "ExperimentConfig",
        "JudgeBlock",
        "Metrics",
    ),
    "scoring_blocks": ("Match", "RetrievalMetrics", "Statistics"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Component",
    "Executor",
    "ExperimentConfig",
    "Gate",
    "JudgeBlock",
    "Match",
    "Metrics",
    "RetrievalMetrics",
    "Statistics",
    "config_schema",
    "dump_config",
    "load_config",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
