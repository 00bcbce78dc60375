"""Certificates: agreement, ceiling and corrected means of planted labels."""

import json

import numpy as np
import pytest

from ragbench.calibration.certificate import Calibration, certify
from ragbench.calibration.draw import draw
from ragbench.calibration.label_scale import LabelScale
from ragbench.errors import DataError
from ragbench.records.codec import to_json
from ragbench.report.calibration import certificate_report
from ragbench.report.formats import render
from tests.calibration.runs import RUBRIC, labels_of, planted, score_of
from tests.messages import lines_with

KEYS = [(system, f"q{n}") for n in range(40) for system in ("one", "two")]
RNG = np.random.default_rng(5)
TRUTH = dict(zip(KEYS, RNG.integers(1, 6, len(KEYS)).tolist(), strict=True))


def _noisy(seed, noise=0.8):
    rng = np.random.default_rng(seed)
    return {
        key: float(np.clip(round(level + noise * rng.normal()), 1, 5))
        for key, level in TRUTH.items()
    }


def _scores(levels):
    return {key: (level - 1) / 4 for key, level in levels.items()}


def _certified(run, labels, **options):
    certificate = to_json(certify(run, run.scores, {RUBRIC.name: labels}, Calibration(**options)))
    json.dumps(certificate, allow_nan=False)
    return certificate["rubrics"][RUBRIC.name]


def test_one_rater():
    from scipy.stats import kendalltau, pearsonr, spearmanr
    from sklearn.metrics import cohen_kappa_score, roc_auc_score

    judge, people = _noisy(1), _noisy(2)
    x, y = (np.array([rating[key] for key in sorted(KEYS)]) for rating in (judge, people))

    certificate = _certified(planted(_scores(judge)), labels_of(people))

    values = {name: rating["value"] for name, rating in certificate["agreement"].items()}
    assert values["raw"] == pytest.approx((x == y).mean())
    assert values["kappa"] == pytest.approx(cohen_kappa_score(x, y))
    assert values["kappa_quadratic"] == pytest.approx(cohen_kappa_score(x, y, weights="quadratic"))
    assert values["pearson"] == pytest.approx(pearsonr(x, y)[0])
    assert values["spearman"] == pytest.approx(spearmanr(x, y)[0])
    assert values["kendall"] == pytest.approx(kendalltau(x, y)[0])
    assert values["auc"] == pytest.approx(roc_auc_score(y > 3, x))
    assert certificate["ceiling"] == {}
    for rating in certificate["agreement"].values():
        low, high = rating["interval"]
        assert low < rating["value"] < high
        assert rating["n"] == 80


def test_good_is_what_the_user_says():
    from sklearn.metrics import roc_auc_score

    judge, people = _noisy(1), _noisy(2)
    x, y = (np.array([rating[key] for key in KEYS]) for rating in (judge, people))

    certificate = _certified(planted(_scores(judge)), labels_of(people), good=5.0)

    assert certificate["agreement"]["auc"]["value"] == pytest.approx(roc_auc_score(y == 5, x))
    assert certificate["good"] == "labels from 5 on"


def test_several_raters_are_averaged_beside_their_ceiling():
    from sklearn.metrics import cohen_kappa_score

    judge, people = _noisy(1, 1.5), [_noisy(seed, 0.4) for seed in (2, 3, 4)]
    people[2] = {key: label for key, label in people[2].items() if key[1] != "q7"}

    certificate = _certified(planted(_scores(judge)), labels_of(*people))

    def kappa(a, b):
        keys = sorted(a.keys() & b.keys())
        return cohen_kappa_score([a[key] for key in keys], [b[key] for key in keys])

    assert certificate["agreement"]["kappa"]["value"] == pytest.approx(
        np.mean([kappa(judge, rater) for rater in people])
    )
    assert certificate["ceiling"]["kappa"]["value"] == pytest.approx(
        np.mean([kappa(people[0], people[1]), kappa(people[0], people[2]), kappa(*people[1:])])
    )
    assert (
        certificate["ceiling"]["alpha_ordinal"]["value"]
        > certificate["agreement"]["alpha_ordinal"]["value"]
    )
    assert "auc" not in certificate["ceiling"]


