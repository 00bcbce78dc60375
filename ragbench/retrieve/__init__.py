"""Retrievers: `retrievers: {name: {type: ...}}`."""

from ragbench.registry import Family

RETRIEVERS = Family(
    "retriever",
    "ragbench.retrievers",
    table={
        "bm25": "ragbench.retrieve.bm25:BM25",
        "fusion": "ragbench.retrieve.fusion:Fusion",
        "rm3": "ragbench.retrieve.rm3:RM3",
        "run_file": "ragbench.retrieve.run_file:RunFile",
    },
    planned=frozenset(
        {
            "dense",
            "haystack",
            "http",
            "langchain",
            "llama_index",
        }
    ),
)

__all__ = ["RETRIEVERS"]
