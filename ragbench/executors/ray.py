"""Executor of Ray actors: `executor: {type: ray, workers: 8, address: auto}` (extra `ray`)."""

from __future__ import annotations

import os
import queue
import socket
import sys
import warnings
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from ragbench.errors import AdapterError, MissingExtra
from ragbench.executors import base
from ragbench.registry import Option

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_OWNER = "executor 'ray'"
_CONNECT_S = 10.0
_TRIES = 2  # a cluster that was just started refuses the first connection


class Ray(base.Executor):
    """Executor of actors on a Ray cluster, or on one that is started here for the run.

    Ray is needed from the first block on; `check` raises MissingExtra without it.
    """

    def __init__(
        self,
        *,
        workers: Annotated[
            int,
            Option(
                "Number of actors for text metrics, local judges and models, and BM25 search.", ge=1
            ),
        ],
        address: Annotated[
            str | None,
            Option(
                "A running cluster: host:port, or auto for that of this machine; null starts one."
            ),
        ] = None,
        cpus: Annotated[float, Option("CPUs of each actor.", gt=0)] = 1,
        gpus: Annotated[float, Option("GPUs of each actor, or the part of one.", ge=0)] = 0,
    ) -> None:
        super().__init__()
        self.workers, self._address = workers, address
        # machines of a cluster have other files
        self.is_here = address is None
        self._needs = {"num_cpus": cpus, "num_gpus": gpus}
        self._idle: queue.SimpleQueue[ActorHandle] = queue.SimpleQueue()
        self._actors: list[ActorHandle] = []
        # One thread waits for each block that an actor computes.
        self._threads: ThreadPoolExecutor | None = None
        # True if `close` ends the connection, which a caller may have opened; None without any.
        self._owns_connection: bool | None = None
        self._closed = False

    def check(self) -> None:
        """Raise `MissingExtra` if Ray is not installed."""
        if find_spec("ray") is None:
            raise MissingExtra(_OWNER, "ray", "ray")

    def submit(self, pickled: bytes, apply: base.Apply, block: list[Any]) -> base.Results:
        """Start `compute` of a block on an actor and return its future.

        The first block connects. Raises RuntimeError after `close`, AdapterError if no cluster
        answers or one with another version, and ImportError without Ray, which `check` reports
        first.
        """
        if self._closed:
            raise RuntimeError("the workers were ended")
        if self._threads is None:
            self._connect()
            self._threads = ThreadPoolExecutor(self.workers)
            for _ in range(self.workers):
                self._idle.put(self._start_actor())
        return self._threads.submit(self._compute, pickled, apply, block)

    def _compute(
        self, pickled: bytes, apply: base.Apply, block: list[Any]
    ) -> list[Any] | base.Failure:
        """Wait for an idle actor, and return its results of a block; replace an actor that ends."""
        import ray
        from ray.exceptions import RayError

        actor = self._idle.get()
        try:
            results: list[Any] | base.Failure = ray.get(actor.compute.remote(pickled, apply, block))
        except RayError as error:
            if not self._closed:
                ray.kill(actor)
                actor = self._start_actor()
            raise BrokenExecutor(_last_line(error)) from error
        finally:
            self._idle.put(actor)
        return results

    def _start_actor(self) -> ActorHandle:
        """Create an actor, which Ray places on a machine with free CPUs and GPUs."""
        import ray

        options = {"max_restarts": 0, "max_task_retries": 0, **self._needs}
        actor: ActorHandle = ray.remote(Worker).options(**options).remote()
        self._actors.append(actor)
        return actor

    def close(self) -> None:
        """End the actors, and the cluster or connection that this executor opened.

        Before the first block it only makes `submit` raise.
        """
        self._closed = True
        if self._owns_connection is None:
            return
        import ray

        for actor in self._actors:
            ray.kill(actor)
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        if self._owns_connection:
            ray.shutdown()

    def _connect(self) -> None:
        """Start or join the cluster; warn if it has too few CPUs or GPUs."""
        inherited = {"RAY_USAGE_STATS_ENABLED": "0"}
        if self.is_here:
            inherited |= {name: os.environ.get(name, value) for name, value in base.MALLOC.items()}
            inherited["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        with base.environment(inherited):
            import ray

            self._owns_connection = not ray.is_initialized()
            if self._owns_connection:
                _init(self._address, self.workers * self._needs["num_cpus"])
        resources = ray.cluster_resources()
        for name, key in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
            needed, available = self.workers * self._needs[key], resources.get(name, 0)
            if available < needed:
                text = f"{_OWNER}: {self.workers} workers want {needed:g} {name}s, the cluster has "
                text += f"{available:g}: some wait until there are more"
                warnings.warn(text, stacklevel=2)


class Worker:
    """Actor that computes blocks; `Ray` starts one per worker, without arguments.

    `compute` returns the results of a block, or a `Failure`.
    """

    def compute(
        self, pickled: bytes, apply: base.Apply, block: list[Any]
    ) -> list[Any] | base.Failure:
        """Return the results of a block, or a `Failure`, as `executors.base.compute` does."""
        return base.compute(pickled, apply, block)


def _init(address: str | None, cpus: float) -> None:
    """Start a cluster with `cpus` on this machine, or connect to the one at `address`."""
    import ray

    quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if address is None:
        ray.init(address="local", num_cpus=max(1, round(cpus)), **quiet)
        return
    del quiet["include_dashboard"]  # an option of a cluster that is started, not of a connection
    for attempt in range(1, _TRIES + 1):
        try:
            _check_reachable(address)
            ray.init(address=address, **quiet)
            return
        except OSError as error:  # a ConnectionError of Ray's, too
            if attempt == _TRIES:
                allowed = "host:port of a running cluster (ray start --head), or null to start one"
                problem = f"{_OWNER}: address: no cluster at {address!r}: {_last_line(error)}"
                raise AdapterError(f"{problem}; allowed: {allowed}") from error
        except RuntimeError as error:  # other versions of Ray or Python there
            raise AdapterError(f"{_OWNER}: {' '.join(str(error).split())}") from error


def _check_reachable(address: str) -> None:
    """Open a connection to the address once; raise `OSError` if nothing answers."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()


def _last_line(error: Exception) -> str:
    """Return the last line of the error that is not empty; its type without any text."""
    lines = []
    for line in str(error).splitlines():
        if line.strip():
            lines.append(line.strip())
    return lines[-1] if lines else type(error).__name__
