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
    """Any Unicode, escaped or not, line separators of Unicode included; no key is empty."""
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
    ("line", "expected"),
    [
        ('{"a": 1,}', "bad JSON at column "),
        ('{"a" 1}', "bad JSON at column 6: Expecting ':' delimiter"),
        ('{"a": 1} {"b": 2}', "bad JSON at column 10: Extra data"),
        ('{"a": NaN}', "bad JSON: NaN is no JSON number, write null"),
        ('{"a": -Infinity}', "bad JSON: -Infinity is no JSON number, write null"),
        ('{"a": 1, "b": 2, "a": 3}', "bad JSON: key 'a' is repeated"),
        ('{"a": {"b": 1, "b": 1}}', "bad JSON: key 'b' is repeated"),
        (r'{"a": "x\ud83d"}', r"bad JSON: \ud83d is half of a surrogate pair"),
        ("[1, 2]", 'a list, expected an object; allowed: {"key": ...}'),
        ('"text"', 'text, expected an object; allowed: {"key": ...}'),
        ("null", 'null, expected an object; allowed: {"key": ...}'),
        ("[" * 100_000, "bad JSON: nested more than 100 deep"),
    ],
)
def test_bad_lines_are_named(write, problem, line, expected):
    path = write("a.jsonl", '{"ok": 1}\n\n' + line + "\n")

    text = problem(lambda: list(read_jsonl(path)))

    assert text.startswith(f"a.jsonl:3: {expected}")


def test_a_file_of_blank_lines(write, problem):
    path = write("a.jsonl", "\n \n")

    assert problem(lambda: list(read_jsonl(path))) == (
        "a.jsonl: the file has no records, only blank lines"
    )


def test_surrogate_pairs_are_characters():
    assert parse_json(r'"\ud83d\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"id": "a"}, "no '_id' (keys: id); did you mean 'id'?"),
        ({"_id": 1.5}, "'_id' is 1.5; allowed: text or an integer"),
        ({"_id": True}, "'_id' is a truth value; allowed: text or an integer"),
        ({"_id": None}, "'_id' is null; allowed: text or an integer"),
        ({"_id": ""}, "'_id' is empty: ''; allowed: an id without white space"),
        ({"_id": "a b"}, "'_id' holds white space: 'a b'; allowed: an id without white space"),
        ({"_id": "a\0"}, "'_id' holds a NUL character: 'a\\x00'; allowed"),
    ],
)
def test_ids(write, problem, fields, expected):
    [entry] = read_jsonl(write("a.jsonl", [fields]))

    assert problem(lambda: entry.id("_id")).startswith(f"a.jsonl:1: {expected}")


@given(st.integers())
def test_an_integer_id_is_its_digits(number):
    [entry] = read_jsonl(io.BytesIO(json.dumps({"_id": number}).encode()))

    assert entry.id("_id") == str(number)
