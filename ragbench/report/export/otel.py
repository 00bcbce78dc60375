"""Scores of single questions as OpenTelemetry log records, sent to a collector over OTLP.

Each score of a question is an event `gen_ai.evaluation.result` of the semantic conventions for
generative AI (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/). The version of
the evaluator, `gen_ai.evaluation.evaluator.version`, is the signature of the score.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import read_manifest
from ragbench.data.traces.spans import read_time
from ragbench.errors import ExportError, MissingExtra, OptionError
from ragbench.records.manifest import UnscoredRow, VerdictRow
from ragbench.records.score import SystemScore
from ragbench.score.base import add_option
from ragbench.score.otel import EVENT, event_attributes
from ragbench.secrets import mask_secrets

if TYPE_CHECKING:
    from pathlib import Path

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
# Records of a request: under the usual limits of collectors of some megabytes.
_BATCH = 256
# Forms of a 128-bit id: hexadecimal, a UUID, or with the prefix of MLflow.
_TRACE_ID = re.compile(r"(?:tr|0x)?([0-9a-f]{32})", re.IGNORECASE)


class ScoreEvent(NamedTuple):
    """Score of a question, or the cause of a missing one, as an event; `score_events` yields it.

    Attributes:
        trace: Id of the trace that was scored; 0 if the question comes from no trace.
        attributes: Attributes by their names in the semantic conventions.
    """

    trace: int
    attributes: Mapping[str, str | float]


def send_scores(run: str | Path) -> str:
    """Send every score of every question of a run, and return a line on what was sent.

    Endpoint, headers, certificates, compression and timeout are those of the variables
    `OTEL_EXPORTER_OTLP_*`, as the exporter of OpenTelemetry reads them. The time of an event is the
    start of the run. Passages, questions and answers are not sent; explanations may quote them.

    Args:
        run: A run folder, or the folder of an experiment (the newest run).

    Raises:
        DataError: There is no run, or its files are damaged.
        ExportError: The collector cannot be reached, refuses records, or answers in another
            protocol; tells the number of records that it has taken.
        MissingExtra: The exporter is not installed.
        OptionError: A variable asks for another protocol than `http/protobuf`.
    """
    # the variable for logs comes first; an empty one counts as unset, as OpenTelemetry says
    variable = next((name for name in _PROTOCOLS if os.environ.get(name)), "")
    if os.environ.get(variable, _PROTOCOL) != _PROTOCOL:
        raise OptionError("--to otel", variable, os.environ[variable], _PROTOCOL)
    try:
        import requests
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs.export import LogRecordExportResult
    except ImportError as error:
        raise MissingExtra(
            "report --to otel", "opentelemetry-exporter-otlp-proto-http", "otel"
        ) from error
    # the exporter logs each failure, which the error below tells once
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    with closing(QueryViews(run, bare=True)) as views, ExitStack() as stack:
        make_record = _record_maker(views)
        total = sum(
            len(views.columns.get(system.name, {}).keys() & system.scores) * len(views)
            for system in views.summary.systems
        )
        events, sent, on_traces = score_events(views), 0, 0
        session, last = requests.Session(), LastRequest()
        last.observe(session)
        exporter = OTLPLogExporter(session=session)
        stack.callback(exporter.shutdown)
        while batch := list(islice(events, _BATCH)):
            result = None
            # older exporters raise errors of the connection, and newer ones return a failure
            with suppress(OSError):
                result = exporter.export([make_record(event) for event in batch])
            progress = f"{sent} of {total} scores were taken before"
            progress += "; a second export repeats them" if sent else ""
            last.check(progress)
            if result is not LogRecordExportResult.SUCCESS:
                raise ExportError(f"the exporter of OpenTelemetry dropped a request; {progress}")
            sent += len(batch)
            on_traces += sum(event.trace > 0 for event in batch)
    traces = f", {on_traces} of them on the traces that were scored" if on_traces else ""
    target = f" to {mask_secrets(last.url)}" if sent else ""
    return f"sent {sent} scores of {len(views)} questions{target}{traces}"


def score_events(views: QueryViews) -> Iterator[ScoreEvent]:
    """Yield an event for each question, system and score, in this order.

    The trace is the id of a question of traces, or its metadata `trace_id`; other systems than
    recorded ones, which answered the question anew, have no trace. `views` may be bare.

    Raises:
        DataError: A file of the run is damaged.
    """
    is_traces = views.summary.dataset is not None and views.summary.dataset.type == "traces"
    for row, view in enumerate(views):
        trace = read_trace_id(str(view.metadata.get("trace_id", view.id if is_traces else "")))
        verdicts = {system.name: system.verdicts for system in view.systems}
        unscored: dict[tuple[str, str], UnscoredRow] = {}
        for missing in views.unscored(view.id):
            # the row of the whole question comes before those of its several answers
            key = (missing.system, missing.measure)
            if missing.sample is None or key not in unscored:
                unscored[key] = missing
        for system in views.summary.systems:
            cause = views.causes.get(system.name, {}).get(view.id)
            common = {
                "ragbench.run_id": views.summary.run_id,
                "ragbench.system": system.name,
                "ragbench.query_id": view.id,
            }
            for name, column in views.columns.get(system.name, {}).items():
                if (score := system.scores.get(name)) is None:
                    continue
                value = float(column[row])
                missing_score = unscored.get((system.name, name)) if isnan(value) else None
                verdict = _find_verdict(name, score, verdicts.get(system.name, ()))
                explanation = cause.why if cause is not None else ""
                attributes = _attributes(name, score, value, missing_score, verdict, explanation)
                yield ScoreEvent(trace if system.type == "recorded" else 0, attributes | common)


def read_trace_id(text: str) -> int:
    """Return a trace id as a number; 0 for a text that is no id of 128 bits.

    Example:
        >>> f"{read_trace_id('tr-0AF7651916CD43DD8448EB211C80319C'):x}", read_trace_id("row-12")
        ('af7651916cd43dd8448eb211c80319c', 0)
    """
    match = _TRACE_ID.fullmatch(text.replace("-", ""))
    return int(match[1], 16) if match else 0


def _find_verdict(
    name: str, score: SystemScore, verdicts: Sequence[VerdictRow]
) -> VerdictRow | None:
    """Return the first verdict behind a judge's score of a question."""
    for row in verdicts:
        names = (row.rubric, add_option(row.rubric, "judge", row.judge))
        if row.judge == score.judge and name in names:
            return row
    return None


