"""Runs and qrels out of data frames, and what is said of frames that are neither."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.errors import DataError
from tests.lazy import Lazy

pa = Lazy("pyarrow")
pd = Lazy("pandas")
polars = Lazy("polars")

RUN = {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d9": 0.5}}
QRELS = {"q1": {"d2": 1, "d3": 0}, "q2": {"d9": 2}}
HITS = [(q, d, s) for q, hits in RUN.items() for d, s in hits.items()]
JUDGED = [(q, d, g) for q, hits in QRELS.items() for d, g in hits.items()]


def pandas_frame(rows, names):
    return pd.DataFrame(rows, columns=names)


def arrow_table(rows, names):
    columns = [[row[i] for row in rows] for i in range(len(names))]
    return pa.table(dict(zip(names, columns, strict=True)))


def polars_frame(rows, names):
    return polars.DataFrame(rows, schema=list(names), orient="row")


@pytest.mark.parametrize("make", [pandas_frame, arrow_table, polars_frame])
@pytest.mark.parametrize(
    ("run_names", "qrels_names"),
    [
        (("query_id", "doc_id", "score"), ("query_id", "doc_id", "relevance")),
        (("qid", "docno", "score"), ("qid", "docno", "label")),
        (("query-id", "corpus-id", "score"), ("query-id", "corpus-id", "score")),
    ],
)
def test_frames_give_what_dicts_give(make, run_names, qrels_names):
    run, qrels = make(HITS, run_names), make(JUDGED, qrels_names)

    result = rb.evaluate_run(run, qrels, ["ndcg@10", "mrr"])

    assert result.to_dict() == rb.evaluate_run(RUN, QRELS, ["ndcg@10", "mrr"]).to_dict()


def test_a_repeated_hit_counts_once_at_its_best_score():
    run = rb.Run.from_frame(
        pandas_frame([*HITS, ("q1", "d2", 9.0), ("q1", "d1", 1.0)], ["qid", "docid", "score"])
    )

    assert run.to_dict()["q1"] == {"d1": 2.0, "d2": 9.0}
    assert run.duplicates == {"q1": 2}


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        (HITS, ("query_id", "document", "score"), r"no column query_id|no column doc_id"),
        ([("q1", "d1", float("nan"))], ("qid", "docno", "score"), "d1"),
        ([("q1", "d1", float("nan")), ("q1", "d1", 1.0)], ("qid", "docno", "score"), "d1"),
        ([("q1", "d1", 1.0), ("q1", "d1", float("nan"))], ("qid", "docno", "score"), "d1"),
        ([(0.5, "d1", 1.0)], ("qid", "docno", "score"), "query id 0.5 is not text"),
    ],
)
def test_what_is_no_run_is_refused(rows, names, message):
    with pytest.raises(rb.DataError, match=message):
        rb.Run.from_frame(pandas_frame(rows, names))


@pytest.mark.parametrize("scores", [(1.0, None), (None, 1.0), (None, None), (2.0, "x"), ("x", 2.0)])
def test_a_repeated_hit_of_which_one_has_no_score_is_refused(scores, assert_message):
    # a column of objects keeps None, which is NaN in one of numbers
    column = pd.Series(scores, dtype=object)
    frame = pd.DataFrame({"qid": ["q1", "q1"], "docno": ["d1", "d1"], "score": column})

    with pytest.raises(rb.DataError) as error:
        rb.Run.from_frame(frame)
    assert_message(error.value)


def test_a_pair_with_two_grades_is_refused(assert_message):
    with pytest.raises(rb.DataError) as error:
        rb.Qrels.from_frame(
            pandas_frame([("q1", "d1", 1), ("q1", "d1", 2)], ["qid", "docno", "label"])
        )
    assert_message(error.value)


def test_a_grade_that_is_missing_is_refused_as_such(assert_message):
    with pytest.raises(rb.DataError) as error:
        rb.Qrels.from_frame(pandas_frame([("q1", "d1", float("nan"))], ["qid", "docno", "label"]))
    assert_message(error.value)


@settings(max_examples=25)
@given(numbers=st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=3))
def test_whole_floats_are_read_as_the_integers_that_they_were(numbers):
    # Pandas stores integers as floats where a cell of the column is empty.
    frame = pd.DataFrame(
        {
            "question": [f"Q{row}" for row in range(len(numbers) + 1)],
            "answer": pd.Series([*numbers, None], dtype="float64"),
            "reference": [*map(str, numbers), "x"],
        }
    )

    with pytest.warns(UserWarning, match="1 missing_answer"):
        scores = rb.evaluate(frame, metrics=["exact_match"]).per_query["exact_match"].values()

    assert [*scores][:-1] == [1.0] * len(numbers)


def test_other_floats_are_refused_with_the_text_to_write(assert_message):
    frame = pd.DataFrame({"question": ["When?"], "answer": [7.5], "reference": ["7.5"]})

    with pytest.raises(DataError) as error:
        rb.evaluate(frame, metrics=["exact_match"])
    assert_message(error.value)
