"""Stored answers: keyed by query or by question, and what a file cannot say."""

import pytest

from ragbench.data.files.predictions import read_predictions, read_samples
from ragbench.errors import DataError
from ragbench.types import Answered, Document


def test_by_query_id_or_question(write):
    path = write(
        "p.jsonl",
        [
            {"query_id": 1, "question": "unread", "answer": "one", "contexts": []},
            {"query_id": None, "question": "Two?", "answer": None},
            {"query_id": "3", "answer": "", "contexts": [{"id": "d", "text": "t"}], "usage": {}},
        ],
    )

    assert read_predictions(path) == {
        "1": Answered("1", "one", []),
        "Two?": Answered("Two?"),
        "3": Answered("3", "", [Document("d", "t")]),
    }


def test_csv(write):
    path = write("p.csv", 'query_id,answer,contexts,system\na,one,"[""p""]",s\nb,,,s\n')

    answers = read_predictions(str(path))

    assert answers["a"].answer == "one"
    assert [document.text for document in answers["a"].contexts or ()] == ["p"]
    assert answers["b"] == Answered("b", "")


@pytest.mark.parametrize(
    "row",
    [
        {"query_id": "a", "answer": "y"},
        {"name": "b", "answer": "y"},
        {"query_id": "b", "response": "y"},
        {"query_id": "b", "answer": ["y"]},
        {"query_id": "b", "answer": "y", "system": "t"},
    ],
)
def test_bad_lines_are_named(write, problem, row, assert_message):
    path = write(
        "p.jsonl", [{"query_id": "a", "answer": "x", "system": "s"}, {"system": "s"} | row]
    )

    text = problem(lambda: read_predictions(path)).replace("system, ", "")

    assert_message(text, "p.jsonl:2")


@pytest.mark.parametrize(
    ("samples", "place"),
    [
        ((0, 0), "p.jsonl:2"),  # two answers with one number
        ((0, 2), "p.jsonl"),  # number 1 is missing
        ((0, "1.5"), "p.jsonl:2"),  # a number of a sample is an integer
        ((0, -1), "p.jsonl:2"),  # numbers begin at 0
        ((0, True), "p.jsonl:2"),  # True is an integer in Python
    ],
)
def test_wrong_numbers_of_samples_are_named(write, problem, samples, place, assert_message):
    path = write("p.jsonl", [{"query_id": "q", "sample": n, "answer": "a"} for n in samples])

    assert_message(problem(lambda: read_samples(path)), place)


def test_who_wants_one_answer_refuses_several(write, assert_message):
    path = write("p.jsonl", [{"query_id": "q", "sample": n, "answer": "a"} for n in (0, 1)])

    assert len(read_samples(path)) == 2
    with pytest.raises(DataError) as caught:
        read_predictions(path)
    assert_message(caught.value, "TMP/p.jsonl")
