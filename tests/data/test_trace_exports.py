"""Exported traces: one application in five forms, how rows may look, and what is not clear."""

import csv
import gzip
import json
from dataclasses import fields
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.data.loaders.base import OF_QUERIES
from ragbench.data.loaders.records import Records
from ragbench.data.loaders.traces import Traces
from ragbench.data.traces.spans import number
from ragbench.errors import DataError, OptionError
from ragbench.types import Collection, Span
from tests.messages import lines_with

EXPORTS = Path(__file__).parent / "exports"
FORMS = {
    "phoenix.jsonl.gz": {},
    "otlp.json.gz": {"corpus": EXPORTS / "corpus.jsonl"},
    "langfuse.jsonl.gz": {"kinds": {"rerank": "reranker"}},
    "langsmith.jsonl.gz": {"kinds": {"rerank": "reranker"}},
    "mlflow.jsonl.gz": {},
}


def loaded(name, **options):
    settings = {"gold": EXPORTS / "gold.jsonl", **FORMS[name], **options}
    return Traces(path=EXPORTS / name, **settings)


def summary_of(collection):
    """Return the rows of a collection without trace ids and fields that only some forms have."""
    queries = {query.id: query for query in collection.queries}
    return {
        system: sorted(
            (
                queries[row.query_id].text,
                str(
                    [(turn.role, turn.text, turn.contexts) for turn in queries[row.query_id].turns]
                ),
                str(queries[row.query_id].metadata.get("model")),
                queries[row.query_id].metadata["time"],
                str(row.answer),
                str([(d.id, d.text, d.metadata.get("score")) for d in row.contexts or ()]),
                row.contexts is None,
                str(row.queries),
                str(row.error),
                str(row.usage),
                str(None if row.latency_ms is None else round(row.latency_ms, 3)),
            )
            for row in rows
        )
        for system, rows in collection.recorded_answers.items()
    }


@pytest.mark.costly
@pytest.mark.parametrize("name", FORMS)
def test_all_forms_say_the_same(name):
    expected, traces = loaded("phoenix.jsonl.gz").load(), loaded(name).load()

    assert summary_of(traces) == summary_of(expected)
    assert traces.warnings == []
    assert len(traces.queries) == 20
    assert {system: len(rows) for system, rows in traces.recorded_answers.items()} == {
        "given": 20,
        "given-union": 19,
        "given-hop-1": 19,
        "given-hop-2": 13,
    }


@pytest.mark.costly
def test_each_retrieval_is_scored(tmp_path):
    # One form is enough: the other forms give the same rows, and therefore the same scores
    config = {
        "name": "shop",
        "dataset": {
            "type": "traces",
            "path": str(EXPORTS / "phoenix.jsonl.gz"),
            "gold": str(EXPORTS / "gold.jsonl"),
        },
        "output": str(tmp_path),
        "metrics": {
            "retrieval": {"measures": ["recall@3", "recall@10", "ndcg@10"]},
            "generation": ["rouge1"],
        },
        "statistics": {"resamples": 100},
    }
    scores = {
        system["name"]: {
            key: (s["mean"], s["n"], s["failed"], s["not_applicable"])
            for key, s in system["scores"].items()
        }
        for system in rb.run_experiment(config).summary["systems"]
    }

    assert scores["given-union"]["recall@10"][0] == pytest.approx(13 / 19)
    assert scores["given-hop-1"]["recall@10"][0] == 0
    assert scores["given-hop-2"]["recall@10"][:2] == (1.0, 13)
    assert scores["given"]["rouge1"][2] == {"error": 1}
    assert "rouge1" not in scores["given-union"]


