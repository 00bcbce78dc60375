"""Tables of causes: where the systems of a run lose answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragbench.records.causes import CAUSES, RIGHT, AnswerCause, CauseFlow, Quantity
from ragbench.records.comparison import ComparedSystem
from ragbench.records.summary import SystemSummary
from ragbench.report import text as fmt
from ragbench.report.table import (
    Block,
    Paragraph,
    SentenceList,
    Table,
    TableCell,
    TableColumn,
    label,
)
from ragbench.types.display import printable


def judged_scores(systems: Iterable[SystemSummary]) -> dict[str, str]:
    """Return system -> its first score of a judge, where no cause of an answer is known.

    Without gold answers nothing tells which answers are right, but the judge does.
    """
    scores = {}
    for system in systems:
        names = []
        for name, score in system.scores.items():
            if score.kind == "judge":
                names.append(name)
        if names and present_causes([system]) == ["unknown"]:
            scores[system.name] = names[0]
    return scores


def with_causes(systems: Iterable[SystemSummary]) -> list[SystemSummary]:
    """Return the systems whose causes tell something, which `judged_scores` lacks."""
    systems = list(systems)
    judged = judged_scores(systems)
    chosen = []
    for system in systems:
        if system.causes and system.name not in judged:
            chosen.append(system)
    return chosen


def count_unjudged(system: SystemSummary) -> Quantity:
    """Return the number of questions of cause `unknown` that nothing has judged: no losses."""
    unknown = system.causes.get("unknown", 0)
    return system.unjudged.get("unknown", 0) if RIGHT in system.scores else unknown


def unjudged_sentence(system: SystemSummary) -> str:
    """Return a sentence on the answers of a system without a verdict; '' if it has none."""
    # a refusal has a cause, and without gold nothing tells whether it is right
    n = sum(system.unjudged.values()) if RIGHT in system.scores else count_unjudged(system)
    if not n or system.type == "retriever":
        return ""
    has_judge = any(score.kind == "judge" for score in system.scores.values())
    reason = "" if has_judge or RIGHT in system.scores else ": no gold answer and no judge"
    answers, be = ("answer", "is") if fmt.questions(n) == "1" else ("answers", "are")
    name = printable(system.name)
    return f"{fmt.questions(n)} {answers} of {name} {be} not judged{reason}"


def cause_tables(systems: Sequence[SystemSummary | ComparedSystem]) -> list[Table]:
    """Return the table of causes, with a bar and a sentence per system on a terminal.

    The list has no table if no system has causes. A cause that no system has is left out, and so
    are systems without causes.
    """
    with_causes = []
    for system in systems:
        if system.causes:
            with_causes.append(system)
    if not with_causes:
        return []
    present = present_causes(with_causes)
    rows, lines = [], []
    for system in with_causes:
        name, sentence = label(system.name), fmt.cause_sentence(system.causes)
        shares = system.cause_shares if isinstance(system, SystemSummary) else {}
        cells = []
        for cause in present:
            n, share = system.causes.get(cause, 0), shares.get(cause)
            if share is None:
                cells.append(TableCell(fmt.questions(n), n))
            else:
                text = f"{fmt.questions(share.count)}, {fmt.significant(share.share)}"
                interval, ends = fmt.interval(share.interval), fmt.ends_of(share.interval)
                cells.append(TableCell(text, share.count, interval, ends))
        rows.append((name, *cells))
        lines.append((name, TableCell(fmt.cause_bar(system.causes)), label(sentence)))
    heads = (TableColumn(fmt.cause_words(cause), "number") for cause in present)
    bars = Table((TableColumn(""), TableColumn("", "bar"), TableColumn("", "words")), tuple(lines))
    return [Table((TableColumn("system"), *heads), tuple(rows), terminal=bars)]


def present_causes(systems: Sequence[SystemSummary | ComparedSystem]) -> list[AnswerCause]:
    """Return the causes that occur in some system, in the order of `CAUSES`."""
    present = set[str]()
    for system in systems:
        for cause, n in system.causes.items():
            if n:
                present.add(cause)
    causes = []
    for cause in CAUSES:
        if cause in present:
            causes.append(cause)
    return causes


def flow_blocks(flow: CauseFlow, questions: Mapping[str, str]) -> Iterator[Block]:
    """Yield a sentence with the totals of a flow, then a list of its moves with questions."""
    head, *moves = fmt.flow_lines(flow, questions)
    yield Paragraph((head,), is_apart=True)
    yield SentenceList(tuple(f"  {move}" for move in moves))
