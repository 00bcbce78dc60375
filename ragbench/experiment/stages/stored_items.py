"""Stored items of stages: their keys, and outcomes and columns as JSON and back.

A key is a hash of a component's options, the content of the files that they name, its code, and
the content of what it reads. Values of environment variables that hold secrets are left out: a
new key for the same service makes nothing again.

Reading a written item gives an equal object, floats to the last bit. Values of metadata without a
JSON form are stored as their text.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.config.components import is_opaque, options_of
from ragbench.config.schema import Component
from ragbench.experiment.calls import Outcome
from ragbench.json_yaml import load_json
from ragbench.records.codec import clean_tree, from_json
from ragbench.registry import PYTHON
from ragbench.retrieve.chunks import Chunked
from ragbench.score.judge.base import JudgedItem
from ragbench.secrets import redact
from ragbench.signature import Signature, file_digest, fingerprint, fingerprint_json
from ragbench.text.chunk import Chunker
from ragbench.types import (
    Cause,
    Document,
    Prediction,
    Query,
    Retrieved,
    ScoreColumn,
    ScoredDocument,
    ToolCall,
    Usage,
    Verdict,
)
from ragbench.types.conversation import Json

KEY_DIGITS = 32


def has_full_key(component: Component | None) -> bool:
    """Return True if the key of a component contains all that its output depends on.

    Code of the user, of other packages and of services may change unnoticed: False for them, unless
    `version:` of the entry names their version. False for a live object.
    """
    if component is None:
        return False
    if component.version is not None:
        return True
    if component.chunk is not None and component.chunk.code is not None:
        return False
    built_in = getattr(component.cls, "__module__", "").startswith("ragbench.")
    return built_in and not is_opaque(component.cls) and not component.type.startswith(PYTHON)


def component_key(
    component: Component | None, run_token: str, secrets: Mapping[str, str], **inputs: Any
) -> str:
    """Return the key of a component's results: a hash of its entry, code, files and inputs.

    It has 32 hexadecimal digits.

    Args:
        component: Entry; None for a live object.
        run_token: Token of the run, part of the key if `has_full_key` is False.
        secrets: Secrets of the config, which the key does not depend on.
        inputs: Other parts of the key, JSON-ready.

    Raises:
        TypeError: A mapping in an input has keys of different types.
    """
    # names and comments of the config are no part: a renamed component keeps its results
    parts: dict[str, Any] = {"inputs": inputs}
    if component is not None:
        parts |= {
            "type": component.type,
            "options": {
                name: _content(name, value, component, secrets)
                for name, value in sorted(component.options.items())
            },
            "version": component.version,
            "code": code_of(component.cls),
        }
        if component.chunk is not None:
            content = asdict(component.chunk) | {"code": [code_of(Chunker), code_of(Chunked)]}
            if component.chunk.tokenizer is not None:
                content["tokenizer"] = _content_of_path(Path(component.chunk.tokenizer))
            parts["chunk"] = content
    if not has_full_key(component):
        parts["run"] = run_token
        # a run that is resumed after a correction would mix results of two versions
        if component is not None:
            names = (component.type, f"{PYTHON}{component.options.get('factory')}")
            parts["own_code"] = [own_code(name) for name in names]
    return fingerprint_json(parts, KEY_DIGITS)


def query_key(query: Query) -> str:
    """Return the hash of a query: its id, text, metadata and earlier turns.

    It has 32 hexadecimal digits.
    """
    extra = fingerprint_json(dict(query.metadata)) if query.metadata else ""
    turns = [fingerprint_json(turn.to_dict(), KEY_DIGITS) for turn in query.turns]
    return fingerprint([query.id, query.text, extra, *turns], KEY_DIGITS)


def hits_key(query: Query, rankings: Sequence[Sequence[ScoredDocument]]) -> str:
    """Return the hash of a query and of its hits by each retriever, as part of a cache key.

    The hash covers id, score, title and text of each hit, and the order of retrievers and hits. It
    does not cover the metadata of a hit.
    """
    pieces = [query_key(query)]
    for hits in rankings:
        pieces.append(str(len(hits)))
        for hit in hits:
            pieces += [hit.id, repr(hit.score), hit.title or "", hit.text or ""]
    return fingerprint(pieces, KEY_DIGITS)


def passages_key(query: Query, passages: Sequence[Document]) -> str:
    """Return the hash of a query and of the ids, titles and texts of passages, in their order.

    It has 32 hexadecimal digits.
    """
    pieces = [query_key(query)]
    for passage in passages:
        pieces += [passage.id, passage.title, passage.text]
    return fingerprint(pieces, KEY_DIGITS)


def item_key(item: JudgedItem, sample: int) -> str:
    """Return the hash of the fields of an item that a judge reads, and of its sample number.

    A sample number of 0 leaves the hash as it is. It has 32 hexadecimal digits.
    """
    parts = (item.query_id, item.question, item.answer, item.contexts, item.references)
    extra = (item.queries, item.guidelines, item.other)
    turns = [
        *(turn.to_dict() for turn in item.turns),
        *(call.to_dict() for call in item.tool_calls or ()),
    ]
    nuggets = [] if item.nuggets is None else [{"nuggets": [*map(structs.astuple, item.nuggets)]}]
    optional = [*nuggets, *([sample] if sample else []), *([turns] if turns else [])]
    return fingerprint_json([*parts, *extra, *optional], KEY_DIGITS)


@functools.lru_cache(maxsize=256)
def code_of(cls: Any) -> str:
    """Return a hash of the ragbench modules of a class, and of versions of its packages.

    The modules are those of the class and its bases; the packages are those that the class names.
    Modules of other packages and of users are not read. An object that is no class has no modules.
    Cached for the process.
    """
    # `getattr`: a class of a third party need not inherit the base that declares these
    pieces: list[str | bytes] = [str(getattr(cls, "definition", 1))]
    for base in inspect.getmro(cls) if inspect.isclass(cls) else ():
        if base is object or not base.__module__.startswith("ragbench."):
            continue
        source = inspect.getsourcefile(base)
        pieces.append(Path(source).read_bytes() if source else base.__module__)
    return fingerprint([*pieces, *versions_of(tuple(getattr(cls, "packages", ())))])


def own_code(name: str) -> str:
    """Return a hash of the file of the module in `python:module:name`; '' for any other name.

    Results of a measure, metric or judge of the user are stored under it, so that they are computed
    again after a correction. Modules that this one imports are not read.
    """
    if not name.startswith(PYTHON):
        return ""
    module = sys.modules.get(name.removeprefix(PYTHON).partition(":")[0])
    file = getattr(module, "__file__", None)
    return file_digest(Path(file)).hex() if file else ""


@functools.lru_cache(maxsize=256)
def code_in(*packages: str) -> str:
    """Return a hash of all modules and word lists of packages, for results that no class computes.

    Raises ImportError for an unknown package, and AttributeError for a module that is no package.
    Cached for the process.
    """
    folders = [Path(place) for name in packages for place in import_module(name).__path__]
    files = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return fingerprint([path.read_bytes() for path in files if path.suffix in (".py", ".txt")])


@functools.lru_cache(maxsize=256)
def versions_of(packages: tuple[str, ...]) -> list[str]:
    """Return "name version" of each package, or "name is missing", in the given order."""
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} is missing")
    return versions


def _content(name: str, value: Any, component: Component, hidden: Mapping[str, str]) -> Any:
    """Return an option's value for a key; a path is replaced by a hash of the content."""
    # an absolute path in any option counts as a path, a relative one only where the option is
    # declared so
    declared = options_of(component.cls).get(name)
    refers_to = None if declared is None else declared.option.refers_to
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_content(name, part, component, hidden) for part in value]
    if isinstance(value, Path) or refers_to in ("path", "path_or_name", "folder_or_name"):
        return _content_of_path(Path(value))
    if isinstance(value, str):
        # an option of any name may take the folder of a model
        path = Path(value)
        return _content_of_path(path) if path.is_absolute() else redact(value, hidden)
    if isinstance(value, Mapping):
        return {str(key): _content(name, part, component, hidden) for key, part in value.items()}
    return value if isinstance(value, (bool, int, float)) else repr(value)


