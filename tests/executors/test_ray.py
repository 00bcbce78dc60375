"""The same blocks on actors of Ray: started here for the run, or on a cluster that is there."""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
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
from tests.experiment.test_stages import contents


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One worker of the tests at a time: what is counted here is of the whole machine."""
    fcntl = pytest.importorskip("fcntl", reason="locks files as Unix does")
    here = tmp_path_factory.getbasetemp()
    common = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
    with (common / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def why_not_started(ray):
    """Start Ray; why it did not, where sandboxes forbid what its servers need, else nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of processes of its own that it leaves behind
        try:
            ray.init(
                address="local",
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
            )
        except (OSError, RuntimeError) as error:
            why = str(error) or type(error).__name__
        else:
            return ""
        ray.shutdown()
        gc.collect()
    return why


@pytest.fixture(scope="module")
def cluster(alone):
    """A Ray with two CPUs; its files, and its token, go with it."""
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'ragbench-eval[ray]'")
    # in memory: Ray gives its servers 30 s, which a busy disk takes alone; and short, as a path of
    # a socket has 107 bytes at most
    memory = Path("/dev/shm")
    within = memory if os.access(memory, os.W_OK) else Path("/tmp")
    folder = tempfile.mkdtemp(prefix="rb", dir=within)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "HOME": folder,
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            # actors are nice by default, and would wait for all other tests
            "RAY_worker_niceness": "0",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }.items():
            patch.setenv(name, value)
        if why := why_not_started(ray):
            pytest.skip(f"Ray does not start here: {why}")
        yield ray.get_runtime_context().gcs_address
        ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


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
def test_another_version_is_refused(executor, monkeypatch):
    monkeypatch.setattr(base, "_version", lambda: "0")

    with pytest.raises(AdapterError, match=r"a worker has ragbench [\d.a-z]+, the run has 0"):
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
    dataset = {"type": "beir", "path": str(repository / "datasets/example"), "split": "test"}
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
    until = time.monotonic() + 60
    while actor_pids() and time.monotonic() < until:
        time.sleep(0.05)
    assert actor_pids() == []


ALONE = """
import os, sys
from contextlib import closing
from ragbench.executors.base import MALLOC
from ragbench.executors.ray import Ray
from tests.executors import tasks
address = sys.argv[1] or None
with closing(Ray(workers=1, address=address)) as executor:
    print(executor.map_all(tasks.doubles(), [1, 2, 3], 2), flush=True)
    print(executor.map_all(tasks.simple(tasks.look_up), [*MALLOC], 9), flush=True)
print("RAY_USAGE_STATS_ENABLED" in os.environ)
"""


@pytest.mark.slow
@pytest.mark.parametrize("started", [False, True], ids=["its own", "one that is there"])
def test_a_cluster_of_its_own_or_one_that_is_there(cluster, repository, monkeypatch, started):
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED")
    before = sessions()

    done = subprocess.run(
        [sys.executable, "-c", ALONE, cluster if started else ""],
        capture_output=True,
        text=True,
        check=True,
        cwd=repository,
    )

    there = [None] * len(MALLOC) if started else [*MALLOC.values()]
    assert done.stdout.split("\n")[:3] == ["[2, 4, 6]", str(there), "False"]
    assert sessions() == before, "what was started is gone, what was there is not"


def sessions():
    """How many heads of clusters there are."""
    commands = (_command(folder) for folder in Path("/proc").glob("[0-9]*"))
    return sum(b"gcs_server" in command.split(b"\0")[0] for command in commands)


def _command(folder):
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.slow
def test_no_cluster_at_an_address_is_one_error(cluster, repository):
    done = subprocess.run(
        [sys.executable, "-c", ALONE, "127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=repository,
    )

    last = done.stderr.strip().splitlines()[-1]
    assert "executor 'ray': address: no cluster at '127.0.0.1:1'" in last
    assert "ray start --head" in last


def test_without_the_extra_it_is_one_line(config, monkeypatch):
    monkeypatch.setattr(ray_executor, "find_spec", lambda name: None)
    source = {**config, "executor": {"type": "ray", "workers": 2}}

    load_config(source)
    with pytest.raises(MissingExtra) as raised:
        run_experiment(source)
    assert str(raised.value) == "executor 'ray' needs ray: pip install 'ragbench-eval[ray]'"


def test_it_is_said_where_the_work_is_done():
    assert ray_executor.Ray(workers=1).location == "1 actor on a Ray that is started here"
    assert ray_executor.Ray(workers=3, address="auto").location == "3 actors on Ray at auto"
