"""Documents and queries of a data set: BEIR files, TREC topics, folders of texts, tables.

`corpus: docs/` reads a folder of .txt and .md files, and with the extra `documents` also .pdf and
.html files; `corpus: passages.csv` reads a table with a document in each row.
"""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from ragbench.data.files import rows
from ragbench.data.files.fields import content_id, counted
from ragbench.data.files.forms import find_form
from ragbench.data.files.lines import plain_suffix, text_lines
from ragbench.data.files.published_rows import read_published
from ragbench.data.files.tables import find_tables, read_all_splits
from ragbench.errors import DataError, MissingExtra, OptionError, Phrase
from ragbench.records.codec import kind
from ragbench.types import Document, Query
from ragbench.types.tables import is_frame, plain, rows_of

# The parts of a TREC topic that can be the query.
TopicField = Literal["title", "description", "narrative"]

_QUERY_FIELDS = frozenset({"text", "metadata"})
_TOP = re.compile(
    r"<top>(?P<content>.*?)(?:(?P<end></top>)|(?=<top>)|\Z)", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(r"<(/?(?:num|title|desc|narr))>", re.IGNORECASE)
_FIELD_OF = {"num": "num", "title": "title", "desc": "description", "narr": "narrative"}
# the tags of TREC topics repeat their names in words: `<desc> Description:`
_LABEL = re.compile(r"^\s*(?:Number|Topic|Description|Narrative)\s*:\s*", re.IGNORECASE)
_LISTED_IDS = 5
_LARGE = 50 * 10**6  # bytes of a text in UTF-8
_NO_VALUES: dict[str, object] = {}

# Part of a document -> the usual names of its column; the first one in the table counts.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "id": ("_id", "id", "doc_id", "docid", "document_id", "passage_id", "chunk_id", "pid"),
    "text": ("text", "content", "contents", "body", "passage", "page_content", "document", "chunk"),
    "title": ("title", "heading"),
}
_HEADING = re.compile(r" {0,3}#{1,6}(?=[ \t])")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_HIDDEN_TAGS = ("script", "style", "noscript", "template", "head")
_BLANK_LINES = re.compile(r"\n\s*\n+")
_EXTRA = "documents"


