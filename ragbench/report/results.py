"""Results of a run: what `ragbench run` prints, report.md, and the scores of `ragbench report`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from ragbench import errors
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import RunCost, Summary
from ragbench.report import text as fmt
from ragbench.report.base import Chapter, Layout, Section
from ragbench.report.causes import cause_tables, with_causes
from ragbench.report.ci import worst_line
from ragbench.report.first_screen import alerts, brief_alerts, one_screen
from ragbench.report.formats import render
from ragbench.report.formats.base import Screen
from ragbench.report.headline import verdict_of
from ragbench.report.layout import lay_out
from ragbench.report.sections import difference_table, score_cell, score_table
from ragbench.report.table import (
    SIGNS,
    Block,
    Fold,
    Heading,
    Legend,
    Paragraph,
    Raw,
    SentenceList,
    Table,
    TableReport,
    data_table,
    paragraphs,
    word_table,
)
from ragbench.types.display import printable
from ragbench.types.lookups import omit_none, select_in_order

COLUMNS = (
    *("system", "score", "mean", "low", "high", "n", "n_failed", "not_applicable"),
    *("bound_low", "bound_high", "kind", "direction", "aggregate", "signature", "mark"),
    *("baseline", "difference", "difference_low", "difference_high", "p_adjusted", "verdict"),
)
GATE_HEADS = ("verdict", "gate", "system", "why")


def score_report(summary: Summary, comparisons: Comparisons) -> TableReport:
    """Return the scores of a run: a table for each kind and judge, with the meaning of signs.

    Differences from the baseline are in the rows for programs alone.
    """
    page = lay_out(structs.replace(summary, gates=()), structs.replace(comparisons, slices=()))
    signs = ("[low, high]", *SIGNS.values(), fmt.MISSING)
    legend = tuple(entry for entry in page.legend if entry[0] in signs)
    blocks: list[Block] = [Paragraph((page.subject,))]
    for section in page.sections:
        blocks += _section_blocks(replace(section, against=""))
    return TableReport(
        (*blocks, Legend(legend)), score_rows(summary, comparisons), subject=page.subject
    )


def select_scores(summary: Summary, measures: Sequence[str]) -> Summary:
    """Return a summary whose systems have some scores alone, in the order of `measures`.

    Raises:
        OptionError: No system has one of the scores.
    """
    available = summary.score_names()
    for name in measures:
        if name not in available:
            raise errors.OptionError("report", "-m", name, ", ".join(available))
    systems = []
    for system in summary.systems:
        scores = select_in_order(system.scores, measures)
        systems.append(structs.replace(system, scores=scores))
    return structs.replace(summary, systems=tuple(systems))


def score_rows(summary: Summary, comparisons: Comparisons) -> Table:
    """Return the scores for programs, a row per system and score in their order.

    A row has the mark of the score among all systems, and its difference from the baseline.
    """
    families = comparisons.by_measure()
    rows: list[tuple[Raw, ...]] = []
    for system in summary.systems:
        for name, score in system.scores.items():
            family, baseline = families.get(name), system.baseline_by(name)
            test = None if family is None else family.comparison_of(system.name, baseline)
            verdict = None if test is None else verdict_of(test, score.direction)
            rows.append(
                (
                    *(system.name, name, score.mean, *(score.interval or (None, None))),
                    *(score.n, score.n_failed, score.not_applicable),
                    *(score.bounds or (None, None)),
                    *(score.kind, score.direction, score.aggregate, score.signature),
                    *(score_cell(system.name, score, family).mark or None, baseline),
                    *(None if test is None else test.difference,),
                    *((None if test is None else test.interval) or (None, None)),
                    *(None if test is None else test.p_adjusted, verdict),
                )
            )
    return data_table(COLUMNS, rows)


def render_markdown(
    summary: Summary,
    comparisons: Comparisons,
    question_of: Callable[[str], str] | None = None,
    page: Layout | None = None,
) -> str:
    """Return report.md: the main result first, then gates, tables and folded details.

    Args:
        summary: The run.
        comparisons: The tests of the run, or of several runs.
        question_of: Function that returns the text of a query; None leaves the texts out.
        page: Result of `lay_out`, or None.
    """
    return render(page_report(summary, comparisons, question_of, page), "markdown")


def page_report(
    summary: Summary,
    comparisons: Comparisons,
    question_of: Callable[[str], str] | None = None,
    page: Layout | None = None,
) -> TableReport:
    """Return the whole report of a run, as report.md has it; arguments as `render_markdown`."""
    page = page or lay_out(summary, comparisons)
    # a reviewer of a pull request looks for the gates first
    place = 1 if page.gates else 0
    noise = page.noise_sentence, page.purchase_sentence
    first, *headlines = filter(
        None, (*page.headlines[:place], page.lead, page.lost, *noise, *page.headlines[place:])
    )
    blocks: list[Block] = [Paragraph((f"ragbench: {page.name}: {first}",))]
    blocks += paragraphs((*headlines, page.subject))
    if page.gates:
        rows = []
        for gate in page.gates:
            rows.append((gate.verdict, gate.gate, gate.system or "", gate.why))
        blocks.append(word_table(GATE_HEADS, rows))
    for gate in page.gates:
        if gate.worst_queries:
            subject = f"{gate.gate} ({gate.system})" if gate.system else gate.gate
            blocks.append(Paragraph((f"{subject}, {gate.verdict}; the worst queries:",)))
            blocks.append(SentenceList(tuple(map(worst_line, gate.worst_queries))))
    blocks.append(SentenceList(fmt.labelled("warning", page.warnings)))
    blocks += chapter_blocks(page.runs)
    for section in page.sections:
        blocks += _section_blocks(section)
    blocks += _cause_blocks(summary, comparisons, question_of)
    for chapter in (page.slices, *page.preferences, page.noise, page.audit):
        blocks += chapter_blocks(chapter)
    if page.legend:
        blocks += [Heading("how to read it"), Legend(page.legend)]
    if page.notes:
        blocks += [Heading("notes"), SentenceList(page.notes)]
    if page.details:
        blocks.append(Fold("counts, bounds, costs and signatures", page.details))
    return TableReport(tuple(blocks), score_rows(summary, comparisons), subject=page.subject)


def chapter_report(name: str, chapter: Chapter, rows: Table) -> TableReport:
    """Return a chapter as a report of its own; its first line has the name and first headline."""
    first, *headlines = chapter.headlines
    lines = (f"ragbench: {name}: {first}", *headlines)
    return TableReport((*paragraphs(lines), *chapter_blocks(chapter)), rows)


def chapter_blocks(chapter: Chapter | None) -> list[Block]:
    """Return heading, labels and tables of a chapter; [] without a chapter."""
    if chapter is None:
        return []
    return [Heading(chapter.title), *paragraphs(chapter.labels), *chapter.grids]


def _section_blocks(section: Section) -> Iterator[Block]:
    """Yield heading, labels and scores of a section, its differences, and its counts."""
    yield Heading(section.title)
    yield from paragraphs(section.labels)
    scores = score_table(replace(section, against=""))
    if section.against:
        yield replace(scores, notes=())
        yield replace(difference_table(section), notes=section.counts)
    else:
        yield scores


def _cause_blocks(
    summary: Summary, comparisons: Comparisons, question_of: Callable[[str], str] | None
) -> Iterator[Block]:
    """Yield the table of causes, and the queries that moved from each baseline, folded."""
    tables = cause_tables(with_causes(summary.systems))
    if not tables:
        return
    yield Heading("where answers are lost")
    yield from tables
    moves = list[str]()
    for flow in comparisons.causes:
        texts = {}
        if question_of is not None:
            for query in fmt.named_queries(flow):
                texts[query] = question_of(query)
        moves += fmt.flow_lines(flow, texts)
    if moves:
        yield Fold("which queries moved", (SentenceList(tuple(moves)),))


def render_terminal(
    summary: Summary,
    comparisons: Comparisons,
    screen: Screen | None = None,
    *,
    head: bool = False,
    report: str | None = None,
    verbose: bool = True,
    run: str | None = None,
) -> str:
    """Return the results as text; the first line is on the user's own system, or the best one.

    Comparisons, warnings and gates stand before the tables.

    Args:
        summary: The run.
        comparisons: The tests of the run.
        screen: The terminal; measures that do not fit go into a further table. None means a pipe.
        head: Print the lines before the tables and the path of the report, nothing else.
        report: Path of the report for the last line; None leaves the line out.
        verbose: Print everything. False prints one screen: two sentences, two measures, the causes
            of lost questions, and notes up to 14 lines; a line counts what is left out.
        run: Path of the run for the commands that come next; None leaves them out.
    """
    screen = screen or Screen()
    page = lay_out(summary, comparisons, narrow=True)
    cost = "" if summary.cost is None or head else cost_line(summary.cost)
    costs = [cost] if cost else []
    last = [f"report: {printable(report)}"] if report else []
    if not head and not verbose:
        return one_screen(page, summary, comparisons, screen, [*costs, *last], run)
    blocks = list(_first_blocks(page, verbose=verbose))
    if not head:
        blocks.append(Paragraph((f"{page.name}: {page.subject}",)))
        blocks += _whole(page, summary)
    is_apart = verbose and not head and not page.notes
    return _draw([*blocks, Paragraph((*costs, *last), is_apart=is_apart)], screen)


def _draw(blocks: Sequence[Block], screen: Screen) -> str:
    """Return blocks as a terminal shows them."""
    return render(TableReport(tuple(blocks), data_table(COLUMNS, ())), "table", screen)


def cost_line(cost: RunCost) -> str:
    """Return the line on what a run paid for models, with the parts of several components.

    It is empty if the run asked servers on this machine alone, whose tokens have no known price.

    Example:
        >>> cost_line(RunCost(usd=0.25, by={"generator gpt": 0.05, "judge openai": 0.2}))
        'cost: 0.250 USD paid by this run (generator gpt 0.0500, judge openai 0.200)'
        >>> cost_line(RunCost(usd=0.0, by={"judge openai": 0.0}))
        'cost: 0 USD paid by this run'
        >>> cost_line(RunCost(usd=None, by={"judge j": None}, unpriced={"m": "prices.m"}))
        'cost of this run: not known; m has no known price: write prices.m'
    """
    priced = omit_none(cost.by)
    total = sum(priced.values()) if cost.usd is None else cost.usd
    line = f"cost: {_dollars(total)} USD paid by this run"
    if cost.usd is None:
        payment = f"at least {_dollars(total)} USD paid by this run"
        line = f"cost: {payment}" if total else "cost of this run: not known"
        if not total and not cost.unpriced:
            return ""
    if len(priced) > 1 and total:
        parts = []
        for name, usd in priced.items():
            parts.append(f"{printable(name)} {_dollars(usd)}")
        line += f" ({', '.join(parts)})"
    for model, entry in cost.unpriced.items():
        line += f"; {printable(model)} has no known price: write {printable(entry)}"
    return line


def total_cost(costs: Iterable[RunCost | None]) -> RunCost | None:
    """Return the sum of what several runs paid, component by component; None if none asks models.

    A component is None if it is in one of them.
    """
    by: dict[str, float | None] = {}
    unpriced: dict[str, str] = {}
    for cost in costs:
        for name, usd in {} if cost is None else cost.by.items():
            earlier = by.get(name, 0.0)
            by[name] = None if usd is None or earlier is None else earlier + usd
        unpriced |= {} if cost is None else cost.unpriced
    priced = omit_none(by)
    usd = None if len(priced) < len(by) else math.fsum(priced.values())
    return RunCost(usd=usd, by=by, unpriced=unpriced) if by else None


def _dollars(usd: float) -> str:
    return fmt.significant(usd) if usd else "0"


def _first_blocks(page: Layout, *, verbose: bool) -> Iterator[Block]:
    """Yield the results in words, warnings, and gates; without `verbose`, no gate that passed."""
    noise = page.noise_sentence, page.purchase_sentence
    first, *headlines = filter(None, (page.lead, page.lost, *noise, *page.headlines))
    yield Paragraph((first,), tone="title")
    yield Paragraph(tuple(headlines))
    yield from alerts(page) if verbose else brief_alerts(page)


def _whole(page: Layout, summary: Summary) -> Iterator[Block]:
    """Yield all tables of a run, with their legend and the notes."""
    for section in page.sections:
        yield Heading(section.title)
        yield Paragraph(section.labels)
        # the differences of all measures would fill the terminal
        first, *further = section.measures
        measures = (first, *(replace(measure, differences=()) for measure in further))
        yield score_table(replace(section, measures=measures))
    for chapter in page.preferences:
        yield from chapter_blocks(chapter)
    if tables := cause_tables(with_causes(summary.systems)):
        yield Heading("where answers are lost")
        yield from tables
    yield from () if page.slices is None else page.slices.grids
    yield Legend(page.legend)
    yield Paragraph(fmt.labelled("note", page.notes), is_apart=True)
