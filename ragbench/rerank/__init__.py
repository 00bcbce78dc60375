"""Rerankers: an entry of `retrievers:` with `retriever:`, the one whose hits are put in order."""

from ragbench.registry import Family

RERANKERS = Family(
    "reranker",
    "ragbench.rerankers",
    table={
        "cross_encoder": "ragbench.rerank.cross_encoder:CrossEncoder",
        "http": "ragbench.rerank.http:HttpReranker",
        "mmr": "ragbench.rerank.mmr:MMR",
    },
)
