"""Alpha against the published example, against pairwise counting, and on missing ratings."""

import csv
import gzip
import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench.stats.agreement import krippendorff_alpha, mean_agreement
from tests.stats.strategies import rating_tables

LEVELS = ["nominal", "ordinal", "interval"]
_ = np.nan
# Four observers and twelve units: Krippendorff (2011), Computing Krippendorff's alpha-reliability,
# section C and D
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
).T


def agreement(table, level="nominal"):
    """Alpha of a table in which items may have less than two ratings, with its interval."""
    return mean_agreement(partial(krippendorff_alpha, level=level), [table], level)


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_the_published_example(level, published):
    alpha = agreement(PUBLISHED, level)

    assert alpha.value == pytest.approx(published, abs=5e-4)
    assert alpha.n == 11, "one unit has a single rating"


def _by_pairs(table, level):
    """The definition, one pair of ratings after the other."""
    units = [row[np.isfinite(row)] for row in table]
    ratings = np.sort(np.concatenate([unit for unit in units if len(unit) > 1]))

    def apart(a, b):
        if level == "nominal":
            return float(a != b)
        if level == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = ((ratings >= low) & (ratings <= high)).sum()
        ends = ((ratings == low).sum() + (ratings == high).sum()) / 2
        return float(between - ends) ** 2

    observed = sum(
        apart(a, b) / (len(unit) - 1) for unit in units for a, b in itertools.permutations(unit, 2)
    )
    expected = sum(apart(a, b) for a, b in itertools.permutations(ratings, 2))
    return 1 - (len(ratings) - 1) * observed / expected


@pytest.mark.costly
@settings(max_examples=12, deadline=None)
@given(table=rating_tables(), level=st.sampled_from(LEVELS))
def test_agrees_with_counting_pairs(table, level):
    alpha = agreement(table, level)
    assume(not np.isnan(alpha.value))

    assert alpha.value == pytest.approx(_by_pairs(table, level), abs=1e-9)


@pytest.mark.costly
@settings(max_examples=12, deadline=None)
@pytest.mark.parametrize("level", LEVELS)
@given(table=rating_tables())
def test_leaving_one_out_in_closed_form_is_computing_it_again(level, table):
    assume(len(table) > 1)
    alpha = krippendorff_alpha(table, level)
    assume(not np.isnan(alpha.value))

    tables = [np.delete(table, row, axis=0) for row in range(len(table))]
    again = [krippendorff_alpha(smaller, level).value for smaller in tables]

    np.testing.assert_allclose(alpha.without, again, atol=1e-9)


@pytest.mark.costly
@settings(max_examples=12)
@given(rating_tables(), st.sampled_from(LEVELS), st.randoms(use_true_random=False))
def test_raters_are_interchangeable(table, level, random):
    shuffled = np.array([random.sample(list(row), len(row)) for row in table])
    one = agreement(table, level).value

    assert agreement(shuffled, level).value == pytest.approx(one, nan_ok=True)


def test_two_raters_and_many_items_are_close_to_scotts_pi():
    # Agreement .7; both together say 1 in 55 of 100: chance .505, pi = .195 / .495
    x = [1] * 25 + [0] * 25
    y = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    pi = (0.7 - 0.505) / (1 - 0.505)

    alpha = krippendorff_alpha(np.column_stack((x, y)))

    assert alpha.value == pytest.approx(1 - (1 - pi) * 99 / 100)


def test_the_lent_annotations(lent_data):
    # 1,869 summaries, three raters, 43 ratings missing: alpha of yes and no
    ratings = {}
    with gzip.open(
        lent_data / "xsum-factuality/annotations.csv.gz", "rt", encoding="utf-8"
    ) as csv_:
        for row in csv.DictReader(csv_):
            item = ratings.setdefault((row["bbcid"], row["system"], row["summary"]), [])
            item.append({"yes": 1.0, "no": 0.0}.get(row["is_factual"], np.nan))
    table = np.array([*itertools.zip_longest(*ratings.values(), fillvalue=np.nan)]).T

    alpha = agreement(table)

    rated = table[np.isfinite(table).sum(axis=1) >= 2]
    assert alpha.n == len(rated) > 1800
    assert alpha.value == pytest.approx(_by_pairs_binary(rated), abs=1e-9)
    assert alpha.lower < alpha.value < alpha.upper


def _by_pairs_binary(table):
    """Nominal alpha of two classes from the counts alone."""
    ones, size = np.nansum(table, axis=1), np.isfinite(table).sum(axis=1)
    observed = (2 * ones * (size - ones) / (size - 1)).sum()
    n1, n = ones.sum(), size.sum()
    return 1 - (n - 1) * observed / (2 * n1 * (n - n1))
