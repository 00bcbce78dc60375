"""Generators that ask models: their replies are on disk, their keys are missed before the run."""

import pytest
import yaml

from ragbench.errors import ConfigError, DataError
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.experiment.moons import FEW_SCORES
from tests.experiment.test_stages import contents

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


@pytest.fixture
def server():
    with ChatServer("Io has volcanoes.", model="m") as server:
        yield server


def asking(config, server, **options):
    entry = {"type": "openai", "model": "m", "base_url": server.url, **options}
    retrievers = {"bm25": config["retrievers"]["bm25"]}
    metrics = {**FEW_SCORES, "generation": ["rouge1"]}
    return {**config, "retrievers": retrievers, "generators": {"gpt": entry}, "metrics": metrics}


def test_replies_are_kept_beside_what_stages_keep(config, server, tmp_path):
    # A replay needs them; another option asks again.
    replay = Choices(judge_replay=True)
    with pytest.raises(DataError, match="no such store of replies"):
        run_experiment(asking(config, server), choices=replay)
    first = run_experiment(asking(config, server), choices=Choices(judge=False))
    sent = server.counters.requests
    (tmp_path / "cache" / "cache.sqlite").unlink()
    second = run_experiment(asking(config, server), choices=Choices(judge=False))
    assert server.counters.requests == sent > 0
    assert contents(first) == contents(second)

    run_experiment(asking(config, server), choices=replay)
    assert server.counters.requests == sent

    run_experiment(asking(config, server, temperature=1.0), choices=Choices(judge=False))
    assert server.counters.requests == 2 * sent


def test_without_a_key_the_run_stops_before_it_starts(config, tmp_path, assert_message):
    generators = {"gpt": {"type": "openai", "model": "m"}}
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump({**config, "generators": generators}))

    with pytest.raises(ConfigError) as error:
        run_experiment(path)
    assert_message(error.value, "TMP/exp.yaml:6:3")
    assert not (tmp_path / "runs").exists()


def test_a_budget_holds_for_answers_too(config, server):
    experiment = run_experiment(
        {**asking(config, server, max_tokens=20), "budget": {"tokens": 450}},
        choices=Choices(judge=False),
    )

    budget = experiment.summary["budget"]
    assert budget["spent"]["tokens"] <= 450
    assert budget["reached"]
    assert "generate bm25/gpt" in budget["missing"]
    assert experiment.exit_code == 3


def test_a_refusal_is_a_failure_by_its_cause(config):
    with ChatServer(Answer("", refusal="I will not."), model="m") as server:
        experiment = run_experiment(asking(config, server), choices=Choices(judge=False))

    [pair] = [s for s in experiment.summary["systems"] if s["name"] == "bm25/gpt"]
    assert pair["scores"]["rouge1"]["failed"] == {"refused": 4}


def test_a_plan_estimates_answers_and_says_what_key_is_missing(
    config, server, tmp_path, assert_message
):
    from click.testing import CliRunner

    from ragbench.cli import group

    entry = {"type": "openai", "model": "gpt-4o-mini", "base_url": server.url}
    config = {**config, "generators": {"gpt": entry}, "controls": ["no_context"]}
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(config))

    plan_text = " ".join(
        CliRunner().invoke(group, ["plan", str(path), "--no-judge"]).stdout.split()
    )
    assert server.counters.requests == 0
    assert_message(plan_text)
    assert "models: 15 calls, " in plan_text
    run_experiment(path, choices=Choices(judge=False))
    after = " ".join(CliRunner().invoke(group, ["plan", str(path), "--no-judge"]).stdout.split())
    assert "generate bm25/gpt stored" in after
    assert_message(after)
    assert server.counters.requests <= 15

    del entry["base_url"]
    path.write_text(yaml.safe_dump(config))
    for command in ("plan", "validate"):
        error = CliRunner().invoke(group, [command, str(path)]).exception
        assert_message(str(error))
        assert error.exit_code == 2


def test_what_failed_is_asked_again_only_where_that_is_asked_for(config):
    # Answers and verdicts alike: the server speaks nonsense first, and sense later.
    sane = []

    def script(body, times_asked):
        judging = "response_format" in body
        if not sane:
            return Answer("no JSON") if judging else Answer("", refusal="no")
        return Answer('{"reasoning": "r", "level": 5}' if judging else "Io")

    with ChatServer(script, model="m") as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["fluency"]}
        metrics = {**FEW_SCORES, "generation": ["rouge1"], "judge": judge}
        run = {**asking(config, server), "metrics": metrics}
        run["generators"]["extractive"] = {"type": "extractive"}
        failing = run_experiment(run)
        sane.append(True)
        sent = server.counters.requests
        resumed = run_experiment(run)
        assert server.counters.requests == sent, "failures are kept"
        mended = run_experiment(run, choices=Choices(retry_failed=True))

    def failed(experiment, system, score):
        [summary] = [s for s in experiment.summary["systems"] if s["name"] == system]
        return summary["scores"][score]["failed"]

    assert failed(failing, "bm25/gpt", "rouge1") == {"refused": 4}
    assert failed(failing, "bm25/extractive", "fluency") == {"unreadable": 5}
    assert contents(resumed) == contents(failing)
    assert failed(mended, "bm25/gpt", "rouge1") == {}
    assert failed(mended, "bm25/extractive", "fluency") == {}
    assert mended.exit_code == 0


def test_a_run_tells_what_it_paid_for_answers(config, server, tmp_path):
    (tmp_path / "prices.yaml").write_text("models: {m: {input: 1000, output: 2000}}")
    entries = asking(config, server, prices=str(tmp_path / "prices.yaml"))

    first, second = (run_experiment(entries).summary for _ in range(2))

    tokens = first["systems"][-1]["tokens"]
    expected = (tokens["input"] * 1000 + tokens["output"] * 2000) / 1e6
    assert first["cost"] == {
        "usd": pytest.approx(expected, abs=1e-6),
        "by": {"generator gpt": pytest.approx(expected, abs=1e-6)},
    }
    assert second["cost"] == {"usd": 0.0, "by": {"generator gpt": 0.0}}
