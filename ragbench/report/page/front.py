"""Top of the page of a run, which is also the brief page: the result and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from msgspec import structs

from ragbench.data.runs.query_view import QueryView, QueryViews, in_turn
from ragbench.data.runs.run_folder import read_manifest
from ragbench.records.cause_texts import CAUSE_CHANGES, CAUSE_SAYS
from ragbench.records.causes import (
    CAUSES,
    EQUAL_TEXT,
    NOT_LOST,
    RIGHT,
    AnswerCause,
    CauseRow,
    Quantity,
    counted_cause,
)
from ragbench.records.comparison import Comparisons
from ragbench.records.fixes import FixList, PricedChange
from ragbench.records.gate import ARE_UNDECIDED, Decision
from ragbench.records.manifest import Manifest, PredictionRow
from ragbench.records.summary import Summary, SystemSummary
from ragbench.report import text as fmt
from ragbench.report.base import Layout
from ragbench.report.causes import (
    judged_scores,
    present_causes,
    unjudged_sentence,
    with_causes,
)
from ragbench.report.first_screen import main_table
from ragbench.report.fixes import listed, text_words
from ragbench.report.formats.base import Screen
from ragbench.report.headline import lead_measure, leading_systems
from ragbench.report.layout import lay_out
from ragbench.report.lowest import below_best, read_lowest, wrong_questions
from ragbench.report.pictures import CAUSE_COLOURS
from ragbench.report.table import TableCell
from ragbench.types.display import printable
from ragbench.types.lookups import index_by_name

# What one sheet of A4 holds
_SYSTEMS, _BARS, _QUESTIONS, _CHANGES, _DOUBTS, _GATES = 5, 3, 3, 3, 3, 3
# Characters of a sentence, of a question, of an answer, and of the reason of a gate
_SENTENCE, _QUESTION, _ANSWER, _REASON = 240, 160, 200, 120
# No interval is left out for want of room: the page wraps.
_WIDE = Screen(width=1000)
_START = "%Y%m%d-%H%M%S"  # beginning of the name of a run folder
# Kinds of changes that rank otherwise; the front has the best of these, and one of each other kind.
_RANKINGS = ("retriever", "reranker", "rrf", "weighted")


@dataclass(frozen=True, slots=True)
class LossPart:
    """Part of a bar of causes: `32 right`.

    Attributes:
        cause: Name of the cause.
        words: Number of questions and the cause in words.
        colour: CSS colour.
        start: Place on a bar of 100.
        width: Share of the bar of 100.
    """

    cause: AnswerCause
    words: str
    colour: str
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class LossBar:
    """Bar of the causes of a system.

    Attributes:
        system: Name of the system.
        questions: Number of its questions.
        parts: Parts of the bar, in the order of `CAUSES`.
    """

    system: str
    questions: int
    parts: tuple[LossPart, ...]


@dataclass(frozen=True, slots=True)
class LostQuestion:
    """Question that the first system lost, with its texts.

    Attributes:
        query_id: Id of the query.
        system: System that lost it.
        question: Its text, or its name without a text.
        gold: Gold answer, or the title of a gold document; empty without both.
        answer: Answer of the system; empty if it gave none, None if it gives no answers.
        cause: Cause in words, or the score of a judge.
        why: Meaning of the cause, or the reason of the judge.
    """

    query_id: str
    system: str
    question: str
    gold: str
    answer: str | None
    cause: str
    why: str


@dataclass(frozen=True, slots=True)
class Change:
    """Change that is worth trying.

    Attributes:
        text: The change, or the part to change.
        effect: Effect of the change, in one sentence.
        is_better: True if the gain is sure.
        weight: Number of questions that it may help.
    """

    text: str
    effect: str
    is_better: bool
    weight: Quantity


@dataclass(frozen=True, slots=True)
class MainNumber:
    """Score of a system by a main measure, and its difference from the baseline.

    Attributes:
        score: Mean with its interval.
        difference: Difference, `baseline`, or nothing; a sure one has the tone of its verdict.
        against: Head of the difference: `vs bm25`; empty if nothing is compared.
    """

    score: TableCell
    difference: TableCell
    against: str


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Table of two main measures.

    Attributes:
        heads: Measures in plain words.
        rows: Name of each system, and its number by each measure.
        n_systems: Number of systems with a row here, or in the whole table.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MainNumber, ...]], ...]
    n_systems: int


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Verdict of all gates of a run.

    Attributes:
        words: `The gate failed`; empty without gates.
        counts: Number of gates of each verdict: `1 failed, 2 passed`.
        tone: The verdict, which has a colour.
    """

    words: str
    counts: str
    tone: str


