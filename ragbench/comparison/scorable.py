"""Parts of a data set that a score needs, and the message where it has none of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ragbench.comparison.slices import answerable_questions
from ragbench.errors import DataError
from ragbench.types import Collection
from ragbench.types.display import shorten_line

_LISTED = 2
# Characters of the columns, and of the reason, in the message.
_LONGEST = 60


def decides_by_refusals(collection: Collection) -> bool:
    """Return True if a question is known to have no answer: the right answer to it is a refusal."""
    answerable = answerable_questions(collection.queries, collection.answers, collection.qrels)
    return False in answerable


def nothing_to_score(
    collection: Collection, record: object = None, causes: Sequence[str] = ()
) -> DataError:
    """Return, not raise, the error of data without any score, with the lines that mend it.

    Columns that may hold a part of a record are named, as the option `columns` names them.

    Args:
        collection: Data set.
        record: File or part of the config for the message; None for a table of Python.
        causes: Scores that have no value, each with the reason; empty where none was tried.
    """
    columns = next((note for note in collection.notes if note.startswith("columns: ")), "")
    reason = "; ".join(causes[:_LISTED]) or _missing(collection)
    read = f" ({shorten_line(columns, _LONGEST)})" if columns else ""
    problem = f"nothing to score: {shorten_line(reason, _LONGEST)}{read}"
    return DataError(problem, file=record, allowed=_allowed(collection))


def _missing(collection: Collection) -> str:
    """Return the parts that a score needs and the data lack, as a phrase."""
    if _are_of_track(collection):
        return "no qrels, support or nuggets, and no judge"
    if collection.qrels is not None:
        return "gold documents, but nothing retrieved"
    if not collection.answers:
        return "no gold and no judge"
    for record in chain.from_iterable(collection.recorded_answers.values()):
        if record.answer is not None or any(hit.full_text for hit in record.contexts or ()):
            return "gold answers that no score reads"
    return "gold answers, but no answers or passages"


def _are_of_track(collection: Collection) -> bool:
    """Return True for answers of a track that are known by their limit of words alone."""
    records = chain.from_iterable(collection.recorded_answers.values())
    return collection.qrels is None and any(record.judgements for record in records)


def _allowed(collection: Collection) -> str:
    """Return the columns and lines that give a score, those for columns without a part first."""
    if _are_of_track(collection):
        return "a file qrels, support or nuggets beside answers in dataset; or metrics.judge"
    unread = []
    for column, (part, _) in collection.unread.items():
        if part:
            unread.append(f"{part}: {column}")
    if unread:
        parts = f"columns: {{{', '.join(unread[:_LISTED])}}} if they hold these"
    elif collection.qrels is not None or collection.answers:
        parts = "a column answer, contexts or retrieved; a corpus and retrievers"
    else:
        parts = "a column reference (answers), relevant (ids) or reference_contexts"
    return f"{parts}; or metrics.judge"
