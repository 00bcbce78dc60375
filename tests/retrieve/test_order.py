"""The order of a ranking, against Python's own sort."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragbench.retrieve.nearest import best_rows, id_ranks

IDS = st.lists(st.text("aéb1", min_size=1, max_size=3), min_size=1, max_size=8, unique=True)


@given(IDS, st.data())
def test_agrees_with_sorting_pairs(ids, data):
    scores = data.draw(
        st.lists(st.sampled_from([0.0, -0.0, 0.5, 1.0]), min_size=len(ids), max_size=len(ids))
    )
    top_k = data.draw(st.integers(1, 9))
    pairs = [(s, i.encode()) for s, i in zip(scores, ids, strict=True)]

    best = best_rows(np.arange(len(ids)), np.array(scores), id_ranks(ids), top_k)

    assert [pairs[row] for row in best] == sorted(pairs, reverse=True)[:top_k]
