"""Tasks that tests give to workers; a worker imports this module by its name."""

import os
import time
from pathlib import Path

from ragbench.errors import OptionError
from ragbench.executors.base import Opened


def open_doubles(log="", model="m1", wait=0.0):
    """Doubles numbers; `die` ends the worker, `die once FILE` the first one that sees it.

    `slow` takes a second.
    """

    def compute(items):
        if log:
            with Path(log).open("a") as stream:
                stream.write(f"{os.getpid()} {items[0]}\n")
        print("this is no reply")
        return [_double(item, wait) for item in items]

    return Opened(compute, {"model": model})


def _double(item, wait):
    time.sleep(1 if item == "slow" else wait)
    if item == "slow":
        return item
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
