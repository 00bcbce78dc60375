"""Tables of a certificate on labels of two levels, and on the groups of its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.records import certificate as records
from ragbench.report.table import (
    Raw,
    Table,
    TableCell,
    change,
    count,
    label,
    number,
    number_table,
)
from ragbench.report.text import MISSING

# The better level first.
_LEVELS = ("pass", "fail")
_PLURALS = {"pass": "passes", "fail": "fails"}
# Statistics of two levels that a table shows; the recall of the rare level is one of the first two.
TWO_LEVEL_NAMES = ("tpr", "tnr", "balanced_accuracy", "precision", "f1")


def two_level_names(rare: str) -> dict[str, str]:
    """Return statistic -> its name for people; an equal number has both of its names.

    Example:
        >>> two_level_names("fail")["tnr"]
        'on fails (TNR, recall of fails)'
    """
    of_rare = _PLURALS[rare]
    names = {
        "tpr": "on passes (TPR)",
        "tnr": "on fails (TNR)",
        "balanced_accuracy": "balanced accuracy",
        "precision": f"precision of {of_rare}",
        "f1": f"F1 of {of_rare}",
    }
    equal = "tpr" if rare == "pass" else "tnr"
    names[equal] = names[equal].replace(")", f", recall of {of_rare})")
    return names


def confusion_table(confusion: Mapping[str, Mapping[str, int]]) -> Table:
    """Return the number of labels by the level of people and of the judge."""
    rows = []
    for people in _LEVELS:
        cells = []
        for judge in _LEVELS:
            cells.append(count(confusion[people][judge]))
        rows.append((label(f"people {people}"), *cells))
    return number_table(("labels", "judge pass", "judge fail"), rows)


def statistic_cell(statistics: Mapping[str, records.AgreementResult], name: str) -> TableCell:
    """Return a statistic with its interval; `-` if it is missing or not defined."""
    of = statistics.get(name)
    if of is None or of.value is None:
        return TableCell(MISSING)
    return number(of.value, of.interval)


def group_tables(rubric: records.CertifiedRubric) -> Iterator[Table]:
    """Yield the tables of the groups: agreement, and for two levels the rare one with its counts.

    A last row has the means over the groups.
    """
    means = rubric.groups_mean
    parts = {name: of.agreement for name, of in rubric.groups.items()}
    if means:
        parts[f"mean of {len(parts)} groups"] = means
    names = _names(rubric, ("raw", records.KAPPA))
    if rubric.confusion:
        names = _names(rubric, ("tpr", "tnr", "balanced_accuracy"))
    rows = []
    for group, statistics in parts.items():
        of = rubric.groups.get(group)
        start = (count(None), TableCell(MISSING))
        if of is not None:
            start = (count(of.n), change(of.bias.difference, of.bias.interval))
        rows.append((label(group), *start, *_cells(statistics, names)))
    yield number_table((rubric.by, "answers", "judge - people", *names.values()), rows)
    if rubric.confusion:
        yield _rare_table(rubric)


def group_notes(rubric: records.CertifiedRubric) -> Iterator[str]:
    """Yield the number of answers in no group, and why groups of two levels have no mean."""
    groups = rubric.groups.values()
    n_without = rubric.labels.n - sum(of.n for of in groups)
    if groups and n_without:
        yield f"note: answers without {rubric.by}, in no group: {n_without}"
    if rubric.groups_mean or not rubric.confusion or len(groups) < 2:
        return
    why = "queries or documents are in several groups, which vary together"
    reasons: dict[str, None] = {}
    n_undefined = 0
    for name in ("tpr", "tnr"):
        undefined = []
        for of in groups:
            if of.agreement[name].value is None:
                undefined.append(of.agreement[name])
        n_undefined += bool(undefined)
        reasons |= dict.fromkeys(share.reason for share in undefined if share.reason)
    if n_undefined == 2:
        why = "; ".join(reasons)
    yield f"note: no mean of {len(groups)} groups: {why}"


def _rare_table(rubric: records.CertifiedRubric) -> Table:
    """Return precision and F1 of the rare level, kappa, and the counts of each group."""
    names = _names(rubric, ("precision", "f1", records.KAPPA))
    rows = []
    for group, of in rubric.groups.items():
        counts = []
        for people, judge in _pairs():
            counts.append(count(of.confusion[people][judge]))
        rows.append((label(group), *_cells(of.agreement, names), *counts))
    heads = []
    for people, judge in _pairs():
        heads.append(f"{people}/{judge}")
    return number_table((f"{rubric.by}, people/judge", *names.values(), *heads), rows)


def _pairs() -> Iterator[tuple[str, str]]:
    """Yield the levels of people and judge, in the order of the table."""
    for people in _LEVELS:
        for judge in _LEVELS:
            yield people, judge


def _names(rubric: records.CertifiedRubric, statistics: Sequence[str]) -> dict[str, str]:
    """Return statistic -> head of its column."""
    names = {"raw": "same level", records.KAPPA: "kappa"}
    if rubric.rare:
        names |= two_level_names(rubric.rare)
    return {name: names[name] for name in statistics}


def _cells(
    statistics: Mapping[str, records.AgreementResult], names: Mapping[str, str]
) -> Iterator[TableCell]:
    """Yield the cells of some statistics."""
    for name in names:
        yield statistic_cell(statistics, name)


def group_rows(rubric: records.CertifiedRubric) -> Iterator[tuple[Raw, ...]]:
    """Yield counts of the confusion table and values of groups, from `part` on in `COLUMNS`."""
    yield from _count_rows("confusion", rubric.confusion)
    for group, of in rubric.groups.items():
        place = f"{rubric.by}={group}"
        bias = (of.bias.difference, *of.bias.interval, of.n, None)
        yield (f"mean, {place}", "judge - people", *bias, None, None)
        yield from statistic_rows(f"agreement, {place}", of.agreement)
        yield from _count_rows(f"confusion, {place}", of.confusion)
    yield from statistic_rows("mean over groups", rubric.groups_mean)


def statistic_rows(
    part: str, statistics: Mapping[str, records.AgreementResult]
) -> Iterator[tuple[Raw, ...]]:
    """Yield statistics, from `part` on in `COLUMNS`."""
    for name, of in statistics.items():
        numbers = (of.value, *of.interval, of.n, of.level or None)
        yield (part, name, *numbers, None, of.reason or None)


def _count_rows(part: str, confusion: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[Raw, ...]]:
    """Yield the counts of a confusion table, from `part` on in `COLUMNS`."""
    for people, by_judge in confusion.items():
        for judge, n in by_judge.items():
            yield (part, f"people {people}, judge {judge}", n, *(None,) * 6)
