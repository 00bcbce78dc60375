"""A run in one process, on workers, after kills and in parts: the results are equal."""

import multiprocessing
import os
import signal
import time
from contextlib import closing

import pytest
import yaml

from ragbench.executors.base import LostItem
from ragbench.executors.local import Local, WorkerProcess
from ragbench.experiment.calls import Calls, Outcome
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages.retrieval import name_queries, retrieve
from ragbench.retrieve.bm25 import BM25, RM3
from ragbench.score.text.columns import TextScorer
from ragbench.types import Document, Query, ScoredDocument
from tests.experiment.deadly import assert_workers_change_nothing, is_alive, worker_pids
from tests.experiment.moons import part_of
from tests.experiment.test_stages import contents, work

pytestmark = pytest.mark.slow  # seconds each: processes, models
QUERIES, DOCUMENTS = 4, 20  # where models compute
# Queries where no model computes: four blocks of workers, and as many documents.
JUDGED = 32
# A hundred hits of each query would take most of the time of a run.
FEW_HITS = {"measures": ["ndcg@10"], "top_k": 10}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module", autouse=True)
def small_indexes():
    """The index of the example is kept in files, as that of a large corpus."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 0)
        yield


@pytest.fixture(scope="module")
def config(repository, place):
    """Return a config that needs no model: BM25, text metrics, a judge that counts words."""
    data = part_of(repository / "datasets/example", place / "judged", JUDGED, JUDGED)
    dataset = {"type": "beir", "path": str(data), "split": "test"}
    metrics = ["contains", "rouge1", "rougeL.recall", "bleu", "bleu.corpus", "chrf", "ter"]
    rubrics = ["faithfulness", "correctness"]
    return {
        "name": "workers",
        "dataset": dataset,
        "retrievers": {
            "bm25": {"type": "bm25"},
            "cut": {"type": "bm25", "chunk": {"by": "words", "size": 12, "overlap": 3}},
            "again": {"type": "rm3", "retriever": "bm25"},
        },
        "generators": {"extractive": {"type": "extractive", "retrievers": ["bm25"]}},
        "metrics": {
            "retrieval": FEW_HITS,
            "generation": metrics,
            "judge": {"words": {"type": "python:tests.words:Words", "rubrics": rubrics}},
        },
        "statistics": {"resamples": 100},
        "output": "runs",
    }


@pytest.fixture(scope="module")
def models(
    config, place, example_data, tiny_nli, tiny_bert, tiny_embedder, tiny_cross_encoder, tiny_gpt
):
    """The same over fewer texts with all that computes by models."""
    data = part_of(example_data, place / "data", QUERIES, DOCUMENTS)
    metrics = config["metrics"]
    over = {"retriever": "bm25", "depth": 4}
    rubrics = ["faithfulness", "correctness"]
    sampled = {"model": tiny_gpt, "max_tokens": 5, "temperature": 1.0, "device": "cpu"}
    scores = [
        f"bertscore(model={tiny_bert}, num_layers=1, idf=true)",
        f"semantic_similarity(model={tiny_embedder})",
    ]
    return {
        "dataset": {**config["dataset"], "path": str(data)},
        "retrievers": {
            "bm25": {"type": "bm25"},
            "dense": {"type": "dense", "model": tiny_embedder},
            "pairs": {"type": "cross_encoder", "model": tiny_cross_encoder, **over},
            "diverse": {"type": "mmr", "model": tiny_embedder, **over},
        },
        "generators": {
            "extractive": {"type": "extractive", "retrievers": ["bm25"]},
            "gpt": {"type": "huggingface", "retrievers": ["bm25"], **sampled},
        },
        "metrics": {
            "retrieval": FEW_HITS,
            "generation": [*metrics["generation"], *scores],
            "judge": {
                **metrics["judge"],
                "nli": {"type": "nli", "model": tiny_nli, "rubrics": rubrics},
            },
        },
    }


def workers(n):
    return {"executor": {"type": "local", "workers": n}}


@pytest.fixture(scope="module")
def run(config, place):
    """Run the config with the cache of a name."""

    def run_it(cache, more=None, **options):
        source = {**config, **(more or {}), "cache": str(place / cache)}
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("RAGBENCH_CACHE", raising=False)
            return run_experiment(source, **options)

    return run_it


@pytest.fixture(scope="module")
def expected(run):
    """Return the contents of the run in one process."""
    return contents(run("one"))


def test_two_workers_one_of_which_is_killed_when_30_percent_are_done(run, config, place):
    changes = []

    def read(cache, more):
        changes.append((cache, more))
        return contents(run(cache, more))

    pids = assert_workers_change_nothing(read, config, workers(2)["executor"], place)

    assert not any(map(is_alive, pids))
    assert worker_pids(os.getpid()) == []
    (local, alone), (killed, shared) = changes
    assert work(run(killed, alone)) == {}, "the same keys: the workers' items serve one process"
    assert work(run(local, shared)) == {}


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # of forks
def test_models_on_a_worker(run, models, monkeypatch):
    expected = contents(run("m1", models))
    if hasattr(os, "fork"):
        # this process has imported torch, which takes most of the time of a new one
        from multiprocessing.popen_fork import Popen

        monkeypatch.setattr(WorkerProcess, "_Popen", staticmethod(Popen))

    experiment = run("m2", {**models, **workers(1)})

    assert contents(experiment) == expected
    answered = [
        rows for name, rows in contents(experiment).items() if name.startswith("predictions")
    ]
    assert [len(rows) for rows in answered] == [QUERIES, QUERIES]
    assert multiprocessing.active_children() == []


DRIVER = """
import os, signal, sys
from ragbench import run_experiment
from tests.experiment.deadly import Kills, worker_pids