def test_what_the_application_did(tmp_path, assert_message):
    collection = loaded("phoenix.jsonl.gz").load()
    answers = {row.query_id: row for row in collection.recorded_answers["given"]}
    by_text = {}
    for query in collection.queries:
        by_text.setdefault(query.text, []).append(query)

    # asked twice: two questions, two ids
    lamp, radio, bicycle = (
        f"What is the weight of the {name}?" for name in ("lamp", "radio", "bicycle")
    )
    assert len(by_text[lamp]) == 2
    # three turns in one session
    [tent] = by_text["What is the weight of the tent?"]
    assert [turn.text for turn in tent.turns if turn.role == "user"] == [radio, bicycle]
    assert tent.metadata["session"] == "visit-7"
    # the failed call keeps what it retrieved
    [failed] = [row for row in answers.values() if row.error]
    assert failed.answer is None
    assert_message(failed.error, "TimeoutError")
    assert len(failed.contexts) == 6
    # held back by the guard: an answer without a retrieval
    [guarded] = [row for row in answers.values() if row.contexts is None]
    assert guarded.answer == "I cannot help with that."
    [chair] = by_text["What is the weight of the chair?"]
    assert (chair.metadata["hops"], chair.metadata["model"]) == (2, "gpt-4o-mini")
    assert answers[chair.id].usage.input_tokens == 201
    assert answers[chair.id].latency_ms == pytest.approx(900)
    assert answers[chair.id].queries == ["chair data sheet"]


def rows_of(name):
    return [json.loads(line) for line in gzip.open(EXPORTS / name, "rt")]


def nest(values):
    tree = {}
    for key, value in values.items():
        *path, last = key.split(".")
        inner = tree
        for step in path:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return tree


def as_columns(row):
    """A row as a data frame of Phoenix has it, with its lists as JSON texts."""
    flat = {key: value for key, value in row.items() if key not in ("attributes", "context")}
    flat |= {f"context.{key}": value for key, value in row["context"].items()}
    return flat | {f"attributes.{key}": value for key, value in row["attributes"].items()}


SHAPES = {
    "json_text": lambda row: {**row, "attributes": json.dumps(row["attributes"])},
    "nested": lambda row: {**row, "attributes": nest(row["attributes"])},
    "columns": as_columns,
}


@pytest.mark.costly
@pytest.mark.parametrize("shape", SHAPES)
def test_attributes_may_be_columns_mappings_or_json(write, shape):
    path = write("spans.jsonl", [SHAPES[shape](row) for row in rows_of("phoenix.jsonl.gz")])

    assert summary_of(Traces(path=path).load()) == summary_of(loaded("phoenix.jsonl.gz").load())


