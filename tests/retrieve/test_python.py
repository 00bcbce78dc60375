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


class PlainRetriever:
    def retrieve(self, queries, top_k):
        return [["d1"] for _ in queries]


class Full(PlainRetriever):
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
    adapted, usual = to_retriever(PlainRetriever()), Retriever()

    assert {name: getattr(adapted, name) for name in FACTS} == {
        name: getattr(usual, name) for name in FACTS
    }
    adapted.load()
    assert adapted.retrieve([Query("q", "?")], 3) == [["d1"]]
    assert list(adapted.notes) == []


def test_what_an_object_has_is_known_and_called():
    full = Full()
    adapted, plain = to_retriever(full), PlainRetriever()

    facts = (
        adapted.ranks_by_score,
        adapted.asks_one_by_one,
        adapted.query_ids,
        adapted.sources,
        adapted.depth,
    )
    assert facts == (True, True, {"q1"}, ("bm25",), 7)
    assert (adapted.indexes, adapted.borrows, adapted.notes) == (True, True, ["odd"])
    adapted.cache_folder, adapted.unit = Path("kept"), "chunks"
    adapted.load()
    adapted.index([Document("d1")])
    adapted.borrow([OwnRetriever(plain)])
    assert full.called == [("load", Path("kept")), ("index", 1, "chunks"), ("borrow", plain)]


def test_progress_of_an_index_is_told_whole_whoever_tells_it(tmp_path, monkeypatch):
    # A retriever without progress of its own is reported at the end
    monkeypatch.chdir(tmp_path)
    progress = []

    class Shown:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def advance(self, n=1):
            progress.append((self.name, n))

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
        lines = [f'{{"_id": "{word}", "text": "{word}"}}\n' for word in text]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    config = {"name": "x", "dataset": {"type": "beir", "path": str(tmp_path), "split": "test"}}

    run_experiment(config, retrievers={"mine": Half()}, progress=Progress())

    assert [n for name, n in progress if name == "index mine"] == [1, 2]
