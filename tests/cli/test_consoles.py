"""Consoles of other systems: nothing ends for what they cannot show."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # processes of their own

QUESTION = "Où est 東京 → 🙂?"
CONFIG = "dataset: {type: records, path: qa.jsonl}\nmetrics: {generation: [token_f1]}\n"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_no_encoding_of_a_console_ends_a_command(tmp_path, repository, encoding):
    """Windows has cp1252 or cp437 where nothing says otherwise, a bare container ASCII."""
    row = f'{{"id": "q1", "question": "{QUESTION}", "answer": "a b", "reference": "b"}}\n'
    (tmp_path / "qa.jsonl").write_text(row, encoding="utf-8")
    (tmp_path / "c.yaml").write_text(CONFIG, encoding="utf-8")
    console = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    own = {**os.environ, **console, "PYTHONUTF8": "0", "PYTHONPATH": str(repository)}
    said = {}

    for line in ("run c.yaml", "show runs/c q1", "validate 東京.yaml"):
        command = [sys.executable, "-m", "ragbench", *line.split()]
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, check=False)
        assert done.returncode == (2 if "東京" in line else 0), done.stderr
        assert b"Traceback" not in done.stderr
        said[line] = done.stdout.decode("utf-8")

    assert QUESTION in said["show runs/c q1"], "what is redirected is UTF-8, as the files are"
