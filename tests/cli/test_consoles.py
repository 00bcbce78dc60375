"""Consoles of other systems: nothing ends for what they cannot show, and nothing is garbled."""

import io
import json
import logging
import os
import pty
import subprocess
import sys

import pytest

from ragbench.cli import main
from ragbench.cli.commands import COMMANDS
from ragbench.cli.output import Door, echo, write_exactly
from tests.commands import run_command
from tests.conftest import free_handlers

QUESTION = "Où est 東京 → 🙂?"
# What each encoding makes of it.
PRINTED = {
    "utf-8": QUESTION,
    "cp1252": r"Où est \u6771\u4eac \u2192 \U0001f642?",
    "cp437": r"Où est \u6771\u4eac \u2192 \U0001f642?",
    "latin-1": r"Où est \u6771\u4eac \u2192 \U0001f642?",
    "ascii": r"O\xf9 est \u6771\u4eac \u2192 \U0001f642?",
}
CONFIG = (
    "dataset: {type: records, path: qa.jsonl}\n"
    "metrics: {generation: [token_f1], judge: {type: python:tests.words:context_overlap}}\n"
    "gates: [{measure: token_f1, min: 0.99}]\n"
)
LINES = [
    "demo", "run c.yaml", "run c.yaml --json", "run 東京.yaml", "plan c.yaml", "plan c.yaml --json",
    "audit c.yaml", "audit c.yaml --json", "audit 東京.yaml",
    "questions qa.jsonl -n 1 --model none -o ù.csv", "questions 東京 -n 1 --model none -o ù.csv",
    "validate c.yaml", "validate 東京.yaml", "validate c.yaml --set name=東京",
    "init Où.yaml --from qa.jsonl --force", "score q.qrels a.trec -q",
    "score q.qrels a.trec -q --format csv", "score q.qrels a.trec -q --format json",
    "score q.qrels a.trec -q --format table", "score q.qrels 東京.trec", "explain runs/c",
    "explain runs/c --format json", "explain runs/c --format markdown", "explain runs/c --cause ù",
    "fix runs/c", "fix runs/c --system 東京",
    "show runs/c q1", "show runs/c 東京", "runs", "runs --format json", "runs 東京",
    "compare runs/c", "compare runs/c runs/c --format markdown",
    "compare runs/c runs/c --format json", "compare runs/c -m 東京", "baseline runs/c -o ù.json",
    "gate c.yaml --base runs/c", "gate c.yaml --base 東京",
    "report runs/c", "report runs/c -o ù", "calibrate runs/c --draw 1",
    "calibrate runs/c --labels 東京.jsonl", "list", "list 東京",
    "list --json", "cache", "cache prune --older-than 東京", "reproduce runs/c", "reproduce 東京",
    "list rubrics faithfulness", "list rubrics 東京", "schema", "schema 東京", "東京", "--東京",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run over a question of many scripts, and files with such names."""
    folder = tmp_path_factory.mktemp("consoles")
    row = {"id": "q1", "question": QUESTION, "answer": "où 東京", "reference": "東京",
           "contexts": ["où → 東京"]}  # fmt: skip
    (folder / "qa.jsonl").write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    (folder / "c.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "q.qrels").write_text("qù 0 東京 1\n", encoding="utf-8")
    (folder / "a.trec").write_text("qù Q0 東京 1 1.0 où\n", encoding="utf-8")
    (folder / "東京.trec").write_text("qù Q0 東京 1 →\n", encoding="utf-8")
    done = run_command("run", "c.yaml", cwd=folder)
    assert done.returncode == 1, done.stderr
    return folder


@pytest.fixture
def on_console(monkeypatch, folder):
    """Run a command in this process on streams of an encoding: exit code, stdout, stderr."""

    def run(encoding, line):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PYTHONIOENCODING", encoding)
        streams = [io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        monkeypatch.setattr(sys, "argv", ["ragbench", *line.split()])
        with pytest.raises(SystemExit) as exited:
            main()
        for stream in streams:
            stream.flush()
        return exited.value.code, *(
            console.buffer.getvalue().decode(encoding) for console in streams
        )

    return run


def test_every_command_is_here():
    assert {line.split()[0] for line in LINES} >= COMMANDS.keys()


@pytest.mark.costly
@pytest.mark.parametrize(
    ("line", "encoding"),
    [(line, ("cp1252", "ascii")[n % 2]) for n, line in enumerate(LINES)],
)
def test_no_command_ends_or_garbles_for_an_encoding(on_console, line, encoding):
    code, out, err = on_console(encoding, line)

    assert code in (0, 1, 2, 3), err
    assert "Error" not in err.replace("Error: ", ""), "no traceback, no UnicodeEncodeError"
    for garbled in (QUESTION, "東京", "où", "ù", "→"):  # UTF-8 that is read as something else
        for other in ("cp1252", "cp437", "latin-1"):
            assert garbled.encode().decode(other, "replace") not in out + err
    if line == "schema" or line.endswith((" json", " --json")):
        json.loads(out)


@pytest.mark.parametrize("encoding", PRINTED)
def test_what_an_encoding_lacks_is_an_escape(on_console, encoding):
    assert PRINTED[encoding] in on_console(encoding, "show runs/c q1")[1]
    read = on_console(encoding, "score q.qrels a.trec -q --format json")[1]
    assert "qù" in json.dumps(json.loads(read), ensure_ascii=False), "JSON is the same in all"


def test_echo_shows_what_a_terminal_would_obey(monkeypatch):

    class Console(io.StringIO):
        def fileno(self):
            raise AssertionError("somebody looks behind the door")

    monkeypatch.setattr(sys, "stdout", Door(Console(), is_stderr=False))
    echo("a\x1b[2J")

    assert sys.stdout.getvalue() == "a␛[2J\n"


@pytest.mark.slow
def test_headings_are_bold_on_a_terminal(warm):
    host, client = pty.openpty()
    with subprocess.Popen(
        [warm.folder / "ragbench", "list", "retrievers"],
        stdout=client, stderr=client, stdin=client, env={**os.environ, "TERM": "xterm"},
    ):  # fmt: skip
        os.close(client)
        output = b""
        while b"\n" not in output:
            output += os.read(host, 4_096)
    os.close(host)

    assert output.startswith(b"\x1b[1mretrievers\x1b[0m")


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", b"q\x9b \\ud800 \xc3\xa9 \xe6\x9d\xb1"), ("cp1252", b"q\x9b \\ud800 \xe9 \\u6771")],
)
def test_ids_for_programs_keep_their_bytes(monkeypatch, encoding, expected):
    r"""`\udc9b` is how Python reads a byte that is no UTF-8; half a pair has no bytes at all."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)

    write_exactly("q\udc9b \ud800 é 東")

    assert stream.buffer.getvalue() == expected


def test_a_library_that_a_command_imports_keeps_no_stream_of_it(tmp_path, monkeypatch, capfd):
    (tmp_path / "mine.py").write_text(
        "import logging\n"
        "logging.getLogger('made by a command').addHandler(logging.StreamHandler())\n"
        "def search(question, top_k):\n    return []\n"
    )
    config = "dataset: {type: records, path: qa.jsonl}\nretrievers: {a: {type: python:mine:search}}"
    (tmp_path / "c.yaml").write_text(config)
    row = {"id": "q1", "question": "What?", "relevant": ["d1"]}
    (tmp_path / "qa.jsonl").write_text(json.dumps(row))
    stream = io.StringIO()
    monkeypatch.setattr(logging.getLogger("made by a command"), "handlers", [])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ragbench", "validate", "c.yaml"])
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit) as end:
            main()

    [handler] = logging.getLogger("made by a command").handlers
    assert (end.value.code, handler.stream) == (0, stream)
    # the tests free the handler in their turn, though the stream is closed by now
    handler.flush = stream.flush
    logging.root.addHandler(root_handler := logging.StreamHandler(stream))
    stream.close()
    free_handlers()
    assert root_handler not in logging.root.handlers
    logging.getLogger("made by a command").warning("a late record")
    assert capfd.readouterr().err == "a late record\n"
