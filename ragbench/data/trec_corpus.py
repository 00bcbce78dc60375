"""TREC documents: `<DOC> <DOCNO> ... </DOC>` in one file or a folder of files."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from ragbench.data.corpus import check_unique, read_documents
from ragbench.data.jsonl import Entry
from ragbench.data.judgements import trec_id
from ragbench.data.lines import plain_suffix, read_lines
from ragbench.errors import DataError
from ragbench.types import Document

_DOCNO = re.compile(rb"<DOCNO>\s*(.*?)\s*</DOCNO>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(rb"<(TITLE|HEADLINE|HEAD|TTL)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TEXT = re.compile(rb"<TEXT>(.*?)</TEXT>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")


def read_trec_corpus(path: Path) -> list[Document]:
    """Read documents: a `.jsonl` corpus, or TREC's SGML in a file or in all files of a folder.

    Of TREC's documents, the text is what stands between the `<TEXT>` tags, or everything but the
    number and the title where there are none. Ids are bytes; text that is not UTF-8 gets
    replacement characters.

    Raises:
        DataError: A document without number or end, an id that occurs twice, or no document.
    """
    if plain_suffix(path) == ".jsonl":
        return read_documents(path)
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
    seen: dict[str, Entry] = {}
    documents = []
    for file in files:
        for line, content in _sections(file):
            document = _document(content, file, line)
            check_unique(document.id, "DOCNO", Entry(str(file), line, {}), seen)
            documents.append(document)
    if not documents:
        raise DataError("no documents", file=path, allowed="<DOC> <DOCNO> ... </DOC>, or .jsonl")
    return documents


def _sections(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line of `<DOC>`, what stands inside) for every document of a file."""
    start: int | None = None
    inside: list[bytes] = []
    for number, line in read_lines(path):
        tag = line.strip().upper()
        if tag == b"<DOC>":
            if start is not None:
                break
            start, inside = number, []
        elif tag == b"</DOC>" and start is not None:
            yield start, b"".join(inside)
            start = None
        elif start is not None:
            inside.append(line)
        elif tag:
            raise DataError("text outside of a document", file=path, line=number, allowed="<DOC>")
    if start is not None:
        raise DataError("<DOC> is not closed", file=path, line=start, allowed="</DOC> on a line")


def _document(content: bytes, path: Path, line: int) -> Document:
    number = _DOCNO.search(content)
    if number is None or len(number[1].split()) != 1:
        raise DataError("no <DOCNO> id </DOCNO> in the document", file=path, line=line)
    titles = [match[2] for match in _TITLE.finditer(content)]
    texts = _TEXT.findall(content)
    if not texts:
        texts = [_TITLE.sub(b" ", _DOCNO.sub(b" ", content))]
    return Document(trec_id(number[1]), _plain(texts), " ".join(_plain(titles).split()))


def _plain(parts: list[bytes]) -> str:
    texts = (html.unescape(_TAG.sub(" ", part.decode("utf-8", "replace"))) for part in parts)
    return "\n".join(text.strip() for text in texts)
