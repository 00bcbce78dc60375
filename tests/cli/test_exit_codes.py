"""Exit codes of `run`, `compare` and the others, and what CI reads of each: one meaning a code."""

import json
import os
import socket
import sqlite3
import sys
from xml.etree import ElementTree

import pytest

from ragbench import load_experiment
from ragbench.errors import (
    EXIT_MEANINGS,
    DataError,
    DiskFull,
    FolderLocked,
    RagbenchError,
    storage_error,
)
from ragbench.experiment.runner import lock_experiment, run_experiment
from ragbench.llm import CallFailure
from ragbench.llm.failures import failure_of_exception
from tests.chat_server import Answer, ChatServer
from tests.commands import run_command
from tests.conftest import REPOSITORY
from tests.messages import lines_with
from tests.retrieve.search_server import Reply, SearchServer

# the gold of the last question has another word: bm25 finds that of the others at rank 1
QUESTIONS = "".join(
    f'{{"id": "q{n}", "question": "word{n}", "relevant": ["m{n + n // 5}"], "reference": "w"}}\n'
    for n in range(6)
)
CORPUS = "".join(f'{{"_id": "m{n}", "text": "word{n}"}}\n' for n in range(8))
CONFIG = """\
dataset: {type: records, path: qa.jsonl, corpus: corpus.jsonl}
metrics: {retrieval: {measures: [mrr]}, generation: [token_f1]}
"""
BM25 = "retrievers: {bm25: {type: bm25}}\n"


CODE = """
def interrupt(question, top_k):
    raise KeyboardInterrupt

def search(question, top_k):  # wrong for the first question
    return ["m" + ("7" if question == "word0" else question[-1])]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "qa.jsonl").write_text(QUESTIONS)
    (tmp_path / "corpus.jsonl").write_text(CORPUS)
    return tmp_path


@pytest.fixture
def ci(folder):
    """Run a command on `c.yaml` on GitHub: exit code, annotations, step summary, JUnit, stderr."""

    def run(config, *words, command="run", **environment):
        (folder / "c.yaml").write_text(CONFIG + config)
        env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "summary.md", **environment}
        (folder / "summary.md").unlink(missing_ok=True)
        (folder / "out.xml").write_text("of an earlier run")
        words = words or ("c.yaml",)
        done = run_command(command, *words, "--junit", "out.xml", cwd=folder, env=env)
        lines = done.stderr.splitlines()
        summary = folder / "summary.md"
        return (
            done.returncode,
            [line for line in lines if line.startswith("::")],
            summary.read_text() if summary.exists() else "",
            ElementTree.parse(folder / "out.xml").getroot(),
            "\n".join(line for line in lines if not line.startswith("::")),
        )

    return run


@pytest.fixture
def refusing_url():
    """The address of a port on which no program listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def errors_in(junit):
    """Return the errors of a JUnit file, whose counts must be right: (type, text) each."""
    cases = junit.findall("testsuite/testcase")
    for node in (junit, junit.find("testsuite")):
        assert node.get("tests") == str(len(cases))
        assert node.get("errors") == str(len(junit.findall(".//error")))
    return [(error.get("type"), error.text) for error in junit.findall(".//error")]


def test_each_mistake_of_a_config_is_an_annotation_at_its_line(ci, assert_message):
    config = "retrievers:\n  bm25: {type: bm25, b: 1.4}\n  a: {type: bm52}\n"
    code, annotations, summary, junit, stderr = ci(config)

    assert code == 2
    assert [annotation.partition(",title=")[0] for annotation in annotations] == [
        "::error file=c.yaml,line=4,col=25",
        "::error file=c.yaml,line=5,col=13",
    ]
    assert_message(annotations)
    assert_message(summary.replace(stderr, "STDERR"))
    [(kind, text)] = errors_in(junit)
    assert text == stderr
    assert_message(kind)


def test_the_file_of_an_annotation_is_relative_to_the_checkout(ci, folder):
    (folder / "qa.jsonl").write_text(QUESTIONS + "{\n")

    code, [annotation], *_ = ci(BM25, GITHUB_WORKSPACE=str(folder.parent))

    assert code == 2
    assert annotation.startswith(f"::error file={folder.name}/qa.jsonl,line=7,title=")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("c.yaml", "--typo"), "No such option '--typo'."),
        (("c.yaml", "--only", "x"), "only: found 'x', allowed: bm25"),
        (("no.yaml",), "no.yaml: "),
    ],
)
def test_wrong_usage_is_in_the_junit_file_too(ci, words, message, assert_message):
    code, annotations, summary, junit, _ = ci(BM25, *words)

    [(kind, text)] = errors_in(junit)
    assert code == 2
    assert_message(kind)
    assert message in text
    assert message in annotations[0]
    assert message in summary


