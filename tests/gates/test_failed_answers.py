"""Failed answers of queries with several: everything that they could have been is tried."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench.comparison.pairs import PairedScores
from ragbench.comparison.systems import failed_share, summarize
from ragbench.experiment.records import mean_over_samples
from ragbench.gates.drop import Drop, QueriesWorse
from ragbench.gates.failed import Failed
from ragbench.gates.limit import Limit
from ragbench.signature import Signature
from ragbench.types import Cause, ScoreColumn
from tests.gates.test_drop import FAST

# An answer that failed, and one that the score does not apply to.
LOST, NOTHING = Cause.TIMEOUT, Cause.NO_CLAIMS


def column(answers, **facts):
    """A row for each query, a cell for each answer: a value or a cause."""
    samples = []
    for cells in zip(*answers, strict=True):
        values = [np.nan if isinstance(cell, Cause) else cell for cell in cells]
        causes = [cell if isinstance(cell, Cause) else Cause.SCORED for cell in cells]
        codes = np.array(causes, np.uint8)
        samples.append(ScoreColumn("f1", np.array(values), codes, Signature("f1"), **facts))
    return mean_over_samples(samples)


def fillings(answers):
    """Yield the values of the queries for every way to fill what failed with 0 and 1."""
    table = np.array(
        [[np.nan if isinstance(cell, Cause) else cell for cell in row] for row in answers]
    )
    lost = [(r, c) for r, row in enumerate(answers) for c, cell in enumerate(row) if cell is LOST]
    for ends in product((0.0, 1.0), repeat=len(lost)):
        filled = table.copy()
        for place, end in zip(lost, ends, strict=True):
            filled[place] = end
        yield np.array([np.mean(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan
                        for row in filled])  # fmt: skip


def agreed(verdicts):
    """Return the common verdict, or `undecided` if they differ."""
    distinct = set(verdicts)
    return distinct.pop() if len(distinct) == 1 else "undecided"


cells = st.sampled_from([0.0, 0.25, 0.5, 1.0, 0.25, 1.0, LOST, LOST, NOTHING])


def tables(most_lost):
    shape = st.tuples(st.integers(1, 4), st.integers(2, 3))
    drawn = shape.flatmap(
        lambda s: st.lists(st.lists(cells, min_size=s[1], max_size=s[1]),
                           min_size=s[0], max_size=s[0])
    )  # fmt: skip
    return drawn.filter(lambda rows: sum(cell is LOST for row in rows for cell in row) <= most_lost)


@settings(max_examples=30)
@given(tables(7), st.sampled_from(["higher", "lower"]))
def test_bounds_and_limits_hold_whatever_was_lost(answers, direction):
    scores = column(answers, direction=direction)
    filled = [values[~np.isnan(values)] for values in fillings(answers)]
    if not len(filled[0]):
        return
    means = [values.mean() for values in filled]
    ends = (min(means), max(means)) if direction == "higher" else (max(means), min(means))

    assert summarize(scores).bounds == pytest.approx(ends, abs=1e-12)

    if (scores.causes == Cause.SCORED).any():
        for limit in (0.111, 0.432, 0.789):  # no mean of such answers
            gate = Limit(measure="f1", min=limit)
            expected = agreed("pass" if mean >= limit else "fail" for mean in means)
            assert gate.decide_column(scores).verdict == expected


@settings(max_examples=30)
@given(tables(4), tables(4), st.sampled_from(["higher", "lower"]))
@example([[0.0, 0.0], [LOST, LOST]], [[0.0, 1.0], [0.0, 0.0]], "higher")
def test_differences_hold_whatever_was_lost_on_either_side(new_rows, old_rows, direction):
    n, samples = min(len(new_rows), len(old_rows)), min(len(new_rows[0]), len(old_rows[0]))
    new_rows, old_rows = ([row[:samples] for row in rows[:n]] for rows in (new_rows, old_rows))
    pairs = PairedScores(
        column(new_rows, direction=direction), column(old_rows, direction=direction), "abcd"[:n]
    )
    sign = 1 if direction == "higher" else -1
    d = [sign * (b - a) for b in fillings(new_rows) for a in fillings(old_rows)]
    d = [values[~np.isnan(values)] for values in d]

    for by, most in product((0.1, 0.6), (0, 1)):
        decision = QueriesWorse(measure="f1", by=by, max_queries_worse=most).decide_pairs(
            pairs, FAST
        )
        worse = [(values <= -by).sum() for values in d]
        expected = agreed("pass" if count <= most else "fail" for count in worse)
        is_compared = not np.isnan(pairs.gains).all()
        assert decision.verdict == (expected if is_compared else "undecided")

    if np.isnan(pairs.gains).all():
        return
    for max_drop in (0.011, 0.293):
        gate = Drop(measure="f1", max_drop=max_drop, decide="mean")
        # the mean that is shown, over what did not fail, must not say the opposite either
        printed_mean = np.nanmean(pairs.gains)
        means = [printed_mean, *(values.mean() for values in d)]
        expected = agreed("pass" if mean >= -max_drop else "fail" for mean in means)
        assert gate.decide_pairs(pairs, FAST).verdict == expected


def test_what_does_not_apply_is_no_part_of_a_score():
    scores = column([[1.0, LOST, NOTHING, 0.5], [NOTHING] * 4, [LOST, LOST, NOTHING, LOST]])

    assert failed_share(scores).tolist() == pytest.approx([1 / 3, 0, 1])


def test_an_interval_does_not_promise_what_lost_answers_could_take_away(assert_message):
    # Three of five answers to each query are right, and two are lost.
    answers = [[1.0, 1.0, 1.0, LOST, LOST]] * 100
    scores, base = column(answers), column([[1.0] * 5] * 100)

    decision = Drop(measure="f1", max_drop=0.05).decide_pairs(
        PairedScores(scores, base, "q" * 100), FAST
    )
    back = Drop(measure="f1", max_drop=0.05).decide_pairs(
        PairedScores(base, scores, "q" * 100), FAST
    )

    assert summarize(scores).bounds == pytest.approx((0.6, 1.0))
    assert (decision.verdict, back.verdict) == ("undecided", "pass")
    assert_message(decision.why)
    lower = Limit(measure="f1", min=0.7, decide="interval").decide_column(scores)
    assert lower.verdict == "undecided"


def test_single_answers_are_what_fails(assert_message):
    scores = column([[1.0, LOST, Cause.REFUSED], [1.0, 1.0, NOTHING]])

    decision = Failed(failed="f1", max=0.3).decide_column(scores)

    assert decision.verdict == "fail"
    assert_message(decision.why)
