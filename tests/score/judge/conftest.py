"""A chat server with a script, and a judge that asks it."""

from contextlib import ExitStack

import pytest

from ragbench.score.judge.judge import Judge
from tests.chat_server import ChatServer
from tests.score.judge.scripted import Script


@pytest.fixture
def judge_on():
    """Start a server and a judge on it; both end with the test."""
    with ExitStack() as stack:

        def start(script=None, *, rubrics, model="m", server=None, **options):
            server_started = stack.enter_context(ChatServer(script or Script(), **(server or {})))
            judge = Judge(model, rubrics, base_url=server_started.url, **options)
            return server_started, stack.enter_context(judge)

        yield start


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch):
    """Tries follow one another in milliseconds where the server does not say when."""
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)