def test_a_held_lock_is_5(ci, folder, assert_message):
    with lock_experiment(folder / "runs" / "c"):
        code, annotations, summary, junit, stderr = ci(BM25)

    assert code == 5
    assert f"(process {os.getpid()})" in stderr
    assert_message(annotations[0].split("::")[1], "error title")
    assert "(exit code 5)" in summary
    [(kind, text)] = errors_in(junit)
    assert text == stderr.splitlines()[-1]
    assert_message(kind)


def test_a_full_disk_is_6(ci, folder, monkeypatch, assert_message):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # what the first file of the run meets
    (folder / "c.yaml").write_text(CONFIG + BM25)
    environment = {"GITHUB_ACTIONS": "true"}
    done = run_command("run", "c.yaml", "-q", cwd=folder, env=environment)

    assert done.returncode == 6
    message, annotation = done.stderr.splitlines()
    assert_message(message)
    assert_message(annotation)


def test_a_full_step_summary_is_6_and_the_other_files_are_written(ci, assert_message):
    code, annotations, _, junit, stderr = ci(BM25, GITHUB_STEP_SUMMARY="/dev/full")

    message = "/dev/full: GITHUB_STEP_SUMMARY cannot be written: No space left on device"
    assert code == 6
    assert stderr.splitlines()[-1] == message
    assert stderr.count(message) == 1, "said once, though the summary of the error fails as well"
    assert_message(annotations)
    assert errors_in(junit) == [("no space left", message)]


def test_the_full_file_of_a_cache_is_6():
    # SQLite's own error, which says it in words alone in Python 3.10.
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA max_page_count = 2")
    connection.execute("CREATE TABLE a (b)")
    with pytest.raises(sqlite3.OperationalError) as full:
        connection.execute("INSERT INTO a VALUES (zeroblob(100000))")

    error = storage_error("cannot be used", full.value, file="cache.sqlite")

    assert (type(error), error.exit_code) == (DiskFull, 6)
    assert storage_error("x", sqlite3.OperationalError("locked"), file="c").exit_code == 2
    assert storage_error("x", PermissionError(13, "denied"), file="c").exit_code == 2


def http(url, **options):
    entry = {"type": "http", "url": url, "ids": "$.hits[*]", "retries": 0, **options}
    return f"retrievers: {{bm25: {{type: bm25}}, web: {json.dumps(entry)}}}\n"


def test_a_server_that_refuses_every_connection_is_7(ci, folder, refusing_url, assert_message):
    code, annotations, summary, junit, _ = ci(http(refusing_url))

    assert code == 7
    reason = "no request was served by the server of retriever 'web'"
    assert_message(annotations[0])
    assert f"- warning: {reason}" in summary
    [(kind, text)] = errors_in(junit)
    assert (kind, text.partition("; ")[0]) == ("a server cannot be used", reason)
    # the run folder is written, and says the same
    run = folder / "runs" / "c" / "latest"
    assert (run / "junit.xml").read_bytes() == (folder / "out.xml").read_bytes()
    experiment = load_experiment(run)
    assert experiment.exit_code == 7
    assert experiment.summary["unreachable"] == ["retriever 'web'"]
    assert experiment.summary["systems"][0]["scores"]["mrr"]["n"] == 6


@pytest.mark.costly
def test_an_app_that_refuses_the_key_is_7_after_one_request(ci, assert_message):
    with SearchServer(lambda body: Reply({"error": "bad key"}, 401)) as server:
        app = {"type": "http", "url": server.url, "concurrency": 1}
        code, annotations, _, _, _ = ci(f"apps: {{mine: {json.dumps(app)}}}\n")

    assert (code, len(server.received)) == (7, 1)
    assert_message(annotations[0])


@pytest.mark.costly
def test_the_same_command_ends_with_0_when_the_server_is_there(ci):
    with socket.socket() as silent:
        # bound, so that no other process listens there
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        url = f"http://127.0.0.1:{port}/search"
        assert ci(http(url))[0] == 7

    with SearchServer(lambda body: {"hits": ["m1"]}, port=port):
        assert ci(http(url))[0] == 0


def test_a_server_that_answers_some_requests_is_3(ci, assert_message):
    def script(body):
        return {"hits": ["m1"]} if body["query"] == "word1" else Reply(b"", cut=True)

    with SearchServer(script) as server:
        code, annotations, _, junit, _ = ci(http(server.url))

    assert code == 3
    assert_message(annotations[0])
    assert [kind for kind, _ in errors_in(junit)] == ["incomplete"]


