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
    ids = sorted({query for each in prints.values() for query in each})

    path.write_bytes("".join(format_fingerprints(ids, prints)).encode("utf-8", "surrogateescape"))

    assert read_fingerprints(path) == prints


def test_one_changed_character_is_seen_and_the_order_of_answers_is_not():
    queries = [Query("q1", "Who?"), Query("q2", "Who?"), Query("q3", "Who ?")]
    answers = {"q1": ["a", "b"], "q2": ["b", "a"], "q3": ["ab"], "nobody asked": ["a"]}
    qrels = Qrels.from_dict({"q1": {"d": 1}, "nobody asked": {"d": 1}})

    found = fingerprint_queries(queries, Collection(queries, answers=answers), qrels)

    who, again, other = found["question"].values()
    assert who == again != other
    assert found["answers"]["q1"] == found["answers"]["q2"] != found["answers"]["q3"]
    assert [*found["answers"]] == ["q1", "q2", "q3"]
    assert [*found["judgements"]] == ["q1"]


def test_a_run_folder_without_them_is_not_whole(tmp_path):
    with pytest.raises(DataError, match=r"fingerprints\.csv: no such file; allowed: a whole run"):
        read_fingerprints(tmp_path / "fingerprints.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns: ; allowed: query_id first"),
        ("query,question\n", "columns: query, question; allowed: query_id first"),
        ("query_id,questoin\n", "with the parts questoin; allowed: .* each part once"),
        ("query_id,question,question\n", "with the parts question, question; allowed: "),
        ("query_id,question\nq1\n", "cells of query 'q1'; allowed: a cell for each part"),
        ('query_id,question\n"q1,12\n', "not CSV: unexpected end of data"),
    ],
)
def test_anything_else_is_refused(tmp_path, text, message):
    path = tmp_path / "fingerprints.csv"
    path.write_text(text)

    with pytest.raises(DataError, match=message):
        read_fingerprints(path)
