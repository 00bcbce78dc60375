"""Labels of several people, in a column or a row per rater; a judge before and after a change."""

import json

import pytest

import ragbench as rb
from ragbench.errors import DataError, OptionError
from tests.lazy import Lazy

pd = Lazy("pandas")
sklearn = Lazy("sklearn.metrics")

N = 30
ROWS = [
    {"id": f"q{n}", "question": f"{n}?", "answer": "good" if n % 3 else "bad", "contexts": ["a"]}
    for n in range(N)
]
# anna follows the judge but for two answers, ben but for three others
JUDGE = [row["answer"] == "good" for row in ROWS]
ANNA = [label is not (n in (4, 9)) for n, label in enumerate(JUDGE)]
BEN = [label is not (n in (1, 2, 3)) for n, label in enumerate(JUDGE)]


def polite(answer):
    return answer == "good"


def lenient(answer):
    return True


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(ROWS, index=[f"row {n}" for n in range(N)])


@pytest.fixture(scope="module")
def result(frame):
    return rb.evaluate(frame, judge=rb.Judge(type=polite))


def _forms(frame):
    wide = pd.DataFrame({"id": [row["id"] for row in ROWS], "anna": ANNA, "ben": BEN})
    by_rater = {"anna": ANNA, "ben": BEN}
    long = [
        {"question": row["question"], "rater": rater, "label": "yes" if labels[n] else "no"}
        for n, row in enumerate(ROWS)
        for rater, labels in by_rater.items()
    ]
    return {
        "a column per rater": wide,
        "the index of the scored frame": wide.drop(columns="id").set_index(frame.index),
        "all columns of the table": frame.assign(anna=ANNA, ben=BEN, polite=0.5),
        "a row per rater": pd.DataFrame(long).sample(frac=1, random_state=2),
        "rows": wide.to_dict("records"),
    }


FORMS = ["a column per rater", "the index of the scored frame", "all columns of the table"]
FORMS += ["a row per rater", "rows"]


def test_all_forms_are_tested(frame):
    assert [*_forms(frame)] == FORMS


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_two_raters_in_each_form(frame, result, form):
    rubric = rb.calibrate(result, _forms(frame)[form]).certificate.rubrics["polite"]

    assert sorted(rubric.labels.raters) == ["anna", "ben"]
    assert rubric.ceiling["raw"].value == pytest.approx(sklearn.accuracy_score(ANNA, BEN))
    assert rubric.ceiling["kappa"].value == pytest.approx(sklearn.cohen_kappa_score(ANNA, BEN))
    kappas = [sklearn.cohen_kappa_score(people, JUDGE) for people in (ANNA, BEN)]
    assert rubric.agreement["kappa"].value == pytest.approx(sum(kappas) / 2)


def test_raters_may_be_columns_of_the_scored_table(frame):
    result = rb.evaluate(frame.assign(anna=ANNA, ben=BEN), judge=polite)

    rubric = rb.calibrate(result, ["anna", "ben"]).certificate.rubrics["polite"]

    assert list(rubric.labels.raters) == ["anna", "ben"]
    assert rubric.ceiling["raw"].value == pytest.approx(sklearn.accuracy_score(ANNA, BEN))


def test_a_key_that_a_row_lacks_is_no_label(result):
    rows = []
    for n, row in enumerate(ROWS):
        ben = {"ben": BEN[n]} if n > 17 else {}
        rows.append({"id": row["id"], "anna": ANNA[n], **ben})

    rubric = rb.calibrate(result, rows).certificate.rubrics["polite"]

    assert list(rubric.labels.raters) == ["anna", "ben"]
    assert (rubric.labels.n, rubric.ceiling["raw"].n) == (30, 12)


def test_the_sentence_on_two_raters(result, frame, assert_message):
    calibration = rb.calibrate(result, _forms(frame)["a column per rater"])

    assert_message("\n".join(calibration.sentences))