@pytest.mark.parametrize(
    ("more", "words", "code"),
    [
        ("gates: [{measure: mrr, system: bm25, min: 0.9}]\n", (), 1),
        ("gates: [{measure: mrr, system: web, min: 0.1}]\n", ("--strict",), 7),
        ("gates: [{measure: mrr, system: web, min: 0.1}]\n", (), 7),
        ("max_failed: 1.0\n", (), 0),
    ],
    ids=["a failed gate comes first", "undecided", "undecided but not strict", "allowed"],
)
def test_precedence_of_7(ci, refusing_url, more, words, code):
    assert ci(http(refusing_url) + more, "c.yaml", *words)[0] == code


def chat(url):
    options = f"model: m, base_url: {url}/v1, retries: 0"
    return f"{BM25}generators: {{gpt: {{type: openai, {options}}}}}\n"


def judge(url):
    options = f"type: openai, model: m, base_url: {url}/v1, retries: 0, rubrics: [fluency]"
    return (
        f"{BM25}generators: {{extractive: {{type: extractive}}}}\n"
        f"metrics: {{generation: [], judge: {{{options}}}}}\n"
    )


def run_models(folder, config):
    """Return the exit code of a run whose config has its own metrics, if any."""
    head = CONFIG.splitlines()[0] if "metrics" in config else CONFIG
    (folder / "c.yaml").write_text(f"{head}\n{config}")
    return run_experiment(folder / "c.yaml").exit_code


@pytest.fixture
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    return folder


@pytest.mark.slow  # imports the client of openai, and waits for its connections
@pytest.mark.parametrize("config_of", [chat, judge])
def test_a_model_that_refuses_every_connection_is_7(in_folder, refusing_url, config_of):
    assert run_models(in_folder, config_of(refusing_url)) == 7
    # several addresses of one name, all refused
    assert run_models(in_folder, config_of(refusing_url.replace("127.0.0.1", "localhost"))) == 7


@pytest.mark.slow  # imports the client of openai, and waits for its connections
@pytest.mark.parametrize("config_of", [chat, judge])
def test_a_model_that_answers_with_errors_is_3(in_folder, config_of):
    with ChatServer(Answer("no", status=400), model="m") as server:
        assert run_models(in_folder, config_of(server.url.removesuffix("/v1"))) == 3


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "no"), socket.gaierror(-2, "who")])
def test_code_of_the_user_that_reaches_no_server_is_7(in_folder, error):
    def search(question, top_k):
        try:
            raise error
        except OSError as failure:
            raise ConnectionError("cannot connect") from failure

    (in_folder / "c.yaml").write_text(CONFIG)
    assert run_experiment(in_folder / "c.yaml", retrievers={"mine": search}).exit_code == 7


def test_errors_in_python_have_the_codes():
    assert (RagbenchError.exit_code, DataError.exit_code) == (2, 2)
    assert (FolderLocked.exit_code, DiskFull.exit_code) == (5, 6)
    refused = failure_of_exception(ConnectionRefusedError("no"))
    cut = failure_of_exception(ConnectionResetError("cut"))
    assert (refused.unreachable, refused.exit_code) == (True, 7)
    assert (cut.unreachable, cut.exit_code, CallFailure.exit_code) == (False, 2, 2)
    # an error of the user's code that follows a refused connection is an error of the code
    follow_up = ValueError("no default")
    follow_up.__context__ = ConnectionRefusedError("no")
    assert not failure_of_exception(follow_up).unreachable


@pytest.mark.costly
def test_an_undecided_gate_is_an_error_with_strict_alone(ci, folder, assert_message):
    (folder / "mine.py").write_text(CODE)
    gates = "retrievers: {bm25: {type: bm25}, mine: {type: 'python:mine:search'}}\n"
    gates += "gates: [{measure: mrr, against: bm25, max_drop: 0.01}]\n"
    code, [annotation], _, junit, _ = ci(gates, "c.yaml", "--strict")
    assert (code, errors_in(junit)[0][0]) == (4, "undecided")
    assert_message(annotation)

    code, [annotation], _, junit, _ = ci(gates)
    assert (code, errors_in(junit)) == (0, [])
    assert_message(annotation)
    assert len(junit.findall(".//skipped")) == 1


def test_the_junit_file_of_a_run_is_that_of_its_folder(ci, folder, assert_message):
    gates = "gates: [{measure: mrr, min: 0.1}, {measure: mrr, min: 0.9}]\n"
    code, [annotation], _, junit, _ = ci(BM25 + gates)

    assert code == 1
    assert_message(annotation)
    assert len(junit.findall(".//failure")) == 1
    stored = folder / "runs" / "c" / "latest" / "junit.xml"
    assert (folder / "out.xml").read_bytes() == stored.read_bytes()