def read_documents(path: Path, split: str | None = None) -> Iterator[Document]:
    """Yield the documents of BEIR: rows of `{"_id" or "id", "title"?, "text", "metadata"?}`.

    Further keys become metadata. Documents come in the order of the rows; a missing title is ''.

    Args:
        path: A file such as `corpus.jsonl`, or a folder of tables.
        split: The split of a folder, if it has that one; else all splits are read.

    Raises:
        DataError: The file cannot be read or has no records, a row is no such object, or an id
            comes again; names the row.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    entries: dict[str, rows.Entry] = {}
    for entry in read_all_splits(path, "corpus", split):
        key = id_key(entry)
        document = read_document(entry, key)
        check_unique(document.id, key, entry, entries)
        yield document


def id_key(entry: rows.Entry) -> str:
    """Return the key of the id in a row of BEIR: `_id`, or `id` as mteb writes it today."""
    return "id" if "id" in entry.values and "_id" not in entry.values else "_id"


def check_unique(name: str, noun: str, entry: rows.Entry, entries: dict[str, rows.Entry]) -> None:
    """Add an id to the ids of a file.

    Args:
        name: The id.
        noun: Noun for the owner of the id in the message, such as `answer`.
        entry: The row with the id.
        entries: Id -> its first row, without values; receives the id.

    Raises:
        DataError: An earlier row has the id; the message names both rows.
    """
    if name in entries:
        first = entries[name]
        other = f" of {first.file}" if first.file != entry.file else ""
        place = f"at {first.place}{other}" if first.place else f"in {first.file}"
        raise entry.error(f"{noun} '{name}' is repeated, first {place}")
    # without its values: the texts of a large corpus must not stay in memory
    entries[name] = rows.Entry(entry.file, entry.line, _NO_VALUES, entry.record)


def read_document(entry: rows.Entry, id_key: str) -> Document:
    """Return the document in a row `{id, "title"?, "text", "metadata"?}`.

    Further keys become metadata. A missing title is ''; the text may be empty.

    Raises:
        DataError: The id or the text is missing, the id is empty or has white space, or a field has
            the wrong kind.
    """
    title = entry.values.get("title")
    if title is not None and not isinstance(title, str):
        raise entry.error(f"'title' is {kind(title)}", allowed="text or null")
    metadata = read_metadata(entry, frozenset({id_key, "title", "text", "metadata"}))
    return Document(entry.id(id_key), entry.text("text"), title or "", metadata)


def read_metadata(entry: rows.Entry, fields: frozenset[str]) -> dict[str, object]:
    """Return the keys of a row that are not in `fields`, updated with its object `metadata`.

    `fields` has to include `metadata`. A key of `metadata` wins over the same key of the row.

    Raises:
        DataError: `metadata` is neither an object nor null.
    """
    metadata = entry.values.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise entry.error(f"'metadata' is {kind(metadata)}", allowed="an object or null")
    further = {}
    for key, value in entry.values.items():
        if key not in fields:
            further[key] = value
    return {**further, **(metadata or {})}


def corpus_notes(documents: Sequence[Document] | None, missing: str = "") -> list[str]:
    """Return a list with at most one note: the number of blank documents, and the first 5 ids.

    A blank document has neither a title nor a text. Without a corpus (`documents` is None), the
    note is `missing`, if it is not empty.
    """
    if documents is None:
        return [missing] if missing else []
    empty = []
    for document in documents:
        title, text = document.title, document.text
        # `isspace` makes no copy of a large text, as `strip` does
        if (not title or title.isspace()) and (not text or text.isspace()):
            empty.append(document.id)
    ids = ", ".join(empty[:_LISTED_IDS]) + (", ..." if len(empty) > _LISTED_IDS else "")
    return [f"{counted(len(empty), 'empty document')}: {ids}"] if empty else []


def large_document_notes(documents: Iterable[Document] | None) -> list[str]:
    """Return a note on each document with a text of more than 50 MB in UTF-8.

    Such a file is rarely one document, and takes minutes to index.
    """
    notes = []
    for document in documents or ():
        if 4 * len(document.text) <= _LARGE:  # a character has four bytes at most
            continue
        size = len(document.text.encode("utf-8", "surrogatepass"))
        if size > _LARGE:
            notes.append(
                f"document '{document.id}' has {size / 1e6:,.0f} MB and is indexed as one text; "
                f"split files above {_LARGE // 10**6} MB"
            )
    return notes


def read_queries(path: Path, split: str | None = None) -> list[Query]:
    """Read the queries of BEIR: rows of `{"_id" or "id", "text", "metadata"?}`.

    Further keys become metadata. The queries are in the order of the rows. Arguments and errors are
    those of `read_documents`; a query with an empty text is a DataError, too.
    """
    queries: list[Query] = []
    entries: dict[str, rows.Entry] = {}
    for entry in read_all_splits(path, "queries", split):
        key = id_key(entry)
        name, text = entry.id(key), entry.text("text")
        check_unique(name, key, entry, entries)
        if not text.strip():
            raise entry.error(f"query '{name}' has an empty text")
        queries.append(Query(name, text, read_metadata(entry, frozenset({key, *_QUERY_FIELDS}))))
    return queries


def read_topics(path: Path, field: TopicField = "title") -> list[Query]:
    """Read topics: JSON lines by the suffix, TREC topics by their tags, or `id<TAB>text` lines.

    The topics are in the order of the file. A file whose text begins with `<` has TREC topics, with
    tags in any case. Blank lines are skipped. Only TREC topics use `field`, and only they and
    `.jsonl` have metadata.

    Args:
        path: The file.
        field: Part of a TREC topic that becomes the query: `title`, `description` or `narrative`;
            the other parts become metadata.

    Raises:
        DataError: The file cannot be read, or a topic lacks its text or has no valid id of its own.
    """
    if plain_suffix(path) == ".jsonl":
        return read_queries(path)
    lines = list(text_lines(path))
    start = next((text.lstrip() for _, text in lines if text.strip()), "")
    entries = _tagged(lines, path) if start.startswith("<") else _tabbed(lines, path)
    queries: list[Query] = []
    first_entries: dict[str, rows.Entry] = {}
    for entry in entries:
        name = entry.id("num")
        check_unique(name, "topic", entry, first_entries)
        key = field if start.startswith("<") else "title"
        if not entry.values.get(key):
            raise entry.error(f"topic '{name}' has no {key}")
        metadata = {}
        for column, value in entry.values.items():
            if column not in ("num", key):
                metadata[column] = value
        queries.append(Query(name, entry.values[key], metadata))
    if not queries:
        raise DataError("no topics", file=path, allowed="<top> ... </top>, or id<TAB>text lines")
    return queries


def _tabbed(lines: list[tuple[int, str]], path: Path) -> Iterator[rows.Entry]:
    """Yield a row of `num` and `title` for each `id<TAB>text` line of (line number, text)."""
    for number, text in lines:
        if text.strip():
            name, tab, title = text.strip().partition("\t")
            entry = rows.Entry(str(path), number, {"num": name.strip(), "title": title.strip()})
            if not tab:
                raise entry.error(f"no tab: '{text.strip()[:60]}'", allowed="id<TAB>text")
            yield entry


def _tagged(lines: list[tuple[int, str]], path: Path) -> Iterator[rows.Entry]:
    """Yield the fields of each `<top>` of a TREC file; closing tags of the fields are optional."""
    text = "".join(line for _, line in lines)
    number, position = 1, 0
    for top in _TOP.finditer(text):
        # from the last topic on: from the start of the text, many topics would take seconds
        number, position = number + text.count("\n", position, top.start()), top.start()
        entry = rows.Entry(str(path), number, {})
        if not top["end"]:
            raise entry.error("<top> is not closed")
        _, *parts = _TAG.split(top["content"])
        for tag, part in zip(parts[::2], parts[1::2], strict=True):
            # the text after a closing tag belongs to no field
            if (name := _FIELD_OF.get(tag.lower())) is not None:
                entry.values[name] = entry.values.get(name, "") + part
        for name, value in entry.values.items():
            entry.values[name] = " ".join(_LABEL.sub("", value).split())
        yield entry


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents for retrieval, with notes on how they were read by `read_corpus` or `corpus_of`.

    Attributes:
        folder: Name of the folder of the documents; empty for a file and for values of a program.
        notes: Sentences on files that were left out and on empty documents; may be empty.
        documents: The documents, in the order of the rows or of the paths; at least one.
    """

    documents: Sequence[Document]
    folder: str = ""
    notes: list[str] = field(default_factory=list)


