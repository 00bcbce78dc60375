"""What each mark, word and bracket on a page means, for those that are on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.report.base import SIGNS, Section
from ragbench.report.digits import MISSING, percent, printable

Json = Mapping[str, Any]

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


def answered_again(summary: Json) -> bool:
    """Tell whether generators answered each query of a run several times."""
    systems = summary.get("systems") or ()
    return any((system.get("answers") or {}).get("per_query", 1) > 1 for system in systems)


def legend(
    sections: Sequence[Section], comparisons: Json, several_answers: bool = False
) -> list[tuple[str, str]]:
    """Explain the signs that occur in the sections.

    Args:
        sections: What is on the page.
        comparisons: comparisons.json, for the names of the tests.
        several_answers: Whether scores are means over several answers to each query.

    Returns:
        Pairs of a sign and its meaning, one line each.
    """
    confidence = percent(comparisons.get("confidence", 0.95))
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
        text = f"cannot be told from the best (max-T test over all pairs, {confidence})"
        explained.append((SIGNS["tied"], text))
    explained += _of_differences(sections, comparisons)
    if outcomes & {"better", "worse"}:
        explained.append(("better, worse", f"differs from its baseline ({confidence} confidence)"))
    if "undecided" in outcomes:
        explained.append(("undecided", "no difference was shown, which is not equality"))
    if "identical" in outcomes:
        explained.append(("identical", "the same score as its baseline on every query"))
    if MISSING in {cell.value for cell in cells} | {cell.value for cell in differences}:
        explained.append((MISSING, "no value: nothing was scored or compared"))
    return explained


def _of_differences(sections: Sequence[Section], comparisons: Json) -> list[tuple[str, str]]:
    heads = list(dict.fromkeys(s.against for s in sections if s.against))
    if not heads:
        return []
    text = "paired difference over the queries that both have"
    if any(s.against and s.kind != "retrieval" for s in sections):
        text += "; a pair is compared with the baseline's pair of the same generator"
    if cluster := comparisons.get("cluster"):
        text += f"; queries with the same {printable(cluster)} are one unit"
    return [
        (", ".join(heads), text),
        ("p", p_meaning(comparisons)),
        *interval_and_p({"measures": _shown(sections, comparisons)}),
    ]


def _shown(sections: Sequence[Section], comparisons: Json) -> list[Json]:
    """The families whose differences are on the page."""
    names = {m.name for s in sections for m in s.measures if m.differences}
    return [family for family in comparisons.get("measures") or () if family["measure"] in names]


def interval_and_p(comparisons: Json) -> list[tuple[str, str]]:
    """Explain a difference whose interval and p seem to disagree, where there is one.

    The interval is not that of the test: where few queries changed it allows for changes that none
    of them shows, and it is of one comparison where p is of a whole family. With 6 of 30 hits lost
    p is 0.031, and the interval reaches from -0.359 to +0.0045.
    """
    families = [m.get("comparisons") or () for m in comparisons.get("measures") or ()]
    made = [c for family in families for c in family if c.get("p") is not None]
    known = [c for c in made if None not in (c.get("interval") or [None])]
    explained = []
    if any(c.get("differs") and _holds_zero(c) for c in known):
        text = (
            "p asks whether chance would move the queries that changed so far to one side; where "
            "few changed, the interval also allows for changes that no query here shows, and may "
            "hold 0 beside a better or worse. A gate reads the interval"
        )
        explained.append(("interval with 0, and better or worse", text))
    if any(c.get("n_changed") and not c.get("differs") and not _holds_zero(c) for c in known):
        text = "p is corrected for all comparisons of its family, the interval is of one alone"
        explained.append(("interval without 0, and undecided", text))
    return explained


def _holds_zero(comparison: Json) -> bool:
    low, high = comparison["interval"]
    return bool(low <= 0 <= high)


def p_meaning(comparisons: Json) -> str:
    """Name the test behind the p values, and over what they are corrected."""
    word = str(comparisons.get("test", "test"))
    test = printable(_TESTS.get(word, f"{word} test"))
    correction = str(comparisons.get("correction", "none"))
    named = printable(_CORRECTIONS.get(correction, correction))
    if comparisons.get("family") == "all":
        p = f"{test}, {named} over {_counted(sum(_sizes(comparisons)))} of all measures"
    else:
        p = f"{test}, {named} over {_counted(*_sizes(comparisons))} of one measure"
    if resamples := comparisons.get("resamples"):
        p += f"; {resamples} resamples, seed {comparisons.get('seed')}"
    return p


def _sizes(comparisons: Json) -> list[int]:
    """Count the comparisons of each measure that has any."""
    families = [m.get("comparisons") or () for m in comparisons.get("measures") or ()]
    return [len(family) for family in families if family]


def _counted(*sizes: int) -> str:
    """Say over how many comparisons the p values are corrected: `the 2 to 5 comparisons`."""
    if set(sizes) == {1}:
        return "the 1 comparison"
    ends = [min(sizes, default=""), max(sizes, default="")]
    return f"the {' to '.join(map(str, dict.fromkeys(ends)))} comparisons"