def test_a_table_of_spans(tmp_path):
    rows = [as_columns(row) for row in rows_of("phoenix.jsonl.gz")]
    with (tmp_path / "spans.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)

    assert summary_of(Traces(path=tmp_path / "spans.csv").load()) == summary_of(
        loaded("phoenix.jsonl.gz").load()
    )


@pytest.mark.costly
def test_a_parquet_table_of_spans(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows = [as_columns(row) for row in rows_of("phoenix.jsonl.gz")]
    frame = pandas.DataFrame(rows)
    for column in ("start_time", "end_time"):
        frame[column] = pandas.to_datetime(frame[column], format="ISO8601")
    frame.to_parquet(tmp_path / "spans.parquet")

    traces = Traces(path=tmp_path / "spans.parquet").load()

    assert summary_of(traces) == summary_of(loaded("phoenix.jsonl.gz").load())


@pytest.mark.costly
def test_the_order_of_spans_does_not_matter(write):
    path = write("spans.jsonl", rows_of("phoenix.jsonl.gz")[::-1])

    assert summary_of(Traces(path=path).load()) == summary_of(loaded("phoenix.jsonl.gz").load())


def test_traces_of_langfuse_with_their_observations(write):
    traces = {}
    for row in rows_of("langfuse.jsonl.gz"):
        trace = traces.setdefault(row["traceId"], {"id": row["traceId"], "observations": []})
        if session := row.pop("sessionId", None):
            trace["sessionId"] = session
        trace["observations"].append(row)
    path = write("traces.jsonl", list(traces.values()))

    with_kinds = Traces(path=path, kinds={"rerank": "reranker"}).load()

    assert summary_of(with_kinds) == summary_of(loaded("phoenix.jsonl.gz").load())


def test_a_step_that_returns_passages_is_named_and_not_guessed(assert_message):
    collection = loaded("langfuse.jsonl.gz", kinds=None).load()

    [warning] = collection.warnings
    assert_message(warning)


def test_hops_may_be_joined():
    assert list(loaded("phoenix.jsonl.gz", hops="joined").load().recorded_answers) == ["given"]


def span(number, kind, parent=None, trace="t", name=None, error=None, **attributes):
    values = {
        "trace_id": trace,
        "span_id": f"{number}",
        "parent_id": parent,
        "name": name or kind.lower(),
        "start_time": 1_700_000_000 + number,
        "end_time": 1_700_000_000 + number,
        "status_code": "ERROR" if error else "OK",
        "status_message": error,
    }
    attributes_of = {key.replace("__", "."): value for key, value in attributes.items()}
    return {**values, "attributes": {"openinference.span.kind": kind, **attributes_of}}


def root(trace="t", **more):
    return span(1, "CHAIN", trace=trace, **{"input__value": "Why?", "output__value": "So.", **more})


CLEAR = [root("fine")]
UNCLEAR = {
    "no_question": ([root(input__value='{"tone": "dry", "topic": "moons"}')], "the question is"),
    "no_answer": ([root(output__value='{"a": "x", "b": "y"}')], "what the answer is"),
    "two_roots": (
        [root(), span(2, "CHAIN", input__value="Who?", output__value="I.")],
        "several outermost steps have an answer",
    ),
    "nothing_said": ([span(1, "CHAIN"), span(2, "EMBEDDING", "1")], "no outermost step"),
    "hidden_passages": (
        [root(), span(2, "RETRIEVER", "1", output__value="__REDACTED__")],
        "a retrieval whose passages cannot be read",
    ),
    "no_passages_recorded": ([root(), span(2, "RETRIEVER", "1")], "cannot be read"),
    "prompt": (
        [
            span(1, "CHAIN"),
            span(2, "RETRIEVER", "1", input__value="hot moons",
                 **{"retrieval__documents__0__document__content": "Io is hot."}),
            span(3, "LLM", "1", input__value="From: Io is hot. Which?", output__value="Io."),
        ],
        "whose prompt does not tell the question",
    ),
    "circle": ([span(1, "CHAIN", "2"), span(2, "CHAIN", "1")], "in a circle"),
    "repeated": ([root(), root()], "two spans have the same id"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_is_not_clear_is_left_out_with_its_cause(write, case, problem, assert_message):
    spans, cause = UNCLEAR[case]

    collection = Traces(path=write("spans.jsonl", CLEAR + spans)).load()

    assert [query.id for query in collection.queries] == ["fine"]
    [warning] = collection.warnings
    assert warning.startswith("1 trace is left out: ")
    assert cause in warning
    assert warning.endswith(" (t)")
    refused = problem(lambda: Traces(path=write("alone.jsonl", spans)).load())
    assert_message(refused, "alone.jsonl")


def test_a_prompt_that_holds_the_query_tells_the_question(write):
    spans = [
        span(1, "CHAIN"),
        span(2, "RETRIEVER", "1", input__value="Which moon is hot?",
             **{"retrieval__documents__0__document__content": "Io is hot."}),
        span(3, "LLM", "1", input__value="From: Io is hot. Which moon is hot?",
             output__value="Io."),
    ]  # fmt: skip

    [query] = Traces(path=write("spans.jsonl", spans)).load().queries

    assert query.text == "Which moon is hot?"


def test_the_paths_of_question_and_answer_may_be_said(write):
    spans = [root(input__value='{"tone": "dry", "topic": "moons"}',
                  output__value='{"a": {"b": "x"}, "c": "y"}')]  # fmt: skip

    collection = Traces(path=write("s.jsonl", spans), question="topic", answer="a.b").load()

    assert collection.queries[0].text == "moons"
    assert collection.recorded_answers["given"][0].answer == "x"


def test_a_retriever_inside_a_retriever_is_a_part_of_it(write):
    passage = "retrieval__documents__0__document__content"
    spans = [
        root(),
        span(2, "RETRIEVER", "1", **{passage: "Io is hot."}),
        span(3, "RETRIEVER", "2", **{passage: "Io is a moon."}),
    ]

    collection = Traces(path=write("spans.jsonl", spans)).load()

    [row] = collection.recorded_answers["given"]
    assert [passage.text for passage in row.contexts] == ["Io is hot."]
    assert list(collection.recorded_answers) == ["given"]


def test_chunks_with_the_id_of_their_document_are_all_kept(write, assert_message):
    passages = {
        f"retrieval__documents__{n}__document__{key}": value
        for n, text in enumerate(["Io is hot.", "Io is a moon."])
        for key, value in (("id", "io"), ("content", text))
    }
    collection = Traces(
        path=write("s.jsonl", [root(), span(2, "RETRIEVER", "1", **passages)])
    ).load()

    [row] = collection.recorded_answers["given"]
    assert [passage.text for passage in row.contexts] == ["Io is hot.", "Io is a moon."]
    assert [p.metadata.get("document_id") for p in row.contexts] == [None, "io"]
    assert_message(lines_with(collection.notes, "with the id of another"))


@pytest.mark.parametrize("role", ["assistant", "ai", "model"])
def test_messages_before_the_question_are_its_turns(write, role):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Which moon is hot?"},
        {"role": role, "content": "Io."},
        {"role": "user", "content": "Why?"},
    ]
    spans = [root(input__value=json.dumps({"messages": messages}))]

    [query] = Traces(path=write("spans.jsonl", spans)).load().queries

    assert query.text == "Why?"
    assert [(t.role, t.text) for t in query.turns] == [
        ("user", "Which moon is hot?"),
        ("assistant", "Io."),
    ]


def test_calls_of_tools_are_told(write):
    spans = [root(), span(2, "TOOL", "1", name="weather", input__value='{"city": "Porto"}',
                          output__value='{"degrees": 19}')]  # fmt: skip

    [row] = Traces(path=write("spans.jsonl", spans)).load().recorded_answers["given"]

    [call] = row.tool_calls
    assert (call.name, call.arguments, call.output) == (
        "weather",
        {"city": "Porto"},
        '{"degrees": 19}',
    )


def test_what_is_no_export_is_refused(write, problem, assert_message):
    refused = problem(lambda: Traces(path=write("x.jsonl", [{"question": "Why?"}])).load())

    assert_message(refused, "x.jsonl:1")


def test_an_integer_of_otlp_that_is_none_is_refused_with_its_row(write, problem, assert_message):
    attributes = [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "many"}}]
    span = {"traceId": "t", "spanId": "s", "attributes": attributes}
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}

    refused = problem(lambda: Traces(path=write("x.jsonl", [export])).load())

    assert_message(refused, "x.jsonl:1")


