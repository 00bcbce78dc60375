"""Report of `ragbench gate`: the verdict for a reviewer first, then questions, causes and gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import structs

from ragbench.comparison.matching import QueryChanges
from ragbench.comparison.pairs import SHOWN_QUERIES
from ragbench.comparison.same_queries import list_ids
from ragbench.data.runs.hit_list import Hit
from ragbench.data.runs.query_view import QueryView, QueryViews, SystemView
from ragbench.data.runs.run_list import DATA, FILE
from ragbench.records import codec
from ragbench.records.causes import RIGHT
from ragbench.records.comparison import ComparedRuns, Comparisons
from ragbench.records.gate import Decision, Facts, Verdict, WorseQuery
from ragbench.records.summary import Summary
from ragbench.report.ci import gate_counts, gate_text, why_incomplete, why_of, worst_line
from ragbench.report.formats import MOST_LINES, fit_screen
from ragbench.report.formats.base import Screen
from ragbench.report.layout import lay_out
from ragbench.report.results import GATE_HEADS
from ragbench.report.runs import changed_text, moved_causes
from ragbench.report.table import (
    Block,
    Link,
    Paragraph,
    Raw,
    SentenceList,
    Table,
    TableReport,
    data_table,
    word_table,
)
from ragbench.report.text import counted, difference, ends_of, first_parts, significant
from ragbench.types import FloatArray
from ragbench.types.display import printable

# Verdict of a gate -> the word after a count, the worst first.
_VERDICTS: Mapping[Verdict, str] = {"fail": "fail", "undecided": "undecided", "pass": "pass"}
_MAX_IDS = 5  # questions that a line names
_ANSWER = 80  # characters of an answer
COLUMNS = ("verdict", "gate", "system", "base_mean", "mean", "difference", "low", "high", "why")


@dataclass(frozen=True, slots=True)
class ChangedScore:
    """Change of a score of a system since the base.

    `gain` is the mean change; `counts` and `line` are texts for a review.

    Attributes:
        measure: Name of the score.
        system: Name of the system.
        decision: Default decision, with means, difference and interval.
        gains: Difference of each question, of which higher is better; NaN without both scores.
        decides: True if the default decision decides, and no configured gate.
    """

    measure: str
    system: str
    decision: Decision
    gains: FloatArray
    decides: bool = True

    @property
    def gain(self) -> float:
        """Mean of the gains; 0 without any question that has both scores."""
        scored = self.gains[~np.isnan(self.gains)]
        return float(scored.mean()) if len(scored) else 0.0

    @property
    def is_sure(self) -> bool:
        """True if the interval of the mean change excludes 0."""
        ends = ends_of(self.decision.facts.interval)
        return ends is not None and ends[0] * ends[1] > 0

    @property
    def has_changed(self) -> bool:
        """True if the score of a question changed."""
        return bool(np.nan_to_num(self.gains).any())

    @property
    def is_compared(self) -> bool:
        """True if the decision has the means of both."""
        return self.decision.means is not None

    @property
    def order(self) -> tuple[int, bool, float]:
        """Key that sorts sure losses first, then sure gains, failed scores, `right`, low gains."""
        rank = 3
        if self.is_sure:
            rank = 0 if self.gain < 0 else 1
        elif self.has_failed:
            rank = 2
        return rank, self.measure != RIGHT, self.gain

    @property
    def has_failed(self) -> bool:
        """True if the default decision decides, and fails."""
        return self.decides and self.decision.verdict == "fail"

    @property
    def counts(self) -> str:
        """Numbers of questions as text: `1 worse, 2 better of 10`."""
        signs = Counter(np.sign(self.gains[~np.isnan(self.gains)]).tolist())
        return f"{signs[-1]} worse, {signs[1]} better of {signs.total()}"

    @property
    def line(self) -> str:
        """Sentence on the change, with both means, the difference, its interval, and the counts.

        It has one mean if no score changed, and the reason of the decision if nothing was compared.
        """
        name, means, facts = printable(self.system), self.decision.means, self.decision.facts
        if means is None or facts.difference is None:
            return f"{name} is undecided: {self.measure}: {self.decision.why}"
        if not self.has_changed:
            return f"{name} is unchanged: {self.measure} {significant(means[0])}"
        word = "did not surely change"
        if self.is_sure:
            word = "got BETTER" if self.gain > 0 else "got WORSE"
        elif self.has_failed:
            word = "got WORSE, though not surely"
        return f"{name} {word}: {_change_text(self.measure, means, facts)}; {self.counts}"


@dataclass(frozen=True, slots=True)
class FailedGate:
    """Configured gate that failed or was refused, for one system.

    Attributes:
        decision: Its decision.
        measure: Score of a difference, else the condition of the gate.
        counts: Numbers of questions that became worse and better; empty without a difference.
    """

    decision: Decision
    measure: str
    counts: str = ""

    @property
    def is_sure(self) -> bool:
        """True unless the gate is about a difference whose interval has 0 in it."""
        ends = None if self.decision.means is None else ends_of(self.decision.facts.interval)
        return ends is None or ends[0] * ends[1] > 0

    @property
    def line(self) -> str:
        """Sentence on the gate, with its numbers and its reason."""
        return "; ".join(filter(None, (verdict_line(self.decision, self.measure), self.counts)))


def verdict_line(decision: Decision, measure: str) -> str:
    """Return the verdict on a gate that did not pass as a sentence, with its numbers and reason.

    A change of a mean has both means, the difference and its interval, a mean has its interval, if
    there is one. Without a system the judge is its subject.

    Args:
        decision: A decision that failed, was refused or is undecided.
        measure: Score, cost or rubric that the gate is about, or its whole condition.

    Example:
        >>> facts = Facts(mean=0.5, interval=(0.477, 0.523))
        >>> why = "mean 0.5 over 60 queries"
        >>> gate = Decision(verdict="fail", why=why, system="ours", facts=facts)
        >>> verdict_line(gate, "mrr")
        'ours FAILS: mrr: mean 0.5 over 60 queries, between 0.477 and 0.523'
    """
    means, facts, why = decision.means, decision.facts, printable(decision.why)
    has_failed = decision.verdict == "fail" or decision.refused
    name = printable(decision.system or "the judge")
    if means is not None and facts.change and why.startswith(facts.change):
        word = "got WORSE" if has_failed else "is undecided"
        # the sentence has the numbers in words
        return f"{name} {word}: {_change_text(measure, means, facts)}{why[len(facts.change) :]}"
    word, ends = "FAILS" if has_failed else "is undecided", ends_of(facts.interval)
    text = f"{name} {word}: {printable(measure)}: {printable(why_of(decision))}"
    # the reason of a gate that decides by the interval of a mean has the interval
    if not isinstance(facts.mean, float) or ends is None or "[" in why:
        return text
    return f"{text}, between {' and '.join(map(significant, ends))}"


def _change_text(measure: str, means: Sequence[float], facts: Facts) -> str:
    """Return a score as `map 0.300 -> 0.400 (+0.100, between +0.020 and +0.180)`."""
    change, between = difference(facts.difference or 0.0, facts.interval)
    between = between.strip("[]").replace(", ", " and ")
    between = f", between {between}" if between else ""
    ends = ends_of(facts.interval)
    if ends is not None and ends[0] <= 0 <= ends[1]:
        between += ": no difference shown"
    return f"{printable(measure)} {' -> '.join(map(significant, means))} ({change}{between})"


def question_line(
    views: Sequence[tuple[QueryViews, str]],
    query: WorseQuery,
    note: str = "",
    measure: str = "",
) -> str:
    """Return a question with its scores, and the answers or else the ranks of its gold document.

    Raises DataError if a run folder lacks the question or cannot be read.

    Args:
        views: Run folder and name of the system: those of the base, if it is a run, then those of
            the head, if it is a run. Without any, the line has no answers and ranks.
        query: Query with the score of the system, and that of the base if there is one.
        note: Text behind the scores, where there are views; empty for none.
        measure: Name of the scores; empty leaves it out.
    """
    if not views:
        return worst_line(query, measure)
    sides = []
    for query_views, name in views:
        head = query_views[query.query_id]
        if (side := head.system(name)) is not None:
            sides.append(side)
    query = structs.replace(query, query_id=head.label, question=head.question)
    line = worst_line(query, measure)
    return "  ".join(filter(None, (line, note, printable(_answers(sides) or _ranks(head, sides)))))


def _ranks(head: QueryView, sides: Sequence[SystemView]) -> str:
    """Return a gold document or span with its ranks: `gold d1: rank 2 -> rank 5; first now d7`."""
    rankings = []
    for side in sides:
        rankings.append([hit for hit in side.ranking if hit.rank is not None])
    if not head.needs or not rankings:
        return ""
    old, new = rankings[0], rankings[-1]
    gold = max(head.needs, key=lambda name: abs(_gain(name, new) - _gain(name, old)))
    ranks = " -> ".join(_rank(gold, ranking) for ranking in rankings)
    is_other = new and new[0].label not in [hit.label for hit in old[:1]]
    return f"gold {gold}: {ranks}{f'; first now {new[0].label}' if is_other else ''}"


def _answers(sides: Sequence[SystemView]) -> str:
    """Return the first answers that differ between both sides, shortened; empty without any."""
    by_side = list[list[str]]()
    for side in sides:
        texts = []
        for row in side.answers:
            texts.append(" ".join((row.answer or "").split()))
        by_side += [texts] if texts else []
    # a repeated system may lose in a later repetition
    for answers in zip(*by_side, strict=False):
        if len(answers) == 1 or answers[0] != answers[-1]:
            start = _start_of_change(answers)
            texts = [repr(("..." if start else "") + text[start:][:_ANSWER]) for text in answers]
            return f"answer: {' -> '.join(texts)}"
    return ""


def _start_of_change(answers: Sequence[str]) -> int:
    """Return the place from which the shown parts of answers differ; 0 if their starts do."""
    n_common = 0
    for signs in zip(*answers, strict=False):
        if len({*signs}) > 1:
            break
        n_common += 1
    # some words before the change stay
    return 0 if n_common < _ANSWER // 2 else n_common - _ANSWER // 4


def _gain(name: str, ranking: Sequence[Hit]) -> float:
    """Return 1 / rank of the first hit that meets a gold; 0 if the ranking lacks it."""
    for rank, hit in enumerate(ranking, 1):
        if name in hit.gold:
            return 1 / rank
    return 0.0


def _rank(name: str, ranking: Sequence[Hit]) -> str:
    """Return `rank 3`, `not in 10` if none of 10 hits meets a gold, or `no ranking`."""
    if not ranking:
        return "no ranking"
    rank = next((rank for rank, hit in enumerate(ranking, 1) if name in hit.gold), None)
    return f"not in {len(ranking)}" if rank is None else f"rank {rank}"


@dataclass(frozen=True, slots=True)
class WorseQueries:
    """Queries of a system whose score got worse.

    Attributes:
        measure: Name of the score.
        system: Name of the system.
        queries: The queries with both scores, without their texts, the worst first.
        line_of: Returns the line of a query, with its text and its answers or ranks.
        text_of: Returns the text of a query by its id; empty if it is not known.
    """

    measure: str
    system: str
    queries: Sequence[WorseQuery]
    line_of: Callable[[WorseQuery], str]
    text_of: Callable[[str], str]

    def lines(self, *, is_complete: bool) -> Iterator[str]:
        """Yield the lines of the worst queries and the number of others, or of all below a head."""
        if not is_complete:
            yield from map(self.line_of, self.queries[:SHOWN_QUERIES])
            n_more = len(self.queries) - SHOWN_QUERIES
            if n_more > 0:
                yield f"and {counted(n_more, 'more worse questions')}: --verbose"
        elif self.queries:
            n = counted(len(self.queries), "questions")
            yield printable(f"{self.system}: {n} got worse by {self.measure}:")
            yield from map(self.line_of, self.queries)

    def to_json(self) -> Iterator[dict[str, object]]:
        """Yield a query with the measure, the system and its text, for programs."""
        for query in self.queries:
            query = structs.replace(query, question=self.text_of(query.query_id))
            yield {"measure": self.measure, "system": self.system, **codec.to_json(query)}


class UnsureLosses(NamedTuple):
    """Losses that are not sure, which further looks are taken at; empty where a gate fails surely.

    Attributes:
        losses: Measure and system of each loss.
        systems: Systems with such a loss.
        questions: Their changed questions.
        is_judged: True if a judge decides one of these scores.
    """

    losses: frozenset[tuple[str, str]] = frozenset()
    systems: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    is_judged: bool = False


_NONE_UNSURE = UnsureLosses()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReview:
    """Comparison of a head with its base, and the decisions on its gates; `run_gate` returns it.

    Attributes:
        scores: Changes of the scores, the worst first.
        worse: Questions that got worse by each score, in the order of the scores.
        best: Lines on the questions that gained most by the first score, the best first; [] if none
            gained.
        changes: Questions that were edited, added or removed.
        compared: Comparison with the changes of config, data and causes.
        decisions: Decisions on the gates, those of `blind` included.
        failed: Configured gates that failed.
        blind: Decisions on gates whose judge or generator was skipped.
        facts: Lines on answers and failures; empty ones are left out.
        new_questions: Lines on the scores of new questions.
        skipped: Skipped judge without a gate -> reason.
        summary: Summary of the head.
        is_same: True if all passages, answers and scores, except by judges, are those of the base.
        noise: Lines on systems that use nothing that changed.
        looks: Line on further looks at the changed questions; empty without any.
        unsure: Losses of deciding scores that are not sure.
        corpus: Lines on documents that were renamed or removed.
        config_changes: Lines on judges and gates that were added, removed or changed.
        folder: Run folder of the head; None for a table.
    """

    scores: Sequence[ChangedScore]
    worse: Sequence[WorseQueries]
    best: Sequence[str]
    changes: QueryChanges
    compared: ComparedRuns
    decisions: Sequence[Decision]
    failed: Sequence[FailedGate]
    blind: Sequence[Decision]
    facts: Sequence[str]
    new_questions: Sequence[str]
    skipped: Mapping[str, str]
    summary: Summary
    is_same: bool
    noise: Sequence[str] = ()
    looks: str = ""
    unsure: UnsureLosses = _NONE_UNSURE
    corpus: Sequence[str] = ()
    config_changes: Sequence[str] = ()
    folder: Path | None = None

    @property
    def deciding(self) -> Sequence[Decision]:
        """Decisions that count for the exit code: of equal answers, those without scores alone."""
        return self.blind if self.is_same else self.decisions


# lines of news before the details, and below changed judges and gates
_MOST_NEWS, _MOST_FURTHER = 8, 6


def review_report(review: GateReview, *, is_complete: bool = False) -> TableReport:
    """Return a review as a report: the news, changed judges and gates, then the details.

    The news are eight lines, and at most six below changed judges and gates; the details have the
    questions that lost most, changes of the config, causes and gates. Of equal rankings and answers
    there are no questions, causes and gates. A terminal shows the gates that did not pass. The last
    line has the verdicts of the gates with their numbers. The rows for programs are the decisions.
    A complete report has all questions that got worse, by each score.
    """
    lines = list(_review_lines(review, is_complete=is_complete))
    blocks: list[Block] = list(review_blocks(lines))
    decisions = review.deciding
    rows, sentences = [], []
    for gate in decisions:
        why = why_of(gate)
        rows.append(tuple(map(printable, (gate.verdict, gate.gate, gate.system or "", why))))
        if gate.verdict != "pass":
            sentences.append(f"gate {gate.verdict}: {gate_text(gate, why)}")
    if rows and not review.is_same:
        table = word_table(GATE_HEADS, rows, "gates")
        blocks.append(replace(table, terminal=Paragraph(tuple(sentences))))
    skipped = (printable(f"{name} was skipped: {why}") for name, why in review.skipped.items())
    blocks += [SentenceList(tuple(skipped)), Paragraph((_result_line(review),))]
    return TableReport(tuple(blocks), data_table(COLUMNS, map(_values, decisions)), lines[0])


def review_blocks(lines: Sequence[str]) -> Iterator[Block]:
    """Yield lines of a review as three paragraphs, the first emphasized, then a list."""
    first, *paragraphs = lines[:3]
    yield Paragraph((first,), is_strong=True)
    for line in paragraphs:
        yield Paragraph((line,))
    yield SentenceList(tuple(lines[3:]))


# Shorter and shorter screens: lines below the first three.
_CUTS = (20, 16, 14, 12, 10, 8, 6, 5, 4, 3, 2, 1)
_LONGEST_GATE = 160  # characters of the reason of a gate


def review_screen(report: TableReport, screen: Screen, n_lines: int = MOST_LINES) -> TableReport:
    """Return a review that fits a screen: reasons of gates, then the lists, become shorter.

    A gate that failed has a line of news, and none of its own.
    """
    return fit_screen(map(partial(_cut_review, report), _CUTS), screen, n_lines)


def _cut_review(report: TableReport, most: int) -> TableReport:
    """Return a review with at most `most` lines in each list, and the reasons of gates in short."""
    blocks = list[Block]()
    for block in report.blocks:
        if isinstance(block, Table) and isinstance(block.terminal, Paragraph):
            lines = []
            for line in block.terminal.lines:
                if not line.startswith("gate fail"):
                    lines.append(first_parts(line, _LONGEST_GATE))
            blocks.append(Paragraph(_first_lines_of(lines, most)))
        elif isinstance(block, SentenceList):
            blocks.append(SentenceList(_first_lines_of(block.lines, most)))
        else:
            blocks.append(block)
    return replace(report, blocks=tuple(blocks))


def _first_lines_of(lines: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the first lines that are no parts of others, and a line on the number of the rest."""
    heads = []
    for line in lines:
        if not line.startswith(" "):
            heads.append(line)
    n_more = len(lines) - len(heads[:most])
    more = [f"and {counted(n_more, 'more lines')}: --verbose"] if n_more else []
    return (*heads[:most], *more)