def test_items_questions_and_systems_as_papers_print_them():
    # Two raters, five systems; q0 is constant for people, q1 for the judge, q2 has one answer
    from scipy import stats

    rng = np.random.default_rng(8)
    keys = [(f"s{s}", f"q{q}") for q in range(12) for s in range(5) if q != 2 or s == 0]
    truth = {key: int(rng.integers(1, 6)) for key in keys}
    judge = {k: float(np.clip(t + rng.integers(-1, 2), 1, 5)) for k, t in truth.items()}
    raters = [
        {k: float(np.clip(t + rng.integers(-1, 2), 1, 5)) for k, t in truth.items()}
        for _ in range(2)
    ]
    for key in keys:
        if key[1] == "q0":
            raters[0][key], raters[1][key] = (3.0, 4.0) if key[0] == "s0" else (4.0, 3.0)
        if key[1] == "q1":
            judge[key] = 2.0
    people = {key: np.mean([rater[key] for rater in raters]) for key in keys}

    correlations = _certified(planted(_scores(judge)), labels_of(*raters))["correlations"]

    def of(some):
        x, y = ([rating[key] for key in some] for rating in (judge, people))
        return [f(x, y)[0] for f in (stats.pearsonr, stats.spearmanr, stats.kendalltau)]

    def values(level):
        return [
            coefficient["value"] for coefficient in correlations[level]["coefficients"].values()
        ]

    inside = [of([k for k in keys if k[1] == f"q{q}"]) for q in range(3, 12)]
    of_systems = [
        [np.mean([rating[k] for k in keys if k[0] == f"s{s}"]) for s in range(5)]
        for rating in (judge, people)
    ]
    assert values("item") == pytest.approx(of(keys))
    assert values("question") == pytest.approx(np.mean(inside, axis=0))
    assert values("system") == pytest.approx(
        [f(*of_systems)[0] for f in (stats.pearsonr, stats.spearmanr, stats.kendalltau)]
    )
    assert [correlations[level]["n"] for level in correlations] == [56, 9, 5]
    left_out = correlations["question"]
    assert [left_out[k] for k in ("constant_people", "constant_judge", "single")] == [1, 1, 1]
    for level in correlations.values():
        for rating in level["coefficients"].values():
            assert rating["interval"][0] < rating["value"] < rating["interval"][1]


def test_one_system_has_no_order_of_systems(assert_message):
    keys = [("one", f"q{n}") for n in range(20)]
    run = planted({key: (TRUTH[key] - 1) / 4 for key in keys})

    certificate = certify(
        run, run.scores, {RUBRIC.name: labels_of({k: TRUTH[k] for k in keys})}, Calibration()
    )

    levels = certificate.rubrics[RUBRIC.name].correlations
    assert levels.item.coefficients["pearson"].value == 1
    assert levels.system.coefficients["pearson"].reason == "one item has no order"
    assert (levels.question.n, levels.question.single) == (0, 20)
    printed = render(certificate_report(certificate, verbose=True))
    assert_message(printed)
    assert ": \n" not in printed, "a number that is there has no reason"


def test_one_answer_without_a_label_is_not_all_of_them(assert_message):
    keys = [("one", f"q{n}") for n in range(20)]
    run = planted({key: (TRUTH[key] - 1) / 4 for key in keys})

    labels = {RUBRIC.name: labels_of({key: TRUTH[key] for key in keys[1:]})}
    certificate = certify(run, run.scores, labels, Calibration())

    printed = render(certificate_report(certificate, verbose=True))
    assert_message(lines_with(printed, "not corrected"))


@pytest.mark.parametrize(("best", "n_lines"), [(5, 3), (2, 1)])
def test_statistics_that_are_equal_for_two_labels_share_a_line(best, n_lines):
    people = {key: best if level > 3 else min(level, best - 1) for key, level in TRUTH.items()}
    run = planted({key: float(level > 3) for key, level in _noisy(1).items()})

    labels = {RUBRIC.name: labels_of(people)}
    certificate = certify(run, run.scores, labels, Calibration(scale=LabelScale(1, best)))

    names = [
        line.split("  ")[0]
        for line in render(certificate_report(certificate, verbose=True)).splitlines()
    ]
    for family in ("kappa", "alpha"):
        rows = [name for name in names if name.startswith(family) and "nearest level" not in name]
        assert len(rows) == n_lines


def test_a_scale_that_runs_down_turns_labels_round():
    people = _noisy(2)
    run = planted(_scores(_noisy(1)))

    up = _certified(run, labels_of(people))
    down = _certified(run, labels_of({k: 6 - v for k, v in people.items()}), scale=LabelScale(5, 1))

    assert down["agreement"] == up["agreement"]
    assert (up["scale"], down["scale"]) == ([1, 5], [5, 1])


def test_the_same_labels_give_the_same_bytes_in_any_order():
    run, people = planted(_scores(_noisy(1))), _noisy(2)
    backwards = dict(reversed(people.items()))

    one, other = (_certified(run, labels_of(labels)) for labels in (people, backwards))

    assert json.dumps(one) == json.dumps(other)


def test_a_constant_judge_is_undefined_with_the_reason():
    certificate = _certified(planted(dict.fromkeys(KEYS, 1.0)), labels_of(_noisy(2)))

    for name in ("kappa", "spearman", "kendall"):
        assert certificate["agreement"][name]["value"] is None
        assert "all 80 items" in certificate["agreement"][name]["reason"]
    assert certificate["agreement"]["raw"]["value"] is not None


def test_without_a_probe_there_is_none():
    assert _certified(planted(_scores(TRUTH)), labels_of(TRUTH))["probes"] == {}


def _drawn(run, n, unit="answer"):
    return draw(run, score_of(run), n, seed=2, unit=unit)


