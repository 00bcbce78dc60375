"""What `ragbench explain` prints: where answers are lost, what moved, and the queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ragbench.records.causes import CAUSE_SAYS, CAUSES, AnswerCause, CauseFlow, CauseRow
from ragbench.records.codec import to_json
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report.markdown import escape, join_blocks, list_lines, share_table, table_lines
from ragbench.report.text import (
    CAUSE_SIGNS,
    cause_lines,
    cause_sentence,
    cause_words,
    draw,
    flow_lines,
    printable,
    with_interval,
)

TITLE = "where answers are lost"
# queries that are listed of one cause and system where nobody asks for them
_FEW = 10
_LONGEST = 72


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `ragbench explain` shows: all systems, what moved, and the queries that were asked for.

    `rows` are of one system and one cause where these are given, else of all.

    Attributes:
        questions: Query -> its text; empty where a run folder does not have it.
    """

    summary: Summary
    comparisons: Comparisons
    rows: Sequence[CauseRow]
    questions: Mapping[str, str]
    system: str | None = None
    cause: AnswerCause | None = None

    @property
    def systems(self) -> list[SystemSummary]:
        """The systems that are shown."""
        return [s for s in self.summary.systems if self.system in (None, s.name)]

    @property
    def flows(self) -> list[CauseFlow]:
        """What moved to these systems."""
        return [f for f in self.comparisons.causes if self.system in (None, f.system)]

    def groups(self) -> Iterable[tuple[str, AnswerCause, list[CauseRow]]]:
        """Yield the queries by system and cause, in the order of tables.

        Where no cause is asked for, what is right is counted, not listed.
        """
        order = {system.name: place for place, system in enumerate(self.summary.systems)}
        place = {cause: number for number, cause in enumerate(CAUSES)}
        rows = [row for row in self.rows if self.cause is not None or row.cause != "right"]
        # groupby joins neighbours alone
        rows.sort(key=lambda row: (order[row.system], place[row.cause]))
        for (system, cause), group in groupby(rows, key=lambda row: (row.system, row.cause)):
            yield system, cause, list(group)

    def question(self, row: CauseRow, longest: int = _LONGEST) -> str:
        """Return the question of a row, on one short line."""
        text = printable(self.questions.get(row.query_id, ""))
        return text if len(text) <= longest else f"{text[: longest - 3]}..."


def render_table(found: Explanation, width: int = 100) -> str:
    """Draw an explanation as text: a line per system, what moved, then the queries.

    `width` is the columns of the terminal: sentences go on below where they begin, questions are
    cut.
    """
    title = f"{printable(found.summary.name)}: {TITLE}"
    lines = [title, "", *cause_lines(found.systems, width)]
    if found.system is not None:
        lines.append("")
    for system in found.systems if found.system is not None else ():
        shares = [
            (cause_words(cause), str(share.count), with_interval(share.share, share.interval))
            for cause, share in system.cause_shares.items()
        ]
        lines += draw(list(zip(*shares, strict=True)))
    for system in found.systems:
        sliced = _slice_lines(system, width)
        lines += ["", f"{printable(system.name)} by slice", *sliced] if sliced else []
    for flow in found.flows:
        head, *moves = flow_lines(flow)
        lines += ["", *draw([[head]], width)]
        lines += draw([[""] * len(moves), moves], width) if moves else []
    for system_name, cause, rows in found.groups():
        lines += ["", f"{printable(system_name)}: {len(rows)} {cause_words(cause)}"]
        is_asked = found.cause is not None or found.system is not None
        shown = rows if is_asked else rows[:_FEW]
        short = min(_LONGEST, max(width * 2 // 5, 16))
        cells = [
            [f"  {printable(r.query_id)}", found.question(r, short), printable(r.why)]
            for r in shown
        ]
        lines += draw(list(zip(*cells, strict=True)), width)
        if len(shown) < len(rows):
            more = len(rows) - len(shown)
            lines.append(f"  and {more} more: --system {printable(system_name)} --cause {cause}")
    legend = _legend(found)
    lines += ["", *(draw([legend], width) if legend else [])]
    return "\n".join(lines) + "\n"


def render_markdown(explanation: Explanation) -> str:
    """Draw an explanation as Markdown."""
    blocks = [[f"## {escape(printable(explanation.summary.name))}: {TITLE}"]]
    blocks.append(share_table(explanation.systems))
    for flow in explanation.flows:
        head, *moves = flow_lines(flow)
        blocks += [[escape(head)], list_lines(moves)]
    for system, cause, rows in explanation.groups():
        blocks.append([f"### {escape(printable(system))}: {len(rows)} {cause_words(cause)}"])
        cells = [map(printable, (r.query_id, explanation.question(r), r.why)) for r in rows]
        blocks.append(table_lines(["query", "question", "why"], cells))
    return join_blocks([*blocks, list_lines(_legend(explanation))])


def explained(found: Explanation) -> dict[str, object]:
    """Return an explanation as JSON has it."""
    return {
        "schema": "ragbench.explanation/1",
        "name": found.summary.name,
        "run_id": found.summary.run_id,
        "systems": [
            {
                "name": system.name,
                "causes": dict(system.causes.items()),
                "cause_shares": {c: to_json(share) for c, share in system.cause_shares.items()},
                "causes_by": {f: dict(slices) for f, slices in system.causes_by.items()},
            }
            for system in found.systems
        ],
        "flows": [to_json(flow) for flow in found.flows],
        "queries": [
            {**to_json(row), "question": found.questions.get(row.query_id, "")}
            for row in found.rows
        ],
    }


def _slice_lines(system: SystemSummary, width: int) -> list[str]:
    rows = [
        (f"  {printable(field)} {printable(name)}:", cause_sentence(causes))
        for field, slices in system.causes_by.items()
        for name, causes in slices.items()
        if causes
    ]
    return draw(list(zip(*rows, strict=True)), width)


def _legend(found: Explanation) -> list[str]:
    counts = Counter(cause for s in found.systems for cause, n in s.causes.items() if n)
    return [f"{CAUSE_SIGNS[cause]} {CAUSE_SAYS[cause]}" for cause in CAUSES if counts[cause]]
