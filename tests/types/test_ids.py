"""Ids compare by one rule at every door: numbers and their digits are equal."""

from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.data.loaders.python import collection_of
from ragbench.types.ids import id_text, whole_text
from tests.lazy import Lazy

pd = Lazy("pandas")

NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1)
# Spellings of one integer; a float holds all integers below 2**53.
SPELLINGS = (int, str, float, np.int64, np.float64)
LARGE = 2**53


@st.composite
def spelled_judgements(draw):
    """Return a ranking and grades as text, and both again with ids in other spellings."""
    numbers = draw(st.lists(NUMBERS, min_size=2, max_size=6, unique=True))
    relevant = draw(st.lists(st.sampled_from(numbers), min_size=1, unique=True))
    spelling = st.sampled_from(SPELLINGS)
    ranking = [draw(spelling)(number) for number in numbers]
    judged = {draw(spelling)(number): 1 for number in relevant}
    return [*map(str, numbers)], dict.fromkeys(map(str, relevant), 1), ranking, judged


@settings(max_examples=20, deadline=None)
@given(spelled_judgements())
def test_each_door_compares_numbers_and_texts_alike(case):
    texts, grades, ranking, judged = case
    expected = rb.ndcg(texts, grades, k=10)
    scored = dict(zip(ranking, range(len(ranking), 0, -1), strict=True))
    frame = pd.DataFrame({"query_id": 1, "doc_id": pd.Series(ranking, dtype=object)})
    frame["score"] = [*scored.values()]
    row = {"question": "q", "retrieved": ranking, "relevant": [*judged]}

    assert rb.ndcg(ranking, judged, k=10) == expected
    assert rb.ndcg(ranking, {*judged}, k=10) == expected
    for run in ({1: ranking}, {"1": scored}, frame):
        for qrels in ({1.0: judged}, {"1": [*judged]}):
            values = rb.evaluate_run(run, qrels, ["ndcg@10"]).per_query["ndcg@10"]
            assert values == {"1": pytest.approx(expected)}
    assert rb.evaluate([row], ["ndcg@10"]).mean["ndcg@10"] == pytest.approx(expected)
    rows = pd.DataFrame([row, {**row, "question": "p"}])
    assert rb.evaluate(rows, ["ndcg@10"]).mean["ndcg@10"] == pytest.approx(expected)


@pytest.mark.parametrize("value", [b"d1", True, np.True_, 0.5, float("inf"), 2.0**53, Decimal(1)])
def test_each_door_refuses_values_that_are_no_ids(value):
    with pytest.raises(rb.RagbenchError):
        rb.ndcg(["d1", value], {"d1": 1})
    with pytest.raises(rb.RagbenchError):
        rb.ndcg(["d1"], {value: 1})
    with pytest.raises(rb.DataError):
        rb.evaluate_run({"q": [value]}, {"q": ["d1"]}, ["mrr"])
    with pytest.raises(rb.DataError):
        rb.evaluate_run({"q": {value: 1.0}}, {"q": ["d1"]}, ["mrr"])
    with pytest.raises(rb.DataError):
        rb.evaluate_run({"q": ["d1"]}, {"q": {value: 1}}, ["mrr"])
    with pytest.raises(rb.DataError):
        rb.evaluate([{"question": "q", "retrieved": [value], "relevant": ["d1"]}])
    with pytest.raises(rb.DataError):
        rb.evaluate([{"question": "q", "retrieved": ["d1"], "relevant": [value]}])


def test_a_float_beside_a_missing_cell_may_have_lost_digits():
    # The gold 1234567890123456789 would be 1234567890123456768 in the column of floats
    number = 1234567890123456789
    rows = {"question": ["q a", "q b"], "retrieved": [[number], [5]], "relevant": [number, None]}

    values = rb.evaluate(pd.DataFrame(rows, dtype=object), ["mrr"]).mean

    assert values == {"mrr": 1.0}
    with pytest.raises(rb.DataError, match=r"2\*\*53"):
        rb.evaluate(pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("value", "text"),
    [(7.0, "7"), (np.int32(-3), "-3"), ("7.0", "7.0"), (2**63, "9223372036854775808")],
)
def test_numbers_become_digits_and_texts_stay(value, text):
    assert id_text(value) == text


def test_a_uuid_is_its_text():
    assert id_text(UUID(int=0)) == "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("text", ["9007199254740992.0", "1.23456789012346E+18", "1e+17"])
def test_texts_of_floats_that_lost_digits_are_refused(text):
    with pytest.raises(ValueError, match="lost digits"):
        whole_text(text)


@pytest.mark.parametrize("text", ["007.0", "7.5", "v7.0", "5e10", "1.0.0", "-", ""])
def test_other_texts_stay(text):
    assert whole_text(text) == text


def test_the_parts_of_a_data_set_and_spans_compare_alike():
    # Keys of judgements and answers, and documents of spans, may be numbers
    parts = {
        "queries": [{"id": 1, "text": "Where?"}],
        "documents": [{"id": 7, "text": "Here."}],
        "qrels": {1.0: {"7": 1}},
        "answers": {1: ["Here."]},
        "expected_tool_calls": {"1": []},
    }
    collection = collection_of(parts)
    place = {"start": 0, "end": 4}
    row = {"question": "Where?", "reference_spans": [{"document": 7.0, **place}]}
    of_row = collection_of([row], documents=[{"id": "7", "text": "Here."}])

    assert collection.qrels.to_dict() == {"1": {"7": 1}}
    assert collection.answers == {"1": ["Here."]}
    assert [span.document for spans in of_row.gold_spans.values() for span in spans] == ["7"]
    assert rb.span_recall([{"document": 7, **place}], [{"document": "7", **place}]) == 1.0


def test_two_spellings_of_one_id_are_a_contradiction():
    with pytest.raises(rb.DataError, match="'7'"):
        rb.evaluate_run({"q": {7: 1.0, "7": 2.0}}, {"q": ["7"]}, ["mrr"])
    with pytest.raises(rb.DataError, match="'7'"):
        rb.ndcg(["7"], {7: 1, "7": 2})
