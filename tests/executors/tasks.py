"""Tasks that tests give to workers; a worker imports this module by its name."""

import os
import sys
import time
from pathlib import Path

from ragbench.errors import OptionError
from ragbench.executors.base import Opened


def open_doubles(log="", model="m1", wait=0.0, alone=True):
    """Doubles numbers; `die` ends the worker, `die once FILE` the first one that sees it."""

    def compute(items):
        if log:
            with Path(log).open("a", encoding="utf-8") as stream:
                stream.write(f"{os.getpid()} {items[0]}\n")
        print("this is no reply")
        return [_double(item, wait) for item in items]

    return Opened(compute, {"model": model}, alone)


def open_environment():
    """Looks up variables of the worker's environment."""

    def compute(names):
        return [os.environ.get(name) for name in names]

    return Opened(compute)


def open_loud(said):
    """Prints as a component might, on both streams of its process."""

    def compute(items):
        print(said)
        print(said, file=sys.stderr, flush=True)
        return items

    return Opened(compute)


def _double(item, wait):
    time.sleep(wait)
    if isinstance(item, str) and item.startswith("die once "):
        try:
            Path(item.removeprefix("die once ")).touch(exist_ok=False)
        except FileExistsError:
            return "lived"
    if isinstance(item, str):
        os._exit(7)
    return item * 2


def open_dying():
    """A model that is too large."""
    os._exit(9)


def open_wrong(kind):
    if kind == "ours":
        raise OptionError("dense", "model", "x", "a folder")
    raise ZeroDivisionError("theirs")


def open_short():
    return Opened(lambda items: items[1:])


def open_pids():
    return Opened(lambda items: [(os.getpid(), item) for item in items])


class Clock:
    """In the place of `time`, where each item takes so long."""

    def __init__(self, seconds):
        self.seconds, self.now, self.blocks = seconds, 0.0, []

    def perf_counter(self):
        return self.now


CLOCK = Clock(0.0)


def open_clocked():
    def compute(items):
        CLOCK.now += CLOCK.seconds * len(items)
        CLOCK.blocks.append(len(items))
        return items

    return Opened(compute)


def open_sizes():
    """What depends on what stands beside an item: a batch on a GPU."""
    return Opened(lambda items: [len(items)] * len(items), alone=False)
