"""Values out of replies: everything that can be told for certain, and no number by luck."""

import asyncio
import json
import time

import jsonschema
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ragbench.llm import CallFailure, ChatReply, Unreadable, ask_structured
from ragbench.llm.json_reply import conform, read_json
from ragbench.types import Cause
from tests.chat_server import Answer
from tests.llm.conftest import GOOD, SCHEMA, asking

FOUR = {"score": 4}


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 4}',
        ' \n{"score": 4}\n',
        '```json\n{"score": 4}\n```',
        '```\n{"score": 4}\n```\nThat is all.',
        'Sure! Here it is: {"score": 4}. Anything else?',
        "{'score': 4}",
        '{"score": 4,}',
        '{"score": 4.0}',
        '{"score": "4"}',
        '{"score": "4.0"}',
        '[{"score": 4}]',
        'Here: [{"score": 4}]',
        json.dumps('{"score": 4}'),
        json.dumps('[{"score": "4.00"}]'),
        '{"score": 4, "mood": "unasked"}',
        'As {see [1] and {2}} shows: {"score": 4}',
        'As in the example: {{"score": 4}}',
        '{"score": 4} I repeat: {"score": 4}',
        '{"score": 4, "reasoning": "it was cu',
        '{"score": 4, "mood": tr',
        "{'score': 4, 'mood': None, 'sure': True}",
        '{"mood": "good", "score": "4"',  # complete but for the bracket
        '{"mood": "good", "score": 4\n',
    ],
)
def test_readable(text):
    assert read_json(text, SCHEMA) == FOUR


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The score is 4.",
        "4",
        '{"score": NaN}',
        'Well: {"score": NaN}',  # JSON has no NaN, also within prose
        '{"score": Infinity}',
        '{"score": -Infinity,}',
        '{"score": 1e999}',  # a float of it is infinite
        '{"score": four}',
        '{"score": "four"}',
        '{"score": "4/5"}',  # a share, not a level
        '{"score": 4/5}',
        '{"score": 4 out of 5}',  # no comma before the words
        '{"score": 4.5}',
        '{"score": 6}',
        '{"score": "4.5"}',
        '[{"score": 4}, {"score": 4}]',
        '"four"',
        '{"score": true}',  # True is an integer in Python
        '{"score": null}',
        '{"score": [4]}',
        '{"level": 4}',
        '{"score": 4, "score": 2}',
        '{"score": 4} or {"score": 2}',  # which of two is meant is unknown
        '{"score": 4',  # 4, or the beginning of 45?
        '{"score": 0x4}',  # hexadecimal
        '{"score": ٤}',  # a digit of another script
        '{"score": NaN, "details": {"score": 4}}',
        '{"details": {"score": 4}',  # the score is a detail, and the object is cut
        '{"draft": {"score": 4}, "score": ',
        '{"score": 4, "why": "5" tall} No: {"score": 2}',
        "{,}",
        '{"score": 4 "reasoning": "x"} {"score": 2}',
        "[" * 5000,  # a thousand levels end Python's stack
        '{"a":' * 5000 + "1" + "}" * 5000,
        '{"score": ' + "9" * 5000 + "}",  # int() refuses so many digits
        "```json\n```",
    ],
)
def test_unreadable_and_why(text, assert_message):
    with pytest.raises(Unreadable) as caught:
        read_json(text, SCHEMA)

    assert_message(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 100_000,
        "{" + ",".join(f'"{n}": 1' for n in range(100_000)) + ', "z": 1, "z": 1}',
        "Well: {" + ",".join(f"'{n}': 1" for n in range(20_000)) + ", 'z': 1, 'z': 1}",
        "[" + "[]," * 1_000_000 + "1]",
    ],
    ids=["thoughts", "keys", "keys in prose", "values"],
)
def test_a_reply_of_any_length_is_read_in_one_go(text, assert_message):
    # Half a megabyte of these took minutes to hours, in which no other reply was read
    start = time.process_time()
    with pytest.raises(Unreadable) as caught:
        read_json(text, SCHEMA)
    assert_message(caught.value)

    assert time.process_time() - start < 10


@pytest.mark.parametrize("value", ['"a"', "1 ", "[]", '{"b": [1]}'])
def test_a_complete_value_of_an_object_that_is_cut_off_stays(value):
    assert read_json('{"a": ' + value, {"type": "object"}) == {"a": json.loads(value)}


def test_an_unfinished_list_is_not_a_shorter_one(assert_message):
    # Claims that were cut off would leave a mean over those that happened to fit
    schema = {"type": "object", "properties": {"claims": {"type": "array"}}}

    with pytest.raises(Unreadable) as caught:
        read_json('{"claims": ["one", "two", "thr', {**schema, "required": ["claims"]})
    assert_message(caught.value)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
containers = st.lists(values, max_size=3) | st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5), values, max_size=3
)
prose = st.text(st.characters(exclude_characters="{[", exclude_categories=["Cs"]), max_size=30)


@given(values)
def test_any_value_comes_back(value):
    assert read_json(json.dumps(value), {}) == value


@settings(max_examples=30)
@given(containers, prose, prose, st.booleans(), st.sampled_from([None, 2]))
def test_any_value_comes_back_out_of_prose(value, prefix, after, fenced, indent):
    text = json.dumps(value, indent=indent)
    fence = "```" if fenced else ""

    assert read_json(f"{prefix}{fence}\n{text}\n{fence}{after}", {}) == value


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_prose_may_begin_with_the_word_for_no_number(word):
    assert read_json(f"{word} is not on the scale: [1]", {}) == [1]
    with pytest.raises(Unreadable, match=f"{word} is no number"):
        read_json(f'{{"level": {word}}}', {})