@pytest.mark.parametrize(
    ("span", "fault"),
    [
        ("a text", "found ['a text']"),
        ({"attributes": "a text"}, "found 'a text'"),
        ({"attributes": [{"key": "a", "value": {"arrayValue": {"values": 5}}}]}, "found 5"),
        ({"attributes": [{"key": "a", "value": {"kvlistValue": {"values": [5]}}}]}, "found [5]"),
        ({"events": {"name": "e"}}, "found {'name': 'e'}"),
    ],
)
def test_lists_of_otlp_have_objects(write, problem, span, fault, assert_message):
    spans = [{"traceId": "t", "spanId": "s", **span} if isinstance(span, dict) else span]
    export = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}

    refused = problem(lambda: Traces(path=write("x.jsonl", [export])).load())

    assert_message(refused, "x.jsonl:1")


@pytest.mark.parametrize(
    "attributes",
    [
        [{"value": {"stringValue": "no key"}}],
        [{"key": "a", "value": {"arrayValue": None}}, {"key": "b", "value": {"kvlistValue": None}}],
        [{"key": "mlflow", "value": {"stringValue": "no mapping"}}],
        [{"key": "a.²", "value": {"stringValue": "no digit of a position"}}],
    ],
)
def test_odd_attributes_of_otlp_are_no_error(write, attributes):
    values = {"openinference.span.kind": "CHAIN", "input.value": "Why?", "output.value": "So."}
    usual = [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
    span = {"traceId": "t", "spanId": "s", "attributes": [*usual, *attributes]}
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}

    assert [q.text for q in Traces(path=write("x.jsonl", [export])).load().queries] == ["Why?"]


def test_spans_of_mlflow_are_objects(write, problem, assert_message):
    export = {"info": {"trace_id": "t"}, "data": {"spans": ["a text"]}}

    refused = problem(lambda: Traces(path=write("x.jsonl", [export]), format="mlflow").load())

    assert_message(refused, "x.jsonl:1")


