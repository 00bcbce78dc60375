"""Metric `right` of a table: by the rules of the causes, as a run counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.comparison.answer_verdicts import (
    AnswerRules,
    DecidingScores,
    QuestionReply,
    reply_facts,
)
from ragbench.comparison.cause_rules import CauseRules, RankingFacts
from ragbench.comparison.slices import answerable_questions
from ragbench.comparison.table_gold import TablePassages, judged_facts
from ragbench.score.text.gold_words import GoldWords
from ragbench.types import Answered, Cause, Collection, Query, ScoreColumn


def right_column(
    collection: Collection, records: Sequence[Answered], judged: Mapping[str, ScoreColumn]
) -> ScoreColumn:
    """Return the metric `right` of the answers of a table.

    Args:
        collection: Questions with their gold.
        records: Record of each question, in their order.
        judged: Rubric -> its scores; empty without a judge.
    """
    scores = DecidingScores(
        judged.get("correctness"),
        judged.get("faithfulness"),
        judged.get("context_recall"),
        judged.get("refusal"),
    )
    rules = AnswerRules(CauseRules(), scores)
    queries, answers = collection.queries, collection.answers
    answerable = answerable_questions(queries, answers, collection.qrels)
    # passages decide only where there is no gold answer to search in them
    rankings = judged_facts(collection, TablePassages.of(collection, records))
    verdicts = []
    for row, (query, record) in enumerate(zip(queries, records, strict=True)):
        reply = _reply(query, record, answers.get(query.id))
        # without a list of passages, nothing tells what was retrieved
        ranking = RankingFacts() if record.contexts is None else rankings[row]
        facts = reply_facts(reply)
        verdicts.append(rules.verdict(row, reply, ranking, facts, answerable=answerable[row]))
    return rules.column(verdicts, [tuple(answers.get(query.id, ())) for query in queries])


def _reply(query: Query, record: Answered, gold: Sequence[str] | None) -> QuestionReply:
    """Return the reply of a record; a call that failed has none, whatever its answer."""
    words = GoldWords(gold, query.text) if gold else None
    if record.error is not None:
        return QuestionReply(None, Cause.ERROR, record.error, words=words)
    if record.answer is None:
        return QuestionReply(None, Cause.MISSING_ANSWER, words=words)
    return QuestionReply(record.answer, words=words)