def _attributes(
    name: str,
    score: SystemScore,
    value: float,
    missing: UnscoredRow | None,
    verdict: VerdictRow | None,
    explanation: str,
) -> dict[str, str | float]:
    """Return the attributes of an event; a score without a value has no number."""
    status, word, level = "not_applicable", "", None
    if isnan(value):
        explanation = ""
        if missing is not None:
            status, word, explanation = missing.status, missing.cause, missing.detail
    elif verdict is not None:
        level, explanation = verdict.level, verdict.reasoning
    attributes = event_attributes(name, value, level, status, word, explanation)
    return attributes | {"gen_ai.evaluation.evaluator.version": score.signature}


def _record_maker(views: QueryViews) -> Callable[[ScoreEvent], Any]:
    """Return a function from an event to a log record of the SDK, at the start of the run."""
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

    manifest = read_manifest(views.folder)
    started = read_time(manifest.started)
    time = None if started is None else int(started.timestamp() * 1e9)
    # variables such as OTEL_SERVICE_NAME come before this name
    has_name = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if has_name else {SERVICE_NAME: "ragbench"})
    scope = InstrumentationScope("ragbench", manifest.ragbench)

    def make_record(event: ScoreEvent) -> Any:
        """Return an event as a log record of OpenTelemetry."""
        span = NonRecordingSpan(SpanContext(event.trace, 0, is_remote=True))
        record = LogRecord(
            timestamp=time,
            context=set_span_in_context(span, Context()),
            severity_number=SeverityNumber.INFO,
            attributes=event.attributes,
            event_name=EVENT,
        )
        return ReadableLogRecord(record, resource, scope)

    return make_record


class LastRequest:
    """Last request of an HTTP session, with its outcome.

    It is created without arguments. `observe` takes the session; `check`, after each request,
    raises an ExportError unless the server took all records, or if there was no request.

    The exporter counts every answer below 400 as a success, also a redirect, and ignores how many
    records an answer rejects.

    Attributes:
        url: Address of the request; empty before the first one.
        answer: Answer, or error of the connection; None before the first request.
    """

    url = ""
    answer: Any = None

    def observe(self, session: Any) -> None:
        """Store each request of a session of `requests` and its answer, in place of the last one.

        The session then follows no redirect. Errors of a connection are stored and raised.
        """
        send = session.request

        def request(method: str, url: str, **options: Any) -> Any:
            """Send a request of the exporter without following redirects."""
            self.url = url
            try:
                # another host must get neither scores nor headers
                self.answer = send(method, url, **{**options, "allow_redirects": False})
            except OSError as error:  # the base of all errors of `requests`
                self.answer = error
                raise
            return self.answer

        session.request = request

    def check(self, progress: str) -> None:
        """Raise an ExportError if the server did not take all records of the request.

        The error has no header and no body, which may hold keys; `progress` is its end.
        """
        server = f"the OTLP collector {mask_secrets(self.url)}"
        if self.answer is None or isinstance(self.answer, OSError):
            reason = "no answer" if self.answer is None else type(self.answer).__name__
            raise ExportError(
                f"{server} cannot be reached ({reason}); {progress}", unreachable=True
            )
        if not 200 <= self.answer.status_code < 300:
            status = f"{self.answer.status_code} {self.answer.reason}"
            raise ExportError(f"{server} answered {status}; {progress}")
        rejected = _count_rejected(self.answer)
        if rejected is None:
            raise ExportError(f"{server} answered with no message of OTLP; {progress}")
        if rejected:
            raise ExportError(
                f"{server} rejected {rejected} scores of a request: its log says why; {progress}"
            )


def _count_rejected(answer: Any) -> int | None:
    """Return the number of records that an answer rejects; None for a page or a broken message."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    kind, message = answer.headers.get("content-type", ""), ExportLogsServiceResponse()
    try:
        if "protobuf" in kind:
            message.ParseFromString(answer.content)
        elif "json" in kind and answer.content:
            json_format.Parse(answer.content, message, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError):
        return None
    return None if "html" in kind else int(message.partial_success.rejected_log_records)
