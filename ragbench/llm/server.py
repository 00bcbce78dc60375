"""Where an OpenAI-compatible server is, before anything connects to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ragbench.llm.base import ChatModel
from ragbench.llm.openai import OpenAIChat
from ragbench.llm.replies import Replies

_OWN_SERVER = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Server:
    """An address with the name of the variable that holds its key; nothing is read before use."""

    base_url: str | None = None
    """The server; None or empty: what `OPENAI_BASE_URL` says, else OpenAI's own."""
    api_key_env: str = "OPENAI_API_KEY"
    """The variable."""
    stream: bool = False
    """Whether replies are taken in pieces."""
    client: Any = None
    """A ready client in place of all that."""

    @property
    def missing_key(self) -> str | None:
        """The variable that must hold a key and does not; None where none is needed."""
        address = self.base_url or os.environ.get("OPENAI_BASE_URL")
        if address or self.client is not None or os.environ.get(self.api_key_env):
            return None
        return self.api_key_env

    def connect(self, replies: Replies | None) -> ChatModel:
        """Return the chat model behind it.

        Raises:
            MissingExtra: The `openai` package is not installed.
            OptionError: There is no key for OpenAI's own server, or the URL holds secrets.
        """
        if self.client is not None:
            return OpenAIChat(client=self.client)
        address = self.base_url
        if replies is not None and replies.replay and self.missing_key:
            address = _OWN_SERVER  # nothing is sent, so that no key is asked for
        return OpenAIChat(base_url=address, api_key_env=self.api_key_env, stream=self.stream)
