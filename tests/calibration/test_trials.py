"""Lent ratings: what `ragbench calibrate` prints equals SciPy's and scikit-learn's values."""

import csv
import json

import numpy as np
import pytest

from tests.calibration.trial import ragtruth, summeval
from tests.commands import run_command
from tests.lazy import Lazy

scipy = Lazy("scipy.stats")
sklearn = Lazy("sklearn.metrics")

pytestmark = pytest.mark.slow


def _calibrate(run, labels, *options):
    """Return the output of the command."""
    done = run_command("calibrate", run, "--labels", labels, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _agreement(printed):
    """Return the agreement of the judge with people, from printed JSON."""
    return json.loads(printed)["rubrics"]["faithfulness"]


def _sides(run, labels, column):
    """Scores of the judge and labels of people, from the files."""
    with (run / "per_query.csv").open(encoding="utf-8", newline="") as stream:
        scores = {
            (row["system"], row["query_id"]): float(row["faithfulness"])
            for row in csv.DictReader(stream)
            if row["faithfulness"]
        }
    with labels.open(encoding="utf-8", newline="") as stream:
        rated = {(r["system"], r["query_id"]): float(r[column]) for r in csv.DictReader(stream)}
    keys = [key for key in rated if key in scores]
    return np.array([scores[key] for key in keys]), np.array([rated[key] for key in keys])


def _check(certificate, judge, people, levels):
    """Compare with the oracles; halfway is the higher of several levels, the worse of two."""
    steps = len(levels) - 1
    x = np.floor(judge * steps + 0.5).astype(int) if steps > 1 else (judge > 0.5).astype(int)
    y = np.floor((people - levels[0]) + 0.5).astype(int)
    value = {name: statistic["value"] for name, statistic in certificate["agreement"].items()}
    places = range(len(levels))
    assert value["raw"] == pytest.approx((x == y).mean(), abs=1e-12)
    for name, weights in (
        ("kappa", None),
        ("kappa_linear", "linear"),
        ("kappa_quadratic", "quadratic"),
    ):
        oracle = sklearn.cohen_kappa_score(x, y, labels=places, weights=weights)
        assert value[name] == pytest.approx(oracle, abs=1e-9)
    assert value["spearman"] == pytest.approx(scipy.spearmanr(judge, people)[0], abs=1e-9)
    assert value["kendall"] == pytest.approx(scipy.kendalltau(judge, people)[0], abs=1e-9)
    good = people > (levels[0] + levels[-1]) / 2
    assert value["auc"] == pytest.approx(sklearn.roc_auc_score(good, judge), abs=1e-9)
    for statistic in certificate["agreement"].values():
        assert statistic["interval"][0] < statistic["value"] < statistic["interval"][1]


def test_summeval(lent_data, tmp_path):
    # Consistency, 1 to 5, the mean of three experts, against the overlap with the source
    run, labels = summeval(lent_data, tmp_path)

    options = ["--column", "faithfulness=consistency", "--scale", "1..5"]
    tables = _calibrate(run, labels, *options, "--verbose")
    certificate = _agreement(_calibrate(run, labels, *options, "--json"))

    judge, people = _sides(run, labels, "consistency")
    assert certificate["labels"]["n"] == len(judge) == 400
    assert certificate["labels"]["queries"] == 25
    _check(certificate, judge, people, [1, 2, 3, 4, 5])
    for line in (
        "Spearman's rho ",
        "Kendall's tau-b ",
        "kappa, quadratic weights ",
    ):
        assert line in tables


def test_ragtruth(lent_data, tmp_path):
    # Answers of six models: 1 where people marked no hallucinated span
    run, labels = ragtruth(lent_data, tmp_path)

    certificate = _agreement(_calibrate(run, labels, "--json"))

    judge, people = _sides(run, labels, "label")
    assert certificate["labels"]["n"] == len(judge) == 277
    assert int((people == 0).sum()) == 63
    _check(certificate, judge, people, [0, 1])
    assert certificate["agreement"]["auc"]["interval"][0] > 0.6, "far better than chance"
