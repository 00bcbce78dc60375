"""`ragbench validate`: every error at once, or how the data were read."""

import json

import pytest
from click.testing import CliRunner

from ragbench.cli.configs import validate
from tests.commands import run_command as ragbench
from tests.config.test_mistakes import TEN_MISTAKES, without_lists


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """A small collection in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", [{"_id": f"d{n}", "text": f"word{n}"} for n in range(4)])
    write_lines(folder / "queries.jsonl", [{"_id": f"q{n}", "text": f"word{n}"} for n in range(3)])
    write_lines(folder / "answers.jsonl", [{"query_id": "q0", "answers": ["word0"]}])
    qrels = "query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t2\nq1\td2\t0\n"
    (folder / "qrels" / "test.tsv").write_text(qrels, encoding="utf-8")
    return tmp_path


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_config(workplace, text):
    (workplace / "c.yaml").write_text(text, encoding="utf-8")


def test_ok_says_how_the_data_were_read(workplace, assert_message):
    write_config(
        workplace,
        "dataset: {type: beir, path: data}\n"
        "retrievers:\n  bm25: {type: bm25}\n  s: {type: bm25, sweep: {k1: [1, 2]}}\n"
        "generators: {e: {type: extractive, retrievers: [bm25]}}\n"
        "apps: {whole: {type: 'python:tests.retrieve.test_haystack:document'}}\n"
        "metrics: {judge: {type: python:tests.words:context_overlap}}\n",
    )

    result = CliRunner().invoke(validate, ["c.yaml"], catch_exceptions=False)

    assert result.exit_code == 0
    first, second, *lines = result.stdout.split("\n")
    assert first == "ok: c.yaml"
    assert_message(second)
    text = "\n".join(lines)
    assert_message(text)
    [measures] = [line for line in lines if line.startswith("measures  ")]
    assert {"ndcg@10", "mrr@10"} <= set(measures.removeprefix("measures").strip().split(", "))
    assert "metrics   rouge1" in text
    assert_message(text)
    assert not (workplace / "runs").exists()


def test_records_are_shown_with_two_rows(workplace):
    rows = [
        {"question": f"Q{n}?", "answer": f"A{n}", "reference": f"R{n}", "contexts": [f"C{n}"]}
        for n in range(3)
    ]
    write_lines(workplace / "qa.jsonl", rows)
    write_config(workplace, "dataset: {type: records, path: qa.jsonl}\n")

    result = CliRunner().invoke(validate, ["c.yaml"], catch_exceptions=False)

    assert result.exit_code == 0
    for n in range(2):
        for part in ("Q", "A", "R", "C"):
            assert f"{part}{n}" in result.stdout
    assert "Q2?" not in result.stdout
    assert "systems   given\n" in result.stdout


def test_every_error_goes_to_stderr(workplace, golden):
    write_config(workplace, TEN_MISTAKES.replace("max_failed: 0.1\n", ""))

    result = ragbench("validate", "c.yaml")

    assert result.returncode == 2
    assert result.stdout == ""
    golden("ten_mistakes.txt", without_lists(result.stderr))


def test_overrides(workplace, assert_message):
    write_config(workplace, "dataset: {type: beir, path: data}\nretrievers: {a: {type: bm25}}\n")

    result = ragbench("validate", "c.yaml", "--set", "retrievers.a.b=2")

    assert result.returncode == 2
    assert_message(result.stderr)


def test_data_that_cannot_be_read(workplace):
    (workplace / "data" / "queries.jsonl").write_text("{oops\n", encoding="utf-8")
    write_config(workplace, "dataset: {type: beir, path: data}\nretrievers: {a: {type: bm25}}\n")

    result = ragbench("validate", "c.yaml")

    assert result.returncode == 2
    assert "queries.jsonl:1" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_package_is_an_error_as_in_a_run(workplace):
    metric = "python:tests.experiment.test_metric_options:polite(words=absent)"
    write_config(
        workplace,
        "dataset: {type: beir, path: data}\nretrievers: {bm25: {type: bm25}}\n"
        f"generators: {{e: {{type: extractive}}}}\nmetrics: {{generation: ['{metric}']}}\n",
    )

    result = ragbench("validate", "c.yaml")

    assert result.returncode == 2, result.stdout
    message = "metric 'polite' needs politeness: pip install 'ragbench-eval[polite]'"
    assert message in result.stderr
