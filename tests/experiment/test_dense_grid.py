"""configs/dense.yaml and grid.yaml on models that are here: ranks, texts encoded."""

import os

import pytest

from ragbench import run_experiment
from ragbench.data.files.trec_files import read_run
from ragbench.store.database import CACHE_FILE
from tests.embed.tables import encoded_texts, stored_vectors
from tests.experiment.moons import part_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The working directory of all tests here, whose cache keeps what the first one encodes."""
    folder = tmp_path_factory.mktemp("grid")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def encoded():
    """Return a function that counts the texts that models have encoded so far."""
    with pytest.MonkeyPatch.context() as patch:
        texts = encoded_texts(patch)
        yield lambda: len(texts)


@pytest.fixture(scope="module")
def part(example_data, place):
    """A sixth of the example: a model takes a while for each text."""
    return str(part_of(example_data, place / "data", 8, 24))


@pytest.fixture(scope="module")
def run(repository, minilm, tiny_cross_encoder, part):
    models = {
        "dataset.path": part,
        "retrievers.dense.model": minilm,
        "retrievers.diverse.model": minilm,
        "retrievers.reranked.model": tiny_cross_encoder,
        "statistics.resamples": 100,
    }
    return lambda more=None: run_experiment(
        repository / "configs" / "dense.yaml", overrides={**models, **(more or {})}
    )


@pytest.fixture(autouse=True)
def _cache(monkeypatch):
    monkeypatch.delenv("RAGBENCH_CACHE")


@pytest.fixture(scope="module")
def first(run, encoded):
    """The first run, from an empty cache, and how many texts it encoded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAGBENCH_CACHE")
        return run(), encoded()


def test_a_grid_runs_and_a_further_retriever_encodes_nothing(run, first, encoded, minilm, place):
    first, n_vectors = first
    scores = {s["name"]: s["scores"]["ndcg@10"]["mean"] for s in first.summary["systems"]}

    assert min(scores["dense"], scores["bm25"]) > 0.55
    assert scores["reranked"] < scores["bm25"], "random weights"
    assert scores["diverse"] == pytest.approx(scores["dense"], rel=0.2)
    assert_same_documents(first.path, "bm25", "reranked")
    assert_same_documents(first.path, "dense", "diverse")

    assert stored_vectors(place / ".ragbench" / CACHE_FILE) == n_vectors
    again = run({"retrievers.dot": {"type": "dense", "model": minilm, "similarity": "dot"}})
    assert encoded() == n_vectors
    assert [s["name"] for s in again.summary["systems"]][-1] == "dot"


@pytest.fixture
def grid(repository, minilm, tiny_cross_encoder, place, monkeypatch):
    """Run configs/grid.yaml as its head says: two variables name the models."""
    monkeypatch.setenv("ENCODER", minilm)
    monkeypatch.setenv("RERANKER", tiny_cross_encoder)
    config = repository / "configs" / "grid.yaml"
    return lambda **overrides: run_experiment(config, overrides=overrides)


FAMILY = ["bm25", "rm3", "dense", "hybrid", "reranked", "diverse"]


def test_the_whole_family_in_one_grid(first, grid, part):
    # of random weights twelve pairs say as much as fifty
    few = {"retrievers.reranked.depth": 12, "statistics.resamples": 100}
    experiment = grid(**{"dataset.path": part, **few})

    systems = experiment.summary["systems"]
    assert [system["name"] for system in systems] == FAMILY
    scores = {s["name"]: s["scores"]["ndcg@10"]["mean"] for s in systems}
    assert scores["hybrid"] > scores["bm25"] > scores["reranked"], "random weights rerank"
    assert experiment.summary["complete"]


def test_the_whole_family_on_scifact(grid, lent_data, monkeypatch):
    # As published or better: BM25 0.67 (BEIR), all-MiniLM-L6-v2 0.645 (MTEB).
    if not (folder := os.environ.get("RAGBENCH_TEST_VECTORS")):
        pytest.skip("takes 20 minutes: RAGBENCH_TEST_VECTORS names a folder that keeps the vectors")
    monkeypatch.setenv("RAGBENCH_CACHE", folder)

    experiment = grid(**{"dataset.path": str(lent_data / "scifact")})

    scores = {s["name"]: s["scores"]["ndcg@10"]["mean"] for s in experiment.summary["systems"]}
    assert list(scores) == FAMILY
    assert scores["bm25"] > 0.67
    assert scores["dense"] == pytest.approx(0.645, abs=0.005)
    assert scores["hybrid"] > 0.71


def assert_same_documents(folder, first_stage, reranked):
    """The reranker orders the first 20 hits of the retriever; the others follow as they are."""
    first, second = (
        read_run(folder / "rankings" / f"{name}.trec").to_dict() for name in (first_stage, reranked)
    )
    for query, scores in second.items():
        best, again = (
            sorted(of_query, key=lambda doc: (of_query[doc], doc), reverse=True)
            for of_query in (first[query], scores)
        )
        assert set(again[:20]) == set(best[:20])
        assert again[20:] == best[20:]
