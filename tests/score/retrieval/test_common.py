"""Properties of EVERY registered measure; they test a new measure without a line of its own."""

import copy
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.registry import REQUIRED, declared_options
from ragbench.score.retrieval import MEASURES
from ragbench.score.retrieval.base import spec_of
from ragbench.score.retrieval.notation import parse_measure
from tests.score.retrieval.records import record
from tests.strategies import qrels_and_run


def forms(name):
    """A measure with a cut-off, without one, or both, as its declaration allows."""
    spec = spec_of(MEASURES.load(name))
    cut = f"{name}@{3 if spec.at == 'k' else 0.5}"
    return {"required": [cut], "optional": [name, cut], "none": [name]}[spec.cutoff]


# the length of the list, or what is judged in it, counts, not only the ranks of hits
COUNT_THE_LIST = {
    *("judged", "num_ret", "rndcg", "span_iou", "span_precision", "unjudged", "utility"),
    *("set_f", "set_map", "set_p", "set_relative_p"),
}
# their largest value takes ever more relevant documents
WITHOUT_A_TOP = {"err", "infap", "rbp"}

NAMES = [form for name in MEASURES.table for form in forms(name)]
every_measure = pytest.mark.parametrize("name", NAMES)
# To make a case takes longer than to score it: every measure scores each of them.
some_cases = settings(max_examples=min(15, settings.default.max_examples))


parsed = functools.cache(parse_measure)


def declared(name):
    return parsed(name).spec


def scores_of(qrels, run):
    """The values of any measure by name; measures share what they read, as in a run."""
    scores = {}

    def values(name):
        measure = parsed(name)
        if measure.spec.reads not in scores:
            scores[measure.spec.reads] = record(measure, qrels, run)
        return dict(zip(qrels, measure.score(scores[measure.spec.reads]), strict=True))

    return values


def differ(equal, names=NAMES):
    """The measures for which something does not hold."""
    return [name for name in names if not equal(name)]


def same(one, right):
    return np.array_equal(list(one.values()), list(right.values()), equal_nan=True)


def shuffled(nested, random):
    inner = {q: dict(random.sample(list(d.items()), len(d))) for q, d in nested.items()}
    return dict(random.sample(list(inner.items()), len(inner)))


@pytest.mark.costly
@some_cases
@given(case=qrels_and_run(), random=st.randoms())
def test_order_of_queries_and_rows_is_nothing(case, random):
    scores, mixed = scores_of(*case), scores_of(*(shuffled(part, random) for part in case))

    assert not differ(
        lambda name: scores(name) == pytest.approx(mixed(name), abs=1e-12, nan_ok=True)
    )


@pytest.mark.costly
@some_cases
@given(case=qrels_and_run())
def test_names_of_queries_are_nothing(case):
    scores = scores_of(*case)
    renamed = scores_of(*({f"x{query}": rows for query, rows in part.items()} for part in case))

    assert not differ(lambda name: same(scores(name), renamed(name)))


@pytest.mark.costly
@some_cases
@given(case=qrels_and_run())
def test_scale_of_scores_is_nothing(case):
    qrels, run = case
    larger = {q: {d: 8.0 * s + 3.0 for d, s in docs.items()} for q, docs in run.items()}
    scores, scaled = scores_of(qrels, run), scores_of(qrels, larger)

    assert not differ(lambda name: same(scores(name), scaled(name)))


@pytest.mark.costly
@some_cases
@given(case=qrels_and_run())
def test_an_unjudged_tail_is_nothing(case):
    qrels, run = case
    longer = {q: docs | {"zz": min(docs.values(), default=0) - 1} for q, docs in run.items()}
    scores, padded = scores_of(qrels, run), scores_of(qrels, longer)

    names = [name for name in NAMES if declared(name).name not in COUNT_THE_LIST]
    assert not differ(lambda name: same(scores(name), padded(name)), names)


@pytest.mark.costly
@some_cases
@given(case=qrels_and_run())
def test_values_lie_in_the_declared_range(case):
    values = scores_of(*case)

    def lie(name):
        spec, scores = declared(name), np.array(list(values(name).values()))
        scores = scores[~np.isnan(scores)]
        return (scores >= spec.low).all() and (scores <= spec.high + 1e-12).all()

    assert not differ(lie)


def has_a_top(spec):
    """Return True if a perfect ranking has a value; yaap and utility know no largest value."""
    has_none = spec.name in WITHOUT_A_TOP
    return not has_none and spec.direction == "higher" and spec.high < np.inf


def test_a_perfect_ranking_is_at_the_top():
    for name in [name for name in NAMES if has_a_top(declared(name))]:
        grades = {"a": 3, "b": 2, "c": 1}
        run = {"q": {d: float(g) for d, g in grades.items()}}

        (value,) = scores_of({"q": grades}, run)(name).values()

        top = 0.0 if declared(name).aggregate == "geometric_mean" else 1.0  # the logarithm of 1
        assert value == declared(name).high == top, name


@pytest.mark.costly
@some_cases
@given(case=qrels_and_run())
def test_a_perfect_ranking_is_never_beaten(case):
    qrels, run = case
    ideal = {q: {d: float(g) for d, g in judged.items()} for q, judged in qrels.items()}
    perfect, drawn = scores_of(qrels, ideal), scores_of(qrels, run)

    def unbeaten(name):
        best, scores = perfect(name), drawn(name)
        return all(not scores[q] > best[q] + 1e-12 for q in qrels)

    def may_be_beaten(spec):
        return spec.name in COUNT_THE_LIST or spec.direction == "lower"

    assert not differ(unbeaten, [name for name in NAMES if not may_be_beaten(declared(name))])


@pytest.mark.costly
@some_cases
@given(case=qrels_and_run())
def test_objects_of_the_caller_stay_as_they_are(case):
    copied, values = copy.deepcopy(case), scores_of(*case)

    for name in NAMES:
        values(name)
        assert case == copied, name


@pytest.mark.parametrize("name", NAMES)
def test_declaration_is_complete(name):
    kernel = parsed(name).kernel
    spec = spec_of(kernel)

    assert kernel.__doc__
    for option in declared_options(kernel).values():
        assert option.option.help.endswith(".")
        # a measure that needs `@k` in its name needs no default for it
        is_in_name = option.name == "k" and spec.cutoff == "required"
        assert is_in_name or option.default is not REQUIRED, f"{option.name} needs a default"
    assert spec.name in MEASURES.table


def test_no_queries_no_values():
    for name in NAMES:
        assert scores_of({}, {})(name) == {}, name
