"""Replies under the full request: what was paid for is kept, and not asked again.

The file holds no secret, and no question: keys are hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, OptionError
from ragbench.llm.base import ChatReply, ChatRequest
from ragbench.store.replies import ReplyStore


def request_key(identity: Mapping[str, str], request: ChatRequest) -> str:
    """Return the key of a request to a server: equal if and only if both are.

    The order of keys in mappings does not count, and 1.0 is 1; true is not.

    Raises:
        OptionError: The request holds what JSON has no form for.

    Example:
        >>> from ragbench.llm.base import Message
        >>> ask = lambda **more: ChatRequest("m", (Message("user", "hi"),), **more)
        >>> server = {"type": "openai", "base_url": "http://127.0.0.1:8000/v1"}
        >>> request_key(server, ask()) == request_key(server, ask(sample=1))
        False
    """
    content = {"server": dict(identity), "request": request.to_dict()}
    try:
        written = json.dumps(_plain(content), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError("chat request", "", str(error), "what JSON can hold") from None
    return hashlib.sha256(written.encode()).hexdigest()


class Replies(ReplyStore[ChatReply]):
    """A store of chat replies in one file; see `ReplyStore` for how it is opened.

    Example:
        >>> import tempfile
        >>> with Replies(f"{tempfile.mkdtemp()}/replies.sqlite") as replies:
        ...     first = replies.store("k", ChatReply("yes")).result()
        ...     replies.get("k").text, replies.get("other"), len(replies)
        ('yes', None, 1)
    """

    def __init__(
        self, path: str | Path, *, also: Sequence[str | Path] = (), replay: bool = False
    ) -> None:
        super().__init__(path, ChatReply.from_dict, also=also, replay=replay)

    def missing(self, request: ChatRequest, key: str) -> DataError:
        """Return the error that a replay lacks a reply, which says what it would have asked."""
        said = " ".join(request.messages[-1].content.split()) if request.messages else ""
        asked = said if len(said) <= 60 else f"{said[:60]}..."
        return DataError(
            f"no reply from {request.model!r} to {asked!r} (sample {request.sample}, "
            f"key {key[:12]})",
            file=self.path,
            allowed="replay needs every reply; run once with the server to store it",
        )


def _plain(value: Any) -> Any:
    """A value with whole floats as integers: 1.0 is 1, in requests as in JSON schema."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