def test_recorded_arguments_of_another_form_are_no_question(write, problem, assert_message):
    spans = [root(input__value=json.dumps({"args": 5, "kwargs": "k"}))]

    refused = problem(lambda: Traces(path=write("spans.jsonl", spans)).load())

    assert_message(refused, "spans.jsonl")


def test_names_of_steps_are_checked(assert_message):
    with pytest.raises(DataError) as caught:
        loaded("langfuse.jsonl.gz", kinds={"reranc": "reranker"}).load()
    assert_message(caught.value, "REPOSITORY/tests/data/exports/langfuse.jsonl.gz: kinds")


def test_columns_are_of_gold():
    with pytest.raises(OptionError, match="gold"):
        Traces(path=EXPORTS / "phoenix.jsonl.gz", columns={"question": "q"}).load()


def test_gold_of_other_questions_is_refused(write, assert_message):
    gold = write("gold.jsonl", [{"question": "Quite another?", "reference": "Yes."}])

    with pytest.raises(DataError) as caught:
        loaded("phoenix.jsonl.gz", gold=gold).load()
    assert_message(caught.value, "TMP/gold.jsonl")


LAMP = "What is the weight of the lamp?"
# A value of each column of gold; the loader joins all of them by trace.
GOLD = {
    "relevant": [["lamp-weight", "lamp-size"]],
    "reference": "2 kg",
    "excluded": ["lamp-price"],
    "forbidden": ["lamp-secret"],
    "expected_tool_calls": [{"name": "look_up", "arguments": {"what": "lamp"}}],
}


def test_gold_by_question_is_gold_by_id(write):
    # Bug: forbidden and excluded documents and alternatives were lost without ids
    [name, *_] = [
        query.id for query in loaded("phoenix.jsonl.gz").load().queries if query.text == LAMP
    ]
    by_id = write("ids.jsonl", [{"id": name, "question": LAMP, **GOLD}])
    by_question = write("questions.jsonl", [{"question": LAMP, **GOLD}])

    expected, found = [
        loaded("phoenix.jsonl.gz", gold=gold).load() for gold in (by_id, by_question)
    ]

    kept = [part for part in OF_QUERIES if getattr(found, part)]
    assert {*OF_QUERIES} - {*kept} == {"gold_spans", "ambiguous_gold", "nuggets"}
    for part in OF_QUERIES:
        assert getattr(found, part).get(name) == getattr(expected, part).get(name)
    assert found.qrels.by_query[name] == expected.qrels.by_query[name]


def test_every_part_of_a_data_set_by_query_is_joined():
    others = "gold_passages gold_places recorded_answers fingerprints unread"
    others += " table_columns table_rows"
    parts = [field.name for field in fields(Collection) if field.type.startswith("Mapping")]

    assert {*parts} - {*others.split()} == {*OF_QUERIES}


def test_rows_of_one_question_have_one_gold(write, assert_message):
    # Bug: the last row counted
    row = {"question": LAMP, **GOLD}
    same = write("same.jsonl", [row, {**row, "question": LAMP.upper()}])
    other = write("gold.jsonl", [row, {"question": LAMP.upper(), "reference": "3 kg"}])

    assert loaded("phoenix.jsonl.gz", gold=same).load().answers
    with pytest.raises(DataError) as caught:
        loaded("phoenix.jsonl.gz", gold=other).load()
    assert_message(caught.value, "TMP/gold.jsonl")


def test_a_row_with_the_id_of_another_trace_is_refused(write, assert_message):
    # Bug: ids of two numberings met, and each trace got the gold of another question
    spans = [
        span(1, "CHAIN", None, trace=name, input__value=text, output__value="Yes.")
        for name, text in (("1", "Is it hot?"), ("2", "Is it cold?"))
    ]
    export = write("spans.jsonl", spans)
    rows = [{"id": "1", "question": "is it  COLD?"}, {"id": "2", "question": "Is it hot?"}]
    gold = write("gold.jsonl", [{**row, "reference": "Yes."} for row in rows])
    reworded = write("reworded.jsonl", [{**rows[0], "question": "Cold?", "reference": "Yes."}])

    assert Traces(path=export, gold=reworded).load().answers == {"1": ["Yes."]}
    with pytest.raises(DataError) as caught:
        Traces(path=export, gold=gold).load()
    assert_message(caught.value, "TMP/gold.jsonl")


