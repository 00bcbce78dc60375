"""Fix list as text for the terminal, and as a chapter of the page of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.records.fixes import FixList, PricedChange
from ragbench.report.base import Chapter, Grid
from ragbench.report.fix_sections import contract_lines, group_lines, section_grids
from ragbench.report.text import draw
from ragbench.types.display import printable

_HEADS = ("change", "rescued", "lost", "right", "what to expect")
_FUSIONS = 3  # that are listed, the best ones
_LISTED = 10  # ids in the terminal
_ROWS = 200  # questions on the page


def fix_lines(
    fixes: FixList, arguments: str, width: int = 100, *, brief: bool = False
) -> Iterator[str]:
    """Yield the lines of a fix list; a brief one has the changes and the next step alone.

    `arguments` are those of `ragbench fix`, as the user wrote them.
    """
    yield f"{_headline(fixes)}; what stored results say about the other {fixes.of - fixes.right}:"
    rows = [_cells(change, fixes) for change in listed(fixes.changes, fixes.read)]
    cells = [
        (f"  {text}", f"{rescued} {lost}", right, words)
        for text, rescued, lost, right, words in rows
    ]
    yield from draw(list(zip(*cells, strict=True)), width) if cells else ()
    for loss in () if brief else fixes.remaining:
        yield ""
        n = len(loss.queries)
        yield f"{printable(loss.system)}: {n} {loss.reason}; only {loss.advice} can help"
        names = [printable(fixes.labels.get(query, query)) for query in loss.queries[:_LISTED]]
        yield f"  {', '.join(names)}{', ...' if n > _LISTED else ''}"
    if not brief:
        yield from group_lines(fixes)
        yield from contract_lines(fixes, width)
    for note in () if brief else fixes.notes:
        yield f"note: {printable(note)}"
    yield ""
    yield from _next_steps(fixes, arguments)


def listed(changes: Sequence[PricedChange], read: int) -> list[PricedChange]:
    """Return the changes that are worth a line, in their order.

    They gain a question, or read less and lose none. Of fusions the best three; of passages and
    perfect rerankers the fewest with as many right questions. `read` is the number of passages now.
    """
    lines: list[PricedChange] = []
    n_fusions = 0
    # Cheap ones first among equals: the later, dearer ones then find an equal line and are left
    # out.
    for change in sorted(changes, key=lambda change: (-change.net, change.reach, change.passages)):
        n_fusions += change.fusion is not None
        is_cheaper = any((c.kind, c.right) == (change.kind, change.right) for c in lines)
        is_listed = change.net > 0 or (
            change.kind == "passages" and change.passages < read and not change.lost
        )
        if change.fusion is not None:
            is_listed &= n_fusions <= _FUSIONS
        elif change.kind in ("passages", "perfect_reranker"):
            is_listed &= not is_cheaper
        if is_listed:
            lines.append(change)
    return lines


def fix_chapter(fixes: FixList) -> Chapter:
    """Return the chapter of a fix list: changes, and the first 200 questions that they move."""
    changes = listed(fixes.changes, fixes.read)
    cells = tuple(_cells(change, fixes) for change in changes)
    grids = [Grid("changes", _HEADS, cells, words=True)] if cells else []
    rescues, losses = dict[str, list[str]](), dict[str, list[str]]()
    # A bound has the questions that some reranker could rescue, and no stored one does.
    for change in (change for change in changes if not change.is_bound):
        for names, queries in ((rescues, change.rescued), (losses, change.lost)):
            for query in queries:
                names.setdefault(query, []).append(printable(change.text))
    rows = [
        (printable(query), "; ".join(rescues.get(query, ())), "; ".join(losses.get(query, ())))
        for query in {**rescues, **losses}
    ]
    if rows:
        heads = ("question", "rescued by", "lost by")
        table = tuple(rows[:_ROWS])
        grids.append(Grid("questions", heads, table, words=True, has_queries=True))
    remaining = tuple(
        (printable(loss.system), loss.reason, loss.advice, str(len(loss.queries)))
        for loss in fixes.remaining
    )
    if remaining:
        loss_heads = ("system", "reason", "what can help", "questions")
        grids.append(Grid("no change of the ranking helps", loss_heads, remaining, words=True))
    grids += section_grids(fixes)
    return Chapter(
        "what to change",
        (_headline(fixes), *_next_steps(fixes, "RUN")),
        tuple(map(printable, fixes.notes)),
        tuple(grids),
    )


def _headline(fixes: FixList) -> str:
    """Return the number of right questions: `bm25 finds 57 of 70 at 5`."""
    return f"{printable(fixes.system)} finds {fixes.right} of {fixes.of} at {fixes.read}"


def _cells(change: PricedChange, fixes: FixList) -> tuple[str, str, str, str, str]:
    """Return the cells of a change, under `_HEADS`."""
    right = f"{change.right} of {change.of}"
    rescued, lost = f"+{len(change.rescued)}", f"-{len(change.lost)}"
    if change.is_bound:
        return printable(change.text), rescued, lost, f"at most {right}", "a bound, not a promise"
    words = []
    # More passages only rescue and fewer only lose: a test that the gain is not 0 tells nothing.
    if change.kind != "passages":
        is_better = "better" if change.is_better else "not shown to be better"
        words.append(f"{is_better}: {_gain(change.gain, change.interval)}")
    words += [
        f"{printable(answers.generator)}: {_gain(answers.gain, answers.interval)} right answers"
        for answers in change.answers
    ]
    if change.kind in ("near_duplicates", "neighbours", "refusal"):
        words.append("in your code")
    further = change.passages - fixes.read
    if further:
        tokens = "" if change.tokens is None else f": about {change.tokens:+,.0f} tokens"
        words.append(f"{further:+d} passages a question{tokens}")
    # Less than a millisecond is noise of the timer.
    if change.latency_ms is not None and abs(change.latency_ms) >= 1:
        words.append(f"{change.latency_ms:+.0f} ms")
    return printable(change.text), rescued, lost, right, "; ".join(words)


def _gain(gain: float, ends: tuple[float, float]) -> str:
    """Return a gain with its interval, in questions: `+3 [-1, +7]`."""
    return f"{_number(gain)} [{_number(ends[0])}, {_number(ends[1])}]"


def _number(value: float) -> str:
    """Return a number of questions with its sign and at most one digit."""
    text = f"{value:+.1f}"
    return text.removesuffix(".0")


def _next_steps(fixes: FixList, arguments: str) -> Iterator[str]:
    """Yield the best change, its gain after the choice, and the commands that write it."""
    best = fixes.best
    if best is None or best.change.net <= 0:
        yield "no other ranking here gains a question: `--write best.yaml` would write nothing"
        return
    ties = len(best.ties)
    equals = f" ({ties} more change{'s' if ties > 1 else ''} with as many)" if ties else ""
    confirmed = f"{_gain(best.gain, best.interval)} after the choice among all changes"
    if best.is_better:
        low, high = map(_number, best.untouched)
        yield f"next: {printable(best.change.text)}{equals}"
        yield f"surely better: {confirmed}; on {fixes.of} other questions {low} to {high}"
        yield f"  ragbench fix {printable(arguments)} --write best.yaml && ragbench run best.yaml"
        return
    promise = f"{printable(best.change.text)}{equals}"
    yield f"nothing here is surely better; the largest promise: {promise}"
    yield f"not shown to be better: {confirmed}; `--write best.yaml` would write nothing,"
    yield "  `--write best.yaml --best` writes it all the same"
