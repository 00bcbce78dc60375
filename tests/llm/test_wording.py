"""Parameters that models refuse: left out after one refusal, remembered, and reported."""

import asyncio

import pytest

from ragbench.llm import (
    CallFailure,
    ChatEngine,
    ChatReply,
    ChatRequest,
    Message,
    OpenAIChat,
    Replies,
    ask_structured,
)
from ragbench.llm.calls import FirstCalls
from ragbench.llm.replies import request_key
from ragbench.records.codec import from_json, to_json
from ragbench.types import Cause
from tests.chat_server import Answer, ChatServer, ReasoningModel, refuse
from tests.llm.conftest import GOOD, SCHEMA, ask_many, asking

ALL = {"temperature": 0.0, "max_tokens": 400, "seed": 3, "stop": ("END",), "top_logprobs": 2}


@pytest.mark.costly
@pytest.mark.parametrize("wording", ["openai", "fastapi", "plain"])
def test_everything_that_a_reasoning_model_refuses_is_given_up_once(serve, wording):
    server, engine = serve(ReasoningModel("It is four. END of it", wording=wording))

    replies = [engine.ask(asking(f"q{i}", **ALL)) for i in range(3)]

    assert [reply.answer() for reply in replies] == ["It is four. "] * 3, "stop is kept here"
    assert {reply.left_out for reply in replies} == {("logprobs", "seed", "stop", "temperature")}
    assert {reply.reasoning for reply in replies} == {"Let me think."}
    assert server.counters.requests == 3 + 5
    last = server.received[-1].body
    assert last["max_completion_tokens"] == 400
    assert not {"temperature", "seed", "stop", "logprobs", "top_logprobs"} & {*last}


@pytest.mark.parametrize("name", ["temperature", "max_tokens", "seed", "stop", "logprobs"])
@pytest.mark.parametrize("status", [400, 403, 422])
def test_each_alone_under_each_status(serve, name, status):
    def script(request, times_asked):
        if name in request or (name == "max_tokens" and "max_completion_tokens" in request):
            parameter = name if name in request else "max_completion_tokens"
            return Answer(f"{parameter} is not supported", status=status, param=parameter)
        return Answer(GOOD)

    server, engine = serve(script)

    assert engine.ask(asking(**ALL)).left_out == (name,)
    assert server.counters.requests == (3 if name == "max_tokens" else 2)


@pytest.mark.costly
def test_one_call_goes_ahead_of_the_others(serve):
    # 40 items, two kinds of requests: as many refusals as parameters that are refused
    model = ReasoningModel(GOOD, refuses=("temperature", "logprobs", "response_format"))

    server, engine = serve(model, latency_s=0.02)
    requests = [
        asking(f"q{i}", temperature=0.0, top_logprobs=2 * (i % 2), schema=SCHEMA) for i in range(40)
    ]

    replies = ask_many(engine, requests)

    assert [reply.text for reply in replies] == [GOOD] * 40
    assert server.counters.statuses[200] == 40
    assert server.counters.requests == 40 + 3
    assert server.counters.peak_in_flight > 4, "then all at once"


def test_what_the_user_alone_asks_for_is_not_given_up(serve):
    # Without the parameter the reply would cost more; a refused request costs nothing
    server, engine = serve(ReasoningModel(GOOD, refuses=("reasoning_effort", "top_k")))

    for options in ({"reasoning_effort": "low"}, {"extra": {"top_k": 3}}):
        with pytest.raises(CallFailure, match="not supported") as caught:
            engine.ask(asking(**options))
        assert caught.value.cause is Cause.SERVER_ERROR
    assert server.counters.requests == 2


@pytest.mark.parametrize("param", ["max_tokens", None])
@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 99999. This model takes at most 16384 completion tokens.",
        "`max_tokens` must be less than or equal to `8192`, the maximum value",
    ],
)
def test_a_longest_reply_that_is_too_long_is_the_users_to_mend(serve, message, param):
    server, engine = serve(Answer(message, status=400, param=param))

    with pytest.raises(CallFailure, match="max_tokens"):
        engine.ask(asking(max_tokens=99999))
    assert server.counters.requests == 1


@pytest.mark.parametrize(
    "message",
    [
        "`temperature` must be strictly positive",
        "`temperature` may only be set to 1 when thinking is enabled",
        "Only the default (1) value of temperature is taken",
        "`temperature` is deprecated for this model.",
    ],
)
def test_a_value_that_is_refused_in_words_is_left_out(serve, message):
    def script(request, times_asked):
        return Answer(message, status=400) if "temperature" in request else Answer(GOOD)

    _, engine = serve(script)

    assert engine.ask(asking(temperature=0.0)).left_out == ("temperature",)


def test_a_second_model_is_asked_for_itself(serve):
    refusing = ReasoningModel(GOOD, refuses=("temperature",))

    def script(request, times_asked):
        return refusing(request, times_asked) if request["model"] == "o" else Answer(GOOD)

    _, engine = serve(script)
    left_out = [
        engine.ask(ChatRequest(model, (Message("user", "?"),), temperature=0.0)).left_out
        for model in ("o", "plain", "o")
    ]
    assert left_out == [("temperature",), (), ("temperature",)]


