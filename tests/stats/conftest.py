"""The oracle of these tests. ragbench itself does without SciPy."""

import pytest


@pytest.fixture(scope="session")
def scipy_stats():
    from scipy import stats

    return stats


@pytest.fixture(scope="session")
def scipy_optimize():
    from scipy import optimize

    return optimize
