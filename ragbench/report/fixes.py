"""Report of `ragbench fix`, and the chapter of a fix list on the page of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from ragbench.records.causes import Quantity, quantity
from ragbench.records.fixes import FixList, PricedChange
from ragbench.report.base import AFTER_CORRECTION, Chapter
from ragbench.report.table import (
    Block,
    Paragraph,
    Raw,
    Table,
    TableCell,
    TableColumn,
    TableReport,
    data_table,
    label,
    word_table,
)
from ragbench.report.text import counted, labelled, questions
from ragbench.types.display import printable

_CHANGES = (
    *(TableColumn("change"), TableColumn("+/-"), TableColumn("found")),
    TableColumn("what to expect", "words"),
)
_LOSSES = (
    *(TableColumn("system"), TableColumn("reason", "words"), TableColumn("what can help", "words")),
    *(TableColumn("questions", "number"), TableColumn("which", "words")),
)
COLUMNS = (
    *("kind", "change", "found", "of", "rescued", "lost", "gain", "low", "high", "verdict"),
    *("passages", "tokens", "latency_ms"),
)
_ON_SCREEN = 5  # changes, and reasons of losses, on one screen
_FUSIONS = 3  # that are listed, the best ones
_LISTED = 10  # ids in a cell
_ROWS = 200  # questions on the page


def fix_report(
    fixes: FixList, arguments: str, *, brief: bool = False, verbose: bool = True
) -> TableReport:
    """Return a fix list as a report.

    Args:
        fixes: The fix list.
        arguments: Arguments of `ragbench fix`, as the user wrote them.
        brief: Leave out all but the changes and the next step.
        verbose: Print all changes, with the questions that none helps. False prints one screen.
    """
    n_lost = questions(fixes.of - fixes.found)
    head = f"{_headline(fixes)}; what stored results say about the other {n_lost}:"
    blocks: list[Block] = [Paragraph((head,), is_apart=True)]
    for table in fix_chapter(fixes).grids:
        # tables by question are for the links of the page; --json has all ids
        if table.has_queries or (brief and table.columns != _CHANGES):
            continue
        if verbose:
            blocks.append(table)
        elif table.columns == _CHANGES:
            blocks.append(replace(table, caption="", most=_ON_SCREEN, more="changes: --verbose"))
    if not verbose:
        blocks += _remaining_lines(fixes)
    notes = () if brief else labelled("note", map(printable, fixes.notes))
    lines = (*notes, *_next_steps(fixes, arguments))
    blocks.append(Paragraph(lines, is_apart=True))
    return TableReport(tuple(blocks), data_table(COLUMNS, map(_values, fixes.changes)))


def _remaining_lines(fixes: FixList) -> Iterator[Block]:
    """Yield the reasons of losses that no change helps, and what lost questions have in common."""
    lines = []
    for loss in fixes.remaining[:_ON_SCREEN]:
        n_questions = questions(_parts(loss.queries, loss.repeats))
        system, reason, advice = map(printable, (loss.system, loss.reason, loss.advice))
        lines.append(f"{system}: {n_questions} {reason} ({advice})")
    if fixes.groups is not None and fixes.groups.lost:
        lines += map(printable, fixes.groups.sentences[:1])
    yield Paragraph(tuple(lines), is_apart=True)


def _values(change: PricedChange) -> tuple[Raw, ...]:
    """Return the values of a change, under `COLUMNS`; a bound has no gain."""
    verdict = "better" if change.is_better else "not shown"
    gain = (change.gain, *change.interval, verdict)
    return (
        *(change.kind, change.text, change.found, change.of),
        *(_parts(change.rescued, change.repeats), _parts(change.lost, change.repeats)),
        *((None, None, None, "bound") if change.is_bound else gain),
        *(change.passages, change.tokens, change.latency_ms),
    )


def listed(changes: Sequence[PricedChange], read: int) -> list[PricedChange]:
    """Return the changes that are worth a line, the largest net gain first.

    A change is listed if it gains a question, or if it reads fewer passages and loses none. Among
    fusions only the best three are listed; among numbers of passages, and depths of perfect
    rerankers, only the smallest with its gain. Of equal gains, the change that looks at fewer hits
    and reads fewer passages comes first.

    Args:
        changes: Priced changes of a system.
        read: Number of passages that a generator reads now.
    """
    lines: list[PricedChange] = []
    n_fusions = 0
    # Cheap ones first among equals: the later, dearer ones then find an equal line and are left
    # out.
    for change in sorted(changes, key=lambda change: (-change.net, change.reach, change.passages)):
        n_fusions += change.fusion is not None
        is_cheaper = any((c.kind, c.found) == (change.kind, change.found) for c in lines)
        is_listed = change.net > 0 or (
            change.kind == "passages" and change.further < 0 and not change.lost
        )
        if change.fusion is not None:
            is_listed &= n_fusions <= _FUSIONS
        elif change.kind in ("passages", "perfect_reranker"):
            is_listed &= not is_cheaper
        if is_listed:
            lines.append(change)
    return lines


def fix_chapter(fixes: FixList) -> Chapter:
    """Return the chapter of a fix list: changes, and the first 200 questions that they move.

    Further tables have the losses that remain, and groups of lost questions. The headlines are the
    number of questions that are found, and the next steps.
    """
    changes = listed(fixes.changes, fixes.read)
    cells = tuple(_cells(change, fixes) for change in changes)
    tables = [Table(_CHANGES, cells, "changes")] if cells else []
    rescues, losses = dict[str, list[str]](), dict[str, list[str]]()
    # A bound has the questions that some reranker could rescue, and no stored one does.
    for change in (change for change in changes if not change.is_bound):
        for names, queries in ((rescues, change.rescued), (losses, change.lost)):
            for query in dict.fromkeys(queries):
                names.setdefault(query, []).append(printable(change.text))
    rows = []
    for query in {**rescues, **losses}:
        rows.append(
            (printable(query), "; ".join(rescues.get(query, ())), "; ".join(losses.get(query, ())))
        )
    if rows:
        heads = ("question", "rescued by", "lost by")
        tables.append(word_table(heads, rows[:_ROWS], "questions", has_queries=True))
    tables += _loss_tables(fixes)
    return Chapter(
        "what to change",
        (_headline(fixes), *_next_steps(fixes, "RUN")),
        tuple(map(printable, fixes.notes)),
        tuple(tables),
    )


def _loss_tables(fixes: FixList) -> Iterator[Table]:
    """Yield tables of losses that remain, and of what lost questions share."""
    remaining = []
    for loss in fixes.remaining:
        which = _questions(loss.queries, fixes, loss.repeats)
        texts = (loss.system, loss.reason, loss.advice, *which)
        remaining.append(tuple(map(label, texts)))
    if remaining:
        yield Table(_LOSSES, tuple(remaining), "no change of the ranking helps")
    if (groups := fixes.groups) is not None and groups.lost:
        queries = [group.queries for group in groups.groups] or [()]
        lines = []
        for sentence, of_group in zip(groups.sentences, queries, strict=True):
            lines.append((label(sentence), label(_questions(of_group, fixes)[1])))
        columns = (TableColumn("group", "words"), TableColumn("which", "words"))
        yield Table(columns, tuple(lines), "what lost questions have in common")
        phrases: dict[str, list[str]] = {}
        for group in groups.groups:
            for query in group.queries:
                phrases.setdefault(query, []).append(printable(group.phrase))
        rows = tuple((printable(query), "; ".join(texts)) for query, texts in phrases.items())
        if rows:
            caption = "lost questions of these groups"
            heads = ("question", "has in common")
            yield word_table(heads, rows[:_ROWS], caption, has_queries=True)


def _questions(queries: Sequence[str], fixes: FixList, repeats: int = 1) -> tuple[str, str]:
    """Return the number of questions, of which a repetition is a part, and the first 10 names."""
    ids = list(dict.fromkeys(queries))
    names = [printable(fixes.labels.get(query, query)) for query in ids[:_LISTED]]
    more = ", ..." if len(ids) > _LISTED else ""
    return questions(_parts(queries, repeats)), f"{', '.join(names)}{more}"


def _parts(queries: Sequence[str], repeats: int) -> Quantity:
    return quantity(Fraction(len(queries), repeats))


def _headline(fixes: FixList) -> str:
    """Return the number of questions that are found: `bm25 finds 57 of 70 at 5`."""
    counts = f"{questions(fixes.found)} of {questions(fixes.of)}"
    average = " on average" if any(change.repeats > 1 for change in fixes.changes) else ""
    return f"{printable(fixes.system)} finds {counts}{average} at {fixes.read}"


def _cells(change: PricedChange, fixes: FixList) -> tuple[TableCell, ...]:
    """Return the cells of a change, under `_CHANGES`."""
    count = f"{questions(change.found)} of {questions(change.of)}"
    rescued, lost = (_parts(ids, change.repeats) for ids in (change.rescued, change.lost))
    moved = f"+{questions(rescued)} -{questions(lost)}"
    if change.is_bound:
        texts = (change.text, moved, f"at most {count}", "a bound, not a promise")
        return tuple(map(label, texts))
    words = []
    # More passages only rescue and fewer only lose: a test that the gain is not 0 tells nothing.
    if change.kind != "passages":
        verdict = "better" if change.is_better else "not shown to be better"
        verdict += f" {AFTER_CORRECTION}" if change.needs_correction else ""
        words.append(f"{verdict}: {_gain(change.gain, change.interval)}")
    if change.kind in ("near_duplicates", "neighbours", "refusal"):
        words.append("in your code")
    if further := round(change.further, 1):
        tokens = "" if change.tokens is None else f": about {change.tokens:+,.0f} tokens"
        n_passages = f"{further:+.0f}" if abs(further) >= 10 else f"{further:+g}"
        words.append(f"{n_passages} passages a question{tokens}")
    # Less than a millisecond is noise of the timer.
    if change.latency_ms is not None and abs(change.latency_ms) >= 1:
        words.append(f"{change.latency_ms:+.0f} ms")
    return tuple(map(label, (change.text, moved, count, "; ".join(words))))


def _gain(gain: float, ends: tuple[float, float]) -> str:
    """Return a gain with its interval, in questions: `+3 [-1, +7]`."""
    return f"{_number(gain)} [{_number(ends[0])}, {_number(ends[1])}]"


def _number(value: float) -> str:
    """Return a number of questions with its sign and at most one digit."""
    text = f"{value:+.1f}"
    return text.removesuffix(".0")


def _next_steps(fixes: FixList, arguments: str) -> Iterator[str]:
    """Yield lines: the best change, its gain after the choice, and the commands that write it."""
    best = fixes.best
    if best is None or best.change.net <= 0:
        yield "no other ranking here gains a question: `--write best.yaml` would write nothing"
        return
    ties = len(best.ties)
    equals = f" ({counted(ties, 'more changes')} with as many)" if ties else ""
    if best.is_better:
        low, high = map(_number, best.untouched)
        n_more = f"finds about {_number(best.gain)[1:]} more of {questions(fixes.of)} questions"
        yield f"next: {printable(best.change.text)}{equals}: surely better, {n_more}"
        yield f"  on as many new questions that is from {low} to {high}"
        yield f"  ragbench fix {printable(arguments)} --write best.yaml && ragbench run best.yaml"
        return
    promise = f"{printable(best.change.text)}{equals}"
    gain = f"{_gain(best.gain, best.interval)} of {questions(fixes.of)} questions"
    after = f" {AFTER_CORRECTION}" if best.interval[0] > 0 else ""
    yield f"no change is surely better{after}; the largest promise is {promise}: {gain}"
    yield f"  ragbench fix {printable(arguments)} --write best.yaml --best writes it all the same"
