"""Write one application's twenty traces in five forms, with the packages of the tools themselves.

    pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-common langfuse langsmith \
        mlflow-skinny sqlalchemy alembic openinference-semantic-conventions
    python -m tests.data.exports.write_exports

The application is in `application.py`. Spans of Phoenix and OTLP come from the SDK of
OpenTelemetry, MLflow's from MLflow, runs and observations from the schemas of LangSmith and
Langfuse, which no server filled.
"""

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.data.exports.application import (
    MODEL,
    application,
    corpus,
    nanoseconds,
    time_of,
    trace_id,
    walk,
)

FOLDER = Path(__file__).parent.resolve()


# -- OpenTelemetry: Phoenix rows and OTLP ---------------------------------------------------------


def otel_spans(traces, attributes_of):
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("shop")

    def emit(trace, step, context):
        span = tracer.start_span(
            step.name, context=context, start_time=nanoseconds(trace, step.start)
        )
        span.set_attributes(attributes_of(trace, step, context is None))
        for child in step.steps:
            emit(trace, child, api.set_span_in_context(span))
        if step.error:
            span.set_status(api.Status(api.StatusCode.ERROR, step.error))
        else:
            span.set_status(api.Status(api.StatusCode.OK))
        span.end(end_time=nanoseconds(trace, step.end))

    for trace in traces:
        emit(trace, trace.root, None)
    return memory.get_finished_spans()


def openinference(trace, step, is_root):
    from openinference.semconv.trace import (
        DocumentAttributes,
        OpenInferenceSpanKindValues,
        RerankerAttributes,
        SpanAttributes,
    )

    kind = OpenInferenceSpanKindValues(step.kind.upper()).value
    attributes = {SpanAttributes.OPENINFERENCE_SPAN_KIND: kind}
    for key, mime, value in (
        (SpanAttributes.INPUT_VALUE, SpanAttributes.INPUT_MIME_TYPE, step.input),
        (SpanAttributes.OUTPUT_VALUE, SpanAttributes.OUTPUT_MIME_TYPE, step.output),
    ):
        if value is not None:
            is_text = isinstance(value, str)
            attributes[key] = value if is_text else json.dumps(value)
            attributes[mime] = "text/plain" if is_text else "application/json"
    lists = {SpanAttributes.RETRIEVAL_DOCUMENTS: step.documents}
    if step.kind == "reranker":
        lists = {
            RerankerAttributes.RERANKER_INPUT_DOCUMENTS: step.input["documents"],
            RerankerAttributes.RERANKER_OUTPUT_DOCUMENTS: step.documents,
        }
        attributes[RerankerAttributes.RERANKER_QUERY] = step.input["query"]
        del attributes[SpanAttributes.INPUT_VALUE], attributes[SpanAttributes.INPUT_MIME_TYPE]
    for name, listed in lists.items():
        for rank, document in enumerate(listed or ()):
            attributes[f"{name}.{rank}.{DocumentAttributes.DOCUMENT_ID}"] = document["id"]
            attributes[f"{name}.{rank}.{DocumentAttributes.DOCUMENT_CONTENT}"] = document["content"]
            attributes[f"{name}.{rank}.{DocumentAttributes.DOCUMENT_SCORE}"] = document["score"]
    if step.kind == "llm":
        attributes[SpanAttributes.LLM_MODEL_NAME] = MODEL
    if step.tokens:
        attributes[SpanAttributes.LLM_TOKEN_COUNT_PROMPT] = step.tokens[0]
        attributes[SpanAttributes.LLM_TOKEN_COUNT_COMPLETION] = step.tokens[1]
        attributes[SpanAttributes.LLM_COST_TOTAL] = step.tokens[2]
    if trace.session and is_root:
        attributes[SpanAttributes.SESSION_ID] = trace.session
    return attributes


