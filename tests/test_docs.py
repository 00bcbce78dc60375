"""README and docs stay true: their commands, their code and the result that they show."""

import re
import subprocess
import sys

import pytest
import yaml


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def readme(repository):
    return (repository / "README.md").read_text(encoding="utf-8")


def test_the_first_shell_block_is_the_two_commands(readme):
    lines = blocks(readme, "bash")[0].splitlines()

    assert len(lines) == 2
    assert lines[0].endswith("ragbench run configs/quickstart.yaml")
    assert "-c constraints.txt" in lines[1]
    assert lines[1].endswith("pytest -q")


def test_the_python_code_runs(readme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    search, api = blocks(readme, "python")
    names = {}

    exec(compile(search, "README.md", "exec"), names)
    exec(compile(api, "README.md", "exec"), names)

    assert len(names["search"]("q", 1)) == 1
    assert 0 < names["result"].mean["ndcg@10"] < 1


def test_the_five_line_retriever_is_compared(readme, repository, tmp_path):
    (code, _), (config,) = blocks(readme, "python"), blocks(readme, "yaml")
    (tmp_path / "myapp.py").write_text(code)
    (tmp_path / "mine.yaml").write_text(config)
    (tmp_path / "datasets").symlink_to(repository / "datasets")

    done = subprocess.run(
        [sys.executable, "-m", "ragbench", "run", "mine.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout


def test_the_result_shown_is_what_the_quickstart_prints(readme, repository, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ragbench", "run", str(repository / "configs/quickstart.yaml")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    (shown,) = blocks(readme, "text")
    assert shown in done.stdout


@pytest.mark.parametrize("name", ["reference.md", "metrics.md", "rubrics.md"])
def test_generated_pages_are_not_stale(repository, name):
    import runpy

    made = runpy.run_path(str(repository / "docs" / "generate.py"))["PAGES"][name]()

    assert made == (repository / "docs" / name).read_text(encoding="utf-8"), "run `make generated`"


def test_the_rubric_file_of_the_docs_is_one(repository, tmp_path):
    from ragbench.score.judge.rubric import read_rubric

    (text,) = blocks((repository / "docs" / "rubrics.md").read_text(encoding="utf-8"), "yaml")
    (tmp_path / "own.yaml").write_text(text, encoding="utf-8")

    assert read_rubric(tmp_path / "own.yaml").guidelines


def test_the_page_on_judging_runs(repository, tmp_path, monkeypatch):
    from ragbench.config import load_config
    from ragbench.testing import ChatServer
    from tests.score.judge.scripted import Script

    monkeypatch.chdir(tmp_path)
    page = (repository / "docs" / "judging.md").read_text(encoding="utf-8")
    (code,), written = blocks(page, "python"), blocks(page, "yaml")
    names = {}
    with ChatServer(Script()) as server:
        code = code.replace("http://127.0.0.1:8000/v1", server.url)
        exec(compile(code, "judging.md", "exec"), names)

    assert names["verdict"].score == 1.0
    assert len(names["many"]) == 3
    folder = repository / "datasets" / "example"
    data = {"dataset": {"type": "beir", "path": str(folder)}, "retrievers": {"a": {"type": "bm25"}}}
    configs = [load_config({**data, **yaml.safe_load(block)}).metrics for block in written]
    for metrics in configs:
        [checked] = metrics.judges.values()
        assert checked.options["model"] == "gpt-4o-mini"
    assert [metrics.retrieval.fill is not None for metrics in configs] == [False, False, True]
    for link in re.findall(r"\]\(([a-z]+\.md)\)", page):
        assert (repository / "docs" / link).exists()


def test_linked_pages_exist(readme, repository):
    links = re.findall(r"\]\((?!http)([^)#]+)\)", readme)

    assert links
    assert [link for link in links if not (repository / link).exists()] == []


def test_every_shipped_config_names_the_schema_and_is_valid(repository, tmp_path):
    configs = sorted((repository / "configs").glob("*.yaml"))

    assert configs
    for config in configs:
        first = config.read_text().splitlines()[0]
        assert first == "# yaml-language-server: $schema=ragbench.schema.json"
        done = subprocess.run(
            [sys.executable, "-m", "ragbench", "validate", str(config)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("ok")


def test_the_extras_of_the_package_are_those_of_the_design(repository):
    import importlib.metadata

    extras = set(importlib.metadata.metadata("ragbench").get_all("Provides-Extra"))

    assert {"judge", "langchain", "dense", "bertscore", "parquet", "all", "test"} <= extras
    assert yaml.safe_load((repository / ".pre-commit-config.yaml").read_text())["repos"]
