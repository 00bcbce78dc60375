"""What `ragbench compare` prints: aligned text, CSV, Markdown, and LaTeX, which needs booktabs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragbench.data.runs.run_folder import to_csv
from ragbench.records.comparison import (
    ComparedGate,
    ComparedRuns,
    ComparedSystem,
    Difference,
    MeasureComparison,
    MovedQueries,
    MovedQuery,
)
from ragbench.report.headline import (
    NOT_COMPARED,
    interval_and_p,
    nothing_told,
    outcome_of,
    p_meaning,
)
from ragbench.report.markdown import escape, table_lines
from ragbench.report.runs import changed_lines, moved_causes, moved_head
from ragbench.report.sections import Scores, count_lines
from ragbench.report.text import (
    MISSING,
    counted,
    difference,
    draw,
    interval,
    listed,
    percent,
    printable,
    probability,
    side_by_side,
    significant,
    with_intervals,
)

DIFFERENCE_HEADS = (
    *("measure", "system", "against", "difference", "interval", "p", "verdict", "n", "changed"),
)

_RAISED = str.maketrans(
    "abcdefghijklmnoprstuvwxyz0123456789", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ⁰¹²³⁴⁵⁶⁷⁸⁹"
)
_NO_RANKING = "(no ranking at hand)"
_NOTHING = "(nothing retrieved)"

COLUMNS = (
    *("measure", "system", "source", "baseline", "baseline_source", "mean", "baseline_mean"),
    *("difference", "low", "high", "p", "p_adjusted", "verdict", "n", "n_changed", "n_failed"),
    *("effect_size", "minimum_detectable", "direction"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One system's value by one measure."""

    value: str
    marks: tuple[str, ...] = ()
    """Letters of the systems that it is significantly better than."""
    interval: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Systems (rows) with the same measures (columns): the rankings, or the answers."""

    letters: tuple[str, ...]
    systems: tuple[str, ...]
    measures: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    counts: tuple[str, ...]


def _gates(comparison: ComparedRuns) -> list[ComparedGate]:
    """Sort the verdicts: undecided gates first."""
    order = ("undecided", "fail", "pass")
    return sorted(comparison.gates, key=lambda gate: order.index(gate.verdict))


def gate_line(gate: ComparedGate) -> str:
    """Write a verdict in one line: `gate fail: map drop > 0.01 (dense): -0.2 [-0.3, -0.1] ...`."""
    system = f" ({printable(gate.system)})" if gate.system else ""
    return f"gate {gate.verdict}: {printable(gate.gate)}{system}: {printable(gate.why)}"


def describe_subject(comparison: ComparedRuns) -> str:
    """Name the compared runs, and count the queries that they are compared over."""
    base, *others = map(printable, comparison.sources)
    queries = counted(comparison.queries, "queries")
    differing = {query for each in comparison.differing.values() for query in each}
    if differing:
        common = counted(comparison.queries + len(differing), "common queries")
        queries = f"{comparison.queries} of {common} (left out, as they differ: {len(differing)})"
    if others:
        return f"{listed(others)} against {base}: {queries}, paired"
    return f"{base}: its systems against {printable(comparison.baseline)}: {queries}, paired"


def _blocks(comparison: ComparedRuns) -> Iterator[Block]:
    systems = {system.name: system for system in comparison.systems}
    groups: dict[tuple[str, ...], list[MeasureComparison]] = {}
    for family in comparison.measures:
        having = [name for name, s in systems.items() if family.measure in s.scores]
        groups.setdefault(tuple(having), []).append(family)
    letters = {name: system.letter for name, system in systems.items()}
    for names, families in groups.items():
        measures = [family.measure for family in families]
        scores = {name: systems[name].scores for name in names}
        yield Block(
            letters=tuple(letters[name] for name in names),
            systems=tuple(map(printable, names)),
            measures=tuple(
                printable(family.measure)
                + (" (lower is better)" if family.direction == "lower" else "")
                for family in families
            ),
            cells=tuple(
                tuple(_cell(scores, name, family, letters) for family in families) for name in names
            ),
            counts=tuple(count_lines(scores, measures)),
        )


def _cell(scores: Scores, name: str, family: MeasureComparison, letters: Mapping[str, str]) -> Cell:
    measure = family.measure
    score = scores[name][measure]
    if score.mean is None:
        return Cell(MISSING)
    best = None if family.best is None else scores.get(family.best, {}).get(measure)
    better = family.better_than or {}
    return Cell(
        value=significant(score.mean),
        marks=tuple(letters[other] for other in better.get(name, ())),
        interval=interval(score.interval),
        best=best is not None and score.mean == best.mean,  # several where they are equal
    )


def _differences(comparison: ComparedRuns) -> Iterator[tuple[str, ...]]:
    for family in comparison.measures:
        for made in family.comparisons:
            names = (family.measure, made.system, made.baseline)
            change = (MISSING, "")
            if made.difference is not None:
                change = difference(made.difference, made.interval)
            verdict = (probability(made.p_adjusted), outcome_of(made, family.direction))
            yield (*map(printable, names), *change, *verdict, str(made.n), str(made.n_changed))


def _legend(comparison: ComparedRuns) -> Iterator[tuple[str, str]]:
    confidence = percent(comparison.confidence or 0.95)
    if any(any((family.better_than or {}).values()) for family in comparison.measures):
        text = "significantly better than the systems of these letters "
        yield "letters behind a value", f"{text}(max-T test over all pairs, {confidence})"
    if any(family.comparisons for family in comparison.measures):
        text = f"paired difference over the n queries that both have, {confidence} interval"
        if cluster := comparison.cluster:
            text += f"; queries with the same {printable(cluster)} are one unit"
        yield "difference", text
        yield "p", p_meaning(comparison)
        corrected = comparison.correction != "none"
        yield from interval_and_p(comparison.measures, corrected=corrected)
        yield "undecided", "no difference was shown, which is not equality"
    made = [c for family in comparison.measures for c in family.comparisons]
    if any(c.difference is None for c in made):
        yield NOT_COMPARED


def render_table(comparison: ComparedRuns, *, width: int = 100) -> str:
    """Draw a comparison as aligned text; measures that do not fit go into a further table below."""
    lines = [describe_subject(comparison), *changed_lines(comparison)]
    lines += [*nothing_told(comparison.measures), *map(gate_line, _gates(comparison))]
    for block in _blocks(comparison):
        lines += ["", *_scores(block, width), *block.counts]
    if differences := list(_differences(comparison)):
        lines += ["", *draw(list(zip(DIFFERENCE_HEADS, *differences, strict=True)))]
    for moved in (each for each in comparison.moved if each.queries):
        lines += ["", *_moved(moved, width)]
    for line in moved_causes(comparison):
        lines.append(line[:width] if line.startswith("    ") else line)  # questions may be long
    lines += ["", *(f"{sign}: {meaning}" for sign, meaning in _legend(comparison))]
    lines += [f"note: {printable(note)}" for note in comparison.notes]
    return "\n".join(lines) + "\n"


def _scores(block: Block, width: int) -> list[str]:
    start = [["", *block.letters], ["system", *block.systems]]
    groups = []
    for place, title in enumerate(block.measures):
        cells = [row[place] for row in block.cells]
        values = [cell.value + "".join(cell.marks).translate(_RAISED) for cell in cells]
        groups.append([[title, *with_intervals(values, [cell.interval for cell in cells])]])
    return side_by_side(start, groups, width)


def moved_cells(query: MovedQuery) -> tuple[str, str, str, str]:
    """Write one moved query: id, score of the baseline, of the system, difference."""
    scores = (significant(query.baseline_score), significant(query.score))
    return (printable(query.query_id), *scores, difference(query.difference, None)[0])


def rankings_of(query: MovedQuery) -> Iterator[tuple[str, str]]:
    """Yield the two rankings rank by rank, the baseline's first; nothing where there is none."""
    rankings = (query.baseline_ranking, query.ranking)
    if rankings == (None, None):
        return
    sides = [(_NO_RANKING,) if each is None else each or (_NOTHING,) for each in rankings]
    for place in range(max(map(len, sides))):
        first, second = (printable(side[place]) if place < len(side) else "" for side in sides)
        yield first, second


