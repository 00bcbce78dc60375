"""Tables in each format: what a reader needs is in all of them, and a new format is everywhere."""

import csv
import io
import json
import os
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.report import formats
from ragbench.report.formats import FORMATS, render
from ragbench.report.formats.base import Screen
from ragbench.report.formats.terminal import draw_table
from ragbench.report.table import (
    Fold,
    Heading,
    Legend,
    Paragraph,
    SentenceList,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    change,
    data_table,
    label,
    number,
    number_table,
    rewrite,
    word_table,
)
from tests.commands import run_command
from tests.experiment.moons import moons_config, write_moons

SENTENCE = "the gold document is at rank 14, and a generator would read the first five of them"


def report_of(*blocks, rows=()):
    return TableReport(tuple(blocks), data_table(("system", "mean"), rows), "12 queries")


def marked_table():
    """A sure best value with letters, a tied one, a baseline, and a missing value."""
    best = replace(number(0.4462, (0.412, 0.48)), mark="best", letters="ab")
    tied = replace(number(0.4, (0.3, 0.5)), mark="tied")
    rows = [
        (label("hy|brid_1"), best, change(0.0442, (0.023, 0.066)), label("better")),
        (label("bm25"), tied, TableCell(), label("baseline")),
        (label("none"), number(None), change(None), label("not compared")),
    ]
    columns = (
        *(TableColumn("system"), TableColumn("ndcg@10", "number", breaks=True)),
        *(TableColumn("vs bm25", "number"), TableColumn("verdict")),
    )
    return Table(columns, tuple(rows), "retrieval")


LEGEND = Legend(
    (
        ("[low, high]", "interval"),
        ("*", "surely better"),
        ("=", "not shown to be worse"),
        ("letters behind a value", "better than these"),
        ("vs bm25", "difference"),
        ("identical", "the same everywhere"),
    )
)


def test_marks_intervals_and_baselines_on_a_terminal(assert_message):
    # intervals are aligned behind their values, however many letters a value has
    assert_message(render(report_of(marked_table(), LEGEND)).splitlines()[:6])


def test_marks_intervals_and_baselines_in_markdown(assert_message):
    text = render(report_of(marked_table(), LEGEND), "markdown")

    assert_message(text.splitlines()[:7])


def test_marks_intervals_and_baselines_in_latex(assert_message):
    # the caption explains the signs of this table alone; bold needs no words
    text = render(report_of(Paragraph(("a line",)), marked_table(), LEGEND), "latex")

    assert_message(text)


def test_csv_has_all_digits_of_the_rows_for_programs_alone():
    rows = [("bm25", 1 / 3), ("=1+1", None), ("a,b", 7), ("yes", True)]

    text = render(report_of(marked_table(), rows=rows), "csv")

    read = list(csv.reader(io.StringIO(text)))
    assert read[0] == ["system", "mean"]
    assert read[1:] == [["bm25", repr(1 / 3)], ["'=1+1", ""], ["a,b", "7"], ["yes", "true"]]


def test_a_program_reads_numbers():
    pd = pytest.importorskip("pandas")
    rows = [("bm25", 1 / 3), ("dense", None)]

    frame = pd.read_csv(io.StringIO(render(report_of(rows=rows), "csv")))

    assert frame["mean"].tolist()[0] == 1 / 3
    assert frame["mean"].isna().tolist() == [False, True]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_wraps_at_words_and_loses_nothing(width):
    table = word_table(("query", "why"), [("q1", SENTENCE), ("q22", "right")], "lost")
    report = report_of(Paragraph((SENTENCE * 2,)), Heading("why"), table)

    lines = render(report, "table", Screen(width, is_terminal=True)).splitlines()

    assert max(map(len, lines)) <= width
    words = [word for line in lines for word in line.split()]
    expected = [*(SENTENCE * 2).split(), "why", "lost", "query", "why", "q1", *SENTENCE.split()]
    assert words == [*expected, "q22", "right"]


def test_in_a_pipe_a_sentence_and_a_row_are_a_line():
    table = word_table(("query", "why"), [("q1", SENTENCE * 3)])

    text = render(report_of(Paragraph((SENTENCE * 3,)), table), "table", Screen(40))

    assert text.splitlines() == [SENTENCE * 3, "", "query  why", f"q1     {SENTENCE * 3}"]


