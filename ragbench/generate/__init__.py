"""Generators: `generators: {name: {type: ...}}`."""

from ragbench.registry import Family

GENERATORS = Family(
    "generator",
    "ragbench.generators",
    table={
        "extractive": "ragbench.generate.extractive:Extractive",
        "predictions": "ragbench.generate.predictions:Predictions",
    },
    planned=frozenset({"http", "huggingface", "langchain", "openai"}),
)

__all__ = ["GENERATORS"]
