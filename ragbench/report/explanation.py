"""Output of `ragbench explain`: where answers are lost, causes that changed, and the queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product

from ragbench.records.cause_texts import CAUSE_SAYS
from ragbench.records.causes import (
    CAUSES,
    NOT_LOST,
    AnswerCause,
    CauseFlow,
    CauseRow,
    Quantity,
    quantity,
)
from ragbench.records.codec import to_json
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report import text as fmt
from ragbench.report.causes import cause_tables, flow_blocks, judged_scores, present_causes
from ragbench.report.lowest import LowestAnswer, below_best
from ragbench.report.noise import AnswerTexts, flip_table
from ragbench.report.table import (
    Block,
    Heading,
    Legend,
    Paragraph,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    data_table,
    label,
    number,
    number_table,
    word_table,
)
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_name

TITLE = "where answers are lost"
# queries that are listed of a system and cause that the user did not select
_LISTED = 10
_LONGEST = 72  # characters of a question
_MORE = "more: --system NAME"
_QUERY_COLUMNS = (
    TableColumn("query"),
    TableColumn("question", "words"),
    TableColumn("why", "words"),
)


@dataclass(frozen=True)
class Explanation:
    """Content of an explanation: the systems, the causes that changed, and the selected queries.

    The command `explain` creates it; the functions of this module return it as text or JSON.

    Attributes:
        summary: The run.
        comparisons: Its comparisons, with the causes that changed.
        rows: Query, system and cause of each repetition, of the selected system and cause.
        answers: Function of a query and a system that returns the text of each of its answers, None
            for a failed one; None shows no answers.
        references: Function of a query that returns its gold answers; None shows none.
        questions: Query id -> question; a question that the run folder lacks is missing.
        labels: Query id -> its name for a reader, such as `row 13`; a missing one has its id.
        system: Selected system; None for all.
        cause: Selected cause; None for all.
        lowest: Answers with the lowest scores of the judge, the lowest first, of each system of
            `judged_systems`.
        wrong: System -> its queries that are judged as wrong, if some have no known cause.
    """

    summary: Summary
    comparisons: Comparisons
    rows: Sequence[CauseRow]
    questions: Mapping[str, str]
    system: str | None = None
    cause: AnswerCause | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    answers: AnswerTexts | None = None
    references: Callable[[str], Sequence[str]] | None = None
    lowest: Sequence[LowestAnswer] = ()
    wrong: Mapping[str, Collection[str]] = field(default_factory=dict)

    @cached_property
    def judged_systems(self) -> Mapping[str, str]:
        """Selected system -> its first score of a judge, where no cause of an answer is known.

        It is empty if a cause is selected.
        """
        return judged_scores(self.systems) if self.cause is None else {}

    @property
    def systems(self) -> list[SystemSummary]:
        """Return the selected systems in the order of the run; [] for an unknown name."""
        systems = []
        for system in self.summary.systems:
            if self.system in (None, system.name):
                systems.append(system)
        return systems

    @property
    def flows(self) -> list[CauseFlow]:
        """Return the causes that changed from a baseline to a selected system with causes."""
        flows = []
        for flow in self.comparisons.causes:
            if self.system in (None, flow.system):
                flows.append(flow)
        return [flow for flow in flows if flow.system not in self.judged_systems]

    @cached_property
    def repeats(self) -> Mapping[str, int]:
        """System -> number of its repetitions; a system without any is absent."""
        numbers = {}
        for row in self.rows:
            if row.sample is not None:
                numbers[row.system] = 0
        for row in self.rows:
            if row.sample is not None:
                numbers[row.system] = max(numbers[row.system], row.sample + 1)
        return numbers

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

    def question(self, row: CauseRow) -> str:
        """Return the question of a row; a long one is cut, and ends in `...`."""
        text = printable(self.questions.get(row.query_id, ""))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def explanation_report(explanation: Explanation, n_listed: int = _LISTED) -> TableReport:
    """Return an explanation: the causes of each system, changed causes, then the queries.

    Unless a system or a cause is selected, a terminal has `n_listed` queries of each system and
    cause, and answers that a judge scored lowest. Right answers are counted alone, unless their
    cause is selected.
    """
    # names come from files, so that they may hold control codes
    title = f"{printable(explanation.summary.name)}: {TITLE}"
    # where no cause is known, the verdicts of the judge tell more
    systems = []
    for system in explanation.systems:
        if system.name not in explanation.judged_systems:
            systems.append(system)
    blocks: list[Block] = [Paragraph((title,))] if systems else []
    blocks += [*_judged_blocks(explanation, n_listed), *cause_tables(systems)]
    for system in systems:
        if explanation.system is not None and system.cause_shares:
            # the shares need room: on a terminal, only for a selected system
            shares = []
            for cause, share in system.cause_shares.items():
                words, count = label(fmt.cause_words(cause)), _quantity(share.count)
                shares.append((words, count, number(share.share, share.interval)))
            blocks.append(number_table(("cause", "queries", "share"), shares))
        blocks += _slice_tables(system)
    for flow in explanation.flows:
        blocks += flow_blocks(flow, explanation.questions)
    is_selected = explanation.cause is not None or explanation.system is not None
    for name, cause, rows in explanation.groups():
        if name in explanation.judged_systems:
            continue
        n_repeats = explanation.repeats.get(name, 1)
        table = _query_table(explanation, rows, n_repeats)
        if not is_selected:
            more = f"more: --system {printable(name)} --cause {cause}"
            table = replace(table, most=n_listed, more=more)
        queries = fmt.questions(quantity(Fraction(len(rows), n_repeats)))
        blocks += [Heading(f"{printable(name)}: {queries} {fmt.cause_words(cause)}"), table]
    for system in explanation.systems:
        if (flips := flip_table([system], explanation.answers, explanation.labels)) is not None:
            blocks.append(flips if is_selected else replace(flips, most=n_listed, more=_MORE))
    present = present_causes(systems)
    legend = tuple((fmt.CAUSE_SIGNS[cause], CAUSE_SAYS[cause]) for cause in present)
    return TableReport((*blocks, Legend(legend)), data_rows(explanation), title)


def _judged_blocks(explanation: Explanation, n_listed: int) -> Iterator[Block]:
    """Yield the mean of the judge and the lowest answers of each system without known causes."""
    columns = (
        TableColumn("query"),
        TableColumn("question", "words"),
        TableColumn("score", "number"),
        TableColumn("reason", "words"),
    )
    for system in explanation.systems:
        if (name := explanation.judged_systems.get(system.name)) is None:
            continue
        score = system.scores[name]
        mean = fmt.with_interval(score.mean, score.interval)
        yield Heading(f"{printable(system.name)}: {printable(name)} {mean}, its lowest answers")
        rows = []
        for answer in explanation.lowest:
            if answer.system == system.name:
                query = printable(explanation.labels.get(answer.query_id, answer.query_id))
                question = printable(explanation.questions.get(answer.query_id, ""))
                cells = (label(query), label(question), number(answer.score), label(answer.reason))
                rows.append(cells)
        yield Table(columns, tuple(rows), most=n_listed, more=_MORE)


_FIRST = 3  # lowest answers below the first sentence of a run


def lowest_lines(explanation: Explanation) -> Iterator[str]:
    """Yield the three lowest answers of each system without known causes, a line each.

    Answers with the best score are left out.
    """
    systems = index_by_name(explanation.systems)
    for system, score in explanation.judged_systems.items():
        answers = below_best(systems[system], score, explanation.lowest)
        for answer in answers[:_FIRST]:
            query = printable(explanation.labels.get(answer.query_id, answer.query_id))
            question = printable(explanation.questions.get(answer.query_id, ""))[:_LONGEST]
            value = f"{printable(score)} {fmt.significant(answer.score)}"
            yield f"lowest of {printable(system)}: {query} has {value}: {question}"


def _quantity(value: Quantity) -> TableCell:
    return TableCell(fmt.questions(value), value)


def _query_table(explanation: Explanation, rows: Sequence[CauseRow], n_repeats: int) -> Table:
    """Return the table of queries with their questions, and the reason of their cause."""
    # a repeated query has the numbers of its repetitions with the cause, and the first reason
    of_query: dict[str, list[CauseRow]] = {}
    for row in rows:
        of_query.setdefault(row.query_id, []).append(row)
    cells = []
    for first, *further in of_query.values():
        line = [TableCell(explanation.label(first)), TableCell(explanation.question(first))]
        if n_repeats > 1:
            numbers = (str((row.sample or 0) + 1) for row in (first, *further))
            line.append(TableCell(", ".join(numbers)))
        cells.append((*line, label(first.why)))
    if n_repeats == 1:
        return Table(_QUERY_COLUMNS, tuple(cells))
    repeats = TableColumn("in repeat")
    return Table((*_QUERY_COLUMNS[:-1], repeats, *_QUERY_COLUMNS[-1:]), tuple(cells))


def data_rows(explanation: Explanation) -> Table:
    """Return a row per system and selected query, those of right answers too."""
    names = ["system", "query_id", "cause", "why", "question"]
    rows = []
    for row in explanation.rows:
        question = explanation.questions.get(row.query_id)
        sample = [row.sample] if explanation.repeats else []
        rows.append((row.system, row.query_id, row.cause, row.why, question, *sample))
    return data_table([*names, "sample"] if explanation.repeats else names, rows)


def explanation_json(explanation: Explanation) -> dict[str, object]:
    """Return an explanation as an object for JSON.

    Its keys are `schema`, `name`, `run_id`, `systems`, `flows` and `queries`; a question that is
    not known is ''. `queries` has all rows, those of right answers too.
    """
    systems = []
    for system in explanation.systems:
        shares = {}
        for cause, share in system.cause_shares.items():
            shares[cause] = to_json(share)
        by_field = {}
        for name, slices in system.causes_by.items():
            by_field[name] = dict(slices)
        content = {"name": system.name, "causes": dict(system.causes.items())}
        systems.append({**content, "cause_shares": shares, "causes_by": by_field})
    queries = []
    for row in explanation.rows:
        queries.append({**to_json(row), "question": explanation.questions.get(row.query_id, "")})
    return {
        "schema": "ragbench.explanation/1",
        "name": explanation.summary.name,
        "run_id": explanation.summary.run_id,
        "systems": systems,
        "flows": list(map(to_json, explanation.flows)),
        "queries": queries,
    }


def _slice_tables(system: SystemSummary) -> list[Table]:
    """Return a table with a row per slice of a system and its causes; [] without any."""
    rows = []
    for name, slices in system.causes_by.items():
        for value, causes in slices.items():
            if causes:
                rows.append((printable(name), printable(value), fmt.cause_sentence(causes)))
    heads = ("field", "slice", TITLE)
    return [word_table(heads, rows, f"{printable(system.name)} by slice")] if rows else []
