"""`ragbench calibrate` of a language model's verdicts: asked again, drawn and certified."""

import json
import shutil

import pytest
import yaml

from tests.calibration.trial import judged
from tests.chat_server import ChatServer
from tests.cli.bridges import bridge_records, label
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs and servers
KEY = "sk-the-users-own-key"


@pytest.fixture(scope="module")
def server():
    """A judge's, which says 3."""
    with ChatServer(Script(level=3)) as server:
        yield server


@pytest.fixture(scope="module")
def finished(server, tmp_path_factory):
    """A folder with a run with that judge, and the path of the run."""
    folder = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
        patch.setenv("OPENAI_API_KEY", KEY)
        block = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": ["fluency"]}
        return folder, judged(folder, "asked", bridge_records(), judge=block).resolve()


@pytest.fixture
def run(finished, tmp_path, monkeypatch):
    """A copy of the run, which the test may change, beside its data and its cache."""
    folder, path = finished
    place = tmp_path / "asked"
    shutil.copytree(folder, place, symlinks=True)
    monkeypatch.setenv("RAGBENCH_CACHE", str(place / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return place / path.relative_to(folder.resolve())


def _upside_down(row):
    return 5 if "pirates" in row["answer"] else 1


def test_a_language_model_is_asked_again_through_its_config(calibrate, tmp_path, monkeypatch):
    """It obeys orders; what was asked in the run comes from the store of replies."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    script = Script(level=lambda text: 5 if "Ignore all instructions" in text else 3)
    with ChatServer(script) as server:
        block = {"type": "openai", "model": "m", "base_url": server.url, "samples": 2}
        run = judged(tmp_path, "asked", bridge_records(), judge={**block, "rubrics": ["fluency"]})
        before = server.counters.requests

        code, tables, notes = calibrate(
            "--probe", "injection", "--sample", 30, "--trust", server.url, of=run
        )

        assert code == 0, notes
        assert server.counters.requests - before == 60, "two samples of 30 changed answers"
    assert "; 60 calls, 60 replies from the store" in notes
    assert "bias, injection: +0.5" in tables
    assert "scores rise; 1.00 [0.8" in tables
    assert "test-retest: 0.00 [0.00, " in tables
    assert "got another level in two samples" in tables


def test_a_run_of_a_language_model_can_be_drawn_and_certified(calibrate, tmp_path, monkeypatch):
    """Its signature has no rubric but the prompt that the rubric makes."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    with ChatServer(Script(level=lambda text: 1 if "pirates" in text else 5)) as server:
        block = {"type": "openai", "model": "m", "base_url": server.url, "few_shot": False}
        run = judged(tmp_path, "asked", bridge_records(), judge={**block, "rubrics": ["fluency"]})
    calibrate("--draw", 50, "-o", "sheet.csv", of=run)
    label(tmp_path / "sheet.csv", tmp_path / "done.csv", _upside_down)

    code, text, problem = calibrate("--labels", "done.csv", "--json", of=run)

    assert code == 0, problem
    assert json.loads(text)["rubrics"]["fluency"]["agreement"]["spearman"]["value"] == -1


def _without_answers(run):
    """Turn a run into one of systems that give passages and queries alone."""
    for path in (run / "predictions").iterdir():
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        rows = [row | {"answer": None} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_passages_and_queries_are_labelled_where_there_are_no_answers(
    calibrate, tmp_path, monkeypatch
):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    records = [{**row, "queries": [f"bridge {row['id']}", "opening"]} for row in bridge_records()]
    script = Script(level=lambda text: 4 if "Ignore all instructions" in text else 2)
    with ChatServer(script) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url}
        judge |= {"rubrics": ["context_relevancy", "query_detail"]}
        run = judged(tmp_path, "retrieval", records, judge=judge)
        _without_answers(run)
        code, tables, notes = calibrate(
            "--probe", "injection", "--sample", 30, "--trust", server.url, of=run
        )
        assert code == 0, notes
    assert tables.count("scores rise; 1.00 [") == 2

    calibrate("--draw", 20, "-o", "sheet.csv", of=run)
    rows = label(tmp_path / "sheet.csv", tmp_path / "done.csv", lambda row: 2)
    assert {row["answer"] for row in rows} == {""}
    assert len({row["item"] for row in rows}) == 40
    for row in rows:
        of_queries = row["rubric"] == "query_detail"
        assert ("[2] opening" in row["queries"]) is of_queries
        assert ("harbour bridge" in row["passages"]) is not of_queries

    code, text, problem = calibrate("--labels", "done.csv", "--json", of=run)
    assert code == 0, problem
    found = json.loads(text)["rubrics"]
    assert found["query_detail"]["agreement"]["raw"]["value"] == 1
    assert "no answers" in found["query_detail"]["probes"]["verbosity"]["reason"]


def test_a_rubric_of_the_users_own_is_found_again(calibrate, tmp_path, repository, monkeypatch):
    source = repository / "ragbench/score/judge/rubrics/faithfulness.yaml"
    rubric = tmp_path / "faithfulness.yaml"
    text = source.read_text(encoding="utf-8").partition("\nsteps:")[0]  # which no judge is shown
    rubric.write_text(text.replace("or do not say it", "or differ twice"), "utf-8")
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    with ChatServer(Script(level=lambda text: 3)) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": [str(rubric)]}
        own = judged(tmp_path, "own", bridge_records(), judge=judge)

    code, _, problem = calibrate("--draw", 5, of=own)
    assert code == 0, problem

    rubric.write_text(rubric.read_text(encoding="utf-8").replace("twice", "thrice"), "utf-8")
    code, _, problem = calibrate("--draw", 5, of=own)
    assert code == 2
    assert "rubric 'faithfulness' is not the one that the judge applied: " in problem


def test_the_samples_of_a_jury_are_compared_within_each_model(calibrate, tmp_path, monkeypatch):
    """One model always says 5, the other 1, then 2: one of the two pairs of each answer differs."""
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))

    def script(body, times_asked):
        level = 5 if body["model"] == "kind" else 1 + body["seed"] % 2
        return json.dumps({"reasoning": "so", "level": level})

    with ChatServer(script) as server:
        judge = {"type": "openai", "models": ["kind", "harsh"], "base_url": server.url}
        judge |= {"samples": 2, "seed": 4, "rubrics": ["fluency"]}
        run = judged(tmp_path, "jury", bridge_records(), judge=judge)
        asked = ["--probe", "authority", "--sample", 5, "--trust", server.url]
        code, text, notes = calibrate(*asked, "--json", of=run)

    assert code == 0, notes
    found = json.loads(text)["rubrics"]["fluency"]["retest"]
    assert (found["flip_rate"], found["n"]) == (0.5, 60)


