"""Rerankers: an entry of `retrievers:` with `retriever:`, the one whose hits are put in order."""

from ragbench.registry import Family

RERANKERS = Family(
    "reranker",
    "ragbench.rerankers",
    table={},
    planned=frozenset({"cross_encoder", "http", "mmr"}),
)

__all__ = ["RERANKERS"]
