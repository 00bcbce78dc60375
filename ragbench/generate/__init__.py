"""Generators: `generators: {name: {type: ...}}`."""

from ragbench.registry import Family

GENERATORS = Family(
    "generator",
    "ragbench.generators",
    table={
        "extractive": "ragbench.generate.extractive:Extractive",
        "http": "ragbench.generate.http:HttpGenerator",
        "huggingface": "ragbench.generate.huggingface:HuggingfaceGenerator",
        "langchain": "ragbench.generate.langchain:LangchainGenerator",
        "openai": "ragbench.generate.openai:OpenAIGenerator",
        "predictions": "ragbench.generate.predictions:Predictions",
    },
)

__all__ = ["GENERATORS"]
