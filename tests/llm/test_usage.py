"""Tokens, prices, and a budget that holds at any concurrency."""

import asyncio
import threading
import time
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.llm import (
    Budget,
    CallFailure,
    ChatEngine,
    ChatReply,
    Limits,
    OpenAIChat,
    Price,
    Prices,
    Replies,
    Totals,
    Usage,
)
from ragbench.llm.completions import ask_json
from ragbench.llm.usage import ReplySizes, Reservation, upper_bound
from ragbench.types import Cause
from ragbench.types.records import add_usage
from tests.chat_server import Answer, ChatServer, ReasoningModel
from tests.llm.conftest import GOOD, ask_many, asking


def test_worked_by_hand():
    # 1,000 tokens at 0.15 and 200 at 0.60 per million: 0.00015 + 0.00012
    price = Prices.load().of("gpt-4o-mini")

    assert price.cost_usd(Usage(1_000, 200)) == pytest.approx(0.00027, abs=1e-15)


def test_cached_input_has_its_own_price(tmp_path):
    # 400 new at 0.15, 600 cached at 0.075 and 200 at 0.60: 60 + 45 + 120 per million
    price = Prices.load().of("gpt-4o-mini")

    usage = Usage(1_000, 200, cached_tokens=600)
    assert price.cost_usd(usage) == pytest.approx(0.000225, abs=1e-15)
    (tmp_path / "p.yaml").write_text("models: {m: {input: 1, output: 2}}")
    own_price = Prices.load(tmp_path / "p.yaml").of("m")
    assert own_price.cost_usd(Usage(10, 0, cached_tokens=10)) == pytest.approx(1e-5), (
        "as other input"
    )


def test_cached_and_reasoning_tokens_are_read_from_a_reply(serve):
    _, engine = serve(Answer(GOOD, reasoning="so it is", cached_tokens=2))
    from dataclasses import replace

    reply = engine.ask(replace(asking("one two"), model="gpt-4o-mini"))

    used = reply.usage
    assert (used.input_tokens, used.cached_tokens, used.reasoning_tokens) == (3, 2, 5)
    assert used.usd == pytest.approx((1 * 0.15 + 2 * 0.075 + used.output_tokens * 0.60) / 1e6)
    assert engine.totals.reasoning_tokens == 5


def test_a_reply_that_was_stored_before_its_price_was_known_is_priced(tmp_path):
    (tmp_path / "prices.yaml").write_text("models: {m: {input: 1, output: 2}}")
    costs = []
    with ChatServer(GOOD) as server:
        for prices in (Prices.load(), Prices.load(tmp_path / "prices.yaml"), Prices.load()):
            with (
                Replies(tmp_path / "replies.sqlite") as replies,
                ChatEngine(OpenAIChat(base_url=server.url), replies=replies, prices=prices) as e,
            ):
                costs.append(e.ask(asking()))
        assert server.counters.requests == 1

    used = costs[0].usage
    assert [reply.usage.usd for reply in costs] == [
        None,
        pytest.approx((used.input_tokens + 2 * used.output_tokens) / 1e6),
        None,
    ]


def test_a_budget_holds_for_reasoning_that_nobody_limited(serve):
    # Replies of 9,000 tokens, which no `max_tokens` announces; the first one tells
    model = ReasoningModel(GOOD, thoughts="so " * 4_500, refuses=())
    budget = Budget(tokens=100_000)
    _, engine = serve(model, engine={"budget": budget, "limits": Limits(concurrency=32)})

    outcomes = ask_many(engine, [asking(f"q{i}", temperature=0.0) for i in range(40)])

    used = engine.totals.input_tokens + engine.totals.output_tokens
    assert budget.spent_tokens == used <= 100_000
    assert 5 <= sum(not isinstance(outcome, CallFailure) for outcome in outcomes) < 12


