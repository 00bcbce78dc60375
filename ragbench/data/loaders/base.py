"""Protocol of a loader, and the parts that loaders share.

These are random test sets, fingerprints of a data set, and large corpora that are kept packed on
disk.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from ragbench.data import files
from ragbench.data.files.collection import Parse, load_list
from ragbench.errors import DataError, OptionError
from ragbench.json_yaml import load_json
from ragbench.registry import Option, check_allowed
from ragbench.signature import file_digest, fingerprint, fingerprint_json
from ragbench.store.arrays import WORTH_KEEPING, Arrays, ArrayStore, ArrayWriter
from ragbench.types import Answered, Collection, Document, Query, packed_documents
from ragbench.types.conversation import ToolCall, Turn
from ragbench.types.spans import spans_fingerprint

_KEYS = {"test": "a number above 0 and below 1", "seed": "an integer >= 0"}
SplitOption = Annotated[
    Mapping[str, Any] | None, Option("Draw a random test set: {test: 0.2, seed: 13}.")
]

_WHOLE = 64  # hexadecimal digits of a whole SHA-256, for the pieces
_FORMAT = "1"  # of packed corpora; another one is not read
_NOTES = "odd"  # name of the array with the notes of the reader
_AT_ONCE = 4096  # documents between two writes
Value = TypeVar("Value")


class Loader(Protocol):
    """Reader of a data set; the options of a loader are those of its constructor.

    `load()` returns the data set, or raises a DataError with the place of the fault.
    """

    def load(self) -> Collection:
        """Return the data set, with ids that are unique and refer to something.

        A loader may raise MissingExtra for a package that is not installed, or OptionError.

        Raises:
            DataError: A file or record cannot be read; names its place.
        """
        ...


class Previewed(ABC):
    """Loader that interprets a file: `ragbench validate` shows its first rows as they are read.

    A subclass implements `preview(count)`, which returns these rows as mappings of part -> value.
    """

    @abstractmethod
    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return the first `count` rows as the loader reads them, each as part -> value.

        All rows if there are fewer. Raise as `load`.
        """


