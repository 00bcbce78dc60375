"""Data sets and the files around them: `dataset: {type: ..., path: ...}`."""

from ragbench.registry import Family

LOADERS = Family(
    "loader",
    "ragbench.loaders",
    table={
        "beir": "ragbench.data.loaders.beir:Beir",
        "huggingface": "ragbench.data.loaders.records:HuggingFace",
        "ir_datasets": "ragbench.data.loaders.ir_datasets:IrDatasets",
        "records": "ragbench.data.loaders.records:Records",
        "traces": "ragbench.data.loaders.traces:Traces",
        "trec": "ragbench.data.loaders.trec:Trec",
        "trec_rag": "ragbench.data.loaders.trec_rag:TrecRag",
    },
)