def test_a_proven_draw_corrects_the_mean_of_each_system():
    from ragbench.stats.mean import ppi_mean

    judge = {key: min(level + 1, 5) for key, level in TRUTH.items()}
    run = planted(_scores(judge))
    drawn = _drawn(run, 60)
    labels = labels_of({key: TRUTH[key] for key in drawn.keys}, draw=drawn.signature)

    certificate = _certified(run, labels)

    assert certificate["labels"]["random"] is True
    mine = sorted(key for key in KEYS if key[0] == "one")
    truth, scores = _scores(TRUTH), score_of(run).scores
    oracle = ppi_mean(
        [truth[key] for key in mine if key in drawn.keys],
        [scores[key] for key in mine if key in drawn.keys],
        [scores[key] for key in mine if key not in drawn.keys],
        random=True,
        range=(0, 1),
    )
    corrected = certificate["corrected"]["one"]
    assert corrected["mean"] == pytest.approx(oracle.mean)
    assert corrected["interval"] == pytest.approx([oracle.lower, oracle.upper])
    people = np.mean([truth[key] for key in mine])
    assert abs(corrected["mean"] - people) < abs(corrected["judge_mean"] - people)


def test_drawn_queries_correct_the_difference():
    run = planted(_scores(_noisy(1)), against={"two": "one"})
    drawn = _drawn(run, 25, unit="query")
    labels = labels_of({key: TRUTH[key] for key in drawn.keys}, draw=drawn.signature)

    difference = _certified(run, labels)["corrected_differences"]["two"]

    assert (difference["status"], difference["against"]) == ("corrected", "one")
    assert (difference["n_labels"], difference["n_judged"]) == (25, 40)
    low, high = difference["interval"]
    truth = _scores(TRUTH)
    assert low < np.mean([truth["two", f"q{n}"] - truth["one", f"q{n}"] for n in range(40)]) < high


def test_a_query_with_one_label_of_a_pair_leaves_the_difference_out(assert_message):
    # Answers drawn one by one: 25 queries have labels of both, others of one system alone
    run = planted(_scores(_noisy(1)), against={"two": "one"})
    keys = [key for key in KEYS if int(key[1][1:]) < 25] + [("one", "q30")]

    certificate = _certified(run, labels_of({key: TRUTH[key] for key in keys}), random=True)

    reason = certificate["corrected_differences"]["two"]["reason"]
    assert_message(reason)


@pytest.mark.parametrize(
    ("keep", "random", "why"),
    [
        pytest.param(lambda keys: keys, True, "the draw was repeated", id="all"),
        pytest.param(lambda keys: keys[:45], True, "the draw was repeated", id="stopped early"),
        pytest.param(
            lambda keys: keys[:10] + keys[13:], False, "3 rows before the last", id="gaps"
        ),
    ],
)
def test_labels_may_end_early_but_have_no_gaps(keep, random, why):
    run = planted(_scores(_noisy(1)))
    drawn = _drawn(run, 60)
    labels = labels_of({key: TRUTH[key] for key in keep(drawn.keys)}, draw=drawn.signature)
    labels.draws = dict.fromkeys(drawn.keys, drawn.signature)

    certificate = _certified(run, labels)

    assert certificate["labels"]["random"] is random
    assert certificate["labels"]["why"].startswith(why)
    assert certificate["labels"]["without_label"] == 60 - len(keep(drawn.keys))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("draws", "rows"),
    [
        ("", 60),
        ("signature", 59),
        ("draw|n:60", 60),
    ],
)
def test_without_proof_nothing_is_corrected(draws, rows, assert_message):
    run = planted(_scores(_noisy(1)))
    drawn = _drawn(run, 60)
    labels = labels_of(
        {key: TRUTH[key] for key in drawn.keys[:rows]},
        draw=draws.replace("signature", drawn.signature),
    )

    certificate = _certified(run, labels)

    assert_message(certificate["corrected"]["one"]["reason"])
    vouched = _certified(run, labels, random=True)
    assert vouched["corrected"]["one"]["status"] == "corrected"


def test_few_labels_are_refused_with_their_number():
    run = planted(_scores(_noisy(1)))
    drawn = _drawn(run, 30)
    labels = labels_of({key: TRUTH[key] for key in drawn.keys}, draw=drawn.signature)

    corrected = _certified(run, labels)["corrected"]["one"]

    assert corrected == {"status": "not available", "reason": "15 answers, 20 are the fewest"}


def test_labels_of_failed_judgements_are_counted(assert_message):
    scores = _scores(_noisy(1))
    failed = dict.fromkeys(KEYS[:3], "unreadable")
    run = planted({k: v for k, v in scores.items() if k not in failed}, unscored=failed)

    certificate = _certified(run, labels_of(TRUTH))

    assert certificate["labels"]["n"] == 77
    assert certificate["labels"]["without_verdict"] == 3
    with pytest.raises(DataError) as caught:
        _certified(run, labels_of(dict.fromkeys(failed, 3.0)))
    assert_message(caught.value)
