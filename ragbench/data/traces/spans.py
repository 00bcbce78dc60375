"""A span of a trace, whichever tool wrote it, and the values that all tools write alike."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from ragbench.data.files.columns import value_at
from ragbench.data.files.rows import Entry
from ragbench.json_yaml import load_json
from ragbench.types import Usage

# A value as a tool wrote it: looked at before it is believed.
Json = Any
# An object of such values.
Tree = Mapping[str, Json]
# What a step was for.
Kind = Literal[
    "retriever",
    "reranker",
    "llm",
    "embedding",
    "guardrail",
    "evaluator",
    "tool",
    "chain",
    "agent",
    "unknown",
]

# Kind -> the words of OpenInference, GenAI, Langfuse, LangSmith and MLflow for it, in lower case.
_KIND_WORDS: Mapping[Kind, tuple[str, ...]] = {
    "retriever": ("retriever", "retrieval"),
    "reranker": ("reranker", "rerank"),
    "llm": ("llm", "chat_model", "generation", "chat", "text_completion", "generate_content"),
    "embedding": ("embedding", "embeddings"),
    "guardrail": ("guardrail",),
    "evaluator": ("evaluator",),
    "tool": ("tool", "execute_tool"),
    "chain": ("chain", "span", "workflow", "task", "invoke_workflow", "prompt", "parser"),
    "agent": ("agent", "invoke_agent", "create_agent"),
}
_KINDS = {word: kind for kind, words in _KIND_WORDS.items() for word in words}
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_FAILED = ("error", "status_code_error", "2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One step of a trace.

    Attributes:
        trace: The id of its trace.
        id: Unique within the trace.
        parent: The span that it is a step of; None for the outermost.
        entry: Where it stands, for messages.
        start: Seconds since 1970; None where it is not known.
        documents: The passages that it returned, as they are written; None where they are not.
        reranked: The passages that a reranker got.
        error: Why it failed; None where it did not.
        session: The conversation that its trace is a turn of.
    """

    trace: str
    id: str
    parent: str | None
    name: str
    kind: Kind
    entry: Entry
    start: float | None = None
    end: float | None = None
    input: Json = None
    output: Json = None
    documents: Json = None
    reranked: Json = None
    error: str | None = None
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    session: str | None = None
    metadata: Tree = field(default_factory=dict)

    @property
    def latency_ms(self) -> float | None:
        """How long it took."""
        if self.start is None or self.end is None or self.end < self.start:
            return None
        return (self.end - self.start) * 1000


def kind_of(*written: Json) -> Kind:
    """Return the kind by the first word that is one.

    Example:
        >>> kind_of(None, "RETRIEVER"), kind_of("SpanKind.INTERNAL")
        ('retriever', 'unknown')
    """
    for word in written:
        if isinstance(word, str) and (found := _KINDS.get(word.strip().strip('"').lower())):
            return found
    return "unknown"