def test_raters_may_label_parts_and_have_groups(result):
    table = pd.DataFrame(
        {"id": [row["id"] for row in ROWS], "anna": ANNA, "ben": BEN, "half": ["a", "b"] * 15}
    )
    table["ben"] = table["ben"].where(table.index < 12)

    rubric = rb.calibrate(result, table, by="half").certificate.rubrics["polite"]

    assert rubric.ceiling["raw"].n == 12
    assert rubric.labels.n == N
    assert {name: of.n for name, of in rubric.groups.items()} == {"a": 15, "b": 15}


@pytest.mark.parametrize(
    ("columns", "index"),
    [
        ({"id": ["q1", "q1"], "anna": [1, 0]}, None),
        ({"id": ["q1", "q1"], "rater": ["a", "a"], "label": ["no", "yes"]}, None),
        ({"id": ["q1"], "anna": ["well put"]}, None),
        ({"question": ["none?"], "anna": ["yes"]}, None),
        ({"id": ["q1"]}, None),
        ({"anna": ["yes"]}, ["row 99"]),
    ],
    ids=["repeated", "repeated by a rater", "no label", "no such question", "no rater", "index"],
)
def test_tables_that_do_not_fit_are_refused(result, columns, index, assert_message):
    table = pd.DataFrame(columns, index)
    with pytest.raises((DataError, OptionError)) as caught:
        rb.calibrate(result, table)

    assert_message(caught.value)


def test_a_file_with_a_column_of_raters(frame, tmp_path, calibrate):
    answers, labels = tmp_path / "answers.jsonl", tmp_path / "labels.csv"
    answers.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    _forms(frame)["a row per rater"].to_csv(labels, index=False)
    config = {
        "name": "raters",
        "dataset": {"type": "records", "path": str(answers)},
        "metrics": {"judge": {"type": f"python:{__name__}:polite"}},
        "output": str(tmp_path / "runs"),
    }
    run = rb.run_experiment(config)

    code, text, problem = calibrate(run.path, "--labels", labels, "--json")

    assert code == 0, problem
    rubric = json.loads(text)["rubrics"]["polite"]
    assert sorted(rubric["labels"]["raters"]) == ["anna", "ben"]
    assert rubric["ceiling"]["raw"]["value"] == pytest.approx(sklearn.accuracy_score(ANNA, BEN))
    # the same labels for the run in Python
    again = rb.calibrate(run, _forms(frame)["a column per rater"])
    assert again.to_dict()["rubrics"]["polite"]["ceiling"] == rubric["ceiling"]


@pytest.mark.parametrize("form", ["a result", "a calibration"])
def test_a_changed_judge_before_and_after(frame, result, form, assert_message):
    labels = dict(zip((row["id"] for row in ROWS), ANNA, strict=True))
    earlier = rb.evaluate(frame, judge=rb.Judge(type=lenient))
    before = earlier if form == "a result" else rb.calibrate(earlier, labels)

    calibration = rb.calibrate(result, labels, before=before)

    (change,) = calibration.changes
    flips = {of.query_id: (of.flip, of.judge_before, of.judge) for of in calibration.flipped}
    expected = {}
    for row, label, judge in zip(ROWS, ANNA, JUDGE, strict=True):
        # the earlier judge passes everything
        if (label is judge) is not label:
            expected[row["id"]] = ("gained" if label is judge else "lost", 2, 1 + judge)
    assert flips == expected
    assert change.difference.mean == pytest.approx((28 - sum(ANNA)) / N)
    assert_message(calibration.sentences[-1])
    table = calibration.to_pandas()
    assert (table["flip"] == "gained").sum() == sum(of[0] == "gained" for of in flips.values())


def test_before_needs_the_same_answers(result, assert_message):
    other = rb.evaluate([{**ROWS[0], "answer": "other"}], judge=rb.Judge(type=polite))

    with pytest.raises(OptionError) as caught:
        rb.calibrate(result, ANNA, before=other)

    assert_message(caught.value)
