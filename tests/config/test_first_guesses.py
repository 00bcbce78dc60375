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
    ("guess", "lines", "other_lines"),
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
        (
            "slices: [metadata.hops, metadata.lang]",
            "statistics:\n  slices: [metadata.hops, metadata.lang]",
            DATASET + RETRIEVERS,
        ),
        (
            "slices: metadata.hops",
            "statistics:\n  slices: [metadata.hops]",
            DATASET + RETRIEVERS,
        ),
        (
            "judge: {type: openai, model: m}",
            f"metrics:\n  {JUDGE}[faithfulness]}}",
            DATASET + RETRIEVERS + GENERATORS,
        ),
        (
            "prompts: [prompt1.txt, prompt2.txt]",
            "generators:\n  gpt: {type: openai, model: gpt-4o-mini, prompt: prompts/qa.yaml}",
            DATASET + RETRIEVERS,
        ),
        (
            "providers: [openai:gpt-4o-mini]",
            "generators:\n  gpt: {type: openai, model: gpt-4o-mini}",
            DATASET + RETRIEVERS,
        ),
        (
            "tests: [{vars: {question: What is Io?}, assert: [{type: contains, value: moon}]}]",
            "dataset: {type: records, path: questions.csv}   # a row per question\n"
            "gates: [{measure: token_f1, min: 0.5}]          # in place of `assert`",
            RETRIEVERS + GENERATORS,
        ),
        (
            "dataset: {type: records, corpus: docs}",
            "dataset:\n  {type: records, path: questions.csv, corpus: docs}"
            "   # a table, a row per question",
            RETRIEVERS,
        ),
    ],
)
def test_the_error_has_the_lines_to_write(folder, guess, lines, other_lines):
    with pytest.raises(ConfigError) as raised:
        load(folder, f"{other_lines}{guess}\n")

    indented = textwrap.indent(lines, " " * 7)
    assert f"allowed: these lines:\n{indented}\n" in str(raised.value)
    assert load(folder, f"{lines}\n{other_lines}").retrievers["bm25"]


@pytest.mark.parametrize(
    ("guess", "place"),
    [
        ("metrics: [faithfulnes]", "TMP/exp.yaml:3:10: metrics"),
        ("metrics: {judge: [faithfulnes]}", "TMP/exp.yaml:3:18: metrics.judge"),
        ("metrics: [3]", "TMP/exp.yaml:3:10: metrics"),
        ("metrics: ['python:os:getcwd']", "TMP/exp.yaml:3:10: metrics"),
        ("metrics: {answers: [bleu]}", "TMP/exp.yaml:3:11: metrics"),
        ("test: x.yaml", "TMP/exp.yaml:3:1"),
        ("retrieval: x.yaml", "TMP/exp.yaml:3:1"),
    ],
)
def test_other_mistakes_name_what_is_allowed(folder, guess, place, assert_message):
    with pytest.raises(ConfigError) as raised:
        load(folder, f"{DATASET}{RETRIEVERS}{guess}\n")
    assert_message(raised.value, place)

    assert "these lines" not in str(raised.value)


def test_another_data_set_without_a_path_names_the_key(folder):
    with pytest.raises(ConfigError, match="missing key 'path'") as raised:
        load(folder, f"dataset: {{type: beir}}\n{RETRIEVERS}")

    assert "allowed: path: a path" in str(raised.value)
