"""Pages of a comparison: golden files, names that mean something to a format, and empty cases."""

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from ragbench.comparison.compare_runs import compare_sources
from ragbench.comparison.matching import match_sources
from ragbench.comparison.method import Method
from ragbench.comparison.moved_queries import moved_most
from ragbench.report.comparison import COLUMNS
from ragbench.types import Cause
from tests.comparison.formats import render_csv, render_latex, render_markdown, render_table
from tests.comparison.scored_systems import column, source, system

RENDERERS = {
    "table": render_table,
    "markdown": render_markdown,
    "latex": render_latex,
    "csv": render_csv,
}
COMMANDS = {
    *("begin", "end", "centering", "caption", "toprule", "midrule", "bottomrule", "textbf"),
    *("textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater"),
    *("textbar", "textquotedbl", "usepackage", "scriptsize", "linewidth", "resizebox"),
}


def example(folder, names=("bm25", "rm3"), resamples=1000):
    """Two sources with two retrievers each, a measure of which lower is better, a failure."""
    random = np.random.default_rng(5)
    first, second = random.random(40).round(2), random.random(40).round(2)
    late = np.where(np.arange(40) == 7, np.nan, second / 2)
    causes = np.where(np.arange(40) == 7, Cause.TIMEOUT, Cause.SCORED)
    for place, documents in enumerate(("d1 d2 d3", "d3 d1")):
        lines = [
            f"q{q} Q0 {d} 0 {-i} x\n" for q in range(40) for i, d in enumerate(documents.split())
        ]
        (folder / f"{place}.trec").write_text("".join(lines))
    sources = [
        source(
            where,
            *(
                system(
                    name,
                    column(values, "ndcg@10"),
                    column(waste, "waste", direction="lower", causes=cause),
                )
                for name, values, waste, cause in rows
            ),
            rankings={names[0]: folder / f"{place}.trec"},
        )
        for place, (where, rows) in enumerate(
            (
                (
                    "baselines/main.json",
                    [(names[0], first, second, None), (names[1], first, late, causes)],
                ),
                (
                    "runs/new",
                    [(names[0], first / 2, second, None), (names[1], first, second, None)],
                ),
            )
        )
    ]
    method = Method(resamples=resamples)
    matched = match_sources(sources[0], sources[1:])
    comparison = compare_sources(matched, method)
    return structs.replace(comparison, moved=moved_most(comparison, matched, "ndcg@10", 2))


@pytest.mark.costly
@pytest.mark.parametrize("form", RENDERERS)
def test_golden(golden, tmp_path, form):
    golden(f"compare_{form}.txt", RENDERERS[form](example(tmp_path)))


def test_csv_holds_all_digits(tmp_path):
    comparison = example(tmp_path)

    rows = list(csv.DictReader(io.StringIO(render_csv(comparison))))

    differences = [
        difference for family in comparison.measures for difference in family.comparisons
    ]
    assert tuple(rows[0]) == COLUMNS
    assert [float(row["difference"]) for row in rows] == [
        difference.difference for difference in differences
    ]
    assert [row["n_failed"] for row in rows] == ["0", "0", "0", "1"]


@pytest.mark.costly
@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
@settings(max_examples=6)
def test_latex_of_any_name_is_balanced_and_holds_only_known_commands(tmp_path_factory, one, other):
    names = (f"x{one}", f"y{other}")
    text = render_latex(example(tmp_path_factory.mktemp("made"), names, 100))

    body = re.sub(r"^%.*\n|(?<=\{)%$", "", text, flags=re.M)
    bare = re.sub(r"\\[&%$#_{}]", "", body)  # what was escaped
    commands = re.findall(r"\\([a-zA-Z]+)", bare)
    assert set(commands) <= COMMANDS
    assert bare.count("{") == bare.count("}")
    assert not set("#%~_") & set(bare)
    assert bare.count("$") % 2 == 0
    assert set(re.findall(r"\^(.)", bare)) <= {"{"}, "superscripts alone"
    tables = re.findall(
        r"\\begin\{tabular\}\{([lrp]+)", re.sub(r"p\{[\d.]+\\linewidth\}", "p", bare)
    )
    bodies = bare.split(r"\toprule")[1:]
    assert len(tables) == len(bodies) >= 1
    for columns, body in zip(tables, bodies, strict=True):
        rows = [line for line in body.splitlines() if line.endswith(r" \\")]
        assert {line.count("&") for line in rows} == {len(columns) - 1}
        assert len(rows) == 5, "a head and four rows"


def test_a_name_cannot_break_a_table_or_a_terminal(tmp_path):
    comparison = example(tmp_path, ("a|b\x1b[31m<i>", "two\nlines"))

    markdown, table = render_markdown(comparison), render_table(comparison)

    assert "\x1b" not in markdown + table
    assert r"a\|b\\x1b\[31m&lt;i&gt;" in markdown
    assert "two lines (new)" in table


def test_narrow_terminals_get_further_tables(tmp_path):
    comparison = example(tmp_path)

    narrow, wide = render_table(comparison, width=40), render_table(comparison, width=200)

    assert narrow.count("system  ") > wide.count("system  ")
