"""Answers of thousands of sentences, and judges whose replies end at a token limit."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.testing import Answer, ChatServer

SENTENCE = "Tower {} is {} metres high."


def instance(schema, texts):
    """Return a value of a schema, with the next text of an iterator for each string."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {key: instance(part, texts) for key, part in schema["properties"].items()}
    if schema["type"] == "array":
        return [instance(schema["items"], texts)]
    return 1 if schema["type"] == "integer" else next(texts)


class Limited:
    """Judge that supports all claims, with replies of at most `most` characters."""

    def __init__(self, most=10**9):
        self.most, self.keys = most, []

    def __call__(self, body):
        schema = body["response_format"]["json_schema"]["schema"]
        self.keys.append(len(schema["properties"]))
        number = len(self.keys)
        text = json.dumps(instance(schema, (f"Claim {number}, {n}." for n in range(10**6))))
        is_cut = len(text) > self.most
        return Answer(text[: self.most], finish_reason="length" if is_cut else "stop")


def judged(reply, n, rubric="faithfulness", mark=""):
    answer = " ".join(SENTENCE.format(i, 100 + i).replace(".", f"{mark}.") for i in range(n))
    row = {"question": "How high?", "answer": answer, "contexts": ["Tower 1 is 101 metres high."]}
    with (
        ChatServer(reply) as server,
        rb.Judge("m", [rubric], base_url=server.url, retries=0) as judge,
    ):
        return judge.score(**row)[rubric]


@pytest.mark.parametrize(
    ("n", "requests"), [(1, [1, 1]), (50, [50, 50]), (51, [50, 1] * 2), (200, [50] * 8)]
)
def test_a_request_has_at_most_50_sentences_or_claims(n, requests):
    judge = Limited()

    verdict = judged(judge, n)

    assert (verdict.score, len(verdict.claims)) == (1.0, n)
    assert sorted(judge.keys) == sorted(requests)


def test_sentences_with_citations_too():
    judge = Limited()

    assert judged(judge, 120, "support_precision", mark=" [1]").score == 1.0
    assert sorted(judge.keys) == [20, 50, 50]


@settings(max_examples=7, deadline=None)
@given(n=st.integers(1, 70), most=st.integers(150, 6_000))
def test_a_reply_that_ended_at_its_limit_is_halved_and_not_repeated(n, most):
    # 150 characters hold the ruling on one claim
    judge = Limited(most)

    verdict = judged(judge, n)

    assert (verdict.score, len(verdict.claims)) == (1.0, n)
    # each request is either the whole of a part or a half of one before
    assert len(judge.keys) <= 4 * n


def test_a_reply_on_one_sentence_that_ends_at_its_limit_names_the_option():
    judge = Limited(20)

    verdict = judged(judge, 50)

    assert (verdict.score, verdict.cause) == (None, "unreadable")
    assert "raise max_tokens" in verdict.reasoning
    assert judge.keys == [50, 25, 12, 6, 3, 1, 1]  # one sentence is asked twice


@pytest.mark.costly
def test_an_answer_of_20_000_tokens_is_scored():
    judge = Limited()

    verdict = judged(judge, 2_500)

    assert (verdict.score, len(verdict.claims)) == (1.0, 2_500)
    assert len(judge.keys) == 100


@pytest.mark.costly
def test_memory_is_in_proportion_to_the_sentences():
    # 6 KB a sentence: what grows with their square, as prompts that all stayed do, has little room
    judged(Limited(), 1)  # what it imports is not counted

    tracemalloc.start()
    judged(Limited(), 800)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 800 * 8 * 1024
