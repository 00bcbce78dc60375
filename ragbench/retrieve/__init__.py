"""Retrievers: `retrievers: {name: {type: ...}}`."""

from ragbench.registry import Family

RETRIEVERS = Family(
    "retriever",
    "ragbench.retrievers",
    table={
        "bm25": "ragbench.retrieve.bm25:BM25",
        "run_file": "ragbench.retrieve.run_file:RunFile",
    },
    planned=frozenset(
        {
            "dense",
            "fusion",
            "haystack",
            "http",
            "langchain",
            "llama_index",
            "rm3",
        }
    ),
)

__all__ = ["RETRIEVERS"]
