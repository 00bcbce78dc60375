"""The sheet: blind, complete, and harmless in a spreadsheet."""

import csv
import io

import pytest

from ragbench.calibration.draw import draw
from ragbench.calibration.sheet import COLUMNS, scale_text, sheet_rows
from ragbench.data.runs.run_folder import to_csv
from ragbench.score.judge.rubric import load_rubric
from tests.calibration.runs import RUBRIC, planted, score_of

SCORES = {(system, f"q{n}"): n / 9 for system in ("secret-one", "secret-two") for n in range(10)}


def _sheet(answers=None, rubric=RUBRIC):
    run = planted(SCORES, answers=dict.fromkeys(SCORES, "an answer") | (answers or {}))
    drawn = draw(run, score_of(run), 20, seed=1)
    text = to_csv(COLUMNS, sheet_rows(run, [(drawn, rubric)]))
    return text, list(csv.DictReader(io.StringIO(text)))


def test_it_names_no_system_and_no_score():
    text, rows = _sheet()

    assert "secret" not in text
    assert len(rows) == 20
    assert {row["label"] for row in rows} == {""}
    assert len({row["item"] for row in rows}) == 20
    assert not any("q3" in row["item"] for row in rows)


def test_rows_are_not_in_the_order_of_systems_or_scores():
    run = planted(SCORES)
    keys = list(draw(run, score_of(run), 20, seed=1).keys)

    assert sorted(keys) not in (keys, keys[::-1])
    assert sorted(keys, key=SCORES.get) not in (keys, keys[::-1])


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_cell_is_a_formula(start):
    _, rows = _sheet(dict.fromkeys(SCORES, f"{start}HYPERLINK(1)"))

    for row in rows:
        assert not [cell for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t"))]
        assert row["answer"] == f"'{start}HYPERLINK(1)"
        assert row["question"].startswith("'=question")


def test_it_shows_what_the_rubric_needs_and_nothing_else():
    columns = {
        name: {c for c in ("question", "passages", "reference") if row[c]}
        for name in ("faithfulness", "answer_relevancy", "correctness")
        for row in _sheet(rubric=load_rubric(name))[1][:1]
    }

    assert columns["faithfulness"] == {"question", "passages"}
    assert "passages" not in columns["answer_relevancy"]
    assert "reference" in columns["correctness"]


def test_the_scale_is_said_in_words(assert_message):
    assert scale_text(RUBRIC).startswith("1: ")
    assert "; 5: " in scale_text(RUBRIC)
    assert_message(scale_text(load_rubric("faithfulness")))
