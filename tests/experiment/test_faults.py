"""Faults through the command: disks, damage, signals, clocks, two runs at once."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path

import pytest
import yaml

from ragbench.experiment.result import load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.llm import Replies
from ragbench.store.database import CACHE_FILE
from ragbench.store.sqlite_file import DamagedCache
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.experiment.moons import FEW_SCORES, moons_place
from tests.experiment.test_stages import contents, work
from tests.messages import lines_with
from tests.score.judge.scripted import Held, Script
from tests.store.rows import damage, items, query

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

STAGES = ("retrieve", "generate", "score", "judge", "compare")
SMALL = {
    "retrievers": {"exact": {"type": "bm25", "stemmer": "none"}},
    "statistics": {"resamples": 100},
}
# One request an answer, which reads the passages.
USED = {
    "name": "used",
    "needs": ["question", "contexts", "answer"],
    "scale": dict.fromkeys((1, 5), "so"),
}


class Command:
    """`ragbench run` with a judge on a server here."""

    def __init__(self, config, folder, server, script, warm):
        judge = {"type": "openai", "model": "m", "base_url": server.url}
        judge |= {"rubrics": [USED], "concurrency": 1}
        metrics = {"retrieval": {"measures": ["ndcg@10"]}, "generation": ["token_f1"]}
        self.folder, self.server, self.output = folder, server, folder / "runs"
        self.script, self._warm = script, warm
        self.cache = folder / "cache"
        complete = {**config, **SMALL, "metrics": {**metrics, "judge": judge}}
        (folder / "exp.yaml").write_text(yaml.safe_dump(complete))

    def _call(self, *other):
        arguments = other or ["run", "exp.yaml", "--quiet", "--set", f"output={self.output}"]
        variables = {"RAGBENCH_CACHE": str(self.cache), "OPENAI_API_KEY": ""}
        return arguments, {"cwd": self.folder, "env": {**os.environ, **variables}}

    def start(self, *other):
        """Start it, or another command, in a process of its own."""
        arguments, place = self._call(*other)
        return self._warm.start(*arguments, stderr=subprocess.PIPE, text=True, **place)

    def run(self):
        """Run it to the end, in this process: exit code, what it said on stderr."""
        arguments, place = self._call()
        done = run_command(*arguments, **place)
        return done.returncode, done.stderr

    def start_and_hold(self, times, *other):
        """Start it; return when the server was asked so often, and has yet to answer the last."""
        # the script answers all but the last of `times` requests, and then waits for release()
        self.script.hold_after = self.script.answered + times - 1
        target = self.server.counters.requests + times
        process = self.start(*other)
        while self.server.counters.requests < target:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        return process

    def contents(self):
        return contents(load_experiment(self.output / "moons"))


@pytest.fixture
def command(config, tmp_path, warm):
    script = Held(Script())
    with ChatServer(script, model="m") as server:
        yield Command(config, tmp_path, server, script, warm)
        script.release()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, warm):
    """Return the results of the undisturbed command, and its number of requests."""
    folder, script = tmp_path_factory.mktemp("undisturbed"), Script()
    with moons_place(folder) as config, ChatServer(script, model="m") as server:
        command = Command(config, folder, server, script, warm)
        assert command.run() == (0, "")
        return command.contents(), server.counters.requests


@pytest.fixture
def disk(tmp_path):
    """A disk of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    # a real file system: a patched write would not show what SQLite does when it is full
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no disk can be mounted here: {error.strerror}")
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield place
    # lazily: a worker may still have a file open
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk, free_kb):
    """Fill a disk but for so much; return the file that does."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        try:
            while stream.write(b"x" * 4096):
                pass
        except OSError:  # full
            # blocks of 4 kB: filled to the end first, so that free_kb is exact
            stream.truncate(stream.tell() - free_kb * 1024)
    return ballast


def set_place(command, place, disk):
    setattr(command, place, disk / place)


def stored_replies(cache):
    path = cache / "replies.sqlite"
    if not path.exists():
        return 0
    with Replies(path) as replies:
        return len(replies)


@pytest.mark.parametrize(
    ("place", "free_kb"),
    [("cache", 0), ("cache", 60), ("cache", 80), ("output", 0), ("output", 4), ("output", 32)],
)
def test_a_full_disk_and_then_room(command, undisturbed, disk, place, free_kb):
    expected, needed = undisturbed
    set_place(command, place, disk)
    ballast = fill(disk, free_kb)

    code, problems = command.run()

    assert code == 6, problems
    assert str(disk) in problems
    assert "full" in problems or "No space left on device" in problems
    # one sentence, no traceback of SQLite below it
    assert len(problems.splitlines()) == 1
    ballast.unlink()
    stored = stored_replies(command.cache)
    n_before = command.server.counters.requests
    assert command.run()[0] == 0
    assert command.contents() == expected
    n_requests = command.server.counters.requests - n_before
    assert n_requests == needed - stored, "a reply that was stored is not asked for again"


@pytest.mark.parametrize("place", ["cache", "output"])
def test_a_place_that_may_only_be_read(command, disk, place):
    set_place(command, place, disk)
    remount = ["mount", "-o", "remount,ro", str(disk)]
    subprocess.run(remount, check=True)

    code, problems = command.run()

    assert code == 2
    assert str(disk) in problems
    assert "read-only" in problems.lower()
    assert command.server.counters.requests == 0


@pytest.mark.parametrize("place", ["cache", "output"])
def test_a_file_in_the_place_of_a_folder(command, place):
    (command.folder / "a_file").write_text("")
    setattr(command, place, command.folder / "a_file" / place)

    code, problems = command.run()

    assert code == 2
    assert "a_file" in problems
    assert "Not a directory" in problems or "is a file" in problems
    assert command.server.counters.requests == 0


METRICS = {
    **FEW_SCORES,
    "generation": ["rouge1"],
    "judge": {"type": "python:tests.words:context_overlap"},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the results of an undamaged run, and its cache, which no test changes."""
    folder = tmp_path_factory.mktemp("whole")
    with moons_place(folder) as config:
        return contents(run_experiment({**config, **SMALL, "metrics": METRICS})), folder / "cache"


