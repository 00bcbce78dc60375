"""Where answers are lost: a bar for each system, and which queries moved where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.records.causes import CAUSES, AnswerCause
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.pictures.svg import MARGIN, NARROW, Drawing, Picture, Rows, slug, width_of
from ragbench.report.text import cause_words

_PLOT = 230.0
_CAUSE_COLOURS: Mapping[AnswerCause, str] = {
    "right": "#009e73",
    "not_in_corpus": "#666666",
    "not_retrieved": "#d55e00",
    "ranked_too_low": "#e69f00",
    "not_used": "#56b4e9",
    "unsupported": "#cc79a7",
    "refused": "#7a5195",
    "should_have_refused": "#0072b2",
    "failed": "currentColor",  # the darkest on a light page, and the lightest on a dark one
    "unknown": "#b5bcc4",
}
_ON: Mapping[str, str] = {
    "failed": "text",
    **dict.fromkeys(("right", "not_in_corpus", "refused", "should_have_refused"), "dark"),
}
"""What numbers stand on, where it is not light."""


def causes_pictures(
    summary: Summary, comparisons: Comparisons, narrow: bool = False
) -> Iterator[Picture]:
    """Where answers are lost, a bar for each system; and which queries moved where."""
    systems = [s for s in summary.systems if s.causes]
    if not systems:
        return
    drawing, rows = Drawing(), Rows([s.name for s in systems], narrow, 26)
    left, wide, told = rows.left, rows.right(2.2 * _PLOT) - rows.left, []
    occurring = [c for c in CAUSES if any(s.causes.get(c) for s in systems)]
    for row, system in enumerate(systems):
        y, x, n = rows.place(drawing, 8, row) - 9, left, sum(system.causes.values())
        for cause in occurring:
            count = system.causes.get(cause, 0)
            if not count:
                continue
            width = wide * count / n
            drawing.bar(
                x,
                y,
                width - 1,
                18,
                _CAUSE_COLOURS[cause],
                f"{system.name}: {count} of {n} {cause_words(cause)}",
                system=system.name,
                cause=cause,
            )
            if width > 22:
                drawing.count(x + 4, y + 13, count, _ON.get(cause, "light"))
            x += width
        parts = ", ".join(
            f"{system.causes[c]} {cause_words(c)}" for c in occurring if system.causes.get(c)
        )
        told.append(f"of {n} questions {system.name} has {parts}")
    x, y = left, rows.bottom(8) + 20
    for cause in occurring:
        if x > left and x + 22 + width_of([cause]) > left + wide:
            x, y = left, y + 18
        drawing.bar(x, y - 10, 12, 12, _CAUSE_COLOURS[cause], cause)
        drawing.text(x + 17, y, cause_words(cause))
        x += 34 + width_of([cause])
    yield drawing.done(
        "causes", "where answers are lost", "; ".join(told), left + wide + MARGIN, y + 14
    )
    for flow in comparisons.causes:
        if flow.moves:
            yield _flow(
                flow.baseline,
                flow.system,
                [(m.before, m.after, len(m.queries)) for m in flow.moves],
                flow.same,
                narrow,
            )


def _flow(
    before: str,
    after: str,
    moves: Sequence[tuple[AnswerCause, AnswerCause, int]],
    same: int,
    narrow: bool,
) -> Picture:
    total = sum(n for *_, n in moves)
    labels = [f"{total} {cause_words(cause)}" for move in moves for cause in move[:2]]
    drawing, left = Drawing(), max(150.0, width_of([before, *labels]) + 28)
    right = left + _PLOT
    inside, ends_of_names = 16, ("end", "start")
    if narrow:  # the words stand on the bands
        left, right, inside, ends_of_names = MARGIN, NARROW - MARGIN, -6, ("start", "end")
    scale = 170 / total
    starts = {c: sum(n for a, _, n in moves if a == c) for c in CAUSES}
    ends = {c: sum(n for _, b, n in moves if b == c) for c in CAUSES}
    at: dict[tuple[str, AnswerCause], float] = {}
    bottom = 0.0
    top = 50.0 if narrow else 34.0
    words = [(left, 16.0, before, ends_of_names[0]), (right, top - 18, after, ends_of_names[1])]
    sides = zip("ab", (starts, ends), (left, right), ends_of_names, strict=True)
    for side, counts, x, anchor in sides:
        y = top
        for cause in CAUSES:
            if counts[cause]:
                tall = max(counts[cause] * scale, 14.0)
                at[side, cause] = y
                drawing.bar(
                    x - (10 if side == "a" else 0),
                    y,
                    10,
                    counts[cause] * scale,
                    _CAUSE_COLOURS[cause],
                    cause,
                )
                at_x = x - inside if side == "a" else x + inside
                words.append((at_x, y + 10, f"{counts[cause]} {cause_words(cause)}", anchor))
                y += tall + 6
        bottom = max(bottom, y)
    for a, b, n in sorted(moves, key=lambda move: -move[2]):
        tall, y, z = n * scale, at["a", a], at["b", b]
        at["a", a], at["b", b] = y + tall, z + tall
        said = f"{n} from {cause_words(a)} to {cause_words(b)}"
        drawing.band((left, y), (right, z), tall, _CAUSE_COLOURS[b], said)
    for at_x, y, text, anchor in words:  # over the bands, not below them
        drawing.text(at_x, y, text, at=anchor)
    told = "; ".join(f"{n} from {cause_words(a)} to {cause_words(b)}" for a, b, n in moves)
    title = f"{before} to {after}: {total} queries changed their cause, {same} did not"
    name = f"causes-{slug(before)}-to-{slug(after)}"
    beyond = MARGIN if narrow else max(170.0, width_of([after, *labels]) + 28)
    return drawing.done(name, title, told, right + beyond, bottom + 10)
