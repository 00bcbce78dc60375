"""Blocks of items on workers: ordered, a bounded number under way, tried again where one ends."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ragbench.errors import AdapterError
from ragbench.executors.base import Crew, Facts, Heard, Json, Lost, Task, versions

_BLOCK_S = 0.5  # what a block takes: beside it a message is nothing, and a worker that ends little
_LEAST_S = 0.02  # the same of the last blocks, which are small, so that no worker waits for others
_FIRST, _GROWS, _LARGEST = 8, 8, 8192  # items of a block, until it is known what they take
_ALIKE = 64  # items of a block where results depend on it
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


@dataclass(slots=True)
class _Known:
    """What is known of a task once a worker has opened it."""

    about: Facts
    alone: bool
    pace: float = 0.0
    """Seconds that an item takes; 0: not known yet."""
    block: int = _FIRST
    """Items of the last block that was measured."""

    def measure(self, items: int, seconds: float) -> None:
        """Take in how long a block has taken."""
        now = seconds / items
        self.pace = (self.pace + now) / 2 if self.pace else now
        self.block = max(self.block, items)

    def size(self, share: int) -> int:
        """Return how many items the next block has, when the workers' share in all is so large."""
        if not self.alone:
            return _ALIKE
        if not self.pace:
            return max(1, min(_FIRST, share))
        largest = min(_BLOCK_S / self.pace, _GROWS * self.block, _LARGEST)
        return max(1, int(min(largest, max(share, _LEAST_S / self.pace))))


class _Job:
    """The blocks of one task: those to come, under way and done."""

    def __init__(self, task: Task, items: Iterable[Json], n_items: int, workers: int) -> None:
        self.task, self._items, self._left_items = task, iter(items), n_items
        self._slots = _UNDER_WAY * workers
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

    def next(self, known: _Known) -> _Part | None:
        """Return what is to be computed next; None where a worker has to be waited for."""
        if self.again:
            return self.again.popleft()
        # the results of a slow block wait for those before it: so many, and no more
        if self._ended or self._given - self._yielded >= 2 * self._slots:
            return None
        items = list(islice(self._items, known.size(self._left_items // self._slots)))
        if not items:
            self._ended = True
            return None
        self._left_items -= len(items)
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
        self._known: dict[str, _Known] = {}
        self._ended: Counter[str] = Counter()
        """What workers were opening, or "" for their start -> how many ended in a row."""

    @property
    def size(self) -> int:
        """How many workers there are."""
        return self._crew.size

    @property
    def is_here(self) -> bool:
        """Whether workers read the files of this machine."""
        return self._crew.is_here

    def close(self) -> None:
        """End the workers."""
        self._crew.close()

    def about(self, task: Task) -> Facts:
        """Return what a task says of itself, once a worker has opened it."""
        with self._lock:
            return self._opened(task, 1).about

    def blocks(self, task: Task, items: Iterable[Json], n_items: int) -> Iterator[list[Json]]:
        """Yield, in order, lists with a result for each item, or `Lost`; `n_items` at most.

        Items are taken from their iterator when a worker is about to be free, so many at once as
        take it half a second.
        """
        if not n_items:
            return
        with self._lock:
            known = self._opened(task, min(n_items, self._crew.size))
            job = _Job(task, items, n_items, self._crew.size)
            while True:
                self._hand_out(job, known)
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
        for results in self.blocks(task, items, len(items)):
            found += results
            advance(len(results))
        return found

    def _opened(self, task: Task, workers: int) -> _Known:
        """Open a task on so many workers, and wait for the first that has."""
        while len(self._told) < self._crew.size:
            self._told.append(_Told())
            self._begin(len(self._told) - 1)
        while task.id not in self._known:
            for worker in range(workers):
                self._open(worker, task)
            self._hear(task)
        return self._known[task.id]

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

    def _hand_out(self, job: _Job, known: _Known) -> None:
        for most in range(1, _UNDER_WAY + 1):
            for worker, told in enumerate(self._told):
                if told.parts < most:
                    part = job.next(known)
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
        if message.part is None:
            self._ended[message.opening] = 0
        if message.open is not None:
            about = reply["about"]
            known = self._known.get(message.opening) or _Known(about, reply["alone"])
            self._told[heard.worker].opened.discard(message.opening)  # unless it is the same
            _check_same(f"{message.open.owner}: ", {**known.about, **message.open.about}, about)
            self._told[heard.worker].opened.add(message.opening)
            self._known[message.opening] = known
        elif (part := message.part) is not None:
            self._known[part.job.task.id].measure(len(part.items), reply["seconds"])
            if part.job is job:  # else nobody waits for it any more
                job.take(part, reply["results"])
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
        if lost and first.part is None:
            # one may have been too quick: what it computed next ended it before its answer was sent
            self._ended[first.opening] += 1
            if self._ended[first.opening] >= _KILLS:
                if first.open is None:
                    raise AdapterError(f"two workers did not start: {heard.why}")
                what = f"{first.open.owner}: two workers ended while they loaded it"
                raise AdapterError(f"{what}: {heard.why}; is there memory for so many?")
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
