"""The judge on a server: every way to fail, where replies are kept, loops, ready clients."""

import asyncio
import sys
import time

import pytest

from ragbench.errors import DataError, MissingExtra, OptionError
from ragbench.llm import Prices
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.judge import Judge, load_rubrics, make_judge
from tests.chat_server import ChatServer
from tests.chat_server.answers import FAULTS, Answer
from tests.lazy import Lazy
from tests.score.judge.judging import judge_items
from tests.score.judge.scripted import Script

openai = Lazy("openai")

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

ROW = {
    "question": "When did it open?",
    "answer": "It opened in 1932.",
    "contexts": ["The bridge opened in 1932."],
    "reference": "In 1932.",
}
RUBRIC = ["answer_relevancy"]
GOOD = '{"reasoning": "it says when", "level": 4}'


def faulty(kind):
    return lambda body, times_asked: FAULTS[kind](GOOD)


@pytest.mark.parametrize(
    ("script", "cause", "raw"),
    [
        pytest.param(faulty("refusal"), "refused", "I cannot help with that.", id="refusal"),
        pytest.param(
            lambda b, n: Answer("", finish_reason="content_filter"), "refused", "", id="filter"
        ),
        pytest.param(faulty("truncated_json"), "unreadable", GOOD[:10], id="truncated"),
        pytest.param(faulty("not_a_number"), "unreadable", "NaN", id="NaN"),
        pytest.param(faulty("number_word"), "unreadable", "four", id="number as a word"),
        pytest.param(lambda b, n: "It is great: 9 of 10!", "unreadable", "9 of 10", id="prose"),
        pytest.param(lambda b, n: '{"reasoning": "x", "level": 9}', "unreadable", "9", id="range"),
        pytest.param(lambda b, n: "", "unreadable", "", id="empty"),
        pytest.param(faulty("server_error"), "server_error", "", id="500"),
        pytest.param(faulty("hung_up"), "server_error", "", id="cut"),
        pytest.param(
            lambda b, n: Answer("too long", status=400), "server_error", "", id="400 is final"
        ),
        pytest.param(lambda b, n: Answer(GOOD, delay_s=9.0), "timeout", "", id="slow"),
    ],
)
def test_every_failure_is_a_verdict(judge_on, script, cause, raw):
    timeout = 0.4 if cause == "timeout" else 60
    _, judge = judge_on(script, rubrics=RUBRIC, timeout=timeout, retries=2)

    verdict = judge.score(**ROW)["answer_relevancy"]

    assert (verdict.score, verdict.level, verdict.status, verdict.cause) == (
        None,
        None,
        "failed",
        cause,
    )
    assert raw in verdict.raw
    assert verdict.reasoning


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "prose"])
def test_what_can_be_mended_is_a_score(judge_on, kind):
    def script(body, times_asked):
        return FAULTS[kind](GOOD) if times_asked == 0 or kind == "prose" else Answer(GOOD)

    _, judge = judge_on(script, rubrics=RUBRIC)

    assert judge.score(**ROW)["answer_relevancy"].score == 0.75


def test_one_bad_item_does_not_touch_the_others(judge_on):
    good = Script()

    def script(body, times_asked):
        return Answer("no", status=500) if "boom" in str(body["messages"]) else good(body, 0)

    _, judge = judge_on(script, rubrics=[*RUBRIC, "fluency"], retries=0)
    rows = [ROW | {"answer": "boom" if n % 3 == 0 else f"It opened in {n}."} for n in range(30)]

    results = judge.score_many(rows)

    for n, verdicts in enumerate(results):
        assert {v.cause for v in verdicts.values()} == {"server_error" if n % 3 == 0 else "scored"}


def test_without_a_key_nothing_starts(monkeypatch, assert_message):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OptionError) as caught:
        Judge("m", RUBRIC)
    assert_message(caught.value, "openai: api_key_env")


def test_without_the_package_the_extra_is_named(monkeypatch, assert_message):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra) as caught:
        Judge("m", RUBRIC, base_url="http://127.0.0.1:9/v1")
    assert_message(caught.value)


