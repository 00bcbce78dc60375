"""Agreement on two levels in certificates, and on each group of answers, against scikit-learn."""

import csv
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.calibration.certificate import Calibration, certify
from ragbench.calibration.label_scale import LabelScale
from ragbench.errors import OptionError
from ragbench.report.calibration import certificate_report
from ragbench.report.formats import render
from tests.calibration.runs import RUBRIC, labels_of, planted, score_of
from tests.stats.test_two_levels import assert_like_scikit_learn

SCALE = LabelScale(0, 1)


class Statistics:
    """Statistics of a certificate, in the form of `two_level_agreement`."""

    def __init__(self, rare, of):
        self.rare, self.statistics, self.confusion = rare, _Values(of.agreement), of.confusion


class _Values(dict):
    def __getitem__(self, name):
        found = super().__getitem__(name)
        value = float("nan") if found.value is None else found.value
        return type(found)(value=value, interval=found.interval, n=found.n)


@settings(max_examples=10)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2)), min_size=4))
def test_a_certificate_and_its_groups_agree_with_scikit_learn(drawn):
    keys = [("one", f"q{n}") for n in range(len(drawn))]
    run = planted({key: float(judge) for key, (judge, _, _) in zip(keys, drawn, strict=True)})
    people = {key: float(label) for key, (_, label, _) in zip(keys, drawn, strict=True)}
    groups = {key: f"set {group}" for key, (_, _, group) in zip(keys, drawn, strict=True)}

    calibration = Calibration(scale=SCALE, by="set", groups=groups)
    certificate = certify(run, run.scores, {RUBRIC.name: labels_of(people)}, calibration)

    rubric = certificate.rubrics[RUBRIC.name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge, labels, of_row = zip(*drawn, strict=True)
        assert_like_scikit_learn(Statistics(rubric.rare, rubric), judge, labels)
        for name, of in rubric.groups.items():
            rows = [place for place, number in enumerate(of_row) if f"set {number}" == name]
            sides = ([side[row] for row in rows] for side in (judge, labels))
            assert_like_scikit_learn(Statistics(rubric.rare, of), *sides)
            assert of.n == len(rows)
    balanced = [of.agreement["balanced_accuracy"].value for of in rubric.groups.values()]
    if len(balanced) > 1 and None not in balanced:
        mean = rubric.groups_mean["balanced_accuracy"].value
        assert mean == pytest.approx(np.mean(balanced))


def test_labels_of_two_raters_are_counted_together():
    keys = [("one", f"q{n}") for n in range(10)]
    anna, ben = ({key: float(n < end) for n, key in enumerate(keys)} for end in (7, 5))
    run = planted(anna)

    certificate = certify(
        run, run.scores, {RUBRIC.name: labels_of(anna, ben)}, Calibration(scale=SCALE)
    )

    rubric = certificate.rubrics[RUBRIC.name]
    assert rubric.confusion == {"pass": {"pass": 12, "fail": 0}, "fail": {"pass": 2, "fail": 6}}
    assert rubric.agreement["tnr"].value == pytest.approx(6 / 8)
    assert rubric.agreement["tnr"].n == 8


def test_shares_and_five_levels_are_no_two_levels():
    keys = [("one", f"q{n}") for n in range(6)]
    run = planted({key: n / 5 for n, key in enumerate(keys)})
    shares = {key: (0.0, 0.5, 1.0)[n % 3] for n, key in enumerate(keys)}
    levels = {key: 1.0 + n % 5 for n, key in enumerate(keys)}

    for labels, scale in ((shares, SCALE), (levels, LabelScale(1, 5))):
        options = Calibration(scale=scale)
        certificate = certify(run, run.scores, {RUBRIC.name: labels_of(labels)}, options)
        rubric = certificate.rubrics[RUBRIC.name]
        assert (rubric.confusion, rubric.rare) == ({}, "")
        assert "tpr" not in rubric.agreement


def test_the_lower_level_passes_where_lower_is_better():
    keys = [("one", f"q{n}") for n in range(8)]
    people = {key: float(n < 2) for n, key in enumerate(keys)}
    run = planted({key: float(n < 3) for n, key in enumerate(keys)})
    score = score_of(run)
    faults = replace(score, rubric=replace(score.rubric, direction="lower"))
    run = replace(run, scores={score.name: faults})

    certificate = certify(
        run, run.scores, {RUBRIC.name: labels_of(people)}, Calibration(scale=SCALE)
    )

    rubric = certificate.rubrics[RUBRIC.name]
    assert rubric.levels == {"pass": 0, "fail": 1}
    assert rubric.confusion["pass"] == {"pass": 5, "fail": 1}


@pytest.fixture
def table(tmp_path):
    """Ratings of three sets: labels in words, and each judge error in one set."""
    path = tmp_path / "ratings.csv"
    words = {True: "supported", False: "unsupported"}
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "judge", "label", "dataset"])
        for n in range(60):
            label = n % 3 != 0
            judge = label if n % 20 else not label
            writer.writerow([f"q{n}", words[judge], words[label], f"set {n // 20}"])
    return path