def test_a_comparison_of_nothing_is_an_error(ci, folder, refusing_url, assert_message):
    config = http(refusing_url).replace("bm25: {type: bm25}, ", "")
    assert ci(config)[0] == 7

    done = run_command("compare", "runs/c", "runs/c", cwd=folder, env={"GITHUB_ACTIONS": "true"})

    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert_message([line for line in lines if line.startswith("::")])
    assert_message(lines_with(lines, "nothing was compared: "))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("corpus.jsonl/out.xml", "corpus.jsonl/out.xml: cannot be written: "),
        ("runs_", "Error: Invalid value for '--junit': File 'runs_' is a directory."),
        ("pipe", "pipe: cannot be written: it is no file"),
        ("c.yaml", "Error: Invalid value for '--junit': 'c.yaml' is a config; allowed: a file "),
    ],
)
def test_a_junit_file_that_cannot_be_written_is_2_before_anything_runs(folder, path, message):
    (folder / "runs_").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "c.yaml").write_text(CONFIG + BM25)

    done = run_command("run", "c.yaml", "--junit", path, cwd=folder, env={})

    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr.splitlines()[-1]
    assert done.stderr.count(path) == 1
    assert not (folder / "runs").exists()
    assert (folder / "c.yaml").read_text() == CONFIG + BM25


def test_a_secret_is_in_no_report(ci, folder):
    key = "sk-Zr4kQx81LmPv93TyWc5"
    config = f"retrievers: {{bm25: {{type: bm25, b: {key}}}}}\n"

    code, *reports = ci(config, OPENAI_API_KEY=key)

    assert code == 2
    texts = [*reports[0], reports[1], (folder / "out.xml").read_text(), reports[3]]
    assert all("retrievers.bm25.b" in text for text in texts)
    assert not any(key in text for text in texts)


def test_an_interrupted_run_is_130(ci, folder, monkeypatch, assert_message):
    (folder / "mine.py").write_text(CODE)
    monkeypatch.setattr(os, "_exit", sys.exit)

    code, annotations, summary, junit, stderr = ci(
        "retrievers: {mine: {type: 'python:mine:interrupt'}}\n"
    )

    assert (code, stderr.splitlines()[-1]) == (130, "interrupted")
    assert_message(annotations)
    assert "(exit code 130)" in summary
    assert errors_in(junit) == [("interrupted", "interrupted")]


def test_a_bug_is_70(ci, monkeypatch, assert_message):
    def broken(*arguments, **options):
        raise ZeroDivisionError

    monkeypatch.setattr("ragbench.config.load.load_config", broken)

    code, annotations, _, junit, _ = ci(BM25)

    assert code == 70
    assert_message(annotations[0])
    assert errors_in(junit)[0][0] == "internal error"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (FileNotFoundError(2, "No such file"), 2, "cannot use the working directory: No such file"),
        (FileNotFoundError(2, "No such file", "table.txt"), 70, "internal error; please report it"),
        (PermissionError(13, "Permission denied", "a"), 2, "cannot use a: Permission denied"),
        (IsADirectoryError(21, "Is a directory", "a"), 2, "cannot use a: Is a directory"),
        (OSError(28, "No space left on device"), 6, "cannot write the result: No space left"),
    ],
)
def test_an_error_of_the_system_is_no_bug_unless_a_file_is_missing(
    folder, monkeypatch, error, code, message
):
    def broken(*arguments, **options):
        raise error

    monkeypatch.setattr("ragbench.config.load.load_config", broken)

    done = run_command("validate", "c.yaml", cwd=folder, env={})

    assert (done.returncode, done.stderr.splitlines()[-1][: len(message)]) == (code, message)


def test_an_exit_code_without_an_error_is_reported_too(folder, monkeypatch, assert_message):
    # `ragbench cache verify` prints what is damaged, and ends with 2.
    (folder / "c.yaml").write_text(CONFIG + BM25)
    assert run_command("run", "c.yaml", cwd=folder, env={}).returncode == 0
    with sqlite3.connect(folder / ".ragbench" / "cache.sqlite") as connection:
        connection.execute("UPDATE rows SET blob = x'00'")

    done = run_command("cache", "verify", cwd=folder, env={"GITHUB_ACTIONS": "true"})

    assert done.returncode == 2
    assert_message(done.stderr.splitlines()[-1])


def test_help_and_page_name_every_code():
    epilog = " ".join(run_command("--help", env={}).stdout.partition("Exit codes:")[2].split())
    page = (REPOSITORY / "docs" / "gates.md").read_text(encoding="utf-8")
    table = page.partition("| exit code | meaning |")[2].partition("\n\n")[0]

    assert epilog == f"0 done; {'; '.join(f'{c} {m}' for c, m in EXIT_MEANINGS.items())}."
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert [*map(int, rows)] == [0, *EXIT_MEANINGS]
