"""First screen of `ragbench explain`: the causes of each system, and lost questions of the best."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, starmap

from ragbench.data.runs.query_view import in_turn
from ragbench.records.causes import NOT_LOST, CauseRow
from ragbench.report import text as fmt
from ragbench.report.causes import present_causes, unjudged_sentence
from ragbench.report.explanation import Explanation, data_rows
from ragbench.report.first_screen import READ_HEAD, next_commands
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.headline import lead_measure, leading_systems
from ragbench.report.table import (
    Paragraph,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    label,
)
from ragbench.types.display import cut, printable

# Shorter and shorter screens: numbers of lost questions and of systems.
_CUTS = ((4, None), (3, None), (2, None), (3, 6), (2, 8), (2, 4), (1, 4), (1, 2))


def screen_report(explanation: Explanation, run: str, screen: Screen) -> TableReport:
    """Return the causes of each system, and questions that the first system lost, on one screen.

    A question has at most five lines. A retriever has no row if a system that answers reads it: the
    causes of that system count its losses, too.

    Args:
        explanation: Explanation of all systems and causes.
        run: Path of the run, for the commands that show more.
        screen: The terminal.
    """
    further = next_commands(explanation.summary, run)
    name = _first_system(explanation)
    lost = [*_lost_rows(explanation, name)]
    outcome = _outcome(explanation, name)

    def report(n_questions: int, n_systems: int | None) -> TableReport:
        """Return a screen with some of the lost questions and systems."""
        counts = replace(_count_table(explanation), most=n_systems, more="more with --verbose")
        lines = [*outcome]
        for row in lost[:n_questions]:
            lines += _question_lines(explanation, row, screen)
        more = _more_lines(name, len(lost), n_questions, run, further)
        blocks = (counts, Paragraph(tuple(lines), is_apart=True), Paragraph(more, is_apart=True))
        return TableReport(blocks, data_rows(explanation), counts.caption)

    return fit_screen(starmap(report, _CUTS), screen)


def _count_table(explanation: Explanation) -> Table:
    """Return the number of questions of each cause, a row for each system."""
    with_causes = []
    for system in explanation.systems:
        if system.causes:
            with_causes.append(system)
    read = set()
    for system in with_causes:
        if system.retriever != system.name:
            read.add(system.retriever)
    systems = []
    for system in with_causes:
        if system.name not in read:
            systems.append(system)
    causes = present_causes(systems)
    has_reading = any(system.reading is not None for system in systems)
    rows = []
    for system in systems:
        cells = []
        for cause in causes:
            n = system.causes.get(cause, 0)
            cells.append(TableCell(fmt.questions(n) if n else fmt.MISSING, n))
        if has_reading:
            reading = system.reading
            cells.append(
                TableCell(fmt.MISSING if reading is None else f"{reading.characters:,.0f}")
            )
        rows.append((label(system.name), *cells))
    columns = [TableColumn(fmt.cause_words(cause), "number") for cause in causes]
    columns += [TableColumn(READ_HEAD, "number")] if has_reading else []
    totals = sorted({fmt.total_of(system.causes) for system in systems})
    questions = fmt.counted(totals[0], "questions") if len(totals) == 1 else "questions"
    title = f"{printable(explanation.summary.name)}: {questions}, and where answers are lost"
    if any(system.reading is not None and system.reading.any_passage for system in systems):
        title += "; found: any passage of the gold document"
    return Table((TableColumn(""), *columns), tuple(rows), title)


def _first_system(explanation: Explanation) -> str:
    """Return the system of the first sentence of the run; '' if no system has lost a question."""
    measure = lead_measure(explanation.summary, explanation.comparisons)
    systems = [] if measure is None else leading_systems(measure, explanation.summary)
    names = []
    for system in (*systems, *explanation.systems):
        if system.causes:
            names.append(system.name)
    return next(iter(names), "")


def _lost_rows(explanation: Explanation, name: str) -> Iterator[CauseRow]:
    """Yield the lost questions of a system once, one of each cause in turn, unknown causes last."""
    groups, unknown = [], list[CauseRow]()
    for system, cause, rows in explanation.groups():
        if system != name:
            continue
        if cause == "unknown":  # an answer without a verdict is no loss
            wrong = explanation.wrong.get(name, ())
            unknown += [row for row in rows if row.query_id in wrong]
        else:
            groups.append(rows)
    queries = set[str]()
    # nothing is known about a question of unknown cause
    for row in chain(in_turn(groups), unknown):
        if row.query_id not in queries:
            queries.add(row.query_id)
            yield row


def _repeated_causes(explanation: Explanation, row: CauseRow) -> str:
    """Return the causes of a question: `refused`, or `refused in 2 of 4 repeats, not used in 1`."""
    n_repeats = explanation.repeats.get(row.system, 1)
    counts = Counter({row.cause: 0})  # the cause of the row comes first
    for other in explanation.rows:
        if (other.system, other.query_id) == (row.system, row.query_id):
            counts[other.cause] += 1
    if n_repeats == 1 or counts[row.cause] == n_repeats:
        return fmt.cause_words(row.cause)
    parts = list[str]()
    for cause, n in counts.items():
        if cause not in NOT_LOST:
            of = "" if parts else f" of {n_repeats} repeats"
            parts.append(f"{fmt.cause_words(cause)} in {n}{of}")
    return ", ".join(parts)


def _outcome(explanation: Explanation, name: str) -> Iterator[str]:
    """Yield the sentence on the answers of a system without a verdict."""
    for system in explanation.systems:
        if system.name == name and (sentence := unjudged_sentence(system)):
            yield sentence


def _question_lines(explanation: Explanation, row: CauseRow, screen: Screen) -> Iterator[str]:
    """Yield the question, why it is lost, its gold answer and the answer of the system."""
    question = printable(explanation.questions.get(row.query_id, ""))
    why = printable(row.why).partition(";")[0]
    causes = _repeated_causes(explanation, row)
    lines = [f"{explanation.label(row)}  {question}", f"  {causes}: {why}"]
    golds = explanation.references(row.query_id) if explanation.references else ()
    for gold in golds[:1]:
        lines.append(f"  gold answer: {printable(gold)}")
    texts = explanation.answers(row.query_id, row.system) if explanation.answers else []
    if row.sample is not None and row.sample < len(texts):
        texts = texts[row.sample :]
    for text in texts[:1]:
        lines.append(f"  answer: {printable(text or 'none')}")
    for line in lines:
        yield cut(line, screen.width)


def _more_lines(
    name: str, n_lost: int, n_shown: int, run: str, further: Sequence[str]
) -> tuple[str, ...]:
    """Return the commands that show the other lost questions, and what to change."""
    lines = []
    if n_lost > n_shown:
        system = shlex.quote(printable(name))
        lines.append(f"all {n_lost} of {printable(name)}: ragbench explain {run} --system {system}")
    if n_lost and len(further) > 1:
        lines.append(f"what to change: {further[1]}")
    return (*lines, f"all systems: ragbench explain {run} --verbose")
