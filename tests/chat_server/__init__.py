"""A chat server on loopback with scripts, faults, limits and batches, for the tests of ragbench."""

from tests.chat_server.answers import (
    FAULTS,
    Answer,
    Fault,
    Faults,
    ReasoningModel,
    exceed_context,
    filter_prompt,
    refuse,
)
from tests.chat_server.batches import Batches
from tests.chat_server.server import ChatServer, Counters, Received

__all__ = [
    "FAULTS",
    "Answer",
    "Batches",
    "ChatServer",
    "Counters",
    "Fault",
    "Faults",
    "ReasoningModel",
    "Received",
    "exceed_context",
    "filter_prompt",
    "refuse",
]