def parsed(value: Json) -> Json:
    """Return what a text holds as JSON, or as Python prints it; any other value as it is.

    Example:
        >>> parsed('{"question": "Why?"}'), parsed("[1] says so"), parsed("['a']")
        ({'question': 'Why?'}, '[1] says so', ['a'])
    """
    if isinstance(value, float) and math.isnan(value):
        return None  # an empty cell in tables that pandas wrote
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    for read in (load_json, ast.literal_eval):
        try:
            return read(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return value


def seconds(value: Json) -> float | None:
    """Return a time as seconds since 1970: ISO 8601, or a number by its size.

    Example:
        >>> seconds("1970-01-01T00:00:02Z"), seconds("1700000000000000000"), seconds("soon")
        (2.0, 1700000000.0, None)
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text)
        except ValueError:
            try:
                value = datetime.fromisoformat(text.replace("Z", "+00:00"))
            except ValueError:
                return None
    if isinstance(value, datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return zoned.timestamp()
    found = number(value)
    if found is None:
        return None
    # nanoseconds, microseconds, milliseconds
    return next((found / 10**n for n in (9, 6, 3) if found >= 10 ** (n + 8)), found)


def number(value: Json) -> float | None:
    """Return a number that is not below 0, as of dollars; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def count(value: Json) -> int | None:
    """Return a number of tokens; None where there is none."""
    found = number(value)
    return None if found is None else int(found)


def error_reason(code: Json, *messages: Json) -> str | None:
    """Return why a step failed, in one line; None where its status is no error."""
    if str(code).strip().rsplit(".", 1)[-1].lower() not in _FAILED:
        return None
    lines = (str(message).strip() for message in messages if message)
    return next((line.splitlines()[0] for line in lines if line), "no reason is recorded")


def mapping_of(value: Json) -> Tree:
    """Return an object, also one that is written as JSON; an empty one for anything else."""
    value = parsed(value)
    return value if isinstance(value, Mapping) else {}


def first(values: Tree, *keys: str) -> Json:
    """Return the value of the first key that has one."""
    return next((values[key] for key in keys if values.get(key) is not None), None)


def text_of(value: Json) -> str | None:
    """Return a text, or a whole number as its digits; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else None


def nested(values: Tree) -> dict[str, Json]:
    """Return attributes as a tree: keys are split at dots, numbers are places in lists.

    Example:
        >>> nested({"retrieval.documents.0.document.id": "a", "input.value": "Why?"})
        {'retrieval': {'documents': [{'document': {'id': 'a'}}]}, 'input': {'value': 'Why?'}}
    """
    tree: dict[str, Json] = {}
    for key, value in values.items():
        if value is not None:
            _place(tree, key.split("."), _inner(value))
    listed = _listed(tree)
    return listed if isinstance(listed, dict) else tree


def _inner(value: Json) -> Json:
    if isinstance(value, Mapping):
        return nested(value)
    if isinstance(value, (list, tuple)):
        return [_inner(item) for item in value]
    return value


def _place(tree: dict[str, Json], path: Sequence[str], value: Json) -> None:
    for step in path[:-1]:
        inner = tree.get(step)
        if not isinstance(inner, dict):
            inner = tree[step] = {} if inner is None else {"": inner}
        tree = inner
    last, before = path[-1], tree.get(path[-1])
    if isinstance(before, dict) and isinstance(value, dict):
        for key, each in value.items():
            _place(before, [key], each)
    elif isinstance(before, dict):
        before[""] = value
    else:
        tree[last] = value


def _listed(value: Json) -> Json:
    """A tree in which objects whose keys are all numbers are lists."""
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        return [_listed(value[key]) for key in sorted(value, key=int)]
    return {key: _listed(each) for key, each in value.items()}


def at(tree: Json, path: str) -> Json:
    """Return what stands at a path of a tree; None where nothing does."""
    for step in path.split("."):
        if not isinstance(tree, Mapping) or step not in tree:
            return None
        tree = tree[step]
    return tree


def first_at(tree: Tree, *paths: str) -> Json:
    """Return what stands at the first of some paths that lead to something."""
    return next((found for path in paths if (found := at(tree, path)) is not None), None)


def snake(values: Tree) -> dict[str, Json]:
    """Return an object with its own keys in snake case; what stands inside stays as it is.

    Example:
        >>> snake({"parentObservationId": 1, "trace_id": 2})
        {'parent_observation_id': 1, 'trace_id': 2}
    """
    return {_CAPITAL.sub(r"_\1", key).lower(): value for key, value in values.items()}


def tell_format(values: Tree) -> str | None:
    """Return the format that an object of a file is in; None where it is none of them.

    Example:
        >>> tell_format({"run_type": "chain", "id": "1"}), tell_format({"question": "Why?"})
        ('langsmith', None)
    """
    keys = set(snake(values))
    if keys & {"resource_spans"}:
        return "otlp"
    if "run_type" in keys:
        return "langsmith"
    is_observation = {"trace_id", "type"} <= keys and keys & {"level", "parent_observation_id"}
    if "observations" in keys or is_observation:
        return "langfuse"
    if {"info", "data"} <= keys or "spans" in keys:
        return "mlflow"
    is_span = "context" in keys or {"context.trace_id", "context.span_id"} <= keys
    return "openinference" if is_span or {"trace_id", "span_id"} <= keys else None


def refuse_traces(entries: Sequence[Entry], columns: Mapping[str, Json] | None) -> None:
    """Refuse records that are steps of traces and are read by their place, which is by chance.

    Where an item of a list of steps is another step in another row, or is no retriever and should
    be the passages, `type: traces` finds it by its kind.

    Raises:
        DataError: With the row, and what stands there.
    """
    allowed = "dataset: {type: traces, path: ...}, which finds steps by their kinds"
    told = tell_format(entries[0].values) if entries else None
    if told is not None and not columns and "question" not in entries[0].values:
        found = f"this is an export of traces ({told}), not a record per question"
        raise entries[0].error(found, allowed=allowed)
    for part, path in (columns or {}).items():
        item_path = re.match(r"(.+\.\d+)(?:\.|$)", path) if isinstance(path, str) else None
        if item_path is None:
            continue
        seen: dict[str, Entry] = {}
        for entry in entries:
            span = value_at(entry.values, item_path[1])  # the last list item on the path
            kind = first(mapping_of(span), "type", "run_type", "span_kind")
            if isinstance(kind, str) and kind_of(kind) != "unknown":
                seen.setdefault(kind, entry)
        odd = [kind for kind in seen if kind_of(kind) not in ("unknown", "retriever", "reranker")]
        if len(seen) > 1:
            (first_kind, first_entry), (kind, entry) = list(seen.items())[:2]
            found = f"columns.{part}: '{path}' is a {kind} here, and a {first_kind} in "
            raise entry.error(found + first_entry.place, allowed=allowed)
        if part == "contexts" and odd:
            found = f"columns.contexts: '{path}' is a {odd[0]}, not a retriever"
            raise seen[odd[0]].error(found, allowed=allowed)
