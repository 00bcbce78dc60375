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
HIT_SHARES = np.array([0.45, 0.14, 0.08, 0.05, 0.04, 0.03, 0.03, 0.02, 0.02, 0.02, 0.12])


class Sample(NamedTuple):
    """Evaluations, one a row.

    Attributes:
        d: A difference per query, or one value per cluster, as `difference_interval` weighs them.
        loss: The largest loss that a query or a cluster can have, for each row.
        gain: The largest gain, for each row.
    """

    d: FloatArray
    loss: FloatArray
    gain: FloatArray


class World(NamedTuple):
    """Queries that lose and gain.

    Attributes:
        name: Row of the table.
        draw: Draws evaluations (rows, queries or clusters) with a true mean loss.
        largest_drop: Beyond it too few queries are left to lose.
        bar: False where no rule can exclude wrong decisions; the bars do not apply.
    """

    name: str
    draw: Callable[[Rng, Shape, float], Sample]
    largest_drop: float = 1.0
    bar: bool = True


def _of_queries(d: FloatArray) -> Sample:
    return Sample(d, np.ones(len(d)), np.ones(len(d)))


def _of_clusters(d: FloatArray, sizes: FloatArray) -> Sample:
    """Return a value per cluster, from the summed differences `d` of clusters of these sizes."""
    total, n = sizes.sum(axis=1, keepdims=True), d.shape[1]
    mean = d.sum(axis=1, keepdims=True) / total
    residuals = d - mean * sizes
    residuals[np.abs(residuals) < 1e-12] = 0.0
    size = sizes.max(axis=1) * n / total[:, 0]
    largest = size + (size - 1) * np.abs(mean[:, 0])
    return Sample(mean + residuals * n / total, largest, largest)


def _of_scores(d: FloatArray, baseline: FloatArray) -> Sample:
    """Return differences from a baseline with these scores; see `difference_interval`."""
    n = d.shape[1]
    loss, gain = ((n * ends.max(axis=1) + 20) / (n + 20) for ends in (baseline, 1 - baseline))
    return Sample(d, loss, gain)


def hits(churn: float) -> World:
    """A share of the queries gains a hit and as many lose one; the drop comes on top."""
    return _moving(f"hits, churn {churn:g}", lambda _, shape: np.ones(shape), 1.0, churn)


def _moving(name: str, sizes: Sizes, mean: float, churn: float) -> World:
    """A share of the queries changes, by sizes with that mean."""

    def draw(rng: Rng, shape: Shape, drop: float) -> Sample:
        u, lost = rng.random(shape), drop / mean + churn
        sign = np.where(u < lost, -1.0, np.where(u < lost + churn, 1.0, 0.0))
        return _of_queries(sign * sizes(rng, shape))

    return World(name, draw, (1 - 2 * churn) * mean)


def _ranks(rng: Rng, shape: Shape) -> FloatArray:
    """Return the loss of reciprocal rank if the gold document moves down."""
    return rng.choice(_LOSSES, shape, p=_CHANCES)


_PAIRS = [(a, b) for a in range(11) for b in range(a + 1, 11)]
_LOSSES = np.array([RANKS[a] - RANKS[b] for a, b in _PAIRS])
_CHANCES = np.array([HIT_SHARES[a] * HIT_SHARES[b] for a, b in _PAIRS])
_CHANCES /= _CHANCES.sum()


def _mixed(rng: Rng, shape: Shape) -> FloatArray:
    return np.where(rng.random(shape) < 0.4, 1.0, 0.4 * rng.random(shape))


def _noise(rng: Rng, shape: Shape) -> FloatArray:
    noise = np.clip(rng.normal(0, 0.05, shape), -0.2, 0.2)
    return np.where(rng.random(shape) < 0.5, noise, 0.0)


def _noise_and_losses(rng: Rng, shape: Shape, drop: float) -> Sample:
    return _of_queries(np.where(rng.random(shape) < drop, -1.0, _noise(rng, shape)))


def _small_gains(loss: float) -> Callable[[Rng, Shape, float], Sample]:
    """Six in ten gain a little, few lose `loss`, so that small samples may show gains alone."""

    def draw(rng: Rng, shape: Shape, drop: float) -> Sample:
        u, lost = rng.random(shape), (drop + 0.6 * 0.03) / loss
        gains = rng.uniform(0.01, 0.05, shape)
        return _of_queries(np.where(u < lost, -loss, np.where(u < lost + 0.6, gains, 0.0)))

    return draw


def _small_losses(rng: Rng, shape: Shape, drop: float) -> Sample:
    """Six in ten lose a little, three in a hundred gain everything."""
    u, loss = rng.random(shape), (drop + 0.03) / 0.6
    small = -loss * (0.5 + rng.random(shape))
    return _of_queries(np.where(u < 0.03, 1.0, np.where(u < 0.63, small, 0.0)))


def _answers(rng: Rng, shape: Shape, drop: float) -> Sample:
    """Five answers a query, each right or wrong; queries differ in how hard they are."""
    easy = rng.beta(1.5, 0.5, shape)
    worse = easy - np.where(rng.random(shape) < drop / 0.375, easy / 2, 0.0)
    return _of_queries((rng.binomial(5, worse) - rng.binomial(5, easy)) / 5)


