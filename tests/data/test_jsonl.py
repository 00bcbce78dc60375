"""JSON lines, read strictly: against the json module, and every error with its place."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files.rows import parse_json, read_jsonl

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
).filter(lambda value: "Infinity" not in json.dumps(value))


@pytest.mark.costly
@settings(max_examples=15)
@given(st.lists(st.dictionaries(texts, values, max_size=4), min_size=1), st.booleans())
def test_agrees_with_the_json_module(rows, ascii_only):
    # Any Unicode, escaped or not, line separators of Unicode included; no key is empty
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]

    entries = list(read_jsonl(io.BytesIO("\n".join(lines).encode())))

    assert [entry.values for entry in entries] == [
        {key: value for key, value in json.loads(line).items() if key} for line in lines
    ]
    assert [entry.line for entry in entries] == list(range(1, len(rows) + 1))


def test_blank_lines_count_but_hold_nothing(write):
    path = write("a.jsonl", b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{"a": 2}')

    assert [(entry.line, entry.values) for entry in read_jsonl(path)] == [
        (1, {"a": 1}),
        (4, {"a": 2}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1,}',  # a comma too many
        '{"a" 1}',
        '{"a": 1} {"b": 2}',  # two objects on a line
        '{"a": NaN}',  # Python writes it, JSON has no such number
        '{"a": -Infinity}',
        '{"a": 1, "b": 2, "a": 3}',  # a key twice
        '{"a": {"b": 1, "b": 1}}',
        r'{"a": "x\ud83d"}',  # half of a surrogate pair
        "[1, 2]",
        '"text"',
        "null",
        "[" * 100_000,  # deeper than any record
    ],
)
def test_bad_lines_are_named(write, problem, line, assert_message):
    path = write("a.jsonl", '{"ok": 1}\n\n' + line + "\n")

    text = problem(lambda: list(read_jsonl(path)))

    assert_message(text, "a.jsonl:3")


def test_a_file_of_blank_lines(write, problem, assert_message):
    path = write("a.jsonl", "\n \n")

    assert_message(problem(lambda: list(read_jsonl(path))), "a.jsonl")


def test_surrogate_pairs_are_characters():
    assert parse_json(r'"\ud83d\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "a"},
        {"_id": 1.5},  # a float
        {"_id": True},  # True is an integer in Python
        {"_id": None},
        {"_id": ""},
        {"_id": "a b"},
        {"_id": "a\0"},  # run files end an id there
    ],
)
def test_ids(write, problem, fields, assert_message):
    [entry] = read_jsonl(write("a.jsonl", [fields]))

    assert_message(problem(lambda: entry.id("_id")), "a.jsonl:1")


@given(st.integers())
def test_an_integer_id_is_its_digits(number):
    [entry] = read_jsonl(io.BytesIO(json.dumps({"_id": number}).encode()))

    assert entry.id("_id") == str(number)
