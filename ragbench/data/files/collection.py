"""Documents and queries of a data set: `corpus.jsonl`, `queries.jsonl` or TREC topics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.rows import Entry, read_jsonl
from ragbench.errors import DataError
from ragbench.records.codec import kind
from ragbench.types import Document, Query
from ragbench.types.packed_documents import PackedDocuments

TopicField = Literal["title", "description", "narrative"]
"""The parts of a TREC topic that can be the query."""

_QUERY_FIELDS = frozenset({"_id", "text", "metadata"})
_TAG = re.compile(r"<(/?top|num|title|desc|narr|/num|/title|/desc|/narr)>", re.IGNORECASE)
_FIELD_OF = {"title": "title", "desc": "description", "narr": "narrative"}
# the tags of the TREC topics repeat their names in words: `<desc> Description:`
_LABEL = re.compile(r"^\s*(?:Number|Topic|Description|Narrative)\s*:\s*", re.IGNORECASE)
_DOCUMENT_FIELDS = frozenset({"_id", "title", "text", "metadata"})
_SHOWN = 5
_NO_VALUES: dict[str, object] = {}


def read_documents(path: Path) -> Iterator[Document]:
    """Read `{"_id", "title"?, "text", "metadata"?}` lines; further keys become metadata."""
    first_lines: dict[str, Entry] = {}
    for entry in read_jsonl(path):
        document = _document(entry)
        check_unique(document.id, "_id", entry, first_lines)
        yield document


def check_unique(name: str, noun: str, entry: Entry, seen: dict[str, Entry]) -> None:
    """Note where an id is; raise a `DataError` with both places if it was seen before."""
    if name in seen:
        first = seen[name]
        other = f" of {first.file}" if first.file != entry.file else ""
        raise entry.error(f"{noun} '{name}' is repeated, first at {first.place}{other}")
    # its place alone: texts of a large corpus need not stay for it
    seen[name] = Entry(entry.file, entry.line, _NO_VALUES, entry.record)


def _document(entry: Entry) -> Document:
    title = entry.values.get("title")
    if title is not None and not isinstance(title, str):
        raise entry.error(f"'title' is {kind(title)}", allowed="text or null")
    return Document(
        entry.id("_id"), entry.text("text"), title or "", read_metadata(entry, _DOCUMENT_FIELDS)
    )


def read_metadata(entry: Entry, fields: frozenset[str]) -> dict[str, object]:
    """Return the object `metadata` of an entry, with the keys that are no fields of it."""
    metadata = entry.values.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise entry.error(f"'metadata' is {kind(metadata)}", allowed="an object or null")
    extra = {key: value for key, value in entry.values.items() if key not in fields}
    return {**extra, **(metadata or {})}


def encode_spaces(name: str) -> str:
    """Write white space as in a URL, so that a name can be an id.

    Example:
        >>> encode_spaces("guides/Getting started.md")
        'guides/Getting%20started.md'
    """
    return re.sub(r"[ \t\n\r\v\f]", lambda match: quote(match[0]), name)


def empty_note(documents: Sequence[Document]) -> str | None:
    """Say how many documents have neither title nor text, and which; None if there are none."""
    empty = (
        documents.empty
        if isinstance(documents, PackedDocuments)
        else [document.id for document in documents if not document.full_text.strip()]
    )
    if not empty:
        return None
    shown = ", ".join(empty[:_SHOWN]) + (", ..." if len(empty) > _SHOWN else "")
    return f"{len(empty)} empty document{'s' if len(empty) != 1 else ''}: {shown}"


def read_queries(path: Path) -> list[Query]:
    """Read `{"_id", "text", "metadata"?}` lines; further keys become metadata."""
    queries: list[Query] = []
    seen: dict[str, Entry] = {}
    for entry in read_jsonl(path):
        name, text = entry.id("_id"), entry.text("text")
        check_unique(name, "_id", entry, seen)
        if not text.strip():
            raise entry.error(f"query '{name}' has an empty text")
        queries.append(Query(name, text, read_metadata(entry, _QUERY_FIELDS)))
    return queries


def read_topics(path: Path, field: TopicField = "title") -> list[Query]:
    """Read topics: JSON lines by the suffix, TREC topics by their tags, or `id<TAB>text` lines.

    `field` is the part of a TREC topic that is the query; the others become metadata.
    """
    if plain_suffix(path) == ".jsonl":
        return read_queries(path)
    lines = list(text_lines(path))
    start = next((text.lstrip() for _, text in lines if text.strip()), "")
    entries = _tagged(lines, path) if start.startswith("<") else _tabbed(lines, path)
    queries: list[Query] = []
    seen: dict[str, Entry] = {}
    for entry in entries:
        name = entry.id("num")
        check_unique(name, "topic", entry, seen)
        key = field if start.startswith("<") else "title"
        if not entry.values.get(key):
            raise entry.error(f"topic '{name}' has no {key}")
        rest = {k: v for k, v in entry.values.items() if k not in ("num", key)}
        queries.append(Query(name, entry.values[key], rest))
    if not queries:
        raise DataError("no topics", file=path, allowed="<top> ... </top>, or id<TAB>text lines")
    return queries


def _tabbed(lines: list[tuple[int, str]], path: Path) -> Iterator[Entry]:
    for number, text in lines:
        if text.strip():
            name, tab, title = text.strip().partition("\t")
            entry = Entry(str(path), number, {"num": name.strip(), "title": title.strip()})
            if not tab:
                raise entry.error(f"no tab: '{text.strip()[:60]}'", allowed="id<TAB>text")
            yield entry


def _tagged(lines: list[tuple[int, str]], path: Path) -> Iterator[Entry]:
    """Yield the fields of every `<top>`; closing tags of the fields are optional, as in TREC."""
    entry: Entry | None = None
    field: str | None = None
    for number, text in lines:
        position = 0
        for match in [*_TAG.finditer(text), None]:
            end = match.start() if match else len(text)
            if entry is not None and field is not None:
                entry.values[field] = entry.values.get(field, "") + text[position:end]
            if match is None:
                break
            position, tag = match.end(), match[1].lower()
            if tag == "top":
                if entry is not None:
                    raise entry.error("<top> is not closed")
                entry, field = Entry(str(path), number, {}), None
            elif tag == "/top":
                if entry is not None:
                    yield _cleaned(entry)
                entry, field = None, None
            else:
                field = "num" if tag == "num" else _FIELD_OF.get(tag)
    if entry is not None:
        raise entry.error("<top> is not closed")


def _cleaned(entry: Entry) -> Entry:
    for key, value in entry.values.items():
        entry.values[key] = " ".join(_LABEL.sub("", value).split())
    return entry
