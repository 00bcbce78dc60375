"""Budgets of a run: never exceeded by more than a call, a fair sample, a run that can go on."""

import json

import pytest

from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from ragbench.signature import fingerprint
from tests.chat_server import ChatServer
from tests.experiment.moons import FEW_SCORES
from tests.experiment.test_stages import contents
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases
# Questions of a run that a budget ends, and calls that may be under way together.
MANY, AT_ONCE = 24, 16


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    # without it a refused call waits half a second before its second try
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


@pytest.fixture
def server():
    with ChatServer(Script(), model="m", latency_s=0.002) as server:
        yield server


@pytest.fixture
def many(config, data):
    """Questions enough, so that a budget ends in the middle."""
    queries = [{"_id": f"q{i}", "text": f"Which moon has volcano {i}?"} for i in range(MANY)]
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (data / "answers.jsonl").unlink()
    lines = [f"q{i}\td1\t1" for i in range(MANY)]
    (data / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]))
    return config


def judged(config, server, **budget):
    judge = {
        "type": "openai",
        "model": "m",
        "base_url": server.url,
        "rubrics": ["answer_relevancy"],
        "concurrency": AT_ONCE,
        "max_tokens": 50,
    }
    metrics = {**FEW_SCORES, "judge": judge}
    return {**config, "metrics": metrics, **({"budget": budget} if budget else {})}


def scored(experiment, system):
    rows = (experiment.path / "judgements" / f"{system}--extractive.jsonl").read_text()
    rows = [json.loads(line) for line in rows.splitlines()]
    return {row["query_id"] for row in rows if row["status"] == "scored"}


def test_tokens_are_not_exceeded_and_what_is_left_out_is_said(many, server):
    whole = run_experiment(judged(many, server), choices=Choices(limit=5))
    usage = whole.summary["systems"][-1]["judging"]["openai"]["tokens"]
    a_call = (usage["input"] + usage["output"]) / 5
    limit = round(16 * a_call)

    # 48 calls are needed and 16 fit; another seed draws other questions
    experiment = run_experiment(judged({**many, "seed": 5}, server, tokens=limit))

    budget = experiment.summary["budget"]
    assert experiment.exit_code == 3
    # calls under way reserve their largest size, so that much of the limit may stay unspent
    assert 0.3 * limit < budget["spent"]["tokens"] <= limit
    assert budget["spent"]["usd"] is None, "a model without a price has an unknown cost, not 0"
    assert budget["reached"]
    n_missing = sum(budget["missing"].values())
    assert budget["to_finish"]["tokens"] == pytest.approx(n_missing * a_call, rel=0.2)
    assert experiment.summary["warnings"][0].startswith(
        f"the budget was reached: {n_missing} items are left out"
    )
    both = [scored(experiment, system) for system in ("bm25", "exact")]
    assert all(both), "the systems go through the rounds together"
    score = experiment.summary["systems"][-1]["scores"]["answer_relevancy"]
    assert score["failed"]["over_budget"] == MANY - score["n"]


def test_a_budget_that_no_call_fits_into_has_no_sample(many, server):
    experiment = run_experiment(judged(many, server, tokens=1))

    assert server.counters.requests == 0
    assert "; no call fitted into it; " in experiment.summary["warnings"][0]


def test_a_larger_budget_goes_on_and_ends_as_a_run_without_one(many, server):
    # some 400 tokens a call: about half of the 48 calls
    part = run_experiment(judged(many, server, tokens=10_000))
    n_requests = server.counters.requests
    assert part.summary["budget"]["reached"]

    resumed = run_experiment(judged(many, server, tokens=10_000_000))
    assert not resumed.summary["budget"]["reached"]
    assert resumed.exit_code == 0
    assert server.counters.most_asked == 1, "nothing that was paid for is asked again"
    assert server.counters.requests > n_requests

    whole = run_experiment(judged(many, server))
    files, expected = contents(resumed), contents(whole)
    files["summary"].pop("budget")
    assert files == expected


def test_minutes(many, server):
    # the time is over before the first item
    experiment = run_experiment(judged(many, server, minutes=1e-9))

    assert server.counters.requests == 0
    assert experiment.exit_code == 3
    assert "retrieve bm25" in experiment.summary["budget"]["missing"]
    again = run_experiment(judged(many, server, minutes=60))
    assert again.exit_code == 0


def test_minutes_end_an_offline_judge_too(many):
    metrics = {**FEW_SCORES, "judge": {"type": "python:tests.words:context_overlap"}}
    # rankings and answers are stored, so that the judge alone is left to do
    run_experiment({**many, "metrics": FEW_SCORES}, choices=Choices(judge=False))

    experiment = run_experiment({**many, "metrics": metrics, "budget": {"minutes": 1e-9}})

    missing = experiment.summary["budget"]["missing"]
    assert missing["judge bm25/extractive (python:tests.words:context_overlap)"] == MANY


def test_money_needs_a_price(many, server):
    from ragbench.errors import OptionError

    with pytest.raises(OptionError, match="whose price is not known"):
        run_experiment(judged(many, server, usd=1.0))


def test_a_budget_that_ends_among_pairs_or_passages_is_said(many, server):
    # enough for about ten calls: pairs and passages are both cut short
    config = judged(many, server, tokens=4_500)
    config["generators"]["long"] = {"type": "extractive", "sentences": 3}
    judge = config["metrics"].pop("judge") | {"rubrics": ["pairwise"]}
    fill = {"retrieval": {"measures": ["ndcg@10"], "fill": {"judge": "m", "depth": 3}}}
    config["metrics"] |= fill | {"judge": {"m": judge}}

    experiment = run_experiment(config)

    budget = experiment.summary["budget"]
    assert budget["reached"]
    assert {"judge passages", "judge pairs (m)"} <= {*budget["missing"]}
    assert experiment.exit_code == 3


def test_money_is_not_exceeded_at_many_calls_at_once(many, server, tmp_path):
    # dollars per million tokens: output costs ten times as much as input
    (tmp_path / "prices.yaml").write_text("models:\n  m: {input: 10.0, output: 100.0}\n")
    config = judged(many, server, usd=0.15)
    config["metrics"]["judge"]["prices"] = str(tmp_path / "prices.yaml")

    experiment = run_experiment(config)

    budget = experiment.summary["budget"]
    assert budget["reached"]
    assert 0.05 < budget["spent"]["usd"] <= 0.15
    uses = [s["judging"]["openai"] for s in experiment.summary["systems"] if "judging" in s]
    of_server = max(use["usd"] for use in uses)  # equal answers of two systems are paid once
    assert of_server == pytest.approx(budget["spent"]["usd"], abs=1e-4)
    assert server.counters.peak_in_flight > 1, "calls were under way at once"
    done = scored(experiment, "bm25")
    # the order of a fair sample: by the hash of seed and query id, worked here again
    expected = sorted((f"q{i}" for i in range(MANY)), key=lambda query: fingerprint(["13", query]))
    # whoever was asked when the money ran out may be missing, nobody far behind is there
    assert done <= set(expected[: len(done) + AT_ONCE])