@settings(max_examples=30)
@given(containers, prose)
def test_python_notation_is_read_alike(value, prefix):
    # `repr` writes True, None, single quotes; its strings may need escapes that JSON lacks
    text = repr(value)
    assume("\\x" not in text and "\\U" not in text)

    assert read_json(prefix + text, {}) == value


@given(st.text())
@example('{"a": "\\ud800"}')
@example("{'")
@example('{"\\u12')
@example("{,}")
def test_no_text_raises_anything_else(text):
    try:
        value = read_json(text, SCHEMA)
    except Unreadable:
        return
    jsonschema.validate(value, SCHEMA)


@given(st.text(st.sampled_from("{}[]\":,' \n0123456789.eE-+truefalsnN\\u`"), max_size=40))
def test_no_near_json_raises_anything_else(text):
    try:
        value = read_json(text, {})
    except Unreadable:
        return
    json.dumps(value, allow_nan=False).encode()


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(["score", "reasoning"]), values, min_size=1), st.data())
def test_a_cut_never_changes_a_number(value, data):
    # Whatever a reply that is cut off is read as, its numbers are those of the whole
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        read = read_json(cut, {"type": "object"})
    except Unreadable:
        return
    assert all(value[key] == part for key, part in read.items())


def test_halves_of_characters_are_replaced():
    read_value = read_json('{"reasoning": "a\\ud800b", "score": 4}', SCHEMA)

    assert read_value["reasoning"].encode("utf-8")


schemas = st.recursive(
    st.sampled_from(
        [
            {},
            {"type": "string"},
            {"type": "integer", "minimum": 1, "maximum": 5},
            {"type": "number", "minimum": -1},
            {"type": "boolean"},
            {"type": "null"},
            {"enum": ["a", 1, None, True]},
        ]
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner, "maxItems": st.integers(0, 3)}
        )
        | st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("ab"), inner),
                "required": st.lists(st.sampled_from("ab"), unique=True),
                "additionalProperties": st.booleans(),
            }
        ).filter(lambda schema: set(schema["required"]) <= set(schema["properties"]))
    ),
    max_leaves=4,
)
few_values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 2.0, 2.5, 7, "a", "3", ""]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(few_values, schemas)
def test_agrees_with_jsonschema(value, schema):
    # A fitting value comes back unchanged, a mended value fits, any other value is refused
    validator = jsonschema.Draft202012Validator(schema)
    try:
        conformed = conform(value, schema)
    except Unreadable:
        assert not validator.is_valid(value)
        return
    assert validator.is_valid(conformed)
    if validator.is_valid(value):
        assert conformed == value


def test_an_unreadable_reply_is_asked_again_with_the_reason(serve, assert_message):
    server, engine = serve([Answer('{"score": "high"}'), Answer(GOOD)])

    answer = engine.run(ask_structured(engine.aask, asking("judge", schema=SCHEMA)))

    assert answer.value["score"] == 4
    assert [reply.text for reply in answer.replies] == ['{"score": "high"}', GOOD]
    first, second, third = server.received[1].body["messages"]
    assert (first["content"], second["content"]) == ("judge", '{"score": "high"}')
    assert_message(third["content"])


def test_twice_unreadable_is_a_failure_with_both_replies(serve, assert_message):
    server, engine = serve([Answer("no idea"), Answer("still none", finish_reason="length")])

    with pytest.raises(CallFailure) as caught:
        engine.run(ask_structured(engine.aask, asking(schema=SCHEMA)))
    assert_message(caught.value)

    assert caught.value.cause is Cause.UNREADABLE
    assert [reply.text for reply in caught.value.replies] == ["no idea", "still none"]
    assert server.counters.requests == 2


@pytest.mark.parametrize("reasks", [1, 2])
def test_the_problem_of_the_first_reply_is_named_beside_that_of_the_last(
    reasks, serve, assert_message
):
    wrong = '{"score": "high"}'
    _, engine = serve([Answer(wrong), *[Answer("no idea")] * reasks])

    with pytest.raises(CallFailure) as caught:
        engine.run(ask_structured(engine.aask, asking(schema=SCHEMA), reasks=reasks))

    assert_message(caught.value.detail)
    with pytest.raises(Unreadable) as first:
        read_json(wrong, SCHEMA)
    assert caught.value.detail.startswith(f"{first.value}; ")


def test_the_same_problem_twice_is_named_once(serve):
    _, engine = serve([Answer("no idea"), Answer("none")])

    with pytest.raises(CallFailure) as caught:
        engine.run(ask_structured(engine.aask, asking(schema=SCHEMA)))
    assert caught.value.detail == "the reply holds no JSON"


def test_a_reply_that_makes_the_question_too_long_is_unreadable(assert_message):
    # The item fits; only with the reply that could not be read beside it, it does not

    async def ask(request):
        if len(request.messages) > 1:
            raise CallFailure(Cause.TOO_LONG, "2,100 tokens where 2,048 fit")
        return ChatReply("no JSON at all")

    with pytest.raises(CallFailure) as caught:
        asyncio.run(ask_structured(ask, asking(schema=SCHEMA)))

    assert caught.value.cause is Cause.UNREADABLE
    assert_message(caught.value.detail)
    assert [reply.text for reply in caught.value.replies] == ["no JSON at all"]
