"""Token counts of servers, with reasoning, cached tokens and totals; a data set as it is shown."""

import re

import pytest

from ragbench.types import Collection, Qrels, Query
from ragbench.types.records import Usage, usage_of_counts
from ragbench.types.tables import html_table


@pytest.mark.parametrize(
    ("counts", "output", "reasoning"),
    [
        pytest.param({"received": 100, "reasoning": 80}, 100, 80, id="inside the output"),
        # a reply that was cut while the model reasoned: nothing else was received
        pytest.param({"received": 100, "reasoning": 100}, 100, 100, id="all of the output"),
        pytest.param({"received": 100, "reasoning": 101}, 201, 101, id="100 + 101: beside it"),
        pytest.param({"received": 100, "reasoning": 80, "total": 1100}, 100, 80, id="1100 - 1000"),
        pytest.param({"received": 100, "reasoning": 80, "total": 1180}, 180, 80, id="1180 - 1000"),
        pytest.param({"reasoning": 80}, None, 80, id="an unknown output"),
    ],
)
def test_reasoning_is_a_part_of_the_output(counts, output, reasoning):
    assert usage_of_counts(1000, counts.pop("received", None), **counts) == Usage(
        1000, output, None, reasoning, 0
    )


def test_cached_tokens_are_at_most_the_input():
    assert usage_of_counts(10, 1, cached=30).cached_tokens == 10
    assert usage_of_counts(None, 1, cached=30).cached_tokens == 30


def test_a_cell_of_an_html_table_holds_two_thousand_characters():
    html = html_table("notes", ["note"], [("a" * 2000,), ("b" * 2001,)])

    assert f"<td>{'a' * 2000}</td>" in html
    assert f"<td>{'b' * 2000} ...</td>" in html


def test_controls_that_reorder_text_are_escapes_in_a_cell():
    controls = [chr(code) for code in (0x202A, 0x202E, 0x2066, 0x2069)]

    html = html_table("notes", ["note"], [controls])

    for code in ("202a", "202e", "2066", "2069"):
        assert f"<td>\\u{code}</td>" in html


def test_a_collection_shows_the_sizes_of_its_parts():
    queries = [Query("q1", "Which moon?"), Query("q2", "Which ring?")]
    qrels = Qrels.from_dict({"q1": {"d1": 1}})

    shown = repr(Collection(queries=queries, qrels=qrels, answers={"q1": ["Io"]}))

    assert re.findall(r"\d+", shown) == ["2", "1", "1"]
