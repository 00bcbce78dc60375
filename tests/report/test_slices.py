"""The section on slices: the losses, what was not tested, and a short page."""

from ragbench.records.comparison import no_comparisons
from ragbench.records.summary import Summary
from ragbench.report.layout import lay_out
from ragbench.report.slices import MOST_ROWS
from tests.messages import lines_with
from tests.report.example import score, system
from tests.report.example import summary as example_summary
from tests.report.pages import build_slices, read, render_html, render_markdown, texts


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
    section = build_slices({"slices": [row("law", True, 0.04), row("tax", True, 0.002)]})

    assert [line[0] for line in texts(section.grids[0])] == [
        "metadata.topic: tax",
        "metadata.topic: law",
    ]
    assert texts(section.grids[0])[0][4] == "-0.100 [-0.150, -0.050]"
    assert texts(section.grids[0])[0][5] == "0.0020"


def test_of_equal_p_values_the_largest_loss_stands_first():
    rows = [row("law", True, difference=-0.1), row("tax", True, difference=-0.3)]

    section = build_slices({"slices": rows})

    assert [line[0].split()[-1] for line in texts(section.grids[0])] == ["tax", "law"]


def test_each_field_says_what_was_not_tested(assert_message):
    rows = [row("law", False), row("tiny", None), row("4 words", False, field="query_length")]

    lines = build_slices({"slices": rows}).labels

    assert_message(lines[0])
    assert_message(lines[1])
    assert_message(lines[2])


def test_a_long_list_is_cut_and_counted(assert_message):
    section = build_slices({"slices": [row(f"s{i}", True) for i in range(MOST_ROWS + 3)]})

    assert len(section.grids[0].rows) == MOST_ROWS
    assert_message(section.labels[0])


def test_no_slices_no_section(example):
    summary, comparisons = example

    assert build_slices(comparisons) is None
    assert "slices" not in render_markdown(summary, comparisons)


def test_pages_show_them(example, assert_message):
    summary, comparisons = example
    comparisons["slices"] = [row("law", True)]

    assert "metadata.topic: law" in render_markdown(summary, comparisons)
    assert_message(lines_with(render_html(summary, comparisons), "[-0.150, -0.050]</td>"))


def sliced(name, weeks):
    """A system with the causes and scores of weeks, given as week -> (right answers, mean)."""
    scores = {
        week: {"mrr": score((mean, mean - 0.1, mean + 0.1), "mrr")}
        for week, (_, mean) in weeks.items()
    }
    causes = {week: {"right": right} for week, (right, _) in weeks.items()}
    return {
        **system(name, {"mrr": score((0.5, 0.4, 0.6), "mrr")}),
        "causes_by": {"week(metadata.time)": causes},
        "scores_by": {"week(metadata.time)": scores},
    }


def lay_out_weeks(*systems, narrow=True):
    summary = read(Summary, {**example_summary(), "systems": list(systems)})
    return lay_out(summary, no_comparisons(), narrow=narrow).slices.grids


def test_a_slice_is_a_row_for_each_system_with_scores_and_causes():
    (grid,) = lay_out_weeks(
        sliced("old", {"2025-W42": (7, 0.5)}),
        # of another run: it lacks a week, and has one of its own
        sliced("new", {"2025-W42": (8, 0.6), "2025-W43": (9, 0.7)}),
    )

    assert grid.caption == "by week(metadata.time)"
    assert grid.heads == ("slice", "system", "mrr", "where answers are lost")
    assert texts(grid) == (
        ("2025-W42", "old", "0.500 [0.400, 0.600]", "of 7 queries: 7 right"),
        ("2025-W42", "new", "0.600 [0.500, 0.700]", "of 8 queries: 8 right"),
        ("2025-W43", "new", "0.700 [0.600, 0.800]", "of 9 queries: 9 right"),
    )


def test_the_terminal_has_the_last_weeks_and_the_page_all(assert_message):
    weeks = {f"2025-W{week}": (week, 0.5) for week in range(10, 40)}

    (short,), (whole,) = (lay_out_weeks(sliced("a", weeks), narrow=n) for n in (True, False))

    assert_message(short.caption)
    assert [row[0] for row in texts(short)] == list(weeks)[-12:]
    assert [row[0] for row in texts(whole)] == list(weeks)
