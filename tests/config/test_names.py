"""Names become files: each must have its own, on every system, before anything is run."""

import pytest

from ragbench.config.load import load_config
from ragbench.data.runs.run_folder import unfit_names
from ragbench.errors import ConfigError
from tests.commands import run_command
from tests.config.conftest import VALID

HEAD = "dataset: {type: beir, path: data}\n"
LONG = "n" * 150


def test_names_that_differ_only_in_case(lines, assert_message):
    text = f"{HEAD}retrievers:\n  bm25: {{type: bm25}}\n  BM25: {{type: bm25}}\n"

    assert_message(lines(text))


def test_an_app_and_a_retriever(lines):
    text = f"{HEAD}retrievers: {{x: {{type: bm25}}}}\napps: {{X: {{type: 'python:a:B'}}}}\n"

    assert any("'x' and 'X' would write the same file" in line for line in lines(text))


def test_a_pair_and_a_retriever(lines, assert_message):
    text = (
        f"{HEAD}retrievers: {{a: {{type: bm25}}, a--g: {{type: bm25}}}}\n"
        "generators: {g: {type: extractive}}\n"
    )

    assert_message(lines(text))


def test_names_too_long_for_a_file(lines, assert_message):
    retrievers, generators = f"{{{LONG}: {{type: bm25}}}}", f"{{{LONG}: {{type: extractive}}}}"
    text = f"{HEAD}retrievers: {retrievers}\ngenerators: {generators}\n"

    (line,) = lines(text)
    assert line.startswith(f"3:14: generators.{LONG}: ")
    assert_message(line)


def test_a_sweep_that_makes_a_name_too_long(lines, assert_message):
    text = f"{HEAD}retrievers: {{a: {{type: bm25, sweep: {{version: ['{LONG * 2}', 'b']}}}}}}\n"

    (line,) = lines(text)
    assert_message(line)


def test_values_of_a_sweep_that_differ_only_in_case_are_numbered(load):
    config = load(f"{HEAD}retrievers: {{a: {{type: bm25, sweep: {{version: [x, X]}}}}}}\n")

    assert list(config.retrievers) == ["a-version=x", "a-version=X_2"]


def test_the_name_of_the_experiment(lines, assert_message):
    (line,) = lines(f"name: {LONG * 2}\n{HEAD}retrievers: {{a: {{type: bm25}}}}\n")

    assert_message(line)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("....yaml", "experiment"), ("..yaml", "experiment"), ("con.yaml", "experiment"),
        ("a...yaml", "a"), ("a.b.yaml", "a.b"), (f"{'n' * 240}.yaml", "n" * 200),
    ],
)  # fmt: skip
def test_no_name_of_a_config_leads_out_of_the_output(config_folder, file, name):
    # An experiment without a name has that of its file
    (config_folder / file).write_text(f"{HEAD}retrievers: {{a: {{type: bm25}}}}\n")

    assert load_config(config_folder / file).name == name


def test_judges(lines):
    judges = "{one: {type: python:tests.words:Words}, One: {type: python:tests.words:Words}}"
    text = f"{HEAD}retrievers: {{a: {{type: bm25}}}}\nmetrics: {{judge: {judges}}}\n"

    assert any("'one' and 'One' would write the same file" in line for line in lines(text))


@pytest.mark.parametrize("command", ["validate", "run", "plan"])
def test_every_command_refuses_them_before_work_begins(config_folder, command, assert_message):
    (config_folder / "c.yaml").write_text(f"{HEAD}retrievers: {{{LONG * 2}: {{type: bm25}}}}\n")
    result = run_command(command, "c.yaml")

    assert result.returncode == 2
    assert_message(result.stderr, "c.yaml:2:14")
    assert sorted(path.name for path in config_folder.iterdir()) == ["c.yaml", "data"]


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
    # `os.path` returns False for such a name; `Path.is_file` raises
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


def test_names_that_differ_only_in_how_accents_are_encoded(assert_message):
    [(_, message, _)] = unfit_names(["caf\u00e9", "cafe\u0301"])

    assert_message(message)


@pytest.mark.parametrize(
    "line", ["output: out-${KEY}", "name: x-${KEY}", "cache: '${KEY}/c'", "cache_also: ['${KEY}']"]
)
def test_no_secret_is_a_part_of_the_name_of_a_folder(config_folder, problems, line, assert_message):
    key = "sk-11aa22bb33cc"
    (config_folder / key).mkdir()

    [problem] = problems(f"{VALID}{line}\n", environment={"KEY": key})

    assert_message(problem.found)
    assert key not in str(problem)


def test_nor_one_that_stands_there(problems, assert_message):
    [problem] = problems(f"{VALID}name: sk-11aa22bb33cc\n")

    assert_message(problem.found)
    assert "sk-11aa22bb33cc" not in str(problem)


def test_a_folder_whose_variable_has_the_name_of_a_secret_is_one(config_folder, load):
    config = load(
        f"{VALID}output: ${{SECRETS_DIR}}\n", environment={"SECRETS_DIR": str(config_folder)}
    )

    assert config.output == str(config_folder)
