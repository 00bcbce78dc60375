"""Runs of ranked lists: what has no order is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.types import Run

IDS = st.lists(st.text("abcd", min_size=1), unique=True, max_size=8)


@given(IDS, st.sampled_from([list, tuple, iter, np.array, lambda ids: (i for i in ids)]))
def test_any_ordered_hits_are_a_ranking(ids, kind):
    run = Run.from_rankings({"q": kind(ids)})

    assert [document for document, _ in run.ranking("q")] == ids


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (set, "a set, which has no order"),
        (frozenset, "a set, which has no order"),
        ("".join, "a text"),
        (lambda ids: "".join(ids).encode(), "a text"),
        (dict.fromkeys, "a mapping, whose scores Run.from_dict reads"),
        (len, "int"),
        (lambda ids: None, "NoneType"),
    ],
)
@given(IDS)
def test_what_has_no_order_is_refused_with_its_query(kind, words, ids):
    with pytest.raises(DataError, match=f"run: query 'q': found {words}; allowed: a list of hits"):
        Run.from_rankings({"p": ["a"], "q": kind(ids)})
