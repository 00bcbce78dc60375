"""Pictures of a run: causes, scores, and differences, also by slice.

Pictures of scores and differences have a row with an interval for each system. A picture is drawn
once and scales with the page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ragbench.errors import OptionError
from ragbench.pictures import svg
from ragbench.pictures.intervals import Whisker, interval_picture
from ragbench.records.causes import AnswerCause
from ragbench.records.comparison import ComparedRuns, Comparisons
from ragbench.records.summary import Summary
from ragbench.registry import nearest
from ragbench.report.causes import present_causes, with_causes
from ragbench.report.headline import outcome_of
from ragbench.report.text import cause_words, ends_of, questions, significant, total_of
from ragbench.report.trend_pictures import trend_pictures

# numbers of series: a green triangle, an orange square, a grey diamond
_BETTER, _WORSE, _NEITHER = 2, 1, 7
# Colour of each cause in pictures and bars.
CAUSE_COLOURS: Mapping[AnswerCause, str] = {
    "right": "#009e73",
    "found": "#009e73",
    "read_forbidden": "#8c1c13",
    "not_in_corpus": "#666666",
    "not_retrieved": "#d55e00",
    "ranked_too_low": "#e69f00",
    "wrong_passage": "#f0e442",
    "not_used": "#56b4e9",
    "unsupported": "#cc79a7",
    "refused": "#7a5195",
    "should_have_refused": "#0072b2",
    "failed": "currentColor",  # black on a light page, white on a dark one
    "unknown": "#b5bcc4",
}
# shade of the bar of a cause, for the colour of a number on it; all other bars are light
_SHADES: Mapping[str, str] = {
    "failed": "text",
    **dict.fromkeys(("right", "found", "read_forbidden", "not_in_corpus"), "dark"),
    **dict.fromkeys(("refused", "should_have_refused"), "dark"),
}


def pictures(
    summary: Summary, comparisons: Comparisons, scores: Mapping[str, Sequence[svg.Picture]]
) -> list[svg.Picture]:
    """Return all pictures that the results of a run have data for: causes, trends, scores, slices.

    `scores` are those of `score_pictures`.
    """
    causes = causes_picture(summary)
    return [
        *([causes] if causes is not None else ()),
        *(trend_pictures(comparisons) if isinstance(comparisons, ComparedRuns) else ()),
        *chain.from_iterable(scores.values()),
        *slice_pictures(comparisons),
    ]


def score_pictures(summary: Summary, comparisons: Comparisons) -> dict[str, list[svg.Picture]]:
    """Return measure -> its pictures: of the means, and of the paired differences.

    A measure without any mean has no picture of the means. A measure without differences, as with
    a single system, has no picture of the differences.
    """
    means, differences = mean_pictures(summary, comparisons), difference_pictures(comparisons)
    pictures = {}
    for measure in summary.score_names():
        pictures[measure] = [of[measure] for of in (means, differences) if measure in of]
    return pictures


def mean_pictures(summary: Summary, comparisons: Comparisons) -> dict[str, svg.Picture]:
    """Return measure -> picture of the means of the systems; measures without means are absent."""
    families = comparisons.by_measure()
    pictures = {}
    # the number keeps file names distinct: `slug` may map two names to one
    for number, measure in enumerate(summary.score_names()):
        best = families[measure].sure_best if measure in families else None
        scores = []
        for s in summary.systems:
            if measure in s.scores:
                scores.append((s.name, s.scores[measure]))
        whiskers = []
        for name, score in scores:
            if score.mean is not None:
                ends, text = ends_of(score.interval), f"{name} {significant(score.mean)}"
                colour = _BETTER if name == best and len(scores) > 1 else 0
                whiskers.append(Whisker(name, score.mean, ends, colour, text))
        if whiskers:
            lower = " (lower is better)" if scores[0][1].direction == "lower" else ""
            has_best = len(whiskers) > 1 and any(w.name == best for w in whiskers)
            head = measure + ("; triangle: surely the best" if has_best else "")
            file = f"intervals-{number:02}-{svg.slug(measure)}"
            pictures[measure] = interval_picture(file, f"{measure}{lower}", head, whiskers)
    return pictures


def difference_pictures(comparisons: Comparisons) -> dict[str, svg.Picture]:
    """Return measure -> picture of the paired differences from the baselines.

    Measures without differences are absent.
    """
    pictures = {}
    for number, family in enumerate(comparisons.measures):
        whiskers = []
        for row in family.comparisons:
            if row.difference is not None:
                outcome, ends = outcome_of(row, family.direction), ends_of(row.interval)
                colour = {"better": _BETTER, "worse": _WORSE}.get(outcome, _NEITHER)
                text = f"{row.system} {row.difference:+.3g} against {row.baseline}"
                whiskers.append(Whisker(row.system, row.difference, ends, colour, text))
        if whiskers:
            file = f"differences-{number:02}-{svg.slug(family.measure)}"
            title = f"{family.measure}: difference from the baseline"
            head = f"{family.measure}, minus the baseline"
            pictures[family.measure] = interval_picture(file, title, head, whiskers, zero=True)
    return pictures


def picture_of(pictures: Mapping[str, svg.Picture], measure: str | None) -> svg.Picture:
    """Return the picture of a measure, or with None the first one.

    Raises:
        OptionError: There is no such picture.
    """
    if measure is None and pictures:
        return next(iter(pictures.values()))
    if measure is None or measure not in pictures:
        allowed = ", ".join(pictures) or "a result with such scores"
        raise OptionError("plot", "measure", measure, allowed, nearest(str(measure), pictures))
    return pictures[measure]


def slice_pictures(comparisons: Comparisons) -> Iterator[svg.Picture]:
    """Yield a picture of the paired differences by slice for each field and measure."""
    groups = defaultdict[tuple[str, str], list[Whisker]](list)
    for row in comparisons.slices:
        if row.difference is not None:
            name = f"{row.slice}: {row.system}"
            colour = _WORSE if row.worse else _NEITHER
            label = f"{name} {row.difference:+.3g} over {row.n} queries"
            whisker = Whisker(name, row.difference, ends_of(row.interval), colour, label)
            groups[row.field, row.measure].append(whisker)
    for (name, measure), whiskers in groups.items():
        title = f"{measure} by {name}: difference from the baseline"
        file = f"slices-{svg.slug(name)}-{svg.slug(measure)}"
        yield interval_picture(file, title, f"{measure}, minus the baseline", whiskers, zero=True)


def causes_picture(summary: Summary) -> svg.Picture | None:
    """Return a picture of the causes, a bar for each system; None without known causes."""
    systems = with_causes(summary.systems)
    if not systems:
        return None
    drawing, plot = svg.Drawing(), 1.5 * svg.PLOT
    x0, height = svg.width_of([system.name for system in systems]) + 12, 26.0
    present = present_causes(systems)
    words = []
    for row, system in enumerate(systems):
        x, y, n = x0, 8 + height * row, total_of(system.causes)
        drawing.text(x0 - 8, y + 17, system.name, anchor="end")
        counts = []
        for cause in present:
            if system.causes.get(cause):
                counts.append((cause, system.causes[cause]))
        for cause, count in counts:
            width = plot * count / n
            label = f"{system.name}: {questions(count)} of {n} {cause_words(cause)}"
            colour = CAUSE_COLOURS[cause]
            drawing.bar(x, y + 4, width - 1, 18, colour, label, system=system.name, cause=cause)
            if width > 22:  # a narrower bar has no room for its count
                drawing.count(x + 4, y + 17, questions(count), _SHADES.get(cause, "light"))
            x += width
        parts = ", ".join(f"{questions(count)} {cause_words(cause)}" for cause, count in counts)
        words.append(f"of {n} questions {system.name} has {parts}")
    x, y = x0, 28 + height * len(systems)
    for cause in present:
        if x > x0 and x + 22 + svg.width_of([cause]) > x0 + plot:
            x, y = x0, y + 18
        drawing.bar(x, y - 10, 12, 12, CAUSE_COLOURS[cause], cause)
        drawing.text(x + 17, y, cause_words(cause))
        x += 34 + svg.width_of([cause])
    title = "where answers are lost"
    return drawing.done("causes", title, "; ".join(words), x0 + plot + svg.MARGIN, y + 14)
