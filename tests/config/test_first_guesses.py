"""Wrong first guesses: the error shows the lines to write, and these lines are a valid config."""

import textwrap

import pytest

from ragbench.config.load import load_config
from ragbench.errors import ConfigError

DATASET = "dataset: {type: records, path: questions.csv, corpus: docs}\n"
RETRIEVERS = "retrievers: {bm25: {type: bm25}}\n"
GENERATORS = "generators: {short: {type: extractive}}\n"
JUDGE = "judge: {type: openai, model: gpt-4o-mini, rubrics: "


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "questions.csv").write_text("question,reference\nWhat is Io?,a moon\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "io.md").write_text("Io is a moon.")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "qa.yaml").write_text("user: '{{passages}} {{question}}'\n")
    return tmp_path


def load(folder, text):
    (folder / "exp.yaml").write_text(text, encoding="utf-8")
    return load_config(folder / "exp.yaml")


@pytest.mark.parametrize(
    ("guess", "lines", "rest"),
    [
        (
            "metrics: [faithfulness]",
            f"metrics:\n  {JUDGE}[faithfulness]}}",
            DATASET + RETRIEVERS + GENERATORS,
        ),
        (
            "metrics: faithfulness",
            f"metrics:\n  {JUDGE}[faithfulness]}}",
            DATASET + RETRIEVERS + GENERATORS,
        ),
        (
            "metrics: {faithfulness: {threshold: 0.5}}",
            f"metrics:\n  {JUDGE}[faithfulness]}}",
            DATASET + RETRIEVERS + GENERATORS,
        ),
        (
            "metrics: {judge: [faithfulness]}",
            f"metrics:\n  {JUDGE}[faithfulness]}}",
            DATASET + RETRIEVERS + GENERATORS,
        ),
        (
            "metrics: {judge: faithfulness}",
            f"metrics:\n  {JUDGE}[faithfulness]}}",
            DATASET + RETRIEVERS + GENERATORS,
        ),
        (
            "metrics: [faithfulness, ndcg@10, recall@5, token_f1, correctness]",
            "metrics:\n  retrieval: {measures: [ndcg@10, recall@5]}\n"
            f"  generation: [token_f1]\n  {JUDGE}[faithfulness, correctness]}}",
            DATASET + RETRIEVERS + GENERATORS,
        ),
        (
            "metrics: {retrieval: [ndcg@10, recall@10]}",
            "metrics:\n  retrieval: {measures: [ndcg@10, recall@10]}",
            DATASET + RETRIEVERS,
        ),
    ],
)
def test_the_error_has_the_lines_to_write(folder, guess, lines, rest):
    with pytest.raises(ConfigError) as raised:
        load(folder, f"{rest}{guess}\n")

    shown = textwrap.indent(lines, " " * 7)
    assert f"allowed: these lines:\n{shown}\n" in str(raised.value)
    assert load(folder, f"{lines}\n{rest}").retrievers["bm25"]


@pytest.mark.parametrize(
    ("guess", "meant"),
    [
        ("slices: [metadata.hops]", "statistics.slices"),
        ("judge: {type: openai, model: m}", "metrics.judge"),
        ("prompts: [prompt1.txt]", "generators"),
        ("tests: [{vars: {question: What is Io?}}]", "dataset"),
    ],
)
def test_the_error_names_the_key_that_is_meant(folder, guess, meant):
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        load(folder, f"{DATASET}{RETRIEVERS}{guess}\n")


@pytest.mark.parametrize(
    ("guess", "message"),
    [
        ("metrics: [faithfulnes]", "metrics: a list is not a mapping"),
        ("metrics: {judge: [faithfulnes]}", "metrics.judge: a list is not a mapping"),
        ("metrics: [3]", "metrics: a list is not a mapping"),
        ("metrics: ['python:os:getcwd']", "metrics: a list is not a mapping"),
        ("metrics: {answers: [bleu]}", "metrics: unknown key 'answers'"),
        ("test: x.yaml", "unknown key 'test'"),
        ("retrieval: x.yaml", "unknown key 'retrieval'"),
    ],
)
def test_other_mistakes_name_what_is_allowed(folder, guess, message):
    with pytest.raises(ConfigError, match=message) as raised:
        load(folder, f"{DATASET}{RETRIEVERS}{guess}\n")

    assert "these lines" not in str(raised.value)
