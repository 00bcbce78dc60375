"""The end of a model's reasoning: every form, and texts that only mention a tag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.types import Answered, Prediction, Turn
from ragbench.types.conversation import read_turns, turn_without_reasoning
from ragbench.types.reasoning import split_reasoning
from ragbench.types.records import reasoning_notes, without_reasoning
from tests.reasoning_forms import BLOCKS, REASONING

TAG_PIECES = (
    "<think>",
    "</think>",
    "<thinking>",
    "[THINK]",
    "`",
    "```",
    "\n",
    " ",
    "a",
    "<answer>",
)


@given(
    reasoning=REASONING,
    answer=st.text("abc XYZ.,:?\n`{[(1é", min_size=1).map(str.strip).filter(bool),
)
def test_the_answer_behind_any_reasoning_is_the_answer(reasoning, answer):
    for block in BLOCKS:
        thought, cut = split_reasoning(block.format(reasoning=reasoning, answer=answer))

        assert cut == answer, block
        assert reasoning.split()[-1] in thought, block


@given(st.lists(st.sampled_from([*"abc <>[]{}/`\n", "think", "reason"])).map("".join))
def test_a_text_without_a_tag_is_the_answer(text):
    if "</think>" not in text and "<think>" not in text:
        assert split_reasoning(text) == ("", text)


@given(st.lists(st.sampled_from(TAG_PIECES), max_size=30).map("".join))
def test_an_answer_is_a_part_of_the_text(text):
    thought, answer = split_reasoning(text)

    assert answer in text
    assert len(thought) + len(answer) <= len(text) + 2


MENTIONS = [
    "I think so.",
    "Put the steps between `<think>` and `</think>`.",
    "`</think>`\nends them.",
    "Models write <think>steps</think> first.",
    "The steps end with </think> and the answer follows.",
    'The steps end at "</think>" in the text.',
    "<think> is the opening tag.",
    "<think> and </think> enclose the steps.",
    "<think>, then the steps.",
    "Use this template:\n```\n<think>\n{steps}\n</think>\n{answer}\n```\nIt works.",
    "Use this template:\n\n<think>\n{steps}\n</think>\n{answer}",
    '{"a": "</think>"}',
    '["</think>\n", 1]',
    "analysis of variance, then assistant",
    "",
]


@pytest.mark.parametrize("text", MENTIONS)
def test_a_text_that_mentions_a_tag_has_no_reasoning(text):
    assert split_reasoning(text) == ("", text)


@pytest.mark.parametrize("text", [text for text in MENTIONS if text])
def test_behind_reasoning_it_is_the_whole_answer(text):
    assert split_reasoning(f"<think>\nHm.\n</think>\n\n{text}") == ("Hm.", text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("a</think>b", ("a", "b"), id="the template holds the first tag"),
        pytest.param("</think>\n\nb", ("", "b"), id="and there was no reasoning"),
        pytest.param("<think>\n\n</think>\n\nb", ("", "b"), id="reasoning is switched off"),
        pytest.param("[THINK]a[/THINK]b", ("a", "b"), id="Magistral"),
        pytest.param("<think>a and", ("a and", ""), id="the answer never came"),
        pytest.param("<think>a</think>", ("a", ""), id="the answer is empty"),
        pytest.param("a.</think>", ("a.", ""), id="so it is without the first tag"),
        pytest.param("<|channel|>analysis<|message|>a", ("a", ""), id="gpt-oss without an answer"),
        pytest.param("<|channel|>final<|message|>b", ("", "b"), id="gpt-oss without reasoning"),
        pytest.param("analysisWe ask", ("We ask", ""), id="gpt-oss without special tokens"),
        pytest.param("<think>a</think><answer>b", ("a", "b"), id="a wrapper that is cut off"),
        pytest.param(
            "<think>a</think><answer>b</answer> is right",
            ("a", "<answer>b</answer> is right"),
            id="tags around a part of the answer",
        ),
        pytest.param(
            '<think>he wrote </think>{"score": 5}\n</think>{"score": 1}',
            ('he wrote </think>{"score": 5}', '{"score": 1}'),
            id="a closing tag that is quoted",
        ),
        pytest.param(
            "<think>\na\n<think>\nb\n</think>\nc\n</think>\n\nd",
            ("a\n<think>\nb\n</think>\nc", "d"),
            id="a block inside of another",
        ),
        pytest.param(
            "<think>\n```\na\n</think>\n\n```\nb\n```",
            ("```\na", "```\nb\n```"),
            id="code that is cut off in the reasoning",
        ),
    ],
)
def test_where_reasoning_ends(text, parts):
    assert split_reasoning(text) == parts


@pytest.mark.parametrize("text", ["<think>", "</think>", "<think></think>", "a</think>\n", "```<"])
def test_a_text_of_many_tags_is_read(text):
    thought, answer = split_reasoning(text * 50_000)

    assert len(thought) + len(answer) <= len(text) * 50_000


def test_an_answer_without_reasoning_stays_the_same_object():
    for record in (Prediction("4"), Answered("q"), Answered("q", "4"), Prediction("")):
        assert without_reasoning(record) is record


def test_systems_with_equal_numbers_share_a_note(assert_message):
    # Two of three answers, and the failed one does not count
    cut = [without_reasoning(Prediction("<think>a</think>b")), None, Prediction("b")]

    assert_message(reasoning_notes({"one": cut, "two": cut, "three": [Prediction("b")]}))


CHAT = [
    {"role": "user", "content": "2 + 2? <think>"},
    {"role": "assistant", "content": "<think>a</think>Let me count."},
    {"role": "tool", "content": "4"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "b"}, {"text": "It is 4."}]},
    {"role": "user", "content": "Sure?"},
]


@pytest.mark.parametrize(
    ("option", "text"),
    [("cut", "Let me count.\n\nIt is 4."), ("keep", "<think>a</think>Let me count.\n\nIt is 4.")],
)
def test_each_message_of_the_assistant_is_an_answer(option, text):
    turns = read_turns(CHAT, lambda problem, allowed: ValueError(problem), reasoning=option)

    assert [turn.text for turn in turns] == ["2 + 2? <think>", text, "Sure?"]
    assert read_turns(turns, lambda p, a: ValueError(p), reasoning=option) == turns


def test_only_turns_of_the_assistant_hold_reasoning():
    text = "<think>a</think>b"

    assert turn_without_reasoning(Turn("user", text)).text == text
    assert turn_without_reasoning(Turn("assistant", text)) == Turn("assistant", "b")
