"""Search in blocks against brute force, ties and near ties included; faiss against both."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.retrieve import nearest
from ragbench.retrieve.nearest import Exact, best_rows, score_candidates

SMALL = st.integers(-2, 2).map(float)


def search(index, vectors, queries, top_k):
    """Rows and scores of the best, ties by row descending."""
    ranks, rankings = np.arange(len(vectors)), []
    for query, rows in zip(queries, index.candidates(queries, top_k), strict=True):
        scores = score_candidates(vectors, query, rows)
        best = best_rows(rows, scores, ranks, top_k)
        rankings.append([(int(rows[i]), float(scores[i])) for i in best])
    return rankings


def brute_force(vectors, queries, top_k):
    """Return the nearest vectors, one pair at a time, in doubles."""
    vectors, queries = vectors.astype(np.float64), queries.astype(np.float64)
    rankings = []
    for query in queries:
        scores = [float((vector * query).sum()) for vector in vectors]
        rows = sorted(range(len(vectors)), key=lambda row: (scores[row], row), reverse=True)
        rankings.append([(row, scores[row]) for row in rows[:top_k]])
    return rankings


@st.composite
def problems(draw):
    """Few values, so that ties are everywhere; some rows are another one and a rounding error."""
    width = draw(st.integers(1, 4))
    row = st.lists(SMALL, min_size=width, max_size=width)
    vectors = np.array(draw(st.lists(row, min_size=1, max_size=30)), dtype=np.float32)
    if draw(st.booleans()):
        vectors = np.repeat(vectors, 2, axis=0)
        vectors[::2, 0] = np.nextafter(vectors[::2, 0], np.float32(9))
    queries = np.array(draw(st.lists(row, min_size=1, max_size=5)), dtype=np.float32)
    return vectors, queries, draw(st.integers(1, 35))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(nearest, "_BLOCK", 3)
    monkeypatch.setattr(nearest, "_QUERIES", 2)


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=15, suppress_health_check=[])
@given(problems())
def test_equals_brute_force(problem):
    vectors, queries, top_k = problem

    nearest = search(Exact(vectors), vectors, queries, top_k)

    assert nearest == brute_force(vectors, queries, top_k)


@pytest.mark.costly
@pytest.mark.parametrize(("width", "n"), [(3, 17_000), (384, 9_000)])
def test_equals_brute_force_over_many_blocks(width, n):
    # Near ties that single precision cannot tell apart: it alone would order them otherwise
    generator = np.random.default_rng(7)
    centre = generator.standard_normal(width)
    noise = generator.standard_normal((n, width)) * 1e-7
    vectors = (centre + noise).astype(np.float32)
    queries = np.stack([centre, -centre, noise[0]]).astype(np.float32)

    nearest = search(Exact(vectors), vectors, queries, 10)

    assert nearest == brute_force(vectors, queries, 10)
    rough = (vectors @ queries[0]).argsort(kind="stable")[::-1][:10].tolist()
    assert [row for row, _ in nearest[0]] != rough, "else the test tests nothing"


def test_candidates_may_come_in_any_order():
    vectors = np.array([[1], [2], [3]], dtype=np.float32)

    scores = score_candidates(vectors, vectors[0], np.array([2, 0, 1]))

    assert scores.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.costly
def test_few_candidates_are_looked_at_twice():
    generator = np.random.default_rng(7)
    vectors = generator.standard_normal((50_000, 64)).astype(np.float32)
    queries = generator.standard_normal((5, 64)).astype(np.float32)

    assert all(10 <= len(rows) < 20 for rows in Exact(vectors).candidates(queries, 10))


@pytest.fixture
def inverted_file():
    pytest.importorskip("faiss")
    from ragbench.retrieve.nearest import InvertedFile

    return InvertedFile


@pytest.mark.costly
def test_faiss_finds_most_of_the_nearest_in_the_same_order(inverted_file):
    # Clustered, as the vectors of texts are
    generator = np.random.default_rng(7)
    centres = generator.standard_normal((50, 32))
    vectors = np.repeat(centres, 100, axis=0) + 0.5 * generator.standard_normal((5000, 32))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    queries = vectors[::500]
    exact = brute_force(vectors, queries, 10)

    def share_of(probes):
        return search(inverted_file(vectors, probes), vectors, queries, 10)

    def recall(rankings):
        pairs = zip(rankings, exact, strict=True)
        return sum(len({*ours} & {*theirs}) for ours, theirs in pairs) / (10 * len(queries))

    assert recall(share_of(8)) > 0.9
    assert recall(share_of(1)) < recall(share_of(8)) < recall(share_of(1000)) + 1e-9
    assert share_of(1000) == exact, "all lists are searched"
    assert share_of(3) == share_of(3), "two indexes of the same vectors"


def test_faiss_over_fewer_vectors_than_are_wanted(inverted_file):
    vectors = np.eye(3, dtype=np.float32)

    assert search(inverted_file(vectors, 5), vectors, vectors[:1], 10) == [
        [(0, 1.0), (2, 0.0), (1, 0.0)]
    ]
