"""Judged runs against a chat server: what is sent, what is kept, what is resumed, what leaks."""

import json
import shutil
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import yaml

from ragbench.config.load import load_config
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages.graph import plan_run
from ragbench.llm import Replies
from ragbench.records.codec import to_json
from ragbench.records.manifest import Choices
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric
from tests.chat_server import ChatServer
from tests.chat_server.answers import Answer
from tests.commands import run_command
from tests.experiment.moons import FEW_SCORES
from tests.score.judge.scripted import Held, Script
from tests.store.rows import query

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

GROUNDED = [name for name in built_in_rubrics() if load_rubric(name).method == "claims"]
SECRET = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No key, no server and no cache but those that a test sets; tries follow one another fast."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


@pytest.fixture
def server():
    with ChatServer(Script(), model="m-2024-07-18") as server:
        yield server


def judged(config, server, **block):
    """The config with one retriever and a judge on the server."""
    judge = {"type": "openai", "model": "m", "base_url": server.url, **block}
    judge.setdefault("rubrics", ["faithfulness", "answer_relevancy"])
    retrievers = {"bm25": config["retrievers"]["bm25"]}
    return {**config, "retrievers": retrievers, "metrics": {**FEW_SCORES, "judge": judge}}


def rows(experiment, system):
    text = (experiment.path / "judgements" / f"{system}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def scores(experiment):
    """Return the contents of a run that must not depend on interruptions."""
    systems = experiment.summary["systems"]
    folder = experiment.path / "judgements"
    return systems, {file.name: file.read_text() for file in sorted(folder.iterdir())}


def test_a_judged_run(config, server):
    experiment = run_experiment(judged(config, server))

    pair = next(s for s in experiment.summary["systems"] if s["name"] == "bm25/extractive")
    score = pair["scores"]["answer_relevancy"]
    assert (score["mean"], score["judge"], score["model"]) == (0.75, "openai", "m-2024-07-18")
    assert "|model:m-2024-07-18|rubric:" in score["signature"]
    assert server.url not in json.dumps(experiment.summary)
    use = pair["judging"]["openai"]
    assert use["tokens"]["input"] > 0
    assert use["usd"] is None, "the price of 'm' is not known, which is not 0"
    verdicts = rows(experiment, "bm25--extractive")
    assert {row["rubric"] for row in verdicts} == {"faithfulness", "answer_relevancy"}
    assert all('"reasoning"' in r["raw"] for r in verdicts if r["rubric"] == "answer_relevancy")
    assert sum(row["usage"]["input_tokens"] for row in verdicts) == use["tokens"]["input"]


def test_a_rubric_may_stand_in_the_config(config, server, tmp_path, assert_message):
    tone = {"name": "tone", "needs": ["answer"], "scale": {1: "rude", 3: "neutral", 5: "warm"}}
    gate = {"measure": "tone", "min": 0.1}
    first = run_experiment({**judged(config, server, rubrics=["fluency", tone]), "gates": [gate]})
    assert "rude" in str(server.received)
    score = next(s for s in first.summary["systems"] if s["generator"])["scores"]["tone"]
    assert score["n"] > 0
    assert not score["failed"]

    n_requests = len(server.received)
    again = run_experiment(first.path / "config.yaml")
    assert len(server.received) == n_requests, "the config in the run folder says the same"
    assert scores(again) == scores(first)

    worse = {**tone, "asks": "answr"}
    with pytest.raises(ConfigError) as error:
        run_experiment(judged(config, server, rubrics=[worse]))
    assert_message(error.value, "metrics.judge.rubrics.0")


def test_a_second_run_sends_nothing_and_says_the_same(config, server, tmp_path):
    first = run_experiment(judged(config, server))
    sent = server.counters.requests
    second = run_experiment(judged(config, server))

    assert server.counters.requests == sent > 0
    assert server.counters.most_asked == 1
    assert scores(first) == scores(second)
    manifests = [json.loads((e.path / "manifest.json").read_text()) for e in (first, second)]
    uses = [m["judging"]["bm25/extractive"]["openai"] for m in manifests]
    assert (uses[0]["calls"] > 0, uses[1]["calls"], uses[1]["tokens"]["input"]) == (True, 0, 0)
    assert uses[1]["stored"] == 0, "verdicts are stored as well: no reply is looked up"
    assert all(work["items"] == work["stored"] for work in manifests[1]["work"].values())
    assert (tmp_path / ".ragbench" / "replies.sqlite").is_file()
    lines = (first.path / "prompts.jsonl").read_text().splitlines()
    assert len(lines) > 1
    assert lines == sorted(lines), "in the order of their ids, however they were found"
    assert (second.path / "prompts.jsonl").read_text().splitlines() == lines


def test_a_plan_counts_the_missing_rubrics_of_judged_answers(config, server, tmp_path):
    run_experiment(judged(config, server, rubrics=["fluency"]), choices=Choices(limit=3))
    # stored replies would cost no call
    (tmp_path / ".ragbench" / "replies.sqlite").unlink()
    more = judged(config, server, rubrics=["fluency", "answer_relevancy"])
    settings = load_config({**more, "retrievers": config["retrievers"]})

    plan = make_plan(settings, load_collection(settings), Choices(), LiveComponents())

    # three answers have a verdict on fluency, two have none; five of another system are not made
    n_calls = 3 + 2 * 2 + 5 * 2
    assert plan_run(plan).cost.calls == (n_calls, n_calls)


def test_all_grounded_rubrics_split_and_check_once(config, server):
    # Two systems, eleven numbers: no message list is sent twice, and no more than they need.
    both = {"retrievers": config["retrievers"]}
    part = Choices(limit=3)
    experiment = run_experiment(judged(config, server, rubrics=GROUNDED) | both, choices=part)

    assert len(experiment.summary["systems"][-1]["scores"]) - 1 == len(GROUNDED) == 11
    assert server.counters.most_asked == 1
    n_before = server.counters.requests
    run_experiment(judged(config, server, rubrics=GROUNDED[:3]) | both, choices=part)
    assert server.counters.requests == n_before, "fewer rubrics ask nothing new"


def test_cost_from_a_price_table(config, server, tmp_path):
    (tmp_path / "prices.yaml").write_text("models:\n  m: {input: 1.0, output: 10.0}\n")
    experiment = run_experiment(
        judged(config, server, prices=str(tmp_path / "prices.yaml"), rubrics=["fluency"])
    )
    manifest = json.loads((experiment.path / "manifest.json").read_text())

    for system in experiment.summary["systems"]:
        if "judging" not in system:
            continue
        use = system["judging"]["openai"]
        assert use["usd"] == pytest.approx(
            (use["tokens"]["input"] + 10 * use["tokens"]["output"]) / 1e6
        )
    paid = sum(use["openai"]["usd"] for use in manifest["judging"].values())
    assert (
        0
        < paid
        <= sum(
            s["judging"]["openai"]["usd"] for s in experiment.summary["systems"] if "judging" in s
        )
    )
    saved = yaml.safe_load((experiment.path / "config.yaml").read_text())
    prices = experiment.path / saved["metrics"]["judge"]["prices"]
    assert prices.resolve() == tmp_path / "prices.yaml"


def test_replay_needs_no_server_and_no_key_and_fails_on_what_is_missing(config, tmp_path):
    with ChatServer(Script()) as server:
        experiment = run_experiment(judged(config, server))
        replayed = run_experiment(judged(config, server), choices=Choices(judge_replay=True))
        sent = server.counters.requests
    again = run_experiment(judged(config, server), choices=Choices(judge_replay=True))

    assert scores(experiment) == scores(replayed) == scores(again)
    with pytest.raises(DataError, match=r"replies\.sqlite: "):
        run_experiment(
            judged(config, server, rubrics=["fluency"]), choices=Choices(judge_replay=True)
        )
    assert server.counters.requests == sent
    shutil.rmtree(tmp_path / ".ragbench")
    with pytest.raises(DataError, match=r"\.ragbench/replies\.sqlite"):
        run_experiment(judged(config, server), choices=Choices(judge_replay=True))


def test_the_cache_lies_where_the_environment_says(config, server, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "elsewhere"))
    run_experiment(judged(config, server))

    assert (tmp_path / "elsewhere" / "replies.sqlite").is_file()
    assert not (tmp_path / ".ragbench").exists()


