"""First screen of a run: the result in words, one table, lost questions, and what to do next."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from ragbench.records.comparison import Comparisons
from ragbench.records.gate import ARE_UNDECIDED, Decision
from ragbench.records.summary import FIRST_TO_FAIL, Summary
from ragbench.report import text as fmt
from ragbench.report.base import DifferenceCell, Layout, MeasureColumn, ScoreCell, Section
from ragbench.report.formats import MOST_LINES, fit_screen, render
from ragbench.report.formats.base import Screen
from ragbench.report.formats.terminal import draw_table
from ragbench.report.headline import SURE, lost_sentence
from ragbench.report.table import (
    Block,
    Paragraph,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    data_table,
    label,
)
from ragbench.types.display import printable, shorten_line

# Sentences on further measures; the page and `--verbose` have all.
_MOST_SENTENCES = 2
# Head of a column of differences: `vs bm25`; a longer name stands in the row of the baseline.
_VERSUS = "vs "
_LONGEST_BASELINE = 24
# Head of the column of the text that a system reads for a question.
READ_HEAD = "characters read"
# characters of the name of a row on a terminal
_LONGEST_NAME = 30
# counts in the sentence on lost questions
_MOST_LOSSES = 3
# lines of one screen, which notes fill
_MOST_LINES = 14
# characters of the line of a gate, and of a failure
_LONGEST_GATE, _LONGEST_FAILURE = 160, 120
# gates, and kinds of failures, that have lines of their own
_MOST_GATES, _MOST_KINDS = 3, 3
# kinds of failures that are shown whole if there are no more
_MOST_WHOLE = 2
# measures of judges that the count of omitted ones names
_MOST_JUDGED = 3
# columns of a terminal that is not made wider or narrower
_USUAL_WIDTH = 80


@dataclass(frozen=True, slots=True)
class _Cut:
    """Most notes, results and rows of one screen."""

    n_notes: int
    # the line on the measures of judges that the table leaves out
    has_judged: bool = True
    # the reasons of gates, and three of failures; else fewer
    has_reasons: bool = True
    # gates without a pass that have lines of their own
    n_gates: int = _MOST_GATES
    # results that are not sure
    n_sentences: int = _MOST_SENTENCES
    # None for all
    n_rows: int | None = None


def one_screen(
    page: Layout,
    summary: Summary,
    comparisons: Comparisons,
    screen: Screen,
    last: Sequence[str],
    run: str | None,
) -> str:
    """Return the main results; notes fill one screen, and a line counts what is left out.

    Without room, the reasons of gates become shorter, and results that are not sure and gates
    beyond the first are left out, too. The notes on the combinations that were chosen come first,
    and are never left out.

    Args:
        page: The content of the report.
        summary: The run.
        comparisons: The tests of the run.
        screen: The terminal.
        last: Last lines, such as the path of the page.
        run: Path of the run for the commands that come next; None leaves them out.
    """
    table = main_table(page, summary, screen)
    slices = () if page.slices is None else page.slices.grids
    lost = lost_sentence(summary, comparisons, most=_MOST_LOSSES)
    sentences = _failed_line(page, summary, table), lost, footnote(table, summary.confidence)
    lines = [*filter(None, sentences)]
    if lost and run is not None:
        lines.append("next: " + "; ".join(next_commands(summary, printable(run))))
    choices = _choice_notes(summary)
    remarks, usual_notes = list[str](), list[str]()
    for note in page.notes:
        if note not in choices:
            (usual_notes if _is_usual(note) else remarks).append(note)
    notes = fmt.labelled("note", (*choices, *remarks))
    judged, means = _further_judged(page, table), ""
    for has_intervals in (False, True):
        line = _means_line(judged, has_intervals=has_intervals)
        means = line if len(line) <= _USUAL_WIDTH else means

    def report(cut: _Cut) -> TableReport:
        """Return the screen with some sentences on results, and some notes."""
        lead, *statements = result_sentences(page, cut.n_sentences) or [""]
        blocks: list[Block] = [Paragraph((lead,), tone="title"), Paragraph(tuple(statements))]
        blocks += brief_alerts(page, has_reasons=cut.has_reasons, n_gates=cut.n_gates)
        blocks += [main_table(page, summary, screen, cut.n_rows) or Paragraph(())]
        blocks += slices
        n_notes = len(notes) + len(usual_notes) - cut.n_notes
        further = [means] if means and cut.has_judged else []
        omitted = _omitted(page, table, n_notes, [*judged], n_shown=len(judged) if further else 0)
        more = [f"more with --verbose: {fmt.listed(omitted)}"] if omitted else []
        texts = (*further, *lines, *notes[: cut.n_notes], *more, *last)
        ending = Paragraph(texts, is_apart=bool(slices))
        return TableReport((*blocks, ending), data_table((), ()))

    # each system beyond three has a line of its own
    n_rows = 0 if table is None else len(table.rows)
    n_more = max(0, n_rows - 3)
    # a narrow terminal shows the lines of a usual one, and wraps them
    usual = replace(screen, width=max(screen.width, _USUAL_WIDTH))
    cuts = map(report, _cuts(len(notes), len(choices), n_rows))
    fitting = fit_screen(cuts, usual, min(_MOST_LINES + n_more, MOST_LINES))
    return render(fitting, "table", screen)


def _is_usual(note: str) -> bool:
    """Return True for a note on columns that all have the names of their parts."""
    head, _, pairs = note.partition("columns: ")
    if head or not pairs:
        return False
    return all(part == name for part, _, name in (p.partition(" = ") for p in pairs.split(", ")))


def _cuts(n_notes: int, n_choices: int, n_rows: int) -> Iterator[_Cut]:
    """Yield smaller and smaller sizes of a screen."""
    for n in range(n_notes, n_choices - 1, -1):
        yield _Cut(n)
    yield _Cut(n_choices, has_judged=False)
    smallest = _Cut(n_choices, has_judged=False, has_reasons=False)
    for n_sentences in range(_MOST_SENTENCES, -1, -1):
        smallest = replace(smallest, n_sentences=n_sentences)
        yield smallest
    for n_gates in range(_MOST_GATES - 1, 0, -1):
        smallest = replace(smallest, n_gates=n_gates)
        yield smallest
    for most in (12, 10, 8, 5):
        if most < n_rows:
            smallest = replace(smallest, n_rows=most)
            yield smallest


def alerts(page: Layout) -> Iterator[Block]:
    """Yield warnings and gates."""
    # before the tables: a warning may say that their numbers mean nothing
    yield Paragraph(fmt.labelled("warning", page.warnings), tone="warning")
    for gate in page.gates:
        yield Paragraph((_gate_line(gate, gate.why),), tone=gate.verdict)


def brief_alerts(
    page: Layout, *, has_reasons: bool = True, n_gates: int = _MOST_GATES
) -> Iterator[Block]:
    """Yield warnings, with a line for each kind of failure, and the first gates without a pass."""
    failures, warnings = list[str](), list[str]()
    for warning in page.warnings:
        if warning.startswith(FIRST_TO_FAIL):
            failures.append(warning.removeprefix(FIRST_TO_FAIL))
        elif not warning.endswith(ARE_UNDECIDED):  # the lines of gates say so
            warnings.append(warning)
    most = _MOST_KINDS if has_reasons else _MOST_KINDS - 1
    lines = (*warnings, *fold_failures(failures, most))
    yield Paragraph(fmt.labelled("warning", lines), tone="warning")
    gates = []
    for gate in page.gates:
        if gate.verdict != "pass":
            gates.append(gate)
    # a failed gate counts more than one that needs more questions
    gates.sort(key=lambda gate: gate.verdict != "fail")
    for gate in gates[:n_gates]:
        line = fmt.first_parts(_gate_line(gate, gate.why), _LONGEST_GATE)
        if not has_reasons and gate.means is not None:
            line = _gate_line(gate, " -> ".join(map(fmt.significant, gate.means)))
        yield Paragraph((line,), tone=gate.verdict)
    if n_more := len(gates[n_gates:]):
        yield Paragraph((f"and {fmt.counted(n_more, 'more gates')} without a pass: --verbose",))


def _gate_line(gate: Decision, why: str) -> str:
    """Return the verdict on a gate as a line: `gate fail: map >= 0.2 (bm25): it is 0.1`."""
    # a gate on a judge has no system
    system = f" ({gate.system})" if gate.system else ""
    return f"gate {gate.verdict}: {gate.gate}{system}" + (f": {why}" if why else "")


def fold_failures(failures: Sequence[str], most: int = _MOST_KINDS) -> Iterator[str]:
    """Yield the first failure of each frequent kind, with the number of systems that failed alike.

    Failures are alike if their reasons differ in numbers only; the most frequent kinds come first.

    Args:
        failures: The first failure of each system: `app 'a': ValueError: no such id (query 'q1')`.
        most: Kinds that have a line.
    """
    kinds: dict[str, list[str]] = {}
    for failure in failures:
        # between the name of a component and the query
        reason = (failure.partition("': ")[2] or failure).partition(" (query ")[0]
        kinds.setdefault(re.sub(r"\d+", "0", reason), []).append(failure)
    # a sort keeps the order of equals
    ordered = sorted(kinds.values(), key=lambda alike: -len(alike))
    # the end of a reason says what to do
    longest = _LONGEST_FAILURE if len(ordered) > _MOST_WHOLE else sys.maxsize
    for first, *alike in ordered[:most]:
        also = f" (and {fmt.counted(len(alike), 'systems')} alike)" if alike else ""
        yield f"{FIRST_TO_FAIL}{shorten_line(first, longest)}{also}"
    if rare_kinds := ordered[most:]:
        n_systems = fmt.counted(sum(map(len, rare_kinds)), "systems")
        yield f"{fmt.counted(len(rare_kinds), 'other reasons')} in {n_systems}: --verbose"


def result_sentences(page: Layout, most: int = _MOST_SENTENCES) -> list[str]:
    """Return the first result, its noise, the counts of gates, and further results.

    These are `most`, and each that is sure; one reason why measures tell nothing follows, unless
    `most` is less than two. Gates that did not pass have lines of their own in place of a count.
    """
    n_counts = 1 if page.gates else 0
    results = []
    for line in page.headlines[n_counts:]:
        if line not in page.silent:
            results.append(line)
    first, further = results[:most], results[most:]
    sure = []
    for line in further:
        if any(word in line for word in SURE):
            sure.append(line)
    leads = filter(None, (page.lead, page.noise_sentence, page.purchase_sentence))
    is_brief = most < _MOST_SENTENCES
    has_counts = all(gate.verdict == "pass" for gate in page.gates)
    counts = page.headlines[:n_counts] if has_counts else ()
    return [*leads, *counts, *first, *sure, *(() if is_brief else page.silent[:1])]


def main_table(
    page: Layout, summary: Summary, screen: Screen, most: int | None = None
) -> Table | None:
    """Return the table of the two main measures with their differences; None without a score.

    Intervals that do not fit the width are left out, those of the second measure first. Of more
    than `most` systems, the baseline and the best ones by the first measure are shown.
    """
    numbers = _main_numbers(page)
    if not numbers:
        return None
    systems = _systems(numbers, summary)
    if most is not None:
        best = sorted(systems, key=partial(_rank, numbers[0]))[:most]
        # in the order of the run
        systems.sort(key=lambda names: names not in best)
    readings = [_characters(names[0], summary) for names in systems]
    longest = _LONGEST_NAME if screen.is_terminal else sys.maxsize
    for n_intervals in (2, 1):
        table = _table(numbers, systems, readings, n_intervals, longest)
        if "" not in draw_table(table, screen):  # an empty line begins a further table
            break
    else:
        table = _table(numbers, systems, readings, 0, longest)
    return replace(table, most=most, more="more systems: --verbose")


def footnote(table: Table | None, confidence: float) -> str:
    """Return the line on the intervals and differences of a table; empty without both."""
    if table is None:
        return ""
    parts = []
    if any(cell.interval for row in table.rows for cell in row):
        parts.append(f"[low, high]: {fmt.percent(confidence)} interval")
    if any(head.startswith(_VERSUS) for head in table.heads):
        parts.append("a difference without a word may be chance")
    return "; ".join(parts)


def next_commands(summary: Summary, run: str) -> list[str]:
    """Return the commands that show lost questions, and changes if the run has a ranking."""
    commands = [f"ragbench explain {run}"]
    if any(system.ranking_of is not None for system in summary.systems):
        commands.append(f"ragbench fix {run}")
    return commands


@dataclass(frozen=True, slots=True)
class _Number:
    """Main measure of a section, whose scores and differences are columns of the table."""

    section: Section
    column: MeasureColumn

    @property
    def differences(self) -> Sequence[DifferenceCell]:
        """Differences from the baselines; empty if nothing is compared."""
        return self.column.differences if self.section.against else ()

    def place(self, names: Sequence[str]) -> int | None:
        """Return the row of the first of some systems in the section; None without any."""
        rows = (self.section.systems.index(name) for name in names if name in self.section.systems)
        return next(rows, None)


def _main_numbers(page: Layout) -> list[_Number]:
    """Return the main measures of two sections, answers first, or two measures of a single one."""
    # a section that tells nothing comes last
    sections = sorted(page.sections, key=lambda s: (s.is_silent, s.kind != "generation"))
    numbers = []
    for section in sections[:2]:
        column = next(column for column in section.measures if column.name == section.main)
        numbers.append(_Number(section, column))
    if len(numbers) == 1:
        # a single section has room for its next measure
        further = (c for c in sections[0].measures if c.name != sections[0].main)
        numbers += [_Number(sections[0], column) for column in further][:1]
    return numbers


def _systems(numbers: Sequence[_Number], summary: Summary) -> list[tuple[str, ...]]:
    """Return the names under which each row has its numbers: its own, then its retriever's."""
    # controls have no row; the numbers of a retriever stand in the row of its pair, if it has one
    rows = []
    for system in summary.systems:
        parts = [system.name] if system.retriever is None else [system.name, system.retriever]
        names = dict.fromkeys(map(printable, parts))
        is_scored = any(number.place([printable(system.name)]) is not None for number in numbers)
        if is_scored and system.role != "control":
            rows.append(tuple(names))
    of_pairs = {retriever for _, *further in rows for retriever in further}
    return [names for names in rows if names[0] not in of_pairs]


