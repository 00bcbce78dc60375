"""`rb.to_otel`: events of the semantic conventions, by the SDK of OpenTelemetry."""

import importlib
import sys

import pytest

import ragbench as rb
from ragbench.testing import Answer, ChatServer

GOOD = '{"reasoning": "It reads well.", "level": 4}'


@pytest.fixture
def emitted():
    """Return a provider of the SDK, and a function that returns its finished records."""
    pytest.importorskip("opentelemetry.sdk")
    sdk = importlib.import_module("opentelemetry.sdk._logs")
    export = importlib.import_module("opentelemetry.sdk._logs.export")
    exporter = getattr(export, "InMemoryLogRecordExporter", None) or export.InMemoryLogExporter
    memory, provider = exporter(), sdk.LoggerProvider()
    provider.add_log_record_processor(export.SimpleLogRecordProcessor(memory))
    yield provider, lambda: [entry.log_record for entry in memory.get_finished_logs()]
    provider.shutdown()


def test_verdicts_of_a_judge_are_events(emitted):
    provider, records = emitted
    rubrics = ["fluency", "coherence", "correctness"]

    def answer(body):
        return GOOD if "fluen" in str(body["messages"]) else Answer("no such field", status=400)

    with (
        ChatServer(answer) as server,
        rb.Judge("m", rubrics, base_url=server.url) as judge,
    ):
        verdicts = judge.score(question="When?", answer="In 1932.")
    count = rb.to_otel(verdicts, response_id="chatcmpl-7", logger_provider=provider)

    assert count == 3
    assert {(r.event_name, r.severity_number.name) for r in records()} == {
        ("gen_ai.evaluation.result", "INFO")
    }
    fluency, coherence, correctness = (dict(record.attributes) for record in records())
    assert fluency == {
        "gen_ai.evaluation.name": "fluency",
        "gen_ai.evaluation.score.value": 0.75,
        "gen_ai.evaluation.score.label": "level 4",
        "gen_ai.evaluation.explanation": "It reads well.",
        "gen_ai.response.id": "chatcmpl-7",
    }
    assert coherence["error.type"] == coherence["ragbench.cause"] == verdicts["coherence"].cause
    assert coherence["gen_ai.evaluation.score.label"] == "failed"
    # without a reference answer correctness does not apply: no error, and no number
    assert correctness["gen_ai.evaluation.score.label"] == "not_applicable"
    assert correctness["ragbench.cause"] == "no_reference"
    assert not {"error.type", "gen_ai.evaluation.score.value"} & correctness.keys()


def test_results_of_scorers_and_numbers_are_events(emitted):
    provider, records = emitted
    ranked, gold = {"retrieved": ["d3", "d1"]}, {"relevant": ["d1"]}
    scores = {
        "mrr": rb.scorer("mrr")(None, ranked, gold),
        "rougeL": rb.scorer("rougeL")("When?", "In 1932."),
        "ndcg@10": rb.ndcg([], []),
        "token_f1": rb.token_f1("a b c d", ["a b c d"]),
    }

    rb.to_otel([scores, {"map": 0.5}], logger_provider=provider)

    values = [r.attributes.get("gen_ai.evaluation.score.value") for r in records()]
    labels = [r.attributes["gen_ai.evaluation.score.label"] for r in records()]
    assert values == [0.5, None, None, 1.0, 0.5]
    assert labels == ["scored", "not_applicable", "not_applicable", "scored", "scored"]
    assert records()[1].attributes["ragbench.cause"] == "no_reference"


def test_the_parent_is_the_span_that_was_scored(emitted):
    provider, records = emitted
    trace = importlib.import_module("opentelemetry.sdk.trace")
    tracer = trace.TracerProvider().get_tracer("app")
    with tracer.start_as_current_span("answer") as answer:
        rb.to_otel({"map": 1.0}, logger_provider=provider)
    rb.to_otel({"map": 1.0}, span=answer, logger_provider=provider)
    rb.to_otel({"map": 1.0}, logger_provider=provider)

    span = answer.get_span_context()
    assert [record.span_id for record in records()] == [span.span_id, span.span_id, 0]
    assert records()[1].trace_id == span.trace_id


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param({"score": 0.5, "reason": "", "cause": None}, id="a result without its name"),
        pytest.param(rb.Verdict(1.0), id="a verdict without its name"),
        pytest.param([1.0], id="numbers without names"),
        pytest.param("fluency", id="a text"),
    ],
)
def test_a_score_without_a_name_is_refused(scores, assert_message):
    with pytest.raises(rb.OptionError) as caught:
        rb.to_otel(scores)
    assert_message(caught.value, "to_otel")


def test_one_id_belongs_to_one_answer(assert_message):
    with pytest.raises(rb.OptionError) as caught:
        rb.to_otel([{"map": 1.0}, {"map": 0.0}], response_id="chatcmpl-7")
    assert_message(caught.value, "to_otel")


def test_the_package_is_named_where_it_is_missing(monkeypatch, assert_message):
    monkeypatch.setitem(sys.modules, "opentelemetry._logs", None)

    with pytest.raises(rb.MissingExtra) as caught:
        rb.to_otel({"map": 1.0})
    assert_message(caught.value)


def test_without_a_provider_events_are_dropped():
    pytest.importorskip("opentelemetry._logs")

    assert rb.to_otel({"map": 1.0}) == 1