@dataclass(frozen=True, slots=True)
class Front:
    """Content of the top of a page.

    Attributes:
        lead: The first sentence.
        losses: A bar for each system of the sentence.
        numbers: Two main measures of at most five systems; None without scores.
        questions: At most three lost questions.
        n_lost: Number of questions that the system lost.
        outcome: Sentence that no question failed, or that answers are not judged; may be empty.
        changes: At most three changes.
        verdict: Verdict of the gates.
        gates: Gates that did not pass, at most three.
        doubts: Reasons to distrust the numbers, at most three.
        further_doubts: All other reasons, and those that are cut, in full.
        version: Date of the run, and versions of what ran.
    """

    lead: tuple[str, ...]
    verdict: GateVerdict
    losses: tuple[LossBar, ...]
    numbers: NumberTable | None
    questions: tuple[LostQuestion, ...]
    n_lost: int
    outcome: str
    changes: tuple[Change, ...]
    gates: tuple[Decision, ...]
    doubts: tuple[str, ...]
    further_doubts: tuple[str, ...]
    version: str


def build_front(
    summary: Summary,
    comparisons: Comparisons,
    page: Layout,
    views: QueryViews | None = None,
    fixes: FixList | None = None,
) -> Front:
    """Return the top of the page of one run.

    Without `views` it has no texts of questions, without `fixes` no measured changes.

    Raises:
        DataError: A file of the run folder is damaged.
    """
    measure = lead_measure(summary, comparisons)
    systems = leading_systems(measure, summary) if measure else list(summary.systems)
    # where the systems of the sentence have no causes, others may have some
    losing = with_causes(systems) or with_causes(summary.systems)
    gates = []
    for gate in page.gates:
        if gate.verdict != "pass":
            gates.append(structs.replace(gate, worst_queries=(), why=_brief_reason(gate)))
    reasons = []
    for reason in (*page.warnings, *page.doubts):
        if not reason.endswith(ARE_UNDECIDED):  # the sentence on the gates says so
            reasons.append(reason)
    doubts = [_cut(line, _SENTENCE) for line in reasons[:_DOUBTS]]
    questions, n_lost = ([], 0) if views is None else _lost_questions(views, (*systems, *losing))
    outcome = "" if views is None else _outcome(losing, n_lost)
    n_counts = 1 if page.gates else 0
    first = page.lead or next(iter(page.headlines[n_counts:]), "")
    return Front(
        lead=tuple(filter(None, (first, page.noise_sentence))),
        verdict=_gate_verdict(page),
        losses=tuple(map(_bar, losing[:_BARS])),
        numbers=_numbers(page, summary, comparisons, systems),
        questions=tuple(questions),
        n_lost=n_lost,
        outcome=outcome,
        changes=tuple(_changes(losing[:1], fixes))[:_CHANGES],
        gates=tuple(gates[:_GATES]),
        doubts=tuple(doubts),
        # a reason that is cut stands below in full
        further_doubts=tuple(reason for reason in reasons if reason not in doubts),
        version=_version(summary, views),
    )


def _brief_reason(gate: Decision) -> str:
    """Return the means of a gate, else the first parts of its reason; all stands below."""
    if gate.means is not None:
        return " -> ".join(map(fmt.significant, gate.means))
    return fmt.first_parts(gate.why, _REASON)


