"""The configs of retrievers over others and of chunks run as they are shipped."""

import pytest

import ragbench as rb
from ragbench.records.manifest import Choices

QUICK = {"statistics.resamples": 100}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def means(experiment, measure):
    systems = experiment.summary["systems"]
    return {s["name"]: s["scores"][measure]["mean"] for s in systems if measure in s["scores"]}


@pytest.mark.slow
def test_hybrid(repository):
    # of this sample the order of the systems is that of all queries
    experiment = rb.run_experiment(
        repository / "configs" / "hybrid.yaml", {**QUICK, "seed": 7}, choices=Choices(limit=16)
    )

    scores = means(experiment, "ndcg@10")
    assert experiment.summary["complete"]
    assert list(scores)[:4] == ["bm25", "minilm", "rm3", "rrf"]
    assert scores["bm25"] < scores["rm3"] < scores["rrf"], "feedback helps, embeddings more"
    assert scores["weighted-weights=0.3_0.7"] > scores["minilm"], "together more than either"
    rankings = {
        name: rb.read_run(experiment.path / "rankings" / f"{name}.trec")
        for name in ("bm25", "minilm", "rrf")
    }
    [query] = rankings["rrf"].query_ids[:1]
    ranks = {
        name: {document: rank for rank, (document, _) in enumerate(run.ranking(query), start=1)}
        for name, run in rankings.items()
    }
    for document, score in rankings["rrf"].ranking(query):
        parts = [ranks[name].get(document) for name in ("bm25", "minilm")]
        assert score == pytest.approx(sum(1 / (60 + rank) for rank in parts if rank))


@pytest.mark.slow
def test_chunks(repository, assert_message):
    experiment = rb.run_experiment(
        repository / "configs" / "chunks.yaml", QUICK, choices=Choices(limit=8)
    )

    names = ["whole", *(f"words-chunk.size={size}" for size in (16, 32, 64)), "sentences"]
    assert list(means(experiment, "ndcg@10")) == names
    assert list(means(experiment, "rougeL")) == [f"{name}/extractive" for name in names]
    assert len(set(means(experiment, "ndcg@10").values())) > 1
    assert experiment.summary["complete"]
    # all five find the same few questions
    sample, same = experiment.summary["warnings"]
    assert sample.startswith("a random sample of 8 of ")
    assert_message(same)
