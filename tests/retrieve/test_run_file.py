"""`run_file`: rankings of another program."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files.trec_files import read_run
from ragbench.errors import DataError
from ragbench.retrieve import run_file
from ragbench.retrieve.run_file import RunFile
from ragbench.types import Query, Run
from ragbench.types.byte_ids import ByteIds, TextIds


def test_order_is_that_of_the_scores_and_missing_queries_are_known(tmp_path):
    path = tmp_path / "old.trec"
    path.write_text("q1 Q0 a 1 0.5 x\nq1 Q0 b 2 0.9 x\nq1 Q0 c 3 0.5 x\n")
    retriever = RunFile(path=str(path))  # as in Python, where a path may be text

    hits, none = retriever.retrieve([Query("q1", ""), Query("q2", "")], 2)

    assert [(hit.id, hit.score) for hit in hits] == [("b", 0.9), ("c", 0.5)]
    assert none == []
    assert retriever.query_ids == {"q1"}


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.dictionaries(
            st.sampled_from(["d1", "d10", "d2", "d\xfc", "a document with a long id"]),
            st.sampled_from([0.0, 1.0, 1.5, float("inf"), -float("inf")]),
        ),
    ),
    st.booleans(),
    st.integers(1, 4),
)
def test_columns_are_ordered_and_cut_as_lists_are(hits, from_file, top_k):
    run = Run.from_dict(hits)
    if from_file and len(run):
        documents = TextIds.of(ByteIds.of(list(run.documents)))
        run = Run(run.query_ids, run.starts, documents, run.scores)

    ordered = run.best_first().first(["c", "x", "a"], top_k)

    assert list(ordered.query_ids) == [query for query in "ca" if query in hits]
    for query, rows in ordered.to_dict().items():
        assert list(rows.items()) == run.ranking(query)[:top_k]


def test_what_is_not_kept_is_read_again(tmp_path, monkeypatch, assert_message):
    read = []
    monkeypatch.setattr(run_file, "read_run", lambda *args: read.append(args) or read_run(*args))
    files = []
    names = "abcdefghijklmnopqrst"
    for name in names:
        path = tmp_path / f"{name}.trec"
        path.write_text(f"q1 Q0 {name} 1 0.5 x\n")
        files.append(RunFile(path=path))

    documents = [file.recorded().documents[0] for file in (*files, *files)]

    assert documents == [*names, *names]
    assert len(read) == 20 + 40, "16 are kept, and those here come round too late"
    os.truncate(tmp_path / "a.trec", 0)
    with pytest.raises(DataError) as caught:
        files[0].recorded()
    assert_message(caught.value, "TMP/a.trec")
