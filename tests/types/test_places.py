"""Places of keys: what a dict of the same keys says, in 16 bytes each."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.types import rows
from ragbench.types.rows import Places

steps = st.lists(st.tuples(st.sampled_from(["set", "default", "discard"]), st.integers(0, 40)))


@given(steps, st.sampled_from([1, 3, 1024]))
def test_says_what_a_dict_says(made, fewest):
    before, rows._FEWEST_NEW = rows._FEWEST_NEW, fewest
    try:
        ours, known = Places(), dict[str, int]()
        for number, (what, key) in enumerate(made):
            name = f"q{key}"
            if what == "set":
                ours[name] = known[name] = number
            elif what == "default":
                assert ours.setdefault(name, number) == known.setdefault(name, number)
            else:
                ours.discard(name)
                known.pop(name, None)
            assert len(ours) == len(known)
        assert [ours.get(f"q{key}") for key in range(41)] == [known.get(f"q{k}") for k in range(41)]
        assert all((f"q{key}" in ours) == (f"q{key}" in known) for key in range(41))
    finally:
        rows._FEWEST_NEW = before


@pytest.mark.costly
def test_a_key_takes_little():
    tracemalloc.start()
    try:
        made = Places.of(f"a name of some length {number}" for number in range(50_000))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(made) == 50_000
    assert held / 50_000 < 40, "some 200 where a dict has texts and numbers"