def test_replies_are_kept_only_where_a_file_is_named(judge_on, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server, judge = judge_on(rubrics=["faithfulness", "answer_relevancy"])
    once = judge.score(**ROW)
    assert judge.score(**ROW) == once
    assert server.counters.most_asked == 2
    assert list(tmp_path.iterdir()) == []

    for _ in range(2):
        with Judge("m", ["faithfulness"], base_url=server.url, replies="kept.sqlite") as keeping:
            assert keeping.score(**ROW)["faithfulness"] == once["faithfulness"]
    assert server.counters.most_asked == 3
    (tmp_path / "notes.txt").write_text("no store, but longer than a header of a store" * 9)
    with pytest.raises(DataError, match=r"notes\.txt"):
        Judge("m", RUBRIC, base_url=server.url, replies="notes.txt")


def test_a_closed_file_of_replies_refuses_requests_before_they_are_paid(
    judge_on, tmp_path, assert_message
):
    server, judge = judge_on(rubrics=["faithfulness"], replies=tmp_path / "replies.sqlite")
    verdict = judge.score(**ROW)["faithfulness"]
    judge.close()
    n_requests = server.counters.requests

    with pytest.raises(DataError) as caught:
        judge.score(**ROW | {"answer": "It closed in 1968."})
    assert_message(caught.value)

    assert judge.score(**ROW)["faithfulness"] == verdict
    assert server.counters.requests == n_requests


def test_inside_a_running_loop(judge_on):
    # In a notebook's cell both calls work, and many items are under way at once
    server, judge = judge_on(rubrics=RUBRIC, server={"latency_s": 0.1})
    rows = [ROW | {"answer": f"It opened in {n}."} for n in range(16)]

    async def cell():
        many = await judge.ascore_many(rows)
        return judge.score(**ROW), await judge.ascore(**ROW), many

    one, other, many = asyncio.run(cell())

    assert one == other
    assert [verdicts["answer_relevancy"].score for verdicts in many] == [0.75] * 16
    assert server.counters.peak_in_flight > 4


def test_cancelling_gives_up_what_is_under_way(judge_on):
    server, judge = judge_on(rubrics=RUBRIC, server={"latency_s": 600.0}, timeout=900)
    rows = [ROW | {"answer": f"It opened in {n}."} for n in range(8)]

    async def cell():
        task = asyncio.ensure_future(judge.ascore_many(rows))
        while not server.counters.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    start = time.monotonic()
    asyncio.run(cell())

    assert time.monotonic() - start < 300, "half of what an answer would take"


@pytest.mark.parametrize("kind", ["OpenAI", "AsyncOpenAI"])
def test_a_ready_client(kind):
    # The client's address, key and headers count; the judge does not close it
    with ChatServer(Script()) as server:
        client = getattr(openai, kind)(
            base_url=server.url, api_key="sk-mine-123456", default_headers={"x-team": "a"}
        )
        with Judge("m", RUBRIC, client=client) as judge:
            results = judge.score_many([ROW, ROW | {"answer": "In 1932."}])
        headers = server.received[0].headers

        assert [verdicts["answer_relevancy"].score for verdicts in results] == [0.75, 0.75]
        assert (headers["authorization"], headers["x-team"]) == ("Bearer sk-mine-123456", "a")
        assert not client.is_closed()
        if kind == "OpenAI":
            client.close()
        else:
            asyncio.run(client.close())


def test_a_client_of_another_kind(assert_message):
    with pytest.raises(OptionError) as caught:
        Judge("m", RUBRIC, client={})
    assert_message(caught.value, "langchain: model")


def test_few_shot_or_zero_shot(judge_on):
    server, judge = judge_on(rubrics=["fluency"], few_shot=False)
    judge.score(**ROW)
    assert "Example 1" not in server.received[0].body["messages"][0]["content"]

    server, judge = judge_on(rubrics=["fluency"])
    judge.score(**ROW)
    assert "Example 1" in server.received[0].body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("language", "language_name"),
    [("Deutsch", "Deutsch"), ("item", "the language of the judged texts")],
)
def test_a_language_adds_one_line_to_every_prompt(judge_on, language, language_name):
    rubrics = ["faithfulness", "fluency"]
    plain, judge = judge_on(rubrics=rubrics, concurrency=1)
    judge.score(**ROW)
    server, judge = judge_on(rubrics=rubrics, concurrency=1, language=language)
    judge.score(**ROW)

    line = (
        f"\n\nWord reasons, claims and facts in {language_name}; "
        "keep the keys and fixed values as given."
    )
    without, sent = (
        sorted(request.body["messages"][0]["content"] for request in one.received)
        for one in (plain, server)
    )
    assert [text + line for text in without] == sent
    assert len(sent) == 3


@pytest.mark.parametrize("language", ["", "German. Give 5.", "x" * 41, "de\nfr"])
def test_a_language_is_a_name(language, assert_message):
    with pytest.raises(OptionError) as caught:
        Judge("m", RUBRIC, language=language)
    assert_message(caught.value, "judge: language")


def test_what_is_sent(judge_on):
    server, judge = judge_on(
        rubrics=RUBRIC, temperature=0.3, max_tokens=200, seed=5, extra={"top_p": 0.9}
    )
    judge.score(**ROW)
    body = server.received[0].body

    sent = {key: body[key] for key in ("model", "temperature", "max_tokens", "seed", "top_p")}
    assert sent == {"model": "m", "temperature": 0.3, "max_tokens": 200, "seed": 5, "top_p": 0.9}
    assert body["response_format"]["json_schema"]["strict"]


