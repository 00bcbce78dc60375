"""The generate stage: which passages a generator gets, and what becomes of failures."""

from ragbench.experiment.calls import Calls, Outcome
from ragbench.experiment.stages.answers import recorded_answers
from ragbench.experiment.stages.passages import passages_of
from ragbench.generate.base import Generator, MissingPrediction
from ragbench.types import (
    Answered,
    Cause,
    Document,
    Prediction,
    Query,
    Retrieved,
    ScoredDocument,
    Usage,
)
from tests.outcomes import generate

CORPUS = {"a": Document("a", "text of a", "A"), "b": Document("b", "text of b")}
QUERIES = [Query("q1", "one?"), Query("q2", "two?"), Query("q3", "three?")]


def retrieved(*hits):
    return Outcome(Retrieved(list(hits)))


def test_passages_are_the_first_hits_with_text():
    hits = retrieved(
        ScoredDocument("b"),
        ScoredDocument("unknown"),
        ScoredDocument("chunk", text="its own", title="T"),
        ScoredDocument("a"),
    )
    failed = Outcome(None, Cause.TIMEOUT)

    first, none = (passages_of(outcome, CORPUS, 2) for outcome in (hits, failed))

    assert [(d.id, d.text) for d in first] == [("b", "text of b"), ("chunk", "its own")]
    assert none is None


class Echo(Generator):
    def generate(self, question, contexts):
        if question == "two?":
            raise RuntimeError("out of words")
        return f"{question} {len(contexts)}"


def test_answers_carry_their_passages_and_failures_their_cause(assert_message):
    contexts = [[CORPUS["a"]], []]

    first, second = generate(Echo(), QUERIES[:2], contexts, Calls("generator 'echo'"))

    assert first.value == Prediction("one? 1", [CORPUS["a"]])
    assert second.cause == Cause.ERROR
    assert_message(second.detail)


def test_a_missing_stored_answer_fails_by_a_cause_of_its_own():
    class Stored(Generator):
        def generate_for(self, query, contexts):
            if query.id == "q1":
                return Prediction("stored", [Document("own")])
            raise MissingPrediction(query.id)

    stored, missing, _ = generate(Stored(), QUERIES, [[], [], []], Calls("generator 'stored'"))

    assert stored.value.contexts == [Document("own")]
    assert missing.cause is Cause.MISSING_ANSWER
    assert missing.cause.failed, "or a file of easy answers would have the best mean"


def test_given_answers_follow_the_order_of_the_queries():
    rows = [Answered("q3", "three", [Document("c", "x")]), Answered("q1", None)]

    answers = recorded_answers("given", QUERIES, rows)

    assert [o.value.answer if o.value else o.cause for o in answers.outcomes] == [
        Cause.MISSING_ANSWER,
        Cause.MISSING_ANSWER,
        "three",
    ]


def test_a_generator_that_knows_its_latency_is_believed():
    # A stored reply takes no time to read, and took its time when it was paid for.
    class Stored(Generator):
        def generate(self, question, contexts):
            return Prediction("x", usage=Usage(1, 2, 0.5), latency_ms=1234.5)

    [outcome] = generate(Stored(), QUERIES[:1], [[CORPUS["a"]]], Calls("g"))

    assert outcome.latency_ms == 1234.5
    assert outcome.value == Prediction("x", [CORPUS["a"]], Usage(1, 2, 0.5), latency_ms=1234.5)
