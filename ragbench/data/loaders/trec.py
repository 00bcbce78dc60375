"""TREC collections: `dataset: {type: trec, qrels: ..., topics: ..., corpus: ...}`."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files import collection
from ragbench.data.files.fields import counted
from ragbench.data.files.judgements import read_judgements, trec_id
from ragbench.data.files.lines import plain_suffix, read_lines
from ragbench.data.files.rows import Entry
from ragbench.data.loaders.base import SplitOption, finish_collection, parse_split
from ragbench.errors import DataError
from ragbench.registry import Option, OptionSet
from ragbench.types import Collection, Document
from ragbench.types.documents import record_ids

# patterns on bytes, since TREC documents are SGML in any encoding, with tags in any case
_PART_TAG = re.compile(rb"<(/?)(DOCNO|TITLE|HEADLINE|HEAD|TTL|TEXT)>", re.IGNORECASE)
_TITLES = (b"TITLE", b"HEADLINE", b"HEAD", b"TTL")
_TAG = re.compile(r"<[^<>]*>")


class TrecOptions(OptionSet):
    """Options of `type: trec`; without a corpus, only stored rankings can be scored."""

    qrels: Annotated[
        Path, Option("The judgements: query iteration document grade.", refers_to="path")
    ]
    topics: Annotated[
        Path,
        Option(
            "The queries: TREC topics, id<TAB>text lines, or .jsonl with _id and text.",
            refers_to="path",
        ),
    ]
    corpus: Annotated[
        Path | None,
        Option("The documents: TREC's <DOC> files, or a .jsonl corpus.", refers_to="path"),
    ] = None
    field: Annotated[
        collection.TopicField, Option("The part of a TREC topic that is the query.")
    ] = "title"
    split: SplitOption = None


class Trec:
    """Loader of TREC qrels and topics, and of the documents if a corpus is named.

    Topics that the qrels do not judge are left out and counted. The options are those of
    `TrecOptions`; a wrong `split` raises OptionError.
    """

    declares = TrecOptions

    def __init__(self, **options: Any) -> None:
        chosen = TrecOptions(**options)
        self._qrels, self._topics = Path(chosen.qrels), Path(chosen.topics)
        self._corpus = None if chosen.corpus is None else Path(chosen.corpus)
        self._field = chosen.field
        self._split = parse_split(chosen.split, "trec")

    def load(self) -> Collection:
        """Return the judged topics in the order of their file, with qrels and documents.

        Raises:
            DataError: A file has a wrong line, or the qrels judge a query that the topics lack.
        """
        topics = collection.read_topics(self._topics, self._field)
        judgements = read_judgements(self._qrels)
        # judgements of unknown topics are a sign of the wrong topics file
        judgements.require_queries(record_ids(topics), self._topics.name)
        documents = None if self._corpus is None else list(read_trec_corpus(self._corpus))
        # a topic without judgements has no relevant document: measures are not defined
        judged = []
        for topic in topics:
            if topic.id in judgements.grades:
                judged.append(topic)
        notes = collection.corpus_notes(documents, "no corpus: only stored rankings can be scored")
        if n := len(topics) - len(judged):
            notes.append(f"{counted(n, 'topic')} without a judgement left out")
        whole = Collection(
            queries=judged,
            documents=documents,
            qrels=judgements.qrels(),
            notes=[*notes, *judgements.notes()],
        )
        return finish_collection(whole, self._split)


def read_trec_corpus(path: Path) -> Iterator[Document]:
    """Yield the documents of a `.jsonl` corpus, or of TREC's SGML in a file or a folder of files.

    The text of a TREC document is all between its `<TEXT>` tags, or without these tags everything
    but the number and the title. `<DOC>` and `</DOC>` stand on lines of their own. Bytes that are
    not UTF-8 become surrogates in an id (`surrogateescape`), and replacement characters in a text.
    Documents are in the order of the paths; hidden files and folders are left out.

    Raises:
        DataError: A file cannot be read, a document is damaged or has no id, or an id comes again.
    """
    if plain_suffix(path) == ".jsonl":
        yield from collection.read_documents(path)
        return
    entries: dict[str, Entry] = {}
    for file in _files(path):
        for line, content in _sections(file):
            document = _document(content, file, line)
            collection.check_unique(document.id, "DOCNO", Entry(str(file), line, {}), entries)
            yield document
    if not entries:
        raise DataError("no documents", file=path, allowed="<DOC> <DOCNO> ... </DOC>, or .jsonl")


def _files(path: Path) -> list[Path]:
    """Return the files of a corpus, sorted by path, without hidden files and folders."""
    if not os.path.isdir(path):
        return [path]
    visible = []
    for file in path.rglob("*"):
        is_hidden = any(part[0] == "." for part in file.relative_to(path).parts)
        if file.is_file() and not is_hidden:
            visible.append(file)
    # the order of a folder differs between file systems
    return sorted(visible)


def _sections(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line of `<DOC>`, content) of every document of a file."""
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
    """Return the document of a section, whose first <DOCNO> must have one word."""
    tags = list(_PART_TAG.finditer(content))
    numbers, _ = _parts(content, tags, (b"DOCNO",))
    words = numbers[0].split() if numbers else []
    if len(words) != 1:
        raise DataError("no <DOCNO> id </DOCNO> in the document", file=path, line=line)
    # a document may have several titles, such as <HEAD> of news
    titles, _ = _parts(content, tags, _TITLES)
    texts, _ = _parts(content, tags, (b"TEXT",))
    if not texts:
        _, outside = _parts(content, tags, (b"DOCNO", *_TITLES))
        texts = [b" ".join(outside)]
    return Document(trec_id(words[0]), _plain(texts), " ".join(_plain(titles).split()))


def _parts(
    content: bytes, tags: Sequence[re.Match[bytes]], names: Sequence[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Return the texts between the tags of some names, and the texts before and after them."""
    last_closing = {}
    for tag in tags:
        if tag[1]:
            last_closing[tag[2].upper()] = tag.start()
    inside, outside, end = list[bytes](), list[bytes](), 0
    opening: re.Match[bytes] | None = None
    for tag in tags:
        name = tag[2].upper()
        if name not in names:
            continue
        if opening is None:
            is_closed = last_closing.get(name, -1) > tag.start()
            opening = tag if not tag[1] and is_closed else None
        elif tag[1] and name == opening[2].upper():
            inside.append(content[opening.end() : tag.start()])
            outside.append(content[end : opening.start()])
            opening, end = None, tag.end()
    return inside, [*outside, content[end:]]


def _plain(parts: list[bytes]) -> str:
    """Return the text of SGML parts, without tags, one part per line; '' without parts."""
    # tags are removed before entities are decoded: `&lt;b&gt;` is text
    texts = []
    for part in parts:
        texts.append(html.unescape(_TAG.sub(" ", part.decode("utf-8", "replace"))).strip())
    return "\n".join(texts)
