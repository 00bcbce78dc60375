"""Spans of the tools with forms of their own: Langfuse and LangSmith."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ragbench.data.files.jsonl import Entry
from ragbench.data.traces.spans import (
    Json,
    Span,
    Tree,
    count,
    first,
    kind_of,
    number,
    parsed,
    said_error,
    seconds,
    snake,
    text_of,
)
from ragbench.types import Usage

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
    if row.get("input") is None or (one is not None and one.kind in ("chain", "agent")):
        return [_replaced(each, session, each.parent) for each in spans]
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
    return [root, *(_replaced(each, session, each.parent or root.id) for each in spans)]


def _replaced(span: Span, session: str | None, parent: str | None) -> Span:
    return replace(span, session=span.session or session, parent=parent)


def _observation(entry: Entry, row: Tree, trace: str | None) -> Span:
    own = text_of(row.get("id"))
    if trace is None or own is None:
        missing = "its trace" if trace is None else "its own"
        raise entry.error(f"an observation without the id of {missing}", allowed="id and traceId")
    kind, output = kind_of(row.get("type")), parsed(row.get("output"))
    tokens = _mapping(row.get("usage_details")) or _mapping(row.get("usage"))
    costs = _mapping(row.get("cost_details"))
    usage = Usage(
        count(first(tokens, "input", "input_tokens", "prompt_tokens", "promptTokens")),
        count(first(tokens, "output", "output_tokens", "completion_tokens", "completionTokens")),
        number(first({**row, **costs}, "total", "calculated_total_cost", "total_cost")),
        count(first(tokens, "output_reasoning_tokens", "reasoning_tokens")) or 0,
    )
    return Span(
        trace=trace,
        id=own,
        parent=text_of(row.get("parent_observation_id")),
        name=str(row.get("name") or ""),
        kind=kind,
        entry=entry,
        start=seconds(row.get("start_time")),
        end=seconds(row.get("end_time")),
        input=parsed(row.get("input")),
        output=output,
        documents=output if kind in _RETURNING else None,
        error=said_error(row.get("level"), row.get("status_message")),
        model=text_of(first(row, "model", "provided_model_name")),
        usage=usage,
        session=text_of(row.get("session_id")),
        metadata=_mapping(row.get("metadata")),
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
    return Span(
        trace=trace,
        id=str(run["id"]),
        parent=parent,
        name=str(run.get("name") or ""),
        kind=kind,
        entry=entry,
        start=seconds(run.get("start_time")),
        end=seconds(run.get("end_time")),
        input=parsed(run.get("inputs")),
        output=outputs,
        documents=outputs if kind in _RETURNING else None,
        error=said_error(failed, error),
        model=text_of(first(metadata, "ls_model_name", "model_name")),
        usage=usage if kind == "llm" else Usage(),
        session=next((found for key in _THREADS if (found := text_of(metadata.get(key)))), None),
        metadata={key: value for key, value in metadata.items() if not key.startswith("ls_")},
    )


def _mapping(value: Json) -> Tree:
    found = parsed(value)
    return found if isinstance(found, Mapping) else {}
