"""Annotations and the summary of a step, as GitHub reads them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.report.ci import SUMMARY_LIMIT, fit_markdown
from tests.report.pages import annotate, render_markdown
from tests.report.strategies import HOSTILE

# a workflow command as the runner parses it: no line break, properties up to the second ::
COMMAND = re.compile(r"::(?P<level>error|warning) (?P<properties>[^\r\n]*?)::(?P<text>[^\r\n]*)")


def gate(verdict, **facts):
    base = {"gate": "map >= 0.2", "system": "bm25", "verdict": verdict, "why": "0.1", "line": 7}
    return {**base, **facts}


@pytest.mark.parametrize(
    ("decision", "level"),
    [
        (gate("fail"), "error"),
        (gate("undecided"), "warning"),
        (gate("undecided", not_worse=True), "notice"),
        (gate("undecided", refused=True), "error"),
    ],
)
def test_what_did_not_pass_is_annotated_at_its_line(decision, level):
    [line] = annotate({"gates": [decision, gate("pass")]}, "configs/a.yaml")

    assert line.startswith(
        f"::{level} file=configs/a.yaml,line=7,title=gate {decision['verdict']}::"
    )
    assert line.endswith("::map >= 0.2 (bm25): 0.1")


def test_a_config_from_python_has_no_line(assert_message):
    [line] = annotate({"gates": [gate("fail", line=None, system=None)]}, "a.yaml")

    assert_message(line)


def test_a_condition_of_the_command_line_has_no_file(assert_message):
    [line] = annotate({"gates": [gate("fail", line=None)]}, None)

    assert_message(line)


# an empty file is none
@given(st.sampled_from(HOSTILE), st.sampled_from([*filter(None, HOSTILE)]))
def test_foreign_text_starts_no_command_of_its_own(why, file):
    [line] = annotate({"gates": [gate("fail", why=why)]}, file)

    command = COMMAND.fullmatch(line)
    properties = dict(part.split("=", 1) for part in command["properties"].split(","))
    assert set(properties) == {"file", "line", "title"}
    unescaped = properties["file"].replace("%2C", ",").replace("%3A", ":")
    unescaped = unescaped.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")
    assert unescaped == file


def test_the_summary_is_the_report(example):
    assert fit_markdown(render_markdown(*example)) == f"{render_markdown(*example)}\n"


@pytest.mark.costly
def test_a_summary_that_github_would_refuse_is_cut_between_lines(example):
    summary, comparisons = example
    long = {**summary, "notes": [f"ä note {i} " + "x" * 1000 for i in range(1200)]}

    whole = render_markdown(long, comparisons)
    text = fit_markdown(whole)

    assert len(text.encode()) <= SUMMARY_LIMIT
    assert text.endswith("(cut here: the run folder has all results)\n")
    assert text.splitlines()[:2] == whole.splitlines()[:2]
