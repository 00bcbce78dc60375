"""Blocks on processes: their order, what a process that ends costs, and what is said of it."""

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from multiprocessing.context import SpawnProcess

import pytest

from ragbench.cli.output import Door
from ragbench.errors import AdapterError
from ragbench.executors import base
from ragbench.executors.base import MALLOC, LostItem, WorkerEnded, blocks_of
from ragbench.executors.local import Local
from tests.executors import tasks
from tests.waiting import wait_until

pytestmark = pytest.mark.costly  # processes that import what they compute


@pytest.fixture(scope="module")
def executor():
    with closing(Local(workers=2)) as made:
        yield made


def mapped(executor, task, items, size=8):
    """Return all results in one list."""
    return [result for results in executor.map(task, blocks_of(items, size)) for result in results]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_come_in_order_whoever_computes_them(executor):
    numbers, progress = list(range(1000)), []
    task = tasks.doubles()

    assert executor.map_all(task, numbers, 8, progress.append) == [2 * n for n in numbers]
    assert progress == [8] * 125, "block by block"
    assert list(executor.map(task, [])) == []
    assert list(executor.map(task, [[1], [2, 3]])) == [[2], [4, 6]]


def test_both_workers_have_work(executor):
    results = mapped(executor, tasks.simple(tasks.pids), range(200))

    assert [item for _, item in results] == list(range(200))
    # blocks of 8 of 200 items: one worker alone would have to finish 25 in a row
    assert len({pid for pid, _ in results}) == 2


def test_output_of_a_worker_goes_through_the_door(executor, monkeypatch, capfd):
    """Not to the terminal itself: a terminal obeys, and the door also hides secrets."""
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stderr", Door(printed, is_stderr=True))

    mapped(executor, tasks.simple(tasks.say), ["\x1b[31mred"])
    # a thread of the run reads the pipes of workers, some time after the result
    wait_until(lambda: printed.getvalue().count("red") == 2)

    assert printed.getvalue().count("␛[31mred") == 2, "stdout and stderr"
    assert "\x1b" not in printed.getvalue()
    assert capfd.readouterr() == ("", "")


def test_blocks_are_taken_when_they_are_needed(executor):
    taken = []

    def numbers():
        for number in range(1000):
            taken.append(number)
            yield number

    results = executor.map(tasks.doubles(), blocks_of(numbers(), 2))

    assert next(results) == [0, 2]
    # two workers, four blocks for each, two numbers in a block
    assert len(taken) <= 2 * 4 * 2, "bounded, so that memory and a budget of time are"
    assert sum(map(len, results)) == 998


def test_environment_of_a_worker(executor):
    names = [*MALLOC, "OMP_NUM_THREADS"]

    assert mapped(executor, tasks.simple(tasks.look_up), names) == [*MALLOC.values(), "1"]
    assert not MALLOC.keys() & os.environ.keys(), "of workers alone"


def test_what_a_worker_did_not_finish_is_computed_again(executor, tmp_path):
    numbers = [*range(100), f"die once {tmp_path / 'seen'}", *range(100)]

    results = mapped(executor, tasks.doubles(), numbers)

    assert results == [*range(0, 200, 2), "lived", *range(0, 200, 2)]
    assert (tmp_path / "seen").exists()


def test_the_deadly_block_alone_is_lost(executor, tmp_path):
    log = tmp_path / "log"
    numbers = [*range(40), "die", *range(41, 80)]

    results = mapped(executor, tasks.doubles(log=str(log)), numbers)

    lost = LostItem("a worker ended whenever it computed this: it ended with code 7")
    expected = [2 * number if isinstance(number, int) else lost for number in numbers]
    assert results == [*expected[:40], *[lost] * 8, *expected[48:]]
    # the log has a line for each start, also of items whose worker ended
    started = [line.split()[1] for line in log.read_text().splitlines()]
    assert started.count("die") == 2, "once more, and no third time"
    with pytest.raises(WorkerEnded, match="code 7: 'die'"):
        executor.map_all(tasks.doubles(), [1, "die", 2], 1)


def test_two_deadly_blocks_among_others(executor):
    numbers = ["die", 1, 2, 3, "die", 5]

    results = mapped(executor, tasks.doubles(), numbers, 1)

    assert [isinstance(result, LostItem) for result in results] == [n == "die" for n in numbers]
    assert [result for result in results if not isinstance(result, LostItem)] == [2, 4, 6, 10]


