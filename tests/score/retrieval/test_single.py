"""The measures for one list: equal to the kernels, without NumPy, and worked by hand."""

import itertools
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import evaluate_run
from ragbench.errors import DataError, OptionError
from ragbench.score.retrieval import single
from ragbench.score.retrieval.notation import parse_measure
from ragbench.score.retrieval.ranking import rank
from ragbench.types import Run
from tests.strategies import judged_list

RELEVANT = ("precision", "recall", "f1", "hit_rate", "mrr", "average_precision", "rbp")
UNCUT = ("bpref", "r_precision")
NAMES = (*RELEVANT, *UNCUT, "dcg", "ndcg", "err")
GAINING = [{}, {"gain": "exp"}, {"discount": "jk"}, {"discount": "jk", "base": 3, "gain": "exp"}]
OTHER = {"dcg": GAINING, "ndcg": GAINING, "rbp": [{}, {"p": 0.3}], "err": [{}, {"max": 4}]}


def test_divide_min_is_the_kernels(assert_message):
    ranking, judged = ["a", "x", "b"], set("abcde")
    ranked = rank({"q": dict.fromkeys(judged, 1)}, Run.from_rankings({"q": ranking}))

    for k in (1, 3, 5, 9):
        (expected,) = parse_measure(f"map(divide=min)@{k}").score(ranked)
        assert single.average_precision(ranking, judged, k=k, divide="min") == expected
    with pytest.raises(OptionError) as caught:
        single.average_precision(ranking, judged, divide="min")
    assert_message(caught.value, "map: divide")


def options_of(name):
    """Every kind of option that a function takes, in all combinations."""
    cuts = [{}] if name in UNCUT else [{}, {"k": 1}, {"k": 3}, {"k": 50}]
    rels = [{}, {"rel": 2}] if name in RELEVANT + UNCUT else [{}]
    for parts in itertools.product(cuts, rels, OTHER.get(name, [{}])):
        yield {key: value for part in parts for key, value in part.items()}


@pytest.mark.costly
@settings(max_examples=30)
@given(case=judged_list())
def test_equal_to_the_kernel(case):
    retrieved, judged = case
    ranked = rank({"q": judged}, Run.from_rankings({"q": retrieved}))

    for name in NAMES:
        kernel = parse_measure(f"{name}@1" if name not in UNCUT else name).kernel
        for options in options_of(name):
            value = getattr(single, name)(retrieved, judged, **options)
            (expected,) = kernel(ranked, **options)
            if math.isnan(expected) and judged and "rel" in options:
                expected = 0.0  # by the rule of `evaluate_run`, see below
            assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), (name, options)
            assert isinstance(value, float)


@settings(max_examples=30, deadline=None)
@given(case=judged_list(), rel=st.integers(1, 3))
def test_one_question_has_the_value_that_it_has_in_a_run(case, rel):
    # A judged question without the grade counts 0, one without any relevant document nothing
    retrieved, judged = case
    names = [name for name in RELEVANT if name != "average_precision"] + ["map", *UNCUT]
    measures = [
        f"{name}(rel={rel})" + ("@1" if name in ("precision", "recall", "f1", "hit_rate") else "")
        for name in names
    ]
    # the second question has every grade, so that the run has a score
    qrels = {"q": judged, "other": {"a": 3}}
    result = evaluate_run({"q": list(dict.fromkeys(retrieved)), "other": ["a"]}, qrels, measures)

    for name, measure in zip(names, measures, strict=True):
        function = getattr(single, "average_precision" if name == "map" else name)
        options = {"k": 1} if measure.endswith("@1") else {}
        expected = result.per_query[measure].get("q", math.nan)
        value = function(retrieved, judged, rel=rel, **options)
        assert value == pytest.approx(expected, nan_ok=True), measure
        assert function(retrieved=retrieved, judged=judged, rel=rel, **options) == pytest.approx(
            value, nan_ok=True
        )


def test_a_question_without_the_grade_counts_0():
    assert single.average_precision(["a", "b"], {"a": 1}, rel=2) == 0.0
    assert single.average_precision(["a", "b"], {"a": 0}, rel=2) == 0.0
    assert math.isnan(single.average_precision(["a", "b"], {"a": 0}))
    assert math.isnan(single.average_precision(["a", "b"], {}, rel=2))


@settings(max_examples=30)
@given(judged_list())
def test_relevant_ids_are_grades_of_one(case):
    retrieved, judged = case
    relevant = [document for document, grade in judged.items() if grade > 0]

    for collection in (set(relevant), relevant, relevant * 2, tuple(relevant)):
        value = single.ndcg(retrieved, collection, k=3)
        expected = single.ndcg(retrieved, dict.fromkeys(relevant, 1), k=3)
        assert value == pytest.approx(expected, nan_ok=True)


