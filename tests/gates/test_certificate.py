"""`certificate`: what a certificate says of a judge."""

import numpy as np
import pytest

from ragbench.gates.certificate import Certificate
from ragbench.records.certificate import AgreementFound
from ragbench.records.codec import from_json
from ragbench.stats import cohen_kappa, mean_agreement


def decide_kappa(kappa, least, *, decide=None):
    gate = Certificate(certificate="judge.json", rubric="tone", min_kappa=least, decide=decide)
    return gate.decide_kappa(kappa)


@pytest.mark.parametrize(
    ("value", "interval", "decide", "verdict"),
    [
        pytest.param(0.6, (0.4, 0.8), "mean", "pass", id="reaches it"),
        pytest.param(0.59, (0.4, 0.8), "mean", "fail", id="below"),
        pytest.param(0.7, (0.5, 0.9), "interval", "fail", id="its lower end is below"),
        pytest.param(0.9, (0.7, 1.0), "interval", "pass", id="its lower end too"),
        pytest.param(None, (None, None), "mean", "undecided", id="null is no pass"),
        pytest.param(0.9, (None, None), "interval", "undecided", id="no interval is no pass"),
    ],
)
def test_certificate(value, interval, decide, verdict):
    kappa = AgreementFound(value=value, interval=interval, n=50)

    found = decide_kappa(kappa, 0.6, decide=decide)

    assert found.verdict == verdict


def test_the_kappa_of_constant_labels_says_why_it_is_none():
    agreement = mean_agreement(cohen_kappa, [np.ones((4, 2))], "nominal").to_dict()
    found = decide_kappa(from_json(AgreementFound, agreement), 0.6)

    assert found.verdict == "undecided"
    assert found.why.startswith("kappa is not defined: ")
