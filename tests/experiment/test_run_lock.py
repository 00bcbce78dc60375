"""The lock of a run folder; the next run takes over the token of a killed run."""

import os

import pytest

from ragbench.data.runs.run_list import list_runs
from ragbench.errors import DataError
from ragbench.experiment.runner import lock_experiment

HOLD = """
import sys, time
from pathlib import Path
from ragbench.experiment.runner import lock_experiment
with lock_experiment(Path(sys.argv[1])) as session:
    print(session.token, flush=True)
    time.sleep(600)
"""


def holder(warm, folder):
    process = warm.popen(["-c", HOLD, str(folder)])
    return process, process.stdout.readline().decode().strip()


@pytest.mark.costly
def test_a_second_run_is_refused_and_a_killed_holder_is_no_holder(tmp_path, warm):
    process, token = holder(warm, tmp_path / "exp")
    refusal = rf"exp: another run \(process {process.pid}\) is at work here"
    with pytest.raises(DataError, match=refusal), lock_experiment(tmp_path / "exp"):
        pass
    with lock_experiment(tmp_path / "other") as elsewhere:
        assert elsewhere.token != token

    process.kill()
    process.communicate()

    with lock_experiment(tmp_path / "exp") as session:
        assert session.token == token


def test_the_token_of_a_finished_run_is_gone(tmp_path):
    with lock_experiment(tmp_path / "exp") as first:
        first.finished = True
    with lock_experiment(tmp_path / "exp") as second:
        second.finished = True

    assert first.token != second.token
    assert list((tmp_path / "exp").iterdir()) == []


def test_a_run_that_raises_is_unfinished(tmp_path):
    with pytest.raises(KeyboardInterrupt), lock_experiment(tmp_path / "exp") as first:
        raise KeyboardInterrupt
    with lock_experiment(tmp_path / "exp") as second:
        pass

    assert first.token == second.token


def test_a_damaged_state_is_no_state(tmp_path):
    with lock_experiment(tmp_path / "exp") as first:
        pass
    (tmp_path / "exp" / ".unfinished.tmp").write_text('{"tok')

    with lock_experiment(tmp_path / "exp") as second:
        assert second.token != first.token


def test_a_place_that_cannot_be_written(tmp_path, assert_message):
    (tmp_path / "file").write_text("")

    with pytest.raises(DataError) as error:
        lock_experiment(tmp_path / "file" / "exp").__enter__()
    assert_message(error.value, "TMP/file/exp")


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="needs links that can be refused")
def test_a_lock_that_leads_elsewhere_is_none(tmp_path):
    # The folder of an experiment may come from others; what the link named was emptied.
    private, folder = tmp_path / "private", tmp_path / "exp"
    private.write_text("mine")
    folder.mkdir()
    (folder / ".lock.tmp").symlink_to(private)

    with (
        pytest.raises(DataError, match=r"cannot be written: .*symbolic links"),
        lock_experiment(folder),
    ):
        raise AssertionError("it is no lock")

    assert private.read_text() == "mine"


def test_an_unfinished_run_is_listed(tmp_path):
    with pytest.raises(KeyboardInterrupt), lock_experiment(tmp_path / "exp"):
        raise KeyboardInterrupt
    [entry] = list_runs(tmp_path)

    assert entry.path == tmp_path / "exp"
    assert "goes on with it" in entry.problem
    assert [of_experiment.path for of_experiment in list_runs(tmp_path / "exp")] == [entry.path]
