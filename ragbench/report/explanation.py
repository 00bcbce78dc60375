"""Output of `ragbench explain`: where answers are lost, causes that changed, and the queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from ragbench.records.causes import CAUSE_SAYS, CAUSES, NOT_LOST, AnswerCause, CauseFlow, CauseRow
from ragbench.records.codec import to_json
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report import text as fmt
from ragbench.report.markdown import escape, join_blocks, list_lines, share_table, table_lines
from ragbench.types.display import printable

TITLE = "where answers are lost"
# queries that are listed of a system and cause that the user did not select
_LISTED = 10
_LONGEST = 72  # characters of a question


@dataclass(frozen=True, slots=True)
class Explanation:
    """Content of an explanation: the systems, the causes that changed, and the selected queries.

    The command `explain` creates it; the functions of this module return it as text or JSON.

    Attributes:
        summary: The run.
        comparisons: Its comparisons, with the causes that changed.
        rows: Query, system and cause, of the selected system and cause.
        questions: Query id -> question; a question that the run folder lacks is missing.
        labels: Query id -> its name for a reader, such as `row 13`; a missing one has its id.
        system: Selected system; None for all.
        cause: Selected cause; None for all.
    """

    summary: Summary
    comparisons: Comparisons
    rows: Sequence[CauseRow]
    questions: Mapping[str, str]
    system: str | None = None
    cause: AnswerCause | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def systems(self) -> list[SystemSummary]:
        """Return the selected systems in the order of the run; [] for an unknown name."""
        return [s for s in self.summary.systems if self.system in (None, s.name)]

    @property
    def flows(self) -> list[CauseFlow]:
        """Return the causes that changed from a baseline to a selected system."""
        return [f for f in self.comparisons.causes if self.system in (None, f.system)]

    def groups(self) -> Iterable[tuple[str, AnswerCause, list[CauseRow]]]:
        """Yield system, cause and rows, in the order of the run's systems and of `CAUSES`.

        Right answers are included only if a cause is selected. A group without rows is left out,
        and so is a row of a system that the run lacks.
        """
        groups: dict[tuple[str, AnswerCause], list[CauseRow]] = {}
        # right answers are most of the queries and need no look
        for row in self.rows:
            if self.cause is not None or row.cause not in NOT_LOST:
                groups.setdefault((row.system, row.cause), []).append(row)
        for system, cause in product((system.name for system in self.summary.systems), CAUSES):
            if rows := groups.get((system, cause)):
                yield system, cause, rows

    def label(self, row: CauseRow) -> str:
        """Return the name of the query of a row: `row 13` of a table without ids, else its id."""
        return printable(self.labels.get(row.query_id, row.query_id))

    def question(self, row: CauseRow, longest: int = _LONGEST) -> str:
        """Return the question of a row, cut to `longest` characters; empty if it is unknown.

        A question that is cut ends in `...`.
        """
        text = printable(self.questions.get(row.query_id, ""))
        return text if len(text) <= longest else f"{text[: longest - 3]}..."


def render_table(explanation: Explanation, width: int = 100) -> str:
    """Return an explanation as text: a line per system, changed causes, then the queries.

    `width` is the columns of the terminal: sentences are wrapped, questions are cut. Unless a
    system or a cause is selected, at most 10 queries of each system and cause are listed. The text
    ends with a line end.
    """
    # names come from files, so that they may hold control codes
    title = f"{printable(explanation.summary.name)}: {TITLE}"
    lines = [title, "", *fmt.cause_lines(explanation.systems, width)]
    if explanation.system is not None:
        lines.append("")
    # the shares need room: only for a selected system
    for system in explanation.systems if explanation.system is not None else ():
        shares = [
            (
                fmt.cause_words(cause),
                str(share.count),
                fmt.with_interval(share.share, share.interval),
            )
            for cause, share in system.cause_shares.items()
        ]
        lines += fmt.draw(list(zip(*shares, strict=True)))
    for system in explanation.systems:
        sliced = _slice_lines(system, width)
        lines += ["", f"{printable(system.name)} by slice", *sliced] if sliced else []
    for flow in explanation.flows:
        # an empty first column indents the moves
        head, *moves = fmt.flow_lines(flow)
        lines += ["", *fmt.draw([[head]], width)]
        lines += fmt.draw([[""] * len(moves), moves], width) if moves else []
    for system_name, cause, rows in explanation.groups():
        lines += ["", f"{printable(system_name)}: {len(rows)} {fmt.cause_words(cause)}"]
        is_selected = explanation.cause is not None or explanation.system is not None
        listed_rows = rows if is_selected else rows[:_LISTED]
        short = min(_LONGEST, max(width * 2 // 5, 16))
        cells = [
            [f"  {explanation.label(r)}", explanation.question(r, short), printable(r.why)]
            for r in listed_rows
        ]
        lines += fmt.draw(list(zip(*cells, strict=True)), width)
        if len(listed_rows) < len(rows):
            more = len(rows) - len(listed_rows)
            lines.append(f"  and {more} more: --system {printable(system_name)} --cause {cause}")
    legend = _legend(explanation)
    lines += ["", *(fmt.draw([legend], width) if legend else [])]
    return "\n".join(lines) + "\n"


def render_markdown(explanation: Explanation) -> str:
    """Return an explanation as Markdown, with all queries that are lost or selected.

    Right answers are counted alone, unless their cause is selected. It ends with a line end.
    """
    blocks = [[f"## {escape(printable(explanation.summary.name))}: {TITLE}"]]
    blocks.append(share_table(explanation.systems))
    for flow in explanation.flows:
        head, *moves = fmt.flow_lines(flow)
        blocks += [[escape(head)], list_lines(moves)]
    for system, cause, rows in explanation.groups():
        blocks.append([f"### {escape(printable(system))}: {len(rows)} {fmt.cause_words(cause)}"])
        cells = [(explanation.label(r), explanation.question(r), printable(r.why)) for r in rows]
        blocks.append(table_lines(["query", "question", "why"], cells))
    return join_blocks([*blocks, list_lines(_legend(explanation))])


def explanation_json(explanation: Explanation) -> dict[str, object]:
    """Return an explanation as an object for JSON.

    Its keys are `schema`, `name`, `run_id`, `systems`, `flows` and `queries`; a question that is
    not known is ''. `queries` has all rows, those of right answers too.
    """
    return {
        "schema": "ragbench.explanation/1",
        "name": explanation.summary.name,
        "run_id": explanation.summary.run_id,
        "systems": [
            {
                "name": system.name,
                "causes": dict(system.causes.items()),
                "cause_shares": {c: to_json(share) for c, share in system.cause_shares.items()},
                "causes_by": {f: dict(slices) for f, slices in system.causes_by.items()},
            }
            for system in explanation.systems
        ],
        "flows": [to_json(flow) for flow in explanation.flows],
        "queries": [
            {**to_json(row), "question": explanation.questions.get(row.query_id, "")}
            for row in explanation.rows
        ],
    }


def _slice_lines(system: SystemSummary, width: int) -> list[str]:
    """Return a line per slice of a system with its causes, wrapped at `width`; [] without any."""
    rows = [
        (f"  {printable(field)} {printable(name)}:", fmt.cause_sentence(causes))
        for field, slices in system.causes_by.items()
        for name, causes in slices.items()
        if causes
    ]
    return fmt.draw(list(zip(*rows, strict=True)), width)


def _legend(explanation: Explanation) -> list[str]:
    """Return a line with sign and meaning for each cause of the selected systems.

    They are in the order of `CAUSES`; [] without causes.
    """
    counts = Counter(cause for s in explanation.systems for cause, n in s.causes.items() if n)
    return [f"{fmt.CAUSE_SIGNS[cause]} {CAUSE_SAYS[cause]}" for cause in CAUSES if counts[cause]]