# Verdict of all gates: the first of these that a gate has.
_VERDICTS = {
    "fail": "The gate failed",
    "undecided": "The gate is undecided",
    "pass": "The gate passed",
}


def _gate_verdict(page: Layout) -> GateVerdict:
    """Return the verdict of the gates; empty texts without gates."""
    verdicts = {gate.verdict for gate in page.gates}
    for verdict, words in _VERDICTS.items():
        if verdict in verdicts:
            return GateVerdict(words, page.headlines[0].removeprefix("gates: "), verdict)
    return GateVerdict("", "", "")


def _numbers(
    page: Layout, summary: Summary, comparisons: Comparisons, leading: Sequence[SystemSummary]
) -> NumberTable | None:
    """Return the two main measures of at most five systems; None without scores."""
    whole = table = main_table(page, summary, _WIDE)
    systems = _choose_systems(leading, summary, comparisons)
    if len(systems) < len(summary.systems):
        short_run = structs.replace(summary, systems=tuple(systems))
        table = main_table(lay_out(short_run, comparisons), short_run, _WIDE)
    if whole is None or table is None:
        return None
    # the column of a measure may have its differences behind it
    starts = []
    for place, column in enumerate(table.columns):
        if column.breaks:
            starts.append(place)
    rows = []
    for name, *cells in table.rows:
        numbers = []
        for start in starts:
            is_compared = start + 1 < len(table.columns) and start + 1 not in starts
            difference = cells[start] if is_compared else TableCell()
            against = table.heads[start + 1] if is_compared else ""
            numbers.append(MainNumber(cells[start - 1], difference, against))
        rows.append((name.text, tuple(numbers)))
    any_passage = any(s.reading is not None and s.reading.any_passage for s in systems)
    heads = tuple(_plain_head(table.heads[start], any_passage=any_passage) for start in starts)
    return NumberTable(heads, tuple(rows), len(whole.rows))


def _plain_head(name: str, *, any_passage: bool) -> str:
    """Return the head of a column in words: `gold in the first 5 hits` for `found@5`."""
    if name == RIGHT:
        return "right answers"
    if name == EQUAL_TEXT:
        return "gold in equal text"
    k = name.rpartition("@")[2]
    if counted_cause(name) != "found" or not k.isdecimal():
        return name
    gold = "gold document" if any_passage else "gold"
    return f"{gold} in the first hit" if k == "1" else f"{gold} in the first {k} hits"


def _cut(text: str, longest: int) -> str:
    """Return a printable text of at most so many characters; a longer one ends in `...`."""
    line = " ".join(printable(text).split())
    return line if len(line) <= longest else f"{line[: longest - 3].rstrip()}..."


def _choose_systems(
    leading: Sequence[SystemSummary], summary: Summary, comparisons: Comparisons
) -> list[SystemSummary]:
    """Return at most 5 systems: those of the first sentence, then the best by its measure."""
    by_name = index_by_name(summary.systems)
    important = [*(system.name for system in leading), summary.baseline]
    important += [by_name[name].baseline for name in important if name in by_name]
    measure = lead_measure(summary, comparisons)
    ranked = [] if measure is None else _rank_systems(measure, summary)
    names = []
    for name in dict.fromkeys([*important, *ranked, *by_name]):
        if name in by_name:
            names.append(name)
    pairs = []
    for name in names:
        if by_name[name].type == "pair":
            pairs.append(name)
    names = [name for name in names if not pairs or by_name[name].type != "retriever"][:_SYSTEMS]
    names += [by_name[name].retriever or "" for name in names]
    systems = []
    for system in summary.systems:
        if system.name in names:
            systems.append(system)
    return systems


def _rank_systems(measure: str, summary: Summary) -> list[str]:
    """Return the names of the systems with a mean of a measure, the best first, then controls."""
    keys = {}
    for system in summary.systems:
        score = system.score(measure)
        if score is not None and score.mean is not None:
            mean = score.mean if score.direction == "lower" else -score.mean
            keys[system.name] = (system.role == "control", mean)
    return sorted(keys, key=keys.__getitem__)


