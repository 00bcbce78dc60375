"""Data sets from a user's code: `dataset: {type: "python:package.module:Name"}`.

`Name` is a class with `load()` (created with the options of the YAML), an object with it, or a
plain function, to which the options are passed as keywords. It returns a `ragbench.Collection`, or
a mapping:

    {"queries": [{"id": "q1", "text": "..."}], "documents": [{"id": "d1", "text": "..."}],
     "qrels": {"q1": {"d1": 1}}, "answers": {"q1": ["..."]}}

A query may have a `pool`, the list of the ids of the documents that may be retrieved for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from ragbench.data.files.collection import corpus_notes, corpus_of, read_document, read_metadata
from ragbench.data.files.columns import PartMap, check_mapping
from ragbench.data.files.fields import error_maker
from ragbench.data.files.pools import PoolReader
from ragbench.data.files.rows import ID_ALLOWED, Entry, id_problem
from ragbench.data.files.tables import read_table
from ragbench.data.loaders import base
from ragbench.data.loaders.beir import Beir, is_beir
from ragbench.data.loaders.records import RecordTable
from ragbench.errors import AdapterError, DataError, OptionError, Phrase, RagbenchError
from ragbench.records.codec import kind
from ragbench.registry import PYTHON, adapt, nearest, quote
from ragbench.types import Collection, Document, Qrels, Query, ToolCall
from ragbench.types.checks import text_keys
from ragbench.types.conversation import read_tool_calls, read_turns, turn_without_reasoning
from ragbench.types.lookups import all_are, index_by_id
from ragbench.types.reasoning import Reasoning
from ragbench.types.records import without_reasoning
from ragbench.types.tables import is_frame, is_table, rows_of

Record = TypeVar("Record", Query, Document)
_PARTS = ("queries", "documents", "qrels", "answers", "expected_tool_calls")
_QUERY_FIELDS = frozenset({"id", "text", "title", "metadata", "turns", "pool"})


class PythonLoader:
    """Loader that calls a user's function at each `load`, and checks the data set.

    `as_loader` makes it. `load()` returns the checked `Collection`, or raises a DataError for a
    wrong id or part. An error of the function becomes an AdapterError, unless it is one of
    ragbench.
    """

    def __init__(self, call: Callable[[], Any], owner: str) -> None:
        self._call, self._owner = call, owner

    def load(self) -> Collection:
        """Return the data set of the user's code, checked.

        Errors of ragbench that the code raises, and Ctrl-C, pass through.

        Raises:
            AdapterError: The code raises an error, also SystemExit, or returns no data set.
            DataError: There is no query, an id is no id, repeated, or refers to nothing, or a part
                has another form.
        """
        try:
            returned = self._call()
        # errors of ragbench name their place already
        except (RagbenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # the user's code may raise anything, also SystemExit
            raise AdapterError(f"{self._owner}: {type(error).__name__}: {error}") from error
        return as_collection(returned, self._owner)


def as_loader(target: Any, options: Mapping[str, Any], owner: str = "loader") -> base.Loader:
    """Return a loader for a class, an object or a function; see `ragbench.registry.adapt`.

    Args:
        target: The class, object or function.
        options: Options of the YAML.
        owner: Name of the loader for messages.

    Raises:
        OptionError: An option is unknown, or an object that exists gets options.
        AdapterError: `target` has no method `load` and cannot be called, or its constructor fails.
    """
    loader = adapt(
        target,
        options,
        owner,
        methods=("load",),
        wrap=lambda function: SimpleNamespace(load=function),
        arguments="()",
    )
    return PythonLoader(loader.load, owner)


def passed() -> Collection:
    """Raise the error for re-running a config whose data set came from Python.

    Raises:
        DataError: Always; says how to pass the data set again.
    """
    allowed = "run_experiment(..., dataset=...) with the same data"
    raise DataError(
        "the data set of this run was passed from Python and is in no file", allowed=allowed
    )


# The `type` of `dataset` in the config of such a run.
PASSED = f"{PYTHON}{__name__}:{passed.__name__}"


def collection_of(
    value: object,
    columns: PartMap | None = None,
    documents: object = None,
    reasoning: Reasoning = "cut",
) -> Collection:
    """Return the data set that a program passes, checked.

    An empty list is an OptionError, a data frame without rows a DataError.

    Args:
        value: A `Collection`, a mapping of parts as a user's loader returns it, or a table with a
            row per question: a data frame, a list of mappings, or the path of a file of records;
            or the path of a folder in the layout of BEIR.
        columns: Part -> column of a table whose columns have other names; None for the usual ones.
            Only a table uses it.
        documents: Corpus in place of that of the value, as `corpus_of` takes it; None keeps that of
            the value.
        reasoning: `keep` leaves the reasoning of models in recorded answers.

    Raises:
        OptionError: The value or `documents` is none of these, or `columns` names an unknown part.
        DataError: A row, an id or a part is wrong, no column has the question, or the rows are
            steps of traces.
        MissingExtra: The format of a file needs an extra.

    Example:
        >>> rows = [{"user_input": "Why?", "response": "Because.", "reference": "So."}]
        >>> collection = collection_of(rows)
        >>> collection.queries[0].text, list(collection.answers.values())
        ('Why?', [['So.']])
        >>> list(collection.recorded_answers)
        ['given']
    """
    corpus = None if documents is None else corpus_of(documents)
    if isinstance(value, (str, Path)) and os.path.isdir(value) and is_beir(Path(value)):
        value = Beir(path=Path(value)).load()
        if corpus is None:
            return value
    if isinstance(value, Collection):
        value = value if corpus is None else replace(value, documents=corpus.documents)
        return as_collection(value, "dataset", reasoning)
    if isinstance(value, Mapping):
        part = {} if corpus is None else {"documents": corpus.documents}
        return as_collection({**value, **part}, "dataset", reasoning)
    check_mapping(columns or {}, "dataset")
    file = "dataset"
    if isinstance(value, (str, Path)):
        file = str(value)
        entries = list(read_table(Path(value), "dataset"))
    elif is_table(value):
        entries = []
        for number, row in enumerate(rows_of(value, file), start=1):
            entries.append(Entry(file, None, row, record=f"row {number}"))
    else:
        allowed = "a path, a data frame, a list of mappings, {queries, documents, ...}, Collection"
        raise OptionError("dataset", "data", Phrase(quote(value)), allowed)
    table = RecordTable(entries, columns=columns, corpus=corpus, file=file, reasoning=reasoning)
    return base.finish_collection(table.collection(), None)


def as_collection(value: Any, owner: str, reasoning: Reasoning = "cut") -> Collection:
    """Return a data set as a `Collection`, with every record checked, fingerprints and notes.

    Notes on empty documents are added; given fingerprints are replaced.

    Args:
        value: A `Collection`, or a mapping of parts.
        owner: Name of the loader for messages.
        reasoning: `keep` leaves the reasoning of models in recorded answers.

    Raises:
        AdapterError: the value is neither.
        DataError: There is no query, an id is no id, repeated, or refers to nothing, or a part is
            unknown or has another form.
    """
    if isinstance(value, Mapping):
        value = _from_mapping(value, owner)
    elif isinstance(value, Collection) and value.documents is not None:
        value = replace(value, documents=list(_checked(value.documents, "documents", owner)))
    if not isinstance(value, Collection):
        problem = f"found {type(value).__name__} instead of a data set"
        raise AdapterError(f"{owner}: {problem}, allowed: ragbench.Collection, a mapping")
    value = replace(value, qrels=None if value.qrels is None else _qrels(value.qrels, owner))
    if not value.queries:
        raise DataError("no queries", file=owner, allowed="at least one")
    _check(value, owner)
    if reasoning == "cut":
        value = _without_reasoning(value)
    notes = [*value.notes, *corpus_notes(value.documents)]
    prints = base.fingerprint_collection(value)
    checked: Collection = replace(value, fingerprints=prints, notes=notes)
    return checked


def _without_reasoning(collection: Collection) -> Collection:
    """Return a data set whose recorded answers and earlier turns have no reasoning of a model."""
    systems = {}
    for name, rows in collection.recorded_answers.items():
        systems[name] = list(map(without_reasoning, rows))
    # queries of large files are read one by one, and stay in their file
    if not any(query.turns for query in collection.queries):
        return replace(collection, recorded_answers=systems)
    queries = []
    for query in collection.queries:
        queries.append(replace(query, turns=tuple(map(turn_without_reasoning, query.turns))))
    return replace(collection, queries=queries, recorded_answers=systems)


def _from_mapping(value: Mapping[str, Any], owner: str) -> Collection:
    """Return a mapping of parts as a `Collection`; raise a `DataError` for unknown parts."""
    for part in value:
        if part not in _PARTS:
            close = nearest(str(part), _PARTS)
            allowed = ", ".join(_PARTS)
            raise DataError(f"unknown part '{part}'", file=owner, allowed=allowed, nearest=close)
    if "queries" not in value:
        keys = ", ".join(map(repr, value)) or "no keys"
        allowed = '{"queries": [{"id": "q1", "text": "..."}], ...}'
        raise DataError(f"a mapping without 'queries' ({keys})", file=owner, allowed=allowed)
    queries = []
    for item, entry in _entries(value["queries"], "queries", owner, Query):
        queries.append(item if isinstance(item, Query) else _query(entry))
    documents, qrels = value.get("documents"), value.get("qrels")
    if documents is not None:
        documents = list(_checked(_documents(documents, owner), "documents", owner))
    return Collection(
        queries=queries,
        documents=documents,
        qrels=None if qrels is None else _qrels(qrels, owner),
        answers=_answers(value.get("answers") or {}, owner),
        expected_tool_calls=_expected(value.get("expected_tool_calls") or {}, owner),
    )


def _documents(items: object, owner: str) -> Iterator[Document]:
    """Yield documents from records or mappings, or from the rows of a data frame."""
    for item, entry in _entries(items, "documents", owner, Document):
        yield item if isinstance(item, Document) else read_document(entry, "id")


def _entries(items: Any, part: str, owner: str, record: type) -> Iterable[tuple[Any, Entry]]:
    """Yield (item, row for messages) of each item of a part."""
    # iterating over a frame gives the names of its columns
    if is_frame(items):
        items = rows_of(items, part)
    # both are iterable, but no list of records
    if isinstance(items, (str, Mapping)) or not isinstance(items, Iterable):
        problem = kind(items) if not isinstance(items, Mapping) else "a mapping"
        allowed = f"a list of mappings with id and text, or of ragbench.{record.__name__}"
        raise DataError(f"'{part}' is {problem}", file=owner, allowed=allowed)
    for position, item in enumerate(items):
        place = f"{part}[{position}]"
        if not isinstance(item, (record, Mapping)):
            allowed = f"a mapping with id and text, ragbench.{record.__name__}"
            raise DataError(f"found {kind(item)}", file=owner, record=place, allowed=allowed)
        values = dict(item) if isinstance(item, Mapping) else {}
        yield item, Entry(owner, None, values, record=place)


def _query(entry: Entry) -> Query:
    """Return a query from a mapping with `id`, `text` and optional turns, pool and metadata."""
    name, text, turns = entry.id("id"), entry.text("text"), entry.values.get("turns")
    messages = () if turns is None else read_turns(turns, error_maker(entry, "turns"))
    pool = None
    if "pool" in entry.values:
        pool = PoolReader("pool", None, None).read(entry)
    return Query(name, text, read_metadata(entry, _QUERY_FIELDS), messages, pool=pool)


def _qrels(value: Any, owner: str) -> Qrels:
    """Return qrels from `{query: {document: grade}}`; raise `DataError` for another form."""
    if isinstance(value, Qrels):
        return value
    if not isinstance(value, Mapping) or not all_are(value.values(), Mapping):
        allowed = "{query id: {document id: grade}}"
        raise DataError("'qrels' is no mapping of mappings", file=owner, allowed=allowed)
    return Qrels.from_dict(value)


def _expected(value: object, owner: str) -> dict[str, tuple[ToolCall, ...]]:
    """Return query id -> gold tool calls; raise a `DataError` for another form; {} for {}."""
    part = "expected_tool_calls"
    if not isinstance(value, Mapping):
        allowed = "{query id: [{name, arguments}, ...]}"
        raise DataError(f"'{part}' is {kind(value)}", file=owner, allowed=allowed)
    value = text_keys(value, f"{owner}: {part}")
    expected = {}
    for query, calls in value.items():
        entry = Entry(owner, None, {}, record=repr(query))
        expected[query] = read_tool_calls(calls, error_maker(entry, part))
    return expected


def _answers(value: Any, owner: str) -> dict[str, list[str]]:
    """Return query id -> gold answers; queries with an empty list are left out."""
    if not isinstance(value, Mapping):
        allowed = "{query id: [answer, ...]}"
        raise DataError(f"'answers' is {kind(value)}", file=owner, allowed=allowed)
    answers = {}
    for query, gold in text_keys(value, f"{owner}: answers").items():
        texts = [gold] if isinstance(gold, str) else gold
        if not isinstance(texts, Sequence) or not all_are(texts, str):
            place = f"answers[{query!r}]"
            raise DataError(f"found {gold!r:.80}", file=owner, record=place, allowed="texts")
        if texts:
            answers[query] = list(texts)
    return answers


def _check(collection: Collection, owner: str) -> None:
    """Check that ids are well-formed and unique, and that judgements and answers have queries."""
    queries, pooled = set[str](), list[Query]()
    for query in _checked(collection.queries, "queries", owner):
        queries.add(query.id)
        if query.pool is not None:
            pooled.append(query)
    if pooled and collection.documents is not None:
        _check_pools(pooled, index_by_id(collection.documents), owner)
    parts: dict[str, Iterable[str]] = {
        "qrels": collection.qrels.query_ids if collection.qrels else (),
        "expected_tool_calls": collection.expected_tool_calls,
        "answers": collection.answers,
        "gold_spans": collection.gold_spans,
        "forbidden": collection.forbidden,
        "ambiguous_gold": collection.ambiguous_gold,
    }
    places: list[tuple[str, str]] = []
    for part, ids in parts.items():
        places += [(query, f"{part}[{query!r}]") for query in ids]
    for name, answers in collection.recorded_answers.items():
        for answered in answers:
            places.append((answered.query_id, f"recorded_answers[{name!r}]"))
    for name, place in places:
        if name not in queries:
            close = nearest(name, queries) if isinstance(name, str) else None
            problem = f"query {name!r} is not in the queries"
            raise DataError(problem, file=owner, record=place, nearest=close)


def _check_pools(queries: Iterable[Query], documents: Container[str], owner: str) -> None:
    """Raise a `DataError` for a document of a pool that the corpus lacks."""
    for query in queries:
        for name in query.pool or ():
            if name not in documents:
                problem = f"the corpus has no document '{name}'"
                place, allowed = f"pool of query '{query.id}'", "ids of documents of the corpus"
                raise DataError(problem, file=owner, record=place, allowed=allowed)


def _checked(records: Iterable[Record], part: str, owner: str) -> Iterator[Record]:
    """Yield records in order, with ids that are well-formed and unique, checked as consumed."""
    positions: dict[str, int] = {}
    # checked while they are consumed, so that documents may come one by one
    for position, record in enumerate(records):
        entry = Entry(owner, None, {}, record=f"{part}[{position}]")
        if not isinstance(record.id, str) or not isinstance(record.text, str):
            raise entry.error(f"found {record!r:.80}", allowed="texts as id and text")
        if reason := id_problem(record.id):
            raise entry.error(f"id {reason}: {record.id!r}", allowed=ID_ALLOWED)
        if (first := positions.setdefault(record.id, position)) != position:
            raise entry.error(f"id '{record.id}' is repeated, first at {part}[{first}]")
        yield record
