"""`report.md`, read back by a Markdown parser that we did not write."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragbench.report.formats.markdown import escape
from ragbench.report.text import significant
from ragbench.types.display import printable
from tests.messages import lines_with
from tests.report.pages import render_markdown
from tests.report.strategies import HOSTILE, names, results

JOINER = "\u2060"
parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def plain(tokens) -> str:
    """The text of inline tokens; fails on anything but text and our own bold."""
    allowed = {"text", "text_special", "strong_open", "strong_close"}
    assert {token.type for token in tokens} <= allowed
    return "".join(token.content for token in tokens).replace(JOINER, "")


def cells(text: str) -> list[str]:
    tokens = parser.parse(text)
    inside = ("th_open", "td_open")
    return [
        plain(token.children)
        for opening, token in itertools.pairwise(tokens)
        if opening.type in inside
    ]


def test_golden(example, golden):
    golden("report_report.md", render_markdown(*example))


def test_the_first_line_is_the_result_in_words(example, assert_message):
    summary, comparisons = example
    without_gates = render_markdown({**summary, "gates": []}, comparisons)

    assert_message(without_gates.splitlines()[0])


def test_verdicts_stand_before_the_result(example, assert_message):
    lines = render_markdown(*example).splitlines()

    assert_message(lines[0])
    assert_message(lines[2])
    assert_message(lines[4])


def test_tables_are_tables(example, assert_message):
    texts = cells(render_markdown(*example))

    assert "0.446 * [0.412, 0.480]" in texts
    assert_message(lines_with(texts, "-0.070 [-0.110, -0.030]"))
    assert "ndcg@10|ties:docid|qrels:3f1c9a|v:1" in texts
    rows = [t for t in parser.parse(render_markdown(*example)) if t.type == "tr_open"]
    tables = [t for t in parser.parse(render_markdown(*example)) if t.type == "table_open"]
    assert (len(tables), len(rows)) == (
        # gates; scores, differences and signatures of three kinds; causes; cost and time
        1 + 3 * 3 + 1 + 2,
        3 + (4 + 5 + 5) * 3 + 2 + 8 + 7,
    )


@settings(deadline=None)
@given(names)
def test_any_name_shows_as_it_is_in_a_cell_a_list_and_a_paragraph(name):
    name = printable(name)

    assert cells(f"| a | {escape(name)} |\n| - | - |\n| {escape(name)} | b |") == [
        "a", name, name, "b",
    ]  # fmt: skip
    for form, expected in (("{}", ["paragraph_open"]), ("- {}", ["bullet_list_open"])):
        tokens = parser.parse(form.format(escape(name)))
        assert [token.type for token in tokens[:1]] == (expected if name or form != "{}" else [])
        assert len([token for token in tokens if token.type == "inline"]) <= 1
        assert "".join(plain(t.children) for t in tokens if t.type == "inline") == name


@pytest.mark.parametrize(
    "start", ["# a", "- a", "+ a", "1. a", "12) a", "---", "- - -", "#", "= a"]
)
def test_a_start_that_would_be_structure_is_text(start):
    tokens = parser.parse(escape(start))

    # a parser that we did not write reads no heading, list or rule
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert plain(tokens[1].children) == start


@pytest.mark.costly
@settings(max_examples=30)
@given(st.from_regex(r"\A[a-z0-9]+(?:_[a-z0-9]+)*@[0-9]+\Z"))
def test_ordinary_names_stay_readable_in_the_source(name):
    assert escape(name) == name


@pytest.mark.costly
@settings(deadline=None, max_examples=12)
@given(results())
def test_anything_can_be_drawn_and_every_mean_is_there(case):
    summary, comparisons = case
    text = render_markdown(summary, comparisons)

    texts = cells(text)
    html = [t.content for t in parser.parse(text) if t.type == "html_block"]
    assert all(re.fullmatch(r"</details>\n?|<details>\n<summary>.*</summary>\n?", h) for h in html)
    for system in summary["systems"]:
        for score in system["scores"].values():
            assert any(cell.startswith(significant(score["mean"])) for cell in texts)


def test_nobody_is_called_and_nothing_is_linked():
    text = " ".join(escape(printable(name)) for name in HOSTILE)

    assert "@someone" not in text
    assert "#12" not in text
    assert "http://" not in text
    assert "www.a" not in text


@pytest.mark.parametrize(
    "text",
    [
        "GH-1",
        "org/repo#4",
        "see gh-26",
        "a.b+c@example.org",
        "_GH-1",
        "\u00e9GH-1",
        "\u00e9@you",
        "\u4f60#4",
        "_www.a.example",
        "a_www.a.example",
        "org/repo@0123abc",
        ":tada:",
        "a:b:c",
        ":+1:",
        ":100:",
    ],
)
def test_github_links_nothing_of_a_text(text):
    sign = next(candidate for candidate in ("www", "@", "#", ":", "-") if candidate in text)

    assert f"{sign}&#8288;" in escape(text)
    assert escape(text).replace("&#8288;", "").replace("\\", "") == text


@pytest.mark.parametrize("text", ["/close", "/merge the rest"])
def test_gitlab_does_nothing_at_the_start_of_a_line(text):
    assert escape(text) == f"\\{text}"
    assert escape(f"see {text}") == f"see {text}"


def test_names_of_measures_stay_as_they_are():
    assert escape("at 10:30:15, bm25:1") == "at 10:30:15, bm25:1"
    assert escape("ndcg@10 P@5.") == "ndcg@10 P@5."
