"""Readers of spans in the exports of tools, one function per format.

Phoenix, GenAI of OpenTelemetry, OTLP JSON and MLflow have attributes; Langfuse and LangSmith have
columns. A table for each form has the paths at which a part of a span may lie; the first with a
value counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragbench.data.files.columns import value_at
from ragbench.data.files.rows import Entry
from ragbench.data.traces.spans import (
    Json,
    TraceSpan,
    Tree,
    count,
    error_reason,
    first_in,
    kind_of,
    nested,
    number,
    parse,
    seconds,
    snake,
    to_mapping,
    to_text,
)
from ragbench.json_yaml import load_yaml
from ragbench.registry import quote
from ragbench.types import Usage
from ragbench.types.lookups import is_list_of, map_values, pick

# Part of a span -> the paths at which it may lie.
Paths = Mapping[str, Sequence[str]]

_TABLE = load_yaml(Path(__file__).with_name("paths.yaml").read_text(encoding="utf-8"))
_SPAN: Paths = _TABLE["span"]
_LANGFUSE: Paths = _TABLE["langfuse"]
_LANGSMITH: Paths = _TABLE["langsmith"]


def _span(entry: Entry, row: Tree, paths: Paths) -> TraceSpan:
    """Return the span in a row, with each part at the first of its paths that has a value."""

    def part(name: str) -> Json:
        """Return the value of a part."""
        return first_in(row, *paths.get(name, ()))

    def values(name: str) -> list[Json]:
        """Return the value at each path of a part."""
        return [value_at(row, path) for path in paths[name]]

    trace, identifier = to_text(part("trace")), to_text(part("id"))
    if trace is None or identifier is None:
        part_without_id = "trace" if trace is None else "span"
        allowed = f"{paths['trace'][-1]} and {paths['id'][-1]} in each row"
        raise entry.error(f"a span without the id of its {part_without_id}", allowed=allowed)
    kind, output = kind_of(*values("kind")), parse(part("output"))
    documents = part("documents")
    return TraceSpan(
        trace=trace,
        id=identifier,
        parent=to_text(part("parent")),
        name=str(row.get("name") or ""),
        kind=kind,
        entry=entry,
        start=seconds(part("start")),
        end=seconds(part("end")),
        input=parse(part("input")),
        output=output,
        # tools without a field for passages write them as the output of the step
        documents=output if documents is None and kind in ("retriever", "reranker") else documents,
        reranked=part("reranked"),
        error=error_reason(part("status"), *values("reasons")),
        model=to_text(part("model")),
        usage=Usage(
            count(part("input_tokens")),
            count(part("output_tokens")),
            number(part("usd")),
            count(part("reasoning_tokens")) or 0,
        ),
        session=to_text(part("session")),
        metadata=to_mapping(part("metadata")),
    )


def read_rows_of_spans(entries: Iterable[Entry]) -> Iterator[TraceSpan]:
    """Yield the spans of rows with a span each, as Phoenix and OpenTelemetry write them.

    They are in the order of the rows. A row without the id of its trace or span raises a DataError
    once it is read.
    """
    for entry in entries:
        yield read_span(entry, entry.values)


def read_span(entry: Entry, values: Tree) -> TraceSpan:
    """Return a span whose attributes are columns, a tree, keys with dots, or JSON text.

    Empty cells count as missing.

    Raises:
        DataError: The row has no id of the trace or of the span.
    """
    # in tables, a part that a span lacks is an empty cell
    cells = {}
    for key, value in values.items():
        if value != "":
            cells[key] = value
    # one tree for all notations: paths below need not know them
    row = nested({**cells, "attributes": parse(values.get("attributes"))})
    attributes = to_mapping(row.get("attributes"))
    attributes = {**attributes, "metadata": to_mapping(attributes.get("metadata"))}
    if isinstance(texts := attributes.get("mlflow"), Mapping):  # JSON texts
        attributes["mlflow"] = map_values(_decode_mlflow, texts)
    exception = _exception_message(parse(row.get("events")))
    return _span(entry, {**row, "attributes": attributes, "exception": exception}, _SPAN)


def _exception_message(events: Json) -> Json:
    """Return the message of the first event with an exception; None if no event has one."""
    for event in events if isinstance(events, list) else ():
        if isinstance(event, Mapping) and isinstance(event.get("attributes"), Mapping):
            message = value_at(nested(event["attributes"]), "exception.message")
            if message:
                return message
    return None


def _decode_mlflow(value: Json) -> Json:
    """Return an attribute of MLflow with the JSON texts inside it parsed, quoted texts too."""
    if isinstance(value, Mapping):
        return map_values(_decode_mlflow, value)
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        unquoted = parse(f"[{value}]")
        return unquoted[0] if isinstance(unquoted, list) and len(unquoted) == 1 else value
    return parse(value)


def read_otlp(entries: Iterable[Entry]) -> Iterator[TraceSpan]:
    """Yield the spans of OTLP JSON, an export request per row.

    Spans are in the order of the file.

    Raises:
        DataError: A row is no export of OTLP, or a span has no id or a wrong value.
    """
    for entry in entries:
        resources = pick(entry.values, "resourceSpans", "resource_spans")
        if not isinstance(resources, list):
            allowed = '{"resourceSpans": [...]}, as OTLP exports it'
            raise entry.error("no resourceSpans", allowed=allowed)
        for resource in _objects(entry, resources):
            scopes = pick(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
            for scope in _objects(entry, scopes):
                for span in _objects(entry, scope.get("spans")):
                    events = _objects(entry, span.get("events"))
                    read = [_with_attributes(entry, event) for event in events]
                    yield read_span(entry, {**_with_attributes(entry, snake(span)), "events": read})


def _objects(entry: Entry, value: Json) -> list[Tree]:
    """Return a list of objects of an export; [] for null, a `DataError` for anything else."""
    items = [] if value is None else value
    if not is_list_of(items, Mapping):
        raise entry.error(f"found {quote(value)}", allowed="a list of objects, as OTLP exports it")
    return items


def _with_attributes(entry: Entry, values: Tree) -> dict[str, Json]:
    """Return a span or event with its attributes as a mapping instead of OTLP's list of pairs."""
    return {**values, "attributes": _attributes(entry, values.get("attributes"))}