def read_corpus(path: Path) -> Corpus:
    """Read a corpus: a folder of documents or of tables, or a file with a document in each row.

    A file with questions in a published form has its passages as documents. In a folder, the id of
    a document is its path below the folder. A document without an id in a file gets a hash of its
    text, and equal texts count once.

    Raises:
        DataError: The path or its format cannot be read, or a document has no text or an id that
            comes again.
        MissingExtra: .pdf or .html files without the extra `documents`, Parquet without `parquet`.
    """
    if os.path.isdir(path):
        has_texts = any(file.suffix.lower() in _READERS for file in path.rglob("*"))
        # a folder without anything to read is reported as one of documents
        is_table = not has_texts and bool(find_tables(path))
        return _read_tables(path) if is_table else _read_folder(path)
    if not os.path.exists(path):
        raise DataError("no such file or folder", file=path)
    suffixes = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
    if plain_suffix(path) not in suffixes:
        allowed = f"{rows.SUFFIXES}, or a folder of .txt and .md files"
        raise DataError(f"'{path.name}' is no corpus", file=path, allowed=allowed)
    return _read_tables(path)


def _read_tables(path: Path) -> Corpus:
    """Read a corpus from tables, with a document per row or in the rows of a form."""
    notes: list[str] = []
    entries = read_all_splits(path, "corpus")
    first = next(entries, None)
    entries = entries if first is None else chain([first], entries)
    # other rows stay an iterator: a large corpus is not held twice
    if first is not None and find_form(first.values) is not None:
        rows_of_form = list(entries)
        published = read_published(rows_of_form, {})
        entries = iter(published.documents or rows_of_form)
    documents = list(_documents_of(entries, notes))
    return Corpus(documents, notes=[*corpus_notes(documents), *notes])