def _moved(moved: MovedQueries, width: int) -> list[str]:
    queries = moved.queries
    heads = ("query", printable(moved.baseline), printable(moved.system), "difference")
    rows = draw(list(zip(heads, *map(moved_cells, queries), strict=True)))
    lines = [moved_head(moved), rows[0]]
    half = (width - 8) // 2
    for line, query in zip(rows[1:], queries, strict=True):
        lines.append(line)
        if query.question:
            lines.append(f"      {printable(query.question)}"[:width])
        ranked = list(rankings_of(query))
        longest = max((len(first) for first, _ in ranked), default=0)
        lines += [
            f"{rank:>5} {first:{min(longest, half)}} | {second}".rstrip()
            for rank, (first, second) in enumerate(ranked, start=1)
        ]
    return lines


def render_csv(comparison: ComparedRuns) -> str:
    """Write the differences as CSV; an empty cell where there is no value."""
    systems = {system.name: system for system in comparison.systems}
    rows = (
        _row(family, each, systems) for family in comparison.measures for each in family.comparisons
    )
    return to_csv(COLUMNS, rows)


def _row(
    family: MeasureComparison, made: Difference, systems: Mapping[str, ComparedSystem]
) -> list[str | float | None]:
    name = family.measure
    system, base = systems[made.system], systems[made.baseline]
    low, high = made.interval or (None, None)
    return [
        *(name, system.system, system.source, base.system, base.source),
        *(system.scores[name].mean, base.scores[name].mean),
        *(made.difference, low, high, made.p, made.p_adjusted),
        outcome_of(made, family.direction),
        *map(str, (made.n, made.n_changed, made.n_failed)),
        *(made.effect_size, made.minimum_detectable),
        family.direction,
    ]


