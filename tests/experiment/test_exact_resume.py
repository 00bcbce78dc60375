"""Runs with local models are the same to the last bit, however often they were stopped."""

import json
import shutil

import pytest
import yaml

from ragbench import run_experiment
from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
from ragbench.records.manifest import Choices
from ragbench.store.database import CACHE_FILE
from ragbench.store.sqlite_file import DamagedCache
from tests.embed.tables import encoded_texts
from tests.experiment.moons import part_of
from tests.experiment.test_stages import contents, work

pytestmark = pytest.mark.slow
QUERIES, DOCUMENTS = 4, 10


@pytest.fixture(scope="module")
def place(tmp_path_factory, example_data, tiny_embedder, tiny_cross_encoder, tiny_bert, tiny_nli):
    """A folder with a config in which each kind of local model has its part."""
    folder = tmp_path_factory.mktemp("exact")
    data = part_of(example_data, folder / "data", QUERIES, DOCUMENTS)
    config = {
        "name": "exact",
        "dataset": {"type": "beir", "path": str(data), "split": "test"},
        "retrievers": {
            "dense": {"type": "dense", "model": tiny_embedder, "device": "cpu"},
            "diverse": {
                "type": "mmr",
                "retriever": "dense",
                "model": tiny_embedder,
                "depth": 8,
                "document_prompt": "a ",
                "device": "cpu",
            },
            "reranked": {
                "type": "cross_encoder",
                "retriever": "dense",
                "model": tiny_cross_encoder,
                "depth": 8,
                "device": "cpu",
            },
        },
        "generators": {"extractive": {"type": "extractive", "sentences": 1}},
        "metrics": {
            "retrieval": {"top_k": 10, "measures": ["ndcg@10"]},
            "generation": [
                f"bertscore(model={tiny_bert}, num_layers=2, device=cpu)",
                f"semantic_similarity(model={tiny_embedder}, device=cpu)",
            ],
            "judge": {
                "type": "nli",
                "model": tiny_nli,
                "device": "cpu",
                "rubrics": ["faithfulness"],
            },
        },
        "statistics": {"resamples": 100},
    }
    (folder / "exact.yaml").write_text(yaml.safe_dump(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def of(experiment):
    """Return the contents of a run without the notes of a process on texts that it cut."""
    files = contents(experiment)
    notes = files["summary"]["notes"]
    files["summary"]["notes"] = [note for note in notes if "are longer than" not in note]
    return files


@pytest.fixture
def run(place, monkeypatch):
    """Run with a cache of a name, and whatever else."""
    monkeypatch.delenv("RAGBENCH_CACHE")

    def run_with(cache, limit=None, **overrides):
        monkeypatch.setenv("RAGBENCH_CACHE", str(place / cache))
        return run_experiment(
            place / "exact.yaml", overrides=overrides, choices=Choices(limit=limit)
        )

    return run_with


@pytest.fixture(scope="module")
def expected(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGBENCH_CACHE", str(place / "whole"))
        return of(run_experiment(place / "exact.yaml"))


def queries(place):
    lines = (place / "data" / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["text"] for line in lines}


def test_after_a_kill(place, run, expected, monkeypatch):
    # The files as they are when a model is about to encode for the third time: a kill's rest.
    encode, calls = SentenceTransformerEmbedder.encode, []

    def watched(self, texts, **options):
        calls.append(texts)
        if len(calls) == 3:
            shutil.copytree(place / "live", place / "killed")
        return encode(self, texts, **options)

    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformerEmbedder, "encode", watched)
        run("live")

    encoded = encoded_texts(monkeypatch)
    resumed = run("killed")
    assert encoded
    assert not queries(place) & {*encoded}, "`dense` encoded them before"
    assert of(resumed) == expected


def test_from_two_joined_caches(place, run, expected, monkeypatch):
    # Runs over other queries made both caches; a new run reads them and writes to its own.
    run("one", 2)
    run("two", 2, seed=5)
    folders = [place / "one", place / "two"]
    old_bytes = [(other / CACHE_FILE).read_bytes() for other in folders]

    texts = encoded_texts(monkeypatch)
    joined = run("joined", cache_also=[str(other) for other in folders])

    assert of(joined) == expected
    assert [(other / CACHE_FILE).read_bytes() for other in folders] == old_bytes
    assert len(queries(place) & {*texts}) == QUERIES - 3, "what both lacked"


def test_nothing_is_encoded_where_all_vectors_lie_in_another_cache(
    place, run, expected, monkeypatch
):
    changed = {"retrievers.dense.similarity": "dot", "retrievers.dense.normalize": True}
    options = {"cache_also": [str(place / "whole")]}

    texts = encoded_texts(monkeypatch)
    experiment = run("empty", **changed, **options)

    counts = work(experiment)
    assert (counts["index dense"], counts["retrieve dense"]) == (DOCUMENTS, QUERIES)
    assert texts == []
    assert of(experiment)["dense.trec"] == expected["dense.trec"]

    bad = place / "bad"
    bad.mkdir()
    (bad / CACHE_FILE).write_bytes(b"no database" * 9)
    with pytest.warns(DamagedCache, match="bad/cache.sqlite"):
        experiment = run("fresh", **changed, cache_also=[str(bad), *options["cache_also"]])
    assert texts == []


def test_a_changed_corpus_leaves_the_digits_of_its_other_documents(place, run, expected):
    # A cache that another corpus filled, in another order, gives what a fresh one does.
    data = place / "other"
    data.mkdir()
    source = yaml.safe_load((place / "exact.yaml").read_text())["dataset"]["path"]
    for name in ("queries.jsonl", "answers.jsonl", "qrels"):
        (data / name).symlink_to(f"{source}/{name}")
    with open(f"{source}/corpus.jsonl", encoding="utf-8") as stream:
        rows = stream.readlines()
    (data / "corpus.jsonl").write_text("".join(sorted(rows, reverse=True)[: DOCUMENTS // 2]))

    run("changed", **{"dataset.path": str(data)})

    assert of(run("changed")) == expected
