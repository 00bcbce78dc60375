"""Whole apps: `apps: {name: {type: ...}}`. They retrieve and answer in one call."""

from ragbench.registry import Family

APPS = Family(
    "app",
    "ragbench.apps",
    table={
        "http": "ragbench.generate.apps.http:HttpApp",
        "langchain": "ragbench.generate.apps.langchain:LangchainApp",
    },
)

__all__ = ["APPS"]