def gen_ai(trace, step, is_root):
    """Attributes of GenAI; guard and reranker, which it has no words for, by OpenInference."""
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names

    if step.kind in ("guardrail", "reranker"):
        return openinference(trace, step, is_root)
    kinds = {"chain": "invoke_workflow", "retriever": "retrieval", "llm": "chat"}
    attributes = {names.GEN_AI_OPERATION_NAME: kinds[step.kind]}
    if trace.session:
        attributes[names.GEN_AI_CONVERSATION_ID] = trace.session
    if step.kind == "retriever":
        attributes[names.GEN_AI_RETRIEVAL_QUERY_TEXT] = step.input
        documents = [
            {"id": document["id"], "score": document["score"]} for document in step.documents
        ]
        attributes[names.GEN_AI_RETRIEVAL_DOCUMENTS] = json.dumps(documents)
        return attributes
    question = step.input if isinstance(step.input, str) else step.input["question"]
    attributes[names.GEN_AI_INPUT_MESSAGES] = json.dumps([message("user", question)])
    if step.output is not None:
        reply = step.output if isinstance(step.output, str) else step.output["answer"]
        attributes[names.GEN_AI_OUTPUT_MESSAGES] = json.dumps([message("assistant", reply)])
    if step.kind == "llm":
        attributes[names.GEN_AI_REQUEST_MODEL] = MODEL
    if step.tokens:
        attributes[names.GEN_AI_USAGE_INPUT_TOKENS] = step.tokens[0]
        attributes[names.GEN_AI_USAGE_OUTPUT_TOKENS] = step.tokens[1]
        attributes["gen_ai.usage.cost"] = step.tokens[2]
    return attributes


def message(role, text):
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def write_phoenix(traces, path):
    """Rows as `GET /v1/projects/{project}/spans` of Phoenix has them."""
    rows = []
    for span in otel_spans(traces, openinference):
        row = json.loads(span.to_json())
        status = row["status"]
        rows.append(
            {
                "name": row["name"],
                "context": {key: row["context"][key] for key in ("trace_id", "span_id")},
                "span_kind": row["attributes"]["openinference.span.kind"],
                "parent_id": row["parent_id"],
                "start_time": row["start_time"],
                "end_time": row["end_time"],
                "status_code": status["status_code"],
                "status_message": status.get("description", ""),
                "attributes": row["attributes"],
            }
        )
    write_lines(path, rows)


def write_otlp(traces, path):
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    write_lines(path, [MessageToDict(encode_spans(otel_spans(traces, gen_ai)))])


# -- MLflow ----------------------------------------------------------------------------------------


def write_mlflow(traces, path):
    import mlflow
    from mlflow.entities import Document

    folder = tempfile.mkdtemp()
    os.chdir(folder)  # where it puts its artifacts
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")

    def listed(documents):
        return [
            Document(document["content"], {"score": document["score"]}, document["id"]).to_dict()
            for document in documents
        ]

    def emit(trace, step, parent):
        output = step.output if step.documents is None else listed(step.documents)
        span = mlflow.start_span_no_context(
            step.name,
            span_type=step.kind.upper(),
            parent_span=parent,
            inputs=step.input,
            metadata={"mlflow.trace.session": trace.session}
            if parent is None and trace.session
            else None,
            start_time_ns=nanoseconds(trace, step.start),
        )
        if step.tokens:
            counts = {"input_tokens": step.tokens[0], "output_tokens": step.tokens[1]}
            counts["total_tokens"] = sum(step.tokens[:2])
            span.set_attribute("mlflow.chat.tokenUsage", counts)
            span.set_attribute("mlflow.llm.cost", {"total_cost": step.tokens[2]})
        if step.kind == "llm":
            span.set_attribute("mlflow.llm.model", MODEL)
        for child in step.steps:
            emit(trace, child, span)
        if step.error:
            span.record_exception(step.error)
            span.set_status("ERROR")
        span.end(
            outputs=output,
            status="ERROR" if step.error else "OK",
            end_time_ns=nanoseconds(trace, step.end),
        )
        return span.trace_id

    names = [emit(trace, trace.root, None) for trace in traces]
    mlflow.flush_trace_async_logging()
    write_lines(path, [_without_machine(mlflow.get_trace(name).to_dict()) for name in names])


def _without_machine(trace):
    """A trace without what it says of the machine, the user and the working copy."""
    info = trace["info"]
    about = info["trace_metadata"]
    hidden = ("mlflow.source", "mlflow.user")
    info["trace_metadata"] = {k: v for k, v in about.items() if not k.startswith(hidden)}
    info["tags"].pop("mlflow.artifactLocation", None)
    return trace


