"""Results in words: the systems that lead, their difference and its verdict, and lost questions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragbench.records.causes import (
    CAUSES,
    EQUAL_TEXT,
    RIGHT,
    AnswerCause,
    Quantity,
    counted_cause,
    counts_all_gold,
)
from ragbench.records.comparison import Comparisons, Difference, MeasureComparison, leaders
from ragbench.records.score import SystemScore
from ragbench.records.summary import (
    UNLIKE_READING,
    CheapestSystem,
    Summary,
    SystemSummary,
    cost_text,
)
from ragbench.report import text as fmt
from ragbench.report.base import AFTER_CORRECTION, Outcome
from ragbench.types import Direction
from ragbench.types.display import printable


def outcome_of(comparison: Difference, direction: str) -> Outcome:
    """Return the verdict of a comparison; a higher score is better unless `direction` is `lower`.

    All formats use this verdict. `not compared` without a common query with two scores, `identical`
    if no score changed, empty if the difference was not tested.
    """
    change, differs = comparison.difference, comparison.differs
    # the order matters: identical scores have a difference of 0 and no verdict
    if change is None:
        return "not compared"
    if comparison.n_changed == 0:
        return "identical"
    if differs is None:
        return ""
    if not differs:
        return "not shown"
    return "better" if (change > 0) == (direction != "lower") else "worse"


def verdict_of(comparison: Difference, direction: str) -> str:
    """Return the verdict as tables show it: `outcome_of`, with the part of the correction."""
    outcome = outcome_of(comparison, direction)
    return f"{outcome} {AFTER_CORRECTION}" if comparison.needs_correction else outcome


def lead(summary: Summary, comparisons: Comparisons) -> str:
    """Return the first sentence of a report: `headline` by `lead_measure`.

    Without a score it counts the causes of a system, preferably one of the user. The sentence is
    empty if the reason why nothing can be told comes first.
    """
    measure = lead_measure(summary, comparisons)
    if measure is not None:
        return headline(measure, summary, comparisons)
    systems = []
    for system in summary.systems:
        if system.role != "control":
            systems.append(system)
    if any(score.mean is not None for system in systems for score in system.scores.values()):
        return ""
    systems.sort(key=lambda system: system.name not in summary.user_systems)
    for system in systems:
        if any(system.causes.values()):
            return f"{printable(system.name)}: {fmt.cause_sentence(system.causes)}"
    return ""


def lead_measure(summary: Summary, comparisons: Comparisons) -> str | None:
    """Return the measure of the first sentence: `right`, else `found@k`, else the first measure.

    If retrievers read unlike amounts of text, `found@equal_text` takes the place of `found@k`. The
    user's systems decide, or all systems if none of these has a score. A measure that tells
    nothing comes after others, unless it counts questions. There is no measure if nothing was
    scored, or if no retriever has retrieved any gold: then the reason says more.
    """
    systems = []
    for system in summary.systems:
        if system.role != "control":
            systems.append(system)
    of_user = []
    for system in systems:
        if system.name in summary.user_systems:
            of_user.append(system)
    silent = set()
    for family in comparisons.measures:
        if family.tells_nothing:
            silent.add(family.measure)
    for rivals in (of_user, systems):
        scored: dict[str, None] = {}
        for system in rivals:
            for name, score in system.scores.items():
                if score.mean is not None:
                    scored[name] = None
        names = list(scored)
        names.sort(key=lambda name: (name != RIGHT, counted_cause(name) is None, name in silent))
        if names:
            first = at_equal_text(names[0], comparisons)
            return None if _has_no_gold(names[0], rivals, silent) else first
    return None


def at_equal_text(measure: str, comparisons: Comparisons) -> str:
    """Return `found@equal_text` for `found@k` if retrievers were compared so, else the measure."""
    is_found = counted_cause(measure) == "found"
    return EQUAL_TEXT if is_found and comparisons.reading is not None else measure


def _has_no_gold(measure: str, systems: Sequence[SystemSummary], silent: Collection[str]) -> bool:
    """Return True if a measure is a silent `found@k`, and no system retrieved any gold."""
    if counted_cause(measure) != "found" or measure not in silent:
        return False
    rivals = []
    for system in systems:
        if measure in system.scores:
            rivals.append(system)
    causes: set[str] = set()
    for system in rivals:
        for cause, n in system.causes.items():
            if n:
                causes.add(cause)
    has_found = any(system.scores[measure].mean for system in rivals)
    return not has_found and causes <= {"not_retrieved", "unknown"}


def leading_systems(measure: str, summary: Summary) -> list[SystemSummary]:
    """Return the systems that a report names first by a measure, as `leaders` orders them.

    Controls and systems without a mean do not compete. Of two with equal means the one that reads
    less text comes first.
    """
    systems, means = dict[str, SystemSummary](), dict[str, float | None]()
    direction: Direction = "higher"
    for system in summary.systems:
        score = system.score(measure)
        if system.role != "control" and score is not None:
            systems[system.name] = system
            means[system.name] = score.mean
            # all scores of a measure share the direction
            direction = score.direction
    if not systems:
        return []
    leading = [systems[name] for name in leaders(means, summary.user_systems, direction)]
    if len(leading) > 1 and means[leading[0].name] == means[leading[1].name]:
        # of equal systems, the one that reads less text is better
        ratio = _reading_ratio(leading[0], leading[1]) or 1.0
        if ratio >= UNLIKE_READING:
            leading[:2] = leading[1::-1]
    return leading


def headline(measure: str, summary: Summary, comparisons: Comparisons) -> str:
    """Return a sentence on the systems that lead by a measure, and on their difference.

    The best two of the user's systems come first, then the best other system; without a system of
    the user, the best two of all. `right` and `found@k` are numbers of questions. All formats of a
    report have this sentence. It has no full stop.

    Args:
        measure: Name of the measure.
        summary: The run.
        comparisons: Comparisons of its systems.

    Example:
        size500 answers 18 of 60 questions, size200 7: surely better (+11, from +4 to +17)
    """
    systems = leading_systems(measure, summary)
    if not systems:
        scores = filter(None, [system.score(measure) for system in summary.systems])
        return f"no system has a value of {printable(measure)}{fmt.missing_reasons(scores)}"
    first, *rivals = systems
    score = first.score(measure)
    if score is not None and score.aggregate == "sum":
        return f"{printable(measure)} is a sum over the queries: no system is better by it"
    family = comparisons.measure(measure) or MeasureComparison(measure=measure)
    place = _Standing.of(first, measure, family)
    reading = _reading_words(summary, comparisons) if measure == EQUAL_TEXT else ""
    equal = _equal_systems(measure, summary, family)
    if len(equal) > _MOST_NAMED:
        least = "" if measure == EQUAL_TEXT else _least_text(equal)
        return reading + place.of_all(len(equal)) + least
    is_users = first.name in summary.user_systems
    peers = []
    for system in rivals:
        if (system.name in summary.user_systems) == is_users:
            peers.append(system)
    parts = [place.statement if peers else place.alone]
    for peer in peers:
        difference = family.between(first.name, peer.name)
        parts[0] += f", {place.against(_Standing.of(peer, measure, family), difference)}"
    for rival in rivals[len(peers) :]:
        difference = family.between(first.name, rival.name)
        parts.append(place.aside(_Standing.of(rival, measure, family), difference))
    if measure == RIGHT:
        parts += _equal_text_clause(first, rivals[0], comparisons) if rivals else []
    return reading + "; ".join(parts)


# Equal systems that a sentence names.
_MOST_NAMED = 2


def _equal_systems(
    measure: str, summary: Summary, family: MeasureComparison
) -> list[SystemSummary]:
    """Return the systems with a value if all have the same one on each query; else []."""
    systems, sizes = dict[str, SystemSummary](), set[int]()
    for system in summary.systems:
        score = system.score(measure)
        if system.role == "control" or score is None:
            continue
        if not score.mean or score.has_failures or system.right_unsupported or system.unjudged:
            return []
        systems[system.name] = system
        sizes.add(score.n)
    identical = set[str]()
    for pair in family.comparisons:
        if pair.unlike is None and outcome_of(pair, family.direction) == "identical":
            identical |= {pair.system, pair.baseline}
    return list(systems.values()) if systems.keys() <= identical and len(sizes) == 1 else []


def _least_text(systems: Sequence[SystemSummary]) -> str:
    """Return the end of a sentence on equal systems, with the one that reads the least text."""
    amounts = dict[str, float]()
    for system in systems:
        if system.reading is not None:
            amounts[system.name] = system.reading.characters
    least = min(amounts, key=lambda name: amounts[name], default="")
    is_unlike = least and max(amounts.values()) >= UNLIKE_READING * amounts[least]
    return f"; {printable(least)} reads the least text" if is_unlike else ""


def _reading_words(summary: Summary, comparisons: Comparisons) -> str:
    """Return the start of a sentence on equal text, with its amount: that of the baseline."""
    pairs = () if comparisons.reading is None else comparisons.reading.comparisons
    for name in [pair.baseline for pair in pairs]:
        base = summary.system(name)
        if base is not None and base.reading is not None:
            return f"reading equal text ({base.reading.characters:,.0f} characters a question), "
    return "reading equal text, "


def _equal_text_clause(
    first: SystemSummary, rival: SystemSummary, comparisons: Comparisons
) -> list[str]:
    """Return the gold that the retriever of a system finds in equal text, if it reads more."""
    ratio, family = _reading_ratio(first, rival), comparisons.reading
    if ratio is None or ratio < UNLIKE_READING or family is None:
        return []
    difference = family.between(first.retriever or "", rival.retriever or "")
    if difference is None:
        return []
    result = _GOLD_RESULTS.get(outcome_of(difference, family.direction), "finds as much gold")
    return [f"reading equal text, {printable(first.retriever or '')} {result}"]


# Verdict on the gold that a retriever finds in equal text -> the words of a sentence.
_GOLD_RESULTS: Mapping[Outcome, str] = {
    "better": "finds more gold",
    "worse": "finds less gold",
    "not shown": "is not shown to find more gold",
}


def _reading_ratio(system: SystemSummary, other: SystemSummary) -> float | None:
    """Return the text that a system reads, divided by that of another one; None if not known."""
    if system.reading is None or other.reading is None or not other.reading.characters:
        return None
    return system.reading.characters / other.reading.characters


def lost_sentence(summary: Summary, comparisons: Comparisons, most: int = len(CAUSES)) -> str:
    """Return the causes of the questions that the first system lost; empty if none is lost.

    Args:
        summary: The run.
        comparisons: Comparisons of its systems.
        most: Counts in the sentence; of more causes the smallest ones are one number.

    Example:
        size500 lost: 30 not retrieved, 9 not used, 5 in other ways
    """
    measure = lead_measure(summary, comparisons)
    systems = [] if measure is None else leading_systems(measure, summary)
    if measure is None or not systems:
        return ""
    name = printable(systems[0].name)
    if measure == EQUAL_TEXT:  # causes are those of the first k hits
        measure = next(filter(_counts_hits, systems[0].scores), measure)
        name += f" with {fmt.counted(summary.hits_read or 0, 'hits')}"
    family = comparisons.measure(measure) or MeasureComparison(measure=measure)
    parts = list(_losses(systems[0], _Standing.of(systems[0], measure, family), most))
    return f"{name} {'; '.join(parts)}" if parts else ""


def _counts_hits(measure: str) -> bool:
    return counted_cause(measure) == "found"


@dataclass(frozen=True, slots=True)
class _Standing:
    """Result of a system by one measure, as a sentence states it; numbers are of questions."""

    name: str  # after the word `baseline` if others are compared with it
    measure: str
    score: SystemScore
    n: Quantity  # right, or with their gold found; a mean over repetitions
    n_judged: Quantity  # with a score, or failed
    n_unjudged: Quantity
    n_unsupported: Quantity  # right answers in which a judge found claims without support
    is_repeated: bool  # `n` is a mean over repetitions of the app
    n_failed: Quantity  # without an answer; a mean over repetitions
    system: SystemSummary

    @classmethod
    def of(cls, system: SystemSummary, measure: str, family: MeasureComparison) -> _Standing:
        """Return the standing of a system that has a mean of the measure."""
        score, name = system.score(measure), printable(system.name)
        if score is None:
            raise KeyError(measure)
        if any(comparison.baseline == system.name for comparison in family.comparisons):
            name = f"baseline {name}"
        noise, is_count = system.noise.get(measure), counted_cause(measure) is not None
        n = (score.mean or 0.0) * score.n if is_count else 0
        n_right: Quantity = round(n) if abs(n - round(n)) < _ROUNDING else n
        # an answer that a judge failed to check is not a failed answer
        n_failed: Quantity = score.n_failed
        if measure == RIGHT:
            n_failed = system.causes.get("failed", 0)
        n_judged = score.n + n_failed
        n_unjudged = score.n + score.n_failed + score.not_applicable - n_judged
        if measure == RIGHT and system.answers is not None:
            # a question whose answers failed in part is judged in part
            n_right, n_unjudged = system.causes.get("right", 0), sum(system.unjudged.values())
            n_judged = fmt.total_of(system.causes) - n_unjudged
        n_unsupported = system.right_unsupported if measure == RIGHT else 0
        is_repeated = noise is not None and noise.app is not None
        counts = (n_right, n_judged, n_unjudged, n_unsupported)
        return cls(name, measure, score, *counts, is_repeated, n_failed, system)

    @property
    def is_count(self) -> bool:
        """True for `right` and `found`, which count questions."""
        return counted_cause(self.measure) is not None

    @property
    def statement(self) -> str:
        """Beginning of the sentence: `bm25/gpt answers 18 of 60 questions`."""
        if not self.is_count:
            value = fmt.significant(self.score.mean) + self._remarks
            return f"{printable(self.measure)}: {self.name} has {value}"
        verb = "answers" if self.measure == RIGHT else "finds"
        return f"{self.name} {verb} {self._object('its')}{self._remarks}"

    def of_all(self, n_systems: int) -> str:
        """Return the sentence on systems that all have this result on each question."""
        if not self.is_count:
            value = fmt.significant(self.score.mean)
            subject = f"{printable(self.measure)}: all {n_systems} systems have {value}"
            return f"{subject}, the same on all queries"
        verb = "answer" if self.measure == RIGHT else "find"
        return f"all {n_systems} systems {verb} {self._object('their')}"

    def _object(self, pronoun: str) -> str:
        """Return the object of a sentence: `the gold of 18 of 60 questions in its first hit`."""
        questions = f"{fmt.questions(self.n)} of {fmt.questions(self.n_judged)} questions"
        questions += " on average" if self.is_repeated else ""
        if self.measure == RIGHT:
            return questions
        k = self.measure.rpartition("@")[2]
        hits = "hit" if k == "1" else f"{k} hits"
        depth = f" in {pronoun} first {hits}" if k.isdecimal() else ""
        return f"{self._gold} of {questions}{depth}"

    @property
    def _gold(self) -> str:
        """Gold that `found` counts, in words: `the gold`, or a passage of the gold document."""
        reading, is_all = self.system.reading, counts_all_gold(self.measure)
        if self.measure == EQUAL_TEXT or reading is None or not reading.any_passage:
            return "all gold" if is_all else "the gold"
        return f"a passage of {'each' if is_all else 'the'} gold document"

    @property
    def alone(self) -> str:
        """Beginning of the sentence on a single system; a mean has its interval."""
        if not self.is_count:
            return f"{self.statement} {fmt.interval(self.score.interval)}".rstrip()
        if not self.n_unsupported or self.has_failures:
            return self.statement
        text = f", {fmt.questions(self.n_unsupported)} of them with unsupported claims"
        return self.statement.replace(self._remarks, text)

    @property
    def has_failures(self) -> bool:
        """True if an answer failed, or the score of a query or of one of its answers."""
        # a missing verdict on `right` is no failed answer
        has_failed_answers = self.n_failed > _ROUNDING
        return has_failed_answers if self.measure == RIGHT else self.score.has_failures

    @property
    def _remarks(self) -> str:
        """Failures and unsupported claims in brackets; a mean has its bounds; '' without any."""
        remarks = []
        if self.is_count and self.n_failed > _ROUNDING:
            remarks.append(f"{fmt.questions(self.n_failed)} failed")
        elif not self.is_count and (bounds := fmt.bounds_words(self.score)):
            remarks.append(bounds)
        if n := self.n_unsupported:
            remarks.append(f"{fmt.questions(n)} with unsupported claims")
        return f" ({', '.join(remarks)})" if remarks else ""

    def value(self, other: _Standing) -> str:
        """Return the result in figures: `18`, or `18 of 55` if the other one has not 55."""
        if not self.is_count:
            return fmt.significant(self.score.mean) + self._remarks
        is_same = self.n_judged == other.n_judged
        of = "" if is_same else f" of {fmt.questions(self.n_judged)}"
        return f"{fmt.questions(self.n)}{of}{self._remarks}"

    def against(self, other: _Standing, difference: Difference | None) -> str:
        """Return the other system with its result, and the verdict on the difference from it."""
        is_same = difference is not None and outcome_of(difference, "higher") == "identical"
        is_whole = not self._scope(other, difference) and not self.has_failures
        if is_same and self.is_count and self.n and is_whole:
            return f"{other.name} the same ones{self._text_of_larger(other)}"
        return f"{other.name} {other.value(self)}: {self._verdict(other, difference)}"

    def aside(self, other: _Standing, difference: Difference | None) -> str:
        """Return a system of another kind, and the verdict on the difference of this one from it.

        Example: against baseline bm25 with 57: surely worse (-30, from -38 to -22)
        """
        verdict = self._verdict(other, difference)
        return f"against {other.name} with {other.value(self)}: {verdict}"

    def _scope(self, other: _Standing, difference: Difference | None) -> str:
        """Return the questions of both systems in words; '' if neither has further ones."""
        if difference is None or difference.n_baseline is not None:
            return ""  # samples of different questions have no common ones
        if self.n_judged == other.n_judged == difference.n:
            # a question whose repetitions failed in part counts by the others
            has_failed = self.has_failures or other.has_failures
            return "the answers that did not fail" if has_failed else ""
        return f"the {fmt.counted(difference.n, self._unit)} of both"

    @property
    def _unit(self) -> str:
        """Noun for the queries that have a value: `questions` for a count, else `queries`."""
        return "questions" if self.is_count else "queries"

    def _verdict(self, other: _Standing, difference: Difference | None) -> str:
        """Return the verdict on a difference from another system, with its numbers in brackets."""
        if difference is None:
            return "not compared"
        if difference.unlike is not None:
            return f"not compared, {printable(difference.unlike)}"
        if difference.difference is None:
            return f"not compared, none of the {self._unit} has a score of both"
        outcome = outcome_of(difference, self.score.direction)
        scope = self._scope(other, difference)
        if outcome == "identical" and (self.has_failures or other.has_failures):
            return "no difference beyond failures"
        if outcome == "identical":
            return f"the same on {scope or f'all {self._unit}'}"
        numbers = self._numbers(other, difference)
        if (ratio := self._text_ratio(other)) is not None:
            numbers += f", with {ratio:.2g} times the text"
        return f"{_VERDICTS[outcome]} ({numbers}{_reason(difference)})"

    def _numbers(self, other: _Standing, difference: Difference) -> str:
        """Return a difference with its interval, and the questions that it is over."""
        if not self.is_count or difference.n_baseline is not None:
            numbers, scope = _with_ends(difference, None), self._scope(other, difference)
        elif self._has_failed_repeats or other._has_failed_repeats:
            # the counts are of all answers, the difference is of those that did not fail
            numbers = f"{printable(self.measure)} without failures"
            sizes = {self.score.n, other.score.n, difference.n}
            if len(sizes) == 1:
                means = fmt.significant(self.score.mean), fmt.significant(other.score.mean)
                numbers += f" {' against '.join(means)}:"
            numbers += f" {_with_ends(difference, None)}"
            scope = f"the {fmt.counted(difference.n, self._unit)} of both"
        else:
            numbers = _with_ends(difference, difference.n)
            scope = self._scope(other, difference)
        return f"{numbers}, over {scope}" if scope else numbers

    @property
    def _has_failed_repeats(self) -> bool:
        """True if one of several answers to a query failed, or its score."""
        return self.system.answers is not None and self.score.has_failures

    def _text_of_larger(self, other: _Standing) -> str:
        """Return in brackets how much more text one of two systems reads; '' if about as much."""
        if (ratio := self._text_ratio(other)) is None:
            return ""
        name = self.name if ratio > 1 else other.name
        return f" ({name} reads {max(ratio, 1 / ratio):.2g} times as much text)"

    def _text_ratio(self, other: _Standing) -> float | None:
        """Return the text that this system reads, divided by that of another; None if alike."""
        ratio = _reading_ratio(self.system, other.system)
        if ratio is None or not self.is_count or self.measure == EQUAL_TEXT:
            return None
        return ratio if max(ratio, 1 / ratio) >= UNLIKE_READING else None


_VERDICTS: Mapping[Outcome, str] = {
    "better": "surely better",
    "worse": "surely worse",
    "not shown": "no difference shown",
    "": "not tested",
}


# Verdicts of a sentence that are sure.
SURE = (_VERDICTS["better"], _VERDICTS["worse"])


def _with_ends(difference: Difference, scale: int | None) -> str:
    """Return a difference with its interval as `+11, from +4 to +17`; without one, it is alone."""
    change, ends = difference.difference or 0.0, fmt.ends_of(difference.interval)
    if scale is None:
        text, between = fmt.difference(change, ends)
        limits = between.strip("[]").split(", ")
    else:
        text, limits = _questions(change * scale), [_questions(end * scale) for end in ends or ()]
    return f"{text}, from {' to '.join(limits)}" if ends else text


def _questions(number: float) -> str:
    """Return a number of questions with its sign, in whole ones; below one with one digit."""
    if abs(number) < _ROUNDING:
        return "0"
    return f"{number:+.0f}" if abs(number) >= 0.95 else f"{number:+.1g}"


# Rounding errors of a mean times its number of questions.
_ROUNDING = 1e-9


def _reason(difference: Difference) -> str:
    """Return the correction as the reason why a difference is not shown; '' for another reason."""
    if not difference.needs_correction:
        return ""
    p, n = fmt.probability(difference.p_adjusted), difference.n_comparisons
    family = "several comparisons" if n is None else fmt.counted(n, "comparisons")
    return f"; p {p} after the correction for {family}"


def _losses(system: SystemSummary, standing: _Standing, most: int) -> Iterator[str]:
    """Yield parts of a sentence on lost questions; nothing if none is lost."""
    cause, causes = counted_cause(standing.measure), system.causes
    if cause is None:
        return
    if causes and abs(causes.get(cause, 0) - standing.n) < _ROUNDING:
        losses = dict[AnswerCause, Quantity]()
        for loss in CAUSES:
            n_judged = causes.get(loss, 0) - system.unjudged.get(loss, 0)
            if n_judged > _ROUNDING and loss not in (cause, "unknown"):
                losses[loss] = n_judged
        if losses:
            yield f"lost: {_counts(losses, most)}"
        n_unknown = standing.n_judged - standing.n - sum(losses.values())
        word = "wrong" if cause == "right" else "not found"
        if n_unknown > _ROUNDING and losses:
            yield f"{fmt.questions(n_unknown)} more {word}, the cause is unknown"
        elif n_unknown > _ROUNDING:
            yield f"lost {fmt.questions(n_unknown)}, the cause is unknown"
    if standing.n_unjudged > _ROUNDING:
        n = fmt.questions(standing.n_unjudged)
        yield f"has no verdict on {n} {'question' if n == '1' else 'questions'}"


def _counts(losses: Mapping[AnswerCause, Quantity], most: int) -> str:
    """Return the causes with their numbers, the largest first: `30 not retrieved, 9 not used`."""
    ordered = sorted(losses, key=lambda loss: -losses[loss])
    n_named = most if len(ordered) <= most else most - 1
    counts = []
    for loss in ordered[:n_named]:
        counts.append(f"{fmt.questions(losses[loss])} {fmt.cause_words(loss)}")
    if small := ordered[n_named:]:
        counts.append(f"{fmt.questions(sum(losses[loss] for loss in small))} in other ways")
    return ", ".join(counts)


def cheapest_sentence(cheapest: CheapestSystem, scores: Mapping[str, SystemScore]) -> str:
    """Return a sentence on the cheapest system that is surely not much worse than the best.

    `scores` has the scores of both systems by the measure, else a KeyError. If no cheaper system is
    within the margin, it says so. The sentence has no full stop.
    """
    margin, measure = f"{cheapest.margin:g}", printable(cheapest.measure)
    if cheapest.system is None:
        return f"no cheaper system is surely within {margin} of the best by {measure}"
    costs = cheapest.costs
    means = " against ".join(fmt.significant(scores[name].mean) for name in costs)
    text = f"{measure} {means}, {cost_text(cheapest.cost, *costs.values())}"
    return f"cheapest within {margin} of the best: {printable(cheapest.system)} ({text})"


def nothing_told(families: Iterable[MeasureComparison]) -> list[str]:
    """Return a sentence for each reason why measures cannot distinguish the systems.

    Measures with one reason and kind share a sentence; [] without any.
    """
    by_reason: dict[tuple[str, str | None], list[str]] = {}
    for family in families:
        if family.tells_nothing:
            reason = (family.tells_nothing, family.kind)
            by_reason.setdefault(reason, []).append(printable(family.measure))
    sentences = []
    for (why, _), names in by_reason.items():
        verb = "tells" if len(names) == 1 else "tell"
        sentences.append(f"{fmt.listed(names)} {verb} nothing here: {printable(why)}")
    return sentences
