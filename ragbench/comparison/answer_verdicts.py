"""Verdicts of answers: the cause of each question and its value of `right`.

The words of gold answers and the scores of judges decide. Runs and tables count by these functions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ragbench.comparison.cause_rules import (
    AnswerFacts,
    CauseRules,
    RankingFacts,
    cause_of_answer,
    forbidden_first,
    right_value,
)
from ragbench.comparison.gold import find_answer
from ragbench.comparison.same_queries import QUERY_PARTS
from ragbench.records.causes import RIGHT, Loss
from ragbench.score.text.columns import gold_print, shared_signature
from ragbench.score.text.gold_words import GoldWords
from ragbench.score.text.notation import parse_metric
from ragbench.score.text.right import judged_signature
from ragbench.signature import Signature, fingerprint
from ragbench.text import refusals
from ragbench.types import Cause, Document, FloatArray, ScoreColumn

# True, False or None where it is unknown; and the reason, empty where it is unknown.
Decision = tuple[bool | None, str]


class DecidingScores(NamedTuple):
    """Score columns of a system that decide on its answers; None for a score that it lacks.

    Attributes:
        correctness: Score that decides whether an answer is right; without it, words decide.
        faithfulness: Score that decides whether an answer is supported by its passages.
        context_recall: Score that tells whether the passages hold the gold answer.
        refusal: Score that tells whether an answer declines; without it, a rule decides.
        claim_rubrics: Names of the rubrics whose score is a share of claims.
    """

    correctness: ScoreColumn | None = None
    faithfulness: ScoreColumn | None = None
    context_recall: ScoreColumn | None = None
    refusal: ScoreColumn | None = None
    claim_rubrics: frozenset[str] = frozenset()

    def columns(self) -> tuple[ScoreColumn | None, ...]:
        """Return the score columns, in the order of the attributes."""
        return self.correctness, self.faithfulness, self.context_recall, self.refusal

    def with_votes(self, votes: Mapping[str, FloatArray]) -> DecidingScores:
        """Return the scores by one repetition of their judges.

        `votes` has the values by the name of a column. A score without its vote counts as failed.
        """

        def voted(column: ScoreColumn | None) -> ScoreColumn | None:
            if column is None or column.name not in votes:
                return column
            return _by_votes(column, votes[column.name])

        correctness, faithfulness, context_recall, refusal = map(voted, self.columns())
        return DecidingScores(
            correctness, faithfulness, context_recall, refusal, self.claim_rubrics
        )


class QuestionReply(NamedTuple):
    """Reply of a system to one question, with its passages and the gold words.

    Attributes:
        text: The reply; None if it failed.
        failure: Cause of the failure.
        detail: Message of the failure.
        contexts: Passages of the reply; None if they are not known.
        words: Words of the gold answers; None for a question without any.
    """

    text: str | None
    failure: Cause = Cause.SCORED
    detail: str = ""
    contexts: Sequence[Document] | None = None
    words: GoldWords | None = None


class AnswerVerdict(NamedTuple):
    """Cause of one question, and its value of the metric `right`.

    Attributes:
        loss: Cause of the question.
        right: Value of `right`; NaN without one.
        unscored: Cause of a missing value.
        detail: Message of the failure of an answer, or of a judge; empty without one.
    """

    loss: Loss
    right: float
    unscored: Cause
    detail: str = ""

    @property
    def is_judged(self) -> bool:
        """True if gold or a judge tells whether the answer is right, or would without a failure."""
        has_failed_judge = self.unscored.failed and self.loss.cause != "failed"
        return has_failed_judge or self.unscored in (Cause.SCORED, Cause.UNSURE_REFUSAL)


def reply_facts(reply: QuestionReply) -> AnswerFacts:
    """Return the facts of the reply to one question that need no score and no gold."""
    cause = reply.failure
    if reply.text is None:
        was_asked = cause.failed or cause is Cause.SCORED
        return AnswerFacts(failed=cause.word, was_asked=was_asked, unscored=cause)
    return AnswerFacts(
        refuses=refusals.refuses(reply.text),
        refuses_how="declines" if reply.text.strip() else "is empty",
    )


class AnswerRules:
    """Rules and score columns by which the answers of one system are judged, question by question.

    `verdict` returns the cause of a question and its value of `right`, `column` the metric of all
    questions.

    Attributes:
        rules: Rules of the causes.
        scores: Score columns that decide.
    """

    def __init__(self, rules: CauseRules, scores: DecidingScores) -> None:
        self.rules, self.scores = rules, scores

    def verdict(
        self,
        row: int,
        reply: QuestionReply,
        ranking: RankingFacts,
        answer: AnswerFacts,
        *,
        answerable: bool | None,
    ) -> AnswerVerdict:
        """Return the cause of the question of a row, and its value of `right`.

        Args:
            row: Row of the question in the score columns.
            reply: Reply to the question.
            ranking: Ranks of its gold.
            answer: Facts of `reply_facts`, with the gold among the passages where it is known.
            answerable: True for a question with an answer, False without one, None if unknown.
        """
        detail = reply.detail
        if answer.failed is None:
            answer = self._with_scores(row, reply, ranking, answer)
            unscored, detail = self._unscored(row, answer, reply.words, answerable)
            # the rule on words must not decide where a judge of refusals failed
            is_unsure = answerable is False and unscored.failed
            declines = None if is_unsure else answer.refuses
            answer = replace(answer, unscored=unscored, refuses=declines)
        loss = cause_of_answer(ranking, answer, self.rules, answerable=answerable)
        value, unscored = right_value(loss, answer, answerable=answerable)
        # `right` is that of the answer, whatever it has read
        loss = forbidden_first(loss, answer)
        return AnswerVerdict(loss, value, unscored, detail if unscored.failed else "")

    def column(
        self, verdicts: Sequence[AnswerVerdict], answers: Sequence[Sequence[str]]
    ) -> ScoreColumn:
        """Return the column of the metric `right`; `answers` are the gold answers of each row."""
        details = {}
        for row, verdict in enumerate(verdicts):
            if verdict.detail:
                details[row] = verdict.detail
        return ScoreColumn(
            RIGHT,
            np.array([verdict.right for verdict in verdicts], np.float64),
            np.array([verdict.unscored for verdict in verdicts], np.uint8),
            self._signature(answers),
            details=details,
        )

    def _signature(self, answers: Sequence[Sequence[str]]) -> Signature:
        """Return the signature of `right`: the rule, the gold answers, and judges that decide."""
        rules, scores = self.rules.right, self.scores
        if scores.correctness is None:
            metric = parse_metric(f"{RIGHT}(words={rules.words:g})")
            signed = shared_signature(metric, gold_print(answers))
        else:
            signed = judged_signature(scores.correctness.signature, rules.min)
        # judges that decide some of the questions: those without a gold answer, and refusals
        supported = None if all(answers) else scores.faithfulness
        judges = {"supported": supported, "refusal": scores.refusal}
        parts = {}
        for name, judge in judges.items():
            if judge is not None:
                # other questions or gold answers are no other judge
                parts[name] = fingerprint([str(judge.signature.without(QUERY_PARTS))])
        return Signature(RIGHT, signed.parts).with_parts(**parts)

    def _with_scores(
        self, row: int, reply: QuestionReply, ranking: RankingFacts, answer: AnswerFacts
    ) -> AnswerFacts:
        """Return the facts with those that scores and words tell: right, supported, declining."""
        scores = self.scores
        is_right, right_how = self._is_right(row, reply)
        is_supported, supported_how = _reaches(scores.faithfulness, row, self.rules.supported.min)
        holds, holds_how = self._holds_answer(row, reply, ranking)
        answer = replace(
            answer,
            is_right=is_right,
            right_how=right_how,
            is_supported=is_supported,
            has_unsupported=self._has_unsupported(row),
            supported_how=supported_how,
            holds_answer=holds,
            holds_how=holds_how,
        )
        is_refusal, how = _reaches(scores.refusal, row, 0.5, oriented=False)
        if is_refusal is not None:
            answer = replace(answer, refuses=is_refusal, refuses_how=f"declines ({how})")
        return answer

    def _unscored(
        self, row: int, answer: AnswerFacts, words: GoldWords | None, answerable: bool | None
    ) -> tuple[Cause, str]:
        """Return (cause why the score that decides has no value, message of its failure)."""
        scores = self.scores
        if answerable is False:
            deciding = [scores.refusal]
        elif answer.is_right is not None:
            deciding = []
        else:
            # without a gold answer, a judge of the passages decides
            deciding = [scores.correctness, scores.faithfulness if words is None else None]
        for column in deciding:
            if column is not None and _has_failed(column, row):
                return Cause(int(column.causes[row])), column.details.get(row, "")
        first = next(iter(deciding), None)
        return (Cause.SCORED if first is None else Cause(int(first.causes[row]))), ""

    def _has_unsupported(self, row: int) -> bool:
        """Return True if a judge found a claim of an answer without support in its passages."""
        column, least = self.scores.faithfulness, self.rules.supported.min
        if column is not None and column.name.partition("(")[0] in self.scores.claim_rubrics:
            least = 1.0
        is_supported, _ = _reaches(column, row, least)
        return is_supported is False

    def _is_right(self, row: int, reply: QuestionReply) -> Decision:
        """Return (whether the answer to a question is right, reason such as "f1 0.7 >= 0.5")."""
        rules, column = self.rules.right, self.scores.correctness
        decision, how = _reaches(column, row, rules.min)
        if decision is not None or rules.measure is not None or _has_failed(column, row):
            name = rules.measure if column is None else column.name
            return decision, how or f"{name} has no value"
        if reply.words is None:
            return None, ""
        share = reply.words.share(reply.text or "")
        return share.reaches(rules.words), f"the answer {share.says}"

    def _holds_answer(self, row: int, reply: QuestionReply, ranking: RankingFacts) -> Decision:
        """Return (whether the passages of a question hold its gold answer, reason)."""
        if ranking.gold is not None:
            return None, ""
        decision, how = _reaches(self.scores.context_recall, row, 0.5)
        if decision is not None:
            return decision, how
        words, contexts = reply.words, reply.contexts
        if words is None or contexts is None or not words.can_be_found:
            return None, ""
        rank, how = find_answer(words, contexts, self.rules.words)
        if rank:
            return True, f"{how} in passage {rank} of {len(contexts)} that were read"
        if not contexts or words.is_short:
            return False, f"{how} in none of {len(contexts)} passages that were read"
        share = words.share(" ".join(passage.full_text for passage in contexts))
        read = f"what was read, {len(contexts)} passages, {share.says}"
        return share.reaches(self.rules.words), read


def _by_votes(column: ScoreColumn, votes: FloatArray) -> ScoreColumn:
    """Return a column with the values of one repetition of its judge."""
    lacks_vote = np.isnan(votes) & ~np.isnan(column.values)
    causes = np.where(lacks_vote, np.uint8(Cause.UNREADABLE), column.causes)
    values = np.where(np.isnan(column.values), np.nan, votes)
    return replace(column, values=values, causes=causes)


def _has_failed(column: ScoreColumn | None, row: int) -> bool:
    """Return True if a judge failed to score the answer of a row."""
    return column is not None and Cause(int(column.causes[row])).failed


def _reaches(
    column: ScoreColumn | None, row: int, threshold: float, *, oriented: bool = True
) -> Decision:
    """Return (whether a score reaches a threshold, the comparison as text)."""
    value = math.nan if column is None else float(column.values[row])
    if column is None or math.isnan(value):
        return None, ""
    if oriented and column.direction == "lower":
        reaches = 1 - value >= threshold
        return reaches, f"{column.name} {value:.2g} {'<=' if reaches else '>'} {1 - threshold:.2g}"
    reaches = value >= threshold
    return reaches, f"{column.name} {value:.2g} {'>=' if reaches else '<'} {threshold:.2g}"
