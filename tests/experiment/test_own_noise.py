"""Differences between runs of which nothing else differs are the noise of the app."""

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import yaml
from click.testing import CliRunner

from ragbench.cli import group
from ragbench.data.runs.run_folder import read_manifest
from ragbench.experiment.compare import compare
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.watched_files import watch_files
from tests.experiment.moons import moons_config, write_moons
from tests.experiment.test_repeat import with_parts

pytestmark = pytest.mark.slow

# another answer to the question on the ocean in each call
APP = """
import time

def app(question):
    if "ocean" in question:
        return f"Europa {time.time_ns()}"
    return "Io"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A config with an app, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noisy.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    data = tmp_path / "data"
    write_moons(data)
    config = with_parts(moons_config(data), apps={"mine": {"type": "python:noisy:app"}})
    config["dataset"]["path"] = "data"
    (tmp_path / "exp.yaml").write_text(yaml.safe_dump(config))
    return tmp_path / "exp.yaml"


def run(config):
    return CliRunner().invoke(group, ["run", str(config), "--quiet"])


SENTENCE = (
    "nothing changed that ragbench can see: this difference is your app's own noise (q2), in hits"
    " or answers, unless a server, a package, a database or the environment changed"
)


def test_a_second_run_names_the_noise(project):
    first, second = run(project), run(project)

    assert "own noise" not in first.stderr
    assert f"note: {SENTENCE}" in second.stderr


def test_two_equal_runs_are_compared_with_the_sentence(project):
    first, second = run_experiment(project), run_experiment(project)

    assert second.own_noise() == SENTENCE
    assert SENTENCE in str(compare(first.path, second.path))


@pytest.mark.parametrize("change", ["code", "config", "data", "file"])
def test_a_change_is_no_noise(project, change):
    folder = project.parent
    if change == "file":
        app = APP.replace("    if", "    Path('notes.txt').read_text()\n    if")
        (folder / "noisy.py").write_text(f"from pathlib import Path\n{app}")
        (folder / "notes.txt").write_text("old")
    first = run_experiment(project)
    if change == "code":
        (folder / "noisy.py").write_text(APP.replace("Io", "Callisto"))
    elif change == "config":
        project.write_text(project.read_text() + "seed: 7\n")
    elif change == "data":
        queries = folder / "data" / "queries.jsonl"
        queries.write_text(queries.read_text().replace("ocean", "deep ocean"))
    else:
        (folder / "notes.txt").write_text("new")
    second = run_experiment(project)

    assert first.per_query["mine"].keys() == second.per_query["mine"].keys()
    assert second.own_noise() == ""


def test_equal_results_have_no_noise(project):
    (project.parent / "noisy.py").write_text("def app(question):\n    return 'Io'\n")
    run_experiment(project)

    assert run_experiment(project).own_noise() == ""


def test_behind_http_nothing_changed_that_ragbench_can_see(project):
    counts = iter(range(1000))

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.dumps({"answer": f"Europa {next(counts)}"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        config = yaml.safe_load(project.read_text())
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        config["apps"] = {"mine": {"type": "http", "url": url}}
        project.write_text(yaml.safe_dump(config))
        try:
            run_experiment(project)
            noise = run_experiment(project).own_noise()
        finally:
            server.shutdown()

    start = "nothing changed that ragbench can see: these 5 differences are your app's own noise"
    assert noise.startswith(start)


def test_a_module_that_starts_processes_is_not_seen_whole(project):
    file = project.parent / "noisy.py"
    file.write_text("import subprocess\n" + APP)
    run_experiment(project)

    assert "that ragbench can see" in run_experiment(project).own_noise()


@pytest.mark.parametrize(("file", "is_noted"), [("README.md", True), ("moons.csv", False)])
def test_a_gate_notes_noise_unless_a_file_changed_that_the_code_names(project, file, is_noted):
    folder = project.parent
    (folder / "noisy.py").write_text(APP + 'FILE = "moons.csv"  # for a compiled reader\n')
    for name in ("README.md", "moons.csv"):
        (folder / name).write_text("Io\n")
    (folder / ".gitignore").write_text("runs/\n.ragbench/\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True, cwd=folder)
    (folder / file).write_text("Europa\n")
    result = CliRunner().invoke(group, ["gate", str(project), "--base", "HEAD"])

    assert "gates: 1 pass" in result.stdout
    assert ("nothing changed that ragbench can see" in result.stdout) == is_noted


def test_files_that_are_read_are_noted_and_written_ones_are_not(tmp_path):
    (tmp_path / "read.txt").write_text("a")
    with watch_files() as watch:
        (tmp_path / "read.txt").read_text()
        (tmp_path / "written.txt").write_text("b")
        (tmp_path / "runs").mkdir()
        (tmp_path / "runs" / "old.txt").write_text("c")
        (tmp_path / "runs" / "old.txt").read_text()
    (tmp_path / "written.txt").read_text()

    assert [*watch.in_project(tmp_path).digests([tmp_path / "runs"])] == ["read.txt"]
    assert not watch.in_project(tmp_path).calls_others()


# the second call for each question is wrong; the file stands outside of the project
FORGETFUL = """
import os
from pathlib import Path

