"""What tests of components need, ours and anybody's: a chat server on loopback.

from ragbench.testing import Answer, ChatServer

with ChatServer([Answer('{"score": 4}')]) as server:
    judge = rb.Judge(base_url=server.url, ...)
    assert server.counters.requests == 1
"""

from ragbench.testing.chat_answers import (
    FAULTS as FAULTS,
    Answer as Answer,
    Fault as Fault,
    Faults as Faults,
    ReasoningModel as ReasoningModel,
    exceed_context as exceed_context,
    filter_prompt as filter_prompt,
    refuse as refuse,
)
from ragbench.testing.chat_batches import Batches as Batches
from ragbench.testing.chat_server import (
    ChatServer as ChatServer,
    Counters as Counters,
    Received as Received,
)
