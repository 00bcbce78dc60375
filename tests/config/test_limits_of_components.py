"""Limits of a component, kept by the component itself or by its caller."""

import pytest

from ragbench.config.load import load_config


@pytest.mark.parametrize(
    ("noun", "entry", "timeout", "concurrency"),
    [
        ("retriever", {"type": "bm25"}, None, 1),
        ("retriever", {"type": "bm25", "timeout": 3.0, "concurrency": 2}, 3.0, 2),
        ("retriever", {"type": "python:tests.retrieve.foreign:store"}, 60.0, 1),
        ("retriever", {"type": "langchain", "factory": "tests.retrieve.foreign:store"}, 60.0, 1),
        (
            "retriever",
            {"type": "llama_index", "factory": "tests.retrieve.foreign:store", "timeout": 5.0},
            5.0,
            1,
        ),
        # these wait for a server in their own time: retries and pauses that it asks for included
        ("retriever", {"type": "http", "url": "http://127.0.0.1/", "concurrency": 4}, None, 4),
        ("generator", {"type": "openai", "model": "m"}, None, 16),
        ("generator", {"type": "openai", "model": "m", "concurrency": 3, "timeout": 9.0}, None, 3),
    ],
)
def test_limits(example_data, noun, entry, timeout, concurrency):
    data = {"type": "beir", "path": str(example_data), "split": "test"}
    blocks = {"retrievers": {"first": {"type": "bm25"}}, "generators": {}}
    blocks[f"{noun}s"]["x"] = entry
    config = load_config({"dataset": data, **{k: v for k, v in blocks.items() if v}})

    component = {**config.retrievers, **config.generators}["x"]

    assert (component.timeout, component.concurrency) == (timeout, concurrency)


def test_a_version_of_ones_own_counts_for_the_caller_too(example_data):
    data = {"type": "beir", "path": str(example_data), "split": "test"}
    entry = {"type": "langchain", "factory": "tests.retrieve.foreign:ready", "version": "v7"}
    config = load_config({"dataset": data, "retrievers": {"a": entry}, "generators": {"b": entry}})

    assert (config.retrievers["a"].version, config.generators["b"].version) == ("v7", "v7")