def _characters(name: str, summary: Summary) -> float | None:
    """Return the characters that a system reads for a question; None if no report needs them."""
    for system in summary.systems:
        if printable(system.name) == name and system.reading is not None:
            return system.reading.characters
    return None


def _rank(number: _Number, names: Sequence[str]) -> tuple[int, float]:
    """Return a key that sorts the baseline first, then the best system by a measure."""
    place = number.place(names)
    score = None if place is None else number.column.scores[place].score
    if place is None or score is None or score.mean is None:
        return 2, 0.0
    if number.differences and number.differences[place].outcome == "baseline":
        return 0, 0.0
    return 1, score.mean if score.direction == "lower" else -score.mean


def _table(
    numbers: Sequence[_Number],
    systems: Sequence[tuple[str, ...]],
    readings: Sequence[float | None],
    n: int,
    longest: int,
) -> Table:
    """Return the table of the first `most` systems; the first `n` measures have intervals."""
    names = [names[0] for names in systems]
    short_names = [_short(name, longest) for name in names]
    if len({*short_names}) < len({*names}):  # two cut names are equal
        short_names = names
    columns, cells = [TableColumn("")], [[*map(label, short_names)]]
    for position, number in enumerate(numbers):
        columns.append(TableColumn(number.column.title, "number", breaks=True))
        places = [number.place(names) for names in systems]
        cells.append([_score(number.column.scores, p, position < n) for p in places])
        if number.differences:
            against = number.section.against
            if len(against) > len(_VERSUS) + _LONGEST_BASELINE:
                against = f"{_VERSUS}baseline"
            columns.append(TableColumn(against, "number"))
            cells.append([_difference(number.column, place) for place in places])
    if any(readings):
        columns.append(TableColumn(READ_HEAD, "number", breaks=True))
        cells.append([TableCell(f"{n:,.0f}" if n else fmt.MISSING, n) for n in readings])
    return Table(tuple(columns), tuple(zip(*cells, strict=True)))


