"""Labels that came back: sheets, files of the user's own, and what can be wrong with them."""

import csv
import json

import pytest

from ragbench.calibration.draw import draw
from ragbench.calibration.label_files import read_labels
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.sheet import COLUMNS, sheet_rows
from ragbench.errors import DataError, OptionError
from tests.calibration.runs import RUBRIC, planted, score_of

SCORES = {(system, f"q{n}"): n / 9 for system in ("one", "two") for n in range(10)}
RUN = planted(SCORES)


def _read(*paths, run=RUN, scale=None, columns=None):
    return read_labels(paths, run, list(run.scores.values()), scale, columns or {})[RUBRIC.name]


@pytest.fixture
def write(tmp_path):
    def to(text, name="labels.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return to


@pytest.fixture
def sheet(tmp_path):
    """Write a sheet of ten answers whose labels a function of the row's number gives."""

    def to(name="sheet.csv", label=lambda number: 1 + number % 5, **extra):
        drawn = draw(RUN, score_of(RUN), 10, seed=1)
        rows = sheet_rows(RUN, [(drawn, RUBRIC)])
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, [*COLUMNS, *extra])
            writer.writeheader()
            for number, cells in enumerate(rows):
                row = dict(zip(COLUMNS, cells, strict=True)) | {"label": label(number)}
                writer.writerow(row | {key: of(number) for key, of in extra.items()})
        return path, drawn

    return to


def test_a_sheet_leads_back_to_the_answers(sheet):
    path, drawn = sheet()

    labels = _read(path)

    assert labels.by_rater == {"label": {key: 1.0 + n % 5 for n, key in enumerate(drawn.keys)}}
    assert set(labels.draws.values()) == {drawn.signature}


def test_a_label_below_zero_may_have_the_apostrophe_of_the_page(sheet):
    path, drawn = sheet(label=lambda number: f"'-{number % 3}")

    labels = _read(path, scale=LabelScale(-2, 0))

    assert labels.by_rater == {"label": {key: -float(n % 3) for n, key in enumerate(drawn.keys)}}


def test_namesakes_in_two_folders_are_two_raters(write, tmp_path, assert_message):
    paths = []
    for folder, label in (("ann", 1), ("bob", 5)):
        (tmp_path / folder).mkdir()
        paths.append(write(f"query_id,system,label\nq1,one,{label}\n", f"{folder}/labels.csv"))

    raters = _read(*paths).by_rater

    assert raters == {
        f"{paths[0]}:label": {("one", "q1"): 1.0},
        f"{paths[1]}:label": {("one", "q1"): 5.0},
    }
    with pytest.raises(DataError) as caught:
        _read(paths[0], paths[0])
    assert_message(caught.value, "TMP/ann/labels.csv")


def test_missing_labels_are_counted_not_guessed(sheet):
    path, drawn = sheet(label=lambda number: "" if number > 6 else " 4.0 ")

    labels = _read(path)

    assert len(labels.labelled) == 7
    assert set(labels.draws) == set(drawn.keys)


def test_raters_are_columns_or_sheets(sheet):
    columns, _ = sheet("both.csv", label=lambda _: "", label_1=lambda _: 2, label_2=lambda _: 3)
    anna, ben = sheet("anna.csv")[0], sheet("ben.csv")[0]

    assert list(_read(columns).by_rater) == ["label_1", "label_2"]
    assert list(_read(anna, ben).by_rater) == ["anna:label", "ben:label"]


def test_further_columns_of_a_sheet_are_raters(sheet):
    # the label of each rater: 2, and 1, 2, 3 in turn with one missing
    columns = {"anna": lambda _: 2, "ben": lambda n: 1 + n % 3 if n else "", "later": lambda _: ""}
    path, drawn = sheet("people.csv", label=lambda _: "", **columns)

    assert _read(path).by_rater == {
        "anna": dict.fromkeys(drawn.keys, 2.0),
        "ben": {key: 1.0 + n % 3 for n, key in enumerate(drawn.keys) if n},
    }
    # a column of labels, or of the user's choice, counts alone
    labelled, _ = sheet("labelled.csv", **columns)
    assert list(_read(labelled).by_rater) == ["label"]
    assert list(_read(path, columns={RUBRIC.name: ["ben"]}).by_rater) == ["ben"]


@pytest.mark.parametrize("lacking", [{0, 3, 7}, {5, 9}])
@pytest.mark.parametrize("name", ["ben", "label", "label_2"])
def test_a_key_that_a_row_of_json_lacks_is_an_empty_cell(sheet, write, lacking, name):
    path, drawn = sheet(label=lambda _: "")
    lines = []
    with path.open(encoding="utf-8", newline="") as stream:
        for n, row in enumerate(csv.DictReader(stream)):
            cells = {} if n in lacking else {name: 1 + n % 3}
            lines.append(json.dumps({k: v for k, v in row.items() if k != "label"} | cells) + "\n")
    labels = write("".join(lines), "people.jsonl")

    expected = {key: 1.0 + n % 3 for n, key in enumerate(drawn.keys) if n not in lacking}
    assert _read(labels).by_rater == {name: expected}
    assert _read(labels, columns={RUBRIC.name: [name]}).by_rater == {name: expected}


