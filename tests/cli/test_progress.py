"""Commands that last say how far they are where no bar moves: `calibrate`, `score`."""

import functools
import os
import re
import subprocess

import pytest

from tests.calibration.trial import judged
from tests.chat_server import ChatServer
from tests.cli.bridges import bridge_records
from tests.cli.run_files import QRELS, RUN_A
from tests.experiment.conftest import config, data  # noqa: F401  fixtures
from tests.score.judge.scripted import Held, Script

pytestmark = pytest.mark.slow  # processes and servers


@pytest.fixture
def said_meanwhile(warm):
    """Lines of progress of a command that waits until a line was printed."""
    return functools.partial(_said_meanwhile, warm.folder / "ragbench")


def _said_meanwhile(program, arguments, pattern, go_on, cwd):
    """Start a command that waits, and let it go on when it has said what is wanted."""
    with subprocess.Popen(
        [program, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "RAGBENCH_PROGRESS": "0.05"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        lines, gone_on = [], False
        for line in process.stderr:
            lines.append(line.rstrip("\n"))
            if not gone_on and re.search(pattern, line):
                gone_on = True
                go_on(process)
    assert (process.returncode, gone_on) == (0, True), lines
    return lines


def test_calibrate_says_how_many_answers_were_asked_about(said_meanwhile, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    script = Held(Script())
    with ChatServer(script) as server:
        block = {"type": "openai", "model": "m", "base_url": server.url}
        records = [{**row, "contexts": [*row["contexts"], "Red."]} for row in bridge_records()]
        rubric = {"name": "used", "needs": ["contexts", "answer"], "scale": {1: "no", 5: "yes"}}
        run = judged(tmp_path, "asked", records, judge={**block, "rubrics": [rubric]})
        script.hold_after = script.answered + 5
        lines = said_meanwhile(
            ["calibrate", run, "--probe", "position", "--sample", 30, "--trust", server.url],
            r"ask openai again: [0-9]+ of 60 answers after .+ s",
            lambda process: script.release(),
            tmp_path,
        )

    assert any(re.match("ask openai again: 60 answers in ", line) for line in lines)


def test_score_says_how_much_of_a_run_file_is_read(said_meanwhile, tmp_path):
    (tmp_path / "qrels").write_text(QRELS)

    def give(process):
        process.stdin.write(RUN_A)
        process.stdin.close()

    lines = said_meanwhile(["score", "qrels", "-"], "score -: 0 MB after .+ s", give, tmp_path)

    assert any(re.match("score -: 0 MB in ", line) for line in lines)


def test_what_is_soon_over_says_nothing(warm, tmp_path):
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN_A)
    done = subprocess.run(
        [warm.folder / "ragbench", "score", "qrels", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "score run" not in done.stderr
