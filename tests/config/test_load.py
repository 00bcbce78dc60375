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
    ("text", "expected"),
    [
        pytest.param("", ["1:1: the file is empty"], id="empty"),
        pytest.param("# only a comment\n", ["1:1: the file is empty"], id="comment"),
        pytest.param("- a\n- b\n", ["1:1: found a list"], id="list"),
        pytest.param("quickstart\n", ["1:1: found 'quickstart'"], id="word"),
        pytest.param("a:\n\tb: 1\n", ["2:1: a tab in the indentation"], id="tab"),
        pytest.param("a: [1, 2\nb: 3\n", ["1:4: '[' is not closed"], id="bracket"),
        pytest.param("a: {b: 1\n", ["1:4: '{' is not closed"], id="brace"),
        pytest.param('a: "x\n', ["1:4: the quote is not closed"], id="quote"),
        pytest.param("a: @x\n", ["1:4: a value cannot start with '@'"], id="at sign"),
        pytest.param("a: b: c\n", ["1:5: ': ' inside a value"], id="two colons"),
        pytest.param("a: 1\n b: 2\n", ["2:3: ': ' inside a value"], id="indentation"),
        pytest.param("- a\nb: 1\n", ["2:1: the indentation does not fit the lines above"]),
        pytest.param("a: 1\n---\nb: 2\n", ["2:1: a second document begins"], id="documents"),
        pytest.param("a: *x\n", ["1:4: '*x' refers to nothing"], id="alias"),
        pytest.param("a: &a [*a]\n", ["1:4: more than 50 levels deep"], id="alias of itself"),
        pytest.param(b"a: 1\nb: \xe9\n", ["2:4: byte 0xe9 is not UTF-8"], id="latin-1"),
        pytest.param("a: 1\nb: \x00\n", ["2:4: the character U+0000 is not allowed in YAML"]),
    ],
)
def test_what_cannot_be_read(lines, text, expected):
    found = lines(text)

    assert found[: len(expected)] == expected


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1: x\n", "1:1: the key 1 is not text"),
        ("no: x\n", "1:1: unknown key 'no'"),
        ("[a]: x\n", "1:1: the key a list is not text"),
        ("<<: {a: 1}\n", "1:1: the merge key '<<' is not part of YAML 1.2"),
        ("name: !!python/object:os.system x\n", "1:7: name: the tag '!!python/object:os.system' "),
        ("seed: 012\n", "1:7: seed: 012 has a leading zero"),
    ],
)
def test_what_is_wrong_in_it(lines, text, expected):
    found = lines(f"{text}dataset: {{type: beir, path: data}}\n{TAIL}")

    assert len(found) == 1
    assert found[0].startswith(expected)


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

    [found] = lines(opening * depth + closing * depth)

    assert found.endswith(f"more than {MAX_DEPTH} levels deep")


def test_aliases_count_in_full():
    """Ten levels of ten aliases: ten lines of text, ten thousand million values."""
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
    """What PyYAML writes for YAML 1.1, in quotes where it must, is the same in ours."""
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
            shown = lines[node.place.line - 1][start : start + node.place.width]
            assert shown == node.source or node.source.startswith(shown)