@pytest.mark.parametrize("stage", STAGES)
def test_damage_to_any_stage_is_made_again_once(config, whole, own_cache, stage):
    expected, cache = whole
    shutil.copytree(cache, own_cache)
    config = {**config, **SMALL, "metrics": METRICS}
    assert items(own_cache, stage)
    damage(own_cache / CACHE_FILE, "kind = ?", [stage])

    with pytest.warns(DamagedCache, match=f"damaged in {stage}.*made again"):
        second = run_experiment(config)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DamagedCache)
        third = run_experiment(config)

    assert {name.split()[0] for name in work(second)} - {"index"} == {stage}
    assert contents(second) == contents(third) == expected
    assert work(third) == {}


def test_a_clock_that_is_set_back(command, undisturbed):
    expected, _ = undisturbed
    clock = time.time
    calls = []

    def set_back():
        calls.append(1)
        # a day back from the second reading on
        return clock() - (86_400 if len(calls) > 1 else 0)

    for _ in range(2):
        calls.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", set_back)
            assert command.run() == (0, "")
        assert len(calls) > 1, "the clock was read after it was set back"
        assert command.contents() == expected
    # rows of the future, as a clock that was ahead would have stored them
    query(command.cache / CACHE_FILE, "UPDATE rows SET stored_at = stored_at + 1e6")
    n_before = command.server.counters.requests
    assert command.run()[0] == 0
    assert command.server.counters.requests == n_before
    manifest = Path(command.output / "moons" / "latest" / "manifest.json").read_text(
        encoding="utf-8"
    )
    assert '"seconds": -' not in manifest


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_and_then_the_same_command(command, undisturbed, sent, assert_message):
    expected, needed = undisturbed
    n_before = command.server.counters.requests
    process = command.start_and_hold(3)

    process.send_signal(sent)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it may wait for what is under way
        process.wait(10)
    command.script.release()
    _, problems = process.communicate()

    assert process.returncode == 130
    assert "Traceback" not in problems
    assert_message(problems)
    assert command.run()[0] == 0
    assert command.contents() == expected
    assert command.server.counters.requests - n_before <= needed + 1, "what was under way"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("reproduce runs/moons", signal.SIGTERM),
        ("calibrate runs/moons --probe position -o probes.json --trust URL", signal.SIGHUP),
    ],
)
def test_a_signal_within_other_commands_that_pay(command, line, sent, assert_message):
    assert command.run() == (0, "")
    shutil.rmtree(command.cache)
    arguments = line.replace("URL", command.server.url).split()
    process = command.start_and_hold(2, *arguments)

    process.send_signal(sent)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
    command.script.release()
    _, problems = process.communicate()

    assert process.returncode == 130, problems
    assert_message(lines_with(problems, "for the"))
    assert stored_replies(command.cache) >= 1


@pytest.mark.slow
def test_two_at_once(command, undisturbed):
    expected, _ = undisturbed
    first = command.start_and_hold(1)
    # held by the server and by the system: it cannot end before the second run has looked
    first.send_signal(signal.SIGSTOP)  # however long the second one takes to start

    code, problems = command.run()

    first.send_signal(signal.SIGCONT)
    command.script.release()
    assert code == 5
    assert f"another run (process {first.pid}) is at work here" in problems
    _, printed = first.communicate()
    assert (first.returncode, printed) == (0, "")
    assert command.contents() == expected
