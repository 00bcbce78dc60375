"""Report of `ragbench fix`, and the chapter of a fix list on the page of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from ragbench.records.causes import Quantity, quantity
from ragbench.records.fixes import FixList, PricedChange, Promise
from ragbench.report.base import AFTER_CORRECTION, Chapter
from ragbench.report.formats import fit_screen
from ragbench.report.formats.base import Screen
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
)
from ragbench.report.text import action_words, counted, labelled, questions
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
_MOST_NAMES = 3  # changes in the title of a group
_ROWS = 200  # questions of a group on the page
# a change may find more questions, and its gain vanishes on questions that did not choose it
_NO_GAIN = "no other ranking of this run promises more questions"


def fix_screen(fixes: FixList, arguments: str, screen: Screen) -> TableReport:
    """Return a fix list on one screen: the five best changes, or fewer."""
    report = partial(fix_report, fixes, arguments, verbose=False)
    return fit_screen((report(most=n) for n in range(_ON_SCREEN, 0, -1)), screen)


def fix_report(
    fixes: FixList,
    arguments: str,
    *,
    brief: bool = False,
    verbose: bool = True,
    most: int = _ON_SCREEN,
) -> TableReport:
    """Return a fix list as a report.

    Args:
        fixes: The fix list.
        arguments: Arguments of `ragbench fix`, as the user wrote them.
        brief: Leave out all but the changes and the next step.
        verbose: Print all changes, with the questions that none helps. False prints one screen.
        most: Changes of one screen, and reasons of losses that none helps.
    """
    n_lost = questions(fixes.of - fixes.found)
    head = f"{_headline(fixes)}; what stored results say about the other {n_lost}:"
    blocks: list[Block] = [Paragraph((head,), is_apart=True)]
    for table in fix_chapter(fixes).grids:
        if brief and table.columns != _CHANGES:
            continue
        if verbose:
            blocks.append(table)
        elif table.columns == _CHANGES:
            blocks.append(replace(table, caption="", most=most, more="more with --verbose"))
    if not verbose:
        blocks += _remaining_lines(fixes, most)
    notes = () if brief else labelled("note", map(printable, fixes.notes))
    lines = (*notes, *_next_steps(fixes, arguments))
    blocks.append(Paragraph(lines, is_apart=True))
    return TableReport(tuple(blocks), data_table(COLUMNS, map(_values, fixes.changes)))


def _remaining_lines(fixes: FixList, most: int) -> Iterator[Block]:
    """Yield the reasons of losses that no change helps, and what lost questions have in common."""
    lines = []
    for loss in fixes.remaining[:most]:
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
    """Return the chapter of a fix list: changes, losses that remain, and groups of lost questions.

    The headlines are the number of questions that are found, and the next steps.
    """
    headlines = (_headline(fixes), *_next_steps(fixes, "RUN"))
    notes = tuple(map(printable, fixes.notes))
    grids = (*_change_tables(fixes), *_loss_tables(fixes))
    return Chapter("what to change", headlines, notes, grids)


def page_chapter(fixes: FixList) -> Chapter:
    """Return the chapter of a fix list for readers without a terminal; it has no commands.

    Losses that remain, and groups of lost questions, are in `question_groups`.
    """
    headlines = (_headline(fixes), _promise(fixes))
    notes = tuple(map(printable, fixes.notes))
    return Chapter("what to change", headlines, notes, tuple(_change_tables(fixes)))


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Questions with one fate.

    Attributes:
        title: Number of the questions, and what they have in common.
        queries: Their ids.
    """

    title: str
    queries: tuple[str, ...]


def question_groups(fixes: FixList) -> Iterator[QuestionGroup]:
    """Yield the questions that changes move, those that none helps, and groups of lost ones.

    Questions that the same changes rescue and lose are one group.
    """
    rescues, losses = dict[str, list[str]](), dict[str, list[str]]()
    # A bound has the questions that some reranker could rescue, and no stored one does.
    for change in (c for c in listed(fixes.changes, fixes.read) if not c.is_bound):
        for names, queries in ((rescues, change.rescued), (losses, change.lost)):
            for query in dict.fromkeys(queries):
                names.setdefault(query, []).append(printable(change.text))
    moves: dict[str, list[str]] = {}
    for query in {**rescues, **losses}:
        words = []
        if query in rescues:
            words.append(f"rescued by: {_some(rescues[query])}")
        if query in losses:
            words.append(f"lost by: {_some(losses[query])}")
        moves.setdefault("; ".join(words), []).append(query)
    for move, moved in moves.items():
        yield QuestionGroup(f"{counted(len(moved), 'questions')} {move}", tuple(moved[:_ROWS]))
    for loss in fixes.remaining:
        ids = list(dict.fromkeys(loss.queries))
        system, reason, advice = map(printable, (loss.system, loss.reason, loss.advice))
        action = action_words(advice)
        title = f"{counted(len(ids), 'questions')} of {system}, {reason}: {action}"
        yield QuestionGroup(title, tuple(ids[:_ROWS]))
    if (groups := fixes.groups) is not None and groups.groups:
        for group, sentence in zip(groups.groups, groups.sentences, strict=True):
            yield QuestionGroup(printable(sentence), group.queries[:_ROWS])