def _content_of_path(path: Path) -> str:
    """Return a hash of a file or folder; the path itself if it is missing or unreadable."""
    try:
        if path.is_file():
            return file_digest(path).hex()
        if path.is_dir():
            # names, sizes and times of change, as models have gigabytes
            paths = sorted(file for file in path.rglob("*") if file.is_file())
            stats = [(str(file.relative_to(path)), file.stat()) for file in paths]
            return fingerprint(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)
    except OSError:  # the component itself raises the error with its place
        return str(path)
    return str(path)


# JSON object of a stored item.
Stored = dict[str, Any]


def cause_of(stored: object) -> Cause:
    """Return the cause of a stored item, by its key `cause`; `Cause.SCORED` without that key.

    Raises:
        TypeError: The item is no JSON object.
        KeyError: It has an unknown cause.
        AttributeError: Its cause is no text.
    """
    if not isinstance(stored, Mapping):
        raise TypeError(f"found {stored!r}, allowed: an object")
    return Cause[stored.get("cause", Cause.SCORED.word).upper()]


def write_retrieved(outcome: Outcome[Retrieved]) -> Stored:
    """Return an outcome of retrieval as JSON for `read_retrieved`: hits, or cause of a failure."""
    value = outcome.value
    if value is None:
        return _write(outcome, None)
    hits = [_hit(hit) for hit in value.documents]
    return _write(outcome, {"hits": hits, "queries": list(value.queries)})