@dataclass(frozen=True, slots=True)
class Places:
    """Places of the parts of a data set, each as `file:line`, and the queries of other splits.

    `places` of a loader returns them; a row of a file without lines has `file: row 3`.

    Attributes:
        queries: Query id -> place of the question.
        judgements: (query id, document id) -> place of the judgement; empty without a file of them.
        answers: Query id -> place of the gold answers; empty without a file of them.
        other_splits: File name of each other split, such as `dev.tsv` -> its queries.
    """

    queries: Mapping[str, str]
    judgements: Mapping[tuple[str, str], str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    other_splits: Mapping[str, Sequence[Query]] = field(default_factory=dict)


class Located(ABC):
    """Loader that knows the lines of its files: `ragbench audit` names them.

    A subclass implements `places()`, which reads the files again and returns `Places`.
    """

    @abstractmethod
    def places(self) -> Places:
        """Return the places of the questions, judgements and gold answers.

        The files are read again. Raise as `load`.
        """


@dataclass(frozen=True, slots=True)
class RandomSplit:
    """Share of the queries in a random test set, and the seed of the draw.

    `parse_split` checks the values; the constructor does not.

    Attributes:
        test: Share of the queries that become the test set, above 0 and below 1.
        seed: Seed of the draw, an integer from 0.
    """

    test: float
    seed: int = 13


def parse_split(value: Mapping[str, Any] | None, owner: str) -> RandomSplit | None:
    """Return the option `split: {test: 0.2, seed: 13}` as a `RandomSplit`; None for None.

    The seed is 13 without one.

    Raises:
        OptionError: A key or value is wrong, or `test` is missing; `owner` names the loader.
    """
    if value is None:
        return None
    check_allowed(owner, "split", value, _KEYS)
    if "test" not in value:
        raise OptionError(owner, "split", dict(value), "{test: 0.2, seed: 13}")
    test, seed = value["test"], value.get("seed", 13)
    if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 < test < 1:
        raise OptionError(owner, "split.test", test, _KEYS["test"])
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise OptionError(owner, "split.seed", seed, _KEYS["seed"])
    return RandomSplit(float(test), seed)


def draw_test_set(query_ids: Iterable[str], split: RandomSplit) -> frozenset[str]:
    """Return the ids of the test queries: those whose hashes with the seed are smallest.

    The draw depends on the ids and the seed alone, not on the order of the file, and a query that
    is added or removed moves at most one other. At least one query is drawn. Without queries the
    set is empty. The number is the rounded share; repeated ids count once.
    """
    # hashes, not a random generator: the draw must not depend on the order or the number of
    # queries
    by_hash = sorted(set(query_ids), key=lambda query: fingerprint([str(split.seed), query], 64))
    return frozenset(by_hash[: max(1, round(len(by_hash) * split.test))])


def keep_queries(collection: Collection, ids: frozenset[str], note: str) -> Collection:
    """Return a data set with only the queries in `ids`, and a further note; the corpus stays whole.

    Judgements, gold answers and recorded answers of other queries are left out, and so are systems
    without an answer to any query in `ids`. The given data set is not changed; without qrels they
    stay None. Fingerprints and gold passages stay those of the whole.
    """

    def select(values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of the queries in `ids`."""
        return {query: value for query, value in values.items() if query in ids}

    answers = {
        name: [answered for answered in answers if answered.query_id in ids]
        for name, answers in collection.given.items()
    }
    return replace(
        collection,
        queries=[query for query in collection.queries if query.id in ids],
        qrels=None if collection.qrels is None else collection.qrels.of_queries(ids),
        answers=select(collection.answers),
        gold_spans=select(collection.gold_spans),
        expected_tool_calls=select(collection.expected_tool_calls),
        given={name: rows for name, rows in answers.items() if rows},
        notes=[*collection.notes, note],
    )


def finish_collection(collection: Collection, split: RandomSplit | None) -> Collection:
    """Return a data set with fingerprints, cut to a random test set if `split` is not None.

    The given data set is not changed. A test set adds a note.
    """
    if split is not None:
        ids = draw_test_set(packed_documents.record_ids(collection.queries), split)
        share = f"{len(ids)} of {len(collection.queries)} queries"
        note = f"random test set: {share} (test: {split.test:g}, seed: {split.seed})"
        collection = keep_queries(collection, ids, note)
    return replace(collection, fingerprints=fingerprint_collection(collection))


def fingerprint_collection(collection: Collection) -> dict[str, str]:
    """Return part -> fingerprint, for each part that a data set has.

    A fingerprint has 12 hexadecimal digits. Metadata of queries and grades of subtopics do not
    count. Parts are `queries`, `corpus`, `qrels`, `answers`, `spans`, `expected_tool_calls` and
    `given`; none depends on the order of the records. `queries` is always there; the others only
    if the part is not None (corpus, qrels) or not empty.
    """
    # without metadata of queries: the same data in CSV have text where JSON has numbers
    queries = ([query.id, query.text, *_digests(query.turns)] for query in collection.queries)
    prints = {"queries": _rows(queries)}
    if isinstance(collection.documents, packed_documents.PackedDocuments):
        prints["corpus"] = collection.documents.fingerprint
    elif collection.documents is not None:
        prints["corpus"] = fingerprint(sorted(map(document_digest, collection.documents)))
    if collection.qrels is not None:
        prints["qrels"] = collection.qrels.fingerprint()
    if collection.answers:
        prints["answers"] = _rows([q, *sorted(gold)] for q, gold in collection.answers.items())
    if collection.gold_spans:
        spans = collection.gold_spans.items()
        prints["spans"] = _rows([query, spans_fingerprint(gold)] for query, gold in spans)
    if collection.expected_tool_calls:
        calls = collection.expected_tool_calls.items()
        prints["expected_tool_calls"] = _rows([query, *_digests(gold)] for query, gold in calls)
    if collection.given:
        systems = collection.given.items()
        prints["given"] = _rows([name, *sorted(map(_answered, rows))] for name, rows in systems)
    return prints


def _rows(rows: Iterable[list[str]]) -> str:
    """Return a hash of rows of texts, whatever their order, in 12 hexadecimal digits."""
    return fingerprint(sorted(fingerprint(row, _WHOLE) for row in rows))


def _digests(records: Iterable[Turn | ToolCall]) -> list[str]:
    """Return a hash of each turn or tool call, in order, in 64 hexadecimal digits; [] for none."""
    return [fingerprint_json(record.to_dict(), _WHOLE) for record in records]


def document_digest(document: Document) -> str:
    """Return a hash of the id, title, text and metadata of a document, in 64 hexadecimal digits."""
    extra = fingerprint_json(dict(document.metadata), _WHOLE) if document.metadata else ""
    return fingerprint([document.id, document.title, document.text, extra], _WHOLE)


def _answered(answered: Answered) -> str:
    """Return a hash of a recorded answer, with its passages, queries, tool calls and error.

    Tokens, cost and latency do not count. An unknown answer (None) differs from an empty one.
    """
    # a missing answer is not an empty one, nor are missing passages an empty list
    answer = ["none"] if answered.answer is None else ["answer", answered.answer]
    contexts = answered.contexts
    passages = ["none"] if contexts is None else ["contexts", *map(document_digest, contexts)]
    pieces = [fingerprint(part, _WHOLE) for part in (answer, passages, answered.queries)]
    if answered.tool_calls is not None:
        pieces.append(fingerprint(_digests(answered.tool_calls), _WHOLE))
    if answered.error is not None:
        pieces.append(fingerprint(["error", answered.error], _WHOLE))
    return fingerprint([answered.query_id, *pieces], _WHOLE)


class CorpusReader:
    """Base of loaders that keep large corpora packed on disk.

    A loader passes `load_packed` to `read_corpus`: it returns the documents of files and the notes
    on them, and raises what their reader raises, or a DataError if a file changes meanwhile.

    Attributes:
        arrays: Store of packed corpora; set before `load`. None keeps nothing.
    """

    arrays: ArrayStore | None = None

    def load_packed(
        self, folder: Path, files: Sequence[Path], read: Parse
    ) -> tuple[Sequence[Document], list[str]]:
        """Return the documents of some files below a folder, and the notes on them.

        Documents of large files are memory-mapped, all others a list. Every byte of the files is
        hashed each time (1.4 GB/s): times and sizes do not show every change. Without a store, or
        for small files, nothing is stored. Otherwise a stored copy is read, or written to `arrays`.
        Its key has the paths and contents of the files in their order, and the code of the readers
        and the loader, but not the folder.

        Args:
            folder: The folder.
            files: Paths of the files within the folder.
            read: Yields the documents, and appends notes to the list that it gets.

        Raises:
            DataError: As `read` raises, also for a file that cannot be opened; or a file changes
                while it is read, or the store cannot be written.
        """
        sources = [folder / file for file in files]
        states = _states(sources) if all(source.is_file() for source in sources) else []
        if self.arrays is None or sum(size for size, *_ in states) < WORTH_KEEPING:
            return load_list(folder, files, read)
        names = [file.as_posix() for file in files]
        try:
            digests = [*map(file_digest, sources)]
        except OSError:  # the reader raises an error with the place
            return load_list(folder, files, read)
        key = fingerprint([_FORMAT, *_code(type(self)), *names, *digests], 32)

        def write(writer: ArrayWriter) -> None:
            """Write the documents and notes as arrays.

            Raise a `DataError` if a file has changed.
            """
            notes = list[str]()
            _pack(read(notes), writer)
            if notes:
                writer.add_texts(_NOTES, notes)
            # a file that changes while it is read would be stored under the hash of its old
            # content
            if _states(sources) != states:
                raise DataError("was changed while it was read", file=sources[0])

        arrays: Arrays | None = None
        with suppress(_Unpackable):
            arrays = self.arrays.ensure("corpus", ", ".join(names)[:200], key, write)
        if arrays is None:
            return load_list(folder, files, read)
        return _unpacked(arrays), [] if arrays.get(_NOTES) is None else [*arrays.texts(_NOTES)]


class _Unpackable(Exception):
    """Metadata of a document that JSON cannot hold; such a corpus stays in memory."""


def _pack(documents: Iterable[Document], writer: ArrayWriter) -> None:
    """Write ids, titles, texts and metadata of documents as arrays.

    Adds the arrays `ids`, `parts` (title, text, metadata as JSON by turns), their ends, and
    `facts`: key and size of the content, fingerprint of the corpus, and ids of empty documents.

    Raises:
        _Unpackable: JSON does not hold the metadata of a document.
    """
    content_hash, digests, empty = packed_documents.ContentHash(), list[bytes](), list[str]()
    stream = iter(documents)
    with writer.open_texts("ids") as add_ids, writer.open_texts("parts") as add_parts:
        # in blocks: the texts of a whole corpus need not fit into memory
        while block := list(islice(stream, _AT_ONCE)):
            add_ids(document.id for document in block)
            add_parts(part for d in block for part in (d.title, d.text, _json(d.metadata)))
            for document in block:
                content_hash.add(document)
                digests.append(document_digest(document).encode())
                if not document.full_text.strip():
                    empty.append(document.id)
    content, whole = content_hash.content(), fingerprint(sorted(digests))
    # stored, so that a later run needs no pass over the texts
    writer.add_texts("facts", [content.key, str(content.size), whole, *empty])


def _unpacked(arrays: Arrays) -> packed_documents.PackedDocuments:
    """Return documents on top of the arrays that `_pack` wrote.

    Raises KeyError or ValueError for arrays of another form.
    """
    key, size, whole, *empty = arrays.texts("facts")
    content = packed_documents.Content(key, int(size))
    return packed_documents.PackedDocuments(
        arrays.texts("ids"), arrays.texts("parts"), content, whole, empty
    )


def _json(metadata: Mapping[str, object]) -> str:
    """Return metadata as JSON that reads back as equal, '' for none; else raise `_Unpackable`."""
    if not metadata:
        return ""
    try:
        text = json.dumps(metadata, allow_nan=False)
        # tuples and keys that are numbers come back changed
        if load_json(text) == metadata:
            return text
    except (TypeError, ValueError):
        pass
    raise _Unpackable


def _states(sources: Sequence[Path]) -> list[tuple[int, int, int]]:
    """Return (bytes, time of change in ns, inode) of each file.

    Raise an OSError for a missing one.
    """
    stats = [source.stat() for source in sources]
    return [(stat.st_size, stat.st_mtime_ns, stat.st_ino) for stat in stats]


def _code(loader: type) -> list[bytes]:
    """Return the sources of all modules of `data/files`, and of the loader if it is in this folder.

    After a change a corpus is read and stored again.
    """
    readers = sorted(Path(files.__file__).parent.glob("*.py"))
    module = Path(__file__).parent / f"{loader.__module__.rpartition('.')[2]}.py"
    return [path.read_bytes() for path in [*readers, module] if path.is_file()]
