"""Lines of `ragbench gate`: the verdict for a reviewer first, then questions, causes and gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragbench.comparison.matching import QueryChanges, list_ids
from ragbench.records.comparison import ComparedRuns
from ragbench.records.gate import Decision
from ragbench.report.ci import why_of
from ragbench.report.runs import changed_text, moved_causes
from ragbench.report.text import counted, difference, ends_of, printable, significant

_MAX_IDS = 5  # questions that a line names
_ANSWER = 80  # characters of an answer


@dataclass(frozen=True, slots=True)
class ChangedScore:
    """Change of a score of a system since the base.

    Attributes:
        measure: Name of the score.
        system: Name of the system.
        decision: Default decision, with means, difference and interval.
        n_worse: Number of questions with a worse score.
        n_better: Number of questions with a better score.
        n_same: Number of questions with the same score.
        gain: Mean difference, positive if the system is better; NaN if nothing was compared.
    """

    measure: str
    system: str
    decision: Decision
    n_worse: int
    n_better: int
    n_same: int
    gain: float

    @property
    def line(self) -> str:
        """Sentence on the change, with both means, the difference and its interval.

        It has one mean if no score changed, and the reason of the decision if nothing was compared.
        """
        name, means, facts = printable(self.system), self.decision.means, self.decision.facts
        if means is None or facts.difference is None:
            return f"{name} is undecided: {self.measure}: {self.decision.why}"
        if not self.n_worse and not self.n_better:
            return f"{name} is unchanged: {self.measure} {significant(means[0])}"
        ends = ends_of(facts.interval)
        change, between = difference(facts.difference, ends)
        word = f"is not surely {'better' if self.gain > 0 else 'worse'}"
        if self.decision.verdict == "fail":
            word = "got WORSE"
        elif self.decision.verdict == "undecided":
            word = "is undecided"
        elif self.gain > 0 and ends is not None and ends[0] * ends[1] > 0:
            word = "got BETTER"
        between = between.strip("[]").replace(", ", " and ")
        between = f", surely between {between}" if between else ""
        values = " -> ".join(map(significant, means))
        return f"{name} {word}: {printable(self.measure)} {values} ({change}{between})"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedQuestion:
    """Question whose score changed, with what base and head returned.

    Attributes:
        query_id: Its id.
        question: Its text; empty if unknown.
        baseline_score: Score of the base.
        score: Score of the head.
        gold: Gold documents, the best first; empty for a score of answers.
        rankings: Documents of base and head, best first; None without a stored ranking.
        answers: Answers of base and head; None without an answer.
    """

    query_id: str
    question: str
    baseline_score: float
    score: float
    gold: Sequence[str]
    rankings: Sequence[Sequence[str] | None]
    answers: Sequence[str | None]

    @property
    def line(self) -> str:
        """Question with both scores, and the ranks of its gold document or both answers."""
        scores = f"{significant(self.baseline_score)} -> {significant(self.score)}"
        parts = (f"{self.query_id} {' '.join(self.question.split())}".strip(), scores, self._detail)
        return "  ".join(map(printable, filter(None, parts)))

    @property
    def _detail(self) -> str:
        """Gold document with both ranks, else both answers; empty if neither is known.

        The document is the one whose 1 / rank changed most. A new first document follows.
        """
        old, new = self.rankings
        if self.gold and new is not None:
            gold = max(self.gold, key=lambda name: abs(_gain(name, new) - _gain(name, old)))
            ranks = " -> ".join(
                _rank(gold, ranking) for ranking in self.rankings if ranking is not None
            )
            first = f"; first now {new[0]}" if new and (not old or old[0] != new[0]) else ""
            return f"gold {gold}: {ranks}{first}"
        answers = [
            " ".join(answer.split())[:_ANSWER] for answer in self.answers if answer is not None
        ]
        return f"answer: {' -> '.join(map(repr, answers))}" if answers else ""


def _gain(name: str, ranking: Sequence[str] | None) -> float:
    """Return 1 / rank of a document; 0 if the ranking lacks it."""
    return 1 / (ranking.index(name) + 1) if ranking and name in ranking else 0.0


def _rank(name: str, ranking: Sequence[str]) -> str:
    """Return `rank 3`, or `not in 10` if the 10 documents of the ranking lack it."""
    return f"rank {ranking.index(name) + 1}" if name in ranking else f"not in {len(ranking)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReview:
    """Comparison of a head with its base, and the decisions on its gates.

    Attributes:
        base: Name of the base.
        n: Number of common, unchanged questions.
        scores: Changes of the scores, the worst first.
        worst: Questions that lost most by the first score, the worst first.
        best: Questions that gained most by the first score, the best first.
        changes: Questions that were edited, added or removed.
        same_corpus: Whether the corpus is the same; None if unknown, or without a corpus.
        compared: Comparison with the changes of config, data and causes.
        decisions: Decisions on the gates.
        skipped: Texts of the gates whose judge was skipped.
        skipped_judges: Judge -> reason why it was skipped.
        complete: Whether the run of the head is complete.
        is_same: True if all rankings and answers are those of the base.
    """

    base: str
    n: int
    scores: Sequence[ChangedScore]
    worst: Sequence[MovedQuestion]
    best: Sequence[MovedQuestion]
    changes: QueryChanges
    same_corpus: bool | None
    compared: ComparedRuns
    decisions: Sequence[Decision]
    skipped: Sequence[str]
    skipped_judges: Mapping[str, str]
    complete: bool
    is_same: bool


def review_lines(review: GateReview) -> Iterator[str]:
    """Yield the lines on a review: verdict, counts, questions, then changes, causes and gates.

    Of equal rankings and answers there are no questions, causes and gates. Gates that passed are
    only counted. ValueError without scores, unless all is equal.
    """
    groups = {
        "new": review.changes.new,
        "edited": review.changes.edited,
        "removed": review.changes.removed,
    }
    corpus = {True: ["corpus unchanged"], False: ["corpus CHANGED"], None: []}[review.same_corpus]
    questions = [counted(len(ids), f"{word} questions") for word, ids in groups.items() if ids]
    if review.is_same:
        yield f"nothing changed: all rankings and answers are those of {printable(review.base)}"
        yield "; ".join([counted(review.n, "questions"), *corpus, *questions])
    else:
        first, *further = review.scores
        counts = f"{first.n_worse} worse, {first.n_better} better, {first.n_same} same"
        counts += f" of {first.n_worse + first.n_better + first.n_same}"
        yield first.line
        yield "; ".join([counts, *corpus, *questions])
        yield from (question.line for question in review.worst)
        yield from (f"better: {question.line}" for question in review.best)
        yield from (score.line for score in further)
    for run in review.compared.runs[1:]:
        if run.changed:
            yield f"changed since {printable(review.base)}: {changed_text(run)}"
    for word, ids in groups.items():
        if ids:
            yield f"{word}: {printable(list_ids(ids, _MAX_IDS))}"
    if review.is_same:
        return
    yield from filter(None, moved_causes(review.compared))
    verdicts = Counter(gate.verdict for gate in review.decisions)
    yield f"gates: {', '.join(f'{n} {verdict}' for verdict, n in verdicts.items()) or 'none'}"
    for gate in review.decisions:
        if gate.verdict != "pass":
            system = f" ({gate.system})" if gate.system else ""
            yield printable(f"gate {gate.verdict}: {gate.gate}{system}: {why_of(gate)}")
    for judge, why in review.skipped_judges.items():
        skipped = f"; gates skipped: {', '.join(review.skipped)}" if review.skipped else ""
        yield printable(f"judge {judge} was skipped: {why}{skipped}")
