"""Variables of the environment: what a run records of them, and a run repeated without them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ragbench.experiment.runner import lock_experiment
from tests.commands import run_command
from tests.conftest import REPOSITORY
from tests.messages import lines_with
from tests.retrieve.search_server import SearchServer

pytestmark = pytest.mark.slow  # seconds in all: real runs

K1 = """\
dataset: {type: beir, path: "${DS}", split: "${SPLIT:-test}"}
retrievers:
  bm25:
    type: bm25
    k1: ${K1:-1.2}
metrics: {retrieval: {measures: [ndcg@10]}}
statistics: {resamples: 200}
"""
# What a process needs to start at all.
SYSTEM_VARIABLES = ("PATH", "PYTHONPATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


def environment(variables):
    """An environment of nothing but what is given."""
    system = {name: os.environ[name] for name in SYSTEM_VARIABLES if name in os.environ}
    system["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), system.get("PYTHONPATH", "")])
    return {**system, **variables}


@pytest.fixture(scope="module")
def process(warm):
    """Run a command as a process in an environment of nothing but what is given."""

    def run(folder, *arguments, **variables):
        return subprocess.run(
            [warm.folder / "ragbench", *map(str, arguments)],
            cwd=folder,
            env=environment(variables),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    return run


@pytest.fixture
def ragbench(tmp_path):
    """Run a command in the folder of the test and an environment of nothing but what is given."""

    def run(*arguments, cwd=tmp_path, **variables):
        return run_command(*arguments, cwd=cwd, env=environment(variables))

    return run


@pytest.fixture(scope="module")
def experiment(tmp_path_factory, example_data, process):
    """A working directory with a run of K1=0.1 and one of K1=3, which is the latest."""
    folder = tmp_path_factory.mktemp("two-runs")
    (folder / "exp.yaml").write_text(K1)
    names = []
    for k1 in ("0.1", "3"):
        words = ("run", "exp.yaml", "--verbose", "--limit", "12")
        done = process(folder, *words, K1=k1, DS=str(example_data))
        assert done.returncode == 0, done.stderr
        assert f"{example_data.name}/test, " in done.stdout, "the data set by its name"
        names.append((folder / "runs" / "exp" / "latest").resolve().name)
    return folder, names


@pytest.fixture
def two_runs(experiment, tmp_path):
    """The folders of these runs in a copy that is the test's own."""
    folder, names = experiment
    shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    return [tmp_path / "runs" / "exp" / name for name in names]


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def scores(folder):
    return (folder / "per_query.csv").read_bytes()


def again_of(text):
    return Path(re.search(r"again: (.*)", text)[1])


def test_each_of_two_runs_reproduces_itself_whatever_is_set(
    two_runs, ragbench, tmp_path, assert_message
):
    assert scores(two_runs[0]) != scores(two_runs[1])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    present = {"K1": "7", "SPLIT": "none", "DS": "nowhere"}
    for run, k1, variables in zip(two_runs, ("0.1", "3"), ({}, present), strict=True):
        config = yaml.safe_load((run / "config.yaml").read_text())
        assert config["retrievers"]["bm25"]["k1"] == float(k1)
        recorded = manifest(run)["environment"]
        assert recorded["K1"] == {"set": True, "value": k1, "secret": False}
        assert recorded["SPLIT"] == {"set": False, "value": None, "secret": False}

        done = ragbench("reproduce", run, "--quiet", cwd=elsewhere, **variables)

        assert done.returncode == 0, done.stderr
        state = "'7'" if variables else "not set"
        assert f"environment: K1 is {state}; '{k1}' is used, as recorded" in done.stdout
        assert_message(lines_with(done.stdout, "and every ranking is the"))
        again = again_of(done.stdout)
        assert (again / "config.yaml").read_bytes() == (run / "config.yaml").read_bytes()
        assert manifest(again)["environment"] == recorded
        assert manifest(again)["reproduces"] == run.name
    assert_message(lines_with(done.stdout, "the default is used, as"))


def test_the_repetition_lies_beside_and_latest_stays(two_runs, ragbench, tmp_path):
    experiment = tmp_path / "runs" / "exp"
    with lock_experiment(experiment):  # at work, and then not finished
        old_folders = sorted(experiment.iterdir())
        done = ragbench("reproduce", two_runs[0], "--quiet", cwd=tmp_path.parent)

    assert done.returncode == 0, done.stderr
    assert again_of(done.stdout).parent == experiment
    assert set(old_folders) <= {*experiment.iterdir(), experiment / ".lock.tmp"}
    assert (experiment / ".unfinished.tmp").is_file(), "it is still there to be resumed"
    assert (experiment / "latest").resolve() == two_runs[1]
    assert not (tmp_path.parent / "runs").exists()
    compared = ragbench("compare", experiment, two_runs[1], "-m", "ndcg@10", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    for name, of in (("a.json", experiment), ("b.json", two_runs[1])):
        assert ragbench("baseline", of, "-o", name).returncode == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_moved_run_folder_is_repeated_beside_it(two_runs, ragbench, tmp_path):
    moved = tmp_path / "kept" / "of" / "ci" / "mine"
    moved.parent.mkdir(parents=True)
    two_runs[0].rename(moved)

    done = ragbench("reproduce", moved, "--quiet")

    assert done.returncode == 0, done.stderr
    assert again_of(done.stdout).parent == moved.parent
    assert not (moved.parent / "latest").exists()


def test_an_edited_config_says_what_it_cannot_know(two_runs, ragbench):
    run = two_runs[0]
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("k1: 0.1", "k1: ${K1:-1.2}"))
    recorded = manifest(run)
    del recorded["environment"]
    (run / "manifest.json").write_text(json.dumps(recorded))

    unset = ragbench("reproduce", run, "--quiet")
    same = ragbench("reproduce", run, "--quiet", "--trust", K1="0.1")

    cannot = "environment: K1 was not recorded; its value of now is used, or its default"
    assert cannot in unset.stdout
    assert unset.returncode == 1
    assert cannot in same.stdout
    assert same.returncode == 0, same.stdout