def _attributes(entry: Entry, pairs: Json) -> dict[str, Json]:
    """Return OTLP's list of {key, value} as a mapping; empty for null."""
    attributes = {}
    for pair in _objects(entry, pairs):
        attributes[str(pair.get("key", ""))] = _any_value(entry, pair.get("value"))
    return attributes


def _any_value(entry: Entry, value: Json) -> Json:
    """Return the value in an AnyValue of OTLP, such as `{"intValue": "3"}`."""
    if not isinstance(value, Mapping) or not value:
        return None
    kind, inner = next(iter(value.items()))
    kind, items = kind.replace("_", "").lower(), to_mapping(inner).get("values")
    if kind == "arrayvalue":
        return [_any_value(entry, item) for item in _objects(entry, items)]
    if kind == "kvlistvalue":
        return _attributes(entry, items)
    if kind != "intvalue":
        return inner
    try:
        return int(inner)  # protobuf writes 64-bit integers as texts
    except (TypeError, ValueError, OverflowError):
        raise entry.error(f"intValue {quote(inner)}", allowed="an integer") from None


def read_mlflow(entries: Iterable[Entry]) -> Iterator[TraceSpan]:
    """Yield the spans of MLflow traces: `trace.to_json()`, or rows of `search_traces()`.

    Spans are in the order of the file; a span without a session gets that of its trace.

    Raises:
        DataError: A row has no list of spans as objects, or a span no id.
    """
    for entry in entries:
        values = {**entry.values, **to_mapping(entry.values.get("trace"))}
        info = to_mapping(values.get("info")) or values
        spans = parse(pick(to_mapping(values.get("data")) or values, "spans"))
        if not is_list_of(spans, Mapping):
            raise entry.error("no spans", allowed="a trace per row, as trace.to_json() writes it")
        metadata = to_mapping(pick(info, "trace_metadata", "request_metadata"))
        session = to_text(metadata.get("mlflow.trace.session"))
        trace = pick(info, "trace_id", "request_id")
        for row in spans:
            ids = {"context": {}, "trace_id": trace, "span_id": row.get("span_id")} if trace else {}
            span = read_span(entry, {**row, **ids})
            yield replace(span, session=span.session or session)


