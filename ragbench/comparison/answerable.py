"""Questions that have an answer, by metadata, gold answers and judgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ragbench.data.files.fields import is_marked_unanswerable
from ragbench.score.text.gold_words import has_no_answer
from ragbench.types import Qrels, Query


def answerable_questions(
    queries: Iterable[Query],
    answers: Mapping[str, Sequence[str]],
    qrels: Qrels | None,
    relevant: int = 1,
) -> list[bool | None]:
    """Return True for each question with an answer, False without one, None where nothing tells.

    In the order of the questions. Metadata such as `kind: unanswerable` or `answerable: false` give
    False; `answerable: true` decides nothing. Else gold answers decide, which give False if all of
    them are refusals or blank. Else judgements decide: a judged question without a relevant
    document has no answer.

    Args:
        queries: Questions.
        answers: Gold answers by query id.
        qrels: Judgements; None without any.
        relevant: Smallest grade of a relevant document.
    """
    by_query = {} if qrels is None else qrels.by_query

    def is_answerable(query: Query) -> bool | None:
        if is_marked_unanswerable(query.metadata):
            return False
        if gold := answers.get(query.id):
            return not has_no_answer(gold)
        grades = by_query.get(query.id)
        return None if grades is None else any(grade >= relevant for grade in grades.values())

    return [is_answerable(query) for query in queries]
