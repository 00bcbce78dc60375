"""The rules around the measures: who is scored, who is not and why, and what is counted."""

from typing import Annotated

import numpy as np
import pytest

from ragbench.errors import AdapterError, OptionError
from ragbench.records.codec import to_json
from ragbench.registry import Option
from ragbench.score.retrieval.base import measure
from ragbench.score.retrieval.score_run import score_run
from ragbench.types import Cause, Qrels, Run

QRELS = {
    "found": {"a": 1, "b": 0},
    "missing": {"a": 1},
    "irrelevant": {"a": 0},
    "both": {"a": 0},
    "unjudged": {},
}
RUN = {
    "found": {"x": 3.0, "a": 2.0},
    "irrelevant": {"a": 1.0},
    "unjudged": {"a": 1},
    "extra": {"a": 1},
}


def causes(column):
    return [Cause(code).word for code in column.causes]


@pytest.mark.parametrize(
    ("rules", "expected", "scored"),
    [
        ({}, [0.5, 0, "no_relevant", "no_relevant", "no_judgements"], 2),
        (
            {"missing": "skip"},
            [0.5, "missing_query", "no_relevant", "missing_query", "no_judgements"],
            1,
        ),
        ({"no_relevant": "zero"}, [0.5, 0, 0, 0, "no_judgements"], 4),
        (
            {"missing": "skip", "no_relevant": "zero"},
            [0.5, "missing_query", 0, "missing_query", "no_judgements"],
            2,
        ),
    ],
)  # fmt: skip
def test_rules(rules, expected, scored):
    result = score_run(RUN, QRELS, ["mrr"], **rules)
    (column,) = result.columns

    cells = [
        cause if np.isnan(value) else value
        for value, cause in zip(column.values, causes(column), strict=True)
    ]
    assert cells == expected
    assert result.counts.scored == scored == (column.causes == Cause.SCORED).sum()


def test_counts():
    counts = score_run(RUN, QRELS, ["mrr"]).counts

    assert to_json(counts) == {
        "queries": 5,
        "scored": 2,
        "missing": 2,
        "without_judgements": 2,
        "without_relevant": 2,
        "duplicates": 0,
        "judged_share": 2 / 4,
    }


def test_duplicates_are_counted():
    run = Run.from_rankings({"q": ["a", "b", "a", "a"]})

    assert score_run(run, {"q": {"a": 1}}, ["mrr"]).counts.duplicates == 2


def test_a_measure_without_relevance_scores_irrelevant_queries_and_no_empty_list():
    judged, counted = score_run(RUN, QRELS, ["judged@1", "num_ret"]).columns

    assert causes(judged)[:4] == ["scored", "empty_ranking", "scored", "empty_ranking"]
    assert counted.values[:4].tolist() == [2, 0, 1, 0]
    assert counted.aggregate == "sum"


def test_zero_is_the_floor_where_a_measure_has_one():
    (column,) = score_run({}, {"q": {"a": 0}}, ["gmap"], no_relevant="zero").columns

    assert np.exp(column.values) == pytest.approx([1e-5])


def test_columns_are_named_as_written_and_signed_by_meaning():
    ours, theirs = score_run(RUN, QRELS, ["ndcg_exp@10", "nDCG(dcg='exp-log2')@10"]).columns

    assert (ours.name, theirs.name) == ("ndcg_exp@10", "nDCG(dcg='exp-log2')@10")
    assert ours.signature == theirs.signature
    assert str(ours.signature).startswith(
        "ndcg@10|gain:exp|discount:log2|base:2|ties:docid|trec_eval:10|missing:zero|no_relevant:skip|qrels:"
    )


@pytest.mark.parametrize(
    "change",
    [{"missing": "skip"}, {"no_relevant": "zero"}, {"ties": "stable"}, {"trec_eval": 9}],
)
def test_every_rule_is_in_the_signature(change):
    first, after = (score_run(RUN, QRELS, ["map"], **r).columns[0] for r in ({}, change))

    ((part, _, changed_value),) = first.signature.differences(after.signature)
    assert {part: changed_value} == {name: str(value) for name, value in change.items()}


def test_qrels_are_in_the_signature_and_the_run_is_not():
    def signature(run, qrels):
        return score_run(run, qrels, ["map"]).columns[0].signature

    assert signature(RUN, QRELS) == signature({}, Qrels.from_dict(QRELS))
    assert signature(RUN, QRELS) != signature(RUN, QRELS | {"found": {"a": 2, "b": 0}})
    assert signature(RUN, QRELS) != signature(RUN, QRELS | {"new": {}})