def test_columns_that_break_go_into_further_tables(assert_message):
    columns = (
        *(TableColumn("system"), TableColumn("ndcg@10", "number", breaks=True)),
        *(TableColumn("p", "number"), TableColumn("map", "number", breaks=True)),
    )
    cells = tuple(map(label, ("bm25", "0.446", "0.03", "0.4")))
    table = Table(columns, (cells,))

    assert_message(draw_table(table, Screen(28)))
    assert_message(draw_table(table, Screen(22)))
    assert len(draw_table(replace(table, keeps_rows=True), Screen(22))) == 2
    on_terminal = draw_table(replace(table, keeps_rows=True), Screen(22, is_terminal=True))
    assert len(on_terminal) == 5


def test_sentences_are_wrapped_before_names(assert_message):
    columns = (TableColumn("name"), TableColumn("why", "words"))
    table = Table(columns, ((label("fuse with minilm"), label(SENTENCE)),))

    assert_message(draw_table(table, Screen(44, is_terminal=True)))
    assert re.match("fuse +the gold", draw_table(table, Screen(30, is_terminal=True))[1])


def test_a_bar_needs_room():
    columns = (TableColumn(""), TableColumn("", "bar"), TableColumn("", "words"))
    table = Table(columns, ((label("bm25"), TableCell("#" * 30), label("of 60: 3 right")),))

    assert draw_table(table, Screen(60)) == [f"bm25  {'#' * 30}  of 60: 3 right"]
    assert draw_table(table, Screen(45, is_terminal=True)) == ["bm25  of 60: 3 right"]
    assert "#" not in render(report_of(table), "markdown") + render(report_of(table), "latex")


def test_a_terminal_may_have_fewer_rows_and_other_blocks(assert_message):
    rows = [(f"q{n}", "lost") for n in range(5)]
    table = replace(word_table(("query", "why"), rows), most=2, more="more: --cause lost")
    gates = replace(table, terminal=Paragraph(("gate fail: map",)))

    text = render(report_of(table, gates))

    assert_message(text.splitlines()[-2:])
    assert "q4" not in text
    assert render(report_of(table, gates), "markdown").count("| q4 |") == 2


def test_colours_only_repeat_the_text():
    table = marked_table()
    table = replace(
        table, rows=tuple((*row[:3], replace(row[3], tone="better")) for row in table.rows)
    )
    plain = draw_table(table, Screen())

    colored = draw_table(table, Screen(has_color=True))

    assert "\x1b[1;32m0.446" in "\n".join(colored)
    assert [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in colored] == plain
    narrow = Screen(50, is_terminal=True, has_color=True)
    wrapped = draw_table(replace(table, columns=tuple(map(TableColumn, table.heads))), narrow)
    assert any("\x1b[" in line for line in wrapped)


def test_nested_lists_and_folds(assert_message):
    items = SentenceList(("bm25 -> dense", "  2 found -> right", "    q1: Who?"))
    report = report_of(Fold("causes that changed", (items,)))

    assert render(report).splitlines() == ["causes that changed", *items.lines]
    assert_message(render(report, "markdown"), "<details>")


def test_texts_of_all_blocks_can_be_rewritten():
    # Secrets are removed before a format escapes them.
    secret = "key_1"
    blocks = (
        *(Heading(secret), Paragraph((secret,)), SentenceList((secret,)), Legend(((".", secret),))),
        Fold(secret, (replace(word_table(("a",), [(secret,)], secret), notes=(secret,)),)),
    )

    safe = tuple(rewrite(blocks, lambda text: text.replace(secret, "***")))

    assert secret in render(report_of(*blocks))
    for name in FORMATS:
        assert "key" not in render(report_of(*safe), name)


texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None)
@given(st.lists(st.tuples(texts, st.floats(-1e6, 1e6)), max_size=5), st.integers(20, 90))
def test_any_table_can_be_drawn(name, rows, width):
    table = number_table(("name", "mean"), [(label(n), number(x)) for n, x in rows])
    report = report_of(table, rows=rows)

    assert render(report, name, Screen(width, is_terminal=True)).endswith("\n")