def test_gold_spans_are_those_of_the_traces(write):
    span = {"document": "lamp-weight", "start": 0, "end": 3}
    row = {"question": "What is the weight of the lamp?", "reference_spans": [span]}

    collection = loaded("phoenix.jsonl.gz", gold=write("gold.jsonl", [row])).load()

    ids = [query.id for query in collection.queries if query.text == row["question"]]
    assert ids
    assert collection.gold_spans == {name: [Span("lamp-weight", 0, 3)] for name in ids}


def test_validate_prints_how_traces_were_read(tmp_path):
    from click.testing import CliRunner

    from ragbench.cli.configs import validate

    rows = [root("unclear", input__value='{"tone": "dry", "topic": "moons"}')]
    rows += [*CLEAR, span(2, "RETRIEVER", "1", trace="fine", output__value='{"documents": []}')]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "c.yaml").write_text("dataset: {type: traces, path: t.jsonl}\n")

    done = CliRunner().invoke(validate, [str(tmp_path / "c.yaml")])

    assert done.exit_code == 0
    for line in (
        "data      traces: 1 query",
        "read as openinference: 2 traces, 3 spans (2 chain, 1 retriever)",
        "retrievers: retriever (1)",
        "retrievals: 1 trace with 1",
        "row 1     trace: fine",
        "contexts: 0",
        "warning   1 trace is left out: its input does not say what the question is (unclear)",
    ):
        assert line in done.output


@pytest.mark.parametrize("value", [10**400, "1e999", "nan", -1, True, None, "much"])
def test_values_that_are_no_cost_are_unknown(value):
    assert number(value) is None


@pytest.mark.parametrize("name", FORMS)
def test_traces_keep_the_time_at_which_they_started(name):
    queries = Traces(path=EXPORTS / name, **FORMS[name]).load().queries

    # the application of `application.py` starts at nine and answers a question a minute
    times = [query.metadata["time"] for query in queries]
    assert min(times) == "2025-03-01T09:00:00Z"
    assert all(time.startswith("2025-03-01T") for time in times)


@pytest.mark.parametrize(
    ("start", "metadata_time", "time"),
    [
        (1760343300123456789, None, "2025-10-13T08:15:00Z"),
        ("2025-10-13T10:15:00.5+02:00", "noon", "2025-10-13T08:15:00Z"),
        # seconds of a process are no time of the calendar
        (12.5, None, None),
        (None, None, None),
        (None, "2025-10-13", "2025-10-13"),
    ],
)
def test_the_time_of_a_trace(tmp_path, start, metadata_time, time):
    attributes = {"input.value": "Why?", "output.value": "So.", "metadata": {"time": metadata_time}}
    span = {
        "context": {"trace_id": "t", "span_id": "s"},
        "start_time": start,
        "attributes": {**attributes, "openinference.span.kind": "CHAIN"},
    }
    (tmp_path / "spans.jsonl").write_text(json.dumps(span) + "\n")

    (query,) = Traces(path=tmp_path / "spans.jsonl").load().queries

    assert query.metadata.get("time") == time


@pytest.mark.parametrize(
    ("columns", "time"),
    [
        ({"timestamp": "2025-10-13", "created_at": "2025-10-14"}, "2025-10-13"),
        ({"created_at": 1760343300}, 1760343300),
        ({"time": "2025-10-12", "timestamp": "2025-10-13"}, "2025-10-12"),
        ({"metadata": {"start_time": "2025-10-15"}}, "2025-10-15"),
        ({"asked": "2025-10-13"}, None),
    ],
)
def test_the_time_of_a_record(tmp_path, columns, time):
    (tmp_path / "log.jsonl").write_text(json.dumps({"question": "Why?", **columns}) + "\n")

    (query,) = Records(path=tmp_path / "log.jsonl").load().queries

    assert query.metadata.get("time") == time
    assert query.metadata.items() >= columns.get("metadata", columns).items()
