"""The variance of a difference: against one-way and nested analysis of variance, and by hand."""

import json
import re

import numpy as np
import pytest

from ragbench.experiment.runner import run_experiment
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

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
    return np.array([row["samples"] for row in judgements_of(experiment, system)])


def judgements_of(experiment, system):
    text = (experiment.path / "judgements" / f"{system}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


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


def nested_mean_squares(differences):
    """Mean squares of queries, answers within queries and judgements within answers.

    By least squares: what each nested linear model leaves, less what the next one leaves.
    """
    n, generations, _ = differences.shape
    query, answer, _ = np.indices(differences.shape).reshape(3, -1)
    labels = [np.zeros_like(query), query, query * generations + answer]
    left, ranks = [], []
    for groups in labels:
        design = np.eye(groups.max() + 1)[groups]
        _, residual, rank, _ = np.linalg.lstsq(design, differences.ravel(), rcond=None)
        left.append(residual[0])
        ranks.append(rank)
    squares = [*-np.diff(left), left[-1]]
    freedom = [*np.diff(ranks), differences.size - ranks[-1]]
    assert freedom[:2] == [n - 1, n * (generations - 1)]
    return [square / df for square, df in zip(squares, freedom, strict=True)]


def test_three_parts_are_those_of_nested_analysis_of_variance(config, server_of_answers):
    experiment = sampled_run(config, server_of_answers, generations=3, judgements=2)

    d = np.subtract(*(samples_of(experiment, f"{r}--gpt") for r in ("backwards", "bm25")))
    ids = [row["query_id"] for row in judgements_of(experiment, "bm25--gpt")]
    d = np.stack([d[[at for at, own in enumerate(ids) if own == q]] for q in dict.fromkeys(ids)])
    of_query, of_answer, of_judge = nested_mean_squares(d)
    by_score = {f["measure"]: f["comparisons"] for f in experiment.comparisons["measures"]}
    ((comparison,), (rouge,)) = by_score["answer_relevancy"], by_score["rouge1"]
    parts = comparison["variance"]["components"]
    assert [part["sources"] for part in parts] == [["query"], ["generator"], ["judge"]]
    assert not any(part["confounded"] for part in parts)
    assert [part["variance"] for part in parts] == pytest.approx(
        [
            max((of_query - of_answer) / 6, 0.0),
            max((of_answer - of_judge) / 2, 0.0),
            of_judge,
        ]
    )
    assert of_judge > 0
    design = comparison["variance"]["cheapest_half_as_wide"]
    n, generations, judgements = (design[k] for k in ("queries", "generations", "judgements"))
    of_queries, of_generator, of_judging = (part["variance"] for part in parts)
    per_query = of_queries + (of_generator + of_judging / judgements) / generations
    half = comparison["variance"]["standard_error"] / 2
    assert (per_query / n) ** 0.5 <= half + 1e-12
    assert n == 2 or (per_query / (n - 1)) ** 0.5 > half, "one query less would not do"
    assert comparison["variance"]["generations"] == 3
    assert [p["sources"] for p in rouge["variance"]["components"]] == [["query"], ["generator"]]
    (note,) = (n for n in experiment.summary["notes"] if n.startswith("answer_relevancy"))
    assert re.search(r"each answered \d+ times? and judged \d+ times? \(now 5, 3 times and 2", note)


@pytest.mark.parametrize(
    ("generations", "judgements", "expected"),
    [
        (3, 1, [["query"], ["generator", "judge"]]),
        (1, 2, [["query", "generator"], ["judge"]]),
    ],
)
def test_what_one_run_cannot_tell_apart_stands_together(
    config, server_of_answers, generations, judgements, expected
):
    experiment = sampled_run(config, server_of_answers, generations, judgements)

    by_score = {f["measure"]: f["comparisons"] for f in experiment.comparisons["measures"]}
    parts = by_score["answer_relevancy"][0]["variance"]["components"]
    assert [part["sources"] for part in parts] == expected
    assert [part["confounded"] for part in parts] == [len(each) > 1 for each in expected]
    assert ("variance" in by_score["rouge1"][0]) == (generations > 1)


@pytest.fixture
def server_of_answers(monkeypatch, tmp_path):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    random = np.random.default_rng(29)

    def reply(body, times_asked):
        if "level" not in body["messages"][-1]["content"]:
            return " ".join(random.choice(["Io", "Europa", "an", "ocean", "volcanoes"], 3))
        return json.dumps({"reasoning": "so", "level": int(random.integers(1, 6))})

    with ChatServer(reply, model="m") as server:
        yield server


def sampled_run(config, server, generations, judgements):
    asked = {"type": "openai", "model": "m", "base_url": server.url, "temperature": 1.0}
    judge = {**asked, "samples": judgements, "rubrics": ["answer_relevancy"]}
    config["generators"] = {"gpt": {**asked, "samples": generations, "passages": 3}}
    config["retrievers"] = {"bm25": {"type": "bm25"}}
    config["metrics"] = {"generation": ["rouge1"], "judge": judge}

    def backwards(question, top_k):
        return [f"d{number}" for number in range(6, 0, -1)]

    return run_experiment(config, retrievers={"backwards": backwards})
