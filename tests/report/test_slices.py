"""The section on slices: the losses, what was not tested, and a short page."""

from ragbench.report.layout import MOST_ROWS
from tests.report.pages import build_slices, render_html, render_markdown


def row(name, worse, p=0.01, difference=-0.1, field="metadata.topic"):
    return {
        "field": field,
        "slice": name,
        "measure": "ndcg@10",
        "system": "new",
        "baseline": "base",
        "direction": "higher",
        "difference": difference,
        "interval": [-0.15, -0.05],
        "n": 40,
        "n_changed": 30,
        "p_adjusted": p,
        "worse": worse,
    }


def test_the_surest_loss_stands_first():
    found = build_slices({"slices": [row("law", True, 0.04), row("tax", True, 0.002)]})

    assert [line[0] for line in found.rows] == ["metadata.topic: tax", "metadata.topic: law"]
    assert found.rows[0][4] == "-0.100 [-0.150, -0.050]"
    assert found.rows[0][5] == "0.0020"


def test_each_field_says_what_was_not_tested():
    rows = [row("law", False), row("tiny", None), row("4 words", False, field="query_length")]

    lines = build_slices({"slices": rows}).lines

    assert lines[0] == (
        "metadata.topic: 2 slices, none worse; not tested, too few queries (under 20): tiny"
    )
    assert lines[1] == "query_length: 1 slice, none worse"
    assert "one-sided, with max-T over the slices of one field (95 %)" in lines[2]


def test_a_long_list_is_cut_and_counted():
    found = build_slices({"slices": [row(f"s{i}", True) for i in range(MOST_ROWS + 3)]})

    assert len(found.rows) == MOST_ROWS
    assert found.lines[0] == "3 more that got worse are in comparisons.json"


def test_no_slices_no_section(example):
    summary, comparisons = example

    assert build_slices(comparisons) is None
    assert "slices" not in render_markdown(summary, comparisons)


def test_pages_show_them(example):
    summary, comparisons = example
    comparisons["slices"] = [row("law", True)]

    assert "metadata.topic: law" in render_markdown(summary, comparisons)
    assert '<td class="worse">-0.100 [-0.150, -0.050]</td>' in render_html(summary, comparisons)