def render_markdown(comparison: ComparedRuns) -> str:
    """Draw a comparison as GitHub-flavoured Markdown; letters stand in `<sup>`."""
    blocks = [[escape(describe_subject(comparison))], _listed(changed_lines(comparison))]
    blocks.append([escape(line) for line in nothing_told(comparison.measures)])
    if gates := _gates(comparison):
        cells = [(gate.verdict, gate.gate, gate.system or "", gate.why) for gate in gates]
        rows = [[escape(printable(cell)) for cell in row] for row in cells]
        blocks.append(table_lines(["verdict", "gate", "system", "why"], rows))
    for block in _blocks(comparison):
        rows = [
            [escape(f"{letter} {system}"), *map(_markdown_cell, cells)]
            for letter, system, cells in zip(block.letters, block.systems, block.cells, strict=True)
        ]
        heads = ["system", *map(escape, block.measures)]
        blocks.append(table_lines(heads, rows, numbers=True))
        blocks.append([f"- {escape(line)}" for line in block.counts])
    if differences := list(_differences(comparison)):
        rows = [[escape(cell) for cell in row] for row in differences]
        blocks.append(table_lines(DIFFERENCE_HEADS, rows, numbers=True))
    for moved in (each for each in comparison.moved if each.queries):
        blocks += _moved_rows(moved)
    if causes := _listed(moved_causes(comparison)):
        blocks += [["<details>", "<summary>causes that changed</summary>"], causes, ["</details>"]]
    legend = _legend(comparison)
    blocks.append([f"- {escape(sign)}: {escape(meaning)}" for sign, meaning in legend])
    blocks.append([f"- note: {escape(printable(note))}" for note in comparison.notes])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _listed(lines: Sequence[str]) -> list[str]:
    """Indented lines as a list in a list."""
    cut = ((line, line.lstrip()) for line in lines if line)
    return [f"{line.removesuffix(text)}- {escape(text)}" for line, text in cut]


def _markdown_cell(cell: Cell) -> str:
    value = f"**{cell.value}**" if cell.best else cell.value
    marks = f"<sup>{''.join(cell.marks)}</sup>" if cell.marks else ""
    return f"{value}{marks} {escape(cell.interval)}".rstrip()


def _moved_rows(moved: MovedQueries) -> list[list[str]]:
    """A folded table: the queries, and the documents of both rankings in one cell each."""
    heads = ["query", printable(moved.baseline), printable(moved.system), "difference"]
    rows = []
    for query in moved.queries:
        rows.append([escape(cell) for cell in moved_cells(query)])
        ranked = list(rankings_of(query))
        if ranked:
            first, second = ("<br>".join(map(escape, side)) for side in zip(*ranked, strict=True))
            rows.append(["", first, second, ""])
    return [
        ["<details>", f"<summary>{escape(moved_head(moved))}</summary>"],
        table_lines([escape(head) for head in heads], rows),
        ["</details>"],
    ]


_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape_latex(text: str) -> str:
    r"""Make a text show as it is in LaTeX.

    Example:
        >>> print(escape_latex("hit_rate@1 & 95 %"))
        hit\_rate@1 \& 95 \%
    """
    return "".join(_ESCAPES.get(sign, sign) for sign in text)


def render_latex(comparison: ComparedRuns) -> str:
    """Draw the scores as `table` environments with booktabs rules, one for rankings and answers.

    Superscript letters name the systems that a value is significantly better than; the best
    value of a measure is bold.
    """
    caption = [f"{describe_subject(comparison)}."]
    caption += [f"Superscripts: {text}." for sign, text in _legend(comparison) if "letters" in sign]
    tables = [_latex_table(block, escape_latex(" ".join(caption))) for block in _blocks(comparison)]
    return "\n".join(["% needs \\usepackage{booktabs}", *tables])


def _latex_table(block: Block, caption: str) -> str:
    head = " & ".join(["", "System", *map(escape_latex, block.measures)])
    rows = [
        " & ".join([letter, escape_latex(system), *map(_latex_cell, cells)]) + r" \\"
        for letter, system, cells in zip(block.letters, block.systems, block.cells, strict=True)
    ]
    lines = [
        *(r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"),
        rf"\begin{{tabular}}{{ll{'l' * len(block.measures)}}}",
        *(r"\toprule", rf"{head} \\", r"\midrule", *rows, r"\bottomrule"),
        *(r"\end{tabular}", r"\end{table}", ""),
    ]
    return "\n".join(lines)


def _latex_cell(cell: Cell) -> str:
    value = rf"\textbf{{{cell.value}}}" if cell.best else cell.value
    return value + (rf"$^{{{''.join(cell.marks)}}}$" if cell.marks else "")
