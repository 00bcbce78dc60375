"""Parts of a data set that a score needs, and the message where it has none of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ragbench.comparison.slices import answerable_questions
from ragbench.data.files.fields import counted
from ragbench.errors import DataError
from ragbench.types import Collection

_LISTED = 3
_JUDGE = "metrics: {judge: {type: openai, model: gpt-4o-mini}}"


def decides_by_refusals(collection: Collection) -> bool:
    """Return True if a question is known to have no answer: the right answer to it is a refusal."""
    answerable = answerable_questions(collection.queries, collection.answers, collection.qrels)
    return False in answerable


def nothing_to_score(
    collection: Collection, record: object = None, causes: Sequence[str] = ()
) -> DataError:
    """Return, not raise, the error of data without any score, with the lines that mend it.

    Columns that hold no part of a record are listed with their first values.

    Args:
        collection: Data set.
        record: File or part of the config for the message; None for a table of Python.
        causes: Scores that have no value, each with the reason; empty where none was tried.
    """
    columns = next((note for note in collection.notes if note.startswith("columns: ")), "")
    read = f" ({columns})" if columns and not causes else ""
    problem = f"nothing to score{read}: {'; '.join(causes) or _missing(collection)}"
    return DataError(problem, file=record, allowed=_allowed(collection))


def _missing(collection: Collection) -> str:
    """Return the parts that a score needs and the data lack, as a phrase."""
    if _are_of_track(collection):
        return "answers without qrels, support or assigned nuggets, and no judge"
    if collection.qrels is not None:
        return "gold documents, and neither retrieved ids nor passages to compare them with"
    if not collection.answers:
        return "no gold documents, gold passages or gold answers, and no judge"
    for record in chain.from_iterable(collection.recorded_answers.values()):
        if record.answer is not None or any(hit.full_text for hit in record.contexts or ()):
            return "gold answers that no score of the config reads"
    return "gold answers, and neither answers nor texts of passages to compare them with"


def _are_of_track(collection: Collection) -> bool:
    """Return True for answers of a track that are known by their limit of words alone."""
    records = chain.from_iterable(collection.recorded_answers.values())
    return collection.qrels is None and any(record.judgements for record in records)


def _allowed(collection: Collection) -> str:
    """Return the columns and lines that give a score, those for columns without a part first."""
    parts = "a column reference (gold answers), relevant (ids of gold documents) or "
    parts += "reference_contexts (gold passages)"
    if _are_of_track(collection):
        return "a file qrels, support or nuggets beside answers in dataset; or metrics.judge"
    if collection.qrels is not None or collection.answers:
        parts = (
            "a column answer, contexts (passages) or retrieved (ids); or a corpus and retrievers"
        )
    lines = []
    for column, (part, value) in list(collection.unread.items())[:_LISTED]:
        lines.append(f"'{column}' (such as {value}): columns: {{{part}: {column}}}")
    if lines:
        more = len(collection.unread) - len(lines)
        remainder = f"; {counted(more, 'further column')}" if more else ""
        parts += f"; or the part of a column that was not recognised: {', '.join(lines)}{remainder}"
        parts += " (with ragbench init: --column PART=NAME)"
    return f"{parts}; or a judge: {_JUDGE}"