def _short(name: str, longest: int) -> str:
    """Return a name with `...` in place of its middle, if it is too long."""
    n_end = (longest - 3) // 2
    return name if len(name) <= longest else f"{name[:n_end]}...{name[-n_end:]}"


def _score(scores: Sequence[ScoreCell], place: int | None, has_interval: bool) -> TableCell:
    """Return the mean in a row, with its interval or without; `-` without a row."""
    if place is None:
        return TableCell(fmt.MISSING)
    cell = scores[place]
    return TableCell(cell.text, cell.value, cell.interval if has_interval else "")


def _difference(column: MeasureColumn, place: int | None) -> TableCell:
    """Return the difference in a row, with its verdict if there is one: `-0.128 worse`."""
    if place is None:
        return TableCell()
    cell = column.differences[place]
    # equal scores beside failed ones are not the same result
    has_failures = any(c.score is not None and c.score.has_failures for c in column.scores)
    if cell.outcome == "baseline" or (cell.outcome == "identical" and not has_failures):
        return TableCell(cell.outcome)
    is_sure = cell.outcome in ("better", "worse") and not cell.needs_correction
    return TableCell(f"{cell.value} {cell.outcome}" if is_sure else cell.value, tone=cell.outcome)


def _choice_notes(summary: Summary) -> list[str]:
    """Return the notes on the combinations of sweeps that were chosen: the first of the run."""
    n_choices = len(summary.selected) + len({choice.sweep for choice in summary.folds})
    return [printable(note) for note in summary.notes[:n_choices]]


