"""`stop_when: decided`: exact calls, adjusted intervals, the same whatever is stored."""

import json
import re
from typing import NamedTuple

import pytest

from ragbench.comparison.method import look_confidence
from ragbench.errors import ConfigError
from ragbench.experiment.compare import compare
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from ragbench.score.base import Look
from ragbench.stats import interim_interval, spending_bounds
from tests.chat_server import ChatServer
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

QUERIES = 100
LOOKS = (20, 40, 60, 80, 100)
VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE")


def level(text):
    """Answers of `bad` are the worst, with some spread; all others good."""
    number = int(re.search(r"question (\d+)", text).group(1))
    if "bad answer" in text:
        return 1 + (number % 10 == 0)
    return 5 - (number % 7 == 0)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server():
    with ChatServer(Script(level=level), model="m") as server:
        yield server


def config(tmp_path, server, *, other="bad", gates=(), statistics=None, **block):
    """Two systems whose answers are given, and a judge of them on the server."""
    rows = [
        {
            "id": f"q{i}",
            "question": f"question {i}",
            "answer": f"{word} answer {i}",
            "system": name,
            "topic": f"t{i // 2}",
        }
        for name, word in (("first", "good"), ("second", other))
        for i in range(QUERIES)
    ]
    file = tmp_path / "records.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = {
        "type": "openai",
        "model": "m",
        "base_url": server.url,
        "rubrics": ["answer_relevancy"],
        "concurrency": 16,
        **block,
    }
    return {
        "name": "early",
        "dataset": {"type": "records", "path": str(file)},
        "metrics": {"generation": [], "judge": judge},
        "gates": list(gates),
        "statistics": {**(statistics or {})},
    }


class Stopped(NamedTuple):
    """A run that stopped at the second look; nobody changes it."""

    experiment: object
    requests: int


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    with (
        pytest.MonkeyPatch.context() as patch,
        ChatServer(Script(level=level), model="m") as server,
    ):
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        asked = {**config(folder, server, stop_when="decided"), "output": str(folder / "runs")}
        return Stopped(run_experiment(asked), server.counters.requests)


def score(experiment, system="second"):
    found = next(s for s in experiment.summary["systems"] if s["name"] == system)
    return found["scores"]["answer_relevancy"]


def comparison(experiment):
    (family,) = experiment.comparisons["measures"]
    return family["comparisons"][0]


def test_a_clear_difference_stops_at_the_first_look_that_can_tell(stopped):
    experiment, requests = stopped

    early = experiment.summary["early_stopping"]["openai"]
    assert (early["look"], early["judged"], early["queries"]) == (2, 40, 100)
    assert early["stopped"]
    assert early["sizes"] == list(LOOKS)
    assert requests == 2 * 40
    found = score(experiment)
    assert (found["n"], found["failed"], found["not_judged"]) == (40, {}, 60)
    assert found["not_applicable"] == 60, "as files have counted so far: not failed"
    assert experiment.exit_code == 0


def test_controls_are_judged_as_far_as_the_systems(tmp_path, server):
    """They decide nothing, and hold nothing up: two are as good as `second` is bad."""
    made = config(tmp_path, server, stop_when="decided")
    run = run_experiment(
        {**made, "controls": ["no_context", "shuffled_context"]},
        retrievers={"none": lambda question, top_k: []},
        generators={"good": lambda question, contexts: f"good answer to {question}"},
    )

    assert run.summary["early_stopping"]["openai"]["judged"] == 40
    answered = [s for s in run.summary["systems"] if "answer_relevancy" in s["scores"]]
    assert [s["name"] for s in answered] == [
        *("none/good", "no_context/good", "shuffled_context/good", "first", "second")
    ]
    assert {s["scores"]["answer_relevancy"]["n"] for s in answered} == {40}