@pytest.mark.parametrize("limit", [0.05, 0.25])
def test_a_budget_buys_nearly_all_of_it(serve, limit, tmp_path):
    # GOOD has some 20 tokens: 20 * 10 = 200 per million, beside some 260 * 2.5 of the prompt
    (tmp_path / "prices.yaml").write_text("models: {m: {input: 2.5, output: 10}}")
    budget = Budget(usd=limit)
    options = {"budget": budget, "prices": Prices.load(tmp_path / "prices.yaml")}
    _, engine = serve(GOOD, engine={**options, "limits": Limits(concurrency=16)})

    outcomes = ask_many(
        engine, [asking(f"question {i} " + "of many words " * 85) for i in range(400)]
    )

    assert any(isinstance(outcome, CallFailure) for outcome in outcomes)
    assert 0.88 * limit < budget.spent_usd <= limit
    assert budget.spent_usd == pytest.approx(engine.totals.cost_usd)


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        pytest.param([], (116, 4096), id="100 bytes, 16 a message, and 4096"),
        pytest.param([Usage(29, 17)], (44, 340), id="1.5 * 29 of 116; 17 * (2 + 18)"),
        pytest.param([Usage(29, 17)] * 18, (44, 51), id="17 * (2 + 1)"),
        pytest.param([Usage(29, 3000)], (44, 6000), id="20 * 3000, at most twice the longest"),
        pytest.param([Usage(29, 300)], (44, 4096), id="20 * 300, at most 4096"),
        pytest.param([Usage(232, 17)], (232, 340), id="a server that adds a prompt of its own"),
        pytest.param([Usage()], (116, 20), id="tokens that no server reports"),
    ],
)
def test_the_bound_follows_the_replies_so_far(usages, expected):
    request = asking("x" * 100)
    sizes = ReplySizes()
    for usage in usages:
        sizes.add(request, usage)

    bound = upper_bound(request, sizes)

    assert (bound.input_tokens, bound.output_tokens) == expected
    limited = upper_bound(asking("x" * 100, max_tokens=9), sizes)
    assert (limited.input_tokens, limited.output_tokens) == (116, 9), "no call takes more"


def test_a_longest_reply_that_is_refused_bounds_nothing(serve):
    # Neither name is taken: the bound is then that of a request without one
    model = ReasoningModel(
        GOOD, thoughts="so " * 2_000, refuses=("max_tokens", "max_completion_tokens")
    )
    budget = Budget(tokens=20_000)
    _, engine = serve(model, engine={"budget": budget})

    ask_many(engine, [asking(f"q{i}", max_tokens=50) for i in range(40)])

    assert budget.spent_tokens <= 20_000


def test_the_bound_covers_the_schema():
    # A server reads it as part of the prompt, or is sent it in words
    from tests.llm.conftest import SCHEMA

    plain, with_schema = (upper_bound(r) for r in (asking(), asking(schema=SCHEMA)))

    words = ask_json("", SCHEMA)
    assert with_schema.input_tokens - plain.input_tokens >= len(words.encode())


def test_unknown_is_none_and_free_is_zero(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text("free: [mine]\nmodels: {gpt-4o: {input: 1, output: 2}}\n")
    prices = Prices.load(path)

    assert prices.of("mine").cost_usd(Usage()) == 0.0
    assert prices.of("gpt-4o") == Price(1.0, 2.0), "overridden"
    assert prices.of("gpt-4o-mini") == Prices.load().of("gpt-4o-mini"), "still there"
    assert prices.of("unheard-of") is None
    assert prices.of("gpt-4o").cost_usd(Usage(None, 3)) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[", "TMP/prices.yaml"),
        ("gpt: 3", "TMP/prices.yaml"),
        ("models: [m]", "TMP/prices.yaml"),
        ("free: m", "TMP/prices.yaml"),
        ("models: {m: 3}", "TMP/prices.yaml: models.m"),
        ("models: {m: {input: -1, output: 2}}", "TMP/prices.yaml: models.m"),
        ("models: {m: {input: 1, output: .inf}}", "TMP/prices.yaml: models.m"),
    ],
)
def test_bad_price_files(tmp_path, text, place, assert_message):
    path = tmp_path / "prices.yaml"
    path.write_text(text)

    with pytest.raises(DataError) as caught:
        Prices.load(path)
    assert_message(caught.value, place)


@given(st.lists(st.text(max_size=30), min_size=1), st.none() | st.integers(1, 9))
def test_the_bound_covers_every_byte(texts, max_tokens):
    from ragbench.llm import ChatRequest, Message

    request = ChatRequest("m", tuple(Message("user", t) for t in texts), max_tokens=max_tokens)

    bound = upper_bound(request)

    assert bound.input_tokens > len("".join(texts).encode())
    assert bound.output_tokens == (max_tokens or 4096)


def test_totals_keep_what_is_unknown_apart():
    totals = Totals()
    totals.add(ChatReply("a", usage=Usage(5, 2, 0.25), model="m"))
    totals.add(ChatReply("b", model="m"))
    totals.add(ChatReply("c", usage=Usage(9, 9, 1.0), stored=True, model="old"))

    assert (totals.calls, totals.stored) == (2, 1)
    assert (totals.input_tokens, totals.output_tokens, totals.cost_usd) == (5, 2, 0.25)
    assert (totals.unknown_usage, totals.unknown_cost) == (1, 1)
    assert totals.models == {"m", "old"}