# -- LangSmith and Langfuse ----------------------------------------------------------------------


def write_langsmith(traces, path):
    from langchain_core.documents import Document
    from langsmith.schemas import Run

    kinds = {"retriever": "retriever", "llm": "llm"}
    rows = []
    for trace in traces:
        names = {id(step): trace_id(trace, step.name) for step, _ in walk(trace, trace.root)}
        for step, parent in walk(trace, trace.root):
            inputs = step.input if isinstance(step.input, dict) else {"input": step.input}
            outputs = step.output if isinstance(step.output, dict) else {"output": step.output}
            if step.kind == "retriever":
                inputs = {"query": step.input}
            if step.documents is not None:
                outputs = {
                    "documents": [
                        Document(
                            document["content"],
                            id=document["id"],
                            metadata={"score": document["score"]},
                        ).model_dump()
                        for document in step.documents
                    ]
                }
            about = {"session_id": trace.session} if trace.session and parent is None else {}
            if step.kind == "llm":
                about = {"ls_model_name": MODEL, **about}
            run = Run(
                id=names[id(step)],
                name=step.name,
                start_time=time_of(trace, step.start),
                end_time=time_of(trace, step.end),
                run_type=kinds.get(step.kind, "chain"),
                trace_id=names[id(trace.root)],
                parent_run_id=parent and names[id(parent)],
                inputs=inputs,
                outputs=None if step.error else outputs,
                error=step.error,
                extra={"metadata": about},
                dotted_order="",
                prompt_tokens=step.tokens and step.tokens[0],
                completion_tokens=step.tokens and step.tokens[1],
                total_cost=step.tokens and step.tokens[2],
            )
            rows.append(run.model_dump(mode="json", exclude_none=True))
    write_lines(path, rows)


def write_langfuse(traces, path):
    from langfuse.api import ObservationV2

    kinds = {"llm": "GENERATION", "reranker": "SPAN"}
    rows = []
    for trace in traces:
        names = {id(step): str(trace_id(trace, step.name)) for step, _ in walk(trace, trace.root)}
        whole = str(trace_id(trace, "trace"))
        for step, parent in walk(trace, trace.root):
            usage = {}
            if step.tokens:
                usage["usage_details"] = {"input": step.tokens[0], "output": step.tokens[1]}
                usage["cost_details"] = {"total": step.tokens[2]}
            observation = ObservationV2(
                id=names[id(step)],
                trace_id=whole,
                project_id="shop",
                type=kinds.get(step.kind, step.kind.upper()),
                name=step.name,
                start_time=time_of(trace, step.start),
                end_time=time_of(trace, step.end),
                parent_observation_id=parent and names[id(parent)],
                level="ERROR" if step.error else "DEFAULT",
                status_message=step.error,
                session_id=trace.session,
                input=step.input,
                output=step.documents if step.output is None else step.output,
                model=MODEL if step.kind == "llm" else None,
                **usage,
            )
            rows.append({k: v for k, v in json.loads(observation.json()).items() if v is not None})
    write_lines(path, rows)


def write_lines(path, rows):
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_gold(traces):
    write_lines(
        FOLDER / "corpus.jsonl", [{"id": name, "text": text} for name, text in corpus().items()]
    )
    rows = {}
    for trace in traces:
        fact, product = trace.question.split()[3], trace.question.split()[-1].rstrip("?")
        rows[trace.question] = {
            "question": trace.question,
            "reference": corpus()[f"{product}-{fact}"],
            "relevant": [f"{product}-{fact}"],
        }
    write_lines(FOLDER / "gold.jsonl", rows.values())


WRITERS = {
    "phoenix.jsonl.gz": write_phoenix,
    "otlp.json.gz": write_otlp,
    "langfuse.jsonl.gz": write_langfuse,
    "langsmith.jsonl.gz": write_langsmith,
    "mlflow.jsonl.gz": write_mlflow,
}


if __name__ == "__main__":
    made_up = application()
    write_gold(made_up)
    for name in sys.argv[1:] or WRITERS:
        WRITERS[name](made_up, FOLDER / name)