def test_what_is_not_judged_is_the_same_for_all_systems_and_says_why(stopped):
    experiment = stopped.experiment

    rows = [json.loads(x) for x in (experiment.path / "unscored.jsonl").read_text().splitlines()]
    assert {(row["status"], row["cause"]) for row in rows} == {("not_applicable", "stopped_early")}
    left = [{r["query_id"] for r in rows if r["system"] == s} for s in ("first", "second")]
    assert left[0] == left[1]
    assert len(left[0]) == 60


def test_the_printed_interval_is_that_of_the_look(stopped):
    experiment = stopped.experiment

    scores = experiment.per_query
    d = [
        scores["second"]["answer_relevancy"][q] - value
        for q, value in scores["first"]["answer_relevancy"].items()
        if value == value
    ]
    expected = interim_interval(d, spending_bounds(LOOKS)[1], resamples=10_000, seed=13)
    found = comparison(experiment)
    assert found["interval"] == pytest.approx([expected.lower, expected.upper], abs=1e-12)
    assert (found["p"], found["test"], found["differs"]) == (None, "sequential", True)
    assert found["early"]["judged"] == 40


def test_pages_say_how_far_it_went_and_what_it_saved(stopped):
    experiment = stopped.experiment

    saved = experiment.summary["early_stopping"]["openai"]["saved"]
    used = [s["judging"]["openai"]["tokens"] for s in experiment.summary["systems"]]
    tokens = sum(use["input"] + use["output"] for use in used)
    assert saved["calls"] == 2 * 60
    assert saved["tokens"] == pytest.approx(1.5 * tokens, abs=4), "60 more, after 40"
    assert saved["usd"] is None, "the price of 'm' is not known, which is not 0"
    for page in ("report.md", "report.html"):
        text = (experiment.path / page).read_text(encoding="utf-8")
        assert "stopped early, 40 of 100 queries (look 2 of 5)" in text
    assert "0 not applicable, 60 not judged" in (experiment.path / "report.md").read_text()


def test_equal_systems_are_judged_to_the_end(tmp_path, server):
    experiment = run_experiment(config(tmp_path, server, other="fine", stop_when="decided"))

    early = experiment.summary["early_stopping"]["openai"]
    assert (early["look"], early["judged"], early["stopped"]) == (5, 100, False)
    assert early["saved"] == {"calls": 0, "tokens": 0, "usd": 0.0}
    assert server.counters.requests == 2 * QUERIES
    assert comparison(experiment)["differs"] is False
    assert score(experiment)["not_judged"] == 0


def test_a_gate_asks_less_than_a_comparison(tmp_path, server):
    """Equal systems never differ, but soon they have not dropped by half."""
    gate = {"measure": "answer_relevancy", "max_drop": 0.5}
    experiment = run_experiment(
        config(tmp_path, server, other="fine", gates=[gate], stop_when="decided")
    )

    (verdict,) = experiment.summary["gates"]
    early = experiment.summary["early_stopping"]["openai"]
    assert verdict["verdict"] == "pass"
    assert verdict["interval"][0] > -0.5
    assert 20 <= early["judged"] < 100
    assert server.counters.requests == 2 * early["judged"]


@pytest.mark.parametrize(
    "gate",
    [
        {"max_queries_worse": 50},
        {"max_drop": 0.5, "decide": "mean"},
    ],
    ids=["may still break", "of exactly these queries"],
)
def test_a_gate_over_exactly_these_queries_needs_all_of_them(tmp_path, server, gate):
    gates = [{"measure": "answer_relevancy", **gate}]
    experiment = run_experiment(
        config(tmp_path, server, other="fine", gates=gates, stop_when="decided")
    )

    assert not experiment.summary["early_stopping"]["openai"]["stopped"]
    assert experiment.summary["gates"][0]["verdict"] == "pass"


def test_a_limit_is_decided_when_the_interval_leaves_it(tmp_path, server):
    gates = [{"measure": "answer_relevancy", "min": 0.5, "system": "second"}]
    experiment = run_experiment(config(tmp_path, server, gates=gates, stop_when="decided"))

    assert experiment.summary["early_stopping"]["openai"]["judged"] == 40
    assert experiment.summary["gates"][0]["verdict"] == "fail"
    assert score(experiment)["interval"][1] < 0.5