def brief_review(report: TableReport) -> TableReport:
    """Return the first three lines of a review, and its result line."""
    return replace(report, blocks=(*report.blocks[: _paragraphs(report)], report.blocks[-1]))


def worse_json(review: GateReview) -> list[dict[str, object]]:
    """Return all questions that got worse for programs, by each score, the worst first."""
    questions = list[dict[str, object]]()
    if not review.is_same:
        for worse in review.worse:
            questions += worse.to_json()
    return questions


def review_json(
    report: TableReport,
    summary: Summary,
    exit_code: int,
    page: str | None = None,
    worse: Sequence[dict[str, object]] = (),
) -> dict[str, object]:
    """Return the decision for programs.

    The verdict is `fail`, `undecided` or `pass`, the first of these that a gate has. Gates have the
    form of `summary.json`.

    Args:
        report: Report of the review; its news are `lines`.
        summary: Summary of the head, with the decisions.
        exit_code: Exit code of the command.
        page: Path of the page; None if the head has no run folder.
        worse: Questions that got worse, as `worse_json` returns them.
    """
    lines = list[str]()
    for block in (*report.blocks[: _paragraphs(report) + 1], report.blocks[-1]):
        if isinstance(block, (Paragraph, SentenceList)):
            lines += block.lines
    verdicts = {gate.verdict for gate in summary.gates}
    verdict = next((word for word in ("fail", "undecided") if word in verdicts), "pass")
    return {
        "verdict": verdict,
        "exit_code": exit_code,
        "complete": summary.complete,
        "lines": lines,
        "report": page,
        "gates": [codec.to_json(gate) for gate in summary.gates],
        "worse_queries": [*worse],
    }


