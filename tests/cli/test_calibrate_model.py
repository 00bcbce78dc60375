"""`ragbench calibrate` of a language model's verdicts: asked again, drawn and certified."""

import json
import shutil
from itertools import islice

import pytest
import yaml

import ragbench as rb
from ragbench.records.gate import exit_code_of
from tests.calibration.trial import judged
from tests.chat_server import ChatServer
from tests.cli.bridges import bridge_records, label
from tests.commands import run_command
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs and servers
KEY = "sk-the-users-own-key"
# A rubric that rates an answer with its passages.
USED = "name: used\nneeds: [contexts, answer]\nscale: {1: not used, 5: used}\n"


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
        (folder / "used.yaml").write_text(USED, encoding="utf-8")
        rubrics = [str(folder / "used.yaml")]
        block = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": rubrics}
        records = [{**row, "contexts": [*row["contexts"], "Red."]} for row in bridge_records()]
        return folder, judged(folder, "asked", records, judge=block).resolve()


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


def test_a_language_model_is_asked_again_through_its_config(
    calibrate, tmp_path, monkeypatch, assert_message
):
    # The judge reads the first passage alone; replies of the run come from the store.
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    script = Script(level=lambda text: 3 if text.find("Red.") > text.find("The harbour") else 5)
    bridges = islice(bridge_records(), 20)
    records = [{**row, "contexts": [*row["contexts"], "Red."]} for row in bridges]
    (tmp_path / "used.yaml").write_text(USED, encoding="utf-8")
    with ChatServer(script) as server:
        block = {"type": "openai", "model": "m", "base_url": server.url, "repeat": 2}
        judge = {**block, "rubrics": [str(tmp_path / "used.yaml")]}
        run = judged(tmp_path, "asked", records, judge=judge)
        n_before = server.counters.requests

        code, tables, notes = calibrate(
            "--probe", "position", "--sample", 10, "--trust", server.url, of=run
        )

        assert code == 0, notes
        assert server.counters.requests - n_before == 20, "two samples of 10 answers"
    assert_message(notes)
    assert "bias, position: +0.5" in tables
    assert_message(tables)


def test_the_probe_alone_and_in_the_certificate(calibrate, tmp_path, server, run, assert_message):
    # A judge that always says 3 does not depend on the order of the passages.
    probe = ["--probe", "position", "--sample", 40, "--trust", server.url]
    code, tables, notes = calibrate(*probe, "-o", "probes.json", of=run)

    assert code == 0, notes
    assert_message(notes)
    report = json.loads((tmp_path / "probes.json").read_text(encoding="utf-8"))
    assert report["schema"] == "ragbench.probes/1"
    probes = report["rubrics"]["used"]["probes"]
    assert list(probes) == ["position"]
    assert (probes["position"]["finding"], probes["position"]["n"]) == ("no shift shown", 40)
    assert "bias, position: +0.000" in tables

    calibrate("--draw", 50, "-o", "sheet.csv", of=run)
    label(tmp_path / "sheet.csv", tmp_path / "done.csv", _upside_down)
    code, text, problem = calibrate("--labels", "done.csv", *probe, "--json", of=run)
    assert code == 0, problem
    assert json.loads(text)["rubrics"]["used"]["probes"] == probes


def test_a_run_of_a_language_model_can_be_drawn_and_certified(calibrate, tmp_path, monkeypatch):
    # Without examples, too.
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
    bridges = islice(bridge_records(), 24)
    records = [{**row, "queries": [f"bridge {row['id']}", "opening"]} for row in bridges]
    with ChatServer(Script(level=2)) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url}
        judge |= {"rubrics": ["context_relevancy", "query_detail"]}
        run = judged(tmp_path, "retrieval", records, judge=judge)
        _without_answers(run)

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
    rubrics = json.loads(text)["rubrics"]
    assert rubrics["query_detail"]["agreement"]["raw"]["value"] == 1


def test_a_rubric_of_the_users_own_is_found_again(
    calibrate, tmp_path, repository, monkeypatch, assert_message
):
    source = repository / "ragbench/score/judge/rubrics/faithfulness.yaml"
    rubric = tmp_path / "faithfulness.yaml"
    text = source.read_text(encoding="utf-8").partition("\nsteps:")[0]  # which no judge is shown
    rubric.write_text(text.replace("or do not say it", "or differ twice"), "utf-8")
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    with ChatServer(Script(level=lambda text: 3)) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": [str(rubric)]}
        run = judged(tmp_path, "own", islice(bridge_records(), 6), judge=judge)

    code, _, problem = calibrate("--draw", 5, of=run)
    assert code == 0, problem

    rubric.write_text(rubric.read_text(encoding="utf-8").replace("twice", "thrice"), "utf-8")
    code, _, problem = calibrate("--draw", 5, of=run)
    assert code == 2
    assert_message(problem)


