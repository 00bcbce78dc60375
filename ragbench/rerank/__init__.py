"""Rerankers: an entry of `retrievers:` whose key `retriever:` names the source of the hits."""

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
