"""Generators and whole apps: `generators: {name: {type: ...}}`, `apps: {name: {type: ...}}`."""

from ragbench.registry import Family

# Classes by name, imported on first use: most of them need an optional package.
GENERATORS = Family(
    "generator",
    "ragbench.generators",
    table={
        "extractive": "ragbench.generate.extractive:Extractive",
        "http": "ragbench.generate.http:HttpGenerator",
        "huggingface": "ragbench.generate.huggingface:HuggingfaceGenerator",
        "langchain": "ragbench.generate.langchain:LangchainGenerator",
        "openai": "ragbench.generate.chat:OpenAIGenerator",
        "predictions": "ragbench.generate.predictions:Predictions",
    },
)
APPS = Family(
    "app",
    "ragbench.apps",
    table={
        "haystack": "ragbench.generate.haystack:HaystackApp",
        "http": "ragbench.generate.http:HttpApp",
        "langchain": "ragbench.generate.langchain:LangchainApp",
        "llama_index": "ragbench.generate.llama_index:LlamaIndexApp",
    },
)
