"""First sentences of `calibrate`: agreement, bias and ceiling, pairs of judges, texts."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from ragbench.calibration.certificate import Calibration, certify
from ragbench.calibration.disagreements import find_disagreements
from ragbench.calibration.label_scale import LabelScale
from ragbench.report.calibration import certificate_report, certificate_screen
from ragbench.report.formats import render
from ragbench.report.formats.base import Screen
from ragbench.report.judge_sentences import COLUMNS, disagreement_rows
from ragbench.report.page.review import write_disagreement_page
from tests.calibration.runs import RUBRIC, labels_of, planted, score_of
from tests.lazy import Lazy

sklearn = Lazy("sklearn.metrics")

KEYS = [("one", f"q{n:02}") for n in range(60)]
SCALE = LabelScale(0, 1)
# people pass 38 of 60 answers
PEOPLE = {key: float(n < 38) for n, key in enumerate(KEYS)}


def _judge(n_lenient, n_harsh):
    """Scores of a judge that passes bad answers, and fails good ones."""
    scores = dict(PEOPLE)
    for n in range(n_lenient):
        scores["one", f"q{38 + n}"] = 1.0
    for n in range(n_harsh):
        scores["one", f"q{n:02}"] = 0.0
    return scores


def _certify(run, *raters):
    labels = {RUBRIC.name: labels_of(*raters)}
    return certify(run, run.scores, labels, Calibration(scale=SCALE)), labels


def _sentences(certificate):
    """The first paragraph of the report."""
    return render(certificate_report(certificate)).partition("\n\n")[0]


def test_a_judge_that_passes_eight_bad_answers_and_fails_one_good_one(assert_message):
    run = planted(_judge(8, 1))
    certificate, _ = _certify(run, PEOPLE)

    rubric = certificate.rubrics[RUBRIC.name]
    assert rubric.bias.judge == pytest.approx(45 / 60)
    assert rubric.bias.people == pytest.approx(38 / 60)
    assert rubric.bias.difference == pytest.approx(7 / 60)
    assert rubric.bias.lenient
    people, judge = ([of[key] for key in KEYS] for of in (PEOPLE, score_of(run).scores))
    assert rubric.agreement["raw"].value == pytest.approx(sklearn.accuracy_score(people, judge))
    assert rubric.agreement["kappa"].value == pytest.approx(
        sklearn.cohen_kappa_score(people, judge)
    )
    text = render(certificate_report(certificate))
    assert_message(_sentences(certificate))
    table = text.partition("judge and people\n")[2].partition("\n\n")[0]
    assert 0 < table.count("\n") + 1 <= 8


@pytest.mark.parametrize(
    ("wrong", "lenient"),
    [((0, 9), False), ((4, 4), None)],
    ids=["9 good answers fail", "as many errors of both kinds"],
)
def test_a_bias_is_named_where_its_interval_leaves_zero_out(wrong, lenient, assert_message):
    certificate, _ = _certify(planted(_judge(*wrong)), PEOPLE)

    assert certificate.rubrics[RUBRIC.name].bias.lenient is lenient
    assert_message(_sentences(certificate))


def test_a_judge_that_sees_faults_where_lower_is_better_is_harsh():
    run = planted(_judge(9, 0))
    score = score_of(run)
    rubric = replace(score.rubric, direction="lower")
    run = replace(run, scores={score.name: replace(score, rubric=rubric)})

    certificate, _ = _certify(run, PEOPLE)

    assert certificate.rubrics[RUBRIC.name].bias.lenient is False


def test_people_who_agree_with_each_other_are_the_ceiling(assert_message):
    other = {
        key: 1 - label if key[1] in ("q05", "q50", "q55") else label
        for key, label in PEOPLE.items()
    }

    certificate, _ = _certify(planted(_judge(3, 0)), PEOPLE, other)

    # 57 of 60; the judge agrees with 57 of one and 54 of the other
    assert certificate.rubrics[RUBRIC.name].ceiling["raw"].value == pytest.approx(0.95)
    assert_message(_sentences(certificate))


def _without(labels, *places):
    """Labels with the other level at some places."""
    return labels | {KEYS[n]: 1 - labels[KEYS[n]] for n in places}


@pytest.mark.parametrize(
    ("judge", "second", "difference", "differs"),
    [
        # 20 wrong verdicts where people agree, 2 of people's own
        (_judge(20, 0), _without(PEOPLE, 0, 1), (-20 + 2 * 0.5) / 60, True),
        # always with one of two people, who disagree on 24 answers
        (PEOPLE, _without(PEOPLE, *range(24)), 24 * 0.5 / 60, True),
        (_judge(1, 0), _without(PEOPLE, 0, 1), (-1 + 2 * 0.5) / 60, False),
    ],
    ids=["surely less", "surely more", "equal"],
)
def test_the_sentence_compares_the_agreement_of_the_judge_with_that_of_people(
    judge, second, difference, differs, assert_message
):
    certificate, _ = _certify(planted(judge), PEOPLE, second)

    of_people = certificate.rubrics[RUBRIC.name].from_people
    assert of_people.difference == pytest.approx(difference)
    assert of_people.differs is differs
    assert of_people.answers == 60
    assert_message(_sentences(certificate))


def test_raters_with_few_labels_are_named_with_their_numbers(assert_message):
    few = {key: PEOPLE[key] for key in KEYS[30:40]}

    certificate, _ = _certify(planted(_judge(8, 1)), PEOPLE, few)

    rubric = certificate.rubrics[RUBRIC.name]
    assert rubric.labels.by_rater == {"label_1": 60, "label_2": 10}
    assert rubric.ceiling["raw"].n == 10
    # the mean of 51 of 60 and of 8 of 10: each rater weighs the same
    assert rubric.agreement["raw"].value == pytest.approx((51 / 60 + 8 / 10) / 2)
    assert_message(_sentences(certificate))


def test_of_many_raters_the_fewest_and_the_most_labels_are_named(assert_message):
    raters = [{key: PEOPLE[key] for key in KEYS[:n]} for n in (60, 20, 40, 30)]

    certificate, _ = _certify(planted(_judge(8, 1)), *raters)

    assert [*certificate.rubrics[RUBRIC.name].labels.by_rater.values()] == [60, 20, 40, 30]
    assert_message(_sentences(certificate))


@pytest.mark.parametrize("n_systems", [1, 2, 4])
def test_the_mean_that_people_would_have_given_stands_first(n_systems, assert_message):
    keys = [(system, f"q{n:02}") for system in "abcd"[:n_systems] for n in range(60)]
    run = planted({key: float(int(key[1][1:]) % 3 > 0) for key in keys})
    labels = {key: float(int(key[1][1:]) % 4 > 0) for key in keys if key[1] < "q40"}
    options = Calibration(scale=SCALE, random=True)

    certificate = certify(run, run.scores, {RUBRIC.name: labels_of(labels)}, options)

    corrected = certificate.rubrics[RUBRIC.name].corrected
    assert {of.status for of in corrected.values()} == {"corrected"}
    first, second, *_ = _sentences(certificate).splitlines()
    assert f"{corrected['a'].mean:.3f} [" in first
    assert f"{certificate.rubrics[RUBRIC.name].bias.people:.3f}" in second
    assert_message(first)


def test_a_screen_of_many_rubrics_keeps_the_means_of_people():
    run = planted(_judge(8, 1))
    options = Calibration(scale=SCALE, random=True)
    labels = {RUBRIC.name: labels_of({key: PEOPLE[key] for key in KEYS[10:50]})}
    certificate = certify(run, run.scores, labels, options)
    of_one = certificate.rubrics[RUBRIC.name]
    certificate = structs.replace(certificate, rubrics={f"r{n}": of_one for n in range(6)})
    terminal = Screen(80, is_terminal=True)

    text = render(certificate_screen(certificate, (), (), terminal), "table", terminal)

    means = [line for line in text.splitlines() if f"{of_one.corrected['one'].mean:.3f} [" in line]
    assert len(means) == 6
    assert text.count("\n") <= 24


def test_answers_with_one_label_are_not_compared_with_the_agreement_of_people():
    both = {key: PEOPLE[key] for key in KEYS[:10]}
    certificate, _ = _certify(planted(_judge(20, 0)), PEOPLE, both)
    assert certificate.rubrics[RUBRIC.name].from_people.answers == 10
    assert certificate.rubrics[RUBRIC.name].from_people.difference == 0

    alone, _ = _certify(planted(_judge(20, 0)), PEOPLE)
    assert alone.rubrics[RUBRIC.name].from_people is None


def test_the_mean_of_people_is_there_where_all_answers_are_labelled():
    certificate, _ = _certify(planted(_judge(8, 1)), PEOPLE)

    correction = certificate.rubrics[RUBRIC.name].corrected["one"]
    assert correction.status == "not available"
    assert correction.labels_mean == pytest.approx(38 / 60)
    assert correction.judge_mean == pytest.approx(45 / 60)


def _two_judges(first, second):
    run = planted(first)
    score = score_of(run)
    scores = {}
    for name, values in (("a", first), ("b", second)):
        scores[name] = replace(score, name=name, judge=name, scores=values)
    return replace(run, scores=scores)


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [((12, 6), (1, 1), True), ((3, 2), (2, 2), False)],
    ids=["18 errors and 2", "5 errors and 4"],
)
def test_judges_with_the_same_labels_are_paired(first, second, differs, assert_message):
    certificate, _ = _certify(_two_judges(_judge(*first), _judge(*second)), PEOPLE)

    (pair,) = certificate.pairs
    assert (pair.score, pair.against) == ("b", "a")
    n_errors = sum(first), sum(second)
    assert pair.difference == pytest.approx((n_errors[0] - n_errors[1]) / 60)
    assert pair.differs is differs
    assert_message(_sentences(certificate).splitlines()[4])


def test_disagreements_have_texts_labels_and_the_reason(tmp_path, assert_message):
    run = planted(_judge(7, 0))
    score = replace(score_of(run), reasons={("one", "q40"): "<b>It reads</b> well."})
    run = replace(run, scores={score.name: score})
    certificate, labels = _certify(run, PEOPLE)

    found = find_disagreements(run, run.scores, labels, SCALE)

    assert [of.query_id for of in found] == [f"q{n}" for n in range(38, 45)]
    assert {of.difference for of in found} == {1.0}
    assert (found[2].labels, found[2].judge) == ({"label_1": 0.0}, 1.0)
    row = dict(zip(COLUMNS, disagreement_rows(found)[2], strict=True))
    assert row["reason"] == "<b>It reads</b> well."
    assert row["passages"] == "[1] a passage"
    text = render(certificate_report(certificate, found))
    assert text.count("question: =question of") == 5
    assert_message(text)
    page = tmp_path / "page.html"
    write_disagreement_page(page, found, certificate)
    html = page.read_text(encoding="utf-8")
    assert html.count("<h2>") == 7
    assert "&lt;b&gt;It reads&lt;/b&gt; well." in html


def test_shares_disagree_from_a_quarter_of_the_scale_on():
    run = planted({("one", "a"): 0.5, ("one", "b"): 0.5, ("one", "c"): 0.5})
    labels = {RUBRIC.name: labels_of({("one", "a"): 0.5, ("one", "b"): 1.4, ("one", "c"): 2.5})}

    found = find_disagreements(run, run.scores, labels, LabelScale(0, 2.5))

    # .5 against .2, .56 and 1.0 of the scale
    assert [(of.query_id, round(of.difference, 2)) for of in found] == [("c", -0.5), ("a", 0.3)]


def test_the_command_writes_all_disagreements(tmp_path, calibrate):
    rows = [("id", "judge", "label", "answer")]
    rng = np.random.default_rng(5)
    for n, label in enumerate(rng.integers(1, 6, 40).tolist()):
        rows.append((f"q{n}", min(5, label + (n % 8 == 0)), label, f"answer {n}"))
    with (tmp_path / "r.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)

    options = ("--ratings", tmp_path / "r.csv", "--scale", "1..5")
    code, _, _ = calibrate(*options, "--disagreements", tmp_path / "d.csv")

    assert code == 0
    with (tmp_path / "d.csv").open(encoding="utf-8", newline="") as stream:
        written = list(csv.DictReader(stream))
    expected = [row[0] for row in rows[1:] if row[1] != row[2]]
    assert sorted(row["query_id"] for row in written) == sorted(expected)
    code, _, _ = calibrate(*options, "--disagreements", tmp_path / "d.html")
    assert code == 0
    assert (tmp_path / "d.html").read_text(encoding="utf-8").count("<h2>") == len(expected)
