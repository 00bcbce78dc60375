"""Where answers are lost: a bar for each system, and which queries moved where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragbench.records.causes import CAUSES, AnswerCause
from ragbench.records.comparison import Comparisons
from ragbench.records.summary import Summary
from ragbench.report.pictures.svg import Drawing, Picture, slug, width_of
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
    "failed": "#1c2430",
    "unknown": "#b5bcc4",
}
_DARK = ("right", "not_in_corpus", "refused", "should_have_refused", "failed")


def causes_pictures(summary: Summary, comparisons: Comparisons) -> Iterator[Picture]:
    """Where answers are lost, a bar for each system; and which queries moved where."""
    systems = [s for s in summary.systems if s.causes]
    if not systems:
        return
    drawing, left = Drawing(), width_of([s.name for s in systems]) + 12
    wide, told = 2.2 * _PLOT, []
    occurring = [c for c in CAUSES if any(s.causes.get(c) for s in systems)]
    for row, system in enumerate(systems):
        y, x, n = 12.0 + row * 26, left, sum(system.causes.values())
        drawing.text(left - 8, y + 13, system.name, at="end")
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
            )
            if width > 22:
                drawing.count(x + 4, y + 13, count, dark=cause in _DARK)
            x += width
        parts = ", ".join(
            f"{system.causes[c]} {cause_words(c)}" for c in occurring if system.causes.get(c)
        )
        told.append(f"of {n} questions {system.name} has {parts}")
    x, y = left, 12.0 + len(systems) * 26 + 16
    for cause in occurring:
        if x > left and x + 22 + width_of([cause]) > left + wide:
            x, y = left, y + 18
        drawing.bar(x, y - 10, 12, 12, _CAUSE_COLOURS[cause], cause)
        drawing.text(x + 17, y, cause_words(cause))
        x += 34 + width_of([cause])
    yield drawing.done(
        "causes", "where answers are lost", "; ".join(told), left + wide + 20, y + 14
    )
    for flow in comparisons.causes:
        if flow.moves:
            yield _flow(
                flow.baseline,
                flow.system,
                [(m.before, m.after, len(m.queries)) for m in flow.moves],
                flow.same,
            )


def _flow(
    before: str, after: str, moves: Sequence[tuple[AnswerCause, AnswerCause, int]], same: int
) -> Picture:
    total = sum(n for *_, n in moves)
    labels = [f"{total} {cause_words(cause)}" for move in moves for cause in move[:2]]
    drawing, left = Drawing(), max(150.0, width_of([before, *labels]) + 28)
    right = left + _PLOT
    scale = 170 / total
    starts = {c: sum(n for a, _, n in moves if a == c) for c in CAUSES}
    ends = {c: sum(n for _, b, n in moves if b == c) for c in CAUSES}
    at: dict[tuple[str, AnswerCause], float] = {}
    bottom = 0.0
    for side, counts, x, anchor in (("a", starts, left, "end"), ("b", ends, right, "start")):
        y = 34.0
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
                drawing.text(
                    x - 16 if side == "a" else x + 16,
                    y + 10,
                    f"{counts[cause]} {cause_words(cause)}",
                    at=anchor,
                )
                y += tall + 6
        bottom = max(bottom, y)
    for a, b, n in sorted(moves, key=lambda move: -move[2]):
        tall, y, z = n * scale, at["a", a], at["b", b]
        at["a", a], at["b", b] = y + tall, z + tall
        said = f"{n} from {cause_words(a)} to {cause_words(b)}"
        drawing.band((left, y), (right, z), tall, _CAUSE_COLOURS[b], said)
    drawing.text(left, 16, before, at="end")
    drawing.text(right, 16, after)
    told = "; ".join(f"{n} from {cause_words(a)} to {cause_words(b)}" for a, b, n in moves)
    title = f"{before} to {after}: {total} queries changed their cause, {same} did not"
    name = f"causes-{slug(before)}-to-{slug(after)}"
    return drawing.done(
        name, title, told, right + max(170.0, width_of([after, *labels]) + 28), bottom + 10
    )
