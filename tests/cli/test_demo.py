"""`ragbench demo`: real decisions on stored scores, which are those of a run of today."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import ragbench as rb
from ragbench.cli import demo
from ragbench.comparison.sources import read_scored
from ragbench.report.text import difference
from ragbench.retrieve.bm25 import BM25
from tests.conftest import REPOSITORY


class OffByOne(BM25):
    def retrieve(self, queries, top_k):
        return [list(hits)[1:] for hits in super().retrieve(queries, top_k + 1)]


def test_the_gate_fails_passes_and_cannot_decide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(demo.command, catch_exceptions=False)

    text = done.stdout
    verdicts = re.findall(r"gate (\w+): ([\w-]+): (\S+) -> (\S+): ", text)
    assert verdicts == [
        ("fail", "off-by-one", "0.594", "0.274"),
        ("pass", "embeddings", "0.594", "0.756"),
        ("undecided", "no-stemmer", "0.594", "0.561"),
    ]
    gate = {
        "measure": "ndcg@10",
        "max_drop": 0.05,
        "system": [system for _, system, *_ in verdicts],
    }
    for decision in rb.check_gates(demo._SCORES, gate):
        change, interval = difference(decision["difference"], decision["interval"])
        assert f"{change} {interval}" in text
    assert text.count("Why: ") == text.count("Next: ") == 3
    assert text.count("most lost: ") == 1
    assert "ragbench init --from qa.csv --corpus docs/" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.costly
def test_the_stored_scores_and_questions_are_those_of_the_example(tmp_path):
    example = REPOSITORY / "datasets/example"
    experiment = rb.run_experiment(
        {
            "name": "demo",
            "output": str(tmp_path / "runs"),
            "cache": str(tmp_path / "cache"),
            "dataset": {"type": "beir", "path": str(example), "split": "test"},
            "retrievers": {
                "main": {"type": "bm25"},
                "no-stemmer": {"type": "bm25", "stemmer": "none"},
                "embeddings": {"type": "run_file", "path": str(example / "runs/minilm.trec")},
            },
            "metrics": {"retrieval": {"measures": ["ndcg@10"]}},
            "statistics": {"baseline": "main", "resamples": 100},
        },
        retrievers={"off-by-one": OffByOne()},
    )

    stored, scored = read_scored(demo._SCORES), read_scored(experiment.path)

    assert set(stored.systems) == set(scored.systems) == {"main", *demo._CHANGES}
    for name, system in stored.systems.items():
        values = system.columns["ndcg@10"].values
        np.testing.assert_allclose(values, scored.systems[name].columns["ndcg@10"].values, 1e-12)
    lines = (example / "queries.jsonl").read_text("utf-8").splitlines()
    questions = {row["_id"]: row["text"] for row in map(json.loads, lines)}
    assert json.loads(demo._QUESTIONS.read_text("utf-8")) == questions
    assert len(lines) == len(stored.query_ids)