def _clusters(rng: Rng, shape: Shape, drop: float) -> Sample:
    """Draw clusters of one to five hits, of which half move together."""
    rows, n = shape
    sizes = rng.integers(1, 6, shape)
    together = rng.random((rows, n, 5)) < 0.5
    u = np.where(together, rng.random((rows, n, 1)), rng.random((rows, n, 5)))
    d = np.where(u < drop + 0.03, -1.0, np.where(u < drop + 0.06, 1.0, 0.0))
    d *= np.arange(5) < sizes[..., np.newaxis]
    return _of_clusters(d.sum(axis=2), sizes.astype(np.float64))


def _large_clusters(rng: Rng, shape: Shape, drop: float) -> Sample:
    """Draw clusters: one in five has ten queries and loses all or none, the others have one."""
    n = shape[1]
    sizes = np.where(np.arange(n) < n // 5, 10.0, 1.0)
    share = float(sizes[: n // 5].sum() / sizes.sum())
    u = rng.random(shape)
    single = np.where(u < 0.04, -1.0, np.where(u < 0.08, 1.0, 0.0))
    d = np.where(sizes > 1, np.where(u < drop / share, -10.0, 0.0), single)
    return _of_clusters(d, np.broadcast_to(sizes, shape))


def _sized_clusters(rng: Rng, shape: Shape, drop: float) -> Sample:
    """Draw clusters of one to ten queries; a larger cluster is more likely to lose all."""
    sizes = rng.integers(1, 11, shape).astype(np.float64)
    u, lost = rng.random(shape), drop * sizes * 5.5 / 38.5  # the mean size, that of its square
    one = np.where(u < lost + 0.03, -1.0, np.where(u < lost + 0.06, 1.0, 0.0))
    return _of_clusters(np.where(u < lost, -sizes, one), sizes)


def _failures(rng: Rng, shape: Shape, drop: float) -> Sample:
    """Draw queries of which one in ten failed by chance and is left out."""
    return hits(0.02).draw(rng, (shape[0], shape[1] - shape[1] // 10), drop)


def _rare_gains(rng: Rng, shape: Shape, drop: float) -> Sample:
    """Most lose a little, four in a hundred gain much, which few samples show."""
    u, loss = rng.random(shape), (drop + 0.04 * 0.7) / 0.7
    small = -loss * (0.5 + rng.random(shape))
    return _of_queries(np.where(u < 0.04, 0.7, np.where(u < 0.74, small, 0.0)))


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
    World("gains, rare losses", _small_gains(1.0), 0.35),
    World("gains, losses of .5", _small_gains(0.5), 0.15),
    World("5 answers a query", _answers, 0.18),
    World("clusters of 1-5", _clusters),
    World("1 cluster in 5 of 10", _large_clusters, 0.7),
    World("clusters of 1-10", _sized_clusters, 0.6),
    World("1 in 10 failed", _failures),
    World("rare large gains", _rare_gains, bar=False),
    World("rare total gains", _small_losses, bar=False),
)


# Scores of a baseline, as answers and rankings have them: few words in common, few relevant
# documents, a set that is nearly solved.
BASELINES: dict[str, Sizes] = {
    "BLEU": lambda rng, shape: rng.beta(1.0, 15.7, shape),
    "ROUGE-2": lambda rng, shape: np.where(rng.random(shape) < 0.6, 0.0, rng.beta(2.0, 8.0, shape)),
    "P@20, few relevant": lambda rng, shape: rng.binomial(20, rng.beta(1.0, 6.0, shape)) / 20,
    "equal": lambda _, shape: np.full(shape, 0.4),
    "near 1": lambda rng, shape: 1 - rng.beta(1.0, 12.0, shape),
}
# Lost queries that a sample is expected to show: 3.2 are missed by 4 % of samples
EXPECTED_LOSSES = (1.0, 2.0, 3.2, 4.0, 5.0, 7.0)


def small_gains_beside_losses(
    baseline: str, expected: float, n: int, *, best: bool = False
) -> World | None:
    """Some queries lose all that the baseline has; six in ten of the others gain a little.

    Any query may be lost, or with `best` those alone of which the baseline has a tenth with the
    highest scores. None if the baseline leaves too little to gain, or too few queries to lose.
    """
    usual = BASELINES[baseline](np.random.default_rng(SEED), (1, 200_000))[0]
    least = float(np.quantile(usual, 0.9)) if best else 0.0
    may_lose = usual >= least
    chance = expected / n / float(may_lose.mean())
    loss = chance * float((usual * may_lose).mean())
    # a gain is up to this share of what the baseline lacks
    gain = loss / (0.3 * float(((1 - usual) * (1 - chance * may_lose)).mean()))

    def draw(rng: Rng, shape: Shape, drop: float) -> Sample:
        scores = BASELINES[baseline](rng, shape)
        lost = (scores >= least) & (rng.random(shape) < chance)
        gains = np.where(rng.random(shape) < 0.6, rng.random(shape), 0.0) * (1 - scores)
        return _of_scores(np.where(lost, -scores, gain * gains), scores)

    return World(f"{baseline}, {expected:g} lost", draw) if gain <= 1 and chance <= 0.8 else None