def _bar(system: SystemSummary) -> LossBar:
    """Return the bar of the causes of a system that has some."""
    n, start, parts = fmt.total_of(system.causes), 0.0, []
    for cause in CAUSES:
        if count := system.causes.get(cause):
            width = 100 * count / n
            words = f"{fmt.questions(count)} {fmt.cause_words(cause)}"
            parts.append(LossPart(cause, words, CAUSE_COLOURS[cause], start, width))
            start += width
    return LossBar(system.name, n, tuple(parts))


def _lost_questions(
    views: QueryViews, systems: Sequence[SystemSummary]
) -> tuple[list[LostQuestion], int]:
    """Return three lost questions of the first system that has some, and the number of all."""
    judged = judged_scores(views.summary.systems)
    for system in systems:
        score = judged.get(system.name)
        lost = _by_cause(views, system) if score is None else _lowest(views, system, score)
        if lost[1]:
            return lost
    return [], 0


def _outcome(systems: Sequence[SystemSummary], n_lost: int) -> str:
    """Return a sentence: no question failed, or answers of the first system have no verdict."""
    parts = [] if n_lost or not systems else ["no question failed"]
    parts += filter(None, map(unjudged_sentence, systems[:1]))
    return _capital("; ".join(parts))


def _by_cause(views: QueryViews, system: SystemSummary) -> tuple[list[LostQuestion], int]:
    """Return three questions, of the largest causes first, and the number of all lost ones."""
    if not present_causes([system]):
        return [], 0
    groups: dict[AnswerCause, list[CauseRow]] = {}
    wrong = wrong_questions(views, system)
    for row in views.causes.get(system.name, {}).values():
        # an answer of unknown cause may have been judged as wrong, or not at all
        if row.cause not in NOT_LOST and (row.cause != "unknown" or row.query_id in wrong):
            groups.setdefault(row.cause, []).append(row)
    n_lost = sum(map(len, groups.values()))
    # nothing is known about a question of unknown cause
    unknown = groups.pop("unknown", [])
    rows = [*in_turn(groups.values()), *unknown]
    return [_lost_question(views, row) for row in rows[:_QUESTIONS]], n_lost


def _lost_question(views: QueryViews, row: CauseRow) -> LostQuestion:
    """Return a lost question with its texts."""
    why = CAUSE_SAYS[row.cause].partition(": ")[2]
    number = row.sample or 0
    return _with_texts(views[row.query_id], row.system, fmt.cause_words(row.cause), why, number)


def _lowest(views: QueryViews, system: SystemSummary, score: str) -> tuple[list[LostQuestion], int]:
    """Return three questions with the lowest scores of a judge, and the number below the best."""
    answers = below_best(system, score, read_lowest(views, {system.name: score}))
    questions = []
    for answer in answers[:_QUESTIONS]:
        value = f"{printable(score)} {fmt.significant(answer.score)}"
        view = views[answer.query_id]
        questions.append(_with_texts(view, system.name, value, _cut(answer.reason, _ANSWER)))
    return questions, len(answers)


def _with_texts(
    view: QueryView, system: str, cause: str, why: str, number: int = 0
) -> LostQuestion:
    """Return a lost question with the texts of its view; `number` is that of the answer."""
    golds = view.answers or [document.title or document.id for document in view.gold]
    of_system = view.system(system)
    answers = () if of_system is None else of_system.answers
    text = None
    for answer in islice(answers, number % max(len(answers), 1), None):
        text = (answer.answer or "") if isinstance(answer, PredictionRow) else ""
        break
    return LostQuestion(
        query_id=view.id,
        system=system,
        question=_cut(view.question or view.label, _QUESTION),
        gold=_cut(golds[0], _ANSWER) if golds else "",
        answer=None if text is None else _cut(text, _ANSWER),
        cause=cause,
        why=why,
    )


