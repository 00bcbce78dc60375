"""Check ids, scores and grades of runs and qrels; errors name the query and the document.

`source` is the word for the record in messages: `run` or `qrels`.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

from ragbench.errors import DataError
from ragbench.types.ids import id_text

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


def with_text_ids(nested: Mapping[Any, Any], source: str) -> Mapping[str, Mapping[str, Any]]:
    """Return {query id: {document id: number}} with all ids as text, as `id_text` gives them.

    A mapping whose ids are text is returned as it is. The numbers are not checked. `source` is the
    word for the mapping in messages, such as `run`.

    Raises:
        DataError: `nested` or a value is no mapping, an id is no id, or two ids are the same text;
            names the query.
    """
    # The fast check decides for nearly every caller.
    if has_plain_form(nested, source) and all_text(nested.values()):
        return nested
    queries = text_keys(nested, source)
    for query_id, documents in queries.items():
        if not isinstance(documents, Mapping):
            problem, record = f"found {type(documents).__name__}", f"{source}: query '{query_id}'"
            raise DataError(problem, record=record, allowed="{document id: number}")
        queries[query_id] = text_keys(documents, source, query_id)
    return queries


def text_keys(
    values: Mapping[Any, Any], source: str, query_id: str | None = None
) -> dict[str, Any]:
    """Return a mapping with its ids as text, in its order.

    `query_id` is the query of document ids; None if the keys are query ids.

    Raises:
        DataError: A key is no id, or two keys are the same text, such as 7 and '7'.
    """
    texts: dict[str, Any] = {}
    for identifier, value in values.items():
        text = checked_id(identifier, source, query_id)
        if text in texts:
            problem = f"{_noun(query_id)} '{text}' is there twice, as text and as a number"
            raise DataError(problem, record=_place(source, query_id), allowed="each id once")
        texts[text] = value
    return texts


def checked_id(identifier: object, source: str, query_id: str | None = None) -> str:
    """Return an id as text; `query_id` is the query of a document id, None for a query id.

    Raises:
        DataError: the value is no id; names `source`, which holds it, and the query.
    """
    try:
        return id_text(identifier)
    except ValueError as error:
        problem = f"{_noun(query_id)} id {identifier!r} {error}"
        allowed = "an id as text, or an integer"
        raise DataError(problem, record=_place(source, query_id), allowed=allowed) from error


def _noun(query_id: str | None) -> str:
    return "query" if query_id is None else "document"


def _place(source: str, query_id: str | None) -> str:
    return source if query_id is None else f"{source}: query '{query_id}'"


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

    The caller then ranks by the order of the hits. A missing score (None) does not fall.

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

    Whole floats and NumPy integers are valid; True and False are not.

    Raises:
        DataError: A grade is not a whole number, or its absolute value exceeds 2**31 - 1; names
            query and document.
    """
    grades = list(judged.values())
    # Compared by type, since isinstance() would accept True as an int.
    if not {*map(type, grades)} <= {int}:
        grades = []
        for document, grade in judged.items():
            grades.append(_grade(grade, query_id, document))
    if grades and (max(grades) > LARGEST_GRADE or min(grades) < -LARGEST_GRADE):
        worst = next(document for document, g in judged.items() if abs(g) > LARGEST_GRADE)
        problem = f"grade {plain(judged[worst])!r} does not fit into 32 bits"
        raise _bad_grade(problem, query_id, worst)
    return grades


def _grade(grade: Any, query_id: str, document: object) -> int:
    """Return a grade as int; whole floats and NumPy integers are valid."""
    problem = f"grades are not integers, found {plain(grade)!r}"
    if isinstance(grade, bool) or not isinstance(grade, numbers.Real):
        raise _bad_grade(problem, query_id, document)
    number = grade if isinstance(grade, numbers.Integral) else float(grade)
    if isinstance(number, float) and not number.is_integer():
        scale = "integers: {document: round(10 * grade)}, and measures with 10 times the rel"
        raise _bad_grade(problem, query_id, document, scale)
    return int(number)


def plain(value: Any) -> Any:
    """Return a NumPy number as a Python number, for messages; return other values unchanged.

    An array of one number counts as this number.
    """
    # a tensor, which has a method `size`, stays as it is
    return value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value


def _bad_grade(
    problem: str,
    query_id: str,
    document: object,
    allowed: str = f"an integer from -{LARGEST_GRADE} to {LARGEST_GRADE}",
) -> DataError:
    """Return the error for a grade; an empty query id leaves the query out of its place."""
    return DataError(
        problem,
        record=f"qrels: query '{query_id}', document '{document}'" if query_id else f"'{document}'",
        allowed=allowed,
    )


def read_hit(item: Any, query_id: str) -> tuple[str, Any]:
    """Return the document id as text and the score of a hit; the score is None without one.

    `item` is a document id, a tuple (id, score), or an object with `id` and `score`. The score is
    not checked.

    Raises:
        DataError: The id is neither text nor an integer.
    """
    if isinstance(item, tuple) and len(item) == 2:
        document, score = item
    else:
        document, score = getattr(item, "id", item), getattr(item, "score", None)
    return checked_id(document, "run", query_id), score


def checked_ids(value: object, source: str, query_id: str) -> list[str]:
    """Return the document ids of one query as a list of texts.

    Repeated ids stay. A mapping gives its keys. `source` is the word in messages, `run` or `qrels`.

    Raises:
        DataError: `value` cannot be iterated, is itself a text or bytes, or holds anything but
            ids.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise wrong_type_error(value, source, query_id)
    return [checked_id(identifier, source, query_id) for identifier in value]


def wrong_type_error(value: object, source: str, query_id: str | None = None) -> DataError:
    """Return the error for a value of the wrong type in a run or in qrels.

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
