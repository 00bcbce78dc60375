"""What holds for EVERY registered measure; a new one is tested here without a line of its own."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.registry import REQUIRED
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import options_of, spec_of
from ragbench.score.retrieval.notation import parse_measure
from tests.score.retrieval.records import record
from tests.strategies import qrels_and_run


def forms(name):
    """A measure with a cut-off, without one, or both, as its declaration allows."""
    spec = spec_of(MEASURES.load(name))
    cut = f"{name}@{3 if spec.at == 'k' else 0.5}"
    return {"required": [cut], "optional": [name, cut], "none": [name]}[spec.cutoff]


NAMES = [form for name in MEASURES.table for form in forms(name)]
few_examples = settings(max_examples=12)  # for each of two dozen names
every_measure = pytest.mark.parametrize("name", NAMES)


def declared(name):
    return parse_measure(name).spec


def values(name, qrels, run):
    measure = parse_measure(name)
    return dict(zip(qrels, measure.score(record(measure, qrels, run)), strict=True))


def shuffled(nested, random):
    inner = {q: dict(random.sample(list(d.items()), len(d))) for q, d in nested.items()}
    return dict(random.sample(list(inner.items()), len(inner)))


@every_measure
@few_examples
@given(case=qrels_and_run(), random=st.randoms())
def test_order_of_queries_and_rows_is_nothing(name, case, random):
    qrels, run = case
    before, after = values(name, qrels, run), values(name, *(shuffled(x, random) for x in case))

    assert before == pytest.approx(after, abs=1e-12, nan_ok=True)


@every_measure
@few_examples
@given(case=qrels_and_run())
def test_names_of_queries_are_nothing(name, case):
    renamed = tuple({f"x{query}": rows for query, rows in nested.items()} for nested in case)

    np.testing.assert_array_equal(
        list(values(name, *case).values()), list(values(name, *renamed).values())
    )


@every_measure
@few_examples
@given(case=qrels_and_run())
def test_scale_of_scores_is_nothing(name, case):
    qrels, run = case
    scaled = {q: {d: 8.0 * s + 3.0 for d, s in docs.items()} for q, docs in run.items()}

    np.testing.assert_array_equal(
        list(values(name, qrels, run).values()), list(values(name, qrels, scaled).values())
    )


@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if not declared(name).counts_the_list],
)
@few_examples
@given(case=qrels_and_run())
def test_an_unjudged_tail_is_nothing(name, case):
    qrels, run = case
    padded = {q: docs | {"zz": min(docs.values(), default=0) - 1} for q, docs in run.items()}

    np.testing.assert_array_equal(
        list(values(name, qrels, run).values()), list(values(name, qrels, padded).values())
    )


@every_measure
@few_examples
@given(case=qrels_and_run())
def test_values_lie_in_the_declared_range(name, case):
    measure, found = parse_measure(name), np.array(list(values(name, *case).values()))
    found = found[~np.isnan(found)]

    assert (found >= measure.low).all()
    assert (found <= measure.high + 1e-12).all()


def has_a_top(spec):
    """Whether a perfect ranking scores it; yaap and utility know no largest value."""
    return spec.perfect_is_high and spec.direction == "higher" and spec.high < np.inf


@pytest.mark.parametrize("name", [name for name in NAMES if has_a_top(declared(name))])
def test_a_perfect_ranking_is_at_the_top(name):
    grades = {"a": 3, "b": 2, "c": 1}

    (value,) = values(name, {"q": grades}, {"q": {d: float(g) for d, g in grades.items()}}).values()

    top = 0.0 if declared(name).aggregate == "geometric_mean" else 1.0  # the logarithm of 1
    assert value == parse_measure(name).high == top


@every_measure
@few_examples
@given(case=qrels_and_run())
def test_a_perfect_ranking_is_never_beaten(name, case):
    qrels, run = case
    if declared(name).counts_the_list or declared(name).direction == "lower":
        return
    ideal = {q: {d: float(g) for d, g in judged.items()} for q, judged in qrels.items()}
    best, found = values(name, qrels, ideal), values(name, qrels, run)

    assert all(not found[q] > best[q] + 1e-12 for q in qrels)


@every_measure
@few_examples
@given(case=qrels_and_run())
def test_objects_of_the_caller_stay_as_they_are(name, case):
    before = copy.deepcopy(case)

    values(name, *case)

    assert case == before


@every_measure
def test_declaration_is_complete(name):
    kernel = parse_measure(name).kernel

    assert kernel.__doc__
    for option in options_of(kernel).values():
        assert option.option.help.endswith(".")
        assert option.default is not REQUIRED
    assert spec_of(kernel).name in MEASURES.table


@every_measure
def test_no_queries_no_values(name):
    assert values(name, {}, {}) == {}
