"""Commands as processes of their own: each exits and prints as `run_command` does in this one.

Each process imports the package from nothing, in the order of its command. Other packages are
imported already in all but a few of them, which start as a user's command does.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.commands import run_command

# Command -> the arguments of one call, where a quickstart has run: one of each kind.
LINES = {
    "run": "CONFIG --only bm25 --limit 12 --quiet",
    "validate": "CONFIG",
    "score": "QRELS runs/quickstart/latest/rankings/bm25.trec -m ndcg@10",
    "show": "runs/quickstart q01",
    "report": "runs/quickstart",
    "calibrate": "runs/quickstart --draw 12",
    "list": "retrievers",
    "cache": "",
    "reproduce": "runs/quickstart --quiet",
}

# Commands that start a Python of their own.
FROM_NOTHING = {"list"}
# What `python -m ragbench` does, in a process that has imported other packages only.
WITHOUT_RAGBENCH = """
import runpy, sys
for name in [*sys.modules]:
    if name.partition(".")[0] in ("ragbench", "tests"):
        del sys.modules[name]
runpy.run_module("ragbench", run_name="__main__", alter_sys=True)
"""


def run_process(warm, command, words, **options):
    """Return the exit code, stdout and stderr of `python -m ragbench COMMAND WORDS`."""
    if command in FROM_NOTHING:
        done = subprocess.run(
            [sys.executable, "-m", "ragbench", command, *words],
            capture_output=True, encoding="utf-8", check=False, **options,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr
    process = warm.popen(
        ["-c", WITHOUT_RAGBENCH, command, *words], stderr=subprocess.PIPE, text=True, **options
    )
    stdout, stderr = process.communicate()
    return process.returncode, stdout, stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_a_process_exits_and_prints_as_the_call_does(
    judged_quickstart, repository, example_data, tmp_path, warm, command
):
    places = {
        "CONFIG": str(repository / "configs" / "quickstart.yaml"),
        "QRELS": str(example_data / "qrels" / "test.tsv"),
    }
    words = [places.get(word, word) for word in LINES[command].split()]
    results = []
    for name in ("process", "call"):
        folder = tmp_path / name
        judged_quickstart.copy_to(folder)
        env = {**os.environ, "RAGBENCH_CACHE": str(folder / "cache")}
        if name == "process":
            code, stdout, stderr = run_process(warm, command, words, cwd=folder, env=env)
        else:
            done = run_command(command, *words, cwd=folder, env=env)
            code, stdout, stderr = done.returncode, done.stdout, done.stderr
        output = f"{stdout}\n--- stderr\n{stderr}"
        # a run folder is named by its time
        output = re.sub(r"\d{8}-\d{6}\S*(?=/report)", "RUN", output.replace(str(folder), "HERE"))
        results.append((code, output))

    assert results[0] == results[1]
    assert results[0][0] in (0, 2), results
    assert "Traceback" not in results[0][1]


def test_an_interrupt_during_imports_is_one_line(tmp_path):
    # Ctrl-C within the first 0.2 s printed the traceback of an import.
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")

    done = subprocess.run(
        [sys.executable, "-m", "ragbench", "list"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"interrupted\n")
