"""The terminal's tables: aligned, complete, the same without a terminal."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.report.formats.terminal import align
from ragbench.report.text import significant
from tests.messages import lines_with
from tests.report.pages import render_terminal
from tests.report.strategies import results


def display_width(text: str) -> int:
    """Width after Unicode Annex 11, written here so that the renderer is not its own judge."""
    return sum(
        0
        if unicodedata.category(ch) in ("Mn", "Me")
        else 2
        if unicodedata.east_asian_width(ch) in "WF"
        else 1
        for ch in text
    )


def test_golden(example, golden):
    golden("report_terminal.txt", render_terminal(*example, report="runs/quickstart/latest"))


def test_colour_only_repeats_what_the_characters_say(example):
    colored = render_terminal(*example, color=True)

    assert "\x1b[" in colored
    bare = re.sub(r"\x1b\[\d+(?:;\d+)*m", "", colored)
    assert re.sub(r" +$", "", bare, flags=re.M) == render_terminal(*example)


def test_marks_of_a_measure_where_lower_is_better(example):
    text = render_terminal(*example)
    block = text[text.index("ter (lower is better)") :].partition("\n\n")[0]

    assert re.search(r"^hybrid/gpt .* 0\.640\* ", block, re.M), "the smallest is best"
    assert not re.search(r"0\.710[*=]", block, re.M)


def test_a_line_can_be_found_with_grep(example):
    assert re.search(
        r"^hybrid +0\.446\* \[0\.412, 0\.480\] +\+0\.044 \[\+0\.023, \+0\.066\] +0\.0006 +better",
        render_terminal(*example),
        re.M,
    )


@pytest.mark.parametrize("width", [20, 60, 80, 100, 1000])
def test_measures_that_do_not_fit_go_into_further_tables(example, width):
    text = render_terminal(*example, width=width)
    tables = [line for line in text.splitlines() if line.startswith("system ")]

    heads = [re.split(r" {2,}", line) for line in tables]
    columns = [
        name for head in heads for name in head[1:] if name not in ("vs bm25", "p", "verdict")
    ]
    retrieval, words = ["ndcg@10", "hit_rate@1"], ["right", "rouge1", "ter (lower is better)"]
    assert columns == [*retrieval, *words, "faithfulness"]
    assert len(tables) == {1000: 3, 100: 4, 80: 5}.get(width, 6)
    for name, head in zip(tables, heads, strict=True):
        assert len(name) <= width or len(head) <= 5, "only a single measure may be wider"


letters = st.sampled_from("ab漢かé\u0301\u05d0\uff21한 ")


@given(st.lists(st.lists(st.text(letters, max_size=6), min_size=3, max_size=3), min_size=1))
def test_all_lines_of_a_table_have_one_display_width(columns):
    rows = align(columns)

    assert len({display_width("".join(row)) for row in rows}) == 1
    assert [[cell.rstrip(" ") for cell in row] for row in rows] == [
        [cell.rstrip(" ") for cell in row] for row in zip(*columns, strict=True)
    ]


def test_wide_names_keep_the_columns(example):
    summary, comparisons = example
    summary["systems"][1]["name"] = "漢字e\u0301"
    lines = render_terminal(summary, comparisons).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("system"))

    widths = {display_width(re.split(r"\d\.\d|ndcg", line)[0]) for line in lines[start : start + 4]}
    assert len(widths) == 1


@pytest.mark.costly
@settings(deadline=None, max_examples=12)
@given(results())
def test_anything_can_be_drawn_and_every_mean_is_there(case):
    summary, comparisons = case
    text = render_terminal(summary, comparisons)

    assert all(line.isprintable() for line in text.split("\n"))
    assert text.encode("utf-8").endswith(b"\n")
    for system in summary["systems"]:
        for score in system["scores"].values():
            assert significant(score["mean"]) in text


def test_nothing_scored_at_all(assert_message):
    text = render_terminal({"name": "empty", "systems": []}, {})

    assert_message(text)


def test_the_head_is_the_result_in_words_with_warnings_gates_and_the_path(example, assert_message):
    text = render_terminal(*example, report="runs/a/report.html", head=True, verbose=False)

    assert_message(text.splitlines())
    assert_message(text)


def test_an_unfinished_run_says_so(example, assert_message):
    summary, comparisons = example
    text = render_terminal({**summary, "complete": False}, comparisons)

    assert_message(lines_with(text, "the run is incomplete"))


def test_every_judge_score_stands_under_its_label(example, assert_message):
    text = render_terminal(*example)
    title, label, head = text[text.index("\njudge words\n") + 1 :].splitlines()[:3]

    assert (title, head.split()[1]) == ("judge words", "faithfulness")
    assert_message(label)


def test_bounds_stand_where_something_failed(example, assert_message):
    line = next(ln for ln in render_terminal(*example).splitlines() if "unreadable 2" in ln)

    assert_message(line)
    assert "mean from 0.769 to 0.820" in line


def test_notes_fill_one_screen(example, assert_message):
    # With a judge, failures, gates, a warning, and more notes than there is room for.
    summary, comparisons = example
    summary["systems"] = [s for s in summary["systems"] if s["name"] not in ("dense", "bm25/gpt")]
    summary["notes"] = [f"note number {n}" for n in range(40)]
    full = render_terminal(summary, comparisons, report="runs/latest")
    text = render_terminal(summary, comparisons, report="runs/latest", verbose=False)
    lines = text.splitlines()

    assert len(full.splitlines()) > 60
    n_notes = sum(line.startswith("note: ") for line in lines)
    assert len(lines) <= 14, "no room for a note, nor for results that are not sure"
    assert n_notes == 0
    assert "surely better" in text
    assert_message(lines[0])
    table = next(line for line in lines if " right " in line)
    warning = next(line for line in lines if line.startswith("warning: "))
    assert lines.index(warning) < lines.index(table), "before the numbers"
    assert_message(lines_with(text, "gate undecided: ndcg@10"))
    assert "gate pass" in full
    assert "gate pass" not in text
    assert_message(lines_with(lines, "failed: 60 of hybrid/gpt"))
    # 40 of the run, 1 of the data set
    assert_message(lines[-2:])


def test_a_count_of_failures_names_a_score_that_the_table_leaves_out(example):
    summary, comparisons = example
    system = next(s for s in summary["systems"] if s["name"] == "bm25/gpt")
    system["scores"]["rouge1"] |= {"n": 20, "n_failed": 40, "failed": {"timeout": 40}}

    text = render_terminal(summary, comparisons, verbose=False)

    line = next(line for line in text.splitlines() if "40 of bm25/gpt" in line)
    assert line.startswith("failed: 60 of hybrid/gpt ")
    assert "40 of bm25/gpt by rouge1 (timeout 40)" in line
    assert " rouge1 " not in text.partition(line)[0]


def test_one_screen_drops_intervals_before_measures(example, assert_message):
    # Two measures with their differences; the first keeps its intervals longer.
    wide, usual, narrow = (
        render_terminal(*example, width=width, verbose=False) for width in (120, 80, 60)
    )

    assert_message(lines_with(wide, "more with --verbose: "))
    tables = [
        text.partition("\n\n")[2].partition("\nfailed: ")[0] for text in (wide, usual, narrow)
    ]
    counts = [table.count("[") / len(table.splitlines()[1:]) for table in tables]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[1] > counts[2] == 0
    assert max(map(len, tables[1].splitlines())) <= 80
