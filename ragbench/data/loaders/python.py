"""Data sets of the user's own: `dataset: {type: "python:package.module:Name"}`.

`Name` is a class with `load()` (made with the options of the YAML), an object with it, or a
plain function, to which the options are passed as keywords. What comes back is a
`ragbench.Collection`, or a mapping:

    {"queries": [{"id": "q1", "text": "..."}], "documents": [{"id": "d1", "text": "..."}],
     "qrels": {"q1": {"d1": 1}}, "answers": {"q1": ["..."]}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ragbench.data.files.collection import corpus_notes, read_document, read_metadata
from ragbench.data.files.fields import error_maker
from ragbench.data.files.rows import ID_ALLOWED, Entry, id_problem
from ragbench.data.loaders.base import (
    CorpusReader,
    Loader,
    fingerprint_collection,
    finish_collection,
)
from ragbench.data.loaders.records import RecordTable
from ragbench.errors import AdapterError, DataError, OptionError, RagbenchError
from ragbench.records.codec import kind
from ragbench.registry import PYTHON, adapt, nearest, shown
from ragbench.types import Collection, Document, Qrels, Query, ToolCall
from ragbench.types.conversation import read_tool_calls, read_turns
from ragbench.types.packed_documents import PackedDocuments
from ragbench.types.tables import is_frame, is_table, rows_of

Record = TypeVar("Record", Query, Document)
# Returns documents of somebody, kept somewhere.
Keep = Callable[[Iterable[Document], str], Sequence[Document]]
_PARTS = ("queries", "documents", "qrels", "answers", "expected_tool_calls")
_QUERY_FIELDS = frozenset({"id", "text", "title", "metadata", "turns"})
_NOT_TO_CHECK = (PackedDocuments, type(None))  # what is packed was checked


class PythonLoader(CorpusReader):
    """A user's function or object as a loader whose data sets are checked."""

    def __init__(self, call: Callable[[], Any], owner: str) -> None:
        self._call, self._owner = call, owner

    def load(self) -> Collection:
        """Call the user's code and check what it returns."""
        try:
            returned = self._call()
        except (RagbenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # code of the user's may raise anything, also SystemExit
            raise AdapterError(f"{self._owner}: {type(error).__name__}: {error}") from error
        return as_collection(returned, self._owner, self.pack)


def as_loader(target: Any, options: Mapping[str, Any], owner: str = "loader") -> Loader:
    """Make a loader of a class, an object or a function; see `ragbench.registry.adapt`."""
    loader = adapt(target, options, owner, methods=("load",), wrap=_Function, arguments="()")
    return PythonLoader(loader.load, owner)


class _Function:
    def __init__(self, function: Callable[[], Any]) -> None:
        self.load = function


def passed() -> Collection:
    """Stand in the config of a run whose data set was passed from Python."""
    allowed = "run_experiment(..., dataset=...) with the same data"
    raise DataError(
        "the data set of this run was passed from Python, and no file holds it", allowed=allowed
    )


# What `type` of `dataset` says in the config of such a run.
PASSED = f"{PYTHON}{__name__}:{passed.__name__}"


def collection_of(value: object) -> Collection:
    """Return the data set that a program passes.

    It is a `Collection`, a mapping of parts as a loader of one's own returns it, or a table with
    a row per question: a data frame, or a list of mappings, read as a file of records is.

    Example:
        >>> rows = [{"user_input": "Why?", "response": "Because.", "reference": "So."}]
        >>> found = collection_of(rows)
        >>> found.queries[0].text, list(found.answers.values()), list(found.given)
        ('Why?', [['So.']], ['given'])
    """
    if isinstance(value, (Collection, Mapping)):
        return as_collection(value, "dataset")
    if not is_table(value):
        allowed = "a data frame, a list of mappings, {queries, documents, ...}, Collection"
        raise OptionError("run_experiment", "dataset", shown(value), allowed)
    entries = [
        Entry("dataset", None, row, record=f"row {number}")
        for number, row in enumerate(rows_of(value, "dataset"), start=1)
    ]
    table = RecordTable(entries, columns=None, corpus=None, file="dataset")
    return finish_collection(table.collection(), None)


def as_collection(
    value: Any, owner: str, keep: Keep = lambda documents, of: list(documents)
) -> Collection:
    """Return a data set in our form, every record of it checked.

    `keep` says where documents are kept, which may come one by one.
    """
    if isinstance(value, Mapping):
        value = _from_mapping(value, owner, keep)
    elif isinstance(value, Collection) and not isinstance(value.documents, _NOT_TO_CHECK):
        documents = _checked(value.documents, "documents", owner)
        value = replace(value, documents=keep(documents, owner))
    if not isinstance(value, Collection):
        found = f"found {type(value).__name__} instead of a data set"
        raise AdapterError(f"{owner}: {found}, allowed: ragbench.Collection, a mapping")
    value = replace(value, qrels=None if value.qrels is None else _qrels(value.qrels, owner))
    if not value.queries:
        raise DataError("no queries", file=owner, allowed="at least one")
    _check(value, owner)
    notes = [*value.notes, *corpus_notes(value.documents)]
    checked: Collection = replace(value, fingerprints=fingerprint_collection(value), notes=notes)
    return checked


def _from_mapping(value: Mapping[str, Any], owner: str, keep: Keep) -> Collection:
    for part in value:
        if part not in _PARTS:
            close = nearest(str(part), _PARTS)
            allowed = ", ".join(_PARTS)
            raise DataError(f"unknown part '{part}'", file=owner, allowed=allowed, nearest=close)
    if "queries" not in value:
        raise DataError("no queries", file=owner, allowed='{"queries": [{"id", "text"}], ...}')
    documents, qrels = value.get("documents"), value.get("qrels")
    return Collection(
        queries=[
            item if isinstance(item, Query) else _query(entry)
            for item, entry in _entries(value["queries"], "queries", owner, Query)
        ],
        documents=None
        if documents is None
        else keep(_checked(_documents(documents, owner), "documents", owner), owner),
        qrels=None if qrels is None else _qrels(qrels, owner),
        answers=_answers(value.get("answers") or {}, owner),
        expected_tool_calls=_expected(value.get("expected_tool_calls") or {}, owner),
    )


def _documents(items: object, owner: str) -> Iterator[Document]:
    for item, entry in _entries(items, "documents", owner, Document):
        yield item if isinstance(item, Document) else read_document(entry, "id")


def _entries(items: Any, part: str, owner: str, record: type) -> Iterable[tuple[Any, Entry]]:
    """Yield every item of a list with its place; items are records of ours or mappings."""
    if is_frame(items):
        items = rows_of(items, part)
    if isinstance(items, (str, Mapping)) or not isinstance(items, Iterable):
        found = kind(items) if not isinstance(items, Mapping) else "a mapping"
        raise DataError(f"'{part}' is {found}", file=owner, allowed="a list")
    for position, item in enumerate(items):
        place = f"{part}[{position}]"
        if not isinstance(item, (record, Mapping)):
            allowed = f"a mapping with id and text, ragbench.{record.__name__}"
            raise DataError(f"found {kind(item)}", file=owner, record=place, allowed=allowed)
        values = dict(item) if isinstance(item, Mapping) else {}
        yield item, Entry(owner, None, values, record=place)


def _query(entry: Entry) -> Query:
    name, text, turns = entry.id("id"), entry.text("text"), entry.values.get("turns")
    messages = () if turns is None else read_turns(turns, error_maker(entry, "turns"))
    return Query(name, text, read_metadata(entry, _QUERY_FIELDS), messages)


def _qrels(value: Any, owner: str) -> Qrels:
    if isinstance(value, Qrels):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(d, Mapping) for d in value.values()):
        allowed = "{query id: {document id: grade}}"
        raise DataError("'qrels' is no mapping of mappings", file=owner, allowed=allowed)
    return Qrels.from_dict(value)


