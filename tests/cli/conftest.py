"""The command line in this process, and small files for it."""

import io
import json
import sys

import pytest

from ragbench.cli import main
from tests.calibration.trial import judged
from tests.cli.bridges import bridge_records
from tests.cli.run_files import JUDGED_RUN, QRELS, RUN_A, RUN_B
from tests.conftest import run_once


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Judgements and two runs in the working directory, which is returned."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("qrels", QRELS), ("a.run", RUN_A), ("b.run", RUN_B)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def score(monkeypatch, capsysbinary):
    """Run `ragbench score` in this process: exit code, stdout, stderr."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["ragbench", "score", *map(str, arguments)])
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), encoding="utf-8")
        )
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsysbinary.readouterr()
        return exited.value.code, printed.out.decode("utf-8"), printed.err.decode("utf-8")

    return run


@pytest.fixture
def means(score):
    """Run `ragbench score` and return the means of the first run, as JSON has them."""

    def of(*arguments):
        code, text, problems = score(*arguments, "--format", "json")
        assert code == 0, problems
        scores = json.loads(text)["systems"][0]["scores"]
        return {name: mean_score["mean"] for name, mean_score in scores.items()}

    return of


@pytest.fixture
def after_quickstart(finished_quickstart, tmp_path):
    """The test's folder as a finished quickstart leaves it: `runs` and `cache`."""
    finished_quickstart.copy_to(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def judged_quickstart(tmp_path_factory):
    """A part of the quickstart with a judge, whose data more commands read than those of others."""
    finished = run_once(tmp_path_factory, "judged", *JUDGED_RUN)
    assert finished.done.returncode == 0, finished.done.stderr
    return finished


@pytest.fixture
def quickstart(tmp_path, monkeypatch, capsys, repository):
    """Run a command on the quickstart in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGBENCH_CACHE", "cache")
    config = str(repository / "configs" / "quickstart.yaml")

    def run(*arguments):
        words = [config if word == "CONFIG" else str(word) for word in arguments]
        monkeypatch.setattr(sys, "argv", ["ragbench", *words])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsys.readouterr()
        return exited.value.code, printed.out, printed.err

    return run


@pytest.fixture(scope="session")
def bridges(tmp_path_factory):
    """The folder of a run over the bridges with the judge of words."""
    folder = tmp_path_factory.mktemp("calibrate")
    return judged(folder, "bridges", bridge_records(), ["faithfulness", "answer_relevancy"])


@pytest.fixture
def calibrate(bridges, tmp_path, monkeypatch, capsysbinary):
    """Run `ragbench calibrate RUN` in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, of=bridges):
        monkeypatch.setattr(sys, "argv", ["ragbench", "calibrate", str(of), *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            main()
        printed = capsysbinary.readouterr()
        return exited.value.code, printed.out.decode("utf-8"), printed.err.decode("utf-8")

    return call