def test_a_process_whose_start_fails_costs_no_block(monkeypatch):
    """A pool that breaks while a process starts: a race of threads, so its error is raised here."""
    # the words of CPython for a pipe that another thread has closed meanwhile
    errors, start = [ValueError("bad value(s) in fds_to_keep")], SpawnProcess.start

    def start_or_fail(process):
        if errors:
            raise errors.pop()
        start(process)

    monkeypatch.setattr(SpawnProcess, "start", start_or_fail)
    with closing(Local(workers=1)) as executor:
        assert mapped(executor, tasks.doubles(), [1, 2, 3], 1) == [2, 4, 6]
    assert not errors


def test_workers_that_end_on_everything_are_one_error(executor):
    with pytest.raises(AdapterError, match="on each of 3 blocks"):
        mapped(executor, tasks.doubles(), ["die"] * 40)


def test_a_model_that_does_not_fit_is_one_error(executor):
    task = tasks.simple(tasks.pids, make=tasks.die)
    message = "the test: a worker ended whenever .*: it ended with code 9: .*; is there memory"

    with pytest.raises(WorkerEnded, match=message):
        executor.map_all(task, ["the model"], 1)


def test_errors_of_a_component_are_raised_here(executor):
    task = tasks.simple(tasks.be_wrong)
    with pytest.raises(AdapterError, match="dense: model: "):
        mapped(executor, task, ["ours"])
    with pytest.raises(RuntimeError, match="ZeroDivisionError: theirs"):
        mapped(executor, task, ["theirs"])
    with pytest.raises(AdapterError, match="7 results for 8"):
        mapped(executor, tasks.simple(tasks.lose_one), range(8))

    assert mapped(executor, tasks.doubles(), [1, 2, 3]) == [2, 4, 6], "and the workers go on"


def test_another_model_on_a_worker_is_refused(executor):
    task = tasks.doubles(expected={"model": "m1"}, model="m2")
    message = "the test: a worker has model m2, the run has m1; allowed: the same everywhere"

    with pytest.raises(AdapterError, match=message):
        mapped(executor, task, [1])


def test_another_version_on_a_worker_is_refused(executor, monkeypatch):
    monkeypatch.setattr(base, "_version", lambda: "0")

    with pytest.raises(AdapterError, match="the run has 0"):
        mapped(executor, tasks.doubles(), [1])


def test_no_worker_is_left_when_it_is_closed():
    with closing(Local(workers=2)) as executor:
        pids = {pid for pid, _ in mapped(executor, tasks.simple(tasks.pids), range(200))}
        assert all(map(is_alive, pids))

    assert not any(map(is_alive, pids))
    with pytest.raises(RuntimeError, match="the workers were ended"):
        mapped(executor, tasks.doubles(), [1])


SCRIPT = """
from ragbench.executors.base import blocks_of
from ragbench.executors.local import Local
from tests.executors import tasks
print("once", flush=True)
executor = Local(workers=2)
results = executor.map(tasks.simple(tasks.pids), blocks_of(range(99), 8))
print(*{pid for block in results for pid, _ in block}, flush=True)
list(executor.map(tasks.doubles(wait=1), blocks_of(range(10_000), 100)))
"""


def test_no_worker_is_left_when_the_run_is_killed(repository, tmp_path):
    """Not even one that is in the middle of a long computation; the script runs once."""
    (tmp_path / "script.py").write_text(SCRIPT)
    run = subprocess.Popen(
        [sys.executable, tmp_path / "script.py"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    assert run.stdout.readline() == "once\n"
    pids = [int(pid) for pid in run.stdout.readline().split()]
    assert pids
    assert all(map(is_alive, pids))

    run.kill()
    run.wait()
    run.stdout.close()

    until = time.monotonic() + 300
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGKILL, "SIGKILL"), (40, "signal 40")],
)
def test_a_worker_may_end_by_any_signal(executor, number, name):
    """Most signals of real time have no name in Python."""
    task = tasks.simple(tasks.end_by)
    why = f"a worker ended whenever it computed this: it was ended by {name}"

    assert mapped(executor, task, [number]) == [LostItem(why)]
