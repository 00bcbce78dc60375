"""The variance of a judged difference: against one-way analysis of variance, and by hand."""

import json
import re

import numpy as np
import pytest

from ragbench.experiment.runner import run_experiment
from ragbench.testing import ChatServer
from ragbench.testing.chat_answers import Answer

QUERIES, SAMPLES = 12, 3


@pytest.fixture
def server(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)

    random = np.random.default_rng(13)

    def reply(body, times_asked):
        number = int(re.search(r"question (\d+)", body["messages"][1]["content"]).group(1))
        level = 1 + number % 3 + int(random.integers(0, 3))
        return Answer(json.dumps({"reasoning": "so", "level": level}))

    with ChatServer(reply, model="m") as server:
        yield server


def run(tmp_path, monkeypatch, server, samples):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"q{i}", "question": f"question {i}", "answer": f"{name} {i}", "system": name}
        for name in ("first", "second")
        for i in range(QUERIES)
    ]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = {"type": "openai", "model": "m", "base_url": server.url, "samples": samples}
    judge |= {"rubrics": ["answer_relevancy"], "concurrency": 1}
    return run_experiment(
        {
            "name": "noise",
            "dataset": {"type": "records", "path": "records.jsonl"},
            "metrics": {"generation": [], "judge": judge},
        }
    )


def samples_of(experiment, system):
    text = (experiment.path / "judgements" / f"{system}.jsonl").read_text()
    return np.array([json.loads(line)["samples"] for line in text.splitlines()])


def test_the_components_are_those_of_one_way_analysis_of_variance(tmp_path, monkeypatch, server):
    experiment = run(tmp_path, monkeypatch, server, SAMPLES)

    d = samples_of(experiment, "second") - samples_of(experiment, "first")
    within = d.var(axis=1, ddof=1).mean()
    between = max(d.mean(axis=1).var(ddof=1) - within / SAMPLES, 0.0)
    ((comparison,),) = (family["comparisons"] for family in experiment.comparisons["measures"])
    of_queries, of_judge = comparison["variance"]["components"]
    assert within > 0
    assert of_queries["variance"] == pytest.approx(between)
    assert of_judge["variance"] == pytest.approx(within)
    assert (of_queries["sources"], of_queries["confounded"]) == (["query", "generator"], True)
    assert (of_judge["sources"], of_judge["df"]) == (["judge"], QUERIES * (SAMPLES - 1))


def test_the_advice_halves_the_standard_error_and_every_page_has_it(tmp_path, monkeypatch, server):
    experiment = run(tmp_path, monkeypatch, server, SAMPLES)

    variance = experiment.comparisons["measures"][0]["comparisons"][0]["variance"]
    design = variance["cheapest_half_as_wide"]
    of_queries, of_judge = (part["variance"] for part in variance["components"])
    error = (of_queries + of_judge / design["judgements"]) / design["queries"]
    assert error**0.5 <= variance["standard_error"] / 2 + 1e-12
    said = f"cheapest with {design['queries']} queries"
    for page in ("report.md", "report.html"):
        assert said in (experiment.path / page).read_text(encoding="utf-8")


def test_one_sample_says_nothing_of_the_judge(tmp_path, monkeypatch, server):
    experiment = run(tmp_path, monkeypatch, server, 1)

    assert "variance" not in experiment.comparisons["measures"][0]["comparisons"][0]
