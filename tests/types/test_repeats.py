"""Repeated documents among millions of hashes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragbench.types import rows as repeats
from ragbench.types.rows import Repeats, may_repeat

# the upper 17 bits choose the slot: two slots, and three keys in each
KEYS = [(slot << 47) + rest for slot in (1, 2) for rest in (0, 1, 2)]


def slots():
    return np.empty(1 << 17, np.int32)


@given(st.lists(st.sampled_from(KEYS), max_size=8))
def test_repeated_keys_are_found(keys):
    rows = Repeats().suspects(np.array(keys, np.uint64)).tolist()

    assert rows == [row for row, key in enumerate(keys) if keys.count(key) > 1]


def test_repeated_keys_are_found_where_a_third_took_their_slot():
    assert may_repeat(np.array([KEYS[0], KEYS[0], KEYS[1]], np.uint64), slots())


def test_many_keys_in_one_slot_end_in_a_sort(monkeypatch):
    keys = np.arange(100, dtype=np.uint64)
    monkeypatch.setattr(repeats, "_MOST_ROUNDS", 3)

    assert may_repeat(keys, slots()), "perhaps"
    assert len(Repeats().suspects(keys)) == 0, "certainly not"
