"""Truth and order of results: a verdict without a score is neither good nor bad."""

import math
import operator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ragbench as rb
from ragbench.records.gate import Decision
from ragbench.types.scores import Value

RELATIONS = [
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.ge,
    operator.gt,
]
scores = st.sampled_from([0.0, 0.25, 0.5, 1.0])
numbers = st.one_of(scores, st.integers(-1, 2), st.booleans(), st.fractions(0, 1), st.floats())
scored = st.builds(rb.Verdict, scores, reasoning=st.sampled_from(["", "so"]))
missing = st.builds(
    rb.Verdict,
    st.none(),
    reasoning=st.sampled_from(["", "so"]),
    status=st.sampled_from(["failed", "not_applicable"]),
    cause=st.sampled_from(["error", "no_reference"]),
)
verdicts = st.one_of(scored, missing)


@given(verdicts, numbers, st.sampled_from(RELATIONS))
@example(rb.Verdict(1.0), 1, operator.ne)
def test_a_verdict_is_compared_by_its_score(verdict, number, relation):
    # The oracle is a float, NaN without a score: all relations are False with it, but `!=`
    score = math.nan if verdict.score is None else verdict.score

    assert relation(verdict, number) is relation(score, number)
    assert relation(number, verdict) is relation(number, score)


@given(verdicts, verdicts, numbers)
def test_equal_values_have_equal_hashes(one, other, number):
    assert (one == other) == (one.to_dict() == other.to_dict())
    assert (one != other) is not (one == other)
    if one == other:
        assert hash(one) == hash(other)
    if one == number:
        assert hash(one) == hash(number)


@given(verdicts, verdicts)
def test_verdicts_have_no_order(one, other):
    with pytest.raises(TypeError):
        assert one < other


@given(verdicts)
def test_the_truth_of_a_verdict_raises(verdict):
    with pytest.raises(TypeError, match=r"compare \.score, and check \.status"):
        bool(verdict)


def zero(answer):
    return 0.0


def broken(answer):
    raise ValueError("broken")


def of_reference(answer, reference):
    return 1.0


@pytest.mark.parametrize("judge", [zero, broken, of_reference])
def test_no_condition_lets_a_verdict_through(judge):
    verdict = rb.Judge(type=judge).score(answer="a")[judge.__name__]

    with pytest.raises(TypeError, match="neither true nor false"):
        bool(verdict)
    assert (verdict == 0.0) is (judge is zero)
    assert (verdict < 0.5, verdict > 0.5) == (judge is zero, False)


def test_a_score_of_a_failed_verdict_does_not_count():
    verdict = rb.Verdict(0.9, status="failed", cause="error")

    assert not any(relation(verdict, 0.9) for relation in RELATIONS if relation is not operator.ne)


@given(st.floats())
def test_the_truth_of_a_missing_value_raises(number):
    if math.isnan(number):
        with pytest.raises(ValueError, match="there is no score"):
            bool(Value(number))
    else:
        assert bool(Value(number)) is bool(number)


def test_an_answer_without_a_gold_number_is_not_right():
    with pytest.raises(ValueError, match="there is no score"):
        assert rb.numeric_match("It is 5.", ["many"])


def test_results_with_an_outcome_have_no_truth():
    qrels = {f"q{n}": {"d": 1} for n in range(12)}
    first = rb.evaluate_run({query: {"d": 1.0} for query in qrels}, qrels, ["mrr"])
    comparison = rb.compare(first, first)

    for result in (comparison, Decision(verdict="fail", why="0.2 < 0.3")):
        with pytest.raises(TypeError, match="neither true nor false"):
            bool(result)
