"""Student's t distribution without SciPy: tail areas and quantiles."""

from __future__ import annotations

import math
from functools import lru_cache

from ragbench.errors import OptionError

_LARGE = 20.0
_TINY = 1e-300


def t_sf(t: float, df: float) -> float:
    """Return the probability that Student's t exceeds t.

    The value is accurate to ten digits and more, far into the tail too, for degrees of freedom from
    1 up to millions. The result lies in [0, 1]; t may be infinite.

    Raises:
        OptionError: df is below 1 or not finite, or t is NaN.

    Example:
        With one degree of freedom a quarter of the area lies above 1.

        >>> round(t_sf(1.0, 1), 12)
        0.25

    References:
        Abramowitz and Stegun (1964), Handbook of Mathematical Functions, 26.7.1 and 26.5.8.
    """
    _check_df("t_sf", df)
    if math.isnan(t):
        raise OptionError("t_sf", "t", t, "a number")
    tail = _two_tails(abs(t), df) / 2
    return tail if t >= 0 else 1 - tail


@lru_cache(maxsize=8192)
def t_quantile(p: float, df: float) -> float:
    """Return the quantile of Student's t at probability p, for degrees of freedom from 1.

    It is negative for p below 0.5.

    Raises:
        OptionError: p is outside (0, 1), or df is below 1 or not finite.

    Example:
        The factor of a 95 % interval of 10 values.

        >>> round(t_quantile(0.975, 9), 4)
        2.2622
    """
    _check_df("t_quantile", df)
    if not 0 < p < 1:
        raise OptionError("t_quantile", "p", p, "a number between 0 and 1")
    if p > 0.5:
        return _upper_quantile(1 - p, df)
    return -_upper_quantile(p, df)


def _check_df(owner: str, df: float) -> None:
    if not 1 <= df < math.inf:
        raise OptionError(owner, "df", df, "a finite number >= 1")


def _upper_quantile(tail: float, df: float) -> float:
    """Return t >= 0 with P(T > t) = tail, for tail <= 1/2."""
    if tail == 0.5:
        return 0.0
    low, high = 0.0, 1.0
    while _two_tails(high, df) / 2 > tail:
        low, high = high, 2 * high
    t = (low + high) / 2
    log_scale = _log_gamma_ratio(df / 2) - 0.5 * math.log(df * math.pi)
    for _ in range(200):
        area = _two_tails(t, df) / 2
        low, high = (t, high) if area > tail else (low, t)
        # Newton on the logarithm of the tail, which is nearly straight where the tail itself
        # is flat; bisection wherever a step would leave the bracket.
        density = math.exp(log_scale - (df + 1) / 2 * math.log1p(t * t / df))
        newton = t + math.log(area / tail) * area / density
        step_to = newton if low < newton < high else (low + high) / 2
        if abs(step_to - t) <= 1e-15 * t:
            break
        t = step_to
    return t


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), for positive a and b.

    `x` is from 0 to 1.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta)
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, 1 - x) / b


def _two_tails(t: float, df: float) -> float:
    """Return P(|T| > t) = I_x(df / 2, 1 / 2) at x = df / (df + t^2), for t >= 0."""
    square = t * t
    if square < _TINY * df:
        return 1.0
    a, b = df / 2, 0.5
    # x and 1 - x apart, each without cancellation: either may be close to 1.
    x, complement = 1 / (1 + square / df), 1 / (1 + df / square)
    log_power = -a * math.log1p(square / df) + b * math.log(complement)
    front = math.exp(log_power + _log_gamma_ratio(a) - 0.5 * math.log(math.pi))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1 - front * _continued_fraction(b, a, complement) / b


def _log_gamma_ratio(a: float) -> float:
    """Return log(gamma(a + 1/2) / gamma(a))."""
    # the difference of two `lgamma` loses nine digits at a = 500,000, the series none
    if a < _LARGE:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    inverse = 1 / a
    square = inverse * inverse
    series = 1 / 8 - square * (1 / 192 - square * (1 / 640 - square * 17 / 14336))
    return 0.5 * math.log(a) - inverse * series


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    # Thompson and Barnett (1986), Coulomb and Bessel functions of complex arguments and order.
    # unrolled: plans of queries spend most of their time here; _TINY avoids divisions by 0
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    fraction = d = 1 / (d if abs(d) > _TINY else _TINY)
    for m in range(1, 100 + 50 * math.isqrt(int(max(a, b)))):
        place = a + 2 * m
        even = m * (b - m) * x / ((place - 1) * place)
        d, c = 1 + even * d, 1 + even / c
        d = 1 / (d if d > _TINY or d < -_TINY else _TINY)
        c = c if c > _TINY or c < -_TINY else _TINY
        fraction *= c * d
        odd = -(a + m) * (a + b + m) * x / (place * (place + 1))
        d, c = 1 + odd * d, 1 + odd / c
        d = 1 / (d if d > _TINY or d < -_TINY else _TINY)
        c = c if c > _TINY or c < -_TINY else _TINY
        change = c * d
        fraction *= change
        if abs(change - 1) < 1e-16:
            break
    return fraction
