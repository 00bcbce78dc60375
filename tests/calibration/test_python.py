"""`rb.calibrate`: labels from a notebook in all their forms."""

import json

import pytest

import ragbench as rb
from ragbench.errors import DataError, OptionError
from tests.lazy import Lazy

pd = Lazy("pandas")
sklearn = Lazy("sklearn.metrics")

TRUTH = [n % 3 != 0 for n in range(30)]
ROWS = [
    {
        "id": f"q{n}",
        "question": f"{n}?",
        "answer": "good" if truth else "bad",
        "contexts": ["a passage"],
        "human": truth if n not in (4, 9) else not truth,
    }
    for n, truth in enumerate(TRUTH)
]


def polite(answer):
    return float(answer == "good"), f"it is {answer}"


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(ROWS, index=[f"row {n}" for n in range(30)])


@pytest.fixture(scope="module")
def result(frame):
    return rb.evaluate(frame, judge=rb.Judge(type=polite))


def _forms(frame):
    words = ["pass" if row["human"] else "fail" for row in ROWS]
    return {
        "a column": "human",
        "a mapping of ids": {row["id"]: row["human"] for row in ROWS},
        "a list": words,
        "a series with the index of the frame": frame["human"].sample(frac=1, random_state=1),
        "a series of ids": pd.Series(words, index=frame["id"]),
        "an array": frame["human"].to_numpy(),
    }


FORMS = ["a column", "a mapping of ids", "a list", "a series with the index of the frame"]
FORMS += ["a series of ids", "an array"]


def test_all_forms_are_tested(frame):
    assert [*_forms(frame)] == FORMS


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_each_form_give_the_same_certificate(result, frame, form):
    calibration = rb.calibrate(result, _forms(frame)[form])

    rubric = calibration.certificate.rubrics["polite"]
    judge = [row["answer"] == "good" for row in ROWS]
    people = [row["human"] for row in ROWS]
    assert rubric.labels.n == 30
    assert rubric.agreement["raw"].value == pytest.approx(28 / 30)
    assert rubric.agreement["kappa"].value == pytest.approx(
        sklearn.cohen_kappa_score(people, judge)
    )
    assert [of.query_id for of in calibration.disagreements] == ["q4", "q9"]
    assert calibration.disagreements[0].reason == "it is good"


def test_the_report_and_its_files(result, tmp_path, assert_message):
    calibration = rb.calibrate(result, "human")

    assert_message(repr(calibration))
    calibration.save(tmp_path / "judge.json")
    assert json.loads((tmp_path / "judge.json").read_text()) == calibration.to_dict()
    table = calibration.to_pandas()
    assert table["query_id"].tolist() == ["q4", "q9"]
    assert table["difference"].tolist() == [1.0, -1.0]


def test_missing_labels_are_left_out(result):
    labels = [row["human"] if n % 2 else None for n, row in enumerate(ROWS)]

    rubric = rb.calibrate(result, labels).certificate.rubrics["polite"]

    assert (rubric.labels.n, rubric.labels.without_label) == (15, 15)


def test_a_saved_result_has_the_scale_of_its_rubric(result, tmp_path):
    result.save(tmp_path / "result.json")

    loaded = rb.load(tmp_path / "result.json")

    assert rb.calibrate(loaded, "human").sentences == rb.calibrate(result, "human").sentences


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ("humen", {}),
        (["yes"], {}),
        ({"q99": 1}, {}),
        ({"q1": 1}, {"rubric": "polit"}),
        ({"q1": 1}, {"scale": "1"}),
    ],
    ids=["no such column", "one label of 30", "no such id", "no such rubric", "no scale"],
)
def test_labels_that_do_not_fit_are_refused(result, labels, options, assert_message):
    with pytest.raises(OptionError) as caught:
        rb.calibrate(result, labels, **options)

    assert_message(caught.value)


@pytest.fixture(scope="module")
def numbered():
    """A result whose ids are 1 to 30, and the index of its frame 0 to 29."""
    rows = [{**row, "id": number} for number, row in enumerate(ROWS, start=1)]
    return rb.evaluate(pd.DataFrame(rows), judge=rb.Judge(type=polite))


@pytest.mark.parametrize("index", ["id", "qid", "of the frame"])
@pytest.mark.parametrize("form", [pd.Series, lambda labels: pd.DataFrame({"anna": labels})])
def test_an_index_of_ids_is_told_by_its_name(numbered, form, index):
    # Bug: numbers that stand in both indexes were taken for places, and each label moved by one
    words = ["pass" if row["human"] else "fail" for row in ROWS]
    names = range(30) if index == "of the frame" else pd.Index(range(1, 31), name=index)
    labels = form(pd.Series(words, index=names).iloc[2:20])

    calibration = rb.calibrate(numbered, labels)

    assert calibration.certificate.rubrics["polite"].labels.n == 18
    assert {of.query_id for of in calibration.disagreements} == {"5", "10"}


def test_ids_are_one_whatever_their_type(numbered):
    words = ["pass" if row["human"] else "fail" for row in ROWS]
    labels = dict(zip([1, 2.0, "3"], words, strict=False))

    rubric = rb.calibrate(numbered, labels).certificate.rubrics["polite"]

    assert (rubric.labels.n, rubric.agreement["raw"].value) == (3, 1.0)


@pytest.mark.parametrize(
    "labels",
    [{7: 1, "7": 0}, pd.Series([1, 0, 1], index=[3, 4, 4]), [{"anna": 1}] * 30],
    ids=["an id twice", "a row twice", "rows without ids"],
)
def test_labels_without_one_answer_each_are_refused(numbered, labels, assert_message):
    with pytest.raises((OptionError, DataError)) as caught:
        rb.calibrate(numbered, labels)

    assert_message(caught.value)


def test_an_index_that_repeats_names_no_row(assert_message):
    frame = pd.DataFrame(ROWS, index=[0, 0, *range(2, 30)])
    with pytest.warns(UserWarning, match="labels of the index repeat"):
        result = rb.evaluate(frame, judge=rb.Judge(type=polite))

    with pytest.raises(OptionError) as caught:
        rb.calibrate(result, frame["human"])

    assert_message(caught.value)


def test_a_word_that_is_no_label_names_the_answer(result, assert_message):
    with pytest.raises(DataError) as caught:
        rb.calibrate(result, {"q1": "maybe"})

    assert_message(caught.value)


def test_a_result_without_a_judge(assert_message):
    result = rb.evaluate([{"question": "a?", "answer": "b", "reference": "b"}], ["rouge1"])

    with pytest.raises(DataError) as caught:
        rb.calibrate(result, [1])

    assert_message(caught.value)


def test_an_experiment_of_two_systems(tmp_path):
    rows = []
    for system in ("a", "b"):
        for row in ROWS:
            rows.append({**row, "system": system, "human": row["human"] and system == "a"})
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    experiment = rb.run_experiment(
        {
            "name": "two",
            "dataset": {"type": "records", "path": str(path)},
            "metrics": {"judge": {"type": f"python:{__name__}:polite"}},
            "output": str(tmp_path / "runs"),
        }
    )

    by_key = {(row["system"], row["id"]): row["human"] for row in rows}
    calibrations = [rb.calibrate(experiment, labels) for labels in ("human", by_key)]

    values = [of.certificate.rubrics["polite"].agreement["raw"].value for of in calibrations]
    # a: 28 of 30; b: the 10 bad answers
    assert values == pytest.approx([38 / 60, 38 / 60])
