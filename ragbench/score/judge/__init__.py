"""Judges of answers by rubrics: `metrics: {judge: {type: ..., rubrics: [...]}}`."""

from ragbench.registry import Family

JUDGES = Family(
    "judge",
    "ragbench.judges",
    table={"lexical": "ragbench.score.judge.lexical:Lexical"},
    planned=frozenset({"langchain", "nli", "openai"}),
)

__all__ = ["JUDGES"]
