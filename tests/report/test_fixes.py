"""Sentences on the best change of a fix list: what is sure, and what is only possible."""

import pytest

from ragbench.records.fixes import FixList, PricedChange, Promise
from ragbench.report.fixes import fix_chapter, page_chapter


def fixes(gain, interval, differs=None):
    """A fix list whose best change has a gain after the choice."""
    change = PricedChange(
        kind="rrf",
        text="fuse",
        passages=5,
        found=6,
        of=10,
        rescued=("q1",),
        lost=(),
        gain=gain,
        interval=interval,
        differs=differs,
    )
    best = Promise(change=change, gain=gain, interval=interval, untouched=interval)
    return FixList(
        name="e",
        run_id="r",
        system="bm25",
        read=5,
        of=10,
        found=5,
        confidence=0.95,
        changes=(change,),
        best=best,
    )


@pytest.mark.parametrize(
    ("fix_list", "sentence"),
    [
        (fixes(3.0, (1.0, 5.0)), "fuse surely helps: of 10 questions it finds about 3 more"),
        (fixes(0.4, (0.1, 0.7)), "fuse surely helps: of 10 questions it finds about 0.4 more"),
        (
            fixes(3.0, (-0.4, 5.0)),
            "no change is surely better; the largest promise is fuse: +3, from -0.4 to +5, of 10",
        ),
        (
            fixes(3.0, (1.0, 5.0), differs=False),
            "no change is surely better after correction; the largest promise is fuse: +3, from "
            "+1 to +5, of 10",
        ),
        (
            fixes(0.04, (-3.0, 3.0)),
            "no other ranking of this run promises more questions",
        ),
        (
            fixes(-1.0, (-3.0, 3.0)),
            "no other ranking of this run promises more questions",
        ),
    ],
)
def test_a_promise_is_a_gain_with_what_it_depends_on(fix_list, sentence):
    assert page_chapter(fix_list).headlines[1] == sentence


@pytest.mark.parametrize(("gain", "n"), [(3.0, 2), (0.0, 1)])
def test_a_change_without_a_gain_is_not_proposed(gain, n):
    lines = fix_chapter(fixes(gain, (-3.0, 5.0))).headlines[1:]

    assert len(lines) == n
    assert ("--write" in lines[-1]) == (gain > 0)