@given(judged_list(), st.data())
def test_a_repeated_id_never_raises_a_score(case, data):
    retrieved, judged = case
    if not retrieved:
        return
    again = data.draw(st.sampled_from(retrieved))
    for name in NAMES:
        score = getattr(single, name)
        first, after = score(retrieved, judged), score([*retrieved, again], judged)
        assert after == pytest.approx(first, nan_ok=True)


def test_readme_example():
    value = single.ndcg(["d3", "d1", "d7"], {"d1": 3, "d5": 1}, k=10)

    assert value == pytest.approx((3 / math.log2(3)) / (3 + 1 / math.log2(3)))


def test_nothing_relevant_is_not_a_number():
    for name, judged in itertools.product(NAMES, ({}, {"a": 0}, {"a": -1}, set())):
        assert math.isnan(getattr(single, name)(["a", "b"], judged)), f"{name} of {judged}"


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: single.ndcg(["a"], {"a": 1}, k=0), "ndcg: k"),
        (lambda: single.ndcg(["a"], {"a": 1}, k=True), "ndcg: k"),
        (lambda: single.mrr(["a"], {"a": 1}, k=[1]), "mrr: k"),
        (lambda: single.recall(["a"], {"a": 1}, rel=0), "recall: rel"),
        (lambda: single.bpref(["a"], {"a": 1}, rel=0.5), "bpref: rel"),
        (lambda: single.rbp(["a"], {"a": 1}, p=1), "rbp: p"),
        (lambda: single.err(["a"], {"a": 1}, max=0), "err: max"),
        (lambda: single.ndcg(["a"], {"a": 1}, gain="log"), "ndcg: gain"),
        (lambda: single.dcg(["a"], {"a": 1}, discount="ln"), "dcg: discount"),
        (lambda: single.dcg(["a"], {"a": 1}, base=10), "dcg: base"),
        (lambda: single.dcg(["a"], {"a": 1}, base=1, discount="jk"), "dcg: base"),
        (lambda: single.mrr("abc", {"a": 1}), "retrieved"),
        (lambda: single.mrr(["abc"], "abc"), "judged"),
        (lambda: single.mrr(["a"], [["a"]]), "judged"),
        (lambda: single.mrr([["a"]], ["a"]), "retrieved"),
    ],
)  # fmt: skip
def test_bad_arguments_say_what_is_allowed(call, place, assert_message):
    with pytest.raises(OptionError) as caught:
        call()
    assert_message(caught.value, place)


@pytest.mark.parametrize("grade", [1.5, "x", True, None])
def test_grades_are_integers(grade, assert_message):
    with pytest.raises(DataError) as caught:
        single.ndcg(["a"], {"a": grade})
    assert_message(caught.value, "'a'")


def test_one_list_needs_no_numpy():
    code = (
        "import sys; from ragbench.score.retrieval.single import ndcg; "
        "assert ndcg(['a'], {'a': 1}, k=5) == 1.0; sys.exit('numpy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "retrieved",
    [
        pytest.param({"d1": 0.1, "d2": 9.0}, id="a mapping: is it sorted?"),
        pytest.param({"d1", "d2"}, id="a set has no order"),
        pytest.param([("d1", 2.0)], id="pairs"),
        pytest.param([["d1"]], id="lists"),
        pytest.param("d1", id="a text"),
        pytest.param(None, id="nothing"),
        pytest.param(3, id="a number"),
    ],
)
def test_what_is_no_ranking_is_refused(retrieved):
    with pytest.raises(OptionError, match="retrieved: found"):
        single.ndcg(retrieved, {"d1": 1})


def test_a_grade_beyond_32_bits_is_refused_as_in_a_run():
    with pytest.raises(DataError, match="2147483648"):
        single.ndcg(["a"], {"a": 2**31})


@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNCUT])
def test_the_cutoff_may_stand_by_position(name):
    measure = getattr(single, name)
    retrieved, judged = ["d9", "d8", "d1", "d7", "d2"], {"d1": 1, "d2": 1}

    values = {k: float(measure(retrieved, judged, k)) for k in (2, 5)}

    assert values == {k: float(measure(retrieved, judged, k=k)) for k in (2, 5)}
    assert values[2] != values[5]
    with pytest.raises(OptionError) as caught:
        measure(retrieved, judged, 0)
    assert (caught.value.option, caught.value.found) == ("k", 0)


@pytest.mark.parametrize(("name", "more"), [("ndcg", (2, "exp")), ("bpref", (2,))])
def test_options_by_position_are_refused_with_their_form(name, more, assert_message):
    with pytest.raises(OptionError) as caught:
        getattr(single, name)(["d1"], {"d1": 1}, *more)

    assert_message(caught.value, name)
