"""Documents and queries of a data set: files in the layout of BEIR, TREC topics, folders, tables.

A corpus that people have is a folder of texts, or a table with a document in each row: `corpus:
docs/` reads .txt and .md files, and with the extra `documents` also .pdf and .html files; `corpus:
passages.csv` reads the formats of tables.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ragbench.data.files.fields import content_id, counted
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.rows import (
    ID_ALLOWED,
    SUFFIXES,
    Entry,
    encode_spaces,
    id_problem,
    read_jsonl,
    read_rows,
)
from ragbench.errors import DataError, MissingExtra
from ragbench.records.codec import kind
from ragbench.types import Document, Query
from ragbench.types.packed_documents import PackedDocuments

# The parts of a TREC topic that can be the query.
TopicField = Literal["title", "description", "narrative"]

_QUERY_FIELDS = frozenset({"_id", "text", "metadata"})
_TAG = re.compile(r"<(/?top|num|title|desc|narr|/num|/title|/desc|/narr)>", re.IGNORECASE)
_FIELD_OF = {"title": "title", "desc": "description", "narr": "narrative"}
# the tags of the TREC topics repeat their names in words: `<desc> Description:`
_LABEL = re.compile(r"^\s*(?:Number|Topic|Description|Narrative)\s*:\s*", re.IGNORECASE)
_SHOWN = 5
_NO_VALUES: dict[str, object] = {}

# Part of a document -> the columns that are known for it, the first that is there is taken.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("_id", "id", "doc_id", "docid", "document_id", "passage_id", "chunk_id", "pid"),
    "text": ("text", "content", "contents", "body", "passage", "page_content", "document", "chunk"),
    "title": ("title", "heading"),
}
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_HIDDEN_TAGS = ("script", "style", "noscript", "template", "head")
_BLANK_LINES = re.compile(r"\n\s*\n+")
_EXTRA = "documents"


def read_documents(path: Path) -> Iterator[Document]:
    """Read `{"_id", "title"?, "text", "metadata"?}` lines; further keys become metadata."""
    first_lines: dict[str, Entry] = {}
    for entry in read_jsonl(path):
        document = read_document(entry, "_id")
        check_unique(document.id, "_id", entry, first_lines)
        yield document


def check_unique(name: str, noun: str, entry: Entry, seen: dict[str, Entry]) -> None:
    """Note where an id is; raise a `DataError` with both places if it was seen before."""
    if name in seen:
        first = seen[name]
        other = f" of {first.file}" if first.file != entry.file else ""
        raise entry.error(f"{noun} '{name}' is repeated, first at {first.place}{other}")
    # without its values: the texts of a large corpus must not stay in memory
    seen[name] = Entry(entry.file, entry.line, _NO_VALUES, entry.record)


def read_document(entry: Entry, id_key: str) -> Document:
    """Read `{id, "title"?, "text", "metadata"?}`; further keys become metadata."""
    title = entry.values.get("title")
    if title is not None and not isinstance(title, str):
        raise entry.error(f"'title' is {kind(title)}", allowed="text or null")
    metadata = read_metadata(entry, frozenset({id_key, "title", "text", "metadata"}))
    return Document(entry.id(id_key), entry.text("text"), title or "", metadata)


def read_metadata(entry: Entry, fields: frozenset[str]) -> dict[str, object]:
    """Return the object `metadata` of an entry, with the keys that are no fields of it."""
    metadata = entry.values.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise entry.error(f"'metadata' is {kind(metadata)}", allowed="an object or null")
    extra = {key: value for key, value in entry.values.items() if key not in fields}
    return {**extra, **(metadata or {})}


def corpus_notes(documents: Sequence[Document] | None, missing: str = "") -> list[str]:
    """Return a note with the documents that have neither title nor text, or `missing` for None."""
    if documents is None:
        return [missing] if missing else []
    empty = (
        documents.empty
        if isinstance(documents, PackedDocuments)
        else [document.id for document in documents if not document.full_text.strip()]
    )
    shown = ", ".join(empty[:_SHOWN]) + (", ..." if len(empty) > _SHOWN else "")
    return [f"{counted(len(empty), 'empty document')}: {shown}"] if empty else []


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
                    for key, value in entry.values.items():
                        entry.values[key] = " ".join(_LABEL.sub("", value).split())
                    yield entry
                entry, field = None, None
            else:
                field = "num" if tag == "num" else _FIELD_OF.get(tag)
    if entry is not None:
        raise entry.error("<top> is not closed")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents, and how they were read.

    Attributes:
        folder: The name of the folder that they come from; empty where they come from a file.
        notes: What was left out, and what is odd.
    """

    documents: Sequence[Document]
    folder: str = ""
    notes: list[str] = field(default_factory=list)


# Reads documents; what is odd is added to the list when all are read.
Read = Callable[[list[str]], Iterable[Document]]
# Returns what is read of some files below a folder, with what was odd.
Keep = Callable[[Path, Sequence[Path], Read], tuple[Sequence[Document], list[str]]]


def in_memory(folder: Path, files: Sequence[Path], read: Read) -> tuple[list[Document], list[str]]:
    """Read documents into a list."""
    odd = list[str]()
    return list(read(odd)), odd


def read_corpus(path: Path, keep: Keep = in_memory) -> Corpus:
    """Read a corpus: a folder of documents, or a file with a document in each row.

    `keep` may have it from the time before, or keep it where it takes no memory.

    Raises:
        DataError: No document, or one that cannot be read.
        MissingExtra: .pdf or .html files, or Parquet, without what reads them.
    """
    if os.path.isdir(path):
        return _read_folder(path, keep)
    known = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
    if os.path.exists(path) and plain_suffix(path) not in known:
        allowed = f"{SUFFIXES}, or a folder of .txt and .md files"
        raise DataError(f"'{path.name}' is no corpus", file=path, allowed=allowed)
    documents, odd = keep(path.parent, [Path(path.name)], lambda odd: _read_rows(path, odd))
    return Corpus(documents, notes=[*corpus_notes(documents), *odd])