def with_link(report: TableReport, link: str) -> TableReport:
    """Return a review with a link to its job below the paragraphs; an empty link adds none."""
    if not link:
        return report
    place = _paragraphs(report)
    blocks = (*report.blocks[:place], Link("page and log of the run", link), *report.blocks[place:])
    return replace(report, blocks=blocks)


def _paragraphs(report: TableReport) -> int:
    """Return the number of paragraphs at the start of a review."""
    return sum(isinstance(block, Paragraph) for block in report.blocks[:3])


def _values(gate: Decision) -> tuple[Raw, ...]:
    """Return the values of a decision, under `COLUMNS`."""
    facts, means = gate.facts, gate.means
    base, mean = (None, facts.mean) if means is None else means
    return (
        *(gate.verdict, gate.gate, gate.system, base),
        *(mean if isinstance(mean, float | int) else None, facts.difference),
        *(ends_of(facts.interval) or (None, None)),
        why_of(gate),  # a spreadsheet takes a difference at its start for a formula
    )


def _review_lines(review: GateReview, *, is_complete: bool) -> Iterator[str]:
    """Yield the lines on a review, without single gates and what was skipped."""
    base, news = printable(review.compared.sources[0]), list(_news(review))
    yield from news[:_MOST_NEWS]
    yield from review.config_changes
    further = news[_MOST_NEWS:]
    n_more = len(further) - _MOST_FURTHER
    yield from further[:_MOST_FURTHER] if n_more > 1 else further
    if n_more > 1:
        yield f"and {n_more} more lines on scores and facts: the page has all scores"
    if not review.is_same:
        # the first score is that of the first line
        for worse in review.worse if is_complete else review.worse[:1]:
            yield from worse.lines(is_complete=is_complete)
        for question in review.best:
            yield f"better: {question}"
    for run in review.compared.runs[1:]:
        # another file that no answer depends on, such as a comment in code, is no news
        is_unused = review.is_same or bool(review.noise)
        is_news = not is_unused or any(not text.startswith((DATA, FILE)) for text in run.changed)
        if run.changed and is_news:
            yield f"changed since {base}: {changed_text(run)}"
    for word, ids in review.changes.groups.items():
        if word != "new":  # the news have the scores of new questions
            yield f"{counted(len(ids), f'{word} questions')}: {printable(list_ids(ids, _MAX_IDS))}"
    if not review.is_same:
        yield from moved_causes(review.compared, is_folded=True)


