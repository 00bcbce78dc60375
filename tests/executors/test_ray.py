"""The same blocks on actors of Ray: started here for the run, or on a cluster that is there."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from ragbench.config.load import load_config
from ragbench.errors import AdapterError, MissingExtra
from ragbench.executors import base
from ragbench.executors import ray as ray_executor
from ragbench.executors.base import MALLOC, LostItem, blocks_of
from ragbench.experiment.runner import run_experiment
from tests.executors import tasks
from tests.experiment.deadly import assert_workers_change_nothing
from tests.experiment.moons import part_of
from tests.experiment.test_stages import contents
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Let one worker of the tests run at a time: processes of the whole machine are counted."""
    fcntl = pytest.importorskip("fcntl", reason="locks files as Unix does")
    here = tmp_path_factory.getbasetemp()
    common = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    with (common / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def cluster(alone):
    """The address of a Ray with two CPUs that an executor has started, and ends.

    Its processes take ten CPU seconds, so that all tests share it. Skips where sandboxes forbid
    what the servers of Ray need.
    """
    pytest.importorskip("ray", reason="needs ray: pip install 'ragbench-eval[ray]'")
    # in memory: Ray gives its servers 30 s, which a busy disk takes alone; and short, as a path of
    # a socket has 107 bytes at most
    memory = Path("/dev/shm")
    within = memory if os.access(memory, os.W_OK) else Path("/tmp")
    folder = tempfile.mkdtemp(prefix="rb", dir=within)
    running = sessions()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
        for name in MALLOC:
            patch.delenv(name, raising=False)
        for name, value in {
            "HOME": folder,
            "RAY_TMPDIR": folder,
            # actors are nice by default, and would wait for all other tests
            "RAY_worker_niceness": "0",
        }.items():
            patch.setenv(name, value)
        # one actor with both CPUs, as each of them is a process
        with closing(ray_executor.Ray(workers=1, cpus=2)) as starter:
            yield start_cluster(starter)
        wait_until(lambda: sessions() == running)
    assert sessions() == running, "a cluster ends with the executor that started it"
    shutil.rmtree(folder, ignore_errors=True)


def start_cluster(starter):
    """Start Ray by the first block of an executor; return its address."""
    import ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of processes of its own that it leaves behind
        try:
            doubled = starter.map_all(tasks.doubles(), [1, 2, 3], 2)
        except (OSError, RuntimeError) as error:
            gc.collect()
            pytest.skip(f"Ray does not start here: {error or type(error).__name__}")
    assert doubled == [2, 4, 6]
    assert starter.map_all(tasks.simple(tasks.look_up), [*MALLOC], 9) == [*MALLOC.values()]
    assert "RAY_USAGE_STATS_ENABLED" not in os.environ
    # the actors of other executors need the CPUs
    for pid in actor_pids():
        os.kill(pid, signal.SIGKILL)
    return ray.get_runtime_context().gcs_address


@pytest.fixture
def executor(cluster):
    with closing(ray_executor.Ray(workers=2)) as made:
        yield made


def mapped(executor, task, items, size=1):
    """Return all results in one list."""
    return [result for results in executor.map(task, blocks_of(items, size)) for result in results]


@pytest.mark.slow
def test_blocks_in_order_and_the_deadly_one_alone(executor, tmp_path):
    numbers = [*range(30), f"die once {tmp_path / 'seen'}", *range(30)]

    results = mapped(executor, tasks.doubles(), numbers)

    assert results == [*range(0, 60, 2), "lived", *range(0, 60, 2)]
    lost, other, lived = mapped(executor, tasks.doubles(), ["die", 2, 1], 2)
    assert isinstance(lost, LostItem)
    assert isinstance(other, LostItem)
    assert lived == 2
    assert len({pid for pid, _ in mapped(executor, tasks.simple(tasks.pids), range(40))}) == 2


@pytest.mark.slow
def test_another_version_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(base, "_version", lambda: "0")

    with (
        closing(ray_executor.Ray(workers=1)) as executor,
        pytest.raises(AdapterError, match="the run has 0"),
    ):
        mapped(executor, tasks.doubles(), [1])


def actor_pids():
    """The processes of our actors, whose name Ray puts in the place of the command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"ray::Worker"):
            found.append(int(folder.name))
    return sorted(found)


@pytest.fixture
def config(repository, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 0)
    monkeypatch.delenv("RAGBENCH_CACHE", raising=False)
    data = part_of(repository / "datasets/example", tmp_path / "data", 40, 40)
    dataset = {"type": "beir", "path": str(data), "split": "test"}
    return {
        "name": "ray",
        "dataset": dataset,
        "retrievers": {"bm25": {"type": "bm25"}},
        "generators": {"extractive": {"type": "extractive"}},
        "metrics": {
            "retrieval": {"measures": ["ndcg@10"], "top_k": 10},
            "generation": ["contains", "rouge1", "rougeL.recall", "chrf"],
            "judge": {
                "type": "python:tests.words:Words",
                "rubrics": ["faithfulness", "correctness"],
            },
        },
        "statistics": {"resamples": 100},
    }


@pytest.mark.slow
def test_two_actors_one_of_which_is_killed(cluster, config, tmp_path):
    def run(cache, more):
        return contents(run_experiment({**config, **more, "cache": cache}))

    two = {"type": "ray", "workers": 2}
    pids = assert_workers_change_nothing(run, config, two, tmp_path)

    assert os.getpid() not in pids
    wait_until(lambda: not actor_pids())
    assert actor_pids() == []


ALONE = """
import os, sys
from contextlib import closing
from ragbench.executors.base import MALLOC
from ragbench.executors.ray import Ray
from tests.executors import tasks
from ragbench.errors import AdapterError
none, there = sys.argv[1:]
try:
    Ray(workers=1, address=none).map_all(tasks.doubles(), [1], 2)
except AdapterError as error:
    print(error)
with closing(Ray(workers=1, address=there)) as executor:
    print(executor.map_all(tasks.doubles(), [1, 2, 3], 2), flush=True)
    print(executor.map_all(tasks.simple(tasks.look_up), [*MALLOC], 9), flush=True)
print("RAY_USAGE_STATS_ENABLED" in os.environ)
"""


@pytest.mark.slow
def test_a_cluster_that_is_there_stays_and_none_at_an_address_is_one_error(cluster, repository):
    running = sessions()

    done = subprocess.run(
        [sys.executable, "-c", ALONE, "127.0.0.1:1", cluster],
        capture_output=True,
        text=True,
        check=True,
        cwd=repository,
    )

    # its workers have the variables of the process that started the cluster
    values = [*MALLOC.values()]
    error, *lines = done.stdout.split("\n")
    assert lines[:3] == ["[2, 4, 6]", str(values), "False"]
    assert error.startswith("executor 'ray': address: ")
    assert "ray start --head" in error
    assert sessions() == running


def sessions():
    """Return the number of heads of clusters."""
    commands = (_command(folder) for folder in Path("/proc").glob("[0-9]*"))
    return sum(b"gcs_server" in command.split(b"\0")[0] for command in commands)


def _command(folder):
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def test_without_the_extra_it_is_one_line(config, monkeypatch):
    monkeypatch.setattr(ray_executor, "find_spec", lambda name: None)
    source = {**config, "executor": {"type": "ray", "workers": 2}}

    load_config(source)
    with pytest.raises(MissingExtra) as raised:
        run_experiment(source)
    assert str(raised.value) == "executor 'ray' needs ray: pip install 'ragbench-eval[ray]'"
