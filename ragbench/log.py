"""Logger `ragbench` of the package: requests that fail or are repeated, and notes on scores.

It prints nothing unless the application configures `logging`. Records are one line each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

LOG = logging.getLogger("ragbench")
# else Python would print warnings to stderr where an application configures nothing
LOG.addHandler(logging.NullHandler())


def log_notes(notes: Iterable[str], level: int = logging.INFO) -> None:
    """Log sentences on scores, a record each."""
    for note in notes:
        LOG.log(level, "%s", note)
