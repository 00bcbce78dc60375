"""First screen of `ragbench explain`: the causes of each system, and lost questions of the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ragbench.records.causes import CauseRow
from ragbench.report import text as fmt
from ragbench.report.explanation import TITLE, Explanation, data_rows
from ragbench.report.first_screen import next_commands
from ragbench.report.headline import lead_measure, leading_systems
from ragbench.report.table import (
    Block,
    Paragraph,
    Table,
    TableColumn,
    TableReport,
    label,
)
from ragbench.types.display import printable

# Questions on the screen, and the characters of a text of theirs.
_QUESTIONS, _LONGEST = 4, 60


def screen_report(explanation: Explanation, run: str) -> TableReport:
    """Return the causes of each system, and questions that the first system lost, in four lines.

    Args:
        explanation: Explanation of all systems and causes.
        run: Path of the run, for the commands that show more.
    """
    title = f"{printable(explanation.summary.name)}: {TITLE}"
    rows = []
    for system in explanation.systems:
        if system.causes:
            rows.append((label(system.name), label(fmt.cause_sentence(system.causes))))
    blocks: list[Block] = [Paragraph((title,))]
    blocks.append(Table((TableColumn(""), TableColumn("", "words")), tuple(rows)))
    name = _first_system(explanation)
    lost = [row for row in _lost_rows(explanation, name) if row is not None]
    for row in lost[:_QUESTIONS]:
        blocks.append(Paragraph(tuple(_question_lines(explanation, row)), is_apart=True))
    further = next_commands(explanation.summary, explanation.comparisons, run)
    blocks.append(Paragraph(tuple(_more_lines(name, len(lost), run, further)), is_apart=True))
    return TableReport(tuple(blocks), data_rows(explanation), title)


def _first_system(explanation: Explanation) -> str:
    """Return the system of the first sentence of the run; '' if no system has lost a question."""
    measure = lead_measure(explanation.summary, explanation.comparisons)
    systems = [] if measure is None else leading_systems(measure, explanation.summary)
    names = [system.name for system in (*systems, *explanation.systems) if system.causes]
    return next(iter(names), "")


def _lost_rows(explanation: Explanation, name: str) -> Iterator[CauseRow | None]:
    """Yield the lost questions of a system, one of each cause in turn, large causes first."""
    groups = [rows for system, _, rows in explanation.groups() if system == name]
    groups.sort(key=len, reverse=True)
    queries = set[str]()
    for turn in zip_longest(*groups):
        for row in turn:
            # a repeated question has a row for each of its repetitions
            if row is not None and row.query_id not in queries:
                queries.add(row.query_id)
                yield row


def _question_lines(explanation: Explanation, row: CauseRow) -> Iterator[str]:
    """Yield the question, why it is lost, its gold answer and the answer of the system."""
    question = printable(explanation.questions.get(row.query_id, ""))
    yield f"{explanation.label(row)}  {_cut(question)}"
    yield f"  {fmt.cause_words(row.cause)}: {_cut(printable(row.why).partition(';')[0])}"
    if explanation.references is not None:
        golds = explanation.references(row.query_id)
        if golds:
            yield f"  gold answer: {_cut(printable(golds[0]))}"
    texts = explanation.answers(row.query_id, row.system) if explanation.answers else []
    if row.sample is not None and row.sample < len(texts):
        texts = texts[row.sample :]
    for text in texts[:1]:
        yield f"  answer: {_cut(printable(text or 'none'))}"


def _cut(text: str) -> str:
    """Return a text that fits one line of a terminal; a long one ends in `...`."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _more_lines(name: str, n_lost: int, run: str, further: Sequence[str]) -> Sequence[str]:
    """Return the commands that show the other lost questions, and what to change."""
    system = printable(name)
    lines = [f"all systems: ragbench explain {run} --verbose"]
    if n_lost and len(further) > 1:
        lines.insert(0, f"what to change: {further[1]}")
    if n_lost > _QUESTIONS:
        command = f"ragbench explain {run} --system {system}"
        lines.insert(0, f"all {n_lost} lost questions of {system}: {command}")
    return lines