def test_nothing_that_is_stored_changes_where_it_stops(tmp_path, server):
    whole = run_experiment(config(tmp_path, server))
    assert server.counters.requests == 2 * QUERIES

    experiment = run_experiment(config(tmp_path, server, stop_when="decided"))

    assert server.counters.requests == 2 * QUERIES, "stored verdicts are used"
    assert experiment.summary["early_stopping"]["openai"]["judged"] == 40
    assert score(whole)["n"] == 100
    assert score(experiment)["n"] == 40


def test_without_it_the_rest_is_judged_and_no_more(tmp_path, server):
    first = run_experiment(config(tmp_path, server, stop_when="decided"))
    again = run_experiment(config(tmp_path, server, stop_when="decided"))
    assert server.counters.requests == 2 * 40
    assert score(first) == score(again)
    assert first.comparisons == again.comparisons

    whole = run_experiment(config(tmp_path, server))
    assert server.counters.requests == 2 * QUERIES
    assert server.counters.most_asked == 1
    assert score(whole)["n"] == QUERIES
    assert "not_judged" not in score(whole)
    assert "early_stopping" not in whole.summary


def test_bets_stop_too_and_may_be_looked_at_any_time(tmp_path, server):
    experiment = run_experiment(config(tmp_path, server, stop_when="decided", always_valid=True))

    found = comparison(experiment)
    early = experiment.summary["early_stopping"]["openai"]
    assert (found["rule"], found["test"], found["differs"]) == ("betting", "betting", True)
    assert early["judged"] < QUERIES
    low, high = found["interval"]
    assert low <= found["difference"] <= high < 0


def test_clusters_are_judged_whole(tmp_path, server):
    statistics = {"cluster": "metadata.topic"}
    experiment = run_experiment(
        config(tmp_path, server, statistics=statistics, stop_when="decided")
    )

    early = experiment.summary["early_stopping"]["openai"]
    assert early["sizes"] == [10, 20, 30, 40, 50]
    scores = experiment.per_query["second"]["answer_relevancy"]
    judged = {int(q[1:]) for q, value in scores.items() if value == value}
    assert judged == {i for k in judged for i in (k - k % 2, k - k % 2 + 1)}


def test_runs_that_stopped_are_compared_with_the_same_interval(stopped):
    experiment = stopped.experiment

    (found,) = compare(experiment.path).differences
    assert found["interval"] == comparison(experiment)["interval"]
    assert found["p"] is None


@pytest.mark.parametrize(
    ("block", "statistics", "message"),
    [
        ({"always_valid": True}, {}, "'always_valid' means nothing without 'stop_when'"),
        (
            {"always_valid": True, "stop_when": "decided"},
            {"cluster": "metadata.topic"},
            "bets are on single queries, and the units are clusters",
        ),
        ({"stop_when": "decidd"}, {}, "did you mean 'decided'"),
        (
            {"stop_when": "decided", "rubrics": ["pairwise"]},
            {},
            "'stop_when' means nothing where every rubric compares two answers",
        ),
    ],
)
def test_what_means_nothing_is_refused(tmp_path, server, block, statistics, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        run_experiment(config(tmp_path, server, statistics=statistics, **block))


def test_one_system_without_a_gate_asks_nothing_that_could_be_decided(tmp_path, server):
    plain = config(tmp_path, server, stop_when="decided")
    experiment = run_experiment(plain, choices=Choices(only=["first"]))

    assert not experiment.summary["early_stopping"]["openai"]["stopped"]
    assert server.counters.requests == QUERIES


def test_looks_together_have_the_stated_confidence():
    """The last of five looks: z is 2.031, as tables of O'Brien-Fleming spending have it."""
    look = Look(5, LOOKS, judged=100, queries=100)

    assert look_confidence(look, 0.95) == pytest.approx(0.95775, abs=1e-4)
    assert look_confidence(None, 0.95) == 0.95
