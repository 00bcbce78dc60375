"""Records of conversations, in every kind of file, as ours, ragas' and deepeval's."""

import csv
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files.predictions import read_predictions
from ragbench.data.loaders.records import Records
from ragbench.errors import DataError
from ragbench.types import ToolCall, Turn
from tests.lazy import Lazy

pa = Lazy("pyarrow")
parquet = Lazy("pyarrow.parquet")

ROME = {"name": "weather", "arguments": {"city": "Rome"}, "output": "24 degrees"}
PARIS = {"name": "weather", "arguments": {"city": "Paris"}, "output": "18 degrees"}
ROW = {
    "id": "c1",
    "turns": [
        {"role": "user", "content": "How warm is Paris?"},
        {
            "role": "assistant",
            "content": "18.",
            "contexts": ["Paris is big."],
            "tool_calls": [PARIS],
        },
    ],
    "question": "And Rome?",
    "standalone_question": "How warm is Rome?",
    "answer": "24.",
    "tool_calls": [ROME],
    "expected_tool_calls": [{"name": "weather", "arguments": {"city": "Rome"}}],
}
PLAIN = {
    "id": "c2",
    "turns": None,
    "question": "2 + 2?",
    "standalone_question": None,
    "answer": "4",
    "tool_calls": None,
    "expected_tool_calls": [],
}
MESSAGES = [
    {"content": "How warm is Paris?", "type": "human"},
    {"content": "", "type": "ai", "tool_calls": [{"name": "weather", "args": {"city": "Paris"}}]},
    {"content": "18 degrees", "type": "tool"},
    {"content": "18.", "type": "ai"},
    {"content": "And Rome?", "type": "human"},
    {"content": "", "type": "ai", "tool_calls": [{"name": "weather", "args": {"city": "Rome"}}]},
    {"content": "24 degrees", "type": "tool"},
    {"content": "24.", "type": "ai"},
]


def as_jsonl(folder, rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_csv(folder, rows):
    path = folder / "rows.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(rows[0])
        for row in rows:
            cells = [v if v is None or isinstance(v, str) else json.dumps(v) for v in row.values()]
            writer.writerow(cells)
    return path


def as_parquet(folder, rows):
    path = folder / "rows.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.fixture(params=[as_jsonl, as_csv, as_parquet])
def write(request, tmp_path):
    return lambda rows: request.param(tmp_path, rows)


def test_a_record_with_its_turns_and_calls(write):
    collection = Records(path=write([ROW, PLAIN])).load()

    first, second = collection.queries
    assert first.turns == (
        Turn("user", "How warm is Paris?"),
        Turn("assistant", "18.", ("Paris is big.",), (ToolCall(**PARIS),)),
    )
    assert second.turns == ()
    one, two = collection.recorded_answers["given"]
    assert one.queries == ["How warm is Rome?"]
    assert one.tool_calls == (ToolCall(**ROME),)
    # the file has tool calls: a row without made none
    assert two.tool_calls == ()
    assert collection.expected_tool_calls == {
        "c1": (ToolCall("weather", {"city": "Rome"}),),
        "c2": (),
    }
    assert first.metadata == second.metadata == {}


def test_a_conversation_of_ragas_is_cut_before_its_last_question(write):
    gold = [{"name": "weather", "args": {"city": "Paris"}}]
    collection = Records(
        path=write([{"user_input": MESSAGES, "reference_tool_calls": gold}])
    ).load()

    (query,), (answer,) = collection.queries, collection.recorded_answers["given"]
    assert query.text == "And Rome?"
    assert [turn.text for turn in query.turns] == ["How warm is Paris?", "18."]
    assert answer.answer == "24."
    # as ragas counts them: those of the whole conversation
    assert [call.arguments["city"] for call in answer.tool_calls] == ["Paris", "Rome"]
    assert [call.output for call in answer.tool_calls] == ["18 degrees", "24 degrees"]
    assert collection.expected_tool_calls[query.id] == (ToolCall("weather", {"city": "Paris"}),)


def test_a_conversation_of_deepeval_has_turns_and_no_input(write):
    turns = [
        {"role": "user", "content": "Hi", "retrieval_context": None},
        {"role": "assistant", "content": "Hello", "retrieval_context": None},
        {"role": "user", "content": "Who?", "retrieval_context": None},
        {"role": "assistant", "content": "I.", "retrieval_context": ["A passage."]},
    ]
    collection = Records(path=write([{"scenario": "greeting", "turns": turns}])).load()

    (query,), (answer,) = collection.queries, collection.recorded_answers["given"]
    assert (query.text, len(query.turns), answer.answer) == ("Who?", 2, "I.")
    assert [document.text for document in answer.contexts] == ["A passage."]
    assert query.metadata == {"scenario": "greeting"}


def test_the_test_case_of_deepeval(write):
    row = {
        "input": "How warm is Rome?",
        "actual_output": "24.",
        "tools_called": [{"name": "weather", "input_parameters": {"city": "Rome"}}],
        "expected_tools": [{"name": "weather", "input_parameters": {"city": "Rome"}}],
    }
    collection = Records(path=write([row])).load()
    (answer,) = collection.recorded_answers["given"]
    assert answer.tool_calls == (ToolCall("weather", {"city": "Rome"}),)
    assert [*collection.expected_tool_calls.values()] == [answer.tool_calls]


def test_columns_name_what_is_called_otherwise(tmp_path):
    row = {"q": "And Rome?", "log": {"history": ROW["turns"]}, "made": ["clock"], "a": "24."}
    columns = {"question": "q", "turns": "log.history", "tool_calls": "made", "answer": "a"}
    collection = Records(path=as_jsonl(tmp_path, [row]), columns=columns).load()
    assert len(collection.queries[0].turns) == 2
    assert collection.recorded_answers["given"][0].tool_calls == (ToolCall("clock"),)


def test_the_same_words_in_another_conversation_are_another_question(tmp_path):
    rows = [
        {"question": "And Rome?", "answer": "a", "contexts": [], "turns": turns}
        for turns in (ROW["turns"], ROW["turns"][:1], None)
    ]
    queries = Records(path=as_jsonl(tmp_path, rows)).load().queries
    assert len({query.id for query in queries}) == 3


def test_fingerprints_tell_turns_and_calls_apart(tmp_path):
    def prints(**changes):
        return Records(path=as_jsonl(tmp_path, [ROW | changes])).load().fingerprints

    base = prints()
    assert prints(turns=ROW["turns"][:1])["queries"] != base["queries"]
    assert prints(tool_calls=[])["given"] != base["given"]
    assert prints(expected_tool_calls=[])["expected_tool_calls"] != base["expected_tool_calls"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"turns": [{"content": "x"}]}, "TMP/rows.jsonl:2: 'turns'"),  # nobody said it
        ({"turns": "hello"}, "TMP/rows.jsonl:2: 'turns'"),  # a text is no list of turns
        ({"tool_calls": [{"arguments": {}}]}, "TMP/rows.jsonl:2: 'tool_calls'"),
        (
            {"expected_tool_calls": [{"name": "f", "arguments": "x"}]},
            "TMP/rows.jsonl:2: 'expected_tool_calls'",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path, changes, place, assert_message):
    path = as_jsonl(tmp_path, [PLAIN, ROW | changes])
    with pytest.raises(DataError) as caught:
        Records(path=path).load()
    assert_message(caught.value, place)


