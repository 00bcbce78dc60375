"""What one id, one score, one grade may be; bad ones are named by query and document."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

from ragbench.errors import DataError

# trec_eval reads grades as C integers.
LARGEST_GRADE = 2**31 - 1


def id_bytes(identifier: str) -> bytes:
    """Return an id as the bytes that its file holds: what ties are broken by.

    Bytes of a file that are not UTF-8 travel in surrogates, as Python reads them with
    `surrogateescape`; any other lone surrogate (JSON can hold one) keeps its own three bytes.
    """
    try:
        return identifier.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return identifier.encode("utf-8", "surrogatepass")


def check_ids(nested: Mapping[Any, Any], what: str) -> None:
    """Refuse what is not {query id: {document id: number}} with ids that are text."""
    if is_plain(nested, what) and all_text(nested.values()):
        return
    for query_id, documents in nested.items():
        if not isinstance(query_id, str):
            raise bad_id(query_id, what)
        if not isinstance(documents, Mapping):
            found, record = f"found {type(documents).__name__}", f"{what}: query '{query_id}'"
            raise DataError(found, record=record, allowed="{document id: number}")
        for document in documents:
            if not isinstance(document, str):
                raise bad_id(document, what, query_id)


def is_plain(nested: Mapping[Any, Any], what: str) -> bool:
    """Whether query ids are text and their values dictionaries; the ids in these are not seen."""
    if not isinstance(nested, Mapping):
        raise DataError(
            f"{what}: found {type(nested).__name__}", allowed="{query id: {document id: number}}"
        )
    return {*map(type, nested.values())} <= {dict} and all_text([nested])


def all_text(rows: Iterable[Iterable[Any]]) -> bool:
    """Whether all ids are text: passes made in C, since join refuses what is not."""
    try:
        for ids in rows:
            "".join(ids)
    except TypeError:
        return False
    return True


def bad_id(identifier: object, what: str, query_id: str | None = None) -> DataError:
    """Say that an id is not text: a document's id, or without `query_id` a query's."""
    kind = "query" if query_id is None else "document"
    return DataError(
        f"{kind} id {identifier!r} is not text",
        record=what if query_id is None else f"{what}: query '{query_id}'",
        allowed="an id as str",
    )


def checked_score(score: Any, query_id: str, document: str) -> float:
    """Return a score as float."""
    place = f"run: query '{query_id}', document '{document}'"
    if not isinstance(score, numbers.Real):
        found = f"score {plain(score)!r} is not a number"
        raise DataError(found, record=place, allowed="a number, or inf")
    # only NaN; math.isnan raises for integers that no double holds
    if score != score:
        raise DataError("score is NaN", record=place, allowed="a number, or inf")
    try:
        return float(score)
    except OverflowError as error:
        raise DataError("score is too large", record=place, allowed="a double") from error


def falling_scores(hits: Mapping[str, Any], query_id: str) -> dict[str, float] | None:
    """Return one query's scores if they fall strictly, None where the order has to stand in."""
    scores: dict[str, float] = {}
    falling, last = True, float("inf")
    for document, score in hits.items():
        if score is None:
            falling = False
            continue
        value = checked_score(score, query_id, document)
        # a first score of inf is not below inf
        falling = falling and (value < last or not scores)
        scores[document] = last = value
    return scores if falling else None


def grade_row(judged: Mapping[Any, Any], query_id: str) -> list[int]:
    """Return one query's grades as integers."""
    grades = list(judged.values())
    # by type: isinstance() would let True pass as an int
    if not {*map(type, grades)} <= {int}:
        grades = [_grade(grade, query_id, document) for document, grade in judged.items()]
    if grades and (max(grades) > LARGEST_GRADE or min(grades) < -LARGEST_GRADE):
        wrong = next(document for document, g in judged.items() if abs(g) > LARGEST_GRADE)
        found = f"grade {plain(judged[wrong])!r} does not fit into 32 bits"
        raise _bad_grade(found, query_id, wrong)
    return grades


def _grade(grade: Any, query_id: str, document: object) -> int:
    """Return a grade as int; integral floats and NumPy integers are welcome, true is not."""
    found = f"grades are not integers, found {plain(grade)!r}"
    if isinstance(grade, bool) or not isinstance(grade, numbers.Real):
        raise _bad_grade(found, query_id, document)
    number = grade if isinstance(grade, numbers.Integral) else float(grade)
    if isinstance(number, float) and not number.is_integer():
        raise _bad_grade(f"{found}; are run and qrels swapped?", query_id, document)
    return int(number)


def plain(value: Any) -> Any:
    """Return a NumPy number as Python's, whose repr is what people write."""
    return value.item() if hasattr(value, "item") else value


def _bad_grade(found: str, query_id: str, document: object) -> DataError:
    return DataError(
        found,
        record=f"qrels: query '{query_id}', document '{document}'" if query_id else f"'{document}'",
        allowed=f"an integer from -{LARGEST_GRADE} to {LARGEST_GRADE}",
    )


def read_hit(item: Any, query_id: str) -> tuple[str, Any]:
    """Read a document id, a pair (id, score), or an object with `id` and `score`."""
    if isinstance(item, tuple) and len(item) == 2:
        document, score = item
    else:
        document, score = getattr(item, "id", item), getattr(item, "score", None)
    if not isinstance(document, str):
        raise bad_id(document, "run", query_id)
    return document, score


def ids_of(value: object, what: str, query_id: str) -> list[str]:
    """Return the ids of one query; refuse what is no collection of text."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise no_ids(value, what, query_id)
    ids = [*value]
    for each in ids:
        if not isinstance(each, str):
            raise bad_id(each, what, query_id)
    return ids


def no_ids(value: object, what: str, query_id: str | None = None) -> DataError:
    """Return the error for what one query has, or, without an id, for what all of them are in."""
    lists = {
        "run": "{document id: score}, or a list of document ids, best first",
        "qrels": "{document id: grade}, or a set or list of relevant document ids",
    }
    found, record = f"found {type(value).__name__}", f"{what}: query '{query_id}'"
    if query_id is None:
        return DataError(
            found, record=what, allowed=f"a mapping from each query id to {lists[what]}"
        )
    return DataError(found, record=record, allowed=lists[what])
