"""Repeated documents among millions of hashes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragbench.types.rows import repeated_rows

KEYS = [0, 1, 1 << 47, (1 << 47) + 1, (1 << 64) - 1]


@given(st.lists(st.sampled_from(KEYS), max_size=8))
def test_rows_of_repeated_keys_are_those_that_counting_finds(keys):
    rows = repeated_rows(np.array(keys, np.uint64)).tolist()

    assert rows == [row for row, key in enumerate(keys) if keys.count(key) > 1]
