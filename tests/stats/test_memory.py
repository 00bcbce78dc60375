"""Remembered results: equal contents are computed once, others never share a result."""

import math

import numpy as np
import pytest

from ragbench.stats.memory import remember


@pytest.fixture
def total():
    """A remembered sum of arrays and a number, and the list of its calls."""
    calls = []

    @remember
    def add(first, second, number):
        calls.append(number)
        return float(first.sum()) + float(second.sum()) * number

    return add, calls


def test_equal_contents_are_computed_once(total):
    add, calls = total

    for _ in range(3):
        assert add(np.array([1.0, 2.0]), np.array([3.0]), 2.0) == 9.0

    assert len(calls) == 1


@pytest.mark.parametrize(
    ("first", "second", "number", "result"),
    [
        pytest.param([1.0, 2.0], [4.0], 2.0, 11.0, id="another value"),
        pytest.param([2.0, 1.0], [3.0], 2.0, 9.0, id="another order"),
        pytest.param([1.0], [2.0, 3.0], 2.0, 11.0, id="the same values split elsewhere"),
        pytest.param([1.0, 2.0], [3.0], 3.0, 12.0, id="another number"),
    ],
)
def test_other_contents_are_computed(total, first, second, number, result):
    add, calls = total
    add(np.array([1.0, 2.0]), np.array([3.0]), 2.0)

    assert add(np.array(first), np.array(second), number) == result
    assert len(calls) == 2


def test_nan_is_remembered(total):
    add, calls = total

    for _ in range(2):
        assert math.isnan(add(np.array([math.nan]), np.zeros(1), 1.0))

    assert len(calls) == 1


def test_memory_is_bounded(total):
    add, calls = total
    for number in range(1_001):
        add(np.ones(1), np.ones(1), number)

    add(np.ones(1), np.ones(1), 1_000)
    assert len(calls) == 1_001, "the last result"
    add(np.ones(1), np.ones(1), 0)
    assert len(calls) == 1_002, "the first one is forgotten"
