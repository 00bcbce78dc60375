"""A large corpus, whose indexes are kept: the same run, and nothing is indexed twice."""

import json
import os
import random

import pytest

from ragbench import run_experiment
from ragbench.retrieve.bm25 import BM25
from tests.experiment.test_stages import contents, work

DOCUMENTS = 60
# What keeps an index from a size on; that of real ones takes seconds to make.
KEEPING = ("ragbench.retrieve.bm25", "ragbench.store.arrays")
WORDS = [f"word{i}" for i in range(400)]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Four retrievers over a corpus that counts as large, one of them over chunks of it."""
    for module in KEEPING:
        monkeypatch.setattr(f"{module}.WORTH_KEEPING", 1 << 10)
    draw = random.Random(11)
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    texts = {f"d{i}": " ".join(draw.choices(WORDS, k=120)) for i in range(DOCUMENTS)}
    rows = [
        {"_id": name, "title": WORDS[i % 7], "text": text}
        for i, (name, text) in enumerate(texts.items())
    ]
    (data / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    queries = [{"_id": f"q{i}", "text": " ".join(draw.choices(WORDS, k=4))} for i in range(6)]
    (data / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    relevant = [(i, n) for i in range(6) for n in draw.sample(range(DOCUMENTS), 40)]
    judged = "".join(f"q{i}\td{n}\t1\n" for i, n in relevant)
    (data / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    chunk = {"by": "words", "size": 60}
    return {
        "name": "large",
        "dataset": {"type": "beir", "path": str(data)},
        "retrievers": {
            "bm25": {"type": "bm25"},
            "passages": {"type": "bm25", "chunk": chunk},
            "rm3": {"type": "rm3", "retriever": "bm25"},
            "both": {"type": "fusion", "retrievers": ["bm25", "passages"]},
        },
        "generators": {"extract": {"type": "extractive"}},
        "metrics": {"retrieval": {"measures": ["ndcg@10"], "top_k": 20}, "generation": []},
        "statistics": {"resamples": 100},
        "output": str(tmp_path / "runs"),
    }


@pytest.mark.slow
def test_the_run_is_that_of_an_index_in_memory_and_nothing_is_indexed_twice(config, monkeypatch):
    first = run_experiment(config)
    again = run_experiment(config)
    with monkeypatch.context() as patch:
        for module in KEEPING:
            patch.setattr(f"{module}.WORTH_KEEPING", 1 << 40)
        patch.setenv("RAGBENCH_CACHE", os.environ["RAGBENCH_CACHE"] + "-other")
        plain = run_experiment(config)
        assert not os.path.exists(os.environ["RAGBENCH_CACHE"] + "/arrays")

    assert contents(first) == contents(plain) == contents(again)
    assert work(again) == {}
    monkeypatch.setattr(BM25, "_build", lambda *_: pytest.fail("indexed again"))

    # deeper lists are new: every retriever is asked again
    deeper = run_experiment(config, {"metrics.retrieval.top_k": 30})

    assert work(deeper)["retrieve both"] == 6


@pytest.mark.slow
def test_a_kill_while_it_is_kept_costs_only_time(config, tmp_path, warm, monkeypatch):
    code = (
        "import importlib, os, sys, json\n"
        "from ragbench import run_experiment\n"
        "from ragbench.store.arrays import ArrayWriter\n"
        f"for module in {KEEPING}:\n"
        "    importlib.import_module(module).WORTH_KEEPING = 1 << 10\n"
        "left = int(sys.argv[2])\n"
        "add = ArrayWriter.add\n"
        "def killed(self, *arguments):\n"
        "    global left\n"
        "    left -= 1\n"
        "    if left < 0:\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return add(self, *arguments)\n"
        "ArrayWriter.add = killed\n"
        "run_experiment(json.loads(sys.argv[1]))\n"
    )
    for killed_at in (1, 6):
        ended, _ = warm.run(code, json.dumps(config), str(killed_at))
        assert ended == -9

    resumed = run_experiment(config)

    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "other"))
    assert contents(run_experiment(config)) == contents(resumed)
    unfinished = [path.name for path in (tmp_path / "cache" / "arrays").rglob(".*.tmp")]
    assert unfinished == []