def read_retrieved(stored: Stored) -> Outcome[Retrieved]:
    """Return the outcome of retrieval that `write_retrieved` wrote: hits, or cause of a failure.

    Args:
        stored: JSON object of the item.

    Raises:
        KeyError: The object lacks `hits`, or its cause is unknown.
        TypeError: A part has another type.
        ValueError: The object has neither a value nor a cause, or a score is no number.
        AttributeError: The cause is no text.
    """
    value = stored.get("value")
    if value is None:
        return _read(stored, None)
    hits = [_read_hit(*hit) for hit in value["hits"]]
    return _read(stored, Retrieved(hits, [_text(query) for query in value.get("queries", [])]))


def write_predicted(outcome: Outcome[Prediction]) -> Stored:
    """Return an outcome of generation as JSON for `read_predicted`: answer, or cause of failure."""
    answer = outcome.value
    if answer is None:
        return _write(outcome, None)
    contexts, calls = answer.contexts, answer.tool_calls
    value = {
        "answer": answer.answer,
        "usage": structs.astuple(answer.usage),
        "left_out": list(answer.left_out),
        "queries": list(answer.queries),
        # an empty list of passages or calls differs from None, which means unknown
        "contexts": None if contexts is None else [write_document(d) for d in contexts],
        "tool_calls": None if calls is None else [_plain(call.to_dict()) for call in calls],
    }
    return _write(outcome, value)


def read_predicted(stored: Stored) -> Outcome[Prediction]:
    """Return an outcome of generation; raise `TypeError` or `ValueError` for a malformed one.

    Also
    """
    value = stored.get("value")
    if value is None:
        return _read(stored, None)
    contexts, calls = value.get("contexts"), value.get("tool_calls")
    prediction = Prediction(
        _text(value["answer"]),
        None if contexts is None else [_read_document(*document) for document in contexts],
        Usage(*value["usage"]),
        [_text(query) for query in value.get("queries", [])],
        left_out=tuple(_text(part) for part in value.get("left_out", [])),
        tool_calls=None if calls is None else tuple(ToolCall(**call) for call in calls),
    )
    return _read(stored, prediction)


def read_verdict(stored: Mapping[str, Any]) -> Verdict:
    """Return a verdict from its JSON.

    Raises:
        DataError: The score is missing, or a value has another type.
        ValueError: It has neither a score nor a cause.
        KeyError: The cause is unknown.
    """
    verdict = from_json(Verdict, stored)
    if cause_of(stored) is Cause.SCORED and verdict.score is None:
        raise ValueError("neither a score nor a cause")
    return verdict


def write_column(column: ScoreColumn) -> Stored:
    """Return a column of scores as JSON; its doubles in base64, which is far faster than text.

    Infinite ends of the range are texts. Causes of samples are not stored.
    """
    return {
        "name": column.name,
        "values": b64encode(column.values.astype("<f8").tobytes()).decode(),
        "causes": b64encode(column.causes.astype(np.uint8).tobytes()).decode(),
        "signature": str(column.signature),
        "direction": column.direction,
        "range": [_number(column.low), _number(column.high)],
        "aggregate": column.aggregate,
        "total": None if column.total is None else _number(column.total),
        "details": {str(row): detail for row, detail in column.details.items()},
    }


def read_column(stored: Mapping[str, Any]) -> ScoreColumn:
    """Return a column of scores; raise `ValueError` if values and causes differ in number.

    Also for bad base64; KeyError for a missing key, TypeError or AttributeError for another type.
    """
    values = np.frombuffer(b64decode(stored["values"], validate=True), "<f8").astype(np.float64)
    causes = np.frombuffer(b64decode(stored["causes"], validate=True), np.uint8).copy()
    if len(values) != len(causes):
        raise ValueError("as many values as causes")
    low, high = map(float, stored["range"])
    return ScoreColumn(
        name=stored["name"],
        values=values,
        causes=causes,
        signature=Signature.parse(stored["signature"]),
        direction=stored["direction"],
        low=low,
        high=high,
        aggregate=stored["aggregate"],
        total=None if stored["total"] is None else float(stored["total"]),
        details={int(row): detail for row, detail in stored["details"].items()},
    )


# Part of a value -> positions of the ids in its rows.
_IDS = {"hits": (0, 5), "contexts": (0,)}
# Parts of a column in base64, which may contain a short secret by chance.
_NUMBERS = ("values", "causes")