def test_a_table_of_words_needs_no_scale_and_has_groups(calibrate, table, tmp_path, assert_message):
    output = tmp_path / "judge.json"
    code, text, problem = calibrate("--ratings", table, "--by", "dataset", "-o", output)

    assert code == 0, problem
    assert_message(text)
    rubric = json.loads(output.read_text())["rubrics"]["judge"]
    assert rubric["by"] == "dataset"
    # the judge passes q0, which is a fail, and fails the passes q20 and q40
    assert rubric["groups"]["set 0"]["confusion"]["fail"] == {"pass": 1, "fail": 6}
    code, rows, _ = calibrate("--ratings", table, "--by", "dataset", "--format", "csv")
    assert_message("\n".join(line for line in rows.splitlines() if "confusion" in line))


def test_a_system_is_a_group(calibrate, table):
    text = table.read_text().replace("dataset", "system")
    table.write_text(text)

    code, text, problem = calibrate("--ratings", table, "--by", "system", "--json")

    assert code == 0, problem
    rubric = json.loads(text)["rubrics"]["judge"]
    assert [*rubric["groups"]] == ["set 0", "set 1", "set 2"]


def test_queries_in_two_groups_have_no_mean_for_a_reason(calibrate, table, assert_message):
    text = table.read_text().replace("q59,", "q1,")
    table.write_text(text.replace("dataset", "system"))

    code, text, problem = calibrate("--ratings", table, "--by", "system")

    assert code == 0, problem
    assert "mean of" not in text.partition("note:")[0]
    assert_message("\n".join(line for line in text.splitlines() if "note:" in line))


@pytest.fixture(scope="module")
def rows():
    rows = []
    for n in range(24):
        row = {"question": f"{n}?", "answer": "good" if n % 3 else "bad", "contexts": ["a"]}
        rows.append({**row, "human": n % 4 != 0, "tenant": "ab"[n % 2], "id": f"q{n}"})
    return rows


def polite(answer):
    return answer == "good"


def test_groups_of_a_scored_table(rows):
    result = rb.evaluate(rows, judge=rb.Judge(type=polite))

    rubric = rb.calibrate(result, "human", by="tenant").certificate.rubrics["polite"]

    assert [of.n for of in rubric.groups.values()] == [12, 12]
    # all labels of b are passes: 8 of 12 answers are good
    assert rubric.groups["b"].agreement["tpr"].value == pytest.approx(8 / 12)
    assert rubric.groups["b"].agreement["tnr"].reason == "people give no fail"
    with pytest.raises(OptionError, match="did you mean 'tenant'"):
        rb.calibrate(result, "human", by="tennant")


@pytest.mark.parametrize("by", ["metadata.tenant", "system", "tenant"])
def test_groups_of_a_run(rows, tmp_path, calibrate, by):
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    experiment = rb.run_experiment(
        {
            "name": "groups",
            "dataset": {"type": "records", "path": str(path)},
            "metrics": {"judge": {"type": f"python:{__name__}:polite"}},
            "output": str(tmp_path / "runs"),
        }
    )

    certificate = rb.calibrate(experiment, "human", by=by).certificate
    # the file of labels has a column tenant itself
    labels = ("--labels", path, "--column", "polite=human")
    code, text, problem = calibrate(experiment.path, *labels, "--by", by, "--json")

    assert code == 0, problem
    groups = certificate.rubrics["polite"].groups
    assert {name: of.n for name, of in groups.items()} == (
        {"given": 24} if by == "system" else {"a": 12, "b": 12}
    )
    from_file = json.loads(text)["rubrics"]["polite"]["groups"]
    assert {name: of["n"] for name, of in from_file.items()} == {
        n: of.n for n, of in groups.items()
    }


def test_groups_of_five_levels_have_kappa(assert_message):
    keys = [("one", f"q{n}") for n in range(20)]
    levels = {key: 1.0 + n % 5 for n, key in enumerate(keys)}
    run = planted({key: (label - 1) / 4 for key, label in levels.items()})
    groups = {key: "odd" if n % 2 else "even" for n, key in enumerate(keys)}

    certificate = certify(
        run, run.scores, {RUBRIC.name: labels_of(levels)}, Calibration(by="half", groups=groups)
    )

    text = render(certificate_report(certificate))
    assert_message(text[text.index("half") :].partition("\n\n")[0])