def _read_rows(path: Path, odd: list[str]) -> Iterator[Document]:
    seen: dict[str, Entry] = {}
    without_id = repeated = 0
    columns: dict[str, str] = {}
    for entry in read_rows(path, "corpus"):
        columns = {part: name for part in _NAMES if (name := _column(entry, part))}
        if "text" not in columns:
            has = ", ".join(entry.values) or "none"
            raise entry.error(f"no text (columns: {has})", allowed=", ".join(_NAMES["text"]))
        document = _row_document(entry, columns)
        without_id += "id" not in columns
        # without an id, the same text is the same document
        if "id" not in columns and document.id in seen:
            repeated += 1
            continue
        check_unique(document.id, columns.get("id", "id"), entry, seen)
        yield document
    if without_id:
        same = f"; {repeated} repeated ones left out" if repeated else ""
        odd.append(f"{without_id} documents have no id: hashes of their texts{same}")


def _read_folder(folder: Path, keep: Keep) -> Corpus:
    """Read the documents below a folder, in the order of their names.

    The id is the path within the folder, with white space as %20, since run files are split at it;
    the title is the first heading, or else the file's name. Hidden files are left out, empty ones
    are empty documents.
    """
    paths = sorted(
        (path.relative_to(folder) for path in folder.rglob("*") if path.is_file()),
        key=lambda path: path.parts,
    )
    shown = [path for path in paths if not any(part[0] == "." for part in path.parts)]
    wanted = [path for path in shown if path.suffix.lower() in _READERS]
    if not wanted:
        allowed = f"{', '.join(_READERS)} files"
        raise DataError("no documents in the folder", file=folder, allowed=allowed)
    notes = []
    if others := Counter(path.suffix.lower() for path in shown if path not in set(wanted)):
        kinds = ", ".join(
            f"{count} {name or 'without an ending'}" for name, count in others.items()
        )
        notes.append(f"files of {folder} that are no documents: {kinds}")
    documents, _ = keep(folder, wanted, lambda odd: (_read_file(folder, path) for path in wanted))
    return Corpus(documents, folder.resolve().name, [*notes, *corpus_notes(documents)])


def _read_file(folder: Path, path: Path) -> Document:
    whole = folder / path
    text, title = ("", "")
    if whole.stat().st_size:
        text, title = _READERS[path.suffix.lower()](whole)
    return Document(encode_spaces(path.as_posix()), text, title or path.name)


def _read_plain(path: Path) -> tuple[str, str]:
    return "".join(line for _, line in text_lines(path)), ""


def _read_markdown(path: Path) -> tuple[str, str]:
    text, _ = _read_plain(path)
    return text, _first_heading(text) or ""


def _first_heading(text: str) -> str | None:
    """The first `# heading` outside of fenced code, where '#' starts a comment."""
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (match := _HEADING.match(line)) and match[1]:
            return match[1]
    return None


def _read_html(path: Path) -> tuple[str, str]:
    """The text that a reader sees, and the title of the page."""
    try:
        from bs4 import BeautifulSoup
    except ImportError as error:
        raise MissingExtra(f"corpus: {path.name}", "beautifulsoup4", _EXTRA) from error
    page = BeautifulSoup(path.read_bytes(), "html.parser")
    heading = page.title or page.find("h1")
    title = " ".join(heading.get_text(" ").split()) if heading else ""
    for tag in page.find_all(_HIDDEN_TAGS):
        tag.decompose()
    lines = (line.strip() for line in page.get_text("\n").splitlines())
    return "\n".join(line for line in lines if line), title


def _read_pdf(path: Path) -> tuple[str, str]:
    """The text of all pages; one of scanned pages has none, and counts as empty."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise MissingExtra(f"corpus: {path.name}", "pypdf", _EXTRA) from error
    try:
        pages = [page.extract_text() for page in PdfReader(path).pages]
    except (PyPdfError, OSError, ValueError, KeyError, RecursionError) as error:
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        raise DataError(f"cannot be read as PDF: {reason}", file=path) from error
    return _BLANK_LINES.sub("\n\n", "\n\n".join(pages)).strip(), ""


# Ending -> what reads a file's text and title.
_READERS: Mapping[str, Callable[[Path], tuple[str, str]]] = {
    ".txt": _read_plain,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": _read_pdf,
}


def _column(entry: Entry, part: str) -> str | None:
    return next((name for name in _NAMES[part] if name in entry.values), None)


def _row_document(entry: Entry, columns: Mapping[str, str]) -> Document:
    texts = {}
    for part in ("text", "title"):
        value = entry.values.get(columns.get(part, ""))
        if value is None or value != value:  # an empty cell, which pandas writes as NaN
            value = ""
        if not isinstance(value, str):
            allowed = "text" if part == "text" else "text or null"
            raise entry.error(f"'{columns[part]}' is {kind(value)}", allowed=allowed)
        texts[part] = value
    name = content_id(texts["text"]) if "id" not in columns else _id(entry, columns["id"])
    fields = frozenset(columns.values()) | {"metadata"}
    return Document(name, texts["text"], texts["title"], read_metadata(entry, fields))


def _id(entry: Entry, column: str) -> str:
    value = entry.values[column]
    if not isinstance(value, str):
        return entry.id(column)
    name = encode_spaces(value.strip())
    if why := id_problem(name):
        raise entry.error(f"'{column}' {why}: {value!r}", allowed=ID_ALLOWED)
    return name