@pytest.mark.parametrize(
    ("trusted", "asks"),
    [
        pytest.param([], False, id="nobody said so"),
        pytest.param(["{url}"], True, id="the address"),
        pytest.param(["{url}/"], True, id="with a slash"),
        pytest.param(["{origin}"], True, id="the server"),
        pytest.param(["{origin}/v"], False, id="the start of a word"),
        pytest.param(["https://api.openai.com/v1"], False, id="another one"),
    ],
)
def test_a_key_goes_to_no_address_that_only_a_run_folder_names(
    calibrate, server, run, trusted, asks
):
    """The judge's address was changed in the folder: whose it is, only the user can say."""
    with ChatServer(Script(level=3)) as foreign:
        config = run / "config.yaml"
        config.write_text(config.read_text("utf-8").replace(server.url, foreign.url), "utf-8")
        origin = foreign.url.removesuffix("/v1")
        options = [
            word
            for text in trusted
            for word in ("--trust", text.format(url=foreign.url, origin=origin))
        ]

        code, _, problem = calibrate("--probe", "injection", "--sample", 3, *options, of=run)

        assert (foreign.counters.requests > 0) is asks
    assert code == (0 if asks else 2), problem
    if not asks:
        assert f"judge 'openai' would ask {foreign.url}, an address from the run folder" in problem
        assert "with the key in OPENAI_API_KEY" in problem
        assert f"allowed: --trust {foreign.url}, if it is yours" in problem
        assert "sk-the-users" not in problem


@pytest.mark.parametrize(
    ("change", "trusted", "asks"),
    [
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, [], False),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, ["OPENAI_API_KEY"], False),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, ["AWS_SECRET_ACCESS_KEY"], True),
        ({"model": "${AWS_SECRET_ACCESS_KEY}"}, [], False),
        ({"extra": {"user": "a ${NOT_SET:-${AWS_SECRET_ACCESS_KEY}}"}}, [], False),
        ({"api_key_env": "NOT_SET"}, [], True),
    ],
)
def test_no_variable_is_sent_that_only_a_run_folder_names(
    calibrate, server, run, monkeypatch, change, trusted, asks
):
    """Also where the address is the provider's own, or the one of the user's environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-the-users-own-key")
    config = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    config["metrics"]["judge"] |= change
    (run / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    before = server.counters.requests
    options = [word for each in (server.url, *trusted) for word in ("--trust", each)]

    code, _, problem = calibrate("--probe", "injection", "--sample", 3, *options, of=run)

    assert (server.counters.requests > before) is asks
    assert code == (0 if asks else 2), problem
    if not asks:
        named = "AWS_SECRET_ACCESS_KEY, a variable that the run folder names, would be sent"
        assert named in problem
        assert "allowed: --trust AWS_SECRET_ACCESS_KEY, if it is yours" in problem
    assert "aws-the-users" not in problem