@settings(deadline=None)
@given(st.lists(st.tuples(texts, st.floats(-1e6, 1e6)), max_size=5), st.integers(20, 90))
def test_every_number_of_any_table_is_drawn(rows, width):
    table = number_table(("name", "mean"), [(label(n), number(x)) for n, x in rows])
    report = report_of(table, rows=rows)

    drawn = render(report, "table", Screen(width, is_terminal=True))
    assert all(number(x).text in drawn for _, x in rows)
    assert len(list(csv.reader(io.StringIO(render(report, "csv"))))) == len(rows) + 1


class Lines:
    """The smallest format: the number of blocks and of rows."""

    is_exact = False

    def render(self, report, screen):
        return f"blocks {len(report.blocks)}, rows {len(report.rows.rows)}\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a run, its config, and a table with ratings of a judge and a person."""
    folder = tmp_path_factory.mktemp("formats")
    config = {**moons_config(write_moons(folder / "moons")), "output": str(folder / "runs")}
    config["generators"] = {}
    config["metrics"] = {"retrieval": {"measures": ["ndcg@10"]}, "generation": []}
    (folder / "c.json").write_text(json.dumps(config))
    ratings = "query_id,system,judge,label\n"
    ratings += "".join(f"q{n},a,{n % 5 + 1},{n % 4 + 1}\n" for n in range(12))
    (folder / "ratings.csv").write_text(ratings)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RAGBENCH_CACHE", str(folder / "cache"))
        rb.run_experiment(config)
        yield folder


COMMANDS = {
    "report": ["report", "runs/moons"],
    "compare": ["compare", "runs/moons", "--resamples", "100"],
    "explain": ["explain", "runs/moons", "--verbose"],
    "fix": ["fix", "runs/moons"],
    "runs": ["runs"],
    "calibrate": ["calibrate", "--ratings", "ratings.csv", "--scale", "1..5"],
    "gate": ["gate", "c.json", "--base", "runs/moons"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_new_format_is_one_line_of_the_registry(command, place, monkeypatch):
    # Show a new format in the help of every command that prints tables, and draw their output.
    monkeypatch.setitem(formats.FORMATS, "lines", f"{__name__}:Lines")

    done = run_command(*COMMANDS[command], "--format", "lines", cwd=place)
    usage = run_command(command, "--help", cwd=place).stdout

    assert (done.returncode, bool(re.fullmatch(r"blocks \d+, rows \d+\n", done.stdout))) == (
        0,
        True,
    )
    assert f"[{'|'.join(formats.FORMATS)}" in re.sub(r"\s+", "", usage)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_every_format(command, place):
    outputs = {}
    for name in FORMATS:
        done = run_command(*COMMANDS[command], "--format", name, cwd=place)
        assert done.returncode == 0, done.stderr
        outputs[name] = done.stdout

    assert len(set(outputs.values())) == len(FORMATS)
    heads, *rows = csv.reader(io.StringIO(outputs["csv"]))
    assert len(set(heads)) == len(heads)
    assert all(re.fullmatch(r"[a-z_]+", head) for head in heads)
    assert {len(row) for row in rows} <= {len(heads)}
    assert outputs["latex"].startswith("% needs ")
    assert outputs["latex"].count("{") == outputs["latex"].count("}")
    assert "\x1b" not in outputs["table"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fix", "calibrate"])
def test_two_formats_at_once_are_refused(command, place):
    arguments = [*COMMANDS[command], "--json"]

    same = run_command(*arguments, "--format", "json", cwd=place)
    both = run_command(*arguments, "--format", "csv", cwd=place)

    assert (same.returncode, json.loads(same.stdout)["schema"][:9]) == (0, "ragbench.")
    assert both.returncode == 2
    assert "--json or --format csv" in both.stderr


@pytest.mark.slow
def test_the_width_of_a_terminal_does_not_reach_a_pipe(place):
    printed = []
    for columns in ("40", "200"):
        environment = {**os.environ, "COLUMNS": columns}
        printed.append(run_command(*COMMANDS["explain"], cwd=place, env=environment).stdout)

    assert printed[0] == printed[1]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_another_format_is_refused_with_the_allowed_ones(command, place):
    done = run_command(*COMMANDS[command], "--format", "pdf", cwd=place)

    assert done.returncode == 2
    assert f"pdf: allowed: {', '.join(FORMATS)}" in done.stderr
