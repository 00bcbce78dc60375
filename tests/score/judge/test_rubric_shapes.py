"""Rubric files of any shape: a problem with its place before anything runs, or prompts for all."""

import copy

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.score.judge.rubric import built_in_rubrics, load_rubric, read_rubric
from tests.commands import run_command
from tests.score.judge.previews import preview as preview_prompts

RUBRIC = {
    "name": "tone",
    "needs": ["question", "answer"],
    "scale": {"1": "rude", "5": "warm"},
    "steps": ["Read it."],
    "examples": [
        {"question": "q", "answer": "a", "level": "5", "reasoning": "warm"},
        {"question": "q", "answer": "b", "level": "1", "reasoning": "rude"},
    ],
}
PAIR = {
    **RUBRIC,
    "asks": "pair",
    "needs": ["question"],
    "scale": {"1": "worse", "2": "better"},
    "examples": [{"question": "q", "answer": "a", "other": "b", "level": "1", "reasoning": "r"}],
}
_anything = st.recursive(
    st.sampled_from(["", "x", "1", "5", "answer", "context", "pairwise", "claims", "no", "~"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["1", "2", "answer", "level", "reasoning"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def _write(folder, content):
    path = folder / "r.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def _read(path):
    try:
        return read_rubric(path)
    except DataError as error:
        return error


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rubrics")


@settings(max_examples=30, deadline=None)
@given(
    base=st.sampled_from([RUBRIC, PAIR]),
    steps=st.sampled_from(
        [("name",), ("asks",), ("needs",), ("scale",), ("scale", "1"), ("steps",), ("method",),
         ("direction",), ("formula",), ("examples",), ("examples", 0), ("examples", 0, "level"),
         ("examples", 0, "answer"), ("examples", 0, "reasoning"), ("examples", 0, "other"),
         ("examples", 0, "question"), ("guidelines",), ("verdicts",)]
    ),
    value=_anything | st.none(),
)  # fmt: skip
def test_a_file_is_refused_or_can_be_asked(folder, base, steps, value):
    content = copy.deepcopy(base)
    inner = content
    for step in steps[:-1]:
        inner = inner[step]
    if value is None and isinstance(inner, dict):
        inner.pop(steps[-1], None)
    else:
        inner[steps[-1]] = value
    path = _write(folder, content)
    rubric = _read(path)
    assert path.name in str(rubric) if isinstance(rubric, DataError) else preview_prompts(rubric)


def test_built_in_ones_can_be_asked():
    for name in built_in_rubrics():
        assert preview_prompts(load_rubric(name), few_shot=True), name


@pytest.mark.costly
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: " + "[" * 500 + "]" * 500, "TMP/r.yaml"),
        ("? [a, b]\n: c", "TMP/r.yaml:1"),
        ("name: x\n? {a: b}\n: c", "TMP/r.yaml:2"),
        ("- a", "TMP/r.yaml"),
        ("", "TMP/r.yaml"),
        ("name: \0", "TMP/r.yaml"),
        ("a: &x [*x]", "TMP/r.yaml:1"),
    ],
)
def test_odd_yaml(folder, text, place, assert_message):
    with pytest.raises(DataError) as caught:
        read_rubric(_write(folder, text))
    assert_message(caught.value, place)


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.pop("reasoning"),
        lambda e: e.pop("answer"),
    ],
)
def test_validate_run_and_list_say_where(tmp_path, example_data, change, assert_message):
    content = copy.deepcopy(RUBRIC)
    change(content["examples"][0])
    path = _write(tmp_path, content)
    (tmp_path / "c.yaml").write_text(
        f"dataset: {{type: beir, path: '{example_data}'}}\nretrievers: {{b: {{type: bm25}}}}\n"
        "generators: {e: {type: extractive}}\n"
        "metrics: {judge: {type: openai, model: m, rubrics: [r.yaml]}}\n"
    )

    for command in (["validate", "c.yaml"], ["run", "c.yaml"], ["list", "rubrics", str(path)]):
        done = run_command(*command, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert_message(done.stderr)
    assert not (tmp_path / "runs").exists()
