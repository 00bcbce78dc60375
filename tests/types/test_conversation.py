"""The forms in which turns and tool calls are written down."""

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.types import ToolCall, Turn
from ragbench.types.conversation import (
    before_question,
    cut_conversation,
    is_conversation,
    read_tool_calls,
    read_turns,
)


class Refused(Exception):
    """Hold the place that the caller gets."""


def fail(problem, allowed):
    return Refused(f"{problem}; allowed: {allowed}")


CALL = ToolCall("weather", {"city": "Paris"}, "18 degrees")
QUESTION, ANSWER = Turn("user", "How warm is it?"), Turn("assistant", "18.", (), (CALL,))


@dataclass
class Dumped:
    """A message of a package that uses pydantic."""

    values: dict

    def model_dump(self):
        return self.values


OPENAI = [
    {"role": "user", "content": [{"type": "text", "text": "How warm is it?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
    {"role": "assistant", "content": "18."},
]
RAGAS = [
    {"content": "How warm is it?", "metadata": None, "type": "human"},
    {
        "content": "",
        "metadata": None,
        "type": "ai",
        "tool_calls": [{"name": "weather", "args": {"city": "Paris"}}],
    },
    {"content": "18 degrees", "metadata": None, "type": "tool"},
    {"content": "18.", "metadata": None, "type": "ai", "tool_calls": None},
]
DEEPEVAL = [
    {"role": "user", "content": "How warm is it?", "retrieval_context": None},
    {
        "role": "assistant",
        "content": "18.",
        "tools_called": [
            {
                "name": "weather",
                "type": "FUNCTION",
                "description": None,
                "input_parameters": {"city": "Paris"},
                "output": "18 degrees",
            }
        ],
    },
]
EXCHANGES = [
    {
        "question": "How warm is it?",
        "answer": "18.",
        "tool_calls": [{"name": "weather", "arguments": {"city": "Paris"}, "result": "18 degrees"}],
    }
]
FUNCTION = [
    {"role": "user", "content": "How warm is it?"},
    {"role": "assistant", "function_call": {"name": "weather", "arguments": '{"city":"Paris"}'}},
    {"role": "function", "name": "weather", "content": "18 degrees"},
    {"role": "assistant", "content": "18."},
]


@pytest.mark.parametrize(
    "messages",
    [OPENAI, RAGAS, DEEPEVAL, EXCHANGES, FUNCTION, [QUESTION, ANSWER], [*map(Dumped, RAGAS)]],
    ids=["openai", "ragas", "deepeval", "exchanges", "functions", "our own", "objects"],
)
def test_all_forms_say_the_same(messages):
    assert read_turns(messages, fail) == (QUESTION, ANSWER)


def test_passages_are_texts_of_every_form_and_of_the_corpus():
    contexts = ["a", {"text": "b", "title": "T"}, {"page_content": "c"}, {"id": "d1"}]
    turns = read_turns([{"question": "?", "answer": "!", "contexts": contexts}], fail, {"d1": "d"})
    assert turns[1].contexts == ("a", "T b", "c", "d")


def test_outputs_go_to_the_call_that_is_named():
    called = [{"id": i, "name": "f", "arguments": {"n": i}} for i in ("x", "y")]
    messages = [
        {"role": "assistant", "tool_calls": called},
        {"role": "tool", "tool_call_id": "y", "content": "second"},
        {"role": "tool", "tool_call_id": "x", "content": "first"},
    ]
    (turn,) = read_turns(messages, fail)
    assert [call.output for call in turn.tool_calls] == ["first", "second"]


def test_an_output_without_its_call_is_kept():
    (turn,) = read_turns([{"role": "tool", "name": "clock", "content": "noon"}], fail)
    assert turn == Turn("assistant", "", (), (ToolCall("clock", {}, "noon"),))


def test_several_messages_of_one_side_are_one_turn():
    messages = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert read_turns(messages, fail) == (Turn("assistant", "a\n\nb"),)


@pytest.mark.parametrize(
    "messages",
    [
        "hello",
        {"role": "user"},
        ["hello"],
        [{"role": "user", "content": "a"}, {"content": "b"}],
        [{"role": "narrator", "content": "a"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": "a", "contexts": "p"}],
        [{"role": "user", "content": "a", "contexts": [3]}],
        [{"role": "assistant", "tool_calls": {"name": "f"}}],
        [{"role": "assistant", "tool_calls": [{"args": {}}]}],
        [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{city: Paris}"}]}],
        [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": [1]}]}],
    ],
)
def test_what_is_no_turn_is_refused_with_its_place(messages, assert_message):
    with pytest.raises(Refused) as caught:
        read_turns(messages, fail)
    assert_message(caught.value)


def test_calls_are_names_or_objects():
    calls = read_tool_calls(["clock", {"name": "f", "output": {"a": 1}}, ToolCall("g")], fail)
    assert calls == (ToolCall("clock"), ToolCall("f", {}, '{"a": 1}'), ToolCall("g"))


def test_a_conversation_is_cut_before_its_last_question():
    early = [Turn("user", "Hi"), Turn("assistant", "Hello", ("p",), (ToolCall("clock"),))]
    cut = cut_conversation([*early, QUESTION, ANSWER], fail)

    assert cut.turns == tuple(early)
    assert (cut.question, cut.answer, cut.tool_calls) == ("How warm is it?", "18.", (CALL,))
    assert [call.name for call in cut.all_calls] == ["clock", "weather"]
    assert cut_conversation([QUESTION], fail).answer is None
    with pytest.raises(Refused, match="no message of a user"):
        cut_conversation([ANSWER], fail)


def test_the_question_itself_is_no_earlier_turn():
    early = (Turn("user", "Hi"), Turn("assistant", "Hello"))
    for turns in (early, (*early, QUESTION), (*early, QUESTION, ANSWER)):
        assert before_question(turns, "How warm is it?") == early
    # asked before, and asked again
    assert before_question((QUESTION, ANSWER, *early), "How warm is it?") == (
        QUESTION,
        ANSWER,
        *early,
    )


def test_a_question_in_brackets_is_no_conversation():
    assert is_conversation(OPENAI)
    assert not any(map(is_conversation, ["[1] who?", [], ["a"], None, {"role": "user"}]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "name", "x"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=30)
@given(JSON)
def test_any_json_is_read_or_refused(value):
    for read in (read_turns, read_tool_calls):
        try:
            turns = read(value, fail)
        except Refused:
            continue
        again = json.loads(json.dumps([turn.to_dict() for turn in turns]))
        assert read(again, fail) == turns
