"""Pairs of systems of which the true difference is known, as evaluations meet them.

Differences per query, up is better. Imported by the simulations beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ragbench.types import FloatArray

Rng = np.random.Generator
Shape = tuple[int, int]
Sizes = Callable[[Rng, Shape], FloatArray]

SEED = 20
RANKS = np.array([1 / rank for rank in range(1, 11)] + [0.0])
FOUND = np.array([0.45, 0.14, 0.08, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.02, 0.12])


class World(NamedTuple):
    """Queries that lose and gain: `drop` is the true mean loss, `churn` what cancels out."""

    name: str
    draw: Callable[[Rng, Shape, float], FloatArray]
    """Rows of differences per query, or per cluster, with that drop."""
    largest_drop: float = 1.0
    """Beyond it too few queries are left to lose."""
    bar: bool = True
    """Whether the bars on wrong verdicts hold here; else it shows what no rule can exclude."""


def hits(churn: float) -> World:
    """A share of the queries gains a hit and as many lose one; the drop comes on top."""
    return _moving(f"hits, churn {churn:g}", lambda _, shape: np.ones(shape), 1.0, churn)


def _moving(name: str, sizes: Sizes, mean: float, churn: float) -> World:
    """A share of the queries changes, by sizes with that mean."""

    def draw(rng: Rng, shape: Shape, drop: float) -> FloatArray:
        u, lost = rng.random(shape), drop / mean + churn
        sign = np.where(u < lost, -1.0, np.where(u < lost + churn, 1.0, 0.0))
        return sign * sizes(rng, shape)

    return World(name, draw, (1 - 2 * churn) * mean)


def _ranks(rng: Rng, shape: Shape) -> FloatArray:
    """How much a reciprocal rank loses that is not found as well any more."""
    return rng.choice(_LOSSES, shape, p=_CHANCES)


_PAIRS = [(a, b) for a in range(11) for b in range(a + 1, 11)]
_LOSSES = np.array([RANKS[a] - RANKS[b] for a, b in _PAIRS])
_CHANCES = np.array([FOUND[a] * FOUND[b] for a, b in _PAIRS])
_CHANCES /= _CHANCES.sum()


def _mixed(rng: Rng, shape: Shape) -> FloatArray:
    return np.where(rng.random(shape) < 0.4, 1.0, 0.4 * rng.random(shape))


def _noise(rng: Rng, shape: Shape) -> FloatArray:
    noise = np.clip(rng.normal(0, 0.05, shape), -0.2, 0.2)
    return np.where(rng.random(shape) < 0.5, noise, 0.0)


def _noise_and_losses(rng: Rng, shape: Shape, drop: float) -> FloatArray:
    return np.where(rng.random(shape) < drop, -1.0, _noise(rng, shape))


def _answers(rng: Rng, shape: Shape, drop: float) -> FloatArray:
    """Five answers a query, each right or wrong; queries differ in how hard they are."""
    easy = rng.beta(1.5, 0.5, shape)
    worse = easy - np.where(rng.random(shape) < drop / 0.375, easy / 2, 0.0)
    return (rng.binomial(5, worse) - rng.binomial(5, easy)) / 5


def _clusters(rng: Rng, shape: Shape, drop: float) -> FloatArray:
    """One to five hits a cluster, of which half move together; one value per cluster."""
    rows, n = shape
    sizes = rng.integers(1, 6, shape)
    together = rng.random((rows, n, 5)) < 0.5
    u = np.where(together, rng.random((rows, n, 1)), rng.random((rows, n, 5)))
    d = np.where(u < drop + 0.03, -1.0, np.where(u < drop + 0.06, 1.0, 0.0))
    d *= np.arange(5) < sizes[..., np.newaxis]
    total = sizes.sum(axis=1, keepdims=True)
    mean = d.sum(axis=(1, 2))[:, np.newaxis] / total
    residuals = d.sum(axis=2) - mean * sizes
    residuals[np.abs(residuals) < 1e-12] = 0.0
    return mean + residuals * n / total


def _failures(rng: Rng, shape: Shape, drop: float) -> FloatArray:
    """One query in ten failed by chance and is left out."""
    return hits(0.02).draw(rng, (shape[0], shape[1] - shape[1] // 10), drop)


def _rare_gains(rng: Rng, shape: Shape, drop: float) -> FloatArray:
    """Most lose a little, four in a hundred gain much, which few samples show."""
    u, loss = rng.random(shape), (drop + 0.04 * 0.7) / 0.7
    small = -loss * (0.5 + rng.random(shape))
    return np.where(u < 0.04, 0.7, np.where(u < 0.74, small, 0.0))


WORLDS = (
    hits(0.0),
    hits(0.01),
    hits(0.03),
    _moving("ranks, 5 % churn", _ranks, float(_LOSSES @ _CHANCES), 0.05),
    _moving("ranks, 25 % churn", _ranks, float(_LOSSES @ _CHANCES), 0.25),
    _moving("nDCG, 60 % changed", lambda rng, shape: rng.beta(1, 2.5, shape), 1 / 3.5, 0.3),
    _moving("nDCG, 10 % changed", lambda rng, shape: rng.beta(1, 2.5, shape), 1 / 3.5, 0.05),
    _moving("mixture of both", _mixed, 0.52, 0.05),
    World("noise, rare losses", _noise_and_losses),
    World("5 answers a query", _answers, 0.18),
    World("clusters of 1-5", _clusters),
    World("1 in 10 failed", _failures),
    World("rare large gains", _rare_gains, bar=False),
)
