"""Pairs of systems judged in a run: how many calls, what is written, what a failure does."""

import json

import pytest
import yaml

from ragbench.errors import ConfigError
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from ragbench.report.formats.markdown import escape
from ragbench.report.results import render_terminal
from tests.chat_server import ChatServer
from tests.experiment.moons import FEW_SCORES, QUERIES
from tests.messages import lines_with
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

JUDGE_MODULE = '''
from ragbench.types import Verdict

class Longest:
    """Prefers the longer answer; needs no server."""

    label, model, served, options = "length", "length/1", None, {}

    def judge(self, item, rubric):
        a, b = len(item.answer), len(item.other)
        return Verdict(0.5 if a == b else float(a > b), reasoning="by length")
'''


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No key and no cache but those that a test sets; tries follow one another fast."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


def answering(name):
    """A generator whose answers are like nobody else's."""
    return lambda question, contexts: f"{question} That is what {name} says."


def preferring(order):
    """A model that prefers the systems in an order, whatever the place; equal names are ties."""

    def outcome(text):
        answers = text.split("That is what ")[1:]
        a, b = (order.index(part.split(" says")[0]) for part in answers[:2])
        return "A" if a < b else "B"

    return outcome


def config_of(config, server, **block):
    judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["pairwise"]}
    metrics = {"retrieval": {"measures": []}, "generation": [], "judge": {**judge, **block}}
    return {
        **config,
        "retrievers": {"bm25": {"type": "bm25"}},
        "generators": {},
        "metrics": metrics,
    }


def generators(names):
    return {name: answering(name) for name in names}


