"""Corrected means of systems: their table, sentences and rows for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragbench.records import certificate as records
from ragbench.report.table import (
    Block,
    Paragraph,
    Raw,
    label,
    number,
    number_table,
)
from ragbench.report.text import MISSING, difference
from ragbench.types.display import printable


def correction_rows(rubric: records.CertifiedRubric) -> Iterator[tuple[Raw, ...]]:
    """Yield the values of corrected means and differences, from `part` on in `COLUMNS`."""
    means, differences = rubric.corrected, rubric.corrected_differences
    for part, corrections in (("corrected mean", means), ("corrected difference", differences)):
        for name, of in corrections.items():
            full_name = name if of.against is None else f"{name} - {of.against}"
            numbers = (of.mean, *(of.interval or (None, None)), of.n_labels, None)
            yield (part, full_name, *numbers, None, of.reason or None)
    words = {True: "differs", False: "not shown", None: None}
    for pair in rubric.corrected_order:
        names = f"{pair.system} - {pair.against}"
        numbers = (pair.mean, *(pair.interval or (None, None)), pair.n_labels, None)
        yield ("corrected order", names, *numbers, words[pair.differs], pair.reason or None)


def group_by_reason(reasons: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return reason -> names of the numbers that are missing for it; empty reasons are left out."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        if reason:
            groups.setdefault(reason, []).append(name)
    return groups


def corrected_blocks(rubric: records.CertifiedRubric) -> Iterator[Block]:
    """Yield the table of corrected means, and sentences on their differences and order."""
    rows = []
    for name, correction in rubric.corrected.items():
        if correction.labels_mean is not None:
            row = (
                label(name),
                number(correction.judge_mean),
                number(correction.labels_mean, correction.labels_interval),
                number(correction.mean, correction.interval),
                label(_ratio(correction)),
                number(correction.lambda_),
            )
            rows.append(row)
    if rows:
        heads = ("corrected mean", "judge", "labels alone", "corrected", "width", "lambda")
        yield number_table(heads, rows)
    yield Paragraph(tuple(_corrected_lines(rubric)), is_apart=not rows)


def _corrected_lines(rubric: records.CertifiedRubric) -> Iterator[str]:
    """Yield the corrected differences, the order, and the reasons for missing corrections."""
    for name, correction in rubric.corrected_differences.items():
        if correction.status == "corrected":
            value, ends = difference(correction.mean or 0.0, correction.interval)
            pair = f"{printable(name)} - {printable(correction.against)}"
            yield f"corrected difference, {pair}: {value} {ends}, width {_ratio(correction)}"
    yield from _order(rubric)
    reasons = {}
    for name, of in rubric.corrected.items():
        reasons[f"mean, {printable(name)}"] = of.reason
    for name, correction in rubric.corrected_differences.items():
        reasons[f"difference, {printable(name)}"] = correction.reason
    # many systems may share a reason, which is printed once
    for reason, names in group_by_reason(reasons).items():
        yield f"not corrected ({len(names)}: {names[0]}{', ...' * (len(names) > 1)}): {reason}"


def _order(rubric: records.CertifiedRubric) -> Iterator[str]:
    """Yield the order of the systems, and the pairs whose difference is shown and not shown."""
    pairs = rubric.corrected_order
    if not pairs:
        return
    means = {}
    for name, of in rubric.corrected.items():
        if of.mean is not None:
            means[name] = of.mean
    names = sorted(means, key=lambda name: (-means[name], name))
    yield f"order by corrected mean: {', '.join(map(printable, names))}"
    for text, differs in (("shown", True), ("not shown", False)):
        of_kind = []
        for pair in pairs:
            if pair.differs is differs:
                gain = " ".join(difference(pair.mean or 0.0, pair.interval))
                of_kind.append(f"{printable(pair.system)} above {printable(pair.against)} ({gain})")
        if of_kind:
            yield f"{text}, all pairs together: {'; '.join(of_kind)}"


def _ratio(correction: records.Correction) -> str:
    """Return the width of the corrected interval relative to that of the labels, as `x 0.75`."""
    return MISSING if correction.width_ratio is None else f"x {correction.width_ratio:.2f}"
