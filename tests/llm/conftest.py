"""A chat server, an engine before it, and a schema that judges use."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager

import pytest

from ragbench.llm import CallFailure, ChatEngine, ChatRequest, Limits, Message, OpenAIChat
from tests.chat_server import ChatServer

SCHEMA = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["score"],
    "additionalProperties": False,
}
GOOD = '{"reasoning": "fits", "score": 4}'


def asking(text="How good is it?", **options):
    """A request with one message."""
    return ChatRequest("m", (Message("user", text),), **options)


def ask_many(engine, requests):
    """Replies and failures, in the order of the requests."""

    async def ask(request):
        try:
            return await engine.aask(request)
        except CallFailure as failure:
            return failure

    return [outcome for _, outcome in sorted(engine.map(ask, requests), key=lambda pair: pair[0])]


@contextmanager
def engine_before(url, **options):
    """An engine that asks a server; fast where tests would wait."""
    limits = options.pop("limits", None) or Limits(timeout=30.0)
    model = OpenAIChat(base_url=url)
    with ChatEngine(model, limits=limits, **options) as engine:
        yield engine


@pytest.fixture
def serve():
    """Start servers and engines; all of them end with the test."""
    with ExitStack() as stack:

        def start(script=GOOD, *, engine=None, **server_options):
            server = stack.enter_context(ChatServer(script, **server_options))
            return server, stack.enter_context(engine_before(server.url, **(engine or {})))

        yield start


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch):
    """Tries follow one another in milliseconds where the server does not say when."""
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


@pytest.fixture
def logged():
    """Collect the lines that any library logs, at any level."""
    lines = []

    class Handler(logging.Handler):
        def emit(self, record):
            lines.append(f"{record.levelname} {self.format(record)}")

    root, handler = logging.getLogger(), Handler()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(level)
