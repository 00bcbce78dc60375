"""Tasks that tests give to workers; a worker imports this module by its name."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from ragbench.errors import OptionError
from ragbench.executors.base import Task


class Doubler:
    """Doubles numbers; `die` ends the worker, `die once FILE` the first one that sees it."""

    def __init__(self, log="", model="m1", wait=0.0):
        self.log, self.model, self.wait = log, model, wait

    def double(self, block):
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as stream:
                stream.write(f"{os.getpid()} {block[0]}\n")
        print("printed by a component")
        return [self._double(item) for item in block]

    def _double(self, item):
        time.sleep(self.wait)
        if isinstance(item, str) and item.startswith("die once "):
            try:
                Path(item.removeprefix("die once ")).touch(exist_ok=False)
            except FileExistsError:
                return "lived"
        if isinstance(item, str):
            os._exit(7)
        return item * 2


def facts_of(doubler):
    return {"model": doubler.model}


def doubles(expected=None, **options):
    """Return a task that doubles numbers."""
    return Task("the test", Doubler, options, Doubler.double, facts_of, expected or {})


def simple(apply, make=int, **options):
    """Return a task without a component to speak of."""
    return Task("the test", make, options, apply)


def look_up(component, names):
    """Return variables of the worker's environment."""
    return [os.environ.get(name) for name in names]


def say(component, texts):
    """Print as a component might, on both streams of its process."""
    for text in texts:
        print(text)
        print(text, file=sys.stderr, flush=True)
    return texts


def die():
    """End as where a model is too large."""
    os._exit(9)


def be_wrong(component, block):
    if block == ["ours"]:
        raise OptionError("dense", "model", "x", "a folder")
    raise ZeroDivisionError("theirs")


def lose_one(component, block):
    return block[1:]


def pids(component, block):
    time.sleep(0.01)
    return [(os.getpid(), item) for item in block]


def end_by(component, numbers):
    os.kill(os.getpid(), numbers[0])
    time.sleep(60)


def search_by_worker(executor, search, query, hits):
    """Return the part that a retriever reads of the hits of a worker for a query."""
    request = search.request(query, hits)
    task = Task("the test", search.make, search.options, partial(find_block, search.find))
    [found] = executor.map_all(task, [request], 1)
    return search.read(found, request)


def find_block(find, index, requests):
    return [find(index, request) for request in requests]
