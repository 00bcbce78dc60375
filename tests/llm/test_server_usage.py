"""Tokens in the forms of several servers: sent, received, reasoning, cached, and what they cost."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.llm import Budget, ChatEngine, Limits, OpenAIChat, Price, Prices, Usage
from ragbench.llm.completions import read_reply
from ragbench.types import Cause
from tests.chat_server import Answer, ChatServer
from tests.llm.conftest import ask_many, asking, engine_before

PRICES = Prices({"m": Price(1.0, 10.0, 0.1)})


def body(usage, content="4"):
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"id": "", "model": "m", "choices": [choice], "usage": usage})


def openai_form(prompt, visible, reasoning, cached):
    return {
        "prompt_tokens": prompt,
        "completion_tokens": visible + reasoning,
        "total_tokens": prompt + visible + reasoning,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def openai_responses(prompt, visible, reasoning, cached):
    return {
        "input_tokens": prompt,
        "output_tokens": visible + reasoning,
        "total_tokens": prompt + visible + reasoning,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens_details": {"reasoning_tokens": reasoning},
    }


def xai(prompt, visible, reasoning, cached):
    """Reasoning stands beside the completion."""
    inside = openai_form(prompt, visible, reasoning, cached)
    return {**inside, "completion_tokens": visible}


def deepseek(prompt, visible, reasoning, cached):
    inside = openai_form(prompt, visible, reasoning, cached)
    del inside["prompt_tokens_details"]
    return {
        **inside,
        "prompt_cache_hit_tokens": cached,
        "prompt_cache_miss_tokens": prompt - cached,
    }


def gemini_native(prompt, visible, reasoning, cached):
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": visible,
        "thoughtsTokenCount": reasoning,
        "totalTokenCount": prompt + visible + reasoning,
        "cachedContentTokenCount": cached,
    }


FULL = [openai_form, openai_responses, xai, deepseek, gemini_native]


def gemini(prompt, visible, reasoning, cached):
    """Only the total tells that the model has thought."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": visible,
        "total_tokens": prompt + visible + reasoning,
    }


def plain(prompt, visible, reasoning, cached):
    """Mistral, Ollama, llama.cpp; vLLM adds null for the details."""
    inside = openai_form(prompt, visible, reasoning, cached)
    return {**inside, "prompt_tokens_details": None, "completion_tokens_details": None}


def anthropic(prompt, visible, reasoning, cached):
    """Cached tokens stand beside the others."""
    written_tokens = (prompt - cached) // 2
    return {
        "input_tokens": prompt - cached - written_tokens,
        "cache_creation_input_tokens": written_tokens,
        "cache_read_input_tokens": cached,
        "output_tokens": visible + reasoning,
    }


FORMS = [*FULL, gemini, plain, anthropic]


@st.composite
def token_counts(draw):
    """Counts of a call: prompt, visible output, reasoning, cached part of the prompt."""
    counts = st.integers(0, 10**6)
    prompt = draw(counts)
    return prompt, draw(counts), draw(counts), draw(st.integers(0, prompt))


@pytest.mark.parametrize("form", FORMS)
@given(counts=token_counts())
def test_every_form_has_the_same_output(form, counts):
    prompt, visible, reasoning, cached = counts

    usage = read_reply(body(form(*counts))).usage

    assert (usage.input_tokens, usage.output_tokens) == (prompt, visible + reasoning)
    assert usage.reasoning_tokens == (reasoning if form in FULL else 0)
    assert usage.cached_tokens == (cached if form in [*FULL, anthropic] else 0)


@given(
    st.dictionaries(
        st.sampled_from([name for form in FORMS for name in form(9, 4, 3, 2)]),
        st.none()
        | st.integers(-5, 10**17)
        | st.text(max_size=3)
        | st.booleans()
        | st.dictionaries(
            st.sampled_from(["cached_tokens", "reasoning_tokens"]), st.integers(-5, 10**7)
        ),
    )
)
def test_parts_never_exceed_their_whole(usage):
    used = read_reply(body(usage)).usage

    assert used.reasoning_tokens <= (used.output_tokens or used.reasoning_tokens)
    assert used.cached_tokens <= (used.input_tokens or used.cached_tokens)
    assert used.output_tokens is None or used.output_tokens >= 0


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            xai(1000, 100, 800, 0), Usage(1000, 900, None, 800), id="xAI: 1900 - 1000 = 900"
        ),
        pytest.param(gemini(1000, 100, 800, 0), Usage(1000, 900), id="Gemini: 1900 - 1000 = 900"),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "reasoning_tokens": 8},
            Usage(10, 13, None, 8),
            id="no total: 8 is no part of 5, so 5 + 8",
        ),
        pytest.param(
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 1},
            Usage(10, 5),
            id="a total that is too small: 5",
        ),
        pytest.param(
            {"prompt_tokens": 10, "total_tokens": 12}, Usage(10, 2), id="only the total: 12 - 10"
        ),
        pytest.param({"total_tokens": 12}, Usage(), id="a total alone tells neither"),
        pytest.param({"prompt_tokens": 3, "prompt_tokens_details": 2}, Usage(3), id="no mapping"),
    ],
)
def test_worked_by_hand(usage, expected):
    assert read_reply(body(usage)).usage == expected