def corpus_of(value: object) -> Corpus:
    """Return the documents that a program passes as a corpus, checked.

    They keep their order. Texts, and rows without an id, get a hash of their text as id, and equal
    texts count once. If all are documents of LangChain and each has another `metadata.source`, it
    is the id of those without one.

    Args:
        value: Path of a folder or file as `read_corpus` takes it ('' is the working folder), a data
            frame with a row per document, a mapping id -> text, or a list of texts, mappings,
            `Document`s and documents of LangChain.

    Raises:
        DataError: There is no document, a path cannot be read, or a document is wrong.
        OptionError: The value has another type.
        MissingExtra: The format of a file needs an extra.

    Example:
        >>> corpus_of(["Io is hot.", {"id": "io", "text": "Io."}]).documents[1].id
        'io'
    """
    if isinstance(value, (str, Path)):
        return read_corpus(Path(value))
    items: list[Any]
    if is_frame(value):
        items = rows_of(value, "documents")
    elif isinstance(value, Mapping):
        items = []
        for name, text in value.items():
            items.append({"id": name, "text": text})
    elif isinstance(value, Iterable):
        items = list(value)
    else:
        allowed = "a path, a data frame, {id: text}, a list of texts, of mappings or of documents"
        raise OptionError("run_experiment", "documents", Phrase(type(value).__name__), allowed)
    values = [_document_values(item) for item in items]
    if all(hasattr(item, "page_content") for item in items):
        sources = []
        for row in values:
            sources.append(str(row["metadata"].get("source", "")))
        # the chunks of one file have one source, which names none of them
        if len({*sources} - {""}) == len(items):
            values = [{"id": name, **row} for name, row in zip(sources, values, strict=True)]
    notes: list[str] = []
    entries = []
    for position, row in enumerate(values):
        entries.append(rows.Entry("documents", None, row, record=f"documents[{position}]"))
    documents = list(_documents_of(entries, notes))
    if not documents:
        raise DataError("no documents", file="documents", allowed="at least one")
    return Corpus(documents, notes=[*corpus_notes(documents), *notes])


def _document_values(item: object) -> dict[str, Any]:
    """Return the fields of a document that a program passes; a bare text has the field `text`."""
    if isinstance(item, Document):
        return structs.asdict(item)
    values = plain({"text": item} if isinstance(item, str) else item)
    if not isinstance(values, dict):
        allowed = "a text, a mapping with text, ragbench.Document, a document of LangChain"
        raise DataError(f"found {kind(item)}", file="documents", allowed=allowed)
    return values


def _documents_of(entries: Iterable[rows.Entry], notes: list[str]) -> Iterator[Document]:
    """Yield the document of each row of a table, by the first of the usual names of its columns."""
    first_rows: dict[str, rows.Entry] = {}
    without_id = repeated = 0
    columns: dict[str, str] = {}
    for entry in entries:
        columns = {}
        for part, names_of_part in _NAMES.items():
            if name := next(filter(entry.values.__contains__, names_of_part), None):
                columns[part] = name
        if "text" not in columns:
            names = ", ".join(entry.values) or "none"
            raise entry.error(f"no text (columns: {names})", allowed=", ".join(_NAMES["text"]))
        document = _row_document(entry, columns)
        without_id += "id" not in columns
        # without an id, the same text is the same document
        if "id" not in columns and document.id in first_rows:
            repeated += 1
            continue
        check_unique(document.id, columns.get("id", "id"), entry, first_rows)
        yield document
    if without_id:
        same = f"; {repeated} repeated ones left out" if repeated else ""
        notes.append(f"{without_id} documents have no id: hashes of their texts{same}")


def _read_folder(folder: Path) -> Corpus:
    """Read the documents below a folder, in the order of their paths."""
    # The id is the path within the folder, with white space as %20, since run files are split at
    # white space.
    files, suffixes = list[Path](), Counter[str]()
    for full_path in sorted(folder.rglob("*"), key=lambda path: path.parts):
        path = full_path.relative_to(folder)
        is_hidden = any(part[0] == "." for part in path.parts)
        if is_hidden or not full_path.is_file():
            continue
        suffix = path.suffix.lower()
        if suffix in _READERS:
            files.append(path)
        else:
            suffixes[suffix] += 1
    if not files:
        allowed = f"{', '.join(_READERS)} files"
        raise DataError("no documents in the folder", file=folder, allowed=allowed)
    notes = []
    kinds = []
    for suffix, count in suffixes.items():
        kinds.append(f"{count} {suffix or 'without an ending'}")
    if kinds:
        notes.append(f"files of {folder} that are no documents: {', '.join(kinds)}")
    documents = [_read_file(folder, path) for path in files]
    return Corpus(documents, folder.resolve().name, [*notes, *corpus_notes(documents)])


