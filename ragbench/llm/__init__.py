r"""The chat engine that judges and generators share: paid once, kept, counted, never lost.

What a judge types::

    engine = ChatEngine(OpenAIChat(base_url=...), limits=Limits(concurrency=16, timeout=60))
    request = ChatRequest(model, (Message("user", prompt),), temperature=0.0, schema=SCHEMA)
    answer = await ask_structured(engine.aask, request)      # .value, .reply, .replies
    for position, verdict in engine.each(judge_one, items):  # judge_one asks as often as it needs
        verdicts[position] = verdict

- `engine.ask`, `each`, `run` are synchronous, `aask`, `aeach` asynchronous. All of them work from
  any thread and inside a running loop.
- A call that brings nothing raises `CallFailure` with a `Cause`: `refused`, `unreadable`,
  `timeout`, `over_budget`, `server_error`, and for models of the user's own `error` and
  `malformed`. `failure.replies` are the replies that came all the same, `failure.attempts` the
  tries. `each` stops at what its function raises: the function turns failures into verdicts.
  `OptionError` and `DataError` (no key, a full disk, a reply missing in a replay) are for the user
  and go through.
- `samples: n`: ask with `dataclasses.replace(request, sample=i)`; each sample is kept apart.
- `Replies(path)` keeps replies, `Replies(path, replay=True)` sends nothing; `engine.totals` counts
  calls, tokens and US dollars; `Budget(usd=..., tokens=...)` may be shared by several engines.
- `request.top_logprobs=5` asks for alternatives; `reply.logprobs` is None where there are none.

Example:
    >>> from ragbench.testing import ChatServer
    >>> schema = {"type": "object", "properties": {"level": {"type": "integer"}},
    ...     "required": ["level"], "additionalProperties": False}
    >>> with ChatServer('```json\n{"level": 4}\n```') as server:
    ...     with ChatEngine(OpenAIChat(base_url=server.url)) as engine:
    ...         request = ChatRequest("m", (Message("user", "How good?"),), schema=schema)
    ...         answer = engine.run(ask_structured(engine.aask, request))
    >>> answer.value
    {'level': 4}
"""

from ragbench.llm.base import (
    CallFailure,
    ChatModel,
    ChatReply,
    ChatRequest,
    Message,
    TokenLogprob,
)
from ragbench.llm.calls import StructuredReply, ask_structured
from ragbench.llm.engine import ChatEngine
from ragbench.llm.json_reply import Unreadable
from ragbench.llm.langchain import LangchainChat
from ragbench.llm.limits import Limits
from ragbench.llm.openai import OpenAIChat
from ragbench.llm.replies import Replies
from ragbench.llm.server import Connected
from ragbench.llm.usage import Budget, Estimate, Price, Prices, Totals, estimate
from ragbench.store.sqlite_file import DamagedCache
from ragbench.types import Usage

__all__ = [
    "Budget",
    "ChatEngine",
    "CallFailure",
    "ChatModel",
    "ChatReply",
    "ChatRequest",
    "Connected",
    "Estimate",
    "estimate",
    "DamagedCache",
    "LangchainChat",
    "Limits",
    "Message",
    "OpenAIChat",
    "Price",
    "Prices",
    "Replies",
    "StructuredReply",
    "TokenLogprob",
    "Totals",
    "Unreadable",
    "Usage",
    "ask_structured",
]
