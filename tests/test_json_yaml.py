"""Bounds for foreign JSON and YAML: nesting, aliases, values of another type."""

import json
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.data.files.rows import parse_json
from ragbench.errors import DataError
from ragbench.experiment.calls import Outcome, answer_row
from ragbench.generate.chat import load_prompt
from ragbench.json_yaml import MOST_NODES, YamlError, load_json, load_yaml
from ragbench.llm.batch import _by_id
from ragbench.llm.json_reply import Unreadable, read_json
from ragbench.llm.usage import Prices
from ragbench.records.codec import from_line, to_line
from ragbench.score.judge.rubric import load_rubric
from ragbench.types import Document, Prediction

# More than any interpreter's stack.
DEEP = "[" * 200_000
# Less than that, which `json.loads` reads, and too much for whoever walks it.
WHOLE = "[" * 300 + "]" * 300
LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
)
ODD = ("2001-99-99", "!!bool x", "!!int ''", "!!timestamp x", "&a [*a]", LAUGHS, "{[]: 1}", "\0")


values = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.costly
@settings(max_examples=15)
@given(values)
def test_agrees_with_the_json_module(value):
    text = json.dumps(value)

    assert load_json(text) == load_json(text.encode()) == json.loads(text) == value


@pytest.mark.parametrize("depth", [1, 100, 101, 900])
@pytest.mark.parametrize("kind", [str, str.encode])
def test_the_bound_is_ours_and_not_that_of_the_interpreter(depth, kind):
    text = kind("[" * depth + "]" * depth)
    if depth > 100:
        with pytest.raises(ValueError, match="100 deep"):
            load_json(text)
    else:
        assert load_json(text) == json.loads(text)


def test_brackets_in_texts_are_no_nesting():
    assert load_json(json.dumps(["[" * 300])) == ["[" * 300]


@pytest.mark.costly
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("text", [*ODD, DEEP[:3_000], WHOLE])
def test_any_yaml_is_a_value_or_an_error_of_ours(text, typed):
    if text in ODD[:4] and not typed:
        assert load_yaml(text) == text.split()[-1].strip("'"), "as texts they are nothing special"
    else:
        with pytest.raises(YamlError):
            load_yaml(text, typed=typed)


def test_aliases_count_in_full():
    with pytest.raises(YamlError, match=f"more than {MOST_NODES:,} values"):
        load_yaml(LAUGHS)


def test_merges_count_as_the_aliases_that_they_are():
    # `<<` copies what it merges: 340 bytes took seconds, 460 more memory than there is.
    levels = (f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 8))
    text = "\n".join(["a0: &a0 {k: v}", *levels])

    with pytest.raises(YamlError, match=f"more than {MOST_NODES:,} values"):
        load_yaml(text, typed=True)
    few = "\n".join(text.split("\n")[:2])
    assert load_yaml(few, typed=True) == {"a0": {"k": "v"}, "a1": {"k": "v"}}


@pytest.mark.costly
@pytest.mark.parametrize("text", [*ODD, WHOLE], ids=range(len(ODD) + 1))
@pytest.mark.parametrize("read", [load_prompt, Prices.load, load_rubric])
def test_files_that_a_config_names(tmp_path, read, text):
    path = tmp_path / "file.yaml"
    path.write_text(text)

    with pytest.raises(DataError):
        read(str(path))


def test_lines_of_a_batch_that_are_nested_too_deep_are_none():
    good = json.dumps({"custom_id": "a", "response": None})

    assert [*_by_id([DEEP, f'{{"custom_id": "b", "response": {WHOLE}}}', good])] == ["a"]


@pytest.mark.parametrize("text", [DEEP, WHOLE])
def test_a_reply_that_is_nested_too_deep_is_unreadable(text):
    with pytest.raises(Unreadable, match="nested"):
        read_json(text, {"type": "array"})


def test_what_a_program_returned_is_stored_whatever_it_holds():
    # A circle, and more levels than there is stack: the text and the id are kept.
    circle: dict = {"kept": 1}
    circle["self"] = circle
    deep: list = []
    for _ in range(2 * sys.getrecursionlimit()):
        deep = [deep]
    documents = [Document("d1", "text", "", circle), Document("d2", "text", "", {"deep": deep})]

    line = to_line(answer_row(Outcome(Prediction("yes", documents))))

    one, two = from_line(Prediction, line).contexts
    assert (one.id, one.text, one.metadata["kept"]) == ("d1", "text", 1)
    assert two.metadata == {"deep": "(nested too deep)"}


@pytest.mark.parametrize("kind", [str, str.encode])
def test_values_are_counted_before_they_are_made(kind):
    assert load_json(kind("[1, 2, 3]"), most=4) == [1, 2, 3]
    with pytest.raises(ValueError, match="more than 4 values"):
        load_json(kind("[1, 2, 3, 4, 5]"), most=4)
    assert load_json(kind('"[[[[[,,,"'), most=10) == "[[[[[,,,", "too short to have so many"


@pytest.mark.costly
def test_a_key_that_is_repeated_behind_many_is_found_in_one_go():
    text = "{" + ",".join(f'"{n}": 1' for n in range(100_000)) + ', "z": 1, "z": 1}'
    start = time.process_time()
    with pytest.raises(ValueError, match="key 'z' is repeated"):
        parse_json(text)
    assert time.process_time() - start < 10
