"""A run tells of citations in forms that its judge does not read."""

import json

import pytest

from ragbench.experiment.runner import run_experiment
from ragbench.testing import ChatServer
from tests.score.judge.test_long_answers import Limited


@pytest.mark.parametrize(("forms", "n_notes", "recall"), [("brackets", 1, 0.0), ("round", 0, 1.0)])
def test_a_run_names_markers_that_are_not_read(tmp_path, forms, n_notes, recall):
    rows = [
        {
            "question": f"How high is {n}?",
            "answer": f"It is {n} m high (1).",
            "contexts": [f"{n} m"],
        }
        for n in range(3)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with ChatServer(Limited()) as server:
        judge = {
            "type": "openai",
            "model": "m",
            "base_url": server.url,
            "rubrics": ["citation_recall"],
            "citations": forms,
        }
        experiment = run_experiment(
            {
                "name": "citations",
                "output": str(tmp_path / "out"),
                "dataset": {
                    "type": "records",
                    "path": str(tmp_path / "rows.jsonl"),
                    "columns": {"answer": "answer"},
                },
                "metrics": {"judge": judge},
                "cache": str(tmp_path / "cache"),
            }
        )
    notes = [note for note in experiment.summary["notes"] if "look like markers: (1)" in note]
    [system] = experiment.summary["systems"]
    assert len(notes) == n_notes
    assert system["scores"]["citation_recall"]["mean"] == recall
