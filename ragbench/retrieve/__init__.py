"""Retrievers: `retrievers: {name: {type: ...}}`."""

from ragbench.registry import Family

RETRIEVERS = Family(
    "retriever",
    "ragbench.retrievers",
    table={
        "bm25": "ragbench.retrieve.bm25:BM25",
        "cross_validated": "ragbench.retrieve.cross_validated:CrossValidated",
        "dense": "ragbench.retrieve.dense:Dense",
        "fusion": "ragbench.retrieve.fusion:Fusion",
        "haystack": "ragbench.retrieve.frameworks:HaystackRetriever",
        "http": "ragbench.retrieve.http:HttpRetriever",
        "langchain": "ragbench.retrieve.frameworks:LangchainRetriever",
        "llama_index": "ragbench.retrieve.frameworks:LlamaIndexRetriever",
        "rm3": "ragbench.retrieve.bm25:RM3",
        "run_file": "ragbench.retrieve.run_file:RunFile",
    },
)