def app(question):
    seen = Path(os.environ["SEEN"], str(len(question)))
    is_first = not seen.exists()
    seen.write_text("x")
    return "1932" if is_first else "never"
"""


@pytest.fixture
def forgetful(tmp_path, tmp_path_factory, monkeypatch):
    """The path of a config, whose app loses answers in the second run, and its module."""
    monkeypatch.setenv("SEEN", str(tmp_path_factory.mktemp("seen")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = [f"{'very ' * n}old,1932\n" for n in range(12)]
    (tmp_path / "qa.csv").write_text("question,reference\n" + "".join(rows))
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    (tmp_path / "exp.yaml").write_text(
        "dataset: {type: records, path: qa.csv}\n"
        "apps: {mine: {type: 'python:forgetful:app'}}\n"
        "metrics: {generation: [contains]}\n"
    )
    return tmp_path / "exp.yaml"


@pytest.mark.parametrize(
    "code", [FORGETFUL, "# new\n" + FORGETFUL], ids=["equal code", "other code"]
)
@pytest.mark.parametrize("has_config", [True, False], ids=["config", "two runs"])
def test_a_gate_on_runs_decides_by_the_scores(forgetful, code, has_config):
    # Bug: a loss of all questions by an environment variable, a package or a database passed
    module = forgetful.parent / "forgetful.py"
    first = run_experiment(forgetful)
    module.write_text(code)
    sys.modules.pop("forgetful", None)
    if has_config:
        command = ["gate", str(forgetful), "--base", str(first.path)]
    else:
        command = ["gate", str(first.path), str(run_experiment(forgetful).path)]

    result = CliRunner().invoke(group, [*command, "--json"])

    review = json.loads(result.stdout)
    assert review["verdict"] == "fail"
    doubts = [line for line in review["lines"] if "own noise" in line]
    assert len(doubts) == (code == FORGETFUL)
    assert all("unless" in line for line in doubts)


@pytest.mark.parametrize("is_added", [True, False])
def test_a_new_file_in_a_listed_folder_is_a_change(project, is_added):
    folder = project.parent
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("a")
    app = "import os\n\n\ndef app(question):\n    return ' '.join(os.listdir('notes'))\n"
    (folder / "noisy.py").write_text(app)
    run_experiment(project)
    if is_added:
        (folder / "notes" / "b.txt").write_text("b")

    # further repetitions keep the results of the first one, unless something changed
    config = yaml.safe_load(project.read_text())
    config["apps"]["mine"]["repeat"] = 2
    project.write_text(yaml.safe_dump(config))
    work = read_manifest(run_experiment(project).path).work["answer mine"]

    assert work.items > 0
    assert work.stored == (0 if is_added else work.items // 2)