def rows(experiment, name="openai"):
    text = (experiment.path / "judgements" / "pairs" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_every_two_systems_in_both_orders(config):
    # Three systems, five queries: 3 pairs x 5 queries x 2 orders, and nothing the second time.
    with ChatServer(Script(outcome=preferring("cab")), model="m-1") as server:
        source = config_of(config, server)
        experiment = run_experiment(source, generators=generators("abc"))
        assert server.counters.requests == 3 * len(QUERIES) * 2
        again = run_experiment(source, generators=generators("abc"))
        assert server.counters.requests == 3 * len(QUERIES) * 2

    (entry,) = experiment.comparisons["preferences"]
    assert again.comparisons["preferences"] == [entry]
    assert [(s["system"], s["rank"]) for s in entry["systems"]] == [
        ("bm25/a", 2), ("bm25/b", 3), ("bm25/c", 1),
    ]  # fmt: skip
    assert [(c["wins"], c["losses"], c["n"]) for c in entry["comparisons"]] == [
        (5, 0, 5), (0, 5, 5), (0, 5, 5),
    ]  # fmt: skip
    assert entry["rule"] == "plus_tie"
    assert (entry["model"], entry["pairs"], entry["baseline"]) == ("m-1", "all", None)
    verdicts = rows(experiment)
    assert len(verdicts) == 15
    assert {(row["system"], row["other"]) for row in verdicts} == {
        ("bm25/a", "bm25/b"), ("bm25/a", "bm25/c"), ("bm25/b", "bm25/c"),
    }  # fmt: skip
    (table,) = experiment.summary["preferences"]
    assert table["systems"] == entry["systems"]
    assert (
        table["judging"]["tokens"]["input"] == sum(r["usage"]["input_tokens"] for r in verdicts) > 0
    )
    manifests = [json.loads((e.path / "manifest.json").read_text()) for e in (experiment, again)]
    assert [m["judging_pairs"]["openai"]["calls"] for m in manifests] == [30, 0]
    assert experiment.exit_code == 0
    assert not any("nothing was scored" in text for text in experiment.summary["warnings"])


def test_a_judge_that_prefers_a_place_finds_no_difference(config):
    with ChatServer(Script(outcome=lambda text: "A")) as server:
        experiment = run_experiment(config_of(config, server), generators=generators("ab"))

    (pair,) = experiment.comparisons["preferences"][0]["comparisons"]
    assert (pair["wins"], pair["ties"], pair["losses"], pair["win_rate"]) == (0, 5, 0, 0.5)
    assert pair["differs"] is False


@pytest.mark.parametrize(
    ("names", "block", "calls"),
    [
        pytest.param("abcd", {}, 6 * 2 * 2, id="four: every two"),
        pytest.param("abcde", {}, 4 * 2 * 2, id="five: each against the baseline"),
        pytest.param("abcde", {"pairs": "all"}, 10 * 2 * 2, id="five, all asked for"),
        pytest.param("abc", {"pairs": "baseline"}, 2 * 2 * 2, id="three, baseline asked for"),
    ],
)
def test_which_pairs_and_how_many_calls(config, names, block, calls):
    # Over two queries, in both orders.
    with ChatServer(Script(outcome=preferring(names))) as server:
        experiment = run_experiment(
            config_of(config, server, **block),
            generators=generators(names),
            choices=Choices(limit=2),
        )
        assert server.counters.requests == calls

    (entry,) = experiment.comparisons["preferences"]
    assert [system["rank"] for system in entry["systems"]][-1] is not None
    if entry["baseline"] is not None:
        assert {pair["other"] for pair in entry["comparisons"]} == {"bm25/a"}


def test_failures_are_counted_by_cause_and_make_the_run_incomplete(config):
    good = Script(outcome=preferring("ab"))

    def script(body, times_asked):
        if "largest" in str(body["messages"][1]):
            return "I would rather not say."
        return good(body, times_asked)

    with ChatServer(script) as server:
        experiment = run_experiment(config_of(config, server), generators=generators("ab"))

    (pair,) = experiment.comparisons["preferences"][0]["comparisons"]
    assert (pair["n"], pair["failed"]) == (4, {"unreadable": 1})
    assert pair["bounds"] == pytest.approx([4 / 5, 1.0])
    assert experiment.exit_code == 3
    sentence = "pairs: judge openai: 1 of 5 verdicts on pairwise failed (1 unreadable)"
    assert any(sentence in warning for warning in experiment.summary["warnings"])


def test_a_system_that_fails_on_a_query_fails_its_pairs_there(config):
    def broken(question, contexts):
        if "ocean" in question:
            raise RuntimeError("no words")
        return answering("b")(question, contexts)

    with ChatServer(Script(outcome=preferring("ab"))) as server:
        experiment = run_experiment(
            config_of(config, server), generators={"a": answering("a"), "b": broken}
        )
        assert server.counters.requests == 4 * 2

    (pair,) = experiment.comparisons["preferences"][0]["comparisons"]
    assert (pair["n"], pair["failed"]) == (4, {"error": 1})


def test_equal_answers_cost_nothing(config):
    same = {"a": answering("x"), "b": answering("x")}
    with ChatServer(Script()) as server:
        experiment = run_experiment(config_of(config, server), generators=same)
        assert server.counters.requests == 0

    (pair,) = experiment.comparisons["preferences"][0]["comparisons"]
    assert (pair["ties"], pair["same_answer"]) == (5, 5)


def test_with_other_rubrics_and_one_system(config):
    # The other rubrics are scores as ever; a single system has nobody to be compared with.
    with ChatServer(Script()) as server:
        source = config_of(config, server, rubrics=["answer_relevancy", "pairwise"])
        experiment = run_experiment(source, generators=generators("a"))

    assert list(experiment.summary["systems"][1]["scores"]) == ["right", "answer_relevancy"]
    assert "preferences" not in experiment.comparisons
    sentence = "judge openai: pairwise compares two systems; there is 1 system that answers"
    assert sentence in experiment.summary["warnings"]


def test_a_judge_of_ones_own_without_a_server(config, tmp_path, assert_message):
    (tmp_path / "prefers.py").write_text(JUDGE_MODULE)
    judge = {"type": "python:prefers:Longest", "rubrics": ["pairwise"]}
    source = {
        **config,
        "generators": {
            "short": {"type": "extractive", "sentences": 1},
            "long": {"type": "extractive", "sentences": 3},
        },
        "metrics": {**FEW_SCORES, "judge": judge},
    }
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(source))
    experiment = run_experiment(path)

    (entry,) = experiment.comparisons["preferences"]
    assert entry["model"] == "length/1"
    by_name = {system["system"]: system for system in entry["systems"]}
    assert by_name["bm25/long"]["win_rate"] > by_name["bm25/short"]["win_rate"]
    report = (experiment.path / "report.md").read_text()
    assert f"preference (judge {escape(judge['type'])}): pairwise" in report
    page = render_terminal(experiment.record, experiment.compared)
    assert_message(lines_with(page, "bm25/long over", "with 95"))
    assert "preference (judge" in (experiment.path / "report.html").read_text()


def test_no_judge_means_no_pairs(config):
    with ChatServer(Script()) as server:
        experiment = run_experiment(
            config_of(config, server), generators=generators("ab"), choices=Choices(judge=False)
        )

    assert server.counters.requests == 0
    assert "preferences" not in experiment.summary


def test_pairs_without_a_rubric_of_pairs_is_a_mistake(config, assert_message):
    block = {"type": "python:tests.words:context_overlap", "pairs": "all"}
    with pytest.raises(ConfigError) as error:
        run_experiment({**config, "metrics": {"judge": block}})
    assert_message(error.value, "metrics.judge.pairs")
