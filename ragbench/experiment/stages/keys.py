"""Keys of stored items: hashes, of 32 hexadecimal digits, of all that a result depends on."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from msgspec import structs

from ragbench.config.components import is_opaque, options_of
from ragbench.config.schema import Component
from ragbench.registry import PYTHON
from ragbench.retrieve.chunks import Chunked
from ragbench.score.judge.base import JudgedItem
from ragbench.secrets import redact
from ragbench.signature import file_digest, fingerprint, fingerprint_json
from ragbench.text.chunk import Chunker
from ragbench.types import Document, Query, ScoredDocument

KEY_DIGITS = 32


def has_full_key(component: Component | None) -> bool:
    """Return True if the key of a component contains all that its output depends on.

    Code of the user, of other packages and of services may change unnoticed without `version:`.
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

    Args:
        component: Entry; None for a live object.
        run_token: Token of the run, part of the key if `has_full_key` is False.
        secrets: Secrets of the config; a new secret for the same service makes nothing again.
        inputs: Other parts of the key, JSON-ready.
    """
    # names and comments of the config are no part: a renamed component keeps its results
    parts: dict[str, Any] = {"inputs": inputs}
    if component is not None:
        options = {}
        for name, value in sorted(component.options.items()):
            options[name] = _content(name, value, component, secrets)
        parts |= {
            "type": component.type,
            "options": options,
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
            parts["own_code"] = [*map(own_code, names)]
    return fingerprint_json(parts, KEY_DIGITS)


def query_key(query: Query) -> str:
    """Return the hash of a query: its id, text, metadata and earlier turns."""
    extra = fingerprint_json(dict(query.metadata)) if query.metadata else ""
    turns = [fingerprint_json(turn.to_dict(), KEY_DIGITS) for turn in query.turns]
    return fingerprint([query.id, query.text, extra, *turns], KEY_DIGITS)


def hits_key(query: Query, rankings: Sequence[Sequence[ScoredDocument]]) -> str:
    """Return the hash of a query and of its hits by each retriever, without their metadata."""
    pieces = [query_key(query)]
    for hits in rankings:
        pieces.append(str(len(hits)))
        for hit in hits:
            pieces += [hit.id, repr(hit.score), hit.title or "", hit.text or ""]
    return fingerprint(pieces, KEY_DIGITS)


def passages_key(query: Query, passages: Sequence[Document]) -> str:
    """Return the hash of a query and of the ids, titles and texts of passages, in their order."""
    pieces = [query_key(query)]
    for passage in passages:
        pieces += [passage.id, passage.title, passage.text]
    return fingerprint(pieces, KEY_DIGITS)


def item_key(item: JudgedItem, sample: int) -> str:
    """Return the hash of the fields of an item that a judge reads, and of its sample number."""
    parts = (item.query_id, item.question, item.answer, item.contexts, item.references)
    extra = (item.queries, item.guidelines, item.other)
    turns = [turn.to_dict() for turn in item.turns]
    turns += [call.to_dict() for call in item.tool_calls or ()]
    nuggets = [] if item.nuggets is None else [{"nuggets": [*map(structs.astuple, item.nuggets)]}]
    optional = [*nuggets, *([sample] if sample else []), *([turns] if turns else [])]
    optional += [{"first_reply": item.first_reply}] if item.first_reply else []
    return fingerprint_json([*parts, *extra, *optional], KEY_DIGITS)


@functools.lru_cache(maxsize=256)
def code_of(cls: Any) -> str:
    """Return a hash of the ragbench modules of a class and its bases, and of package versions."""
    # `getattr`: a class of a third party need not inherit the base that declares these
    pieces: list[str | bytes] = [str(getattr(cls, "definition", 1))]
    for base in inspect.getmro(cls) if inspect.isclass(cls) else ():
        if base is object or not base.__module__.startswith("ragbench."):
            continue
        source = inspect.getsourcefile(base)
        pieces.append(Path(source).read_bytes() if source else base.__module__)
    return fingerprint([*pieces, *versions_of(tuple(getattr(cls, "packages", ())))])


def own_code(name: str) -> str:
    """Return a hash of the file of `python:module:name`, not of its imports; '' for other names."""
    if not name.startswith(PYTHON):
        return ""
    module = sys.modules.get(name.removeprefix(PYTHON).partition(":")[0])
    file = getattr(module, "__file__", None)
    return file_digest(Path(file)).hex() if file else ""


@functools.lru_cache(maxsize=256)
def code_in(*packages: str) -> str:
    """Return a hash of all modules and word lists of packages, for results without a class."""
    contents = []
    for name in packages:
        for folder in import_module(name).__path__:
            for path in sorted(Path(folder).rglob("*")):
                if path.suffix in (".py", ".txt"):
                    contents.append(path.read_bytes())
    return fingerprint(contents)


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
    # a relative path counts as a path only where the option is declared so
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
    with suppress(OSError):  # the component itself raises the error with its place
        if path.is_file():
            return file_digest(path).hex()
        if path.is_dir():
            # names, sizes and times of change, as models have gigabytes
            pieces = []
            for file in sorted(path.rglob("*")):
                if file.is_file():
                    stat = file.stat()
                    pieces.append(f"{file.relative_to(path)} {stat.st_size} {stat.st_mtime_ns}")
            return fingerprint(pieces)
    return str(path)