def columns(url, *, rows=1, **options):
    judge = make_judge("openai", {"model": "m", "base_url": url, **options})
    rubrics = load_rubrics(["answer_relevancy", "faithfulness"], "openai", judge)
    items = [
        JudgedItem("When?", f"It opened in {n}.", ["It opened in 1932."], query_id=str(n))
        for n in range(rows)
    ]
    try:
        return judge_items(judge, items, rubrics, type_name="openai")
    finally:
        judge.close()


def test_the_signature_names_model_and_prompt_but_no_server():
    with ChatServer(Script(), model="m-2024-07-18") as server:
        judged = columns(server.url)
        signature = judged.columns["answer_relevancy"].signature
        parts = dict(signature.parts)

        assert judged.models == ("m-2024-07-18",)
        assert (parts["judge"], parts["model"]) == ("openai", "m-2024-07-18")
        assert (parts["temperature"], parts["repeat"], parts["weighted"]) == ("0.0", "1", "yes")
        assert "127.0.0.1" not in str(signature)
        assert signature == columns(server.url, concurrency=1).columns["answer_relevancy"].signature
        assert "language" not in parts
        changes = ({"temperature": 0.5}, {"few_shot": False}, {"seed": 1}, {"repeat": 2})
        for changed in (*changes, {"language": "item"}):
            other = columns(server.url, **changed).columns["answer_relevancy"].signature
            assert signature.differences(other), changed


def test_a_server_that_changes_its_model_is_named_with_both():
    class Changing(ChatServer):
        def answer_to(self, body):
            self.model = "m-1" if "opened in 0" in str(body["messages"]) else "m-2"
            return super().answer_to(body)

    with Changing(Script()) as server:
        judged = columns(server.url, rows=3)

    assert judged.models == ("m-1", "m-2")
    assert dict(judged.columns["answer_relevancy"].signature.parts)["model"] == "mixture(m-1+m-2)"
    assert {row.model for row in judged.rows} == {"m-1", "m-2", "m-1+m-2"}


def test_usage_adds_up_to_what_the_server_counted(judge_on, tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("models:\n  m: {input: 1.0, output: 10.0}\n", encoding="utf-8")
    _, judge = judge_on(
        rubrics=["faithfulness", "hallucination", "answer_relevancy"], prices=str(prices)
    )

    verdicts = judge.score(**ROW)

    totals = judge._judge.engine.totals
    spent = [verdict.usage for verdict in verdicts.values()]
    assert sum(usage.input_tokens for usage in spent) == totals.input_tokens
    assert sum(usage.usd for usage in spent) == pytest.approx(totals.cost_usd)
    assert totals.cost_usd == pytest.approx(
        (totals.input_tokens * 1.0 + totals.output_tokens * 10.0) / 1e6
    )
    assert Prices.load().of("m") is None


def test_nuggets_and_pairs(judge_on):
    # Two vital nuggets, one of them supported; A in both orders is a tie
    nuggets = (("opened in 1932", "vital"), ("it is red", "vital"), ("by the mayor", "okay"))
    script = Script(nuggets=nuggets, support=lambda n: "support" if n == 1 else "not_support")
    server, judge = judge_on(script, rubrics=["nugget_recall", "pairwise"])

    verdicts = judge.score(**ROW, other="I do not know.")

    assert verdicts["nugget_recall"].score == 0.5
    assert (verdicts["pairwise"].score, verdicts["pairwise"].level) == (0.5, 2.0)
    assert server.counters.requests == 2 + 2


@pytest.mark.parametrize(("winner", "score"), [("It opened", 1.0), ("I do not", 0.0)])
def test_a_pair_that_is_told_apart_in_both_orders(judge_on, winner, score):
    def outcome(text):
        first = text.split("<answer-A-")[1].splitlines()[1]
        return "A" if first.startswith(winner) else "B"

    _, judge = judge_on(Script(outcome=outcome), rubrics=["pairwise"])

    assert judge.score(**ROW, other="I do not know.")["pairwise"].score == score


@pytest.mark.parametrize("nuggets", [(), (("by the mayor", "okay"),)])
def test_without_a_vital_nugget_there_is_no_score(judge_on, nuggets):
    _, judge = judge_on(Script(nuggets=nuggets), rubrics=["nugget_recall"])

    assert judge.score(**ROW)["nugget_recall"].cause == "no_claims"


def test_texts_that_are_odd_are_sent_all_the_same(judge_on):
    _, judge = judge_on(rubrics=["answer_relevancy", "faithfulness"])

    odd = judge.score(**ROW | {"answer": "It \ud800 opened\0 <|im_start|> in 1932."})

    assert {verdict.status for verdict in odd.values()} == {"scored"}
