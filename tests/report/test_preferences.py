"""Preferences on the pages: ranking, pairs, the sentence, hostile names, nothing to say."""

import re

import pytest

from tests.messages import lines_with
from tests.report.pages import (
    lay_out,
    lay_out_preferences,
    render_html,
    render_markdown,
    render_terminal,
    texts,
)

SUMMARY = {"name": "x", "systems": [], "judges": {"gpt": {"label": "a language model"}}}


def system(name, rank, strength, wins, ties, losses, **more):
    n = wins + ties + losses
    ends = [strength - 1, strength + 1]
    return {
        "system": name, "rank": rank, "strength": strength, "interval": ends,
        "win_rate": (wins + ties / 2) / n, "wins": wins, "ties": ties, "losses": losses,
        "failed": {}, "not_applicable": 0, **more,
    }  # fmt: skip


def pair(one, other, wins, ties, losses, *, differs=False, **more):
    n = wins + ties + losses
    return {
        "system": one, "other": other, "wins": wins, "ties": ties, "losses": losses, "n": n,
        "win_rate": (wins + ties / 2) / n, "interval": [0.1, 0.9], "bounds": [0.2, 0.8],
        "failed": {}, "not_applicable": 0, "p_adjusted": 0.04, "differs": differs, **more,
    }  # fmt: skip


@pytest.fixture
def comparisons():
    """Three systems: `a` was shown to be preferred to `b`, and not to `c`."""
    entry = {
        "name": "pairwise", "rubric": "pairwise", "judge": "gpt", "model": "m-1", "baseline": None,
        "notes": ["strengths are within each group"],
        "systems": [
            system("b", 3, -1.0, 1, 2, 17), system("a", 1, 1.0, 16, 2, 2, failed={"timeout": 2}),
            system("c", 2, 0.0, 10, 0, 10),
        ],
        "comparisons": [
            pair("b", "a", 1, 1, 8, differs=True, failed={"timeout": 2}),
            pair("a", "c", 8, 1, 2), pair("b", "c", 0, 1, 9),
        ],
        "win_matrix": {"a": {"b": 0.85, "c": 0.77}, "b": {"a": 0.15, "c": 0.05}, "c": {"a": 0.23}},
    }  # fmt: skip
    return {"preferences": [entry]}


def test_the_strongest_stands_first(comparisons):
    (section,) = lay_out_preferences(SUMMARY, comparisons)
    ranking, pairs = section.grids

    assert [row[:2] for row in texts(ranking)] == [("a", "1"), ("c", "2"), ("b", "3")]
    assert texts(ranking)[0][2:] == (
        "1.00 [0.00, 2.00]",
        "0.850",
        "16",
        "2",
        "2",
        "2 (timeout 2)",
        "0",
    )
    assert texts(pairs)[0][0] == "b over a"
    assert [row[-1] for row in texts(pairs)] == ["the other is preferred", "not shown", "not shown"]


def test_the_sentence_names_whom_the_first_was_shown_to_beat(comparisons, assert_message):
    (section,) = lay_out_preferences(SUMMARY, comparisons)

    assert_message(section.headlines[0])
    comparisons["preferences"][0]["comparisons"][0]["differs"] = False
    (section,) = lay_out_preferences(SUMMARY, comparisons)
    assert_message(section.headlines[0])


def test_ranks_that_are_shared_or_absent(comparisons, assert_message):
    entry = comparisons["preferences"][0]
    entry["systems"][2]["rank"] = 1
    assert_message(lay_out_preferences(SUMMARY, comparisons)[0].headlines[0])
    for system in entry["systems"]:
        system.update(rank=None, strength=None, interval=[None, None])
    (section,) = lay_out_preferences(SUMMARY, comparisons)
    assert_message(section.headlines[0])
    assert texts(section.grids[0])[0][:3] == ("b", "-", "-")


def test_on_every_page_and_the_only_thing_on_it(comparisons, assert_message):
    pages = [
        render(SUMMARY, comparisons) for render in (render_terminal, render_markdown, render_html)
    ]

    for page in pages:
        lines = lines_with(re.sub(r"<[^>]+>", "\n", page), "judge gpt", "first by", "strengths")
        assert_message(lines)
        assert "2 (timeout 2)" in page
        assert "nothing was scored" not in page


def test_a_hostile_name_does_nothing(comparisons):
    entry = comparisons["preferences"][0]
    entry["systems"][0]["system"] = "<b>|x\n"

    assert "<b>" not in render_html(SUMMARY, comparisons)
    assert "<b>" not in render_markdown(SUMMARY, comparisons)
    assert all(
        "\n" not in row[0] for row in texts(lay_out_preferences(SUMMARY, comparisons)[0].grids[0])
    )


def test_without_any_there_is_no_section():
    page = lay_out(SUMMARY, {})

    assert (page.preferences, page.headlines) == ((), ("nothing was scored",))