def test_named_judges_and_a_jury(config, server):
    common = {"type": "openai", "base_url": server.url, "rubrics": ["answer_relevancy"]}
    config["metrics"] = {
        "judge": {
            "one": {**common, "model": "a"},
            "jury": {**common, "models": ["a", "b"], "combine": "median"},
            "words": {"type": "python:tests.words:question_overlap"},
        }
    }
    experiment = run_experiment(config)

    pair = experiment.summary["systems"][1]["scores"]
    one, jury = (pair[f"answer_relevancy(judge={name})"] for name in ("one", "jury"))
    assert (one["judge"], one["mean"], one.get("spread")) == ("one", 0.75, None)
    assert (jury["judge"], jury["mean"], jury["spread"]) == ("jury", 0.75, 0.0)
    assert "combine:median" in jury["signature"]
    assert pair["question_overlap(judge=words)"]["model"] == "tests.words:question_overlap"
    assert server.counters.most_asked <= 2, "the jury reads what model a told the first judge"


def test_failures_are_counted_by_cause_with_bounds(config):
    good = Script()

    def script(body, times_asked):
        if "Ganymede" in str(body["messages"][1]):
            return "I would rather not say."
        return good(body, times_asked)

    with ChatServer(script) as server:
        experiment = run_experiment(judged(config, server, rubrics=["answer_relevancy"]))

    pair = experiment.summary["systems"][1]
    score = pair["scores"]["answer_relevancy"]
    failed = score["failed"].get("unreadable", 0)
    assert failed > 0
    assert score["mean"] == 0.75
    n = score["n"] + failed
    low = 0.75 * score["n"] / n
    assert score["bounds"] == pytest.approx([low, low + failed / n])
    assert not experiment.summary["complete"]
    sentence = f"{failed} of {n} verdicts on answer_relevancy failed ({failed} unreadable)"
    [warning] = [text for text in experiment.summary["warnings"] if sentence in text]
    assert "the mean is over the others" in warning
    raw = [r["raw"] for r in rows(experiment, "bm25--extractive") if r["status"] == "failed"]
    assert raw
    assert all("I would rather not say." in text for text in raw)


