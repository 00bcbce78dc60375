"""`failed`: a share of what a score applies to."""

import pytest

from ragbench.gates.failed import Failed
from ragbench.types import Cause
from tests.gates.test_limit import NAN, column


@pytest.mark.parametrize(
    ("values", "most", "verdict", "why"),
    [
        pytest.param([1] * 99 + [NAN], 0.01, "pass", "1 of 100 failed (1 timeout)", id="1 %"),
        pytest.param([1] * 98 + [NAN] * 2, 0.01, "fail", "2 of 100", id="2 %"),
        pytest.param([1, 0], 0.0, "pass", "0 of 2 failed", id="none"),
    ],
)
def test_coverage(values, most, verdict, why):
    decision = Failed(failed="hit", max=most).decide_column(column(values))

    assert decision.verdict == verdict
    assert decision.why.startswith(why)


def test_coverage_of_nothing_is_undecided(assert_message):
    decision = Failed(failed="hit", max=0.5).decide_column(column([NAN], Cause.NO_RELEVANT))

    assert decision.verdict == "undecided"
    assert_message(decision.why)
