"""Legend of a report: the meaning of signs, verdicts and p-values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType

from ragbench.records.comparison import Comparisons
from ragbench.report import text as fmt
from ragbench.report.base import AFTER_CORRECTION, DifferenceCell, Outcome, ScoreCell, Section
from ragbench.report.table import INTERVAL, SIGNS, Mark
from ragbench.types.display import printable

# names of options -> names that readers know
_CORRECTIONS = {
    "holm": "Holm",
    "benjamini_hochberg": "Benjamini-Hochberg",
    "max_t": "step-down max-T",
}
_TESTS = {
    "t": "paired t test",
    "unpaired": "inverted two-sample interval, of hits also Barnard's exact test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "mcnemar": "McNemar test of hits and misses, randomization test of other scores",
}


NOT_COMPARED = ("not compared", "no query has a score of both systems")
NOT_SHOWN = ("not shown", "no difference was shown, which does not mean equal")
_CORRECTED = "alone this comparison shows a difference, among the others it could be chance"
_VERDICTS: Mapping[Outcome, tuple[str, str]] = {
    "not shown": NOT_SHOWN,
    "identical": ("identical", "the same score as its baseline on every query that both have"),
    "not compared": NOT_COMPARED,
}


def legend(
    sections: Sequence[Section], comparisons: Comparisons, several_answers: bool = False
) -> list[tuple[str, str]]:
    """Return sign and meaning of the signs that occur in the sections.

    `several_answers` is True if a query has several answers, which the intervals then cover. In a
    fixed order: scores, differences, verdicts, then `-`; [] without signs.
    """
    confidence = fmt.percent(comparisons.confidence or 0.95)
    cells: list[ScoreCell] = []
    differences: list[DifferenceCell] = []
    for section in sections:
        for measure in section.measures:
            cells += measure.scores
            differences += measure.differences
    outcomes = set[Outcome]()
    texts, needs_correction = {cell.text for cell in cells}, False
    for difference in differences:
        outcomes.add(difference.outcome)
        texts.add(difference.value)
        needs_correction |= difference.needs_correction
    explained = []
    if any(cell.interval for cell in cells):
        text = f"{confidence} interval of the mean for other samples of such queries"
        text += " and of answers to them" if several_answers else ""
        text += ", not for another corpus, model or judge"
        explained.append((INTERVAL, text))
    explained += mark_meanings(cells, comparisons)
    explained += _of_differences(sections, comparisons)
    if outcomes & {"better", "worse"}:
        text = f"surely better or worse than its baseline ({confidence} confidence)"
        explained.append(("better, worse", text))
    for outcome in _VERDICTS:
        if outcome in outcomes:
            explained.append(_VERDICTS[outcome])
    if needs_correction:
        explained.append((AFTER_CORRECTION, _CORRECTED))
    if fmt.MISSING in texts:
        explained.append((fmt.MISSING, "no value: nothing was scored or compared"))
    return explained


def mark_meanings(cells: Iterable[ScoreCell], comparisons: Comparisons) -> list[tuple[str, str]]:
    """Return sign and meaning of the marks that occur in cells of scores; [] without marks.

    The correction is named where marks rest on pairs that no row compares.
    """
    marks = {cell.mark for cell in cells}
    is_beyond = False  # a mark rests on a pair without the best system
    for family in comparisons.measures:
        for row in family.comparisons:
            if family.best and family.best not in (row.system, row.baseline):
                is_beyond = True
    remarks: dict[Mark, str] = {}
    if is_beyond and not has_all_pairs(comparisons):
        last: Mark = "tied" if "tied" in marks else "best"
        remarks[last] = f" (pairs without the baseline: {ALL_PAIRS})"
    return mark_legend(marks, remarks)


def mark_legend(
    marks: Set[Mark], remarks: Mapping[Mark, str] = MappingProxyType({})
) -> list[tuple[str, str]]:
    """Return sign and meaning of marks, with a remark behind the meaning of some."""
    meanings: dict[Mark, str] = {
        "best": "surely better than all others",
        "tied": "the best mean, and those not shown to be worse",
    }
    entries = []
    for mark, text in meanings.items():
        if mark in marks:
            entries.append((SIGNS[mark], text + remarks.get(mark, "")))
    return entries


def _of_differences(sections: Sequence[Section], comparisons: Comparisons) -> list[tuple[str, str]]:
    """Return the legend of the columns of differences; empty without them."""
    heads, has_answers = list[str](), False
    for section in sections:
        if section.against:
            heads.append(section.against)
            has_answers |= section.kind != "retrieval"
    if not heads:
        return []
    text = "difference over the queries that both have, with its "
    text += f"{fmt.percent(comparisons.confidence or 0.95)} interval"
    if has_answers and _has_pairs(comparisons):
        text += ", between pairs with the same generator"
    if cluster := comparisons.cluster:
        text += f"; queries with the same {printable(cluster)} are one unit"
    # the same baseline has the same head in all sections
    head = ", ".join(dict.fromkeys(heads))
    return [(head, text), ("p", p_meaning(comparisons))]


def _has_pairs(comparisons: Comparisons) -> bool:
    """Return True if a system and its baseline share a generator: `minilm/gpt`, `bm25/gpt`."""
    for family in comparisons.measures:
        for row in family.comparisons:
            generator = row.system.partition("/")[2]
            if generator and row.baseline.partition("/")[2] == generator:
                return True
    return False


# Correction of decisions on pairs that no row compares, and of tables with letters.
ALL_PAIRS = "step-down max-T over all pairs"


def has_all_pairs(comparisons: Comparisons) -> bool:
    """Return True if all decisions are corrected for all pairs, as where letters are printed."""
    return any(family.better_than is not None for family in comparisons.measures)


def corrected(comparisons: Comparisons) -> tuple[str, str] | None:
    """Return the legend of verdicts that only the correction decides."""
    if any(pair.needs_correction for pair in comparisons.pairs()):
        return AFTER_CORRECTION, _CORRECTED
    return None


def p_meaning(comparisons: Comparisons) -> str:
    """Return the name of the test, the correction and the comparisons that it corrects for.

    Of a test with resamples, their number and seed follow.
    """
    test = printable(_TESTS.get(comparisons.test, f"{comparisons.test} test"))
    p = f"{test}, {_correction(comparisons)}"
    if resamples := comparisons.resamples:
        p += f"; {resamples} resamples, seed {comparisons.seed}"
    return p


def _correction(comparisons: Comparisons) -> str:
    """Return the correction and its family: `Holm over the 3 comparisons with the baseline`."""
    # without a correction the family does not matter
    if comparisons.correction == "none":
        return "not corrected for the number of comparisons"
    scope = "by all measures" if comparisons.family == "all" else "by one measure"
    if has_all_pairs(comparisons):
        return f"{ALL_PAIRS} {scope}"
    name = printable(_CORRECTIONS.get(comparisons.correction, comparisons.correction))
    sizes: set[int] = set()
    for row in comparisons.pairs():
        sizes.add(row.n_comparisons or 0)
    counts = sorted(sizes - {0})
    # measures that some systems lack have fewer comparisons
    ends = map(str, (*counts[:1], *counts[-1:]))
    number = " to ".join(dict.fromkeys(ends))
    noun = "comparison" if counts[-1:] == [1] else "comparisons"
    return " ".join(filter(None, (f"{name} over the", number, noun, "with the baseline", scope)))
