"""Retrievers: `retrievers: {name: {type: ...}}`."""

from ragbench.registry import Family

RETRIEVERS = Family(
    "retriever",
    "ragbench.retrievers",
    table={
        "bm25": "ragbench.retrieve.bm25:BM25",
        "haystack": "ragbench.retrieve.haystack:HaystackRetriever",
        "http": "ragbench.retrieve.http:HttpRetriever",
        "langchain": "ragbench.retrieve.langchain:LangchainRetriever",
        "llama_index": "ragbench.retrieve.llama_index:LlamaIndexRetriever",
        "run_file": "ragbench.retrieve.run_file:RunFile",
    },
    planned=frozenset({"dense", "fusion", "rm3"}),
)

__all__ = ["RETRIEVERS"]
