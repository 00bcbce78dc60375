"""YAML text: positions, and everything that can be wrong with the text itself."""

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.config.tree import MAX_DEPTH, Report
from ragbench.config.yaml_reader import MAX_NODES, read_yaml

PARSERS = [yaml.BaseLoader, *([yaml.CBaseLoader] if yaml.__with_libyaml__ else [])]
TAIL = "retrievers: {bm25: {type: bm25}}\n"


@pytest.fixture(params=PARSERS, ids=lambda parser: parser.__name__)
def parser(request, monkeypatch):
    """The parser in C, where PyYAML has it, and the one in Python."""
    monkeypatch.setattr("ragbench.config.yaml_reader._PARSER", request.param)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("", "1:1", id="empty"),
        pytest.param("# only a comment\n", "1:1", id="comment"),
        pytest.param("- a\n- b\n", "1:1", id="list"),
        pytest.param("quickstart\n", "1:1", id="word"),
        pytest.param("a:\n\tb: 1\n", "2:1", id="tab"),
        pytest.param("a: [1, 2\nb: 3\n", "1:4", id="bracket"),
        pytest.param("a: {b: 1\n", "1:4", id="brace"),
        pytest.param('a: "x\n', "1:4", id="quote"),
        pytest.param("a: @x\n", "1:4", id="at sign"),
        pytest.param("a: b: c\n", "1:5", id="two colons"),
        pytest.param("a: 1\n b: 2\n", "2:3", id="indentation"),
        pytest.param("- a\nb: 1\n", "2:1"),
        pytest.param("a: 1\n---\nb: 2\n", "2:1", id="documents"),
        pytest.param("a: *x\n", "1:4", id="alias"),
        pytest.param("a: &a [*a]\n", "1:4", id="alias of itself"),
        pytest.param(b"a: 1\nb: \xe9\n", "2:4", id="latin-1"),
        pytest.param("a: 1\nb: \x00\n", "2:4"),
    ],
)
def test_what_cannot_be_read(lines, text, place, assert_message):
    assert_message(lines(text)[0], place)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text",
    [
        "1: x\n",
        "no: x\n",
        "[a]: x\n",
        "<<: {a: 1}\n",
        "name: !!python/object:os.system x\n",
        "seed: 012\n",
    ],
)
def test_what_is_wrong_in_it(lines, text, assert_message):
    messages = lines(f"{text}dataset: {{type: beir, path: data}}\n{TAIL}")

    assert len(messages) == 1
    assert_message(messages[0])


def test_a_bracket_in_a_flow_list_says_to_quote(problems):
    [problem] = problems("m: [ndcg@10, precision@5[rel=2]]\n")

    assert (problem.line, problem.column) == (1, 25)
    assert '"precision[rel=2]@5"' in problem.allowed


def test_a_variable_in_braces_says_to_quote(problems):
    [problem] = problems("dataset: {path: ${HOME}}\n")

    assert problem.allowed == '"${VAR}" in quotes'


def test_columns_count_characters_not_bytes(lines):
    text = f"dataset: {{type: beir, path: data}} # é\n{TAIL}'é€𝄞': 1\n"

    assert lines(text) == ["3:1: unknown key 'é€𝄞'"]
    assert lines(f"﻿{text}") == ["3:1: unknown key 'é€𝄞'"], "a byte order mark has no column"


@pytest.mark.costly
@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("opening", ["[", "{a: "])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 1_200])
def test_deep_nesting_is_an_error_not_a_crash(lines, opening, depth):
    closing = "]" if opening == "[" else "}"

    [message] = lines(opening * depth + closing * depth)

    assert message.endswith(f"more than {MAX_DEPTH} levels deep")


def test_aliases_count_in_full():
    # Ten levels of ten aliases: ten lines of text, ten thousand million values
    bomb = "a0: &a0 x\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 11)
    )
    report = Report()

    assert read_yaml(bomb, "bomb.yaml", report) is None
    assert [problem.found for problem in report] == [f"more than {MAX_NODES:,} values"]


def test_anchors_are_fine(load):
    config = load(
        "dataset: {type: beir, path: data}\nretrievers:\n  a: &a {type: bm25, k1: 1.5}\n  b: *a\n"
    )

    assert config.retrievers["b"].options == config.retrievers["a"].options


# -.5 is text in YAML 1.1, so PyYAML leaves out the quotes, and a number in YAML 1.2
words = st.text(st.sampled_from("abc01.-_ é\"'#:"), max_size=6).filter(
    lambda word: not re.fullmatch(r"-\.[0-9]+", word)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@given(values, st.booleans())
def test_agrees_with_pyyaml(value, flow):
    # Oracle: values that PyYAML writes as YAML 1.1, with quotes where they are needed
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    report = Report()

    tree = read_yaml(text, None, report)

    assert not report
    assert tree.plain() == value


@settings(max_examples=30)
@given(values)
def test_positions_point_at_what_is_written(value):
    text = yaml.safe_dump({"x": value}, allow_unicode=True)
    lines = text.split("\n")
    todo = [read_yaml(text, None, Report())]
    while todo:
        node = todo.pop()
        todo += [entry.node for entry in node.entries.values()]
        todo += node.elements
        if isinstance(node.value, int | str) and not node.quoted:
            start = node.place.column - 1
            excerpt = lines[node.place.line - 1][start : start + node.place.width]
            assert excerpt == node.source or node.source.startswith(excerpt)
