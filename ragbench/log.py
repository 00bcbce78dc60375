"""Logger `ragbench` of the package: requests that fail or are repeated, and notes on scores.

It prints nothing unless the application configures `logging`. Records are one line each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

LOG = logging.getLogger("ragbench")
# else Python would print warnings to stderr where an application configures nothing
LOG.addHandler(logging.NullHandler())


def move_handlers(source: object, target: Any) -> None:
    """Let all handlers of `logging` that write to the stream `source` write to `target`."""
    for logger in (logging.root, *list(logging.root.manager.loggerDict.values())):
        for handler in getattr(logger, "handlers", ()):
            # that of `logging.lastResort` is a property that follows sys.stderr
            if isinstance(handler, logging.StreamHandler) and vars(handler).get("stream") is source:
                handler.setStream(target)


def log_notes(notes: Iterable[str], level: int = logging.INFO) -> None:
    """Log sentences on scores, a record each."""
    for note in notes:
        LOG.log(level, "%s", note)
