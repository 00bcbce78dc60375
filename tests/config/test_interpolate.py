"""`${VAR}`: values, types, escapes, and that no value leaks into what is saved or shown."""

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.config.load import load_config
from ragbench.config.resolved import dump_config
from ragbench.config.tree import Report
from ragbench.config.variables import interpolate
from ragbench.config.yaml_reader import read_yaml
from ragbench.errors import ConfigError

TAIL = "dataset: {type: beir, path: data}\nretrievers: {a: {type: bm25}}\n"


def read(text, **environment):
    report = Report()
    tree = interpolate(read_yaml(text, "c.yaml", report), environment, report)
    return tree.plain(), [problem.found for problem in report]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("${N}", 7, id="plain: read as if it stood there"),
        pytest.param('"${N}"', "7", id="quoted: text"),
        pytest.param("${MISSING:-3}", 3, id="default"),
        pytest.param("${EMPTY:-3}", 3, id="an empty one counts as absent, as in a shell"),
        pytest.param("${EMPTY}", "", id="empty without a default is empty text, not null"),
        pytest.param("${MISSING:-}", "", id="an empty default"),
        pytest.param("a-${N}-${WORD}", "a-7-blue"),
        pytest.param("${N}${N}", 77),
        pytest.param("$${N}", "${N}", id="escaped"),
        pytest.param("$N $", "$N $", id="without braces it is text"),
        pytest.param("[1, x, '${WORD}']", [1, "x", "blue"]),
        pytest.param("{a: '${WORD}'}", {"a": "blue"}),
        pytest.param("${NESTED}", "${N}", id="a value is not read again"),
    ],
)
def test_hand_worked(text, value):
    assert read(text, N="7", WORD="blue", EMPTY="", NESTED="${N}") == (value, [])


@pytest.mark.parametrize(
    "text",
    [
        "${MISSING}",  # not set, and without a default
        "'${}'",  # no name
        "'${a b}'",  # a blank in a name
        "'${N'",  # not closed
        "'a ${N:-${WORD}}'",  # nested
        "${MISSING:-$${x}",
        "${ZERO}",
        "${HALF}",  # half of a surrogate pair
    ],
)
def test_mistakes(text, assert_message):
    assert_message(read(text, N="7", ZERO="012", HALF="\udce9")[1])


def test_a_missing_variable_has_its_place_and_the_nearest_name(problems, monkeypatch):
    monkeypatch.setenv("RAGBENCH_SEED", "1")

    [problem] = problems(f"seed: ${{RAGBENCH_SED}}\n{TAIL}")

    assert (problem.line, problem.column, problem.path) == (1, 7, "seed")
    assert problem.nearest == "RAGBENCH_SEED"


def test_a_value_is_neither_saved_nor_shown(load, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    config = load(
        TAIL.replace("data\n", "data/${SECRET}\n").replace("bm25", "bm25, version: '${SECRET}'")
    )
    assert config.retrievers["a"].version == "hunter2"
    assert "hunter2" not in dump_config(config)
    assert "${SECRET}" in dump_config(config)

    with pytest.raises(ConfigError) as caught:
        load(
            "seed: ${SECRET}\nname: 'a/${SECRET}'\n"
            "dataset: {type: '${SECRET}', path: '${SECRET}'}\n"
            "retrievers: {a: {type: bm25, k1: '${SECRET}', variant: '${SECRET}'}}\n"
            "metrics:\n  generation: ['${SECRET}']\n"
            "  retrieval: {measures: ['ndcg@${SECRET}', '${SECRET}']}\n"
            "statistics: {baseline: '${SECRET}', confidence: '${SECRET}'}\n"
        )
    assert len(caught.value.problems) == 10
    assert "hunter2" not in str(caught.value)


def test_a_number_is_neither_saved_nor_shown(load, problems, monkeypatch):
    monkeypatch.setenv("PIN", "4711")
    config = load(f"seed: ${{PIN}}\n{TAIL}")
    assert config.seed == 4711
    assert config.resolved["seed"] == "${PIN}"
    assert "4711" not in dump_config(config)

    [problem] = problems(f"max_failed: ${{PIN}}\n{TAIL}")

    assert problem.found == "'${PIN}' is out of range"


def test_a_wrong_value_is_not_taken_for_the_default(problems, monkeypatch, assert_message):
    monkeypatch.setenv("SHARE", "many")
    [problem] = problems(f"max_failed: ${{SHARE:-0.1}}\n{TAIL}")
    monkeypatch.delenv("SHARE")
    [default] = problems(f"max_failed: ${{SHARE:-7}}\n{TAIL}")

    assert_message(problem.found)
    assert_message(default.found)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12))
def test_quoted_text_is_taken_letter_by_letter(value):
    assert read('"${V}"', V=value) == (value, [])
    assert read('"<${V}>"', V=value) == (f"<{value}>", [])


@pytest.mark.skipif(os.name == "nt" or not shutil.which("sh"), reason="there is no sh")
@pytest.mark.parametrize("text", ["${A}", "${A:-x}", "${EMPTY:-x}", "${NONE:-x y}", "p${A}s"])
def test_agrees_with_the_shell(text):
    environment = {"A": "1 2", "EMPTY": ""}
    shell = subprocess.run(
        ["/bin/sh", "-c", f'printf %s "{text}"'], env=environment, capture_output=True, check=True
    )

    assert read(f'"{text}"', **environment) == (shell.stdout.decode(), [])


def test_the_environment_of_the_process_is_read(config_folder, monkeypatch):
    monkeypatch.setenv("RAGBENCH_K1", "1.7")
    source = {
        "dataset": {"type": "beir", "path": "data"},
        "retrievers": {"a": {"type": "bm25", "k1": "${RAGBENCH_K1}"}},
    }

    assert load_config(source).retrievers["a"].options["k1"] == 1.7