def test_a_conversation_without_a_question_is_refused(tmp_path, assert_message):
    path = as_jsonl(tmp_path, [{"turns": [{"role": "assistant", "content": "Hello"}]}])
    with pytest.raises(DataError) as caught:
        Records(path=path).load()
    assert_message(caught.value, "TMP/rows.jsonl:1: 'turns'")


@pytest.mark.parametrize(
    "changes",
    [
        {"turns": []},
        {"expected_tool_calls": ["clock"]},  # gold belongs to the question, not to the system
    ],
)
def test_two_systems_answer_the_same_question(tmp_path, changes, assert_message):
    rows = [ROW | {"system": "a"}, ROW | {"system": "b"} | changes]
    with pytest.raises(DataError) as caught:
        Records(path=as_jsonl(tmp_path, rows)).load()
    assert_message(caught.value, "TMP/rows.jsonl:2")


def test_predictions_have_calls_and_queries(tmp_path):
    rows = [
        {"query_id": "a", "answer": "x", "tool_calls": [ROME], "queries": ["q"]},
        {"query_id": "b", "answer": "y"},
    ]
    answers = read_predictions(as_jsonl(tmp_path, rows))
    assert answers["a"].tool_calls == (ToolCall(**ROME),)
    assert answers["a"].queries == ["q"]
    assert answers["b"].tool_calls == ()
    assert read_predictions(as_jsonl(tmp_path, rows[1:]))["b"].tool_calls is None


texts = st.text("abc é,.?", min_size=1).map(lambda text: f"Q{text.strip()}")
FORMS = {
    "messages": lambda pairs: [
        {"role": role, "content": text}
        for pair in pairs
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ],
    "exchanges": lambda pairs: [dict(zip(("question", "answer"), p, strict=True)) for p in pairs],
    "pairs": lambda pairs: [list(pair) for pair in pairs],
    "roles": lambda pairs: [item for q, a in pairs for item in (["human", q], ["ai", a])],
}


@settings(max_examples=30)
@given(
    pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
    form=st.sampled_from(sorted(FORMS)),
    name=st.sampled_from(["turns", "history", "chat_history", "Chat History"]),
)
def test_a_history_is_turns(tmp_path_factory, pairs, form, name):
    folder = tmp_path_factory.getbasetemp()
    row = {"question": "And?", "answer": "Yes", "contexts": ["p"], name: FORMS[form](pairs)}

    (query,) = Records(path=as_jsonl(folder, [row])).load().queries

    assert [turn.text for turn in query.turns] == [text for pair in pairs for text in pair]
    assert [turn.role for turn in query.turns] == ["user", "assistant"] * len(pairs)
