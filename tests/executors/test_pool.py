"""Blocks on workers: their order, what a worker that ends costs, and what is said of it."""

import io
import json
import os
import random
import subprocess
import sys
import time
from contextlib import closing

import pytest

from ragbench.cli.output import Door
from ragbench.errors import AdapterError
from ragbench.executors import base
from ragbench.executors import pool as pools
from ragbench.executors.base import Heard, Lost, Task, Worker
from ragbench.executors.local import Processes
from ragbench.executors.pool import Pool
from tests.executors import tasks

HERE = "tests.executors.tasks"


def task(opener="open_doubles", about=None, **given):
    return Task("the test", f"{HERE}:{opener}", given, about or {})


@pytest.fixture
def forks(warm, monkeypatch):
    """Start workers as forks of a process that has imported what they do."""
    monkeypatch.setattr("ragbench.executors.local.subprocess.Popen", warm.popen)


@pytest.fixture
def pool(forks):
    with closing(Pool(Processes(2))) as made:
        yield made


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true):
    end = time.monotonic() + 60
    while not true() and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.costly
def test_results_come_in_order_whoever_computes_them(pool):
    numbers, told = list(range(1000)), []

    assert pool.each(task(), numbers, told.append) == [2 * number for number in numbers]
    assert sum(told) == 1000
    assert len(told) > 2, "told block by block"
    assert pool.each(task(), []) == []


@pytest.mark.costly
def test_both_workers_have_work(pool):
    found = pool.each(task("open_pids"), list(range(200)))

    assert [item for _, item in found] == list(range(200))
    assert len({pid for pid, _ in found}) == 2


@pytest.mark.costly
def test_what_a_worker_prints_goes_through_the_door(pool, monkeypatch, capfd):
    """Not to the terminal itself: a terminal obeys, and the door also hides secrets."""
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stderr", Door(printed, is_stderr=True))

    pool.each(task("open_loud", said="\x1b[31mred"), [1])
    wait_until(lambda: printed.getvalue().count("red") == 2)

    assert printed.getvalue().count("␛[31mred") == 2, "stdout and stderr"
    assert "\x1b" not in printed.getvalue()
    assert capfd.readouterr() == ("", "")


@pytest.mark.costly
def test_blocks_are_taken_when_they_are_needed(pool, monkeypatch):
    monkeypatch.setattr(pools, "_LARGEST", 8)
    taken = []

    def numbers():
        for number in range(1000):
            taken.append(number)
            yield number

    found = pool.blocks(task(), numbers(), 1000)

    assert next(found)[0] == 0
    assert len(taken) <= 8 * 8, "bounded, so that memory and a budget of time are"
    assert sum(map(len, found)) > 900


class InAnyOrder:
    """Workers in this process, each in its own order; now this one is quick, now another."""

    def __init__(self, size, draw):
        self.size, self._draw, self._quick = size, draw, 0
        self._workers, self._told = [Worker() for _ in range(size)], [[] for _ in range(size)]

    def start(self, worker):
        pass

    def tell(self, worker, message):
        self._told[worker].append(message)

    def hear(self):
        busy = [worker for worker, messages in enumerate(self._told) if messages]
        assert busy, "it would wait for ever"
        if self._draw.random() < 0.05:
            self._quick = self._draw.randrange(self.size)
        worker = self._quick if self._quick in busy else self._draw.choice(busy)
        return Heard(worker, self._workers[worker].answer(self._told[worker].pop(0)))

    def close(self):
        pass


@pytest.mark.costly
@pytest.mark.parametrize("size", [1, 2, 3])
def test_there_is_always_a_worker_to_wait_for(size, monkeypatch):
    """A block that all others wait for may be the last one under way."""
    for seed in range(100):
        draw = random.Random(seed)
        monkeypatch.setattr(pools, "_ALIKE", draw.choice([1, 2, 3]))
        pool = Pool(InAnyOrder(size, draw))
        n = draw.randrange(1, 60)

        found = pool.each(task(alone=False), range(n))

        assert found == [2 * number for number in range(n)]


@pytest.mark.costly
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("seconds", [0.00001, 0.001, 0.2, 7.0])
def test_a_block_is_as_large_as_half_a_second_allows(monkeypatch, size, seconds):
    """Whatever an item takes: no more is lost with a worker, and no less is worth a message."""
    clock = tasks.Clock(seconds)
    monkeypatch.setattr(base, "time", clock)
    monkeypatch.setattr(tasks, "CLOCK", clock)
    n = 5000

    found = Pool(InAnyOrder(size, random.Random(1))).each(task("open_clocked"), range(n))

    assert found == list(range(n))
    blocks = clock.blocks
    assert max(blocks) <= max(0.5 / seconds, 8)
    assert len(blocks) <= max(n * seconds / 0.5, 0) * 1.5 + 40
    # the last ones are small, so that workers end together
    assert blocks[-1] <= max(0.02 / seconds, 1) + 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_blocks_that_results_depend_on_are_the_same_for_any_number_of_workers(size):
    found = Pool(InAnyOrder(size, random.Random(1))).each(task("open_sizes"), range(200))

    assert found == [64] * 192 + [8] * 8


@pytest.mark.costly
def test_what_a_worker_did_not_finish_is_computed_again(pool, tmp_path):
    numbers = [*range(500), f"die once {tmp_path / 'seen'}", *range(500)]

    found = pool.each(task(), numbers)

    assert found == [*range(0, 1000, 2), "lived", *range(0, 1000, 2)]
    assert (tmp_path / "seen").exists()