def test_costs_do_not_depend_on_the_order_of_replies():
    # 0.1 + 0.2 + 0.3 is 0.6000000000000001 from the left, and 0.6 from the right
    usages = [Usage(usd=usd) for usd in (0.1, 0.2, 0.3)]

    for order in permutations(usages):
        totals = Totals()
        for usage in order:
            totals.add(ChatReply("a", usage=usage, model="m"))
        assert totals.cost_usd == add_usage(order).usd == 0.6


def test_cost_is_counted_and_kept(serve, tmp_path):
    _, engine = serve(GOOD)
    from dataclasses import replace

    reply = engine.ask(replace(asking("one two"), model="gpt-4o-mini"))

    tokens = reply.usage
    assert reply.usage.usd == pytest.approx(
        (tokens.input_tokens * 0.15 + tokens.output_tokens * 0.60) / 1e6
    )
    assert engine.totals.cost_usd == reply.usage.usd
    assert engine.ask(asking("another")).usage.usd is None


@pytest.mark.costly
def test_a_budget_holds_with_32_calls_under_way(serve, assert_message):
    # Never more than it; and used up to less than one call's bound
    budget = Budget(tokens=2_000)
    limits = Limits(concurrency=32, timeout=60)
    server, engine = serve(GOOD, engine={"budget": budget, "limits": limits}, latency_s=0.02)

    requests = [asking(f"question {i}", max_tokens=40) for i in range(100)]
    bound = upper_bound(requests[0])
    outcomes = ask_many(engine, requests)

    used = engine.totals.input_tokens + engine.totals.output_tokens
    assert budget.spent_tokens == used <= 2_000
    assert used > 2_000 - (bound.input_tokens + bound.output_tokens) - 1
    failed = [o for o in outcomes if isinstance(o, CallFailure)]
    assert {o.cause for o in failed} == {Cause.OVER_BUDGET}
    assert len(failed) == 100 - engine.totals.calls == budget.refused
    assert server.counters.requests == engine.totals.calls
    assert_message(failed[0].detail)


def test_what_brought_no_reply_is_given_back(serve):
    budget = Budget(tokens=200)
    _, engine = serve([Answer("no", status=400)] * 5 + [GOOD], engine={"budget": budget})

    for i in range(5):
        with pytest.raises(CallFailure, match="answered 400"):
            engine.ask(asking(f"q{i}", max_tokens=40))

    assert budget.spent_tokens == 0
    assert engine.ask(asking("last", max_tokens=40)).text == GOOD


def test_a_usd_budget_needs_a_price(serve, assert_message):
    _, engine = serve(engine={"budget": Budget(usd=1.0)})

    with pytest.raises(OptionError) as caught:
        engine.ask(asking())
    assert_message(caught.value, "budget: usd")


@pytest.mark.parametrize("options", [{"usd": -1}, {"tokens": -1}, {"usd": float("nan")}])
def test_bad_budgets(options, assert_message):
    with pytest.raises(OptionError) as caught:
        Budget(**options)
    assert_message(caught.value)


@settings(max_examples=30)
@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1)), max_size=30),
    st.integers(1, 8),
)
def test_never_over_whatever_the_order(limit, calls, workers):
    # Each call reserves its bound and uses a part of it; the sum never exceeds the limit
    budget = Budget(tokens=limit)

    async def call(bound, share, gate):
        async with gate:
            try:
                reservation = await budget.reserve(Reservation(bound, 0.0))
            except CallFailure:
                return 0
            await asyncio.sleep(0)
            used = int(bound * share)
            budget.settle(reservation, Usage(used, 0))
            return used

    async def main():
        gate = asyncio.Semaphore(workers)
        return sum(await asyncio.gather(*(call(*c, gate) for c in calls)))

    assert asyncio.run(main()) == budget.spent_tokens <= limit


def test_calls_that_wait_past_the_time_limit_are_refused_in_every_thread():
    # A running call has all tokens; when it ends, there is room for the others, but no time
    budget = Budget(tokens=100, minutes=0.5 / 60)
    running = asyncio.run(budget.reserve(Reservation(100, 0.0)))
    failures = []

    def wait():
        try:
            asyncio.run(budget.reserve(Reservation(20, 0.0)))
        except CallFailure as failure:
            failures.append(failure)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    while not budget.time_is_up:
        time.sleep(0.01)
    budget.settle(running, Usage(6, 4))
    for thread in threads:
        thread.join(60)

    assert [failure.cause for failure in failures] == [Cause.OVER_BUDGET] * 3
    assert {str(failure) for failure in failures} == {
        "over_budget: not sent: 0.00833333 minutes are over"
    }
    assert (budget.refused, budget.spent_tokens) == (3, 10)
