"""`max_queries_worse`: a count over these queries, failures left open."""

import pytest

from ragbench.gates.drop import QueriesWorse
from ragbench.records.gate import WorseQuery
from ragbench.types import Cause
from tests.gates.test_drop import FAST, NAN, paired


def decide_queries_worse(pairs, max_queries, by=None):
    gate = QueriesWorse(measure="hit", max_queries_worse=max_queries, by=by)
    return gate.decide_pairs(pairs, FAST)


@pytest.mark.parametrize(
    ("system", "max_queries", "by", "verdict"),
    [
        pytest.param([0, 0, 1, 1], 2, 0.5, "pass", id="two lost their hit, two may"),
        pytest.param([0, 0, 1, 1], 1, 0.5, "fail", id="one may"),
        pytest.param([0.6, 0.6, 1, 1], 1, 0.5, "pass", id="lost 0.4 each"),
        pytest.param([0.5, 0.5, 1, 1], 1, 0.5, "fail", id="lost 0.5 each, which counts"),
        pytest.param([0.9, 1, 1, 1], 0, 0.0, "fail", id="any loss"),
        pytest.param([1, 1, 1, 1], 0, 0.0, "pass", id="no loss"),
    ],
)
def test_queries_that_became_worse(system, max_queries, by, verdict):
    decision = decide_queries_worse(paired(system, [1.0] * 4), max_queries, by)

    assert decision.verdict == verdict
    assert f"allowed: {max_queries}" in decision.why


def test_a_failed_query_may_have_become_worse(assert_message):
    causes = [Cause.TIMEOUT, Cause.SCORED, Cause.SCORED]

    one = decide_queries_worse(paired([NAN, 0.0, 1.0], [1.0] * 3, causes), 1, 0.5)
    two = decide_queries_worse(paired([NAN, 0.0, 1.0], [1.0] * 3, causes), 2, 0.5)
    none = decide_queries_worse(paired([NAN, 0.0, 1.0], [1.0] * 3, causes), 0, 0.5)

    assert (none.verdict, one.verdict, two.verdict) == ("fail", "undecided", "pass")
    assert_message(one.why)
    assert one.level == "warning"


def test_nothing_in_common_is_no_verdict(assert_message):
    lost = [Cause.TIMEOUT, Cause.TIMEOUT]

    decision = decide_queries_worse(paired([NAN, NAN], [1.0, 1.0], lost), 2)

    assert decision.verdict == "undecided", "two at most can be worse, but nothing was compared"
    assert_message(decision.why)


def test_worst_queries_stand_first():
    pairs = paired([0.9, 0.2, NAN, 1.0, 0.5], [1.0, 1.0, 1.0, 0.5, 1.0])

    decision = decide_queries_worse(pairs, 0)

    assert [query.query_id for query in decision.worst_queries] == ["q1", "q4", "q0"]
    assert decision.worst_queries[0] == WorseQuery(query_id="q1", score=0.2, baseline=1.0)
