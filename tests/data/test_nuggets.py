"""Files of nuggets: the forms of TREC RAG, and mistakes named with their line."""

import json

import pytest

from ragbench.data.files.judgements import read_nuggets
from ragbench.errors import DataError
from ragbench.types.records import Nugget

VITAL = {"text": "it opened in 1932", "importance": "vital"}
OKAY = {"text": "it is red", "importance": "okay"}


def write_nuggets(tmp_path, *lines):
    path = tmp_path / "nuggets.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_what_autonuggetizer_writes(tmp_path):
    path = write_nuggets(
        tmp_path,
        {"query": "When?", "qid": "2024-1", "nuggets": [VITAL, OKAY]},
        {"query_id": 7, "nuggets": []},
    )
    assert read_nuggets(path) == {
        "2024-1": (Nugget("it opened in 1932", "vital"), Nugget("it is red", "okay")),
        "7": (),
    }


def test_assignments_of_several_answers_are_of_the_same_nuggets(tmp_path, assert_message):
    one = {"qid": "q", "run_id": "a", "nuggets": [{**VITAL, "assignment": "support"}]}
    two = {"qid": "q", "run_id": "b", "nuggets": [{**VITAL, "assignment": "not_support"}]}
    assert read_nuggets(write_nuggets(tmp_path, one, two))["q"][0].assignment == "support"

    two["nuggets"][0]["text"] = "it opened in 1923"
    with pytest.raises(DataError) as caught:
        read_nuggets(write_nuggets(tmp_path, one, two))
    assert_message(caught.value, "TMP/nuggets.jsonl:2")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ({"nuggets": []}, "TMP/nuggets.jsonl:1"),  # no query
        ({"qid": "q"}, "TMP/nuggets.jsonl:1"),
        ({"qid": "q", "nuggets": {}}, "TMP/nuggets.jsonl:1: nuggets"),
        # a text alone has no importance
        ({"qid": "q", "nuggets": ["a"]}, "TMP/nuggets.jsonl:1: nuggets.0"),
        # the second nugget has no importance
        ({"qid": "q", "nuggets": [VITAL, {"text": "a"}]}, "TMP/nuggets.jsonl:1: nuggets.1"),
        ({"qid": "q", "nuggets": [{**VITAL, "text": " "}]}, "TMP/nuggets.jsonl:1"),
        (
            {"qid": "q", "nuggets": [{**VITAL, "importance": "vitl"}]},
            "TMP/nuggets.jsonl:1: nuggets.0.importance",
        ),
        (
            {"qid": "q", "nuggets": [{**VITAL, "importance": None}]},
            "TMP/nuggets.jsonl:1: nuggets.0.importance",
        ),
        (
            {"qid": "q", "nuggets": [{**VITAL, "assignment": True}]},
            "TMP/nuggets.jsonl:1: nuggets.0.assignment",
        ),
        ({"qid": "q", "nuggets": [VITAL, VITAL]}, "TMP/nuggets.jsonl:1"),  # the same nugget twice
    ],
)
def test_mistakes(tmp_path, line, place, assert_message):
    with pytest.raises(DataError) as caught:
        read_nuggets(write_nuggets(tmp_path, line))
    assert_message(caught.value, place)