def test_a_cost_by_hand(serve):
    # 800 of 1,000 input tokens cached, 900 of output: (200 * 1 + 800 * .1 + 900 * 10) / 10^6
    reply = Answer(body=body(xai(1000, 100, 800, 800)).encode())
    _, engine = serve(reply, engine={"prices": PRICES})

    assert engine.ask(asking()).usage.usd == pytest.approx(0.00928, abs=1e-12)


@pytest.mark.parametrize("limit", ["usd", "tokens"])
@settings(max_examples=4, deadline=None)
@given(form=st.sampled_from(FORMS), counts=token_counts(), concurrency=st.integers(1, 4))
def test_a_budget_is_passed_by_the_calls_in_flight_at_most(limit, form, counts, concurrency):
    prompt, visible, reasoning, _ = counts
    per_call = prompt + visible + reasoning
    if limit == "usd":
        n_cached = counts[3] if form in [*FULL, anthropic] else 0
        sent = prompt - n_cached + 0.1 * n_cached
        per_call = (sent + 10 * (visible + reasoning)) / 1e6
    budget = Budget(**{limit: int(2.5 * per_call) if limit == "tokens" else 2.5 * per_call})

    with (
        ChatServer(Answer(body=body(form(*counts)).encode())) as server,
        engine_before(
            server.url, limits=Limits(concurrency=concurrency), prices=PRICES, budget=budget
        ) as engine,
    ):
        ask_many(engine, [asking(f"q{n}", max_tokens=1) for n in range(20)])

    spent = budget.spent_usd if limit == "usd" else budget.spent_tokens
    assert spent == pytest.approx(server.counters.requests * per_call)
    # Two fit, the third exceeds the limit, the others were under way.
    assert server.counters.requests <= 2 + concurrency


@pytest.mark.parametrize("content", [None, {"no": "text"}], ids=["no message", "no text"])
def test_replies_without_a_text_are_paid_for(content):
    # A try costs 1,000 * 10 / 10^6 = 0.01 USD, and reserves 4,096 * 10 / 10^6 after the first.
    # The sixth fits into 0.1, since 0.05 + 0.041 < 0.1; the seventh does not.
    reply = json.loads(body(openai_form(0, 1000, 0, 0), content))
    if content is None:
        reply["choices"] = []
    budget = Budget(usd=0.1)
    with (
        ChatServer(Answer(body=json.dumps(reply).encode())) as server,
        ChatEngine(
            OpenAIChat(base_url=server.url),
            limits=Limits(concurrency=1, retries=0),
            prices=PRICES,
            budget=budget,
        ) as engine,
    ):
        outcomes = ask_many(engine, [asking(f"q{n}", max_tokens=1) for n in range(10)])

        assert engine.totals.cost_usd == pytest.approx(0.06)
        assert budget.spent_usd == pytest.approx(0.06)
        assert engine.totals.output_tokens == 6000
    assert server.counters.requests == 6
    assert {o.cause.word for o in outcomes} == {"unreadable", "over_budget"}


def test_failed_tries_count_in_the_usage_of_the_reply(serve):
    empty = Answer(body=json.dumps({"choices": [], "usage": {"prompt_tokens": 5}}).encode())
    unknown = engine_usage(serve, empty)
    paid = json.dumps({"choices": [], "usage": plain(5, 7, 0, 0)}).encode()

    assert engine_usage(serve, Answer(body=paid)) == Usage(6, 9)
    assert unknown == Usage(6, None)


def engine_usage(serve, first):
    _, engine = serve([first, Answer(body=body(plain(1, 2, 0, 0)).encode())])
    return engine.ask(asking()).usage


def test_no_call_starts_after_the_minutes():
    # One place, 0.3 s a call, 0.6 s in all: the calls that wait for the place are not sent
    budget = Budget(minutes=0.01)
    with (
        ChatServer("4", latency_s=0.3) as server,
        engine_before(server.url, limits=Limits(concurrency=1), budget=budget) as engine,
    ):
        outcomes = ask_many(engine, [asking(f"q{n}") for n in range(10)])

    assert 1 <= server.counters.requests <= 3
    assert sum(getattr(o, "cause", None) is Cause.OVER_BUDGET for o in outcomes) >= 7
