"""Where what computes is computed: `executor: {type: local, workers: 4}`."""

from ragbench.registry import Family

EXECUTORS = Family(
    "executor",
    "ragbench.executors",
    table={
        "local": "ragbench.executors.local:Local",
        "ray": "ragbench.executors.ray:Ray",
    },
)