def kill():
    print(*worker_pids(os.getpid()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

run_experiment("k.yaml", progress=Kills(["judge bm25/extractive (words)"], kill))
"""


def test_a_run_that_is_killed_goes_on(run, expected, config, place, warm):
    # Its workers are processes that were started anew.
    source = {**config, **workers(2), "cache": str(place / "k")}
    (place / "k.yaml").write_text(yaml.safe_dump(source))
    environment = {**os.environ, "RAGBENCH_CACHE": str(place / "k")}
    ended, printed = warm.run(DRIVER, cwd=place, env=environment)
    pids = [int(pid) for pid in printed.split()]

    assert ended == -signal.SIGKILL
    assert len(pids) == 2
    until = time.monotonic() + 300
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(is_alive, pids))
    resumed = run("k")
    assert contents(resumed) == expected
    assert 0 < work(resumed)["judge bm25/extractive (words)"] < 2 * JUDGED


def test_an_item_that_ends_its_workers_fails_alone():
    # Here the executor stands in: what it says of a lost row becomes a cause.
    class Losing:
        def map(self, task, blocks):
            for block in blocks:
                yield [LostItem("it ended with code 9"), *((0.5, 0.25) for _ in block[1:])]

    texts, gold = [None, "a cat", "a dog"], [["a cat"], ["a cat"], ["a dog"]]
    columns = TextScorer(["rouge1", "contains", "rouge2"], Losing()).score(texts, gold)

    assert [column.values.tolist()[2] for column in columns] == [0.5, 1.0, 0.25]
    assert [column.causes.tolist() for column in columns] == [[6, 64, 0], [6, 0, 0], [6, 64, 0]]
    assert columns[0].details == {1: "it ended with code 9"}
    assert columns[1].details == {}


def test_a_query_that_cannot_be_expanded_fails_alone_as_without_workers(tmp_path):
    bm25, rm3 = BM25(), RM3(retriever="bm25")
    bm25.cache_folder = tmp_path
    bm25.index([Document("d1", "a red fox"), Document("d2", "a hen")])
    rm3.borrow([bm25])
    queries = [Query("q1", "fox"), Query("q2", "hen"), Query("q3", "sea")]
    first = [[[ScoredDocument("d1", 1.0)], [ScoredDocument("d9", 1.0)], []]]
    calls = Calls("retriever 'rm3'")
    local = dict(name_queries(queries, retrieve(rm3, queries, 2, calls, first)))

    with closing(Local(workers=1)) as executor:
        outcomes = retrieve(rm3, queries, 2, calls, first, executor)
        remote = dict(name_queries(queries, outcomes))

    assert {n: (outcome.value, outcome.cause, outcome.detail) for n, outcome in remote.items()} == {
        n: (outcome.value, outcome.cause, outcome.detail) for n, outcome in local.items()
    }
    assert "no document 'd9'" in remote[1].detail
    assert "(query 'q2')" in remote[1].detail
    assert remote[0].value.queries == ["fox^0.7500 red^0.2500"]


def test_a_failed_query_of_a_table_without_ids_has_its_row_and_question():
    queries = [Query("q1", "fox"), Query("1a0139a2236f", "Where is the hen?", row=2)]
    outcomes = [(0, Outcome(None, detail="down")), (1, Outcome(None, detail="down"))]

    details = [outcome.detail for _, outcome in name_queries(queries, outcomes)]

    assert details == ["down (query 'q1')", "down (row 2 'Where is the hen?')"]