def without_secrets(stored: Mapping[str, Any], clean: Callable[[str], str]) -> Stored:
    """Return a stored item with `clean` applied to its texts, without ids and numbers.

    A changed id would no longer fit the rankings and the qrels. Returns a new object. Keys of
    objects are cleaned too.
    """

    def cleaned(key: str, part: Json) -> Json:
        if key in _NUMBERS and isinstance(part, str):
            return part
        if key in ("value", "column") and isinstance(part, Mapping):
            return {clean(inner): cleaned(inner, inner_part) for inner, inner_part in part.items()}
        if key not in _IDS or part is None:
            return clean_tree(part, clean)
        return [
            [field if n in _IDS[key] else clean_tree(field, clean) for n, field in enumerate(row)]
            for row in part
        ]

    return {clean(key): cleaned(key, part) for key, part in stored.items()}


def _write(outcome: Outcome[Any], value: Stored | None) -> Stored:
    """Return an outcome as JSON, without the parts that have their defaults; ms to 0.001."""
    cause = None if outcome.cause is Cause.SCORED else outcome.cause.word
    ms = None if outcome.latency_ms is None else round(outcome.latency_ms, 3)
    parts = {"value": value, "cause": cause, "detail": outcome.detail or None, "ms": ms}
    return {name: part for name, part in parts.items() if part is not None}


def _read(stored: Stored, value: Any) -> Outcome[Any]:
    """Return an outcome with its cause and latency; `ValueError` without value and cause."""
    cause = cause_of(stored)
    if value is None and cause is Cause.SCORED:
        raise ValueError("neither a value nor a cause")
    return Outcome(value, cause, stored.get("detail", ""), stored.get("ms"))


def _hit(hit: ScoredDocument) -> list[object]:
    """Return a hit as the list that `_read_hit` reads, without the last fields that are None."""
    # the fields are id, score, text, title, metadata and document
    score = None if hit.score is None else _number(float(hit.score))
    metadata = hit.metadata and _plain(dict(hit.metadata))  # most hits have none
    parts = [hit.id, score, hit.text, hit.title, metadata or None, hit.document]
    while len(parts) > 1 and parts[-1] is None:
        parts.pop()
    return parts


def _read_hit(
    identifier: str,
    score: float | str | None = None,
    text: str | None = None,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    document: str | None = None,
) -> ScoredDocument:
    """Return a hit from its fields; a score, text, title or document that is None stays None."""
    number = None if score is None else float(score)
    for part in (identifier, text or "", title or "", document or ""):
        _text(part)
    return ScoredDocument(identifier, number, text, title, metadata or {}, document)


def _read_document(identifier: str, text: str, title: str, metadata: Json) -> Document:
    """Return a document from its fields; raise `TypeError` if id, text or title is no string."""
    return Document(_text(identifier), _text(text), _text(title), metadata)


def _text(value: object) -> str:
    """Return a text; raise `TypeError` for another value."""
    # the checksum of an item does not tell that: another program may have written both
    if not isinstance(value, str):
        raise TypeError(f"found {value!r}, allowed: text")
    return value


def _number(value: float) -> float | str:
    """Return a number as JSON; infinities and NaN, which JSON lacks, as a text for `float`."""
    return value if math.isfinite(value) else str(value)


def write_document(document: Document) -> list[object]:
    """Return a document as a JSON list: id, text, title, metadata.

    Values of the metadata that JSON lacks, such as dates and NaN, become texts; keys that are no
    texts or numbers are left out.
    """
    texts = _plain([document.id, document.text, document.title])
    return [*texts, _plain(dict(document.metadata))]


def _plain(value: object) -> Json:
    """Return a value as JSON; the parts that JSON lacks as text."""
    try:
        return load_json(json.dumps(value, default=str, skipkeys=True), parse_constant=str)
    except (ValueError, RecursionError):  # a circle, or deeper than JSON can be read again
        if isinstance(value, dict):
            return {str(key): _plain(part) for key, part in value.items() if part is not value}
        return "(nested too deep)"


def with_text(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """Return a hit with text and title of its corpus document if its text is None.

    A hit that has a text, also an empty one, or that the corpus lacks is returned unchanged.
    """
    document = corpus.get(hit.id) if hit.text is None else None
    return hit if document is None else replace(hit, text=document.text, title=document.title)


def without_text(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """Return a hit without its text and title if the corpus document has the same, else unchanged.

    A missing title equals an empty one.
    """
    document = corpus.get(hit.id) if hit.text is not None else None
    if document is None or (hit.text, hit.title or "") != (document.text, document.title):
        return hit
    return replace(hit, text=None, title=None)
