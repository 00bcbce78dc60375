"""`max_zeros` on values worked by hand, and in a config."""

import pytest

import ragbench as rb
from ragbench.config.load import load_config

QRELS = {f"q{n}": {"d": 1} for n in range(4)}
RUN = {"q0": {"d": 1.0}, "q1": {"d": 1.0}, "q2": {"d": 1.0}, "q3": {"x": 1.0}}


@pytest.mark.parametrize(
    ("share", "verdict"),
    [pytest.param(0.25, "pass", id="1 / 4"), pytest.param(0.2, "fail", id="1 / 4 is more")],
)
def test_hand_worked(share, verdict):
    evaluation = rb.evaluate_run(RUN, QRELS, ["mrr"])

    [found] = rb.check_gates(evaluation, {"measure": "mrr", "max_zeros": share})

    assert (found["verdict"], found["why"], found["n"]) == (verdict, "1 of 4", 4)


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        ({"max_zeros": 2}, "max_zeros: 2 is out of range; allowed: a number from 0 to 1"),
        ({"max_zero": 0.1}, "unknown key 'max_zero'; did you mean 'max_zeros'"),
        ({"max_zeros": 0, "by": 1}, "no effect with max_zeros; allowed: max_zeros, measure"),
        ({"max": 1, "max_zeros": 0}, "max and max_zeros in one gate; allowed: one of min, max"),
    ],
)
def test_a_config_knows_its_key(gate, says):
    config = {
        "dataset": {"type": "beir", "path": "datasets/example"},
        "retrievers": {"bm25": {"type": "bm25"}},
        "gates": [{"measure": "mrr", **gate}],
    }

    with pytest.raises(rb.ConfigError, match=says):
        load_config(config)