def test_another_value_is_not_taken_for_the_run_that_was_stopped(process, tmp_path, example_data):
    # `kill -9` in the middle of a run, which another value then must not resume.
    (tmp_path / "dies.py").write_text(
        "import os\n"
        "asked = 0\n"
        "def search(question, top_k, *, weight):\n"
        "    global asked\n"
        "    asked += 1\n"
        "    if asked == 20 and os.environ.get('DIE'): os.kill(os.getpid(), 9)\n"
        "    return ['venera-13', f'{weight}']\n"
    )
    (tmp_path / "exp.yaml").write_text(
        'dataset: {type: beir, path: "${DS}", split: test}\n'
        'retrievers: {mine: {type: "python:dies:search", weight: "${W}"}}\n'
    )
    died = process(tmp_path, "run", "exp.yaml", "--quiet", W="a", DS=str(example_data), DIE="1")
    assert died.returncode == -9

    done = process(tmp_path, "run", "exp.yaml", "--quiet", W="b", DS=str(example_data))

    assert done.returncode == 0, done.stderr
    ranking = tmp_path / "runs" / "exp" / "latest" / "rankings" / "mine.trec"
    assert {line.split()[2] for line in ranking.read_text().splitlines()} == {
        "venera-13",
        "b",
    }


SECRETS = {
    "OPENAI_API_KEY": "sk-planted-0123456789",
    "MY_TOKEN": "planted-token",
    "X": "planted-in-a-header",
    "LLM_URL": "http://planted-user:planted-pass@127.0.0.1:9/v1",
    "SEARCH_QUERY": "planted=1&api_key=planted-query",
}
LEAKY = """\
import logging, os, sys

def search(question, top_k, *, api_key, token, base_url):
    print(api_key, file=sys.stderr) if os.environ.get("PRINTS") else None
    raise ValueError(f"401 for {api_key} with {token} at {base_url}")
"""
PLANTED = """\
dataset: {type: beir, path: "${DS}", split: test}
retrievers:
  bm25: {type: bm25}
  leaky:
    type: "python:leaky:search"
    api_key: ${OPENAI_API_KEY}
    token: "a ${MY_TOKEN}"
    base_url: "${LLM_URL}"
  service:
    type: http
    url: "${SEARCH_URL}?${SEARCH_QUERY}"
    headers: {Authorization: "Bearer ${X}"}
    body: {query: "{question}", size: "{top_k}"}
    ids: "$.hits[*].id"
statistics: {baseline: bm25}
max_failed: 1
"""


def test_no_secret_is_in_any_byte(ragbench, tmp_path, example_data, assert_message):
    (tmp_path / "leaky.py").write_text(LEAKY)
    (tmp_path / "exp.yaml").write_text(PLANTED)

    def script(body):
        return {"hits": [{"id": "io-volcanoes"}], "told": body}

    with SearchServer(script) as server:
        variables = {**SECRETS, "DS": str(example_data), "SEARCH_URL": server.url}
        done = ragbench("run", "exp.yaml", "--limit", "4", **variables)
        assert done.returncode == 0, done.stderr
        run = (tmp_path / "runs" / "exp" / "latest").resolve()
        repeated = ragbench("reproduce", run, **variables)
        only = ragbench("run", "exp.yaml", "--limit", "4", "--only", "bm25", **variables)
        assert only.returncode == 0, only.stderr
        bm25 = (tmp_path / "runs" / "exp" / "latest").resolve()

    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    path, headers, _ = server.received[0]
    assert path.endswith("?planted=1&api_key=planted-query"), "it was sent"
    assert_message(headers["Authorization"])
    paths = [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "leaky.py"]
    assert {".ragbench", "runs"} <= {p.relative_to(tmp_path).parts[0] for p in paths}
    words = [b"planted-", b"sk-planted"]
    assert [p for p in paths if any(word in p.read_bytes() for word in words)] == []
    for completed in (done, repeated, only):
        assert "planted-" not in completed.stdout + completed.stderr
    config = yaml.safe_load((run / "config.yaml").read_text())["retrievers"]
    assert config["leaky"]["token"] == "a ${MY_TOKEN}"
    assert config["service"]["url"] == f"{server.url}?${{SEARCH_QUERY}}"
    recorded = manifest(run)["environment"]
    assert {name for name, variable in recorded.items() if variable["secret"]} == {*SECRETS}
    assert "401 for ${OPENAI_API_KEY} with a ${MY_TOKEN} at" in (run / "unscored.jsonl").read_text()

    incomplete = {name: value for name, value in variables.items() if name != "MY_TOKEN"}
    refused = ragbench("reproduce", run, "--quiet", **incomplete)
    assert refused.returncode == 2
    assert_message(refused.stderr)
    not_needed = ragbench("reproduce", bm25, "--quiet")
    assert not_needed.returncode == 0, not_needed.stderr
    assert_message(lines_with(not_needed.stdout, "MY_TOKEN was set then"))