def read_langfuse(entries: Iterable[Entry]) -> Iterator[TraceSpan]:
    """Yield the spans of Langfuse: traces with their observations, or a row per observation.

    A trace with an input and without a single outermost chain gets a further span as root.

    Raises:
        DataError: Observations are ids without content, or one has no id.
    """
    for entry in entries:
        row = snake(entry.values)
        observations = parse(row.get("observations"))
        if not isinstance(observations, list):
            yield _observation(entry, row)
            continue
        if not is_list_of(observations, Mapping):
            allowed = "traces with whole observations, or an export of observations"
            raise entry.error("observations are ids without content", allowed=allowed)
        trace = {"trace_id": row.get("id")}
        spans = []
        for item in observations:
            spans.append(_observation(entry, {**snake(item), **trace}))
        yield from _under_root(entry, row, spans)


def _observation(entry: Entry, row: Tree) -> TraceSpan:
    """Return an observation of Langfuse as a span, with the older and newer names of its usage."""
    usage = to_mapping(row.get("usage_details")) or to_mapping(row.get("usage"))
    costs = to_mapping(row.get("cost_details"))
    return _span(entry, {**row, "usage": usage, "cost_details": costs}, _LANGFUSE)


def _under_root(entry: Entry, row: Tree, spans: list[TraceSpan]) -> list[TraceSpan]:
    """Return the spans of a trace below a root with the input and output of the trace."""
    # No root is added if one outermost span is a chain or agent already. The root starts with the
    # first span and ends with the last.
    session = to_text(row.get("session_id"))
    with_session, outermost, starts, ends = [], [], [], []
    for span in spans:
        with_session.append(replace(span, session=span.session or session))
        if span.parent is None:
            outermost.append(span)
        if span.start is not None:
            starts.append(span.start)
        if span.end is not None:
            ends.append(span.end)
    # a single chain or agent is the application itself
    is_root = len(outermost) == 1 and outermost[0].kind in ("chain", "agent")
    if row.get("input") is None or is_root:
        return with_session
    errors = []
    for span in outermost:
        if span.error:
            errors.append(span.error)
    parts = {
        "name": row.get("name"),
        "input": row.get("input"),
        "output": row.get("output"),
        "session_id": row.get("session_id"),
        "metadata": row.get("metadata"),
        "trace_id": row.get("id"),
        "id": f"trace {row.get('id')}",
        "type": "chain",
        # a trace has only the time when it was created
        "start_time": min(starts, default=row.get("timestamp")),
        "end_time": max(ends, default=None),
        "level": "error" if errors and parse(row.get("output")) is None else None,
        "status_message": next(iter(errors), None),
    }
    root = _span(entry, parts, _LANGFUSE)
    children = []
    for span in with_session:
        children.append(replace(span, parent=span.parent or root.id))
    return [root, *children]


def read_langsmith(entries: Iterable[Entry]) -> Iterator[TraceSpan]:
    """Yield the spans of LangSmith: a row per run, with its child runs if it has them.

    A run comes before its child runs.

    Raises:
        DataError: A run has no id.
    """
    for entry in entries:
        yield from _runs(entry, entry.values, pick(entry.values, "trace_id", "id"), None)


def _runs(entry: Entry, run: Tree, trace: Json, parent: str | None) -> Iterator[TraceSpan]:
    """Yield the span of a run, then those of its child runs."""
    metadata = to_mapping(to_mapping(run.get("extra")).get("metadata"))
    usage = to_mapping(to_mapping(run.get("outputs")).get("usage_metadata"))
    row = {
        **run,
        "trace_id": trace,
        "parent_run_id": run.get("parent_run_id") or parent,
        "status": "error" if run.get("error") else run.get("status"),
        "metadata": metadata,
        "usage": usage or to_mapping(metadata.get("usage_metadata")),
    }
    span = _span(entry, row, _LANGSMITH)
    yield replace(
        span,
        # a chain repeats the tokens of the models that it calls
        usage=span.usage if span.kind == "llm" else Usage(),
        # keys with ls_ are of LangSmith itself: provider, model and settings of the model
        metadata={key: value for key, value in metadata.items() if not key.startswith("ls_")},
    )
    children = parse(run.get("child_runs"))
    for child in children if isinstance(children, list) else []:
        if isinstance(child, Mapping):
            yield from _runs(entry, child, trace, span.id)


# Format -> function that yields the spans of its rows.
READERS: Mapping[str, Callable[[Iterable[Entry]], Iterator[TraceSpan]]] = {
    "openinference": read_rows_of_spans,
    "otlp": read_otlp,
    "langfuse": read_langfuse,
    "langsmith": read_langsmith,
    "mlflow": read_mlflow,
}
