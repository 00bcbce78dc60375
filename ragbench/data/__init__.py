"""Data sets and the files around them: `dataset: {type: ..., path: ...}`."""

from ragbench.registry import Family

LOADERS = Family(
    "loader",
    "ragbench.loaders",
    table={
        "beir": "ragbench.data.beir:Beir",
        "huggingface": "ragbench.data.huggingface:HuggingFace",
        "ir_datasets": "ragbench.data.ir_datasets:IrDatasets",
        "records": "ragbench.data.records:Records",
        "trec": "ragbench.data.trec:Trec",
    },
)

__all__ = ["LOADERS"]
