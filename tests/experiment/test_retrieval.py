"""The retrieve stage: batches, batches that fail, and what becomes a run."""

import threading
import time

from ragbench.experiment.calls import Calls
from ragbench.experiment.stages import retrieval
from ragbench.experiment.stages.rankings import rank_outcomes
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.python import CallableRetriever
from ragbench.types import Cause, Document, Query
from tests.outcomes import retrieve

QUERIES = [Query(f"q{i}", f"question {i}") for i in range(70)]


class Batch(Retriever):
    """Answers in batches, and remembers them."""

    def __init__(self, refuses=(), wrong_length=False):
        self.sizes, self.refuses, self.wrong_length = [], refuses, wrong_length

    def retrieve(self, queries, top_k):
        self.sizes.append(len(queries))
        if any(query.id in self.refuses for query in queries):
            raise RuntimeError("index is gone")
        answers = [[query.id, "other"] for query in queries]
        return answers[:-1] if self.wrong_length and len(queries) > 1 else answers


def test_asks_in_blocks():
    retriever = Batch()

    outcomes = retrieve(retriever, QUERIES, 10, Calls("x"))

    # 70 queries in blocks of 32
    assert retriever.sizes == [32, 32, 6]
    assert [o.value.documents[0].id for o in outcomes] == [query.id for query in QUERIES]


def test_a_block_that_raises_is_asked_one_by_one():
    retriever = Batch(refuses={"q40"})

    outcomes = retrieve(retriever, QUERIES, 10, Calls("x"))

    assert [row for row, outcome in enumerate(outcomes) if outcome.value is None] == [40]
    assert outcomes[40].cause is Cause.ERROR
    # q40 is in the second block, whose 32 queries are asked again
    assert retriever.sizes == [32, 32, *[1] * 32, 6]


def test_a_batch_that_hangs_costs_one_timeout_a_block_and_one_a_query():
    over = threading.Event()

    class Hangs(Retriever):
        def retrieve(self, queries, top_k):
            over.wait(600)

    start = time.monotonic()
    # 0.1 s for the block and 0.1 s for each of its three queries
    outcomes = retrieve(Hangs(), QUERIES[:3], 10, Calls("x", 0.1))
    seconds = time.monotonic() - start
    over.set()

    assert [outcome.cause for outcome in outcomes] == [Cause.TIMEOUT] * 3
    assert seconds < 300, "half of what an answer would take"


def test_outcomes_are_told_block_by_block():
    batch = Batch()

    outcomes = retrieval.retrieve(batch, QUERIES, 10, Calls("x"))
    progress = [(position, len(batch.sizes)) for position, _ in outcomes]

    assert [position for position, _ in progress] == list(range(len(QUERIES)))
    # the outcomes of a block are there before the next block is asked
    assert [n_blocks for _, n_blocks in progress] == [1] * 32 + [2] * 32 + [3] * 6


def test_a_block_of_the_wrong_length_is_asked_one_by_one():
    outcomes = retrieve(Batch(wrong_length=True), QUERIES, 10, Calls("x"))

    assert all(outcome.value is not None for outcome in outcomes)


def test_no_query_of_a_block_is_asked_when_the_time_is_up():
    batch = Batch()
    calls = Calls("x", refused=lambda: "the time is up" if batch.sizes else None)

    outcomes = retrieve(batch, QUERIES, 10, calls)

    assert batch.sizes == [32]
    assert [o.cause for o in outcomes] == [Cause.SCORED] * 32 + [Cause.OVER_BUDGET] * 38


def test_an_answer_of_a_block_that_cannot_be_read_fails_alone(assert_message):
    def interrupted():
        yield "d1"
        raise OSError("connection lost")

    class Lazy(Retriever):
        def retrieve(self, queries, top_k):
            return [interrupted() if query.id == "q1" else ["d1"] for query in queries]

    outcomes = retrieve(Lazy(), QUERIES[:3], 10, Calls("x"))

    assert [outcome.cause for outcome in outcomes] == [Cause.SCORED, Cause.ERROR, Cause.SCORED]
    assert_message(outcomes[1].detail)


def test_a_plain_function_is_asked_each_question_once():
    questions = []

    def search(question, top_k):
        questions.append(question)
        if question == "question 3":
            raise TimeoutError
        return None if question == "question 5" else ["d1"]

    outcomes = retrieve(CallableRetriever(search), QUERIES[:8], 10, Calls("x"))

    assert questions == [query.text for query in QUERIES[:8]]
    assert {i: o.cause for i, o in enumerate(outcomes) if o.value is None} == {
        3: Cause.TIMEOUT,
        5: Cause.MALFORMED,
    }


def test_the_order_counts_where_scores_do_not_fall(assert_message):
    # scores rise along the list, and `a` is there twice: its first place counts
    retriever = CallableRetriever(lambda question, top_k: [("a", 0.1), ("b", 0.9), ("a", 0.5)])
    outcomes = retrieve(retriever, QUERIES[:2], 10, Calls("x"))

    ranked = rank_outcomes("mine", retriever, ["q0", "q1"], outcomes, [Document("a")])

    assert [id for id, _ in ranked.run.ranking("q0")] == ["a", "b"]
    assert_message(ranked.notes)
    unknown = "hits have ids that no document of the corpus has; measures of ids count them as "
    unknown += "unjudged; make the ids equal, or set id_field"
    assert ranked.warnings == [f"mine: 2 of 4 {unknown}"]
    elsewhere = rank_outcomes("mine", retriever, ["q0", "q1"], outcomes, [Document("z")])
    assert elsewhere.warnings == [f"mine: 4 of 4 {unknown}"]


def test_failed_and_missing_queries_are_not_in_the_run():
    class Partial(Batch):
        query_ids = frozenset({"q1", "q2"})

    retriever = Partial(refuses={"q2"})
    outcomes = retrieve(retriever, QUERIES[:3], 10, Calls("x"))

    assert rank_outcomes("x", retriever, ["q0", "q1", "q2"], outcomes, None).run.query_ids == (
        "q1",
    )
