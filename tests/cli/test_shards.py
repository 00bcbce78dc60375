"""`--shard I/N` on the command line: what is printed, refused and planned; the page on it."""

import json
import os
import re
import subprocess

import pytest
import yaml

from tests.commands import run_command


@pytest.fixture
def checkout(repository, tmp_path):
    for name in ("configs", "datasets"):
        (tmp_path / name).symlink_to(repository / name)
    return tmp_path


@pytest.fixture
def ragbench(checkout, monkeypatch):
    monkeypatch.delenv("RAGBENCH_TOKEN", raising=False)

    def run(*words, cache="cache", **variables):
        environment = {**os.environ, "RAGBENCH_CACHE": str(checkout / cache), **variables}
        return run_command(*words, cwd=checkout, env=environment)

    return run


QUICKSTART = "configs/quickstart.yaml"


@pytest.mark.parametrize("shard", ["0/4", "5/4", "x"])
@pytest.mark.parametrize("command", ["run", "plan"])
def test_what_is_no_part_is_refused(ragbench, command, shard):
    done = ragbench(command, QUICKSTART, "--shard", shard)

    assert (done.returncode, done.stdout) == (2, "")
    said = f"run: shard: found '{shard}', allowed: I/N with 1 <= I <= N, such as 3/16\n"
    assert done.stderr == said


@pytest.mark.parametrize("option", ["--strict", "--judge-replay"])
def test_what_is_of_the_last_run_alone_is_refused(ragbench, option):
    done = ragbench("run", QUICKSTART, "--shard", "1/4", option)

    assert done.returncode == 2
    assert f"--shard and {option} exclude each other: give it to the last run" in done.stderr


@pytest.mark.costly
def test_a_part_says_what_it_made_and_the_plan_says_so_before(ragbench, checkout):
    options = ("--shard", "1/2", "--limit", "10", "--only", "bm25")
    planned = ragbench("plan", QUICKSTART, *options)
    done = ragbench("run", QUICKSTART, *options, "--quiet")
    found = json.loads(ragbench("run", QUICKSTART, *options, "--json").stdout)
    after = json.loads(ragbench("plan", QUICKSTART, *options, "--json").stdout)

    lines, n = done.stdout.splitlines(), found["queries"]
    assert planned.stdout.splitlines()[0] == "quickstart: part 1/2 of 10 queries; nothing is sent"
    assert re.search(rf"retrieve bm25 +{n} queries to do", planned.stdout)
    assert lines[0] == f"quickstart, part 1/2: {n} of 10 queries"
    assert re.fullmatch(rf"retrieve bm25 +{n} made of {n} queries", lines[1])
    assert lines[-2] == "left to the last run: scores, comparison"
    assert "no run was written" in lines[-1]
    assert {(each["made"], each["left"]) for each in found["stages"]} == {(0, 0)}
    assert [(each["items"], each["stored"]) for each in after["stages"]] == [(n, n)]
    assert after["shard"] == "1/2"
    assert not (checkout / "runs").exists()


def test_the_budget_of_a_part_is_said(ragbench):
    budget = ("--set", "budget={usd: 2, tokens: 1000, minutes: 30}")
    done = ragbench("run", QUICKSTART, "--shard", "1/4", "--limit", "8", *budget, "--quiet")

    assert "budget: 0.5 USD, 250 tokens, 30 minutes for this part\n" in done.stdout


@pytest.mark.costly
def test_a_word_of_the_environment_is_the_token(ragbench):
    options = ("run", QUICKSTART, "--shard", "1/4", "--limit", "4", "--json")
    given = [
        json.loads(ragbench(*options, **variables).stdout)["token"]
        for variables in ({}, {"RAGBENCH_TOKEN": "a"}, {"RAGBENCH_TOKEN": "b"})
    ]
    named = json.loads(ragbench(*options, "--token", "a").stdout)["token"]

    assert len(set(given)) == 3
    assert named == given[1]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.mark.slow(first=True)
def test_the_page_on_several_machines_runs(repository, checkout, warm):
    page = (repository / "docs" / "scale.md").read_text(encoding="utf-8")
    first, slurm = blocks(page, "bash")
    (shown,), (*_, matrix) = blocks(page, "text"), blocks(page, "yaml")
    environment = {**os.environ, "PATH": f"{warm.folder}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("RAGBENCH_CACHE", None)

    def shell(script, **variables):
        return subprocess.run(
            ["bash", "-ec", script],
            cwd=checkout,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=True,
        )

    done = shell(first)
    assert shown in done.stdout
    assert "join: 4 parts" in done.stderr
    assert "retrieve" not in done.stderr.rpartition("join: 4 parts")[2]

    search = yaml.safe_load(
        (repository / QUICKSTART).read_text().replace("../datasets", "datasets")
    )
    search["retrievers"] = {"bm25": search["retrievers"]["bm25"]}  # one is enough for parts
    (checkout / "search.yaml").write_text(yaml.safe_dump({**search, "name": "quickstart"}))
    part = shell(slurm, SLURM_ARRAY_TASK_ID="16", SLURM_ARRAY_JOB_ID="77")
    assert "quickstart, part 16/16" in part.stdout
    jobs = yaml.safe_load(matrix)["jobs"]
    job = jobs["part"]
    (step,) = [each for each in job["steps"] if "ragbench run" in each.get("run", "")]
    for number in job["strategy"]["matrix"]["part"]:
        shell(
            step["run"].replace("${{ matrix.part }}", str(number)),
            RAGBENCH_CACHE=f"parts/part-{number}",
        )
    joined = shell(jobs["run"]["steps"][-1]["run"], RAGBENCH_CACHE="new")
    assert "join: 4 parts" in joined.stderr
    assert "generate" not in joined.stderr.rpartition("join: 4 parts")[2]
