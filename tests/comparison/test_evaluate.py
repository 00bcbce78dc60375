"""`evaluate_run` and `evaluate_texts`: one result type, JSON-ready, nothing lost."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from tests.strategies import DOCUMENT_IDS, judgements

RUN = {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d9": 1.0}}
QRELS = {"q1": {"d2": 1}, "q2": {"d3": 2}, "q3": {"d1": 1}, "q4": {"d1": 0}}


def test_a_run_is_scored_with_its_counts():
    result = rb.evaluate_run(RUN, QRELS, ["mrr", "nDCG@10"])

    assert list(result.mean) == ["mrr", "nDCG@10"], "as the caller wrote them"
    assert result.mean["mrr"] == pytest.approx((0.5 + 0 + 0) / 3)
    assert math.isnan(result.per_query["mrr"]["q4"]), "no relevant document"
    assert result.counts["missing"] == 2
    assert result.counts["without_relevant"] == 1
    assert result.summary["mrr"].n == 3
    low, high = result.interval["mrr"]
    assert low <= result.mean["mrr"] <= high


SINGLE = {
    "mrr": rb.mrr,
    "map": rb.average_precision,
    "bpref": rb.bpref,
    "ndcg": rb.ndcg,
    "r_precision": rb.r_precision,
    "precision@3": lambda *lists: rb.precision(*lists, k=3),
    "recall@3": lambda *lists: rb.recall(*lists, k=3),
    "f1@3": lambda *lists: rb.f1(*lists, k=3),
    "hit_rate@3": lambda *lists: rb.hit_rate(*lists, k=3),
}
RANKINGS = st.lists(st.sampled_from(DOCUMENT_IDS), max_size=12)
RELEVANT = st.sets(st.sampled_from(DOCUMENT_IDS), min_size=1, max_size=6)


@pytest.mark.costly
@settings(max_examples=30)
@given(st.lists(st.tuples(RANKINGS, RELEVANT | judgements()), min_size=1, max_size=4))
def test_lists_and_sets_give_what_the_functions_for_one_list_give(pairs):
    # Dictionaries agree too: a list has falling scores, and a set has grades of 1
    run = {f"q{n}": ranking for n, (ranking, _) in enumerate(pairs)}
    qrels = {f"q{n}": judged for n, (_, judged) in enumerate(pairs)}
    scores = {q: {d: -ranks.index(d) for d in ranks} for q, ranks in run.items()}
    grades = {q: j if isinstance(j, dict) else dict.fromkeys(j, 1) for q, j in qrels.items()}

    result = rb.evaluate_run(run, qrels, [*SINGLE])

    repeated = sum(len(ranking) - len({*ranking}) for ranking in run.values())
    assert result.counts["duplicates"] == repeated
    for query, ranking in run.items():
        for name, function in SINGLE.items():
            value = pytest.approx(function(ranking, qrels[query]), abs=1e-12, nan_ok=True)
            assert result.per_query[name][query] == value, name
    for pair in ((scores, grades), (run, grades), (scores, qrels)):
        computed = rb.evaluate_run(*pair, [*SINGLE])
        assert computed.to_dict()["per_query"] == result.to_dict()["per_query"]
        assert computed.signature == result.signature


def test_lists_stand_beside_dictionaries():
    run = {"q1": ["d1", "d2", "d1"], "q2": {"d9": 1.0, "d3": 2.0}, "q3": ("d7",)}
    qrels = {"q1": {"d2": 1}, "q2": ["d3"], "q3": {"d8"}}

    result = rb.evaluate_run(run, qrels, ["mrr"])

    assert result.per_query["mrr"] == {"q1": 0.5, "q2": 1.0, "q3": 0.0}
    assert result.counts["duplicates"] == 1


@pytest.mark.parametrize(
    ("run", "qrels"),
    [
        # a text is no list of ids
        (
            {"q": "d1"},
            {"q": ["d1"]},
        ),
        ({"q": {"d1"}}, {"q": ["d1"]}),  # a set has no order
        ({"q": None}, {"q": ["d1"]}),  # a query without hits has an empty list
        ({"q": [("d1", 0.9)]}, {"q": ["d1"]}),  # a pair of id and score
        ({"q": ["d1"]}, {"q": "d1"}),
        ({"q": ["d1"]}, {"q": [0.5]}),  # a grade is no id
        ({"q": ["d1"]}, {"q": [["d1"]]}),
        ({None: ["d1"]}, {"q": ["d1"]}),
        ({"q": ["d1"]}, {True: ["d1"]}),  # True is 1 to a dictionary
        (["d1"], {"q": ["d1"]}),
        ({"q": ["d1"]}, {"d1"}),
    ],
)
def test_what_is_no_list_of_ids_is_named_with_its_place(run, qrels, assert_message):
    with pytest.raises(rb.DataError) as caught:
        rb.evaluate_run(run, qrels, ["mrr"])
    assert_message(caught.value)


def test_rules_change_the_mean_and_the_signature():
    skip = rb.evaluate_run(RUN, QRELS, ["mrr"], missing="skip")
    zero = rb.evaluate_run(RUN, QRELS, ["mrr"], no_relevant="zero")

    assert (skip.mean["mrr"], zero.mean["mrr"]) == (0.25, 0.125)
    assert skip.signature["mrr"] != zero.signature["mrr"]


def test_run_and_qrels_objects_give_the_same():
    objects = rb.evaluate_run(rb.Run.from_dict(RUN), rb.Qrels.from_dict(QRELS), ["ndcg@10"])

    assert (
        objects.to_dict()["scores"] == rb.evaluate_run(RUN, QRELS, ["ndcg@10"]).to_dict()["scores"]
    )


def test_to_dict_is_json_without_nan():
    text = json.dumps(rb.evaluate_run(RUN, QRELS, ["map"]).to_dict(), allow_nan=False)

    assert json.loads(text)["per_query"]["map"]["q4"] is None


def test_texts_are_scored_with_what_is_missing():
    result = rb.evaluate_texts(
        ["a red fox", "", None, "blue"], ["the red fox", ["x", "y"], "z", None], ["rouge1", "bleu"]
    )

    values = list(result.per_query["rouge1"].values())
    assert values[:2] == [pytest.approx(2 / 3), 0.0]
    assert np.isnan(values[2:]).all()
    assert result.summary["rouge1"].not_applicable == 2
    assert result.counts == {"predictions": 4, "without_prediction": 1, "without_reference": 1}


def test_the_interval_holds_a_mean_that_rounding_took_above_one():
    # Sacrebleu's value of equal texts is 100.00000000000004
    summary = rb.evaluate_texts(["the cat"], ["the cat"], ["bleu"]).summary["bleu"]

    assert summary.interval[0] <= summary.mean <= summary.interval[1]


def test_half_a_character_is_a_text_like_any_other():
    assert rb.evaluate_texts(["\ud800 a"], ["\ud800 a"], ["rouge1"]).mean["rouge1"] == 1.0


@pytest.mark.parametrize(
    ("predictions", "references", "place"),
    [
        (["a"], ["a", "b"], ""),  # lengths differ
        ("a text", "a text", "evaluate_texts: predictions"),  # a text is a list of letters
        (["a"], [5], ""),  # a reference is a text or a list of texts
        ([5], ["a"], ""),
    ],
)
def test_bad_shapes_are_refused(predictions, references, place, assert_message):
    with pytest.raises(rb.DataError) as caught:
        rb.evaluate_texts(predictions, references, ["rouge1"])
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    ("predictions", "references", "name"),
    [
        ({"q1": "a"}, {"q1": "a"}, "predictions"),
        ({"q1": "a"}, ["a"], "predictions"),
        (["a"], {"q1": ["a"]}, "references"),
    ],
)
def test_texts_by_query_are_refused(predictions, references, name, assert_message):
    # The keys of the mapping would be scored as texts
    with pytest.raises(rb.OptionError) as caught:
        rb.evaluate_texts(predictions, references, ["rouge1"])
    assert_message(caught.value)


def test_unknown_measure_names_the_nearest():
    with pytest.raises(rb.OptionError, match="ndcg"):
        rb.evaluate_run(RUN, QRELS, ["ndgc@10"])


def test_pandas_is_used_where_it_is_installed():
    pandas = pytest.importorskip("pandas", reason="pandas is no dependency")

    frame = rb.evaluate_run(RUN, QRELS, ["mrr"]).to_pandas()

    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc["q1", "mrr"] == 0.5


def test_a_score_beyond_all_doubles_names_its_place(assert_message):
    with pytest.raises(rb.DataError) as caught:
        rb.evaluate_run({"q": {"a": 10**400}}, {"q": {"a": 1}}, ["map"])
    assert_message(caught.value)


@pytest.mark.parametrize("source", [5, b"x", None])
def test_what_is_no_file_is_refused(source, assert_message):
    with pytest.raises(rb.DataError) as caught:
        rb.read_qrels(source)
    assert_message(caught.value)
    with pytest.raises(rb.DataError) as caught:
        rb.read_run(source)
    assert_message(caught.value)


def test_progress_reaches_its_end():
    calls = []
    rb.evaluate_texts(
        ["a", None, "b"] * 40,
        ["a", "b", None] * 40,
        ["rouge1", "rougeL", "bleu(lowercase=true)"],
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls[-1] == (240, 240)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
