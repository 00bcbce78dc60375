"""Audit of a test set as text for the terminal, and as a chapter of the page of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import starmap

from ragbench.records.audit import ALL_QUERIES, FINDING_KINDS, LABEL_STATUSES, Audit, Repair
from ragbench.report import text as fmt
from ragbench.report.base import Chapter
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.table import Block, Paragraph, TableReport, data_table, word_table
from ragbench.types.display import list_counts, printable

_LISTED = 5  # findings of a kind in the terminal
_DETECT_HEADS = ("scores", "slice", "queries", "graded (ndcg)", "hits (0 or 1)")


def screen_report(audit: Audit, screen: Screen) -> TableReport:
    """Return an audit on one screen: at most 5 findings of each kind, or fewer, and all counts.

    The differences that slices of the set can detect are left out first.
    """
    cuts = ((5, True), (5, False), (3, False), (2, False), (1, False), (0, False))
    return fit_screen(starmap(partial(audit_report, audit), cuts), screen)


def audit_report(audit: Audit, n_listed: int | None = None, has_slices: bool = True) -> TableReport:
    """Return an audit: findings by kind, the differences that the set can detect, and notes.

    Args:
        audit: The audit.
        n_listed: Findings of each kind; None lists all.
        has_slices: True shows the detectable differences of slices of the set, too.
    """
    chapter = audit_chapter(audit)
    *findings, detects = chapter.grids
    blocks: list[Block] = [Paragraph(chapter.headlines)]
    for grid in findings:
        rows = grid.rows[:n_listed]
        lines = [grid.caption]
        for place, problem in rows:
            lines.append(f"  {place.text}: {problem.text}")
        if rows:
            lines += _more(len(grid.rows) - len(rows))
        blocks.append(Paragraph(tuple(lines), is_apart=n_listed != 0))
    of_all = tuple(row for row in detects.rows if has_slices or row[1].text == ALL_QUERIES)
    blocks.append(replace(detects, rows=of_all))
    notes = list(fmt.labelled("note", audit.notes))
    n_slices = len(detects.rows) - len(of_all)
    if n_slices:
        notes.append(f"more with --verbose: {fmt.counted(n_slices, 'slices')}")
    blocks.append(Paragraph(tuple(notes)))
    return TableReport(tuple(blocks), data_table((), ()))


def _more(n: int) -> Iterator[str]:
    """Yield a line on n entries that are not listed; nothing for n below 1."""
    if n > 0:
        yield f"  and {n} more (--verbose has all)"


def repair_lines(repair: Repair) -> Iterator[str]:
    """Yield the lines of a repair: counts, up to 5 moved labels, and all labels to correct.

    Labels that were kept are counted alone.
    """
    counts = list_counts(repair.counts)
    yield f"{fmt.counted(len(repair.labels), 'gold quotes')}: {counts}"
    for status, advice in LABEL_STATUSES.items():
        labels = []
        for label in repair.labels:
            if label.status == status != "kept":
                labels.append(label)
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
        yield from _more(len(labels) - n_listed)
    if repair.unquoted:
        yield f"note: {fmt.counted(repair.unquoted, 'gold documents')} without a quote, not checked"


def audit_chapter(audit: Audit) -> Chapter:
    """Return the chapter of an audit: a table for each kind of findings, then what it can detect.

    A kind without findings has no table. The columns of a kind are place and finding.
    """
    n = len(audit.findings)
    head = f"{fmt.counted(n, 'findings') if n else 'no findings'} in "
    head += fmt.counted(audit.queries, "queries")
    grids = []
    for kind, (title, advice) in FINDING_KINDS.items():
        findings = []
        for finding in audit.findings:
            if finding.kind == kind:
                findings.append(finding)
        rows = []
        for finding in findings:
            rows.append((printable(finding.place), printable(finding.problem)))
        if rows:
            caption = f"{title}: {len(rows)} ({advice})"
            grids.append(word_table(("place", "finding"), rows, caption))
    caption = "detects, with power 0.8, between two systems that are alike, and that are not"
    detects = []
    for entry in audit.detects:
        ranges = []
        for ends in (entry.graded, entry.hits):
            ranges.append("-" if ends is None else " to ".join(map(fmt.significant, ends)))
        detects.append((entry.scores, printable(entry.slice), str(entry.queries), *ranges))
    grids.append(word_table(_DETECT_HEADS, detects, caption))
    return Chapter("test set", (head,), (head, *audit.notes), tuple(grids))
