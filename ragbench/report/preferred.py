"""Report of `ragbench calibrate --on` for pairs: agreement with the preferred answers."""

from __future__ import annotations

from collections.abc import Iterator

from ragbench.records.certificate import CertifiedPairs, PairCertificate
from ragbench.report.calibration import COLUMNS
from ragbench.report.table import (
    Block,
    Paragraph,
    Raw,
    Table,
    TableReport,
    change,
    data_table,
    label,
    number,
    number_table,
)
from ragbench.report.text import causes, counted, difference, interval
from ragbench.types.display import printable

# Share of a certificate -> its words
_NAMES = {
    "both_orders": "right in both orders",
    "together": "right over both orders together",
    "first": "right where the preferred answer stands first",
    "second": "right where it stands second",
    "same_side": "same verdict in both orders",
    "whole_rows": "rows with all their pairs right",
    "position": "gain of the answer that stands first",
}


def pairs_report(certificate: PairCertificate) -> TableReport:
    """Return a certificate of pairs as a report: a sentence, and a table for each judge."""
    sentences = []
    for name, of in certificate.rubrics.items():
        sentences.append(_sentence(name, of))
    blocks: list[Block] = [Paragraph(tuple(sentences), is_strong=True)]
    rows: list[tuple[Raw, ...]] = []
    for name, rubric in certificate.rubrics.items():
        head = f"{certificate.run}: {name} by judge {rubric.judge} ({rubric.model})"
        blocks.append(Paragraph((printable(head),), is_apart=True))
        blocks.append(_table(rubric))
        for row in _rows(rubric):
            rows.append((name, rubric.judge, rubric.model, *row))
    legend = f"[low, high]: {certificate.confidence * 100:g} % interval for other samples of rows"
    blocks.append(Paragraph((legend, "a tie is not right"), is_apart=True))
    return TableReport(tuple(blocks), data_table(COLUMNS, rows), printable(certificate.run))


def _sentence(name: str, rubric: CertifiedPairs) -> str:
    """Return the agreement and the position bias of a judge in words."""
    if not rubric.pairs:
        return f"{printable(name)} has no verdict{causes(rubric.unscored.items())}"
    right, position = rubric.shares["both_orders"], rubric.shares["position"]
    n_right = f"{round(right.value * right.n):,} of {counted(right.n, 'pairs')}"
    shift = " ".join(difference(position.value, position.interval))
    low, high = position.interval
    bias = "no position bias is shown"
    if low is not None and high is not None and (low > 0 or high < 0):
        bias = f"it favours the {'first' if low > 0 else 'second'} answer"
    subject = f"{printable(name)} prefers the answer of people in both orders"
    return f"{subject} on {n_right} {interval(right.interval)}; {bias}: {shift}"


def _table(rubric: CertifiedPairs) -> Table:
    """Return the table of the shares of a judge."""
    rows = []
    for name, share in rubric.shares.items():
        draw = change if name == "position" else number
        rows.append((label(_NAMES[name]), draw(share.value, share.interval), label(share.n)))
    return number_table(("agreement", "judge and people", "n"), rows)


def _rows(rubric: CertifiedPairs) -> Iterator[tuple[Raw, ...]]:
    """Yield the values of a judge, from `part` on in `COLUMNS`."""
    for name, share in rubric.shares.items():
        yield ("pairs", name, share.value, *share.interval, share.n, None, None, None)
