"""Actors of Ray: `executor: {type: ray, workers: 8, address: auto}` (extra `ray`)."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from ragbench.errors import AdapterError, MissingExtra
from ragbench.executors.base import MALLOC, Heard, Worker
from ragbench.registry import Option

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

_OWNER = "executor 'ray'"
_LOOK_UP_S = 0.2  # a signal is noticed when a wait ends
_KNOCK_S = 10.0
_TRIES = 2  # a cluster that was just started refuses the first connection


class Ray:
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
        self._workers, self._address, self._cpus, self._gpus = workers, address, cpus, gpus

    @property
    def is_here(self) -> bool:
        """Whether it is a Ray that is started here; other machines have other files."""
        return self._address is None

    @property
    def where(self) -> str:
        """How many actors there are, and on which cluster."""
        place = "a Ray that is started here" if self._address is None else f"Ray at {self._address}"
        return f"{self._workers} actor{'s' if self._workers > 1 else ''} on {place}"

    def crew(self) -> Actors:
        """Return the workers; none is started yet."""
        if find_spec("ray") is None:
            raise MissingExtra(_OWNER, "ray", "ray")
        return Actors(self._workers, self._address, self._cpus, self._gpus)


class Actors:
    """Workers that are actors; one that is lost, with its node or without, is made anew."""

    def __init__(self, size: int, address: str | None, cpus: float, gpus: float) -> None:
        self.size, self._address, self.is_here = size, address, address is None
        self._needs = {"num_cpus": cpus, "num_gpus": gpus}
        self._actors: dict[int, ActorHandle] = {}
        self._asked: dict[int, deque[ObjectRef]] = {}
        self._ours: bool | None = None
        """Whether the connection is ours to close; None: there is none yet."""
        self._closed = False

    def start(self, worker: int) -> None:
        """Make an actor; it is placed where there is room."""
        if self._closed:
            raise RuntimeError("the workers were ended")
        self._connect()
        import ray

        if worker in self._actors:
            ray.kill(self._actors[worker])
        # made anew by us, who then know what it had opened; by Ray it would go on without
        made = ray.remote(Worker).options(max_restarts=0, max_task_retries=0, **self._needs)
        self._actors[worker], self._asked[worker] = made.remote(), deque()

    def tell(self, worker: int, message: str) -> None:
        """Call the actor; calls are answered in their order."""
        self._asked[worker].append(self._actors[worker].answer.remote(message))

    def hear(self) -> Heard:
        """Wait for the answer to the first open call of any actor."""
        import ray
        from ray.exceptions import RayError

        while not self._closed:
            first = {asked[0]: worker for worker, asked in self._asked.items() if asked}
            ready, _ = ray.wait(list(first), num_returns=1, timeout=_LOOK_UP_S)
            for ref in ready:
                worker = first[ref]
                self._asked[worker].popleft()
                try:
                    return Heard(worker, ray.get(ref))
                except RayError as error:
                    return Heard(worker, None, _in_short(error))
        raise RuntimeError("the workers were ended")

    def close(self) -> None:
        """End the actors, and the cluster where it was started for them."""
        self._closed = True
        if self._ours is None:
            return
        import ray

        for actor in self._actors.values():
            ray.kill(actor)
        if self._ours:
            ray.shutdown()

    def _connect(self) -> None:
        if self._ours is not None:
            return
        with _quiet_environment(local=self._address is None):
            import ray

            self._ours = not ray.is_initialized()
            if self._ours:
                _init(self._address, self.size * self._needs["num_cpus"])
        there, wanted = ray.cluster_resources(), self.size
        for name, key in (("CPU", "num_cpus"), ("GPU", "num_gpus")):
            if there.get(name, 0) < wanted * self._needs[key]:
                text = (
                    f"{_OWNER}: {wanted} workers want {wanted * self._needs[key]:g} {name}s, the "
                )
                text += f"cluster has {there.get(name, 0):g}: some wait until there are more"
                warnings.warn(text, stacklevel=2)


@contextmanager
def _quiet_environment(*, local: bool) -> Iterator[None]:
    """What a cluster that is started here inherits: no usage statistics, where modules are."""
    changed = {"RAY_USAGE_STATS_ENABLED": "0"}
    if local:
        changed |= {name: os.environ.get(name, value) for name, value in MALLOC.items()}
        changed["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
                found = f"{_OWNER}: address: no cluster at {address!r}: {_in_short(error)}"
                raise AdapterError(f"{found}; allowed: {allowed}") from error
        except RuntimeError as error:  # other versions of Ray or Python there
            raise AdapterError(f"{_OWNER}: {' '.join(str(error).split())}") from error


def _knock(address: str) -> None:
    """See whether anybody is there: what Ray itself does not reach may end the whole process."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


def _in_short(error: Exception) -> str:
    """The last line of a message that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
