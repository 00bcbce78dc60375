"""Span of a trace, whichever tool wrote it, and the values that all tools write alike."""

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
from ragbench.types.lookups import map_values
from ragbench.types.records import read_count

# A value as a tool wrote it; its kind is checked before use.
Json = Any
# An object of such values.
Tree = Mapping[str, Json]
# Purpose of a step.
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
_FRACTION = re.compile(r"\.(\d+)")
# Seconds since 1970: March 1973, and the year 9892. A smaller number comes from a clock that starts
# with its process.
_FIRST_TIME, _LAST_TIME = 1e8, 2.5e11


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """Step of a trace, such as a retrieval or a call of a model; the readers of exports make it.

    Attributes:
        trace: Id of its trace.
        id: Id of the step, unique within the trace.
        parent: Id of the step around it; None for the outermost.
        kind: Purpose of the step, such as `retriever` or `llm`; `unknown` where the word of the
            tool stands for no other kind.
        entry: Row of the file, for messages.
        start: Seconds since 1970; None if unknown, as `end`.
        input: Input of the step, as the tool wrote it.
        output: Output of the step, as the tool wrote it.
        documents: Passages that it returned, as the tool wrote them; None if they are not recorded.
            A retriever or reranker without such a field has its output here.
        reranked: Passages that a reranker received; None if they are not recorded.
        error: Reason of a failure; None for a step that succeeded.
        usage: Tokens and cost.
        session: Id of the conversation in which its trace is a turn; None without one.
        name: Name of the step; '' without one.
        model: Name of the model that was called; None if unknown.
        metadata: Metadata of the step; empty without any.
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
        """Duration in milliseconds; None where a time is missing or the end is before the start."""
        if self.start is None or self.end is None or self.end < self.start:
            return None
        return (self.end - self.start) * 1000


def kind_of(*words: Json) -> Kind:
    """Return the kind by the first word that names one; `unknown` if none does.

    Kinds are `retriever`, `reranker`, `llm`, `embedding`, `guardrail`, `evaluator`, `tool`, `chain`
    and `agent`; the words are those of the tracing tools, in any case.

    Example:
        >>> kind_of(None, "RETRIEVER"), kind_of("SpanKind.INTERNAL")
        ('retriever', 'unknown')
    """
    for word in words:
        if isinstance(word, str) and (kind := _KINDS.get(word.strip().strip('"').lower())):
            return kind
    return "unknown"


def parse(value: Json) -> Json:
    """Return the value in a text: JSON, or as Python prints it; all else is returned as it is.

    Only a text that begins with `{` or `[` is read: "1" stays a text. NaN, an empty cell in tables
    of pandas, becomes None.

    Example:
        >>> parse('{"question": "Why?"}'), parse("[1] says so"), parse("['a']")
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
    """Return a time as seconds since 1970; None if it cannot be read.

    It is a `datetime`, a text in ISO 8601, or a number, also as text. The size of a number tells
    its unit: s, ms, us or ns. A time without a zone is UTC. A negative or infinite number, and a
    truth value, give None.

    Example:
        >>> seconds("1970-01-01T00:00:02Z"), seconds("1700000000000000000"), seconds("soon")
        (2.0, 1700000000.0, None)
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text)
        except ValueError:
            # Python 3.10 reads three or six digits of a second, tools write up to nine
            text = _FRACTION.sub(lambda digits: f".{digits[1][:6]:0<6}", text, count=1)
            try:
                value = datetime.fromisoformat(text.replace("Z", "+00:00"))
            except ValueError:
                return None
    if isinstance(value, datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return zoned.timestamp()
    time = number(value)
    if time is None:
        return None
    # nano-, micro- and milliseconds: since 1973 a time has at least 10^8 seconds
    for n in (9, 6, 3):
        if time >= 10 ** (n + 8):
            return time / 10**n
    return time


def read_time(value: Json) -> datetime | None:
    """Return a time in UTC, from any form that `seconds` reads.

    The result is None if it cannot be read, lies more than 2.5 * 10^11 s after 1970 (year 9892), or
    is a number below 10^8 (March 1973), which counts the seconds of a process.

    Example:
        >>> read_time("2025-10-19T23:30:00-02:00").isoformat(), read_time(12.5)
        ('2025-10-20T01:30:00+00:00', None)
    """
    time = seconds(value)
    if time is None or time > _LAST_TIME or (number(value) is not None and time < _FIRST_TIME):
        return None
    return datetime.fromtimestamp(time, timezone.utc)


def number(value: Json) -> float | None:
    """Return a finite number >= 0, such as a cost, also from a text such as "0.5".

    Other values, booleans included, give None.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):  # also an integer beyond the largest float
        return None
    return result if math.isfinite(result) and result >= 0 else None


def count(value: Json) -> int | None:
    """Return a number of tokens, also from a text; None unless it is whole and at most 2**53."""
    tokens = number(value)
    return read_count(int(tokens)) if tokens is not None and tokens.is_integer() else None


def error_reason(code: Json, *messages: Json) -> str | None:
    """Return why a step failed, in one line; None if its status is no error.

    Args:
        code: Status as the tool writes it. `error`, `STATUS_CODE_ERROR` and 2 are errors, in any
            case and also behind a point; None and all others are not.
        messages: Texts that may hold the reason. The first line of the first text that is not
            blank counts; without one the reason is 'no reason is recorded'.
    """
    if str(code).strip().rsplit(".", 1)[-1].lower() not in _FAILED:
        return None
    for message in messages:
        if message:
            line = str(message).strip()
            if line:
                return line.splitlines()[0]
    return "no reason is recorded"


