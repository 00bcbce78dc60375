"""Audit of a test set as text for the terminal, and as a chapter of the page of a run."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.records.audit import FINDING_KINDS, LABEL_STATUSES, Audit, Repair
from ragbench.report import text as fmt
from ragbench.report.base import Chapter
from ragbench.report.formats.base import Screen
from ragbench.report.formats.terminal import draw_table
from ragbench.report.table import word_table
from ragbench.types.display import printable

_LISTED = 5  # findings of a kind in the terminal
_DETECT_HEADS = ("scores", "slice", "queries", "graded (ndcg)", "hits (0 or 1)")


def audit_lines(audit: Audit) -> Iterator[str]:
    """Yield the lines of an audit: findings by kind, at most 5 of each, then what it can detect.

    The notes come last.
    """
    chapter = audit_chapter(audit)
    yield from chapter.headlines
    *findings, detects = chapter.grids
    for grid in findings:
        yield from ("", grid.caption)
        for place, problem in grid.rows[:_LISTED]:
            yield f"  {place.text}: {problem.text}"
        yield from _more(len(grid.rows) - _LISTED)
    yield from ("", detects.caption, *draw_table(detects, Screen()))
    yield from fmt.labelled("note", audit.notes)


def _more(n: int) -> Iterator[str]:
    """Yield a line on n entries that are not listed; nothing for n below 1."""
    if n > 0:
        yield f"  and {n} more (--json has all)"


def repair_lines(repair: Repair) -> Iterator[str]:
    """Yield the lines of a repair: counts, up to 5 moved labels, and all labels to correct.

    Labels that were kept are counted alone.
    """
    counts = ", ".join(f"{n} {status}" for status, n in repair.counts.items())
    yield f"{fmt.counted(len(repair.labels), 'gold quotes')}: {counts}"
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
        findings = [finding for finding in audit.findings if finding.kind == kind]
        rows = [(printable(finding.place), printable(finding.problem)) for finding in findings]
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
