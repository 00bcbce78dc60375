"""Runs and qrels out of data frames: pandas, polars and Arrow, none of them imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from ragbench.errors import DataError

QUERY = ("query_id", "qid", "q_id", "query-id", "query")
DOCUMENT = ("doc_id", "docid", "docno", "document_id", "corpus-id", "doc")
SCORE = ("score",)
GRADE = ("relevance", "grade", "label", "rel", "score")
"""Names of columns as BEIR, ir_measures, ir_datasets, PyTerrier and pandas users write them."""


class Frame(Protocol):
    """A table with named columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a column."""
        ...


def is_frame(value: object) -> TypeGuard[Frame]:
    """Tell whether a value is a table with named columns, as against a mapping of mappings."""
    return not isinstance(value, Mapping) and (
        hasattr(value, "column_names") or hasattr(value, "columns")
    )


def rankings_of(frame: Frame) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Return {query id: {document id: score}} of a frame with a row per hit, and what it repeats.

    A document that a query has again counts once, at its best score, as in a run file.
    """
    found: dict[str, dict[str, float]] = {}
    duplicates: dict[str, int] = {}
    for query, document, score in _rows(frame, SCORE, "run"):
        ranking = found.setdefault(query, {})
        if document in ranking:
            duplicates[query] = duplicates.get(query, 0) + 1
            if ranking[document] != ranking[document] or score <= ranking[document]:
                continue  # a NaN stays, to be refused by name
        ranking[document] = score
    return found, duplicates


def judgements_of(frame: Frame) -> dict[str, dict[str, Any]]:
    """Return {query id: {document id: grade}} of a frame with a row per judgement."""
    found: dict[str, dict[str, Any]] = {}
    for query, document, grade in _rows(frame, GRADE, "qrels"):
        judged = found.setdefault(query, {})
        if judged.setdefault(document, grade) != grade:
            what = f"document '{document}' is judged {judged[document]} and {grade}"
            raise DataError(what, record=f"query '{query}'", allowed="one grade for each pair")
    return found


def _rows(frame: Frame, value: Sequence[str], noun: str) -> Iterator[tuple[Any, Any, Any]]:
    arrow: bool = hasattr(frame, "column_names")
    present: Any = getattr(frame, "column_names" if arrow else "columns")
    names = [str(name) for name in present]
    query, document, number = (
        _column(frame, names, usual, noun) for usual in (QUERY, DOCUMENT, value)
    )
    return zip(query, document, number, strict=True)


def _column(frame: Frame, names: Sequence[str], usual: Sequence[str], noun: str) -> list[Any]:
    name = next((name for name in usual if name in names), None)
    if name is None:
        found = f"{noun}: no column {usual[0]} (columns: {', '.join(names)})"
        raise DataError(found, allowed=f"one of {', '.join(usual)}")
    column = frame[name]
    for method in ("tolist", "to_list", "to_pylist"):  # pandas, polars, Arrow
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)
