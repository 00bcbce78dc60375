"""Retrievers of the user's own: what they have is known, what they lack is as usual."""

from pathlib import Path

from ragbench.experiment.runner import run_experiment
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.bm25 import BM25
from ragbench.retrieve.python import OwnRetriever, to_retriever
from ragbench.types import Document, Query

FACTS = [
    name
    for name, value in vars(Retriever).items()
    if not name.startswith("_") and not callable(value) and name not in ("notes", "advance")
]


class Plain:
    def retrieve(self, queries, top_k):
        return [["d1"] for _ in queries]


class Full(Plain):
    """Has all that a retriever may have, and notes when it was called."""

    ranks_by_score = True
    asks_one_by_one = True
    query_ids = frozenset({"q1"})
    sources = ("bm25",)
    depth = 7
    cache_folder = None
    unit = "documents"
    notes = ("odd",)

    def __init__(self):
        self.called = []

    def load(self):
        self.called.append(("load", self.cache_folder))

    def index(self, corpus):
        self.called.append(("index", len(corpus), self.unit))

    def borrow(self, retrievers):
        self.called.append(("borrow", *retrievers))


def test_a_built_in_is_taken_as_it_is():
    bm25 = BM25()

    assert to_retriever(bm25) is bm25
    assert bm25.indexes
    assert not bm25.borrows


def test_the_methods_of_a_subclass_say_what_it_needs():
    class Searcher(Retriever):
        def index(self, corpus):
            self.corpus = corpus

    class Expander(Searcher):
        def borrow(self, retrievers):
            self.retrievers = retrievers

    facts = [(cls.indexes, cls.borrows) for cls in (Retriever, Searcher, Expander)]
    assert facts == [(False, False), (True, False), (True, True)]
    assert to_retriever(Searcher()).indexes


def test_what_an_object_lacks_is_as_usual():
    own, usual = to_retriever(Plain()), Retriever()

    assert {name: getattr(own, name) for name in FACTS} == {
        name: getattr(usual, name) for name in FACTS
    }
    own.load()
    assert own.retrieve([Query("q", "?")], 3) == [["d1"]]
    assert list(own.notes) == []


def test_what_an_object_has_is_known_and_called():
    full = Full()
    own, plain = to_retriever(full), Plain()

    known = (own.ranks_by_score, own.asks_one_by_one, own.query_ids, own.sources, own.depth)
    assert known == (True, True, {"q1"}, ("bm25",), 7)
    assert (own.indexes, own.borrows, own.notes) == (True, True, ["odd"])
    own.cache_folder, own.unit = Path("kept"), "chunks"
    own.load()
    own.index([Document("d1")])
    own.borrow([OwnRetriever(plain)])
    assert full.called == [("load", Path("kept")), ("index", 1, "chunks"), ("borrow", plain)]


def test_progress_of_an_index_is_told_whole_whoever_tells_it(tmp_path, monkeypatch):
    """Those that tell nothing while they index are told of at the end."""
    monkeypatch.chdir(tmp_path)
    told = []

    class Shown:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def advance(self, n=1):
            told.append((self.name, n))

    class Progress:
        def stage(self, name, total, unit="queries"):
            return Shown(name)

    class Half(Full):
        advance = None
        sources = ()
        query_ids = None
        borrow = None

        def index(self, corpus):
            self.advance(1)

    for name, text in (("corpus", ("a", "b", "d1")), ("queries", "q")):
        lines = [f'{{"_id": "{each}", "text": "{each}"}}\n' for each in text]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    config = {"name": "x", "dataset": {"type": "beir", "path": str(tmp_path), "split": "test"}}

    run_experiment(config, retrievers={"mine": Half()}, progress=Progress())

    assert [n for name, n in told if name == "index mine"] == [1, 2]
