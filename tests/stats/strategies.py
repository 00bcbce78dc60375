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