def test_subtopics_are_in_the_signature_of_measures_that_read_them():
    def signatures(**documents):
        columns = score_run(RUN, {"found": documents}, ["alpha_ndcg@10", "map"]).columns
        return [str(column.signature) for column in columns]

    # each document is as relevant by either subtopic
    one, other = signatures(a={"x": 1}, b={"y": 1}), signatures(a={"x": 1}, b={"x": 1})
    assert one == signatures(b={"y": 1}, a={"x": 1})
    assert (one[0] != other[0], one[1] == other[1]) == (True, True)


def test_grades_as_floats_are_the_same_qrels():
    as_floats = {q: {d: float(g) for d, g in judged.items()} for q, judged in QRELS.items()}

    one, other = (score_run(RUN, qrels, ["map"]).columns[0] for qrels in (QRELS, as_floats))

    assert one.signature == other.signature


def test_largest_grade_is_in_the_signature_of_err():
    (column,) = score_run({"q": {"a": 1}}, {"q": {"a": 3}}, ["err"]).columns

    assert "|max:3|" in str(column.signature)


@pytest.mark.parametrize(
    "rules", [{"missing": "nan"}, {"no_relevant": "drop"}, {"ties": "random"}, {"trec_eval": 8}]
)
def test_rules_that_are_not_there(rules, assert_message):
    with pytest.raises(OptionError) as caught:
        score_run(RUN, QRELS, ["map"], **rules)
    assert_message(caught.value)


@measure("failing", range=(0.0, 1.0))
def failing(ranked, *, k=None):
    raise ZeroDivisionError("no documents")


def test_an_exception_of_a_measure_of_the_user_names_the_measure():
    message = r"measure 'python:.*:failing@5': ZeroDivisionError: no documents"
    with pytest.raises(AdapterError, match=message):
        score_run(RUN, QRELS, [f"python:{__name__}:failing@5"])


@measure("shaped", range=(0.0, 1.0))
def shaped(ranked, *, case: Annotated[str, Option("Kind of value.")] = "scalar"):
    n = ranked.n_queries
    return {
        "long": np.zeros(n + 1),
        "column": np.zeros((n, 1)),
        "scalar": 0.5,
        "mapping": {"q1": 1},
        "text": ["1"] * n,
        "ragged": [[1], [1, 2]],
        "complex": np.full(n, 1j),
        "objects": [{}] * n,
        "outside": np.full(n, 7.0),
        "infinite": np.full(n, np.inf),
        "numbers": [1, *[None] * (n - 1)],
    }[case]


@pytest.mark.parametrize(
    ("case", "shown_value"),
    [
        ("long", r"an array of float64 with shape \(3,\)"),
        ("column", r"an array of float64 with shape \(2, 1\)"),
        ("scalar", "0.5"),
        ("mapping", "{'q1': 1}"),
        ("text", r"\['1', '1'\]"),
        ("ragged", r"\[\[1\], \[1, 2\]\]"),
        ("complex", r"an array of complex128 with shape \(2,\)"),
        ("objects", r"\[{}, {}\]"),
    ],
)
def test_a_measure_of_the_user_returns_one_number_per_query(case, shown_value):
    name = f"python:{__name__}:shaped(case={case})"
    message = (
        rf"measure '.*shaped\(case={case}\)': found {shown_value}, allowed: one number per query"
    )
    with pytest.raises(AdapterError, match=message):
        score_run(RUN, {"q1": {"a": 1}, "q2": {"b": 1}}, [name])


@pytest.mark.parametrize(("case", "shown_value"), [("outside", "7"), ("infinite", "inf")])
def test_a_measure_of_the_user_stays_in_its_range(case, shown_value):
    message = rf"measure '.*': found {shown_value}, allowed: finite numbers from 0 to 1"
    with pytest.raises(AdapterError, match=message):
        score_run(RUN, QRELS, [f"python:{__name__}:shaped(case={case})"])


def test_a_measure_of_the_user_may_return_a_list_with_none_for_no_value():
    (column,) = score_run(RUN, QRELS, [f"python:{__name__}:shaped(case=numbers)"]).columns

    assert column.values[0] == 1
    assert np.isnan(column.values[1:]).all()
