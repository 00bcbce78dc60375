"""Spans, and the place of a quote in a text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.types import Span
from ragbench.types.spans import locate_quote

texts = st.text(st.sampled_from("ab.+ \n\t"), max_size=12)


@given(texts, texts)
def test_a_quote_is_placed_where_a_regular_expression_finds_its_words(quote, text):
    place = locate_quote(quote, text)

    pieces = quote.split()
    matches = [m.span() for m in re.finditer(r"\s+".join(map(re.escape, pieces)), text)]
    if not pieces or not matches:
        assert place is None
    else:
        assert text[slice(*place)].split() == pieces
        exact = text.find(quote.strip())
        assert place[0] == (exact if exact >= 0 else matches[0][0])


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("b c", (2, 6)),
        (" b\nc ", (2, 6)),
        ("c a", (5, 8)),
        ("B  c", None),
        ("b c.", None),
        (" \n", None),
        ("", None),
    ],
)
def test_white_space_does_not_matter_and_all_else_does(quote, place):
    assert locate_quote(quote, "a b \nc a") == place


def test_an_exact_place_comes_before_one_with_other_white_space():
    assert locate_quote("a b", "a  b, a b") == (6, 9)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 2)])
def test_a_span_with_impossible_positions_is_refused(start, end, assert_message):
    with pytest.raises(DataError) as caught:
        Span("d1", start, end)
    assert_message(caught.value)