def test_labels_of_raters_beside_a_few_usual_ones_are_refused(sheet, assert_message):
    columns = {"anna": lambda _: 2, "ben": lambda n: 3 if n != 1 else ""}
    path, drawn = sheet("people.csv", label=lambda n: 4 if n == 0 else "", **columns)

    with pytest.raises(DataError) as caught:
        _read(path)
    assert_message(caught.value, "TMP/people.csv")
    # both ways out of the message
    assert _read(path, columns={RUBRIC.name: ["label"]}).by_rater == {"label": {drawn.keys[0]: 4.0}}
    emptied, _ = sheet("emptied.csv", label=lambda n: " " if n == 0 else "", **columns)
    assert list(_read(emptied).by_rater) == ["anna", "ben"]
    # notes, and labels in the same rows, leave the usual column alone
    texts = {"notes": lambda _: "short", "anna": lambda n: 2 if n == 0 else ""}
    noted, _ = sheet("noted.csv", label=lambda n: 4 if n == 0 else "", **texts)
    assert _read(noted).by_rater == {"label": {drawn.keys[0]: 4.0}}


def test_a_further_column_with_other_text_leaves_the_raters_unclear(sheet, assert_message):
    columns = {"anna": lambda _: 2, "notes": lambda n: "too short" if n == 3 else ""}
    path, _ = sheet("people.csv", label=lambda _: "", **columns)

    with pytest.raises(DataError) as caught:
        _read(path)
    # below the head and three rows, each with passages over several lines
    assert_message(caught.value, "TMP/people.csv")
    assert list(_read(path, columns={RUBRIC.name: ["anna"]}).by_rater) == ["anna"]


def test_a_wrong_label_among_labels_names_the_labels_of_its_rubric(sheet, assert_message):
    columns = {"anna": lambda _: 2, "ben": lambda n: 6 if n == 3 else 1 + n % 5}
    path, _ = sheet("people.csv", label=lambda _: "", **columns)

    with pytest.raises(DataError) as caught:
        _read(path)
    assert_message(caught.value, "TMP/people.csv")


def test_a_column_without_a_label_is_none_of_a_rater(sheet, assert_message):
    columns = {"anna": lambda _: 2, "ben": lambda n: 6 if n == 3 else 1, "date": lambda _: "June"}
    path, _ = sheet("people.csv", label=lambda _: "", **columns)

    with pytest.raises(DataError) as caught:
        _read(path)
    assert_message(caught.value, "TMP/people.csv")


def test_a_file_of_the_users_own(write):
    by_name = write("query_id,system,tone,mine,yours\nq0,one,2,3,4\nq1,two,5,,4\n")
    columns = {RUBRIC.name: ["mine", "yours"]}
    jsonl = write('{"query_id": "q0", "system": "one", "answer_relevancy": 4}\n', "l.jsonl")

    assert _read(by_name, columns=columns).by_rater == {
        "mine": {("one", "q0"): 3.0},
        "yours": {("one", "q0"): 4.0, ("two", "q1"): 4.0},
    }
    assert _read(jsonl).by_rater == {"answer_relevancy": {("one", "q0"): 4.0}}


def test_one_system_needs_no_column(write):
    run = planted({("given", f"q{n}"): 0.5 for n in range(3)})

    labels = _read(write("query_id,label\nq1,0.5\n"), run=run, scale=LabelScale(0, 1))

    assert labels.by_rater == {"label": {("given", "q1"): 0.5}}


def test_a_byte_order_mark_and_blank_lines_of_a_spreadsheet(write):
    text = "\ufeffquery_id,system,label\r\nq0,one,3\r\n\r\nq1,one,4\r\n"

    assert len(_read(write(text)).labelled) == 2


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("query_id,system,label\nq0,one,6\n", "TMP/labels.csv:2: label"),  # off the scale of 1 to 5
        ("query_id,system,label\nq0,one,good\n", "TMP/labels.csv:2: label"),  # a word
        ("query_id,system,label\nq0,one,nan\n", "TMP/labels.csv:2: label"),  # NaN is no label
        # the same answer twice
        (
            "query_id,system,label\nq0,one,3\nq0,one,3\n",
            "TMP/labels.csv:3",
        ),
        # an unknown query
        (
            "query_id,system,label\nq99,one,3\n",
            "TMP/labels.csv:2",
        ),
        ("query_id,system,label\nq0,ones,3\n", "TMP/labels.csv:2"),  # an unknown system
        ("query_id,label\nq0,3\n", "TMP/labels.csv:2"),  # two systems, and no column for them
        ("system,label\none,3\n", "TMP/labels.csv:2"),  # no query
        # a label column of another name
        ("query_id,system,rating\nq0,one,3\n", "TMP/labels.csv:2"),
        ("query_id,system,label\nq0,one,\n", "TMP/labels.csv"),  # a sheet without any label
        ("item,label\na123,3\n", "TMP/labels.csv:2"),  # an item of another run
        ("query_id,system,label,label\n", "TMP/labels.csv:1"),  # two columns of one name
    ],
)
def test_what_is_wrong_is_said_with_its_line(write, text, place, assert_message):
    with pytest.raises(DataError) as caught:
        _read(write(text))
    assert_message(caught.value, place)


def test_a_column_that_is_not_there(write, assert_message):
    path = write("query_id,system,mine\nq0,one,3\n")

    with pytest.raises(DataError) as caught:
        _read(path, columns={RUBRIC.name: ["mind"]})
    assert_message(caught.value, "TMP/labels.csv:2")
    with pytest.raises(OptionError) as caught:
        _read(path, columns={"tone": ["mine"]})
    assert_message(caught.value, "--column: rubric")


def test_the_sheet_of_another_run_is_not_taken(sheet, assert_message):
    path, _ = sheet()
    other = planted(SCORES, answers=dict.fromkeys(SCORES, "a new answer"))

    with pytest.raises(DataError) as caught:
        _read(path, run=other)
    assert_message(caught.value, "TMP/sheet.csv:2")