def to_mapping(value: Json) -> Tree:
    """Return an object, also if it is written as JSON; an empty one for anything else.

    The result is the same object.
    """
    value = parse(value)
    return value if isinstance(value, Mapping) else {}


def to_text(value: Json) -> str | None:
    """Return a text that is not blank, or an integer as its digits; None for anything else.

    A text is returned as it is, with the blanks around it.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else None


def nested(values: Tree) -> dict[str, Json]:
    """Return attributes as a tree: keys are split at dots, and numbers are positions in lists.

    Keys with None are left out, and lists have no gaps. The value of a key that others continue
    stands under '': {"a": 1, "a.b": 2} gives {"a": {"": 1, "b": 2}}. Raises TypeError or
    AttributeError for keys that are no texts.

    Example:
        >>> nested({"retrieval.documents.0.document.id": "a", "input.value": "Why?"})
        {'retrieval': {'documents': [{'document': {'id': 'a'}}]}, 'input': {'value': 'Why?'}}
    """
    tree: dict[str, Json] = {}
    for key, value in values.items():
        if value is not None:
            _insert(tree, key.split("."), _nest_items(value))
    lists = _to_lists(tree)
    return lists if isinstance(lists, dict) else tree


def _nest_items(value: Json) -> Json:
    """Return a JSON value in which dotted keys of objects are nested objects."""
    if isinstance(value, Mapping):
        return nested(value)
    if isinstance(value, (list, tuple)):
        return [_nest_items(item) for item in value]
    return value


def _insert(tree: dict[str, Json], path: Sequence[str], value: Json) -> None:
    """Insert a value into a tree, in place; `path` has at least one step."""
    for step in path[:-1]:
        inner = tree.get(step)
        if not isinstance(inner, dict):
            inner = tree[step] = {} if inner is None else {"": inner}
        tree = inner
    last, present = path[-1], tree.get(path[-1])
    if isinstance(present, dict) and isinstance(value, dict):
        for key, item in value.items():
            _insert(present, [key], item)
    elif isinstance(present, dict):
        present[""] = value
    else:
        tree[last] = value


def _to_lists(value: Json) -> Json:
    """Return a tree whose objects with only numbers as keys are lists."""
    if not isinstance(value, dict):
        return value
    if value and all(key.isdecimal() for key in value):
        return [_to_lists(value[key]) for key in sorted(value, key=int)]
    return map_values(_to_lists, value)


def first_in(tree: Tree, *paths: str) -> Json:
    """Return the value at the first of some paths that leads to one; None if none does.

    A path is keys and positions between points, such as `documents.0.id`; null is no value.
    """
    for path in paths:
        if (value := value_at(tree, path)) is not None:
            return value
    return None


def snake(values: Tree) -> dict[str, Json]:
    """Return an object with its keys in snake case; objects inside stay as they are.

    Example:
        >>> snake({"parentObservationId": 1, "trace_id": 2})
        {'parent_observation_id': 1, 'trace_id': 2}
    """
    return {_CAPITAL.sub(r"_\1", key).lower(): value for key, value in values.items()}


_OBSERVATION = {"trace_id", "type"}
# Format -> sets of keys in snake case, one of which its objects have; the first format counts.
_SIGNS: Mapping[str, Sequence[set[str]]] = {
    "otlp": [{"resource_spans"}],
    "langsmith": [{"run_type"}],
    "langfuse": [
        {"observations"},
        _OBSERVATION | {"level"},
        _OBSERVATION | {"parent_observation_id"},
    ],
    "mlflow": [{"info", "data"}, {"spans"}],
    "openinference": [
        {"context"},
        {"context.trace_id", "context.span_id"},
        {"trace_id", "span_id"},
    ],
}


def detect_format(values: Tree) -> str | None:
    """Return the format of an export by the keys of one of its objects; None if none fits.

    It is `otlp`, `langsmith`, `langfuse`, `mlflow` or `openinference`.

    Example:
        >>> detect_format({"run_type": "chain", "id": "1"}), detect_format({"question": "Why?"})
        ('langsmith', None)
    """
    keys = set(snake(values))
    # the context of a span is a mapping; that of a question is a text or a list of passages
    if _is_passages(values.get("context")):
        keys.discard("context")
    for form, signs in _SIGNS.items():
        if any(sign <= keys for sign in signs):
            return form
    return None


def _is_passages(context: Json) -> bool:
    """Return True for a list, or a text that is no JSON object."""
    return isinstance(context, list) or (
        isinstance(context, str) and not context.lstrip().startswith("{")
    )


def refuse_traces(entries: Sequence[Entry]) -> None:
    """Check that the rows of a file are no export of traces, by the keys of the first one.

    No rows, and records of any other form, pass.

    Raises:
        DataError: The file is an export of traces.
    """
    format_name = detect_format(entries[0].values) if entries else None
    if format_name is not None and "question" not in entries[0].values:
        problem = f"this is an export of traces ({format_name}), not a record per question"
        allowed = "dataset: {type: traces, path: ...}, which finds steps by their kinds"
        raise entries[0].error(problem, allowed=allowed)
