"""The line on what a run paid, and the sum of several runs."""

import pytest

from ragbench.records.summary import RunCost
from ragbench.report.results import cost_line, total_cost

ENTRY = "in prices.yaml (USD per million tokens) models: {own: {input: 1, output: 2}}"


@pytest.mark.parametrize(
    "cost",
    [
        pytest.param(RunCost(usd=0.25, by={"generator g": 0.05, "judge j": 0.2}), id="two"),
        pytest.param(RunCost(usd=0.0, by={"generator g": 0.0, "judge j": 0.0}), id="all stored"),
        pytest.param(
            RunCost(usd=None, by={"generator g": 0.05, "judge j": None}, unpriced={"own": ENTRY}),
            id="one without a price",
        ),
        pytest.param(
            RunCost(usd=None, by={"generator g": 0.05, "judge j": None}), id="one on this machine"
        ),
    ],
)
def test_the_line(cost, assert_message):
    assert_message(cost_line(cost))


def test_servers_on_this_machine_have_no_line():
    assert cost_line(RunCost(usd=None, by={"judge j": None})) == ""


def test_the_sum_of_several_runs():
    first = RunCost(usd=0.25, by={"generator g": 0.05, "judge j": 0.2})
    second = RunCost(usd=None, by={"judge j": 0.1, "judge own": None}, unpriced={"own": ENTRY})

    total = total_cost([first, None, second, first])

    # 0.05 + 0.05; 0.2 + 0.1 + 0.2
    assert total.by == {"generator g": 0.1, "judge j": 0.5, "judge own": None}
    assert (total.usd, total.unpriced) == (None, {"own": ENTRY})
    assert total_cost([first, first]).usd == 0.5
    assert total_cost([None]) is None