def _some(names: Sequence[str]) -> str:
    """Return the first three names of changes, and the number of the others."""
    n_more = len(names) - _MOST_NAMES
    more = [f"{n_more} more"] if n_more > 0 else []
    return "; ".join([*names[:_MOST_NAMES], *more])


def _change_tables(fixes: FixList) -> Iterator[Table]:
    """Yield the table of the changes that are worth a line; nothing without any."""
    if changes := listed(fixes.changes, fixes.read):
        yield Table(_CHANGES, tuple(_cells(change, fixes) for change in changes), "changes")


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


def _questions(queries: Sequence[str], fixes: FixList, repeats: int = 1) -> tuple[str, str]:
    """Return the number of questions, of which a repetition is a part, and the first 10 names."""
    ids = list(dict.fromkeys(queries))
    names = []
    for query in ids[:_LISTED]:
        names.append(printable(fixes.labels.get(query, query)))
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
        verdict = "surely better" if change.is_better else "no difference shown"
        verdict += f" {AFTER_CORRECTION}" if change.needs_correction else ""
        words.append(f"{verdict} ({_gain(change.gain, change.interval)}{text_words(change)})")
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


def text_words(change: PricedChange) -> str:
    """Return the text that is read after a change: `, with 9.7 times the text`; '' if unknown."""
    return "" if change.text_ratio is None else f", with {change.text_ratio:.2g} times the text"


def _gain(gain: float, ends: tuple[float, float]) -> str:
    """Return a gain with its interval, in questions: `+3, from -1 to +7`."""
    return f"{_number(gain)}, from {_number(ends[0])} to {_number(ends[1])}"


def _number(value: float) -> str:
    """Return a number of questions with its sign, in whole ones; below one with one digit."""
    if round(abs(value), 1) == 0:
        return "0"
    return f"{value:+.0f}" if abs(value) >= 0.95 else f"{value:+.1g}"


def _size(gain: float) -> str:
    """Return a gain above 0 as a number of questions without a sign."""
    return _number(gain).removeprefix("+")


def _correction(best: Promise) -> str:
    """Return the reason why a gain is not sure, if only the correction stands between."""
    return f" {AFTER_CORRECTION}" if best.interval[0] > 0 else ""


def _promise(fixes: FixList) -> str:
    """Return the gain of the best change in one sentence, for any questions of the same kind."""
    best = fixes.best
    if best is None or best.change.net <= 0:
        return "no other ranking of this run finds more questions"
    name, of = printable(best.change.text), questions(fixes.of)
    text = text_words(best.change)
    if best.is_better:
        n_more = f"about {_size(best.gain)} more{text}"
        return f"{name} surely helps: of {of} questions it finds {n_more}"
    if not best.is_gain:
        return _NO_GAIN
    doubt = f"no change is surely better{_correction(best)}"
    gain = f"{_gain(best.gain, best.interval)}, of {of}{text}"
    return f"{doubt}; the largest promise is {name}: {gain}"


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
        n_more = f"finds about {_size(best.gain)} more of {questions(fixes.of)} questions"
        text = text_words(best.change)
        yield f"next: {printable(best.change.text)}{equals}: surely better, {n_more}{text}"
        yield f"  on as many new questions that is from {low} to {high}"
        yield f"  ragbench fix {printable(arguments)} --write best.yaml && ragbench run best.yaml"
        return
    if not best.is_gain:
        yield _NO_GAIN
        return
    doubt = f"no change is surely better{_correction(best)}"
    promise = f"{printable(best.change.text)}{equals}"
    of = f"of {questions(fixes.of)} questions{text_words(best.change)}"
    gain = f"{_gain(best.gain, best.interval)}, {of}"
    yield f"{doubt}; the largest promise is {promise}: {gain}"
    yield f"  ragbench fix {printable(arguments)} --write best.yaml --best writes it all the same"
