"""Real collections, read and indexed once for all tests of retrievers."""

from contextlib import closing
from functools import cache

import pytest

from ragbench.data.loaders.beir import Beir
from ragbench.executors.local import Local
from ragbench.retrieve.bm25 import BM25


@pytest.fixture(scope="session")
def collection(lent_data):
    """Read a collection by its name; the same object each time."""
    return cache(lambda name: Beir(path=lent_data / name, split="test").load())


@pytest.fixture(scope="session")
def indexed(collection):
    """Index a collection with the default options of BM25; the same object each time."""

    @cache
    def index(name):
        retriever = BM25()
        retriever.index(collection(name).documents)
        return retriever

    return index


@pytest.fixture(scope="session")
def worker():
    """An executor of one process, for all tests: to start a process takes a third of a second."""
    with closing(Local(workers=1)) as executor:
        yield executor
