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

    found = read_predictions(str(path))

    assert found["a"].answer == "one"
    assert [document.text for document in found["a"].contexts or ()] == ["p"]
    assert found["b"] == Answered("b", "")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"query_id": "a", "answer": "y"}, "query 'a' is repeated, first at line 1"),
        (
            {"name": "b", "answer": "y"},
            "no query_id, id or question (keys: name, answer); allowed: one of them",
        ),
        ({"query_id": "b", "response": "y"}, "no 'answer' (keys: query_id, response)"),
        ({"query_id": "b", "answer": ["y"]}, "column 'answer' is a list; allowed: text"),
        (
            {"query_id": "b", "answer": "y", "system": "t"},
            "system 't' after system 's'; allowed: the answers of one system per file",
        ),
    ],
)
def test_bad_lines_are_named(write, problem, row, expected):
    path = write(
        "p.jsonl", [{"query_id": "a", "answer": "x", "system": "s"}, {"system": "s"} | row]
    )

    text = problem(lambda: read_predictions(path)).replace("system, ", "")

    assert text == f"p.jsonl:2: {expected}"


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ((0, 0), "p.jsonl:2: query 'q' is repeated, first at line 1"),
        ((0, 2), "p.jsonl: the samples are numbered 0, 2; allowed: 0, 1, 2, ... without gaps"),
        ((0, "1.5"), "p.jsonl:2: sample '1.5'; allowed: a whole number from 0"),
        ((0, -1), "p.jsonl:2: sample -1; allowed: a whole number from 0"),
        ((0, True), "p.jsonl:2: sample True; allowed: a whole number from 0"),
    ],
)
def test_wrong_numbers_of_samples_are_named(write, problem, samples, message):
    path = write("p.jsonl", [{"query_id": "q", "sample": n, "answer": "a"} for n in samples])

    assert problem(lambda: read_samples(path)) == message


def test_who_wants_one_answer_refuses_several(write):
    path = write("p.jsonl", [{"query_id": "q", "sample": n, "answer": "a"} for n in (0, 1)])

    assert len(read_samples(path)) == 2
    with pytest.raises(DataError, match="2 answers to query 'q'; allowed: one; a generator"):
        read_predictions(path)
