"""The first line of a result: on the user's own system, with the counts of the cause analysis."""

import csv
from collections import Counter

import pytest

from ragbench.experiment.runner import run_experiment
from ragbench.report.layout import lay_out

MODULE = "def search(question, top_k):\n    return ['d1', 'd2', 'd3'][:top_k]\n"
BM25 = {"bm25": {"type": "bm25"}}
MINE = {"mine": {"type": "python:mine:search"}}
EXTRACTIVE = {"extractive": {"type": "extractive", "sentences": 1}}


def app(question):
    return "Io"


def retrieve(question, top_k):
    return ["d1", "d5"]


@pytest.mark.costly
@pytest.mark.parametrize(
    ("retrievers", "live", "apps", "generators", "expected"),
    [
        pytest.param(
            BM25 | MINE, {}, {"app": app, "later": app}, EXTRACTIVE, "app", id="the first app"
        ),
        pytest.param(
            BM25 | MINE, {}, {}, EXTRACTIVE, "mine/extractive", id="python: with its generator"
        ),
        pytest.param(BM25 | MINE, {}, {}, {}, "mine", id="python: alone"),
        pytest.param(
            BM25, {"mine": retrieve}, {}, EXTRACTIVE, "mine/extractive", id="a live retriever"
        ),
        pytest.param(BM25, {}, {}, EXTRACTIVE, None, id="built-in retrievers only"),
    ],
)
def test_the_users_own_system_is_known(
    config, tmp_path, monkeypatch, retrievers, live, apps, generators, expected
):
    (tmp_path / "mine.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config |= {"retrievers": retrievers, "generators": generators, "metrics": {}}

    experiment = run_experiment(config, retrievers=live, apps=apps)

    assert experiment.record.user_system == expected
    line = lay_out(experiment.record, experiment.compared).lead
    name = expected or "bm25/extractive"
    verb = "answers" if "/" in name or name == "app" else "finds the gold of"
    assert line.startswith(f"{name} {verb} ")
    with (experiment.path / "causes.csv").open(encoding="utf-8") as stream:
        counts = Counter(r["cause"] for r in csv.DictReader(stream) if r["system"] == name)
    n = counts.total() - counts["unknown"]
    assert f" {counts['right']} of {n} questions" in line
    for cause, count in counts.items():
        if cause not in ("right", "unknown"):
            assert f"{count} {cause.replace('_', ' ')}" in line
    assert ("in its first 5 hits" in line) == (verb != "answers")
