"""Gold answers: `answers.jsonl`, lines of `{"query_id", "answers": [...]}`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.data.corpus import check_unique
from ragbench.data.jsonl import Entry, kind, read_jsonl
from ragbench.data.judgements import dangling
from ragbench.types import Query


def read_answers(path: Path, queries: Sequence[Query]) -> dict[str, list[str]]:
    """Read gold answers by query id; a query with an empty list has none.

    Raises:
        DataError: A wrong field, a query that occurs twice, or one that is not in the queries.
    """
    answers: dict[str, list[str]] = {}
    seen: dict[str, Entry] = {}
    for entry in read_jsonl(path):
        query_id = entry.id("query_id")
        check_unique(query_id, "query_id", entry, seen)
        answers[query_id] = _texts(entry)
    known = {query.id for query in queries}
    missing = [(entry.line or 0, name) for name, entry in seen.items() if name not in known]
    if missing:
        raise dangling(str(path), "query", missing, known, "queries.jsonl")
    return {query_id: gold for query_id, gold in answers.items() if gold}


def _texts(entry: Entry) -> list[str]:
    value = entry.field("answers")
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise entry.error(f"'answers' is {kind(value)}", allowed="a list of texts")
    for position, text in enumerate(value, start=1):
        if not isinstance(text, str):
            raise entry.error(f"answer {position} is {kind(text)}", allowed="text")
    return value
