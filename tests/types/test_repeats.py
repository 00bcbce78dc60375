"""Repeated documents among millions of hashes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.types.rows import repeated_rows

KEYS = [0, 1, 1 << 47, (1 << 47) + 1, (1 << 63) + 1, (1 << 64) - 1]


@given(st.lists(st.sampled_from(KEYS), max_size=8))
def test_rows_of_repeated_keys_are_those_that_counting_finds(keys):
    rows = repeated_rows(np.array(keys, np.uint64)).tolist()

    assert rows == [row for row, key in enumerate(keys) if keys.count(key) > 1]


@pytest.mark.parametrize("n_keys", [60_000, 65_536, 65_537, 262_144, 262_145])
def test_repeats_among_many_keys(n_keys):
    # both sides of the numbers of keys from which row numbers are wider, and all are sorted
    keys = np.random.default_rng(3).integers(0, 2**64, n_keys, dtype=np.uint64)
    keys[[5, n_keys - 1]] = keys[50_000]
    keys[9] = keys[8]

    assert repeated_rows(keys).tolist() == [5, 8, 9, 50_000, n_keys - 1]
