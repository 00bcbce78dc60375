"""Files of nuggets: the forms of TREC RAG, and mistakes named with their line."""

import json

import pytest

from ragbench.data.files.judgements import read_nuggets
from ragbench.errors import DataError
from ragbench.types.records import Nugget

VITAL = {"text": "it opened in 1932", "importance": "vital"}
OKAY = {"text": "it is red", "importance": "okay"}


def written(tmp_path, *lines):
    path = tmp_path / "nuggets.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_what_autonuggetizer_writes(tmp_path):
    path = written(
        tmp_path,
        {"query": "When?", "qid": "2024-1", "nuggets": [VITAL, OKAY]},
        {"query_id": 7, "nuggets": []},
    )
    assert read_nuggets(path) == {
        "2024-1": (Nugget("it opened in 1932", "vital"), Nugget("it is red", "okay")),
        "7": (),
    }


def test_assignments_of_several_answers_are_of_the_same_nuggets(tmp_path):
    one = {"qid": "q", "run_id": "a", "nuggets": [{**VITAL, "assignment": "support"}]}
    two = {"qid": "q", "run_id": "b", "nuggets": [{**VITAL, "assignment": "not_support"}]}
    assert read_nuggets(written(tmp_path, one, two))["q"][0].assignment == "support"

    two["nuggets"][0]["text"] = "it opened in 1923"
    with pytest.raises(DataError, match=r"nuggets.jsonl:2: query 'q' has other nuggets"):
        read_nuggets(written(tmp_path, one, two))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"nuggets": []}, r":1: no 'qid'"),
        ({"qid": "q"}, r":1: no 'nuggets'"),
        ({"qid": "q", "nuggets": {}}, r":1: nuggets: found an object; allowed: a list of objects"),
        ({"qid": "q", "nuggets": ["a"]}, r":1: nuggets.0: found text; allowed: an object"),
        ({"qid": "q", "nuggets": [VITAL, {"text": "a"}]}, r":1: nuggets.1: no 'importance'"),
        ({"qid": "q", "nuggets": [{**VITAL, "text": " "}]}, r":1: nugget '' is empty or repeated"),
        (
            {"qid": "q", "nuggets": [{**VITAL, "importance": "vitl"}]},
            r"nuggets.0.importance: found 'vitl'; did you mean 'vital'\? allowed: vital, okay",
        ),
        (
            {"qid": "q", "nuggets": [{**VITAL, "importance": None}]},
            "importance: found null; allowed: vital, okay",
        ),
        (
            {"qid": "q", "nuggets": [{**VITAL, "assignment": True}]},
            "assignment: found a truth value; allowed: support, partial_support, not_support",
        ),
        ({"qid": "q", "nuggets": [VITAL, VITAL]}, "nugget 'it opened in 1932' is empty or rep"),
    ],
)
def test_mistakes(tmp_path, line, message):
    with pytest.raises(DataError, match=message):
        read_nuggets(written(tmp_path, line))
