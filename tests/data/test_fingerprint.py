"""Fingerprints: equal for equal content, whatever its order; different for any change."""

from dataclasses import replace

import pytest

from ragbench.data.loaders.base import fingerprint_collection
from ragbench.types import Answered, Collection, Document, Qrels, Query

WHOLE = Collection(
    queries=[Query("q1", "one", {"topic": 1}), Query("q2", "two")],
    documents=[Document("d1", "text", "title", {"a": 1, "b": 2}), Document("d2")],
    qrels=Qrels.from_dict({"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 2}}),
    answers={"q1": ["x", "y"], "q2": ["z"]},
    recorded_answers={"s": [Answered("q1", "x", [Document("d1", "text")]), Answered("q2", "z")]},
)


def test_order_does_not_count():
    other = Collection(
        queries=[Query("q2", "two"), Query("q1", "one", {"topic": "1"})],
        documents=[Document("d2"), Document("d1", "text", "title", {"b": 2, "a": 1})],
        qrels=Qrels.from_dict({"q2": {"d1": 2}, "q1": {"d2": 0, "d1": 1}}),
        answers={"q2": ["z"], "q1": ["y", "x"]},
        recorded_answers={
            "s": [Answered("q2", "z"), Answered("q1", "x", [Document("d1", "text")])]
        },
        notes=["read otherwise"],
    )

    assert fingerprint_collection(other) == fingerprint_collection(WHOLE)


def test_absent_parts_have_none():
    assert set(fingerprint_collection(WHOLE)) == {"queries", "corpus", "qrels", "answers", "given"}
    assert set(fingerprint_collection(Collection([]))) == {"queries"}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("queries", {"queries": [Query("q1", "one!"), Query("q2", "two")]}),
        ("corpus", {"documents": [Document("d1", "text", "title", {"a": 1}), Document("d2")]}),
        (
            "corpus",
            {"documents": [Document("d1", "title", "text", {"a": 1, "b": 2}), Document("d2")]},
        ),
        (
            "corpus",  # the border between title and text counts
            {"documents": [Document("d1", "etext", "titl", {"a": 1, "b": 2}), Document("d2")]},
        ),
        ("qrels", {"qrels": Qrels.from_dict({"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 1}})}),
        ("answers", {"answers": {"q1": ["x"], "q2": ["y", "z"]}}),
        (
            "given",
            {
                "recorded_answers": {
                    "s": [Answered("q1", "x", [Document("d1", "text")]), Answered("q2", "")]
                }
            },
        ),
        (
            "given",
            {
                "recorded_answers": {
                    "s": [Answered("q1", "x", [Document("d1", "text")]), Answered("q2")]
                }
            },
        ),
        ("given", {"recorded_answers": {"s": [Answered("q1", "x", []), Answered("q2", "z")]}}),
        ("given", {"recorded_answers": {"t": WHOLE.recorded_answers["s"]}}),
    ],
)
def test_a_change_moves_its_part_alone(part, change):
    first, after = fingerprint_collection(WHOLE), fingerprint_collection(replace(WHOLE, **change))

    assert {name for name in first if first[name] != after[name]} == {part}


def test_missing_and_empty_are_told_apart():
    answers = [Answered("q"), Answered("q", ""), Answered("q", None, []), Answered("q", "none")]
    prints = {
        fingerprint_collection(Collection([], recorded_answers={"s": [a]}))["given"]
        for a in answers
    }

    assert len(prints) == 4
