"""Nuggets of queries: JSON lines as the TREC RAG track and AutoNuggetizer write them."""

from __future__ import annotations

from pathlib import Path

from ragbench.data.files.jsonl import Entry, read_jsonl
from ragbench.registry import nearest, shown
from ragbench.types.records import ASSIGNMENTS, IMPORTANCES, Nugget

_KEYS = ("text", "importance", "assignment")
_WORDS = {"importance": IMPORTANCES, "assignment": ASSIGNMENTS}


def read_nuggets(path: Path) -> dict[str, tuple[Nugget, ...]]:
    """Read query id -> nuggets.

    A line has `qid` (or `query_id`), `query` for people, and `nuggets`: a list of `text`,
    `importance` (vital or okay) and, in files about answers, `assignment`. A file of assignments
    has a line for each answer to a query: their nuggets must be the same ones.

    Raises:
        DataError: Something is not of this form; names the line and the nugget.
    """
    found: dict[str, tuple[Nugget, ...]] = {}
    for entry in read_jsonl(path):
        query = entry.id("query_id" if "query_id" in entry.values else "qid")
        listed = entry.field("nuggets")
        if not isinstance(listed, list):
            raise entry.error(f"'nuggets' is {shown(listed)}", allowed="a list of nuggets")
        nuggets = tuple(_nugget(entry, n, each) for n, each in enumerate(listed, start=1))
        texts = [nugget.text for nugget in nuggets]
        if repeated := next((text for text in texts if texts.count(text) > 1), None):
            raise entry.error(f"nugget {shown(repeated)} comes twice", allowed="each nugget once")
        before = found.setdefault(query, nuggets)
        if [nugget[:2] for nugget in before] != [nugget[:2] for nugget in nuggets]:
            allowed = "one list of nuggets for each query"
            raise entry.error(
                f"query '{query}' has other nuggets on an earlier line", allowed=allowed
            )
    return found


def _nugget(entry: Entry, number: int, value: object) -> Nugget:
    if not isinstance(value, dict):
        allowed = '{"text": "...", "importance": "vital"}'
        raise entry.error(f"nugget {number} is {shown(value)}", allowed=allowed)
    for key in _KEYS[:2]:
        if key not in value:
            near = nearest(key, value)
            raise entry.error(
                f"nugget {number} has no '{key}'", allowed=", ".join(_KEYS), near=near
            )
    text = value["text"]
    if not isinstance(text, str) or not text.strip():
        raise entry.error(f"nugget {number}: text is {shown(text)}", allowed="a text")
    for key, words in _WORDS.items():
        if (given := value.get(key)) is not None and given not in words:
            close = nearest(given, words) if isinstance(given, str) else None
            found = f"nugget {number}: {key} is {shown(given)}"
            raise entry.error(found, allowed=", ".join(words), near=close)
    if value["importance"] is None:
        raise entry.error(f"nugget {number}: importance is null", allowed=", ".join(IMPORTANCES))
    return Nugget(text, value["importance"], value.get("assignment"))
