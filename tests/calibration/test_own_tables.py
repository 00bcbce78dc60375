"""Labels where they are: in the table of the answers, as words, or as its metadata."""

import csv
import json

import pytest

import ragbench as rb
from ragbench.calibration.judged_run import read_judged_run
from ragbench.calibration.label_files import read_labels
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.label_words import label_words
from ragbench.errors import DataError
from ragbench.score.judge.rubric import load_rubric

COLUMNS = ["question", "contexts", "answer", "system", "human"]
ROWS = [
    ["Who?", "Ann did.", "Ann", "a", "yes"],
    ["Who?", "Ann did.", "Bob", "b", "no"],
    ["When?", "In 1932.", "1932", "a", "yes"],
    ["When?", "In 1932.", "1932", "b", "no"],
    ["Where?", "In Graz.", "Graz", "a", ""],
    ["Where?", "In Graz.", "Wien", "b", "no"],
]


def share(item):
    return float(item.answer in item.contexts[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run whose table has the labels of people in a column."""
    folder = tmp_path_factory.mktemp("labels")
    _write(folder / "answers.csv", COLUMNS, ROWS)
    judge = {"type": f"python:{__name__}:share"}
    dataset = {"type": "records", "path": str(folder / "answers.csv")}
    config = {"name": "labels", "dataset": dataset, "metrics": {"judge": judge}}
    return rb.run_experiment({**config, "output": str(folder / "runs")}).path


def _write(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return path


def _labels(folder, path, columns=None):
    """Labels of a file by (system, question)."""
    run = read_judged_run(folder)
    labels = read_labels([path], run, list(run.scores.values()), None, columns or {})
    by_key = next(iter(labels["share"].by_rater.values()))
    return {(key[0], run.answers[key].question): label for key, label in by_key.items()}


EXPECTED = {
    ("a", "Who?"): 2.0,
    ("b", "Who?"): 1.0,
    ("a", "When?"): 2.0,
    ("b", "When?"): 1.0,
    ("b", "Where?"): 1.0,
}


def test_rows_are_found_by_question_system_and_answer(run, tmp_path):
    path = _write(tmp_path / "answers.csv", COLUMNS, ROWS)

    assert _labels(run, path, {"share": ["human"]}) == EXPECTED


def test_the_answer_stands_for_the_system_where_answers_differ(run, tmp_path):
    rows = [[question, answer, label] for question, _, answer, _, label in ROWS[:2]]
    path = _write(tmp_path / "labels.csv", ["Q", "answer", "share"], rows)

    assert _labels(run, path, {"question": ["Q"]}) == {("a", "Who?"): 2.0, ("b", "Who?"): 1.0}


@pytest.mark.parametrize(
    "cells",
    [
        {"question": "Why?", "system": "a", "answer": "Ann"},
        {"question": "Who?", "system": "a", "answer": "Eve"},
        {"question": "When?", "answer": "1932"},  # both systems gave this answer
        {"system": "a", "answer": "Ann"},
    ],
    ids=["unknown question", "another answer", "two answers fit", "no question"],
)
def test_a_row_that_fits_no_answer_or_several_is_refused(run, tmp_path, cells, assert_message):
    path = _write(tmp_path / "labels.csv", [*cells, "share"], [[*cells.values(), "yes"]])

    with pytest.raises(DataError) as caught:
        _labels(run, path)

    assert_message(caught.value, "TMP/labels.csv:2")


@pytest.mark.parametrize(
    "texts",
    [{"question": "When? "}, {"question": "Who?", "answer": "Eve"}],
    ids=["question of another id", "answer of another run"],
)
def test_a_row_with_an_id_and_other_texts_is_refused(tmp_path, texts, calibrate, assert_message):
    # Bug: the id alone counted, so that a label went to an answer that nobody labelled
    table = [[f"q{n}", *row] for n, row in enumerate(ROWS)]
    _write(tmp_path / "answers.csv", ["id", *COLUMNS], table)
    judge = {"type": f"python:{__name__}:share"}
    dataset = {"type": "records", "path": str(tmp_path / "answers.csv")}
    config = {"name": "ids", "dataset": dataset, "metrics": {"judge": judge}}
    run = rb.run_experiment({**config, "output": str(tmp_path / "runs")}).path
    good = {"query_id": "q0", "system": "a", "question": "who", "answer": " Ann", "share": "yes"}
    path = _write(tmp_path / "good.csv", [*good], [[*good.values()]])
    assert _labels(run, path) == {("a", "Who?"): 2.0}

    row = good | texts
    path = _write(tmp_path / "labels.csv", [*row], [[*row.values()]])
    code, _, error = calibrate(run, "--labels", path)

    assert code == 2
    assert_message(error, "TMP/labels.csv:2")


def test_metadata_that_differ_between_systems_are_labels_of_each(run, calibrate):
    code, out, _ = calibrate(run, "--labels", "metadata.human", "--format", "json")

    assert code == 0
    assert '"n": 5' in out
    # the judge is wrong on 1932 of b alone
    assert '"value": 0.8' in out


def test_a_column_of_metadata_that_no_answer_has(run, calibrate, assert_message):
    code, _, error = calibrate(run, "--labels", "metadata.humen")

    assert code != 0
    assert_message(error, "--labels")


@pytest.mark.parametrize("word", ["good", "incorrect"])
def test_a_word_in_metadata_that_is_no_label_names_its_question(
    tmp_path, word, calibrate, assert_message
):
    rows = [ROWS[0], [*ROWS[1][:-1], word]]
    _write(tmp_path / "answers.csv", COLUMNS, rows)
    judge = {"type": f"python:{__name__}:share"}
    dataset = {"type": "records", "path": str(tmp_path / "answers.csv")}
    config = {"name": "words", "dataset": dataset, "metrics": {"judge": judge}}
    run = rb.run_experiment({**config, "output": str(tmp_path / "runs")}).path

    code, _, error = calibrate(run, "--labels", "metadata.human")

    assert code == 2
    assert_message(error, "metadata.human: row 1 'Who?' of b: human")


@pytest.mark.parametrize("name", ["human", "labels.csv"])
def test_a_file_of_labels_that_is_absent_may_be_a_column(run, name, calibrate, assert_message):
    code, _, error = calibrate(run, "--labels", name)

    assert code == 2
    assert_message(error, name)


@pytest.mark.parametrize(
    ("cells", "levels"), [("01", {"pass": 1, "fail": 0}), ("12", {"pass": 2, "fail": 1})]
)
def test_labels_are_printed_as_they_were_written(run, tmp_path, cells, levels, calibrate):
    rows = [["Who?", "a", cells[0]], ["Who?", "b", cells[1]], ["When?", "a", cells[1]]]
    path = _write(tmp_path / "labels.csv", ["question", "system", "share"], rows)
    page = tmp_path / "d.csv"

    code, out, _ = calibrate(run, "--labels", path, "--json", "--disagreements", page)

    assert code == 0
    assert json.loads(out)["rubrics"]["share"]["levels"] == levels
    with page.open(encoding="utf-8", newline="") as stream:
        disagreements = list(csv.DictReader(stream))
    assert [row["labels"] for row in disagreements] == [
        f"share: {cells[0]}",
        f"share: {cells[1]}",
    ]
    assert [float(row["judge"]) for row in disagreements] == [levels["pass"], levels["fail"]]


@pytest.mark.parametrize("cells", ["01", "10", ("True", "False"), ("PASS", "fail")])
def test_labels_of_two_levels_are_numbers_from_zero_or_words(run, tmp_path, cells):
    rows = [["Who?", "a", cells[0]], ["Who?", "b", cells[1]]]
    path = _write(tmp_path / "labels.csv", ["question", "system", "share"], rows)

    upper = {"1", "True", "PASS"}
    assert list(_labels(run, path).values()) == [1.0 + (cell in upper) for cell in cells]


@pytest.mark.parametrize("cells", ["11", ("1", "yes"), ("1.0", "")])
def test_a_1_without_0_or_2_may_mean_either_level(run, tmp_path, cells, calibrate, assert_message):
    rows = [["Who?", "a", cells[0]], ["Who?", "b", cells[1]]]
    path = _write(tmp_path / "labels.csv", ["question", "system", "share"], rows)

    with pytest.raises(DataError) as caught:
        _labels(run, path)

    assert_message(caught.value, "TMP/labels.csv:2")
    for scale in ("0..1", "1..2"):
        code, _, _ = calibrate(run, "--labels", path, "--scale", scale)
        assert code == 0


def test_words_of_a_rubric_where_lower_is_better():
    words = label_words(LabelScale(0, 1), load_rubric("hallucination"))

    # hallucinated: yes is the upper end, a pass the lower one
    assert (words["yes"], words["pass"], words["supported"]) == (1, 0, 0)


def test_texts_of_levels_are_labels():
    rubric = load_rubric(
        {"name": "tone", "needs": ["answer"], "scale": {1: "Rude", 2: "Cool", 3: "Kind"}}
    )

    words = label_words(LabelScale.of_rubric(rubric), rubric)

    assert [words[text] for text in ("rude", "cool", "kind", "no")] == [1, 2, 3, 1]


@pytest.mark.parametrize("name", ["shar", "Share"])
def test_a_misspelt_rubric_is_named_and_another_one_is_left_out(
    run, tmp_path, name, assert_message
):
    header = ["question", "system", "rubric", "label"]
    rows = [["Who?", "a", "share", "yes"], ["Who?", "b", "politeness", "no"]]
    path = _write(tmp_path / "labels.csv", header, rows)
    assert _labels(run, path) == {("a", "Who?"): 2.0}

    path = _write(tmp_path / "labels.csv", header, [*rows, ["When?", "a", name, "no"]])
    with pytest.raises(DataError) as caught:
        _labels(run, path)
    assert_message(caught.value, "TMP/labels.csv:4")
