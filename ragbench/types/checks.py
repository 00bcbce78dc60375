"""Check ids, scores and grades of runs and qrels; errors name the query and the document.

`source` is the word for the record in messages: `run` or `qrels`.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

from ragbench.errors import DataError

# trec_eval reads grades as C integers, so larger ones could not be compared with it.
LARGEST_GRADE = 2**31 - 1


def id_bytes(identifier: str) -> bytes:
    """Return an id as the bytes of its file; ties of scores are broken by these bytes.

    Invalid UTF-8 of a file is a surrogate in the text, as Python reads it with `surrogateescape`,
    and becomes its original byte. In a text with any other lone surrogate (JSON can hold one), each
    surrogate becomes three bytes.
    """
    try:
        return identifier.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return identifier.encode("utf-8", "surrogatepass")


def check_ids(nested: Mapping[Any, Any], source: str) -> None:
    """Check that `nested` is {query id: {document id: number}} with ids that are text.

    The numbers are not checked. An empty mapping is valid. `source` is the word for it in messages,
    such as `run`.

    Raises:
        DataError: `nested` or a value is no mapping, or an id is not text; names the query.
    """
    # The fast check decides for nearly every caller; the loop only finds the bad place.
    if has_plain_form(nested, source) and all_text(nested.values()):
        return
    for query_id, documents in nested.items():
        if not isinstance(query_id, str):
            raise id_error(query_id, source)
        if not isinstance(documents, Mapping):
            problem, record = f"found {type(documents).__name__}", f"{source}: query '{query_id}'"
            raise DataError(problem, record=record, allowed="{document id: number}")
        for document in documents:
            if not isinstance(document, str):
                raise id_error(document, source, query_id)


def has_plain_form(nested: Mapping[Any, Any], source: str) -> bool:
    """Return True if all query ids are text and all values plain dictionaries, or if none exist.

    A dictionary of a subclass is not plain. The document ids inside are not checked. `source` is
    the word for `nested` in the message, such as `run`.

    Raises:
        DataError: `nested` is no mapping.
    """
    if not isinstance(nested, Mapping):
        raise DataError(
            f"{source}: found {type(nested).__name__}", allowed="{query id: {document id: number}}"
        )
    return {*map(type, nested.values())} <= {dict} and all_text([nested])


def all_text(rows: Iterable[Iterable[Any]]) -> bool:
    """Return True if all ids of all rows are text; True for no rows and for empty rows."""
    # `join` loops in C and raises a TypeError for anything but text: faster than isinstance().
    try:
        for ids in rows:
            "".join(ids)
    except TypeError:
        return False
    return True


def id_error(identifier: object, source: str, query_id: str | None = None) -> DataError:
    """Return the error for an id that is not text; it is not raised here.

    Args:
        identifier: The id as found.
        source: Record that holds it, for the message.
        query_id: Query of a document id; None if `identifier` is the query id.
    """
    kind = "query" if query_id is None else "document"
    return DataError(
        f"{kind} id {identifier!r} is not text",
        record=source if query_id is None else f"{source}: query '{query_id}'",
        allowed="an id as str",
    )


def checked_score(score: Any, query_id: str, document: str) -> float:
    """Return a score as float; infinite scores are valid, and True counts as 1.

    Raises:
        DataError: The score is no number, NaN, or too large for a double.
    """
    place = f"run: query '{query_id}', document '{document}'"
    if not isinstance(score, numbers.Real):
        problem = f"score {plain(score)!r} is not a number"
        raise DataError(problem, record=place, allowed="a number, or inf")
    # Only NaN differs from itself; math.isnan raises for integers that no double holds.
    if score != score:
        raise DataError("score is NaN", record=place, allowed="a number, or inf")
    try:
        return float(score)
    except OverflowError as error:
        raise DataError("score is too large", record=place, allowed="a double") from error


def falling_scores(hits: Mapping[str, Any], query_id: str) -> dict[str, float] | None:
    """Return the scores of one query, or None unless they fall strictly from hit to hit.

    None tells the caller to rank by the order of the hits instead. A missing score (None) does not
    fall. No hits give an empty dictionary.

    Raises:
        DataError: A score is no number, NaN, or too large for a double.
    """
    scores: dict[str, float] = {}
    is_falling, last = True, float("inf")
    for document, score in hits.items():
        if score is None:
            is_falling = False
            continue
        value = checked_score(score, query_id, document)
        # `not scores` accepts inf as the first score: it is not below the initial inf.
        is_falling = is_falling and (value < last or not scores)
        scores[document] = last = value
    return scores if is_falling else None


def grade_row(judged: Mapping[Any, Any], query_id: str) -> list[int]:
    """Return the grades of one query as integers, in the order of `judged`.

    Whole floats and NumPy integers are valid; True and False are not. No grades give [].

    Raises:
        DataError: A grade is not a whole number, or its absolute value exceeds 2**31 - 1; names
            query and document.
    """
    grades = list(judged.values())
    # Compared by type, since isinstance() would accept True as an int.
    if not {*map(type, grades)} <= {int}:
        grades = [_grade(grade, query_id, document) for document, grade in judged.items()]
    if grades and (max(grades) > LARGEST_GRADE or min(grades) < -LARGEST_GRADE):
        worst = next(document for document, g in judged.items() if abs(g) > LARGEST_GRADE)
        problem = f"grade {plain(judged[worst])!r} does not fit into 32 bits"
        raise _bad_grade(problem, query_id, worst)
    return grades


def _grade(grade: Any, query_id: str, document: object) -> int:
    """Return a grade as int; whole floats and NumPy integers are valid.

    Raises:
        DataError: The grade is a bool, no number, or not whole; names query and document.
    """
    problem = f"grades are not integers, found {plain(grade)!r}"
    if isinstance(grade, bool) or not isinstance(grade, numbers.Real):
        raise _bad_grade(problem, query_id, document)
    number = grade if isinstance(grade, numbers.Integral) else float(grade)
    if isinstance(number, float) and not number.is_integer():
        scale = "write {document: round(10 * grade)}, and measures with rel=10 times the grade"
        raise _bad_grade(f"{problem}; {scale}", query_id, document)
    return int(number)


def plain(value: Any) -> Any:
    """Return a NumPy number as a Python number, for messages; return other values unchanged.

    An array of one number counts as this number.
    """
    # a tensor, which has a method `size`, stays as it is
    return value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value


def _bad_grade(problem: str, query_id: str, document: object) -> DataError:
    """Return the error for a grade; an empty query id leaves the query out of its place."""
    return DataError(
        problem,
        record=f"qrels: query '{query_id}', document '{document}'" if query_id else f"'{document}'",
        allowed=f"an integer from -{LARGEST_GRADE} to {LARGEST_GRADE}",
    )


def read_hit(item: Any, query_id: str) -> tuple[str, Any]:
    """Return the document id and the score of a hit; the score is None where it has none.

    `item` is a document id, a tuple (id, score), or an object with `id` and `score`. The score is
    not checked.

    Raises:
        DataError: The id is not text.
    """
    if isinstance(item, tuple) and len(item) == 2:
        document, score = item
    else:
        document, score = getattr(item, "id", item), getattr(item, "score", None)
    if not isinstance(document, str):
        raise id_error(document, "run", query_id)
    return document, score


def checked_ids(value: object, source: str, query_id: str) -> list[str]:
    """Return the document ids of one query as a list.

    In their order; repeated ids stay. A mapping gives its keys; no ids give []. `source` is the
    word in messages, `run` or `qrels`.

    Raises:
        DataError: `value` cannot be iterated, is itself a text or bytes, or holds anything but
            texts.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise wrong_type_error(value, source, query_id)
    ids = [*value]
    for identifier in ids:
        if not isinstance(identifier, str):
            raise id_error(identifier, source, query_id)
    return ids


def wrong_type_error(value: object, source: str, query_id: str | None = None) -> DataError:
    """Return the error for a value of the wrong type in a run or in qrels.

    It is not raised here.

    Args:
        value: The value as found.
        source: `run` or `qrels`.
        query_id: Query that has the value; None if the value stands for the whole run or qrels.

    Raises:
        KeyError: Another `source`.
    """
    lists = {
        "run": "{document id: score}, or a list of document ids, best first",
        "qrels": "{document id: grade}, or a set or list of relevant document ids",
    }
    problem, record = f"found {type(value).__name__}", f"{source}: query '{query_id}'"
    if query_id is None:
        return DataError(
            problem, record=source, allowed=f"a mapping from each query id to {lists[source]}"
        )
    return DataError(problem, record=record, allowed=lists[source])
