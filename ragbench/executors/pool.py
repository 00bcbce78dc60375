"""Blocks of items on workers: ordered, a bounded number under way, tried again where one ends."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ragbench.errors import AdapterError
from ragbench.executors.base import Crew, Facts, Heard, Json, Lost, Task, versions

_LARGEST = 64  # items of a block: what a worker that ends may cost
_UNDER_WAY = 2  # blocks at a worker: it need not wait for the next one
_KILLS = 2  # one may be chance
_ALL_LOST = 3  # items without any result before: no single one is to blame


@dataclass(slots=True)
class _Part:
    """A block, or what is left to try of one."""

    job: _Job
    block: int
    start: int
    items: list[Json]
    kills: int = 0


@dataclass(slots=True)
class _Message:
    """What a worker was told and has not answered."""

    open: Task | None = None
    part: _Part | None = None

    @property
    def of(self) -> _Job | str | None:
        """What is told of it: a job, a task by its id, or the start of the worker."""
        if self.part is not None:
            return self.part.job
        return self.opening or None

    @property
    def opening(self) -> str:
        return "" if self.open is None else self.open.id


class _Job:
    """The blocks of one task: those to come, under way and done."""

    def __init__(self, task: Task, blocks: Iterable[list[Json]], most: int) -> None:
        self.task, self._blocks, self._most = task, iter(blocks), most
        self.again: deque[_Part] = deque()
        self._done: dict[int, list[Json]] = {}
        self._left: dict[int, int] = {}
        self._given = self._yielded = 0
        self._ended = False
        self._lost, self._any = 0, False

    @property
    def over(self) -> bool:
        """Whether all is yielded."""
        return self._ended and self._yielded == self._given

    def next(self) -> _Part | None:
        """Return what is to be computed next; None where a worker has to be waited for."""
        if self.again:
            return self.again.popleft()
        # the results of a slow block wait for those before it: so many, and no more
        if self._ended or self._given - self._yielded >= self._most:
            return None
        items = next(self._blocks, None)
        if items is None:
            self._ended = True
            return None
        number = self._given
        self._given += 1
        self._done[number], self._left[number] = [None] * len(items), len(items)
        return _Part(self, number, 0, items)

    def take(self, part: _Part, results: Sequence[Json]) -> None:
        """Take the results of a part."""
        if len(results) != len(part.items):
            found = f"{self.task.owner}: {len(results)} results for {len(part.items)} items"
            raise AdapterError(found)
        self._any = self._any or not all(isinstance(each, Lost) for each in results)
        self._done[part.block][part.start : part.start + len(results)] = results
        self._left[part.block] -= len(results)

    def ended(self, part: _Part, why: str) -> None:
        """Try a part again whose worker has ended; the halves of one that has ended two.

        What is left in the end is the one item that does it, which is lost.
        """
        part.kills += 1
        if part.kills < _KILLS:
            self.again.appendleft(part)
        elif len(part.items) == 1:
            self._lost += 1
            if self._lost >= _ALL_LOST and not self._any:
                what = f"{self.task.owner}: workers ended on each of {self._lost} items: {why}"
                raise AdapterError(f"{what}; is there memory for so many workers?")
            self.take(part, [Lost(f"a worker ended whenever it computed this: {why}")])
        else:
            middle = len(part.items) // 2
            for start, items in ((middle, part.items[middle:]), (0, part.items[:middle])):
                half = _Part(self, part.block, part.start + start, items, part.kills - 1)
                self.again.appendleft(half)

    def ready(self) -> Iterator[list[Json]]:
        """Yield the blocks that are done, in their order."""
        while self._left.get(self._yielded) == 0:
            del self._left[self._yielded]
            self._yielded += 1
            yield self._done.pop(self._yielded - 1)


@dataclass(slots=True)
class _Told:
    """What is known of a worker."""

    messages: deque[_Message] = field(default_factory=deque)
    opened: set[str] = field(default_factory=set)

    @property
    def parts(self) -> int:
        return sum(message.part is not None for message in self.messages)


class Pool:
    """Computes what tasks ask for on the workers of an executor, which start with the first one.

    Safe to use from several threads, which take turns.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew, self._lock = crew, threading.Lock()
        self._told: list[_Told] = []
        self._abouts: dict[str, Facts] = {}
        self._ended_opening: Counter[str] = Counter()

    @property
    def size(self) -> int:
        """How many workers there are."""
        return self._crew.size

    def close(self) -> None:
        """End the workers."""
        self._crew.close()

    def about(self, task: Task) -> Facts:
        """Return what a task says of itself, once a worker has opened it."""
        with self._lock:
            self._start()
            while task.id not in self._abouts:
                self._open(0, task)
                self._hear(task)
        return self._abouts[task.id]

    def blocks(self, task: Task, blocks: Iterable[list[Json]]) -> Iterator[list[Json]]:
        """Yield for each block, in order, a list with a result for each item, or `Lost`.

        Blocks are taken from their iterator when a worker is about to be free.
        """
        with self._lock:
            self._start()
            job = _Job(task, blocks, 2 * _UNDER_WAY * self._crew.size)
            while True:
                self._hand_out(job)
                waits = True
                for found in job.ready():
                    waits = False  # what is taken makes room for more
                    yield found
                if job.over:
                    return
                if waits:
                    self._hear(task, job)

    def each(
        self, task: Task, items: Sequence[Json], advance: Callable[[int], None] = lambda n: None
    ) -> list[Json]:
        """Return a result for each item, or `Lost`; `advance` is told how many more are done."""
        found: list[Json] = []
        size = self.block_size(len(items))
        cut = (list(items[start : start + size]) for start in range(0, len(items), size))
        for results in self.blocks(task, cut):
            found += results
            advance(len(results))
        return found

    def block_size(self, n_items: int) -> int:
        """Return how many of some items a block has: all workers have work up to the end."""
        return max(1, min(_LARGEST, n_items // (2 * _UNDER_WAY * self._crew.size)))

    def _start(self) -> None:
        while len(self._told) < self._crew.size:
            self._told.append(_Told())
            self._begin(len(self._told) - 1)

    def _begin(self, worker: int) -> None:
        self._crew.start(worker)
        self._tell(worker, {"hello": True}, _Message())

    def _tell(self, worker: int, content: Facts, message: _Message) -> None:
        self._told[worker].messages.append(message)
        self._crew.tell(worker, json.dumps(content))

    def _open(self, worker: int, task: Task) -> None:
        if task.id not in self._told[worker].opened:
            self._told[worker].opened.add(task.id)
            content = {"open": task.id, "opener": task.opener, "given": task.given}
            self._tell(worker, content, _Message(open=task))

    def _hand_out(self, job: _Job) -> None:
        for most in range(1, _UNDER_WAY + 1):
            for worker, told in enumerate(self._told):
                if told.parts < most:
                    part = job.next()
                    if part is None:
                        return
                    self._open(worker, job.task)
                    content = {"do": job.task.id, "items": part.items}
                    self._tell(worker, content, _Message(part=part))

    def _hear(self, task: Task, job: _Job | None = None) -> None:
        """Take the next answer of any worker, while a task is under way."""
        heard = self._crew.hear()
        if heard.reply is None:
            self._replace(heard)
            return
        message = self._told[heard.worker].messages.popleft()
        reply = json.loads(heard.reply)  # noqa: TID251  written by `Worker`
        if "error" in reply:
            self._told[heard.worker].opened.discard(message.opening)
            if message.of not in (job, task.id, None):
                return  # of what was given up
            raise AdapterError(reply["error"]) if reply["known"] else RuntimeError(reply["error"])
        if message.open is not None:
            about = reply["about"]
            known = {**self._abouts.get(message.opening, about), **message.open.about}
            self._told[heard.worker].opened.discard(message.opening)  # unless it is the same
            _check_same(f"{message.open.owner}: ", known, about)
            self._told[heard.worker].opened.add(message.opening)
            self._abouts[message.opening] = about
        elif message.part is not None:
            message.part.job.take(message.part, reply["results"])
        else:
            _check_same("", versions(), reply["versions"])

    def _replace(self, heard: Heard) -> None:
        """Start a worker anew, and try again what the one before had not done.

        What it was computing is the first that it had not answered; the rest is not to blame.
        """
        told = self._told[heard.worker]
        lost = list(told.messages)
        told.messages.clear()
        told.opened.clear()
        first = lost[0] if lost else _Message()
        if first.open is not None:
            self._ended_opening[first.open.id] += 1
            if self._ended_opening[first.open.id] >= _KILLS:
                what = f"{first.open.owner}: two workers ended while they loaded it"
                raise AdapterError(f"{what}: {heard.why}; is there memory for so many?")
        elif lost and first.part is None:
            raise AdapterError(f"a worker did not start: {heard.why}")
        for message in reversed(lost):
            if message.part is not None and message is not first:
                message.part.job.again.appendleft(message.part)
        if first.part is not None:
            first.part.job.ended(first.part, heard.why)
        self._begin(heard.worker)


def _check_same(owner: str, here: Facts, there: Facts) -> None:
    """Refuse a worker whose results would be others."""
    for name, value in here.items():
        if there.get(name) != value:
            found = f"{owner}a worker has {name} {there.get(name)}, the run has {value}"
            raise AdapterError(f"{found}; allowed: the same everywhere")
