"""Each command as a process of its own: it exits and prints as `run_command` does in this one."""

import os
import re
import subprocess
import sys

import pytest

from ragbench.cli import _COMMANDS
from tests.commands import run_command

LINES = {
    "demo": "",
    "run": "CONFIG --only bm25 --quiet",
    "plan": "CONFIG",
    "validate": "CONFIG",
    "audit": "CONFIG",
    "questions": "CORPUS -n 3 --model none -o made.csv",
    "init": "fresh.yaml",
    "score": "QRELS runs/quickstart/latest/rankings/bm25.trec -m ndcg@10",
    "explain": "runs/quickstart",
    "fix": "runs/quickstart",
    "show": "runs/quickstart q01",
    "runs": "",
    "compare": "runs/quickstart -m ndcg@10",
    "gate": "CONFIG --base runs/quickstart --quiet",
    "baseline": "runs/quickstart -o main.json",
    "report": "runs/quickstart",
    "calibrate": "runs/quickstart --draw 12",
    "list": "retrievers",
    "cache": "",
    "reproduce": "runs/quickstart --quiet",
    "schema": "",
}
"""Command -> the arguments of one call, where a quickstart has run."""


def test_every_command_is_here():
    assert set(LINES) == set(_COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_a_process_exits_and_prints_as_the_call_does(
    finished_quickstart, repository, example_data, tmp_path, command
):
    places = {
        "CONFIG": str(repository / "configs" / "quickstart.yaml"),
        "QRELS": str(example_data / "qrels" / "test.tsv"),
        "CORPUS": str(example_data / "corpus.jsonl"),
    }
    words = [command, *(places.get(word, word) for word in LINES[command].split())]
    shown = []
    for name in ("process", "call"):
        folder = tmp_path / name
        finished_quickstart.copy_to(folder)
        env = {**os.environ, "RAGBENCH_CACHE": str(folder / "cache")}
        if name == "process":
            done = subprocess.run(
                [sys.executable, "-m", "ragbench", *words],
                cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False,
            )  # fmt: skip
        else:
            done = run_command(*words, cwd=folder, env=env)
        output = f"{done.stdout}\n--- stderr\n{done.stderr}"
        # a run folder is named by its time
        output = re.sub(r"\d{8}-\d{6}\S*(?=/report)", "RUN", output.replace(str(folder), "HERE"))
        shown.append((done.returncode, output))

    assert shown[0] == shown[1]
    assert shown[0][0] in (0, 2), shown
    assert "Traceback" not in shown[0][1]


def test_an_interrupt_during_imports_is_one_line(tmp_path):
    """Ctrl-C within the first 0.2 s printed the traceback of an import."""
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")

    done = subprocess.run(
        [sys.executable, "-m", "ragbench", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")