def test_where_every_verdict_failed_no_mean_is_over_others(config):
    with ChatServer(lambda body, times_asked: "I would rather not say.") as server:
        experiment = run_experiment(judged(config, server, rubrics=["answer_relevancy"]))

    summary = experiment.summary
    score = summary["systems"][1]["scores"]["answer_relevancy"]
    assert (score["mean"], score["n"]) == (None, 0)
    n = score["failed"]["unreadable"]
    [warning] = [text for text in summary["warnings"] if "verdicts on answer_relevancy" in text]
    assert f"{n} of {n} verdicts" in warning
    assert "the others" not in warning


def test_without_a_key_the_run_stops_before_it_starts(config, tmp_path, assert_message):
    block = {"type": "openai", "model": "m", "rubrics": ["fluency"]}
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump({**config, "metrics": {"judge": block}}))

    with pytest.raises(ConfigError) as error:
        run_experiment(path)
    assert_message(error.value, "TMP/exp.yaml:10:3")

    assert not (tmp_path / "runs").exists()


def test_a_judge_that_runs_only_where_it_can_is_skipped_and_said(config, assert_message):
    block = {"type": "openai", "model": "m", "rubrics": ["fluency"], "when": "available"}
    experiment = run_experiment({**config, "metrics": {**FEW_SCORES, "judge": block}})

    assert experiment.summary["skipped_judges"] == {"openai": "OPENAI_API_KEY is not set"}
    assert_message(experiment.summary["warnings"])
    assert "openai was skipped" in (experiment.path / "report.md").read_text()


def test_names_of_scores_do_not_depend_on_whether_a_key_is_set(config):
    config["metrics"] = {
        "generation": [],
        "judge": {
            "words": {"type": "python:tests.words:question_overlap"},
            "gpt": {"type": "openai", "model": "m", "when": "available"},
        },
    }
    scores = run_experiment(config).summary["systems"][1]["scores"]

    assert list(scores) == ["right", "question_overlap(judge=words)"]
    assert scores["question_overlap(judge=words)"]["judge"] == "words"


