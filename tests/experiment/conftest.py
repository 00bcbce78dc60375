"""The tiny data set as files, and a config that runs on it."""

import pytest

from tests.experiment.moons import write_moons


@pytest.fixture
def data(tmp_path):
    return write_moons(tmp_path / "moons")


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