def _expected(value: object, owner: str) -> dict[str, tuple[ToolCall, ...]]:
    part = "expected_tool_calls"
    if not isinstance(value, Mapping):
        allowed = "{query id: [{name, arguments}, ...]}"
        raise DataError(f"'{part}' is {kind(value)}", file=owner, allowed=allowed)
    entries = {query: Entry(owner, None, {}, record=repr(query)) for query in value}
    return {
        query: read_tool_calls(calls, error_maker(entries[query], part))
        for query, calls in value.items()
    }


def _answers(value: Any, owner: str) -> dict[str, list[str]]:
    if not isinstance(value, Mapping):
        allowed = "{query id: [answer, ...]}"
        raise DataError(f"'answers' is {kind(value)}", file=owner, allowed=allowed)
    answers = {}
    for query, gold in value.items():
        texts = [gold] if isinstance(gold, str) else gold
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            place = f"answers[{query!r}]"
            raise DataError(f"found {gold!r:.80}", file=owner, record=place, allowed="texts")
        if texts:
            answers[query] = list(texts)
    return answers


def _check(collection: Collection, owner: str) -> None:
    """Check ids: well-formed, unique, and referring to something."""
    queries = {query.id for query in _checked(collection.queries, "queries", owner)}
    parts: dict[str, Iterable[str]] = {
        "qrels": collection.qrels.query_ids if collection.qrels else (),
        "expected_tool_calls": collection.expected_tool_calls,
        "answers": collection.answers,
    }
    places = [(query, f"{part}[{query!r}]") for part, ids in parts.items() for query in ids]
    for name, answers in collection.given.items():
        places += [(answered.query_id, f"given[{name!r}]") for answered in answers]
    for query, place in places:
        if query not in queries:
            close = nearest(query, queries) if isinstance(query, str) else None
            found = f"query {query!r} is not in the queries"
            raise DataError(found, file=owner, record=place, nearest=close)


def _checked(records: Iterable[Record], part: str, owner: str) -> Iterator[Record]:
    """Yield records whose ids are well-formed, and not there before."""
    seen: dict[str, int] = {}
    for position, record in enumerate(records):
        entry = Entry(owner, None, {}, record=f"{part}[{position}]")
        if not isinstance(record.id, str) or not isinstance(record.text, str):
            raise entry.error(f"found {record!r:.80}", allowed="id and text are text")
        if why := id_problem(record.id):
            raise entry.error(f"id {why}: {record.id!r}", allowed=ID_ALLOWED)
        if (first := seen.setdefault(record.id, position)) != position:
            raise entry.error(f"id '{record.id}' is repeated, first at {part}[{first}]")
        yield record
