"""Spans by their attributes: OpenInference (Phoenix), GenAI of OpenTelemetry, OTLP JSON, MLflow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ragbench.data.files.jsonl import Entry
from ragbench.data.traces.spans import (
    Json,
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
    attributes = _with_json(attributes)
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


def _with_json(attributes: Tree) -> dict[str, Json]:
    """Attributes in which those of MLflow, which are JSON texts each, are read."""
    written = attributes.get("mlflow")
    found = {
        key: _of_mlflow(value) for key, value in (written.items() if written is not None else ())
    }
    return {**attributes, **({"mlflow": found} if found else {})}


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
    """Attributes of the list of keys and values that OTLP has."""
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
