"""Executors, which run metrics, models and searches in workers: `executor: {type: local}`."""

from ragbench.registry import Family

EXECUTORS = Family(
    "executor",
    "ragbench.executors",
    table={
        "local": "ragbench.executors.local:Local",
        "ray": "ragbench.executors.ray:Ray",
    },
)