def test_a_planted_key_is_found_nowhere(config, tmp_path, monkeypatch, capfd):
    # Servers echo keys in errors and replies; neither folder, cache nor output may hold it.
    monkeypatch.setenv("MY_KEY", SECRET)
    good = Script()

    def script(body, times_asked):
        if "moon" in str(body["messages"][1]).lower() and times_asked == 0:
            return Answer(f"Incorrect API key provided: {SECRET}", status=400)
        answer = good(body, times_asked)
        return Answer(answer.text.replace("since it is so", f"the key is {SECRET}"))

    with ChatServer(script) as server:
        block = {"api_key_env": "MY_KEY", "base_url": "${SERVER}", "retries": 0}
        monkeypatch.setenv("SERVER", server.url)
        experiment = run_experiment(judged(config, server, **block))
        assert any(SECRET in received.headers["authorization"] for received in server.received)

    assert experiment.summary["systems"][1]["scores"]["answer_relevancy"]["failed"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "replies.sqlite" for path in files)
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in "".join(capfd.readouterr())
    stored = query(tmp_path / ".ragbench" / "replies.sqlite", "SELECT item FROM rows")
    with Replies(tmp_path / ".ragbench" / "replies.sqlite") as replies:
        rows_of_store = [replies.get(key) for (key,) in stored]
    assert rows_of_store
    assert all(SECRET not in json.dumps(to_json(reply)) for reply in rows_of_store)


def test_an_address_with_a_password_is_refused_without_showing_it(config, assert_message):
    config["metrics"] = {
        "judge": {"type": "openai", "model": "m", "base_url": f"http://me:{SECRET}@127.0.0.1:9/v1"}
    }
    with pytest.raises(ConfigError) as caught:
        run_experiment(config)
    assert_message(caught.value, "metrics.judge.base_url")

    assert SECRET not in str(caught.value)


@pytest.mark.slow
def test_a_killed_run_pays_for_nothing_twice(config, tmp_path, warm):
    # Kill -9 in the middle, the same command again: the result of an undisturbed run.
    script = Held(Script(), hold_after=12)
    with ChatServer(script) as server:
        concurrency = 2
        path = tmp_path / "exp.yaml"
        block = {"concurrency": concurrency, "rubrics": GROUNDED[:4]}
        both = {"retrievers": config["retrievers"]}
        path.write_text(yaml.safe_dump(judged(config, server, **block) | both))
        process = warm.start("run", path, "--json", cwd=tmp_path)
        while server.counters.requests <= 12 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        script.release()
        assert not list((tmp_path / "runs").rglob("summary.json")), "it was killed too late"
        done = run_command("run", path, "--json", cwd=tmp_path)

        assert done.returncode == 0, done.stderr
        repeated = sum(server.counters.asked.values()) - len(server.counters.asked)
        assert repeated <= concurrency
        assert server.counters.most_asked <= 2
        resumed = json.loads(done.stdout)["systems"]
        shutil.rmtree(tmp_path / ".ragbench")
        undisturbed = run_experiment(path).summary["systems"]
    assert resumed == undisturbed


def test_progress_is_told_item_by_item(config, server):
    progress = {}

    class Recording:
        @contextmanager
        def stage(self, name, total, unit="queries"):
            steps = progress.setdefault(name, [])
            yield SimpleNamespace(advance=lambda n=1: steps.append(n))
            steps.append(f"of {total}")

    run_experiment(judged(config, server), progress=Recording())

    assert progress["judge bm25/extractive (openai)"] == [1, 1, 1, 1, 1, "of 5"]


def test_a_server_that_answers_as_two_models_is_a_warning(config):
    class Changing(ChatServer):
        def answer_to(self, body):
            self.model = "m-1" if "volcanoes" in str(body["messages"]) else "m-2"
            return super().answer_to(body)

    with Changing(Script()) as server:
        experiment = run_experiment(judged(config, server, rubrics=["answer_relevancy"]))

    score = experiment.summary["systems"][1]["scores"]["answer_relevancy"]
    assert score["model"] == "m-1+m-2"
    sentence = "judge openai: the server answered as 2 models, m-1, m-2: the scores are a mixture"
    assert any(sentence in warning for warning in experiment.summary["warnings"])


def test_a_replay_of_the_default_server_needs_no_key(config, server):
    # A replay lacks a reply, not the key.
    run_experiment(judged(config, server))
    block = {"type": "openai", "model": "m", "rubrics": ["fluency"], "when": "available"}
    config["metrics"] = {**FEW_SCORES, "judge": block}

    with pytest.raises(DataError, match="no reply from 'm'"):
        run_experiment(config, choices=Choices(judge_replay=True))
