"""Documents that a model does not read to their end: said by each run, also where all is stored."""

import json

import pytest

from ragbench import run_experiment
from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
from ragbench.store.database import CACHE_FILE
from tests.embed.tables import stored_vectors


@pytest.fixture
def with_a_long_document(config, data, tiny_embedder):
    with (data / "corpus.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "long", "title": "", "text": "mat " * 99}) + "\n")
    dense = {"type": "dense", "model": tiny_embedder, "device": "cpu"}
    return {**config, "retrievers": {"dense": dense}, "generators": {}}


def notes(experiment):
    return [note for note in experiment.summary["notes"] if "longer than" in note]


DOCUMENTS = (
    "dense: 1 of 7 documents are longer than the 64 tokens that the model reads; their end is not "
    "searched; a chunk block would cut them"
)


def test_each_run_says_it(with_a_long_document, monkeypatch):
    first = run_experiment(with_a_long_document)
    assert notes(first) == [DOCUMENTS]
    assert DOCUMENTS in (first.path / "report.md").read_text(encoding="utf-8")

    def unwanted(*_, **__):
        raise AssertionError("all is stored")

    monkeypatch.setattr(SentenceTransformerEmbedder, "encode", unwanted)
    monkeypatch.setattr(SentenceTransformerEmbedder, "count_tokens", unwanted)
    assert notes(run_experiment(with_a_long_document)) == [DOCUMENTS]
    fewer = {"metrics": {"retrieval": {"top_k": 3, "measures": ["recall@3"]}}}
    assert notes(run_experiment(with_a_long_document | fewer)) == [DOCUMENTS], "from the vectors"


def test_chunks_are_kept_where_the_config_says(with_a_long_document, tmp_path, monkeypatch):
    monkeypatch.delenv("RAGBENCH_CACHE", raising=False)
    with_a_long_document["retrievers"]["dense"]["chunk"] = {"by": "words", "size": 60}

    experiment = run_experiment(with_a_long_document | {"cache": str(tmp_path / "theirs")})

    assert notes(experiment) == []
    assert stored_vectors(tmp_path / "theirs" / CACHE_FILE) == 6 + 2 + 5, "chunks and questions"
