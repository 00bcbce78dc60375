"""Chat engine of judges and generators: calls with retries, limits, budget and stored replies.

A judge uses it as follows::

    engine = ChatEngine(OpenAIChat(base_url=...), limits=Limits(concurrency=16, timeout=60))
    request = ChatRequest(model, (Message("user", prompt),), temperature=0.0, schema=SCHEMA)
    answer = await ask_structured(engine.aask, request)      # .value, .reply, .replies
    for position, verdict in engine.map(judge_one, items):   # judge_one may call aask several times
        verdicts[position] = verdict

- `engine.ask`, `map` and `run` are synchronous, `aask` and `amap` asynchronous. All of them work
  from any thread and inside a running loop.
- A failed call raises `CallFailure` with a `Cause`: `refused`, `unreadable`, `timeout`,
  `over_budget`, `server_error`, and for a user's own model `error` and `malformed`. Its `replies`
  are the replies that could not be used, its `attempts` the failed tries.
- `map` stops at the first exception of its function, so the function turns failures into values.
  `OptionError` and `DataError` (no key, a full disk, a reply missing in a replay) go to the user.
- For several samples, ask with `dataclasses.replace(request, sample=i)`; each is stored by itself.
- `Replies(path)` stores replies; `Replies(path, replay=True)` sends nothing. `engine.totals` counts
  calls, tokens and US dollars. Several engines may share a `Budget(usd=..., tokens=...)`.
- `request.top_logprobs=5` requests five alternatives per token; `reply.logprobs` is None if the
  server returns none.
"""

from ragbench.llm.base import CallFailure as CallFailure
from ragbench.llm.base import ChatModel as ChatModel
from ragbench.llm.base import ChatReply as ChatReply
from ragbench.llm.base import ChatRequest as ChatRequest
from ragbench.llm.base import Message as Message
from ragbench.llm.base import TokenLogprob as TokenLogprob
from ragbench.llm.calls import StructuredReply as StructuredReply
from ragbench.llm.calls import ask_structured as ask_structured
from ragbench.llm.engine import ChatEngine as ChatEngine
from ragbench.llm.json_reply import Unreadable as Unreadable
from ragbench.llm.langchain import LangchainChat as LangchainChat
from ragbench.llm.limits import Limits as Limits
from ragbench.llm.openai import OpenAIChat as OpenAIChat
from ragbench.llm.replies import Replies as Replies
from ragbench.llm.server import Connected as Connected
from ragbench.llm.usage import Budget as Budget
from ragbench.llm.usage import CountedRequests as CountedRequests
from ragbench.llm.usage import Estimate as Estimate
from ragbench.llm.usage import Price as Price
from ragbench.llm.usage import Prices as Prices
from ragbench.llm.usage import Totals as Totals
from ragbench.llm.usage import estimate as estimate
from ragbench.store.sqlite_file import DamagedCache as DamagedCache
from ragbench.types import Usage as Usage
