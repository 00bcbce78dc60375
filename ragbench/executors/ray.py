"""Actors of Ray: `executor: {type: ray, workers: 8, address: auto}` (extra `ray`)."""

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
from ragbench.executors.base import (
    MALLOC,
    Apply,
    Executor,
    Failure,
    Results,
    compute,
    environment,
)
from ragbench.registry import Option

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_OWNER = "executor 'ray'"
_KNOCK_S = 10.0
_TRIES = 2  # a cluster that was just started refuses the first connection


class Ray(Executor):
    """Actors on a cluster of Ray, or on one that is started here for as long as the run takes."""

    def __init__(
        self,
        *,
        workers: Annotated[int, Option("Actors that compute what takes long.", ge=1)],
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
        # other machines have other files
        self.is_here = address is None
        self._needs = {"num_cpus": cpus, "num_gpus": gpus}
        self._idle: queue.SimpleQueue[ActorHandle] = queue.SimpleQueue()
        self._actors: list[ActorHandle] = []
        # One thread waits for each block that an actor computes.
        self._threads: ThreadPoolExecutor | None = None
        # Whether the connection is ours to close; None: there is none yet.
        self._ours: bool | None = None
        self._closed = False

    @property
    def where(self) -> str:
        """Number of actors, and their cluster."""
        place = "a Ray that is started here" if self._address is None else f"Ray at {self._address}"
        return f"{self.workers} actor{'s' if self.workers > 1 else ''} on {place}"

    def check(self) -> None:
        """See whether Ray is installed."""
        if find_spec("ray") is None:
            raise MissingExtra(_OWNER, "ray", "ray")

    def submit(self, pickled: bytes, apply: Apply, block: list[Any]) -> Results:
        """Have an actor compute a block."""
        if self._closed:
            raise RuntimeError("the workers were ended")
        if self._threads is None:
            self._connect()
            self._threads = ThreadPoolExecutor(self.workers)
            for _ in range(self.workers):
                self._idle.put(self._start_actor())
        return self._threads.submit(self._compute, pickled, apply, block)

    def _compute(self, pickled: bytes, apply: Apply, block: list[Any]) -> list[Any] | Failure:
        """Wait for an idle actor and its results; an actor that ends is replaced."""
        import ray
        from ray.exceptions import RayError

        actor = self._idle.get()
        try:
            results: list[Any] | Failure = ray.get(actor.compute.remote(pickled, apply, block))
        except RayError as error:
            if not self._closed:
                ray.kill(actor)
                actor = self._start_actor()
            raise BrokenExecutor(_last_line(error)) from error
        finally:
            self._idle.put(actor)
        return results

    def _start_actor(self) -> ActorHandle:
        """Create an actor; Ray places it where there is room."""
        import ray

        options = {"max_restarts": 0, "max_task_retries": 0, **self._needs}
        actor: ActorHandle = ray.remote(Worker).options(**options).remote()
        self._actors.append(actor)
        return actor

    def close(self) -> None:
        """End the actors, and the cluster where it was started for them."""
        self._closed = True
        if self._ours is None:
            return
        import ray

        for actor in self._actors:
            ray.kill(actor)
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        if self._ours:
            ray.shutdown()

    def _connect(self) -> None:
        inherited = {"RAY_USAGE_STATS_ENABLED": "0"}
        if self.is_here:
            inherited |= {name: os.environ.get(name, value) for name, value in MALLOC.items()}
            inherited["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        with environment(inherited):
            import ray

            self._ours = not ray.is_initialized()
            if self._ours:
                _init(self._address, self.workers * self._needs["num_cpus"])
        there, wanted = ray.cluster_resources(), self.workers
        for name, key in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
            if there.get(name, 0) < wanted * self._needs[key]:
                text = (
                    f"{_OWNER}: {wanted} workers want {wanted * self._needs[key]:g} {name}s, the "
                )
                text += f"cluster has {there.get(name, 0):g}: some wait until there are more"
                warnings.warn(text, stacklevel=2)


class Worker:
    """An actor that computes blocks."""

    def compute(self, pickled: bytes, apply: Apply, block: list[Any]) -> list[Any] | Failure:
        """Return the results of a block."""
        return compute(pickled, apply, block)


def _init(address: str | None, cpus: float) -> None:
    """Start a cluster here, or connect to one."""
    import ray

    quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if address is None:
        ray.init(address="local", num_cpus=max(1, round(cpus)), **quiet)
        return
    del quiet["include_dashboard"]  # the cluster's own matter
    for attempt in range(1, _TRIES + 1):
        try:
            _knock(address)
            ray.init(address=address, **quiet)
            return
        except OSError as error:  # a ConnectionError of Ray's, too
            if attempt == _TRIES:
                allowed = "host:port of a running cluster (ray start --head), or null to start one"
                found = f"{_OWNER}: address: no cluster at {address!r}: {_last_line(error)}"
                raise AdapterError(f"{found}; allowed: {allowed}") from error
        except RuntimeError as error:  # other versions of Ray or Python there
            raise AdapterError(f"{_OWNER}: {' '.join(str(error).split())}") from error


def _knock(address: str) -> None:
    """Connect to the address once: Ray may end the whole process where it reaches nothing."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


def _last_line(error: Exception) -> str:
    """Return the last line of a message that is not empty."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
