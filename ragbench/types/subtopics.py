"""Judgements under subtopics, as TREC's diversity tasks have them: read, checked, fingerprinted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from ragbench.errors import DataError
from ragbench.types.cells import grade_row, plain

Subtopics = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Query -> document -> subtopic -> grade; what has no subtopic covers nothing."""


def has_subtopics(qrels: Mapping[Any, Any]) -> TypeGuard[Mapping[str, Mapping[str, Any]]]:
    """Tell {query: {document: {subtopic: grade}}} from {query: {document: grade}}.

    The first judgement tells: to look at all would cost every caller a pass.
    """
    judged = next((row for row in qrels.values() if row), None)
    return isinstance(judged, Mapping) and isinstance(next(iter(judged.values())), Mapping)


def check_subtopics(qrels: Mapping[str, Mapping[str, Any]]) -> Subtopics:
    """Return judgements with text subtopics and integer grades.

    Raises:
        DataError: A document with a grade of its own, a subtopic that is neither text nor an
            integer, or a grade that is no integer; names query and document.
    """
    return {
        query: {document: _checked(topics, query, document) for document, topics in judged.items()}
        for query, judged in qrels.items()
    }


def _checked(topics: Any, query: str, document: str) -> dict[str, int]:
    if not isinstance(topics, Mapping):
        raise DataError(
            f"found {plain(topics)!r} where others have subtopics",
            record=f"qrels: query '{query}', document '{document}'",
            allowed="{subtopic: grade}",
        )
    for topic in topics:
        if not isinstance(topic, (str, int)) or isinstance(topic, bool):
            raise DataError(
                f"subtopic {topic!r} is neither text nor an integer",
                record=f"qrels: query '{query}', document '{document}'",
            )
    return dict(zip(map(str, topics), grade_row(topics, query), strict=True))


def best_grades(subtopics: Subtopics) -> dict[str, dict[str, int]]:
    """Return query -> document -> its best grade, 0 where it has no subtopic.

    Example:
        >>> best_grades({"q": {"d1": {"a": 1, "b": 3}, "d2": {}}})
        {'q': {'d1': 3, 'd2': 0}}
    """
    return {
        query: {document: max(topics.values(), default=0) for document, topics in judged.items()}
        for query, judged in subtopics.items()
    }


def subtopics_digest(subtopics: Subtopics) -> str:
    """Return 12 hexadecimal digits of the content, whatever the order of the rows."""
    text = json.dumps(subtopics, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:12]