def _changes(systems: Sequence[SystemSummary], fixes: FixList | None) -> list[Change]:
    """Return changes of the first system: sure ones first, then by the questions that they help."""
    changes = list[Change]()
    for system in systems:
        changes += () if fixes is None else _measured_changes(fixes, system)
        changes += _parts_to_change(system.causes)
    # a sort keeps the order of equals
    return sorted(changes, key=lambda change: (not change.is_better, -change.weight))


def _measured_changes(fixes: FixList, system: SystemSummary) -> Iterator[Change]:
    """Yield the best change of each kind that stored rankings can price."""
    ranking, kinds = system.ranking_of or system.name, set[str]()
    place = "" if fixes.system == ranking else f"in {fixes.system}, "
    for change in listed(fixes.changes, fixes.read):
        kind = "ranking" if change.kind in _RANKINGS else change.kind
        if change.is_bound or change.net <= 0 or kind in kinds or change.retriever == ranking:
            continue
        kinds.add(kind)
        # more passages only rescue: that their gain is above 0 tells nothing
        is_better = change.is_better and change.kind != "passages"
        effect = _effect(change, fixes, is_better=is_better)
        yield Change(_capital(f"{place}{change.text}"), effect, is_better, change.net)


def _effect(change: PricedChange, fixes: FixList, *, is_better: bool) -> str:
    """Return the effect of a change: `finds 64 of 70 questions in place of 57: surely better`."""
    numbers = f"{fmt.questions(change.found)} of {fmt.questions(change.of)} questions"
    if change.kind == "refusal":
        return f"{fmt.questions(change.net)} more of {fmt.questions(change.of)} end as they should"
    text = f"finds {numbers} in place of {fmt.questions(fixes.found)}"
    if change.kind == "passages":
        tokens = "" if change.tokens is None else f", some {change.tokens:,.0f} tokens"
        return f"{text}; sends {change.further:.0f} more passages a question{tokens}"
    verdict = "surely better" if is_better else "no difference shown"
    return f"{text}: {verdict}{text_words(change)}"


def _parts_to_change(causes: Mapping[AnswerCause, Quantity]) -> Iterator[Change]:
    """Yield the parts whose change may help lost questions, with the causes of these."""
    parts: dict[str, list[AnswerCause]] = {}
    for cause in CAUSES:
        if causes.get(cause) and (part := CAUSE_CHANGES.get(cause)):
            parts.setdefault(part, []).append(cause)
    for part, of_part in parts.items():
        counts = [f"{fmt.questions(causes[c])} {fmt.cause_words(c)}" for c in of_part]
        n = sum(causes[cause] for cause in of_part)
        words = fmt.listed(counts) if len(counts) > 1 else fmt.cause_words(of_part[0])
        questions = "question" if n == 1 else "questions"
        effect = f"may help up to {fmt.questions(n)} {questions} ({words})"
        yield Change(_capital(fmt.action_words(part)), effect, False, n)


def _capital(text: str) -> str:
    """Return a printable text with a capital letter first."""
    line = printable(text)
    return line[:1].upper() + line[1:]


def _version(summary: Summary, views: QueryViews | None) -> str:
    """Return the date of a run and the versions of what ran; '' if neither is known."""
    parts = []
    with suppress(ValueError):
        started = datetime.strptime(summary.run_id[:15], _START)
        parts.append(f"{started.day} {started:%B %Y, %H:%M} UTC")
    # a folder of another program may have no manifest
    if views is not None and (views.folder / "manifest.json").is_file():
        parts += _versions(read_manifest(views.folder))
    models: dict[str, None] = {}
    for system in summary.systems:
        for judging in system.judging.values():
            models |= dict.fromkeys(judging.models)
    parts += [f"judged by {fmt.listed([*models])}"] if models else []
    return printable("; ".join(parts))


def _versions(manifest: Manifest) -> Iterator[str]:
    """Yield the versions of the program, of components, and of the user's code."""
    if manifest.ragbench:
        yield f"ragbench {manifest.ragbench}"
    for component, version in manifest.versions.items():
        yield f"{component} {version}"
    if manifest.commit:
        yield f"commit {manifest.commit[:8]}"
