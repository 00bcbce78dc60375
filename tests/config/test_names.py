"""Names become files: each must have its own, on every system, before anything is run."""

import pytest

from ragbench.config.load import load_config
from ragbench.data.runs.run_folder import unfit_names
from ragbench.errors import ConfigError
from tests.commands import run_command
from tests.config.conftest import VALID

HEAD = "dataset: {type: beir, path: data}\n"
LONG = "n" * 150


def test_names_that_differ_only_in_case(lines):
    text = f"{HEAD}retrievers:\n  bm25: {{type: bm25}}\n  BM25: {{type: bm25}}\n"

    assert lines(text) == [
        "4:3: retrievers.BM25: 'bm25' and 'BM25' would write the same file 'BM25'"
    ]


def test_an_app_and_a_retriever(lines):
    text = f"{HEAD}retrievers: {{x: {{type: bm25}}}}\napps: {{X: {{type: 'python:a:B'}}}}\n"

    assert any("'x' and 'X' would write the same file" in line for line in lines(text))


def test_a_pair_and_a_retriever(lines):
    text = (
        f"{HEAD}retrievers: {{a: {{type: bm25}}, a--g: {{type: bm25}}}}\n"
        "generators: {g: {type: extractive}}\n"
    )

    assert lines(text) == ["3:14: generators.g: 'a--g' and 'a/g' would write the same file 'a--g'"]


def test_names_too_long_for_a_file(lines):
    retrievers, generators = f"{{{LONG}: {{type: bm25}}}}", f"{{{LONG}: {{type: extractive}}}}"
    text = f"{HEAD}retrievers: {retrievers}\ngenerators: {generators}\n"

    (line,) = lines(text)
    assert line.startswith(f"3:14: generators.{LONG}: ")
    assert line.endswith("is too long for a file: 302 bytes")


def test_a_sweep_that_makes_a_name_too_long(lines):
    text = f"{HEAD}retrievers: {{a: {{type: bm25, sweep: {{version: ['{LONG * 2}', 'b']}}}}}}\n"

    (line,) = lines(text)
    assert "is too long for a file: 310 bytes" in line


def test_values_of_a_sweep_that_differ_only_in_case_are_numbered(load):
    config = load(f"{HEAD}retrievers: {{a: {{type: bm25, sweep: {{version: [x, X]}}}}}}\n")

    assert list(config.retrievers) == ["a-version=x", "a-version=X_2"]


def test_the_name_of_the_experiment(lines):
    (line,) = lines(f"name: {LONG * 2}\n{HEAD}retrievers: {{a: {{type: bm25}}}}\n")

    assert line.endswith("is too long for a file: 300 bytes")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("....yaml", "experiment"), ("..yaml", "experiment"), ("con.yaml", "experiment"),
        ("a...yaml", "a"), ("a.b.yaml", "a.b"), (f"{'n' * 240}.yaml", "n" * 200),
    ],
)  # fmt: skip
def test_no_name_of_a_config_leads_out_of_the_output(here, file, name):
    """An experiment without a name has that of its file."""
    (here / file).write_text(f"{HEAD}retrievers: {{a: {{type: bm25}}}}\n")

    assert load_config(here / file).name == name


def test_judges(lines):
    judges = "{one: {type: python:tests.words:Words}, One: {type: python:tests.words:Words}}"
    text = f"{HEAD}retrievers: {{a: {{type: bm25}}}}\nmetrics: {{judge: {judges}}}\n"

    assert any("'one' and 'One' would write the same file" in line for line in lines(text))


@pytest.mark.parametrize("command", ["validate", "run", "plan"])
def test_every_command_refuses_them_before_work_begins(here, command):
    (here / "c.yaml").write_text(f"{HEAD}retrievers: {{{LONG * 2}: {{type: bm25}}}}\n")
    found = run_command(command, "c.yaml")

    assert found.returncode == 2
    assert "is too long for a file: 300 bytes" in found.stderr
    assert sorted(path.name for path in here.iterdir()) == ["c.yaml", "data"]


@pytest.mark.parametrize(
    "more",
    [
        {"retrievers": {"a": {"type": "dense", "model": "x" * 5000}}},
        {"metrics": {"judge": {"type": "nli", "model": "x" * 5000, "rubrics": ["faithfulness"]}}},
        {"metrics": {"generation": [f"bertscore(model={'x' * 5000})"]}},
        {"metrics": {"generation": ["contains"]}, "gates": [{"against": "x" * 5000, "max_drop": 0.1,
                                                             "measure": "contains"}]},
    ],
    ids=["model", "judge", "metric", "gate"],
)  # fmt: skip
def test_a_model_with_a_name_too_long_for_a_file_is_no_folder(repository, more):
    """It is found out by `os.path`: `Path.is_file` raises."""
    config = {
        "dataset": {"type": "beir", "path": str(repository / "datasets" / "example")},
        "retrievers": {"a": {"type": "bm25"}},
        "generators": {"e": {"type": "extractive"}},
        **more,
    }

    if "gates" in more:
        with pytest.raises(ConfigError, match="no such file"):
            load_config(config)
    else:
        load_config(config)


def test_names_that_differ_only_in_how_accents_are_encoded():
    [(_, found, _)] = unfit_names(["caf\u00e9", "cafe\u0301"])

    assert "would write the same file" in found


@pytest.mark.parametrize(
    "line", ["output: out-${KEY}", "name: x-${KEY}", "cache: '${KEY}/c'", "cache_also: ['${KEY}']"]
)
def test_no_secret_is_a_part_of_the_name_of_a_folder(here, problems, line):
    key = "sk-11aa22bb33cc"
    (here / key).mkdir()

    [problem] = problems(f"{VALID}{line}\n", environment={"KEY": key})

    assert problem.found == "the secret ${KEY} would become part of the name of a folder"
    assert key not in str(problem)


def test_nor_one_that_stands_there(problems):
    [problem] = problems(f"{VALID}name: sk-11aa22bb33cc\n")

    assert problem.found == "a secret would become part of the name of a folder"
    assert "sk-11aa22bb33cc" not in str(problem)


def test_a_folder_whose_variable_has_the_name_of_a_secret_is_one(here, load):
    config = load(f"{VALID}output: ${{SECRETS_DIR}}\n", environment={"SECRETS_DIR": str(here)})

    assert config.output == str(here)
