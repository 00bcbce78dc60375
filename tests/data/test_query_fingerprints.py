"""Fingerprints of queries in files: read back as they were written, and strictly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.runs.run_lines import (
    fingerprint_queries,
    format_fingerprints,
    read_fingerprints,
)
from ragbench.errors import DataError
from ragbench.types import Collection, Qrels, Query

IDS = st.text('abé,"\n\udc80 ', min_size=1, max_size=4)
PRINTS = st.text("0123456789abcdef", min_size=12, max_size=12)


@settings(max_examples=15)
@given(
    st.dictionaries(
        st.sampled_from(["question", "judgements", "subtopics", "answers"]),
        st.dictionaries(IDS, PRINTS),
    )
)
def test_reads_back_what_was_written(tmp_path_factory, prints):
    path = tmp_path_factory.getbasetemp() / "fingerprints.csv"
    ids = sorted({query for fingerprints in prints.values() for query in fingerprints})

    path.write_bytes("".join(format_fingerprints(ids, prints)).encode("utf-8", "surrogateescape"))

    assert read_fingerprints(path) == prints


def test_one_changed_character_is_seen_and_the_order_of_answers_is_not():
    queries = [Query("q1", "Who?"), Query("q2", "Who?"), Query("q3", "Who ?")]
    answers = {"q1": ["a", "b"], "q2": ["b", "a"], "q3": ["ab"], "nobody asked": ["a"]}
    qrels = Qrels.from_dict({"q1": {"d": 1}, "nobody asked": {"d": 1}})

    fingerprints = fingerprint_queries(queries, Collection(queries, answers=answers), qrels)

    who, again, other = fingerprints["question"].values()
    assert who == again != other
    assert (
        fingerprints["answers"]["q1"]
        == fingerprints["answers"]["q2"]
        != fingerprints["answers"]["q3"]
    )
    assert [*fingerprints["answers"]] == ["q1", "q2", "q3"]
    assert [*fingerprints["judgements"]] == ["q1"]


def test_a_run_folder_without_them_is_not_whole(tmp_path, assert_message):
    with pytest.raises(DataError) as caught:
        read_fingerprints(tmp_path / "fingerprints.csv")
    assert_message(caught.value, "TMP/fingerprints.csv")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "TMP/fingerprints.csv: columns"),
        ("query,question\n", "TMP/fingerprints.csv: columns"),
        ("query_id,questoin\n", "TMP/fingerprints.csv"),
        ("query_id,question,question\n", "TMP/fingerprints.csv"),
        ("query_id,question\nq1\n", "TMP/fingerprints.csv"),
        ('query_id,question\n"q1,12\n', "TMP/fingerprints.csv"),
    ],
)
def test_anything_else_is_refused(tmp_path, text, place, assert_message):
    path = tmp_path / "fingerprints.csv"
    path.write_text(text)

    with pytest.raises(DataError) as caught:
        read_fingerprints(path)
    assert_message(caught.value, place)
