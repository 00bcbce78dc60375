"""`type: openai` against a real server on loopback."""

import pytest

from ragbench.errors import OptionError
from ragbench.experiment.calls import Calls
from ragbench.generate.chat import OpenAIGenerator
from ragbench.llm import Replies
from ragbench.types import Cause, Document, Query
from tests.chat_server import FAULTS, Answer, ChatServer
from tests.outcomes import generate

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

PASSAGES = [Document("io", "It has volcanoes.", "Io"), Document("b", "Europa has an ocean.")]


@pytest.fixture(autouse=True)
def quick_backoff(monkeypatch):
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


def test_a_question_is_asked_with_its_passages():
    with ChatServer(" Io. ") as server:
        generator = OpenAIGenerator(
            model="gpt-4o-mini",
            base_url=server.url,
            system="Be brief.",
            max_tokens=50,
            seed=7,
            stop=["\n\n"],
        )
        prediction = generator.generate("Which moon?", PASSAGES)
        generator.close()

    [received] = server.received
    assert received.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": "[1] Io: It has volcanoes.\n\n[2] Europa has an ocean.\n\n"
            "Question: Which moon?",
        },
    ]
    sent = {key: received.body[key] for key in ("temperature", "seed", "stop")}
    assert sent == {"temperature": 0, "seed": 7, "stop": ["\n\n"]}
    assert 50 in (received.body.get("max_tokens"), received.body.get("max_completion_tokens"))
    assert (prediction.answer, prediction.contexts) == ("Io.", PASSAGES)
    usage = prediction.usage
    assert usage.usd == pytest.approx((usage.input_tokens * 0.15 + usage.output_tokens * 0.6) / 1e6)
    assert prediction.latency_ms > 0


def test_nothing_is_paid_twice(tmp_path):
    # A second generator reads the first one's replies, with their tokens, cost and latency
    with ChatServer("Io.") as server:
        answers = []
        for _ in range(2):
            generator = OpenAIGenerator(model="gpt-4o-mini", base_url=server.url)
            with Replies(tmp_path / "replies.sqlite") as replies:
                generator.keep_replies(replies)
                generator.check()
                answers.append(generator.generate("Which moon?", PASSAGES))
                totals = generator.totals()
                generator.close()

    assert server.counters.requests == 1
    assert answers[0] == answers[1]
    assert (totals.calls, totals.stored) == (0, 1)


def test_the_passages_are_those_that_fit():
    with ChatServer("Io.") as server:
        generator = OpenAIGenerator(model="m", base_url=server.url, context_tokens=8)
        prediction = generator.generate("Which?", PASSAGES)
        generator.close()

    # "Io It has volcanoes." is 20 characters, 5 tokens; "Europa has" is 10, 3 tokens
    assert [document.text for document in prediction.contexts] == [
        "It has volcanoes.",
        "Europa has",
    ]
    assert "ocean" not in server.received[0].body["messages"][1]["content"]


def run(script, n=1, **options):
    with ChatServer(script) as server:
        generator = OpenAIGenerator(model="m", base_url=server.url, **options)
        queries = [Query(f"q{i}", f"question {i}") for i in range(n)]
        calls = Calls("generator 'gpt'", None, options.get("concurrency", 16))
        outcomes = generate(generator, queries, [PASSAGES] * n, calls)
        generator.close()
    return outcomes, server


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (FAULTS["refusal"]("x"), Cause.REFUSED),
        (Answer("", finish_reason="content_filter"), Cause.REFUSED),
        (FAULTS["server_error"]("x"), Cause.SERVER_ERROR),
        (FAULTS["no_choices"]("x"), Cause.UNREADABLE),
        (Answer(body=b"<html>"), Cause.SERVER_ERROR),
        (FAULTS["slow"]("x"), Cause.TIMEOUT),
    ],
)
def test_what_goes_wrong_fails_by_its_cause(answer, cause):
    [outcome], _ = run(answer, retries=1, timeout=0.4 if cause is Cause.TIMEOUT else 60.0)

    assert (outcome.value, outcome.cause) == (None, cause)
    assert outcome.detail.startswith("generator 'gpt': ")


def test_as_many_are_asked_at_once_as_the_limit_allows():
    outcomes, server = run(Answer("ok", delay_s=0.3), n=8, concurrency=4)

    assert [outcome.value.answer for outcome in outcomes] == ["ok"] * 8
    assert server.counters.peak_in_flight == 4


def test_it_is_an_asking_generator(monkeypatch, assert_message):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    generator = OpenAIGenerator(model="m")

    assert generator.asks
    assert generator.missing_key == "OPENAI_API_KEY"
    with pytest.raises(OptionError) as caught:
        generator.check()
    assert_message(caught.value, "openai: api_key_env")


def test_what_an_answer_depends_on():
    def parts(**options):
        return dict(OpenAIGenerator(model="m", **options).signature_parts())

    plain = parts()
    for options in ({"system": "x"}, {"temperature": 1.0}, {"stop": ["a"]}, {"context_tokens": 9}):
        assert parts(**options) != plain
    assert parts(concurrency=3, timeout=9.0) == plain