def _further_judged(page: Layout, table: Table | None) -> dict[str, dict[str, ScoreCell]]:
    """Return the measures of judges that the table leaves out, each with a cell by system."""
    heads = () if table is None else table.heads
    judged = {}
    for section in page.sections:
        for measure in section.measures if section.kind == "judge" else ():
            if measure.title not in heads:
                cells = zip(section.systems, measure.scores, strict=True)
                judged[measure.title] = dict(cells)
    return judged


def _means_line(judged: Mapping[str, Mapping[str, ScoreCell]], *, has_intervals: bool) -> str:
    """Return a line with the means by some measures, as `also: polite 0.68`; '' without any."""
    parts = []
    for title, cells in judged.items():
        means = []
        for system, cell in cells.items():
            name = f"{system} " if len(cells) > 1 else ""
            interval = f" {cell.interval}" if has_intervals and cell.interval else ""
            means.append(f"{name}{cell.text}{interval}")
        sign = ": " if len(cells) > 1 else " "
        parts.append(f"{title}{sign}{', '.join(means)}")
    return f"also: {'; '.join(parts)}" if parts else ""


def _omitted(
    page: Layout, table: Table | None, n_notes: int, judged: Sequence[str], *, n_shown: int
) -> list[str]:
    """Return the parts that one screen leaves out, in words; measures of judges by name."""
    titles = {measure.title for section in page.sections for measure in section.measures}
    names = [] if n_shown else list(judged[:_MOST_JUDGED])
    n_columns = 0 if table is None else sum(head in titles for head in table.heads)
    n_measures = sum(len(section.measures) for section in page.sections) - n_columns
    n_passed = sum(gate.verdict == "pass" for gate in page.gates)
    n_others = n_measures - n_shown - len(names)
    counts = {
        "other measures" if names else "measures": n_others,
        "passed gates": n_passed,
        "notes": n_notes,
    }
    omitted = names
    for noun, n in counts.items():
        if n:
            omitted.append(fmt.counted(n, noun))
    omitted += ["preferences by pair"] if page.preferences else []
    return omitted


def _failed_line(page: Layout, summary: Summary, table: Table | None) -> str:
    """Return the failed items of each system, or answers of repeats, in its measure with most."""
    heads = () if table is None else table.heads
    counts = {printable(system.name): system.answers for system in summary.systems}
    worst: dict[str, tuple[int, Mapping[str, int], str]] = {}
    for section in page.sections:
        for measure, (place, system) in product(section.measures, enumerate(section.systems)):
            score, answers = measure.scores[place].score, counts.get(system)
            if score is None:
                continue
            failed = score.failed if answers is None else answers.failed.get(measure.name, {})
            n, most = sum(failed.values()), worst[system][0] if system in worst else 0
            if n > most:
                worst[system] = (n, failed, measure.title)
    failures = []
    for system, (n, failed, title) in worst.items():
        of = counts.get(system)
        items = "" if of is None else f"{of.asked} answers of "
        # a measure that the table leaves out is named
        by = "" if title in heads else f" by {title}"
        failures.append((n, f"{items}{system}{by}{fmt.causes(failed.items())}"))
    return fmt.failed_line(failures)