def test_it_is_found_out_once_although_the_server_stumbles(serve):
    # A failure between the refusals and the answer forgets nothing
    count = iter(range(100))
    model = ReasoningModel(GOOD, refuses=("temperature", "seed"))

    def script(request, times_asked):
        answer = model(request, times_asked)
        busy = answer.status == 200 and next(count) == 0
        return Answer("busy", status=503) if busy else answer

    server, engine = serve(script)

    assert engine.ask(asking(temperature=0.0, seed=1)).text == GOOD
    assert server.counters.statuses == {400: 2, 503: 1, 200: 1}


def test_a_second_run_finds_its_replies_and_what_was_left_out(tmp_path):
    # The key is of what was asked for, whatever was refused: nothing is sent again
    with ChatServer(ReasoningModel(GOOD)) as server:
        answers = []
        for _ in range(2):
            with (
                Replies(tmp_path / "replies.sqlite") as replies,
                ChatEngine(OpenAIChat(base_url=server.url), replies=replies) as engine,
            ):
                answers.append(engine.ask(asking(**ALL)))
        assert server.counters.requests == 6

    assert [reply.stored for reply in answers] == [False, True]
    assert answers[0].left_out == answers[1].left_out == ("logprobs", "seed", "stop", "temperature")
    assert answers[1].reasoning == "Let me think."


def test_keys_of_requests_are_what_they_were():
    # An earlier version's stored reply has the same key; keys computed with that version
    key = request_key({"type": "openai", "base_url": "http://h/v1"}, asking(temperature=0.0))

    assert key.startswith("a6bcf2732fbb")
    other = request_key(
        {"type": "openai", "base_url": "http://h/v1"},
        asking(temperature=0.0, reasoning_effort="low"),
    )
    assert other != key


def test_replies_that_were_stored_before_are_read():
    stored = to_json(ChatReply("x"))
    for name in ("reasoning", "left_out"):
        del stored[name]
    stored["usage"] = {"input_tokens": 1, "output_tokens": 2}

    assert from_json(ChatReply, stored).left_out == ()


@pytest.mark.parametrize("tags", [False, True])
def test_reasoning_is_never_the_answer(serve, tags):
    # Not even if the reasoning holds a whole verdict
    thoughts = 'First I thought {"reasoning": "no", "score": 1}.'
    model = ReasoningModel(GOOD, thoughts=thoughts, refuses=(), tags=tags)
    _, engine = serve(model)

    answer = engine.run(ask_structured(engine.aask, asking(schema=SCHEMA)))

    assert answer.value == {"reasoning": "fits", "score": 4}
    assert answer.reply.reasoning == thoughts
    assert answer.reply.usage.reasoning_tokens == (0 if tags else 25)


@pytest.mark.parametrize("tags", [False, True])
def test_a_reply_that_reasoning_used_up_is_asked_for_once(serve, tags, assert_message):
    model = ReasoningModel(GOOD, thoughts="so " * 50, refuses=(), tags=tags)
    server, engine = serve(model)

    with pytest.raises(CallFailure) as caught:
        engine.run(ask_structured(engine.aask, asking(schema=SCHEMA, max_tokens=20)))
    assert_message(caught.value)

    assert caught.value.cause is Cause.OUT_OF_TOKENS
    assert len(caught.value.replies) == 1
    assert server.counters.requests == 1


def test_a_call_ahead_that_hangs_holds_the_others_up_for_a_while_only(monkeypatch):
    monkeypatch.setattr("ragbench.llm.calls._REFUSED_WITHIN_S", 0.05)

    async def scene():
        first, order, hang = FirstCalls(), [], asyncio.Event()

        async def call(name, wait=None):
            async with first.turn("m", frozenset({"seed"})):
                order.append(name)
                if wait is not None:
                    await wait.wait()

        ahead = asyncio.create_task(call("ahead", hang))
        await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(call("b"), call("c")), 5)
        hang.set()
        await ahead
        return order

    assert asyncio.run(scene()) == ["ahead", "b", "c"]


def test_a_call_ahead_that_is_cancelled_found_out_nothing():
    async def scene():
        first, order = FirstCalls(), []

        async def call(name, forever=False):
            async with first.turn("m", frozenset({"seed"})):
                order.append(name)
                await asyncio.sleep(3600 if forever else 0.01)
                order.append(f"{name} done")

        ahead = asyncio.create_task(call("ahead", forever=True))
        await asyncio.sleep(0)
        calls = asyncio.gather(call("b"), call("c"))
        await asyncio.sleep(0)
        ahead.cancel()
        await calls
        return order

    assert asyncio.run(scene()) == ["ahead", "b", "b done", "c", "c done"]


def test_refusals_of_all_wordings_are_told_apart():
    assert [refuse("stop", wording=w).status for w in ("openai", "fastapi", "plain")] == [
        400,
        422,
        400,
    ]