@pytest.mark.costly
def test_the_guilty_item_alone_is_lost(pool, tmp_path):
    log = tmp_path / "log"
    numbers = [*range(700), "die", *range(300)]

    found = pool.each(task(log=str(log)), numbers)

    lost = found.pop(700)
    assert found == [2 * number for number in [*range(700), *range(300)]]
    assert lost == Lost("a worker ended whenever it computed this: it ended with code 7")
    ended = {line.split()[0] for line in log.read_text().splitlines()}
    # two by the block, one by each half of it, and those that live
    assert len(ended) <= 2 + 2 + len(numbers).bit_length()


@pytest.mark.costly
@pytest.mark.usefixtures("forks")
def test_two_guilty_items_of_one_block():
    numbers = ["die", 1, 2, 3, "die", 5]

    with closing(Pool(Processes(1))) as pool:
        together = next(pool.blocks(task(), [*numbers, *range(6)], 12))

    assert [isinstance(each, Lost) for each in together] == [n == "die" for n in numbers]
    assert [each for each in together if not isinstance(each, Lost)] == [2, 4, 6, 10]


@pytest.mark.costly
def test_workers_that_end_on_everything_are_one_error(pool):
    with pytest.raises(AdapterError, match=r"workers ended on each of 3 items: .*is there"):
        pool.each(task(), ["die"] * 40)


@pytest.mark.costly
def test_a_model_that_does_not_fit_is_one_error(pool):
    said = "the test: two workers ended while they loaded it: it ended with code 9; is there memory"
    with pytest.raises(AdapterError, match=said):
        pool.each(task("open_dying"), [1, 2])


class Ending(InAnyOrder):
    """One worker, which ends with a message of each kind that it is given, its answer unsent."""

    def __init__(self, *kinds):
        super().__init__(1, random.Random(1))
        self._kinds = [*kinds]

    def hear(self):
        message = json.loads(self._told[0][0])
        if self._kinds and self._kinds[0] in message:
            self._told, self._workers = [[]], [Worker()]
            return Heard(0, None, f"gone with {self._kinds.pop(0)}")
        return super().hear()


def test_a_worker_may_end_before_its_first_answers_arrive():
    """As where an item ends it at once; the next one that answers shows that it can start."""
    pool = Pool(Ending("hello", "open", "do", "hello", "open", "hello"))

    assert pool.each(task(), list(range(50))) == [2 * number for number in range(50)]
    with pytest.raises(AdapterError, match="two workers did not start: gone with hello"):
        Pool(Ending("hello", "hello")).each(task(), [1])


@pytest.mark.costly
def test_what_is_wrong_on_a_worker_is_told_here(pool):
    with pytest.raises(AdapterError, match="dense: model: found 'x', allowed: a folder"):
        pool.each(task("open_wrong", kind="ours"), [1])
    with pytest.raises(RuntimeError, match="ZeroDivisionError: theirs"):
        pool.each(task("open_wrong", kind="theirs"), [1])
    with pytest.raises(AdapterError, match=r"the test: \d results for \d items"):
        pool.each(task("open_short"), list(range(8)))

    assert pool.each(task(), [1, 2, 3]) == [2, 4, 6], "and the workers go on"


@pytest.mark.costly
def test_another_model_on_a_worker_is_refused(pool):
    said = "the test: a worker has model m2, the run has m1; allowed: the same everywhere"
    with pytest.raises(AdapterError, match=said):
        pool.each(task(about={"model": "m1"}, model="m2"), [1])

    assert pool.about(task(model="m2")) == {"model": "m2"}


@pytest.mark.costly
def test_another_version_on_a_worker_is_refused(pool, monkeypatch):
    monkeypatch.setattr(pools, "versions", lambda: {"Python": "2.7", "ragbench": "0"})

    with pytest.raises(AdapterError, match=r"a worker has Python 3\.\d+, the run has 2\.7"):
        pool.each(task(), [1])


@pytest.mark.costly
def test_nobody_is_left_when_it_is_closed():
    """Here the workers are started as a run starts them."""
    with closing(Pool(Processes(2))) as pool:
        pids = {pid for pid, _ in pool.each(task("open_pids"), list(range(200)))}
        assert all(map(is_alive, pids))

    assert not any(map(is_alive, pids))


DRIVER = """
import sys
from ragbench.executors.base import Task
from ragbench.executors.local import Processes
from ragbench.executors.pool import Pool
pool = Pool(Processes(2))
pids = {pid for pid, _ in pool.each(Task("x", "tests.executors.tasks:open_pids", {}), [*range(99)])}
print(*pids, flush=True)
pool.each(Task("x", "tests.executors.tasks:open_doubles", {"wait": 1}), [*range(10_000)])
"""


@pytest.mark.costly
def test_nobody_is_left_when_the_run_is_killed(repository):
    """Not even one that is in the middle of a long computation."""
    run = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, cwd=repository
    )
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


@pytest.mark.costly
@pytest.mark.parametrize(
    ("number", "named"), [(9, "SIGKILL"), (34, "SIGRTMIN"), (40, "signal 40"), (64, "SIGRTMAX")]
)
@pytest.mark.usefixtures("forks")
def test_a_worker_may_end_by_any_signal(number, named):
    """Most signals of real time have no name in Python."""
    crew = Processes(1)
    with closing(crew):
        crew.start(0)
        os.kill(crew._started[0].pid, number)

        heard = crew.hear()

    assert heard == Heard(0, None, f"it was ended by {named}")
