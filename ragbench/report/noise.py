"""Noise of repeated systems as one sentence, and as a chapter of the page of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ragbench.data.runs.query_view import QueryViews
from ragbench.records.causes import RIGHT
from ragbench.records.comparison import Comparisons
from ragbench.records.manifest import PredictionRow
from ragbench.records.noise import Noise, NoiseShare
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report import text as fmt
from ragbench.report.base import Chapter
from ragbench.report.headline import leading_systems
from ragbench.report.table import Table, word_table
from ragbench.types.display import printable

# Function of a query and a system that returns the text of each answer, None for a failed one.
AnswerTexts = Callable[[str, str], Sequence[str | None]]
_LONGEST_ANSWER = 80  # characters of an answer in a table

# Source of noise -> its words after the half width that it makes.
_SOURCES = {"questions": "the questions", "app": "your app", "judge": "the judge"}
_SHARES = ("questions", "app", "retrieval", "answers", "judge")


def noise_sentence(measure: str | None, summary: Summary) -> str:
    """Return the noise of the first repeated system by a measure; empty without one.

    Where the measure was not repeated, a score of a repeated judge stands for it.

    With failures it has the bounds of the mean, and the interval is that of the other answers.

    Example: right of app has an interval of +-0.05: 0.04 from the questions, 0.03 from your app
        (squares add up); 13 of 80 questions flip
    """
    leading = _leading_noise(measure, summary)
    if leading is None:
        return ""
    name, score, noise = leading
    system = summary.system(name)
    result = None if system is None else system.score(score)
    bounds = "" if result is None else fmt.bounds_words(result)
    subject, width = f"{printable(score)} of {printable(name)}", _split_half_width(noise)
    if not bounds:
        return f"{subject} has an interval of {width}{flip_words(noise)}"
    scored = f"; without failures {width}" if _varies(noise) else ""
    return f"{subject}: {bounds}{scored}{flip_words(noise)}"


def purchase_sentence(measure: str | None, summary: Summary) -> str:
    """Return the purchases of an equal sum for the system of `noise_sentence`; empty without any.

    Such as `twice the cost leaves +-0.04 with 2 x the questions, +-0.05 with 2 x the app`.
    """
    leading = _leading_noise(measure, summary)
    if leading is None or not _varies(leading[2]):
        return ""
    purchases = []
    for buy in leading[2].buy:
        width = fmt.significant(buy.half_width)
        purchases.append(f"+-{width} with {buy.times:.3g} x the {buy.level}")
    return f"twice the cost leaves {', '.join(purchases)}" if len(purchases) > 1 else ""


def _leading_noise(measure: str | None, summary: Summary) -> tuple[str, str, Noise] | None:
    """Return name, score and noise of the first system by a measure; None without a half width."""
    judged = None  # in place of the measure: the first score of a repeated judge
    for system in () if measure is None else leading_systems(measure, summary):
        for score, noise in system.noise.items():
            if noise.half_width is None:
                continue
            if score == measure:
                return system.name, score, noise
            if noise.judge is not None and judged is None:
                judged = system.name, score, noise
    return judged


def _split_half_width(noise: Noise) -> str:
    """Return the half width of the interval, and the part of each source."""
    half = noise.half_width or 0.0
    digits = 2 if half >= 0.02 else 3
    if not _varies(noise):
        return f"+-{half:.{digits}f}: no score varies"
    parts = []
    # parts are half widths too, whose squares add up
    for name, words in _SOURCES.items():
        share: NoiseShare | None = getattr(noise, name)
        if share is not None:
            parts.append(f"{half * share.share**0.5:.{digits}f} from {words}")
    return f"+-{half:.{digits}f}: {', '.join(parts)} (squares add up)"


def flip_words(noise: Noise) -> str:
    """Return the numbers of questions that flip, and that fail at times, with a leading `; `.

    The text is empty if repetitions are neither right nor wrong, and none of them failed.
    """
    n, parts = noise.n, []
    if noise.flips_by is not None:
        source = "" if noise.flips_by == "app" else f" ({noise.flips_by})"
        parts.append(f"{len(noise.flipping)} of {fmt.counted(n, 'questions')} flip{source}")
    if n_failed := noise.n_partly_failed:
        of = "" if parts else f" of {fmt.counted(n, 'questions')}"
        parts.append(f"{n_failed}{of} fail in some repeats")
    return f"; {', '.join(parts)}" if parts else ""


def noise_chapter(
    summary: Summary, comparisons: Comparisons, answers: AnswerTexts | None = None
) -> Chapter | None:
    """Return the chapter on the noise of repeated systems; None if no system was repeated.

    `answers` is that of `flip_table`.
    """
    rows = []
    for system in summary.systems:
        for score, noise in system.noise.items():
            if _varies(noise):
                rows.append((printable(system.name), printable(score), *_cells(noise)))
    if not any(system.noise for system in summary.systems):
        return None
    for family in comparisons.measures:
        for row in family.comparisons:
            if row.noise is not None and _varies(row.noise):
                pair = f"{printable(row.system)} - {printable(row.baseline)}"
                rows.append((pair, family.measure, *_cells(row.noise)))
    caption = "share of each source in the variance of the mean, or of the mean difference; "
    caption += "+-: half the width of its interval"
    heads = ("system", "score", "+-", *_SHARES, "an equal sum again leaves")
    tables = [word_table(heads, rows, caption)] if rows else []
    if (flips := flip_table(summary.systems, answers)) is not None:
        tables.append(flips)
    labels = () if rows else ("no score varies between questions or repetitions",)
    return Chapter("noise of questions, app and judge", (), labels, tuple(tables))


def _varies(noise: Noise) -> bool:
    """Return True if the score varies between questions, or between repetitions of one."""
    shares = (noise.questions, noise.app, noise.judge)
    return any(share is not None and share.share > 0 for share in shares)


def _cells(noise: Noise) -> tuple[str, ...]:
    """Return the half width, the shares of the noise and the purchases as texts."""
    cells = ["-" if noise.half_width is None else fmt.significant(noise.half_width)]
    for name in _SHARES:
        of: NoiseShare | None = getattr(noise, name)
        cells.append("-" if of is None else f"{of.share:.0%} [{of.low:.0%}, {of.high:.0%}]")
    purchases = []
    for buy in noise.buy:
        purchases.append(f"{buy.times:.3g} x {buy.level}: +-{fmt.significant(buy.half_width)}")
    return (*cells, "; ".join(purchases) or "-")


def answer_texts(views: QueryViews) -> AnswerTexts:
    """Return a function that reads the answers of a system to a query; None for a failed one."""

    def texts(query: str, system: str) -> list[str | None]:
        view = views[query].system(system)
        answers = () if view is None else view.answers
        return [a.answer if isinstance(a, PredictionRow) else None for a in answers]

    return texts


def flip_table(
    systems: Sequence[SystemSummary],
    answers: AnswerTexts | None = None,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> Table | None:
    """Return the flipping questions of some systems, each with a right and a wrong repetition.

    `right` decides, or else the first score by which questions flip. `answers` adds the two
    answers. Without a flipping question there is no table.

    Args:
        systems: Systems with their noise.
        answers: Function of a query and a system that returns the text of each answer.
        labels: Query id -> its name for a reader; a missing one has its id.
    """
    rows = []
    for system in systems:
        name = _flipping_score(system)
        for flip in () if name is None else system.noise[name].flipping:
            texts = [] if answers is None else list(answers(flip.query_id, system.name))
            passed, failed = _repeat_text(flip.passed, texts), _repeat_text(flip.failed, texts)
            question = printable(labels.get(flip.query_id, flip.query_id))
            facts = (printable(system.name), printable(name or ""), f"{flip.pass_rate:.0%}")
            rows.append((question, *facts, passed, failed))
    columns = ("question", "system", "score", "pass rate", "right", "wrong")
    caption = "questions that flip; `ragbench show RUN QUESTION` prints all their answers"
    return word_table(columns, rows, caption, has_queries=True) if rows else None


def _repeat_text(number: int, texts: Sequence[str | None]) -> str:
    """Return the number of a repetition with its answer, if that is known."""
    text = texts[number] if number < len(texts) else None
    if text is None:
        return f"repeat {number + 1}"
    line = " ".join(printable(text).split())
    line = line if len(line) <= _LONGEST_ANSWER else f"{line[: _LONGEST_ANSWER - 3]}..."
    return f"repeat {number + 1}: {line}"


def _flipping_score(system: SystemSummary) -> str | None:
    """Return `right` if questions flip by it, else the first such score."""
    names = [name for name, noise in system.noise.items() if noise.flipping]
    return RIGHT if RIGHT in names else next(iter(names), None)
