"""Audit of a test set as text for the terminal, and as a chapter of the page of a run."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.records.audit import (
    FINDING_KINDS,
    LABEL_STATUSES,
    Audit,
    Detectable,
    Finding,
    Repair,
)
from ragbench.report.base import Chapter, Grid
from ragbench.report.text import counted, draw, significant
from ragbench.types.display import printable

_LISTED = 5  # findings of a kind in the terminal
_HEADS = ("kind", "place", "finding", "what to do")
_DETECT_HEADS = ("scores", "slice", "queries", "graded (ndcg)", "hits (0 or 1)")


def audit_lines(audit: Audit) -> Iterator[str]:
    """Yield the lines of an audit: findings by kind, at most 5 of each, then what it can detect."""
    yield _headline(audit)
    for kind, (title, advice) in FINDING_KINDS.items():
        findings = [finding for finding in audit.findings if finding.kind == kind]
        if findings:
            yield ""
            yield f"{title}: {len(findings)} ({advice})"
        for finding in findings[:_LISTED]:
            yield f"  {printable(finding.place)}: {printable(finding.problem)}"
        if len(findings) > _LISTED:
            yield f"  and {len(findings) - _LISTED} more (--json has all)"
    yield ""
    yield "detects, with power 0.8, between two systems that are alike, and that are not:"
    yield from draw(list(zip(_DETECT_HEADS, *map(_detect_cells, audit.detects), strict=True)))
    for note in audit.notes:
        yield f"note: {note}"


def repair_lines(repair: Repair) -> Iterator[str]:
    """Yield the lines of a repair: counts, up to 5 moved labels, and all labels to correct.

    Labels that were kept are counted alone.
    """
    counts = ", ".join(f"{n} {status}" for status, n in repair.counts.items())
    yield f"{counted(len(repair.labels), 'gold quotes')}: {counts}"
    for status, advice in LABEL_STATUSES.items():
        labels = [label for label in repair.labels if label.status == status != "kept"]
        if labels:
            yield ""
            yield f"{status}: {len(labels)}{advice and f' ({advice})'}"
        # those that a person has to correct are all listed
        n_listed = len(labels) if advice else _LISTED
        for label in labels[:n_listed]:
            # ids have %20 for a blank of a file name, which people read as it is
            where = f"{label.document}: {label.finding}".replace("%20", " ")
            finding = f"{where}: '{' '.join(label.quote.split())}'"
            yield f"  {printable(label.place)}: query {printable(f'{label.query_id}: {finding}')}"
        if len(labels) > n_listed:
            yield f"  and {len(labels) - n_listed} more (--json has all)"
    if repair.unquoted:
        yield f"note: {counted(repair.unquoted, 'gold documents')} without a quote, not checked"


def audit_chapter(audit: Audit) -> Chapter:
    """Return the chapter of an audit: tables of its findings and of what it can detect."""
    findings = tuple(map(_finding_cells, audit.findings))
    detects = tuple(map(_detect_cells, audit.detects))
    grids = [Grid("findings", _HEADS, findings, words=True)] if findings else []
    grids += [
        Grid("differences that it detects with power 0.8", _DETECT_HEADS, detects, words=True)
    ]
    return Chapter("test set", (_headline(audit),), (_headline(audit), *audit.notes), tuple(grids))


def _headline(audit: Audit) -> str:
    """Return the counts: `12 findings in 78 queries`."""
    findings = counted(len(audit.findings), "findings") if audit.findings else "no findings"
    return f"{findings} in {counted(audit.queries, 'queries')}"


def _finding_cells(finding: Finding) -> tuple[str, ...]:
    """Return the cells of a finding, under `_HEADS`."""
    cells = (FINDING_KINDS[finding.kind][0], finding.place, finding.problem, finding.advice)
    return tuple(map(printable, cells))


def _detect_cells(entry: Detectable) -> tuple[str, ...]:
    """Return the cells of detectable differences, under `_DETECT_HEADS`."""
    ranges = [
        "-" if ends is None else f"{significant(ends[0])} to {significant(ends[1])}"
        for ends in (entry.graded, entry.hits)
    ]
    return (entry.scores, printable(entry.slice), str(entry.queries), *ranges)
