"""A package that a run needs and that is not installed: the same error of three commands."""

import json
import sys

import pytest
import yaml

from tests.commands import run_command
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs

QUESTION = {"question": "What is Io?", "reference": "a moon", "relevant": "io"}
DOCUMENT = {"_id": "io", "text": "Io is a moon."}
JUDGE = {"type": "openai", "model": "m", "rubrics": ["fluency"]}
WITHOUT = "; or `when: available` in its block, or --no-judge, to run without this judge"


@pytest.fixture
def ragbench(tmp_path):
    """Write a config with more retrievers, generators or metrics, and run a command on it."""

    def run(command, *options, key="k", **blocks):
        (tmp_path / "questions.jsonl").write_text(json.dumps(QUESTION), encoding="utf-8")
        (tmp_path / "corpus.jsonl").write_text(json.dumps(DOCUMENT), encoding="utf-8")
        config = {
            "dataset": {"type": "records", "path": "questions.jsonl", "corpus": "corpus.jsonl"},
            "retrievers": {"bm25": {"type": "bm25"}, **blocks.pop("retrievers", {})},
            "generators": {"extractive": {"type": "extractive"}, **blocks.pop("generators", {})},
            **blocks,
        }
        (tmp_path / "exp.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        environment = {"OPENAI_API_KEY": key, "HOME": str(tmp_path), "PATH": ""}
        return run_command(command, "exp.yaml", *options, cwd=tmp_path, env=environment)

    return run


@pytest.mark.parametrize(
    ("package", "blocks", "message"),
    [
        (
            "openai",
            {"metrics": {"judge": JUDGE}},
            f"chat model 'openai' needs openai: pip install 'ragbench-eval[judge]'{WITHOUT}",
        ),
        (
            "openai",
            {"generators": {"gpt": {"type": "openai", "model": "m"}}},
            "chat model 'openai' needs openai: pip install 'ragbench-eval[judge]'",
        ),
        (
            "sentence_transformers",
            {"retrievers": {"d": {"type": "dense", "chunk": {"by": "words", "size": 5}}}},
            "retriever 'dense' needs sentence-transformers: pip install 'ragbench-eval[dense]'",
        ),
        (
            "faiss",
            {"retrievers": {"d": {"type": "dense", "index": "faiss"}}},
            "retriever 'dense' needs faiss-cpu: pip install 'ragbench-eval[faiss]'",
        ),
        (
            "sentence_transformers",
            {"retrievers": {"c": {"type": "cross_encoder", "retriever": "bm25"}}},
            "reranker 'cross_encoder' needs sentence-transformers: "
            "pip install 'ragbench-eval[dense]'",
        ),
        (
            "sentence_transformers",
            {"retrievers": {"m": {"type": "mmr", "retriever": "bm25"}}},
            "reranker 'mmr' needs sentence-transformers: pip install 'ragbench-eval[dense]'",
        ),
        (
            "transformers",
            {"generators": {"local": {"type": "huggingface", "model": "someone/tiny"}}},
            "generator 'huggingface' needs transformers: pip install 'ragbench-eval[huggingface]'",
        ),
        (
            "bert_score",
            {"metrics": {"generation": ["bertscore"]}},
            "metric 'bertscore' needs bert-score: pip install 'ragbench-eval[bertscore]'",
        ),
        (
            "ray",
            {"executor": {"type": "ray", "workers": 2}},
            "executor 'ray' needs ray: pip install 'ragbench-eval[ray]'",
        ),
    ],
)
def test_run_validate_and_plan_end_with_the_same_line(
    ragbench, monkeypatch, package, blocks, message
):
    monkeypatch.setitem(sys.modules, package, None)
    for command in ("validate", "plan", "run"):
        done = ragbench(command, **blocks)

        assert (done.returncode, done.stderr.splitlines()[-1]) == (2, message), command
    assert "ok:" not in ragbench("validate", **blocks).stdout


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_an_available_judge_is_left_out_without_its_package(
    ragbench, monkeypatch, command, assert_message
):
    monkeypatch.setitem(sys.modules, "openai", None)
    done = ragbench(command, metrics={"judge": {**JUDGE, "when": "available"}})

    assert done.returncode == 0, done.stderr
    assert_message(lines_with(done.stdout, "judge openai was skipped"))


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_missing_keys_are_named_together(ragbench, command, assert_message):
    gpt = {"gpt": {"type": "openai", "model": "m"}}
    done = ragbench(command, key="", generators=gpt, metrics={"judge": JUDGE})

    assert done.returncode == 2
    assert_message(lines_with(done.stderr, "OPENAI_API_KEY', which", "in exp.yaml; nothing was"))