def _read_file(folder: Path, path: Path) -> Document:
    """Return the document of a file; `path` is relative to the folder."""
    full_path = folder / path
    text, title = ("", "")
    try:
        # the readers of text files refuse an empty file
        if full_path.stat().st_size:
            text, title = _READERS[path.suffix.lower()](full_path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=full_path) from error
    return Document(rows.encode_spaces(path.as_posix()), text, title or path.name)


def _read_plain(path: Path) -> tuple[str, str]:
    """Return (text, '') of a UTF-8 file; raise `DataError` if it is empty or cannot be read."""
    # a list of all lines would take up to forty times the bytes of the file
    text = io.StringIO(newline="")
    for _, line in text_lines(path):
        text.write(line)
    return text.getvalue(), ""


def _read_markdown(path: Path) -> tuple[str, str]:
    """Return (whole text, first heading without its `#` or '') of a Markdown file."""
    text, _ = _read_plain(path)
    is_fenced = False
    for line in _lines_of(text):
        if _FENCE.match(line):
            is_fenced = not is_fenced
        elif not is_fenced and (title := _heading(line)):
            return text, title
    return text, ""


def _lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text one by one: a large text is not copied as a whole."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield from text[start:end].splitlines()
        start = end


def _heading(line: str) -> str:
    """Return the text of a heading without `#` at its ends; '' for another line."""
    match = _HEADING.match(line)
    if match is None:
        return ""
    text = line[match.end() :].rstrip(" \t")
    title = text.rstrip("#")
    # `C#` keeps its sign, which no blank parts from it
    return (title if title.endswith((" ", "\t")) else text).strip(" \t")


def _read_html(path: Path) -> tuple[str, str]:
    """Return the visible text of a page, without scripts and styles, and its title."""
    try:
        from bs4 import BeautifulSoup
    except ImportError as error:
        raise MissingExtra(f"corpus: {path.name}", "beautifulsoup4", _EXTRA) from error
    page = BeautifulSoup(path.read_bytes(), "html.parser")
    # before <head> is removed, which holds the title
    heading = page.title or page.find("h1")
    title = " ".join(heading.get_text(" ").split()) if heading else ""
    for tag in page.find_all(_HIDDEN_TAGS):
        tag.decompose()
    lines = []
    for line in page.get_text("\n").splitlines():
        if line.strip():
            lines.append(line.strip())
    return "\n".join(lines), title


def _read_pdf(path: Path) -> tuple[str, str]:
    """Return (text of all pages, ''), with a blank line between pages."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise MissingExtra(f"corpus: {path.name}", "pypdf", _EXTRA) from error
    try:
        pages = [page.extract_text() for page in PdfReader(path).pages]
    # pypdf raises errors of many kinds on damaged files
    except (PyPdfError, OSError, ValueError, KeyError, RecursionError) as error:
        reason = str(error).split("\n", 1)[0] or type(error).__name__
        raise DataError(f"cannot be read as PDF: {reason}", file=path) from error
    return _BLANK_LINES.sub("\n\n", "\n\n".join(pages)).strip(), ""


# Ending of a file -> function that returns its text and its title.
_READERS: Mapping[str, Callable[[Path], tuple[str, str]]] = {
    ".txt": _read_plain,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": _read_pdf,
}


def _row_document(entry: rows.Entry, columns: Mapping[str, str]) -> Document:
    """Return the document of a row; without a column for the id, the id is a hash of the text."""
    texts = {}
    for part in ("text", "title"):
        value = entry.values.get(columns[part]) if part in columns else None
        if value is None or value != value:  # an empty cell, which pandas writes as NaN
            value = ""
        if not isinstance(value, str):
            allowed = "text" if part == "text" else "text or null"
            raise entry.error(f"'{columns[part]}' is {kind(value)}", allowed=allowed)
        texts[part] = value
    name = content_id(texts["text"]) if "id" not in columns else _id(entry, columns["id"])
    fields = frozenset(columns.values()) | {"metadata"}
    return Document(name, texts["text"], texts["title"], read_metadata(entry, fields))


def _id(entry: rows.Entry, column: str) -> str:
    """Return the stripped id with inner white space as %20; raise a `DataError` if it is no id."""
    value = entry.values[column]
    if not isinstance(value, str):
        return entry.id(column)
    name = rows.encode_spaces(value.strip())
    if reason := rows.id_problem(name):
        raise entry.error(f"'{column}' {reason}: {value!r}", allowed=rows.ID_ALLOWED)
    return name
