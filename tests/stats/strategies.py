"""Samples as evaluations produce them: few distinct values, many zeros, and now and then one."""

import numpy as np
from hypothesis import strategies as st

FEW = [0.0, 0.1, 0.25, 0.3, 0.5, 2 / 3, 0.7, 1.0]


def scores(min_size=1, max_size=40):
    """Scores of one system, in 0..1."""
    either = st.one_of(st.sampled_from(FEW), st.floats(0, 1))
    return st.lists(either, min_size=min_size, max_size=max_size)


def binary(min_size=1, max_size=40):
    """Hits and misses."""
    return st.lists(st.sampled_from([0.0, 1.0]), min_size=min_size, max_size=max_size)


def differences(min_size=1, max_size=60):
    """Differences of two systems, in -1..1; most of them 0."""
    value = st.one_of(st.just(0.0), st.sampled_from([*FEW, *(-v for v in FEW)]), st.floats(-1, 1))
    return st.lists(value, min_size=min_size, max_size=max_size)


@st.composite
def difference_tables(draw, max_rows=7, max_columns=4, missing=True):
    """Differences (queries, comparisons), small enough to try every sign; NaN where missing."""
    n = draw(st.integers(1, max_rows))
    m = draw(st.integers(1, max_columns))
    cell = st.sampled_from([0.0, 0.1, 0.2, 0.3, -0.1, -0.3, 1.0, -1.0])
    if missing:
        cell = st.one_of(cell, st.just(np.nan))
    rows = st.lists(st.lists(cell, min_size=m, max_size=m), min_size=n, max_size=n)
    return np.array(draw(rows))


@st.composite
def rated(draw, min_size=2, max_size=25, levels=5):
    """Two raters' levels 1..levels of the same items; they agree more often than not."""
    one = draw(st.lists(st.integers(1, levels), min_size=min_size, max_size=max_size))
    moved = st.lists(st.sampled_from([0, 0, 0, 1, -1, 2]), min_size=len(one), max_size=len(one))
    other = [min(max(a + b, 1), levels) for a, b in zip(one, draw(moved), strict=True)]
    return np.array(one, float), np.array(other, float)


@st.composite
def rating_tables(draw, max_rows=12, max_raters=4, levels=4):
    """Ratings (items, raters), some missing; every item has two or more."""
    raters = draw(st.integers(2, max_raters))
    cell = st.one_of(st.integers(1, levels).map(float), st.just(np.nan))
    row = st.lists(cell, min_size=raters, max_size=raters).filter(
        lambda ratings: np.isfinite(ratings).sum() >= 2
    )
    return np.array(draw(st.lists(row, min_size=1, max_size=max_rows)))