def _result_line(review: GateReview) -> str:
    """Return the last line of every review: the verdicts of its gates, with their numbers."""
    if review.deciding:
        return gate_counts(review.deciding, _VERDICTS)
    if why_incomplete(review.summary):
        return "gates: none decided, as the run is incomplete"
    if not review.is_same:
        return "gates: none"
    return f"gates: pass, as nothing {'else ' if _n_not_compared(review) else ''}changed"


def _n_not_compared(review: GateReview) -> int:
    """Return the number of questions of the base that were edited or removed."""
    return len(review.changes.edited) + len(review.changes.removed)


def _news(review: GateReview) -> Iterator[str]:
    """Yield the news, nothing sure below something unsure."""
    facts = [*filter(None, review.facts), *review.corpus, *review.new_questions]
    blind = list(_blind_lines(review.blind))
    if reason := why_incomplete(review.summary):
        blind.append(printable(f"incomplete: {reason}"))
    if review.is_same:
        base = printable(review.compared.sources[0])
        n = counted(review.compared.queries, "questions")
        same = f"all rankings and answers to {n} are those of {base}"
        n_other = _n_not_compared(review)
        if n_other:
            n_base = review.changes.n_base
            first = f"{n_other} of {n_base} questions were edited or removed, and are not compared"
        else:
            first = "nothing changed"
        yield from (*blind, f"{first}: {same}", *facts)
    else:
        yield from _changes(review, blind, facts)


