"""Data sets and the files around them: `dataset: {type: ..., path: ...}`."""

from ragbench.registry import Family

LOADERS = Family(
    "loader",
    "ragbench.loaders",
    table={
        "beir": "ragbench.data.beir:Beir",
        "records": "ragbench.data.records:Records",
        "trec": "ragbench.data.trec:Trec",
    },
    planned=frozenset({"huggingface", "ir_datasets"}),
)

__all__ = ["LOADERS"]
