"""Spans out of what tools export: by attributes, and in forms of Langfuse and LangSmith.

Attributes are those of OpenInference (Phoenix), GenAI of OpenTelemetry, OTLP JSON and MLflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ragbench.data.files.rows import Entry
from ragbench.data.traces.spans import (
    Json,
    Kind,
    Span,
    Tree,
    at,
    count,
    first,
    first_at,
    kind_of,
    nested,
    number,
    parsed,
    said_error,
    seconds,
    snake,
    text_of,
)
from ragbench.types import Usage

_INPUTS = (
    "input.value",
    "gen_ai.retrieval.query.text",
    "reranker.query",
    "langfuse.observation.input",
    "mlflow.spanInputs",
    "traceloop.entity.input",
    "gen_ai.input.messages",
    "llm.input_messages",
    "gen_ai.prompt",
)
_OUTPUTS = (
    "output.value",
    "langfuse.observation.output",
    "mlflow.spanOutputs",
    "traceloop.entity.output",
    "gen_ai.output.messages",
    "llm.output_messages",
    "gen_ai.completion",
)
_DOCUMENTS = ("retrieval.documents", "gen_ai.retrieval.documents", "reranker.output_documents")
_SESSIONS = (
    "session.id",
    "gen_ai.conversation.id",
    "langfuse.session.id",
    "mlflow.trace.session",
    "metadata.session_id",
    "metadata.thread_id",
)
_MODELS = (
    "llm.model_name",
    "llm.response.model_name",
    "gen_ai.response.model",
    "gen_ai.request.model",
    "langfuse.observation.model.name",
    "mlflow.llm.model",
)
_TOKENS_IN = (
    "llm.token_count.prompt",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "mlflow.chat.tokenUsage.input_tokens",
)
_TOKENS_OUT = (
    "llm.token_count.completion",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "mlflow.chat.tokenUsage.output_tokens",
)
_REASONING = (
    "llm.token_count.completion_details.reasoning",
    "gen_ai.usage.reasoning.output_tokens",
)
_COSTS = ("llm.cost.total", "gen_ai.usage.cost", "mlflow.llm.cost.total_cost")
_KINDS = (
    "openinference.span.kind",
    "mlflow.spanType",
    "langfuse.observation.type",
    "gen_ai.operation.name",
    "traceloop.span.kind",
)


def read_rows_of_spans(entries: Iterable[Entry]) -> Iterator[Span]:
    """Yield the spans of rows with a span each, as Phoenix and the OpenTelemetry SDK write them."""
    for entry in entries:
        yield span_of(entry, entry.values)


def span_of(entry: Entry, values: Tree) -> Span:
    """Read a span whose attributes are columns, a mapping with dots or without, or JSON text."""
    # an empty cell of a table is nothing
    given = {key: value for key, value in values.items() if value != ""}
    row = nested({**given, "attributes": parsed(values.get("attributes"))})
    written = row.get("attributes")
    attributes = written if isinstance(written, Mapping) else {}
    attributes = {**attributes, "metadata": parsed(attributes.get("metadata")) or {}}
    if written := attributes.get("mlflow"):  # a JSON text each
        attributes = {**attributes, "mlflow": {k: _of_mlflow(v) for k, v in written.items()}}
    trace, own = (
        first_at(row, "context.trace_id", "trace_id"),
        first_at(row, "context.span_id", "span_id"),
    )
    if trace is None or own is None:
        missing = "trace" if trace is None else "span"
        raise entry.error(f"a span without the id of its {missing}", allowed="a span per row")
    kind = kind_of(*(at(attributes, path) for path in _KINDS), row.get("span_kind"))
    output = _value(attributes, _OUTPUTS)
    documents = first_at(attributes, *_DOCUMENTS)
    status = row.get("status")
    told = status if isinstance(status, Mapping) else {}
    return Span(
        trace=str(trace),
        id=str(own),
        parent=text_of(first(row, "parent_id", "parent_span_id")),
        name=str(row.get("name") or ""),
        kind=kind,
        entry=entry,
        start=seconds(first(row, "start_time", "start_time_unix_nano")),
        end=seconds(first(row, "end_time", "end_time_unix_nano")),
        input=_value(attributes, _INPUTS),
        output=output,
        documents=output if documents is None and kind in ("retriever", "reranker") else documents,
        reranked=at(attributes, "reranker.input_documents"),
        error=said_error(
            first(row, "status_code") or first(told, "status_code", "code"),
            first(row, "status_message"),
            first(told, "description", "message"),
            *_exceptions(row.get("events")),
        ),
        model=text_of(first_at(attributes, *_MODELS)),
        usage=_usage(attributes),
        session=text_of(first_at(attributes, *_SESSIONS)),
        metadata=attributes["metadata"] if isinstance(attributes["metadata"], Mapping) else {},
    )


def _value(attributes: Tree, paths: tuple[str, ...]) -> Json:
    return parsed(first_at(attributes, *paths))


def _usage(attributes: Tree) -> Usage:
    return Usage(
        count(first_at(attributes, *_TOKENS_IN)),
        count(first_at(attributes, *_TOKENS_OUT)),
        number(first_at(attributes, *_COSTS)),
        count(first_at(attributes, *_REASONING)) or 0,
    )


def _of_mlflow(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _of_mlflow(each) for key, each in value.items()}
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
        unquoted = parsed(f"[{value}]")
        return unquoted[0] if isinstance(unquoted, list) and len(unquoted) == 1 else value
    return parsed(value)


def _exceptions(events: Json) -> Iterator[Json]:
    """The messages of exceptions among the events of a span."""
    listed = parsed(events)
    for event in listed if isinstance(listed, list) else []:
        attributes = event.get("attributes") if isinstance(event, Mapping) else None
        if isinstance(attributes, Mapping):
            tree = nested(attributes)
            yield at(tree, "exception.message")


def read_otlp(entries: Iterable[Entry]) -> Iterator[Span]:
    """Yield the spans of OTLP JSON, an export request per entry."""
    for entry in entries:
        for resource in _listed(entry, entry.values, "resourceSpans", "resource_spans"):
            scopes = first(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
            for scope in scopes or ():
                for span in scope.get("spans") or ():
                    yield span_of(entry, _otlp_row(span))


def _listed(entry: Entry, values: Tree, *keys: str) -> list[Tree]:
    found = first(values, *keys)
    if not isinstance(found, list):
        raise entry.error(f"no {keys[0]}", allowed='{"resourceSpans": [...]}, as OTLP exports it')
    return found


def _otlp_row(span: Tree) -> dict[str, Json]:
    status = span.get("status") or {}
    events = [
        {"attributes": _attributes(event.get("attributes"))} for event in span.get("events") or ()
    ]
    return {
        "trace_id": first(span, "traceId", "trace_id"),
        "span_id": first(span, "spanId", "span_id"),
        "parent_id": first(span, "parentSpanId", "parent_span_id") or None,
        "name": span.get("name"),
        "start_time": first(span, "startTimeUnixNano", "start_time_unix_nano"),
        "end_time": first(span, "endTimeUnixNano", "end_time_unix_nano"),
        "status_code": status.get("code"),
        "status_message": status.get("message"),
        "events": events,
        "attributes": _attributes(span.get("attributes")),
    }


def _attributes(listed: Json) -> dict[str, Json]:
    return {each["key"]: _any_value(each.get("value")) for each in listed or ()}


def _any_value(value: Json) -> Json:
    if not isinstance(value, Mapping) or not value:
        return None
    kind, held = next(iter(value.items()))
    kind = kind.replace("_", "").lower()
    if kind == "arrayvalue":
        return [_any_value(each) for each in held.get("values") or ()]
    if kind == "kvlistvalue":
        return _attributes(held.get("values"))
    return int(held) if kind == "intvalue" else held


def read_mlflow(entries: Iterable[Entry]) -> Iterator[Span]:
    """Yield the spans of MLflow traces: `trace.to_json()`, or rows of `search_traces()`."""
    for entry in entries:
        values = entry.values
        if isinstance(whole := parsed(values.get("trace")), Mapping):
            values = {**values, **whole}
        info, data = parsed(values.get("info")), parsed(values.get("data"))
        info = info if isinstance(info, Mapping) else values
        spans = parsed(first(data if isinstance(data, Mapping) else values, "spans"))
        if not isinstance(spans, list):
            raise entry.error("no spans", allowed="a trace per row, as trace.to_json() writes it")
        about = parsed(first(info, "trace_metadata", "request_metadata")) or {}
        session = text_of(about.get("mlflow.trace.session"))
        trace = first(info, "trace_id", "request_id")
        for each in spans:
            named = {"trace_id": trace, "span_id": each.get("span_id")}
            span = span_of(entry, {"context": {}, **each, **named} if trace else each)
            yield replace(span, session=span.session or session)


_THREADS = ("session_id", "thread_id", "conversation_id")
_RETURNING = ("retriever", "reranker")


def read_langfuse(entries: Iterable[Entry]) -> Iterator[Span]:
    """Yield the spans of Langfuse: traces with their observations, or a row per observation."""
    for entry in entries:
        row = snake(entry.values)
        listed = parsed(row.get("observations"))
        if not isinstance(listed, list):
            yield _observation(entry, row, text_of(row.get("trace_id")))
            continue
        trace = text_of(row.get("id"))
        whole = [each for each in listed if isinstance(each, Mapping)]
        if len(whole) < len(listed):
            allowed = "traces with whole observations, or an export of observations"
            raise entry.error("observations are ids without content", allowed=allowed)
        spans = [_observation(entry, snake(each), trace) for each in whole]
        yield from _under_root(entry, row, spans)


def _under_root(entry: Entry, row: Tree, spans: list[Span]) -> list[Span]:
    """Spans with the trace itself as their root, where it has an input and output of its own."""
    trace, session = text_of(row.get("id")) or "", text_of(row.get("session_id"))
    outermost = [each for each in spans if each.parent is None]
    one = outermost[0] if len(outermost) == 1 else None
    spans = [replace(each, session=each.session or session) for each in spans]
    if row.get("input") is None or (one is not None and one.kind in ("chain", "agent")):
        return spans
    output = parsed(row.get("output"))
    failed = next((each.error for each in outermost if each.error), None)
    starts = [each.start for each in spans if each.start is not None]
    ends = [each.end for each in spans if each.end is not None]
    root = Span(
        trace=trace,
        id=f"trace {trace}",
        parent=None,
        name=str(row.get("name") or ""),
        kind="chain",
        entry=entry,
        start=min(starts, default=seconds(row.get("timestamp"))),
        end=max(ends, default=None),
        input=parsed(row.get("input")),
        output=output,
        error=failed if output is None else None,
        session=session,
        metadata=_mapping(row.get("metadata")),
    )
    return [root, *(replace(each, parent=each.parent or root.id) for each in spans)]


def _observation(entry: Entry, row: Tree, trace: str | None) -> Span:
    own = text_of(row.get("id"))
    if trace is None or own is None:
        missing = "its trace" if trace is None else "its own"
        raise entry.error(f"an observation without the id of {missing}", allowed="id and traceId")
    tokens = _mapping(row.get("usage_details")) or _mapping(row.get("usage"))
    costs = _mapping(row.get("cost_details"))
    usage = Usage(
        count(first(tokens, "input", "input_tokens", "prompt_tokens", "promptTokens")),
        count(first(tokens, "output", "output_tokens", "completion_tokens", "completionTokens")),
        number(first({**row, **costs}, "total", "calculated_total_cost", "total_cost")),
        count(first(tokens, "output_reasoning_tokens", "reasoning_tokens")) or 0,
    )
    return replace(
        _span(entry, row, trace, own, kind_of(row.get("type")), parsed(row.get("output"))),
        parent=text_of(row.get("parent_observation_id")),
        input=parsed(row.get("input")),
        error=said_error(row.get("level"), row.get("status_message")),
        model=text_of(first(row, "model", "provided_model_name")),
        usage=usage,
        session=text_of(row.get("session_id")),
        metadata=_mapping(row.get("metadata")),
    )


def _span(entry: Entry, row: Tree, trace: str, own: str, kind: Kind, output: Json) -> Span:
    """What both tools write alike; nothing is its parent yet."""
    return Span(
        trace=trace,
        id=own,
        parent=None,
        name=str(row.get("name") or ""),
        kind=kind,
        entry=entry,
        start=seconds(row.get("start_time")),
        end=seconds(row.get("end_time")),
        output=output,
        documents=output if kind in _RETURNING else None,
    )


def read_langsmith(entries: Iterable[Entry]) -> Iterator[Span]:
    """Yield the spans of LangSmith: a row per run, with the runs inside it where it has them."""
    for entry in entries:
        trace = text_of(first(entry.values, "trace_id", "id"))
        yield from _runs(entry, entry.values, trace, None)


def _runs(entry: Entry, run: Tree, trace: str | None, above: str | None) -> Iterator[Span]:
    own = text_of(run.get("id"))
    if trace is None or own is None:
        raise entry.error("a run without an id", allowed="id, trace_id, run_type, inputs, outputs")
    yield _run(entry, run, trace, text_of(run.get("parent_run_id")) or above)
    children = parsed(run.get("child_runs"))
    for child in children if isinstance(children, list) else []:
        if isinstance(child, Mapping):
            yield from _runs(entry, child, trace, own)


def _run(entry: Entry, run: Tree, trace: str, parent: str | None) -> Span:
    extra = _mapping(run.get("extra"))
    metadata = _mapping(extra.get("metadata"))
    outputs, error = parsed(run.get("outputs")), run.get("error")
    told = _mapping(metadata.get("usage_metadata"))
    if isinstance(outputs, Mapping):
        told = _mapping(outputs.get("usage_metadata")) or told
    kind = kind_of(run.get("run_type"))
    failed = "error" if error or run.get("status") == "error" else None
    usage = Usage(
        count(first({**told, **run}, "prompt_tokens", "input_tokens")),
        count(first({**told, **run}, "completion_tokens", "output_tokens")),
        number(run.get("total_cost")),
    )
    return replace(
        _span(entry, run, trace, str(run["id"]), kind, outputs),
        parent=parent,
        input=parsed(run.get("inputs")),
        error=said_error(failed, error),
        model=text_of(first(metadata, "ls_model_name", "model_name")),
        usage=usage if kind == "llm" else Usage(),
        session=next((found for key in _THREADS if (found := text_of(metadata.get(key)))), None),
        metadata={key: value for key, value in metadata.items() if not key.startswith("ls_")},
    )


def _mapping(value: Json) -> Tree:
    found = parsed(value)
    return found if isinstance(found, Mapping) else {}
