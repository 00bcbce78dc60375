"""langchain's own chat models, and objects that only look like one."""

import threading
from types import SimpleNamespace

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic import SecretStr

from ragbench.errors import OptionError
from ragbench.llm import CallFailure, ChatEngine, LangchainChat, Limits, Usage, ask_structured
from ragbench.records.codec import to_json
from ragbench.score.judge.support import read_answer
from ragbench.types import Cause
from tests.llm.conftest import GOOD, SCHEMA, ask_many, asking


def engine_of(model, **limits):
    return ChatEngine(LangchainChat(model), limits=Limits(**{"timeout": 5, **limits}))


def test_a_langchain_model_answers():
    with engine_of(FakeListChatModel(responses=[GOOD])) as engine:
        answer = engine.run(ask_structured(engine.aask, asking(schema=SCHEMA)))

    assert answer.value["score"] == 4
    assert answer.reply.usage == Usage(None, None), "unknown, not 0"
    assert engine.totals.unknown_usage == 1


def test_what_a_message_tells_is_kept():
    message = AIMessage(
        [{"type": "text", "text": "fo"}, "ur"],
        usage_metadata={"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
        response_metadata={
            "finish_reason": "stop",
            "model_name": "vendor-7b",
            "system_fingerprint": "fp",
            "logprobs": {"content": [{"token": "4", "logprob": -0.5, "top_logprobs": []}]},
        },
    )
    with engine_of(GenericFakeChatModel(messages=iter([message]))) as engine:
        reply = engine.ask(asking())

    assert reply.text == "four"
    assert (reply.usage, reply.model) == (Usage(7, 2), "vendor-7b")
    assert (reply.finish_reason, reply.system_fingerprint) == ("stop", "fp")
    assert reply.logprobs[0].logprob == -0.5


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("stop_reason", "max_tokens"),
        ("finish_reason", "MAX_TOKENS"),
        ("finish_reason", "FinishReason.MAX_TOKENS"),
        ("finish_reason", "length"),
    ],
)
def test_a_token_limit_is_known_in_the_words_of_any_vendor(key, reason):
    message = AIMessage("The answer may pass", response_metadata={key: reason})
    with engine_of(GenericFakeChatModel(messages=iter([message]))) as engine:
        reply = engine.ask(asking())

    assert (reply.finish_reason, reply.is_cut) == (reason, True)
    with pytest.raises(CallFailure) as caught:
        read_answer(reply, ("pass", "fail"))
    assert (caught.value.cause, caught.value.is_cut) == (Cause.OUT_OF_TOKENS, True)


def test_a_message_that_the_server_broke_off_is_asked_again():
    messages = []
    for text, reason in (("The ans", "error"), (GOOD, "stop")):
        messages.append(AIMessage(text, response_metadata={"finish_reason": reason}))
    with engine_of(GenericFakeChatModel(messages=iter(messages)), retries=1) as engine:
        reply = engine.ask(asking())

    assert (reply.text, len(reply.attempts)) == (GOOD, 1)


def test_a_model_without_async_runs_in_threads():
    # All at once: eight calls that each wait for the seven others
    together = threading.Barrier(8, timeout=300)

    class Blocking:
        def invoke(self, messages, stop=None):
            together.wait()
            return f"{messages[0]['content']} {stop}"

    with engine_of(Blocking(), concurrency=8) as engine:
        outcomes = ask_many(engine, [asking(f"{i}", stop=("END",)) for i in range(8)])

    assert [outcome.text for outcome in outcomes] == [f"{i} ['END']" for i in range(8)]


class Overloaded(Exception):
    """As clients of all vendors raise it."""

    status_code = 529

    response = SimpleNamespace(status_code=529, headers={"retry-after": "0.01"})


@pytest.mark.parametrize(
    ("raised", "cause", "tries"),
    [
        (Overloaded("busy"), Cause.SERVER_ERROR, 3),
        (ConnectionResetError("gone"), Cause.SERVER_ERROR, 3),
        (TimeoutError("slow"), Cause.TIMEOUT, 3),
        (ZeroDivisionError("a bug"), Cause.ERROR, 1),
    ],
)
def test_what_a_model_raises_is_a_failure_by_cause(raised, cause, tries):
    class Raising:
        async def ainvoke(self, messages):
            raise raised

    with engine_of(Raising(), retries=2) as engine, pytest.raises(CallFailure) as caught:
        engine.ask(asking())

    assert caught.value.cause is cause
    assert len(caught.value.attempts) == tries
    assert str(raised) in caught.value.detail


def test_a_reply_that_is_no_message(assert_message):
    class Odd:
        async def ainvoke(self, messages):
            return 42

    with (
        engine_of(Odd()) as engine,
        pytest.raises(CallFailure) as caught,
    ):
        engine.ask(asking())
    assert_message(caught.value)


def test_its_secrets_stay_with_it():
    class Vendor:
        def __init__(self):
            self.api_key = SecretStr("planted-0123456789")

        async def ainvoke(self, messages):
            raise ValueError(f"bad key {self.api_key.get_secret_value()}")

    model = LangchainChat(Vendor())
    with ChatEngine(model) as engine, pytest.raises(CallFailure) as caught:
        engine.ask(asking())

    assert "bad key ${api_key}" in caught.value.detail
    assert "planted" not in f"{caught.value} {model.identity}"


def test_no_part_of_a_reply_holds_its_secrets():
    message = AIMessage(
        "so",
        additional_kwargs={"refusal": "not with sk-secret-1"},
        response_metadata={
            "finish_reason": "sk-secret-1",
            "model_name": "m sk-secret-1",
            "system_fingerprint": "sk-secret-1",
            "logprobs": {
                "content": [
                    {"token": part, "logprob": -0.5, "top_logprobs": []}
                    for part in ("sk-", "secret", "-1")
                ]
            },
        },
    )
    model = SimpleNamespace(invoke=lambda *_, **__: message, key=SecretStr("sk-secret-1"))
    with engine_of(model) as engine:
        reply = engine.ask(asking())

    assert "secret" not in str(to_json(reply))
    assert reply.refusal == "not with ${key}"


def test_what_is_no_model_is_refused(assert_message):
    with pytest.raises(OptionError) as caught:
        LangchainChat(3)
    assert_message(caught.value, "langchain: model")


def test_reasoning_and_its_tokens():
    # As langchain's `usage_metadata` tells them; between tags in the text of a local model
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    from ragbench.llm import ChatEngine, LangchainChat, Usage
    from tests.llm.conftest import asking

    usage = {
        "input_tokens": 9,
        "output_tokens": 7,
        "total_tokens": 16,
        "output_token_details": {"reasoning": 5},
        "input_token_details": {"cache_read": 4},
    }
    message = AIMessage("<think>Two.</think>\n4", usage_metadata=usage)
    with ChatEngine(LangchainChat(GenericFakeChatModel(messages=iter([message])))) as engine:
        reply = engine.ask(asking())

    assert (reply.answer(), reply.reasoning) == ("4", "Two.")
    assert reply.usage == Usage(9, 7, None, 5, 4)


def test_reasoning_in_the_text_of_a_function_is_no_answer():
    thought = '<think>{"reasoning": "", "score": 1} seems low</think>'
    model = LangchainChat(lambda messages: f'{thought}{{"reasoning": "fits", "score": 4}}')
    with ChatEngine(model) as engine:
        answer = engine.run(ask_structured(engine.aask, asking(schema=SCHEMA)))

    assert answer.value == {"reasoning": "fits", "score": 4}
    assert answer.reply.reasoning == '{"reasoning": "", "score": 1} seems low'
