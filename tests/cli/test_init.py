"""`ragbench init`: what it writes runs, or says what is missing."""

import csv
import json

import pytest
import yaml
from click.testing import CliRunner

from ragbench.cli.init import command
from ragbench.cli.validate import command as validate
from ragbench.config.load import load_config
from ragbench.config.scaffold import guess_columns
from ragbench.errors import ConfigError, DataError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments, command=command):
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


def test_a_config_for_a_folder(here):
    result = invoke()

    assert result.exit_code == 0
    assert result.stdout == "wrote ragbench.yaml\n"
    assert "put your data into dataset" in result.stderr
    with pytest.raises(ConfigError) as caught:
        load_config("ragbench.yaml")
    [problem] = caught.value.problems
    assert problem.found == "no such file: dataset", "all that is missing is the data"
    (here / "dataset").mkdir()
    assert list(load_config("ragbench.yaml").retrievers) == ["bm25", "tuned"]


def test_never_overwrites_the_file_of_records(here):
    write_csv(here / "qa.csv", [["question", "reference"], ["Who?", "Galle"]])

    result = invoke("--from", "qa.csv", "--force", "qa.csv")

    assert result.exit_code == 2
    assert "is the file of records" in result.stderr
    assert (here / "qa.csv").read_text(encoding="utf-8").startswith("question")


def test_never_overwrites_without_force(here):
    (here / "mine.yaml").write_text("precious\n", encoding="utf-8")

    result = invoke("mine.yaml")

    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (here / "mine.yaml").read_text(encoding="utf-8") == "precious\n"
    assert invoke("mine.yaml", "--force").exit_code == 0
    assert load_text(here / "mine.yaml")["dataset"]["type"] == "beir"


def load_text(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_records_with_answers_run_at_once(here):
    (here / "data").mkdir()
    write_csv(
        here / "data" / "qa log.csv",
        [
            ["Question", "answer", "contexts", "ground_truth", "topic"],
            ["Who wrote it?", "Ann wrote it.", json.dumps(["Ann wrote it in 1999."]), "Ann", "x"],
            ["When?", "In 1999.", json.dumps(["Ann wrote it in 1999."]), "1999", "y"],
        ],
    )

    result = invoke("configs/qa.yaml", "--from", "data/qa log.csv")

    assert result.exit_code == 0
    dataset = load_text(here / "configs" / "qa.yaml")["dataset"]
    assert dataset["path"] == "../data/qa log.csv"
    assert dataset["columns"] == {
        "question": "Question",
        "contexts": "contexts",
        "answer": "answer",
        "reference": "ground_truth",
    }
    validated = invoke("configs/qa.yaml", command=validate)
    assert validated.exit_code == 0
    assert validated.stdout.startswith("ok: configs/qa.yaml\n")


def test_records_without_answers_need_a_corpus(here):
    write_csv(here / "qa.csv", [["question", "reference"], ["Who?", "Ann"]])

    result = invoke("--from", "qa.csv")

    assert "put the documents that answer the questions into dataset.corpus" in result.stderr
    with pytest.raises(ConfigError, match="no such file: documents"):
        load_config("ragbench.yaml")
    (here / "documents").mkdir()
    (here / "documents" / "a.txt").write_text("Ann wrote it.", encoding="utf-8")
    assert invoke("ragbench.yaml", command=validate).exit_code == 0


def test_an_answer_alone_is_refused_since_it_may_be_gold(here):
    write_csv(here / "qa.csv", [["question", "answer"], ["Who?", "Ann"]])

    with pytest.raises(DataError, match="is 'answer' gold, or what a system wrote"):
        invoke("--from", "qa.csv")
    assert not (here / "ragbench.yaml").exists()


def test_a_response_alone_is_taken_as_generated_and_says_so(here):
    write_csv(here / "qa.csv", [["question", "response"], ["Who?", "Ann"]])

    result = invoke("--from", "qa.csv")

    assert "'response' is taken as what a system wrote; where it is gold, " in result.stderr
    assert invoke("ragbench.yaml", command=validate).exit_code == 0


def test_a_file_without_questions(here):
    write_csv(here / "qa.csv", [["a", "b"], ["1", "2"]])

    with pytest.raises(DataError, match=r"qa\.csv: no column looks like the question"):
        invoke("--from", "qa.csv")
    assert not (here / "ragbench.yaml").exists()


def test_a_file_that_is_not_there(here):
    with pytest.raises(DataError, match=r"qa\.csv"):
        invoke("--from", "qa.csv")


@pytest.mark.parametrize("column", ["no", "a: b", "ä 'x'", "${X}", "1", 'say "q"', "#"])
def test_odd_column_names_survive(here, column):
    (here / "qa.jsonl").write_text(
        json.dumps({"question": "q", "answer": "a", "contexts": ["c"], "reference": "r"}) + "\n",
        encoding="utf-8",
    )
    name = here / "qa.yaml"
    invoke("qa.yaml", "--from", "qa.jsonl")
    from ragbench.config.scaffold import _scalar

    text = name.read_text(encoding="utf-8").replace("answer: answer", f"answer: {_scalar(column)}")
    name.write_text(text, encoding="utf-8")

    assert load_config(name).dataset.options["columns"]["answer"] == column


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (["user_input", "response"], {"question": "user_input", "answer": "response"}),
        (["input", "actual_output"], {"question": "input", "answer": "actual_output"}),
        (["query", "question"], {"question": "question"}),
        (["QID", "Prompt", "x"], {"id": "QID", "question": "Prompt"}),
        ([], {}),
    ],
)
def test_guesses(present, expected):
    assert guess_columns(present) == expected
