"""The tiny data set as files, and a config that runs on it."""

import pytest

from tests.experiment.moons import ANSWERS, CORPUS, QRELS, QUERIES, write_jsonl


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "moons"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(
        folder / "corpus.jsonl",
        [{"_id": id, "title": title, "text": text} for id, (title, text) in CORPUS.items()],
    )
    write_jsonl(folder / "queries.jsonl", [{"_id": q, "text": t} for q, t in QUERIES.items()])
    write_jsonl(
        folder / "answers.jsonl", [{"query_id": q, "answers": a} for q, a in ANSWERS.items()]
    )
    lines = [f"{q}\t{d}\t{g}" for q, docs in QRELS.items() for d, g in docs.items()]
    (folder / "qrels" / "test.tsv").write_text(
        "\n".join(["query-id\tcorpus-id\tscore", *lines, ""])
    )
    return folder


@pytest.fixture
def config(data, tmp_path, monkeypatch):
    """A config with two retrievers, a generator and a judge, as a mapping."""
    monkeypatch.chdir(tmp_path)
    return {
        "name": "moons",
        "dataset": {"type": "beir", "path": str(data), "split": "test"},
        "retrievers": {"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}},
        "generators": {"extractive": {"type": "extractive", "sentences": 1}},
        "metrics": {"judge": {"type": "lexical"}},
    }