POLITE = """\
name: polite
asks: answer
needs: [question, answer]
guidelines: ["The answer is polite."]
scale: {1: bad, 5: good}
method: rating
"""


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A folder with the certificate of a judge for `polite`, and the config of its run."""
    folder = tmp_path_factory.mktemp("certified")
    path = folder / "polite.yaml"
    path.write_text(POLITE, encoding="utf-8")
    script = Script(level=lambda text: 1 if "pirates" in text else 5)
    with pytest.MonkeyPatch.context() as patch, ChatServer(script) as server:
        patch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        block = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": [str(path)]}
        run = judged(folder, "asked", bridge_records(), judge=block)
        drawn = run_command("calibrate", run, "--draw", 50, "-o", "sheet.csv")
        assert drawn.returncode == 0, drawn.stderr
        label(folder / "sheet.csv", folder / "done.csv", lambda row: 6 - _upside_down(row))
        done = run_command("calibrate", run, "--labels", "done.csv", "-o", "judge.json")
        assert done.returncode == 0, done.stderr
        config = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
        # later runs need few answers: the certificate counts those of the sheet
        few = (folder / "asked.jsonl").read_text("utf-8").splitlines(keepends=True)[:4]
        (folder / "few.jsonl").write_text("".join(few), "utf-8")
        config["dataset"]["path"] = str(folder / "few.jsonl")
        yield folder, config


@pytest.mark.parametrize(
    ("rubric", "judge", "verdict", "why"),
    [
        ({}, {}, "pass", "kappa 1 "),
        ({"polite.": "RUDE."}, {}, "undecided", "the rubric changed"),
        ({}, {"few_shot": False}, "undecided", "the examples changed"),
        ({}, {"model": "m2"}, "undecided", "the model (m, now m2) changed"),
        ({"5: good": "5: fair"}, {"model": "m2"}, "undecided", "the model (m, now m2) and the"),
    ],
    ids=str,
)
def test_a_certificate_is_of_one_rubric_and_one_judge(
    certified, tmp_path, monkeypatch, rubric, judge, verdict, why, assert_message
):
    # `polite` was calibrated, and later runs ask for something else under its name.
    folder, config = certified
    shutil.copytree(folder / "cache", tmp_path / "cache")
    shutil.copy(folder / "judge.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    text = POLITE
    for old, new in rubric.items():
        text = text.replace(old, new)
    (tmp_path / "polite.yaml").write_text(text, encoding="utf-8")
    block = {**config["metrics"]["judge"], "rubrics": [str(tmp_path / "polite.yaml")], **judge}
    gate = {"certificate": "judge.json", "rubric": "polite", "min_kappa": 0.6}
    config = {**config, "output": str(tmp_path / "runs"), "gates": [gate]}

    experiment = rb.run_experiment({**config, "metrics": {"judge": block}})

    [gate] = experiment.record.gates
    assert (gate.verdict, gate.why.startswith(why)) == (verdict, True), gate.why
    assert experiment.exit_code == 0
    strict = exit_code_of([gate], complete=True, strict=True)
    assert strict == (0 if verdict == "pass" else 4)
    if verdict != "pass":
        assert_message(gate.why)


def test_systems_that_two_models_judged_are_certified_as_a_mixture(calibrate, tmp_path, run):
    # The certificate is of both, and so of no single model.
    path = run / "summary.json"
    text, _, end = path.read_text("utf-8").rpartition("|model:m|")
    assert "|model:m|" in text, "two systems"
    path.write_text(f"{text}|model:m-new|{end}", encoding="utf-8")
    calibrate("--draw", 50, "-o", "sheet.csv", of=run)
    label(tmp_path / "sheet.csv", tmp_path / "done.csv", _upside_down)

    code, text, problem = calibrate("--labels", "done.csv", "--json", of=run)

    assert code == 0, problem
    assert "|model:mixture(m+m-new)|" in json.loads(text)["rubrics"]["used"]["signature"]


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
    calibrate, server, run, trusted, asks, assert_message
):
    # The judge's address was changed in the folder: whose it is, only the user can say.
    with ChatServer(Script(level=3)) as foreign:
        config = run / "config.yaml"
        config.write_text(config.read_text("utf-8").replace(server.url, foreign.url), "utf-8")
        origin = foreign.url.removesuffix("/v1")
        options = [
            word
            for text in trusted
            for word in ("--trust", text.format(url=foreign.url, origin=origin))
        ]

        code, _, problem = calibrate("--probe", "position", "--sample", 3, *options, of=run)

        assert (foreign.counters.requests > 0) is asks
    assert code == (0 if asks else 2), problem
    if not asks:
        assert_message(problem)
        assert f"allowed: --trust {foreign.url}, if it is yours" in problem
        assert "sk-the-users" not in problem


@pytest.mark.parametrize(
    ("change", "trusted", "asks"),
    [
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, [], False),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, ["OPENAI_API_KEY"], False),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, ["AWS_SECRET_ACCESS_KEY"], True),
        ({"model": "${AWS_SECRET_ACCESS_KEY}"}, [], False),
        ({"extra": {"user": "a ${AWS_SECRET_ACCESS_KEY:-b}"}}, [], False),
        ({"api_key_env": "NOT_SET"}, [], True),
    ],
)
def test_no_variable_is_sent_that_only_a_run_folder_names(
    calibrate, server, run, monkeypatch, change, trusted, asks, assert_message
):
    # Also where the address is the provider's own, or the one of the user's environment.
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-the-users-own-key")
    config = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    config["metrics"]["judge"] |= change
    (run / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    n_before = server.counters.requests
    options = [word for address in (server.url, *trusted) for word in ("--trust", address)]

    code, _, problem = calibrate("--probe", "position", "--sample", 3, *options, of=run)

    assert (server.counters.requests > n_before) is asks
    assert code == (0 if asks else 2), problem
    if not asks:
        sentence = "AWS_SECRET_ACCESS_KEY, a variable in the run folder that would be sent"
        assert sentence in problem
        assert_message(problem)
    assert "aws-the-users" not in problem