def _changes(review: GateReview, blind: Sequence[str], facts: Sequence[str]) -> Iterator[str]:
    """Yield the news of a review that has changed scores."""
    of_gates, news = set(), []
    for failed in review.failed:
        of_gates.add((failed.measure, failed.decision.system))
        news.append((0 if failed.is_sure else 5, failed.line))
    looks = filter(None, [review.looks])
    for place, lines in ((2, blind), (4, review.noise), (6, looks), (7, facts)):
        for line in lines:
            news.append((place, line))
    unchanged = []
    for score in review.scores:
        place_of_score = _place(score)
        if (score.measure, score.system) in of_gates:
            continue
        if place_of_score is None:
            unchanged.append(score.line)
        else:
            news.append((place_of_score, score.line))
    # the sort keeps the order of the lines of one place
    for _, line in sorted(news, key=lambda entry: entry[0]):
        yield line
    if not news:
        yield from unchanged


def _place(score: ChangedScore) -> int | None:
    """Return the place of a score among the news; None if it has nothing new."""
    if score.is_sure:
        return 1 if score.gain < 0 else 3
    if score.has_failed:
        return 5
    return 8 if score.has_changed or not score.is_compared else None


def _blind_lines(decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield a line for the gates that could not look for the same reason, with the reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for decision in decisions:
        by_reason.setdefault((decision.verdict, decision.why), []).append(decision.gate)
    for (verdict, why), gates in by_reason.items():
        word = "FAILS" if verdict == "fail" else verdict
        yield printable(f"{word}: {', '.join(gates)}: {why}")


def first_report(summary: Summary, comparisons: Comparisons, base: str) -> TableReport:
    """Return the report on a run whose base lacks the config: the first lines of its own report.

    Args:
        summary: Summary of the run.
        comparisons: Comparisons of the run.
        base: Git reference without the config.
    """
    lines = list(_first_lines(summary, comparisons, base))
    rows = data_table(COLUMNS, map(_values, summary.gates))
    result = Paragraph(("gates: none decided, as there is no base yet",))
    return TableReport((*review_blocks(lines), result), rows, lines[0])


def _first_lines(summary: Summary, comparisons: Comparisons, base: str) -> Iterator[str]:
    """Yield the lines on a run whose base lacks the config."""
    page = lay_out(summary, comparisons, narrow=True)
    yield "no base yet: these are the scores that later pull requests are compared with"
    yield from filter(None, (page.lead, page.lost, *page.headlines))
    if reason := why_incomplete(summary):
        yield printable(f"incomplete: {reason}")
    for judge, why in summary.skipped_judges.items():
        yield printable(f"judge {judge} was skipped: {why}")
    yield f"{printable(base)} has no such config"
