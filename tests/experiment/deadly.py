"""Kills of workers: when so much of a stage is done, and by a metric that they compute."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from ragbench.registry import Option
from ragbench.score.text.base import metric


class Kills:
    """Progress that kills a process whenever one of some stages has done 30 % of its items."""

    def __init__(self, stages, kill):
        self.stages, self.kill = stages, kill

    @contextmanager
    def stage(self, name, total, unit="queries"):
        yield _Stage(self, name, total)


class _Stage:
    def __init__(self, progress, name, total):
        self.progress, self.name, self.left = progress, name, 0.3 * total

    def advance(self, n=1):
        self.left -= n
        if self.left <= 0 and self.name in self.progress.stages:
            self.progress.stages.remove(self.name)
            self.progress.kill()


def worker_pids(of):
    """The processes that compute for another one."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == of and b"--multiprocessing-fork" in command:
            pids.append(int(folder.name))
    return sorted(pids)


def is_alive(pid):
    return Path(f"/proc/{pid}").exists()


@metric("deadly", computes=True)
def deadly(prediction, references, *, log: Annotated[str, Option("A file for what is done.")] = ""):
    """Return 1; where `LOG.at` says after how many rows, the first that is there ends."""
    import fcntl

    limit = Path(f"{log}.at")
    with Path(log).open("a+", encoding="utf-8") as lines:
        fcntl.flock(lines, fcntl.LOCK_EX)
        lines.seek(0)
        if limit.exists() and len(lines.readlines()) == int(limit.read_text(encoding="utf-8")):
            limit.unlink()
            Path(f"{log}.killed").write_text(str(os.getpid()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        lines.write(f"{os.getpid()}\n")
    return 1.0


def assert_workers_change_nothing(run, source, two, folder):
    """Compare no worker with two of which one is killed when 30 % of the rows are done.

    `run` takes the name of a cache and further keys. Returns the processes that computed rows.
    """
    log = folder / "deadly"
    name = f'python:{__name__}:deadly(log="{log.as_posix()}")'
    metrics = source["metrics"]
    more = {"metrics": {**metrics, "generation": [*metrics["generation"], name]}}
    expected = run("here", more)
    rows = len(log.read_text(encoding="utf-8").splitlines())

    log.unlink()
    Path(f"{log}.at").write_text(str(round(0.3 * rows)), encoding="utf-8")
    assert run("killed at 30", {**more, "executor": two}) == expected
    pids = log.read_text(encoding="utf-8").split()
    killed = Path(f"{log}.killed").read_text(encoding="utf-8")
    assert rows > 30
    assert killed not in pids[round(0.3 * rows) :]
    assert len(pids) > rows, "what it had not answered was computed again"
    assert len({*pids, killed}) > 1
    return [int(pid) for pid in {*pids, killed}]
