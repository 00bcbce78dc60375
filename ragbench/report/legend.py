"""What each mark, word and bracket on a page means, for those that are on it."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.records.comparison import Comparisons, MeasureComparison
from ragbench.records.summary import Summary
from ragbench.report.base import SIGNS, Section
from ragbench.report.text import MISSING, ends_of, percent, printable

_CORRECTIONS = {
    "holm": "Holm",
    "benjamini_hochberg": "Benjamini-Hochberg",
    "max_t": "studentized max-T",
}
_TESTS = {
    "t": "paired t test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "mcnemar": "McNemar test of hits and misses, randomization test of other scores",
}


def answered_again(summary: Summary) -> bool:
    """Tell whether generators answered each query of a run several times."""
    answers = [system.answers for system in summary.systems if system.answers is not None]
    return any(each.per_query > 1 for each in answers)


NOT_COMPARED = ("not compared", "no query has a score of both systems: there is nothing to say")
"""What a verdict means that is none."""


def legend(
    sections: Sequence[Section], comparisons: Comparisons, several_answers: bool = False
) -> list[tuple[str, str]]:
    """Explain the signs that occur in the sections: each sign and its meaning in one line."""
    confidence = percent(comparisons.confidence or 0.95)
    cells = [cell for s in sections for m in s.measures for cell in m.scores]
    differences = [cell for s in sections for m in s.measures for cell in m.differences]
    marks, outcomes = {cell.mark for cell in cells}, {cell.outcome for cell in differences}
    explained = []
    if any(cell.interval for cell in cells):
        text = f"{confidence} interval of the mean: what another sample of such queries"
        text += ", and other answers to them, would give" if several_answers else " would give"
        text += "; it does not cover another corpus, model or judge"
        explained.append(("[low, high]", text))
    if "best" in marks:
        explained.append((SIGNS["best"], "best value of the measure"))
    if "tied" in marks:
        text = (
            f"cannot be told from the best ({confidence}): a system and what it is compared with "
        )
        text += "by their own test, see p; all other pairs by max-T over all pairs"
        explained.append((SIGNS["tied"], text))
    explained += _of_differences(sections, comparisons)
    if outcomes & {"better", "worse"}:
        explained.append(("better, worse", f"differs from its baseline ({confidence} confidence)"))
    if "undecided" in outcomes:
        explained.append(("undecided", "no difference was shown, which is not equality"))
    if "identical" in outcomes:
        explained.append(("identical", "the same score as its baseline on every query"))
    if "not compared" in outcomes:
        explained.append(NOT_COMPARED)
    if MISSING in {cell.value for cell in cells} | {cell.value for cell in differences}:
        explained.append((MISSING, "no value: nothing was scored or compared"))
    return explained


def _of_differences(sections: Sequence[Section], comparisons: Comparisons) -> list[tuple[str, str]]:
    heads = list(dict.fromkeys(s.against for s in sections if s.against))
    if not heads:
        return []
    text = "paired difference over the queries that both have"
    if any(s.against and s.kind != "retrieval" for s in sections):
        text += "; a pair is compared with the baseline's pair of the same generator"
    if cluster := comparisons.cluster:
        text += f"; queries with the same {printable(cluster)} are one unit"
    shown = {m.name for s in sections for m in s.measures if m.differences}
    return [
        (", ".join(heads), text),
        ("p", p_meaning(comparisons)),
        *interval_and_p(
            [family for family in comparisons.measures if family.measure in shown],
            corrected=comparisons.correction != "none",
        ),
    ]


def interval_and_p(
    families: Sequence[MeasureComparison], *, corrected: bool = True
) -> list[tuple[str, str]]:
    """Explain a difference whose interval and p seem to disagree, where there is one.

    The interval is not that of the test: that asks for the signs of the queries that changed alone,
    and a corrected p is of a whole family. With 5 of 30 hits lost p is 0.0625, and the interval
    reaches from -0.340 to -0.043.
    """
    made = [c for family in families for c in family.comparisons if c.p is not None]
    known = [(c, ends) for c in made if (ends := ends_of(c.interval)) is not None]
    explained = []
    if any(c.differs and low <= 0 <= high for c, (low, high) in known):
        text = (
            "p asks whether chance would move the queries that changed so far to one side; the "
            "interval also allows for changes that no query here shows, and may hold 0 beside a "
            "better or worse. A gate reads the interval"
        )
        explained.append(("interval with 0, and better or worse", text))
    if any(c.n_changed and not c.differs and not low <= 0 <= high for c, (low, high) in known):
        text = (
            "p is corrected for all comparisons of its family and counts the queries that changed; "
            "the interval is of one comparison and counts those that did not change as well"
        )
        if not corrected:
            text = "p counts the queries that changed, the interval those that did not as well"
        explained.append(("interval without 0, and undecided", text))
    return explained


def p_meaning(comparisons: Comparisons) -> str:
    """Name the test behind the p values, and over what they are corrected."""
    word = comparisons.test
    test = printable(_TESTS.get(word, f"{word} test"))
    correction = comparisons.correction
    named = printable(_CORRECTIONS.get(correction, correction))
    sizes = [len(family.comparisons) for family in comparisons.measures if family.comparisons]
    if correction == "none":
        p = f"{test}, not corrected for {_counted(*sizes)} of one measure"
    elif comparisons.family == "all":
        p = f"{test}, {named} over {_counted(sum(sizes))} of all measures"
    else:
        p = f"{test}, {named} over {_counted(*sizes)} of one measure"
    if resamples := comparisons.resamples:
        p += f"; {resamples} resamples, seed {comparisons.seed}"
    return p


def _counted(*sizes: int) -> str:
    """Say over how many comparisons the p values are corrected: `the 2 to 5 comparisons`."""
    if set(sizes) == {1}:
        return "the 1 comparison"
    ends = [min(sizes, default=""), max(sizes, default="")]
    return f"the {' to '.join(map(str, dict.fromkeys(ends)))} comparisons"
