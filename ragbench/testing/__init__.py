"""What tests of components need, ours and anybody's: a chat server on loopback.

from ragbench.testing import Answer, ChatServer

with ChatServer([Answer('{"score": 4}')]) as server:
    judge = rb.Judge(base_url=server.url, ...)
    assert server.counters.requests == 1
"""

from ragbench.testing.chat_answers import (
    FAULTS,
    Answer,
    Fault,
    Faults,
    ReasoningModel,
    exceed_context,
    filter_prompt,
    refuse,
)
from ragbench.testing.chat_batches import Batches
from ragbench.testing.chat_server import ChatServer, Counters, Received

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
