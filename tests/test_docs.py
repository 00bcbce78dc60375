"""README and docs stay true: their commands, their code and the result that they show."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from ragbench.cli import main
from ragbench.errors import DISTRIBUTION
from tests.commands import run_command
from tests.messages import lines_with
from tests.notebook import run_cell


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def readme(repository):
    return (repository / "README.md").read_text(encoding="utf-8")


def test_users_and_contributors_have_a_line_each(readme, repository):
    _, contributing = readme.split("\n## Contributing\n")
    [user_line] = blocks(readme, "bash")[0].splitlines()
    [test_line] = blocks(contributing, "bash")[0].splitlines()

    assert user_line.endswith("configs/quickstart.yaml")
    assert "-c constraints.txt" in test_line
    assert test_line.endswith("-n auto --maxprocesses=4")
    # CI runs the same line
    script = (repository / ".ci" / "run").read_text().replace('bash -c "$test_line"', "exit")
    printed = subprocess.run(
        ["bash", "-c", script.replace('$(dirname "$0")/..', str(repository))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == f"+ {test_line}\n"


def test_the_python_code_runs(readme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (app,) = blocks(readme, "python")
    names = {}

    run_cell(app, "README.md", names)

    assert names["ask"]("q")["contexts"]


@pytest.mark.costly
def test_the_app_of_five_lines_is_the_first_result(readme, repository, tmp_path):
    (code,), (config, judge) = blocks(readme, "python"), blocks(readme, "yaml")
    (_, command, gate) = (block.splitlines() for block in blocks(readme, "bash")[:3])
    assert [len(lines) for lines in (gate, judge.splitlines())] == [1, 2]
    assert len([*code.splitlines(), *config.splitlines(), *command]) == 5
    (tmp_path / "myapp.py").write_text(code)
    (tmp_path / "mine.yaml").write_text(config)
    (tmp_path / "datasets").symlink_to(repository / "datasets")

    done = run_command("run", "mine.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    _, expected = blocks(readme, "text")
    assert {*expected.splitlines()} <= {*done.stdout.splitlines()}
    assert done.stdout.startswith(expected.splitlines()[0])
    (tmp_path / "mine.yaml").write_text(config + judge)
    planned = run_command("plan", "mine.yaml", cwd=tmp_path, env={"OPENAI_API_KEY": "unused"})
    assert "judge mine (openai)" in planned.stdout


def test_readme_is_short(readme):
    assert len(readme.split()) <= 700


def test_the_result_shown_is_what_the_quickstart_prints(readme, repository, finished_quickstart):
    block = blocks(readme, "text")[0]
    (of_site,) = blocks((repository / "docs" / "index.md").read_text(encoding="utf-8"), "text")

    printed = finished_quickstart.done.stdout
    assert printed.startswith(block)
    (of_statistics,) = blocks((repository / "docs" / "statistics.md").read_text("utf-8"), "text")
    assert {*of_site.splitlines(), of_statistics.strip()} <= {*printed.splitlines()}


@pytest.mark.costly
def test_the_page_on_statistics_runs(repository, tmp_path):
    import ragbench

    page = (repository / "docs/statistics.md").read_text(encoding="utf-8")
    (config,), (code,), names = blocks(page, "yaml"), blocks(page, "python"), {}
    overrides = {"output": str(tmp_path), "dataset.path": str(repository / "datasets/example")}

    experiment = ragbench.run_experiment(yaml.safe_load(config), overrides)
    run_cell(code, "statistics.md", names)

    assert experiment.comparisons["family"] == "all"
    assert {row["field"] for row in experiment.comparisons["slices"]} == {
        "query_length",
        "relevant",
    }
    assert names["n"] == 128


GENERATED = [
    "commands.md",
    "commands-compare.md",
    "commands-check.md",
    "reference.md",
    "reference-answers.md",
    "reference-data.md",
    "reference-judges.md",
    "reference-measures.md",
    "metrics.md",
    "metrics-more.md",
    "rubrics.md",
    "rubrics-claims.md",
    "rubrics-ratings.md",
    "scale.md",
    "summary.md",
    "summary-systems.md",
    "summary-decisions.md",
]


@pytest.fixture(scope="module")
def generated(repository, warm):
    """In a process of its own: click keeps what `--help` says of a command from its first call."""
    code = f"import generate, json; print(json.dumps([generate.PAGES[n]() for n in {GENERATED}]))"
    path = os.pathsep.join([str(repository), str(repository / "docs")])
    exit_code, printed = warm.run(code, env={**os.environ, "PYTHONPATH": path})
    assert exit_code == 0
    return dict(zip(GENERATED, json.loads(printed), strict=True))


@pytest.mark.costly
@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_not_stale(repository, generated, name):
    stored = (repository / "docs" / name).read_text(encoding="utf-8")

    assert generated[name] == stored, "run `make generated`"


@pytest.mark.slow
def test_what_is_measured_is_what_the_page_shows(repository, warm, tmp_path):
    import runpy

    pytest.importorskip("faiss")
    python = tmp_path / "python"  # its processes, and theirs, have other packages imported
    warm.write_python(python)
    sizes = {
        "documents": ["--documents", "100", "--queries", "3"],
        "judgements": ["--judgements", "5"],
    }
    lines = []
    for part, options in sizes.items():
        command = [python, repository / "benchmarks" / "scale.py", part, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines += map(json.loads, done.stdout.splitlines())

    table = runpy.run_path(str(repository / "docs" / "generate.py"))["_measured"](lines)

    parts = [line["part"] for line in lines]
    assert parts == ["documents", "documents", "run", "run", "judgements"]
    for cell in ("| 100, bm25 |", "| 100, exact |", "| 100, stored |", "| 5 |"):
        assert cell in table


def test_the_rubric_file_of_the_docs_is_one(repository, tmp_path):
    from ragbench.score.judge.rubric import read_rubric

    (text,) = blocks((repository / "docs" / "rubrics.md").read_text(encoding="utf-8"), "yaml")
    (tmp_path / "own.yaml").write_text(text, encoding="utf-8")

    assert read_rubric(tmp_path / "own.yaml").guidelines


def test_the_pages_on_judging_run(repository, tmp_path, monkeypatch):
    from ragbench.config.load import load_config
    from tests.chat_server import ChatServer
    from tests.score.judge.scripted import Script

    monkeypatch.chdir(tmp_path)
    pages = [
        (repository / f"docs/{n}.md").read_text(encoding="utf-8")
        for n in ("judging", "judges", "local-judges")
    ]
    (code,) = blocks(pages[0], "python")
    configs = [config for page in pages for config in blocks(page, "yaml")]
    names = {}
    with ChatServer(Script()) as server:
        code = code.replace("http://127.0.0.1:8000/v1", server.url)
        run_cell(code, "judging.md", names)

    assert names["verdict"].score == 1.0
    assert len(names["many"]) == 3
    folder = repository / "datasets" / "example"
    data = {"dataset": {"type": "beir", "path": str(folder)}, "retrievers": {"a": {"type": "bm25"}}}
    checked = [load_config({**data, **yaml.safe_load(config)}).metrics for config in configs]
    options = [judge.options for m in checked for judge in m.judges.values()]
    models = [option.get("model") or option["preset"] for option in options]
    assert models[:6] == ["qwen2.5-7b-instruct", *["gpt-4o-mini"] * 5]
    assert models[6:9] == ["minicheck-flan-t5", "models/my-classifier", "bespoke-minicheck"]
    assert models[9:] == ["my-nli", "hhem", "cross-encoder/nli-deberta-v3-base"]
    assert [n for n, m in enumerate(checked) if m.retrieval.fill is not None] == [5]


@pytest.mark.costly
def test_the_page_on_adapters_runs(repository, tmp_path, monkeypatch, assert_message):
    # The notebook's object, the adapter of one's own in a run, its refusals, and the prompt.
    from ragbench import run_experiment
    from ragbench.config.load import load_config
    from ragbench.errors import ConfigError
    from ragbench.generate import APPS
    from ragbench.generate.chat import load_prompt
    from ragbench.types import Document

    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(repository / "datasets")
    page = (repository / "docs" / "adapters.md").read_text(encoding="utf-8")
    (notebook, shop, server), (chains, forms, urls, config, prompt) = (
        blocks(page, "python"),
        blocks(page, "yaml"),
    )
    names = {}
    assert [*yaml.safe_load(chains)["apps"]] == ["now", "new"]
    (tmp_path / "myapp.py").write_text(
        "from langchain_core.runnables import RunnableLambda\n"
        "build_chain = RunnableLambda(lambda given: {'antwort': given['frage']})\n"
        "from tests.generate.test_haystack import AnswerPipeline\n"
        "build_pipeline = AnswerPipeline()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for options in yaml.safe_load(urls)["apps"].values():
        assert APPS.load(options.pop("type"))(**options) is not None
    for options in yaml.safe_load(forms)["apps"].values():
        app = APPS.load(options.pop("type"))(**options)
        assert app.answer("Which?").answer in ("Which?", "Io has volcanoes.")
    run_cell(server, "adapters.md", names)
    run_cell(notebook, "adapters.md", names)
    assert names["experiment"].summary["systems"][0]["name"] == "mine"

    # the data of the example have other documents than the shop
    (tmp_path / "shop.py").write_text(shop.replace('"a1"', '"sun-basics"'))
    data = {"dataset": {"type": "beir", "path": "datasets/example", "split": "test"}}
    experiment = run_experiment({**data, **yaml.safe_load(config)})
    system_names = [system["name"] for system in experiment.summary["systems"]]
    assert system_names == ["shop", "shop/loudest"]
    wrong = yaml.safe_load(config.replace("boost: 2.0", "boost: 0"))
    with pytest.raises(ConfigError) as error:
        load_config({**data, **wrong})
    assert_message(error.value, "retrievers.shop.boost")

    (tmp_path / "mine.yaml").write_text(prompt)
    [system, user] = load_prompt(str(tmp_path / "mine.yaml")).messages("Q?", [Document("a", "A.")])
    assert (system.content, user.content) == ("Answer in one word.", "1. A.\nQ?")
    for link in re.findall(r"\]\(([a-z./]+\.(?:md|yaml))\)", page):
        assert (repository / "docs" / link).exists()


def test_the_page_on_comparing_runs(
    repository, finished_quickstart, warm_cache, tmp_path, monkeypatch, assert_message
):
    monkeypatch.chdir(tmp_path)
    finished_quickstart.copy_to(tmp_path)
    for name in ("configs", "datasets"):
        (tmp_path / name).symlink_to(repository / name)
    page = (repository / "docs" / "comparing.md").read_text(encoding="utf-8")
    shell, (block,), (code,) = (blocks(page, kind) for kind in ("bash", "text", "python"))
    printed = []
    first, *lines = "".join([*shell[:2], *shell[4:6]]).splitlines()
    assert first == "ragbench run configs/quickstart.yaml", "that run is here"
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "ragbench"
        done = run_command(*arguments)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    names = {}

    run_cell(code, "comparing.md", names)

    assert printed[2].startswith(block)
    assert_message(lines_with(printed[-1], "gates:"))
    assert (
        "right of quickstart over 2 runs, oldest first\nsystem             trend  first"
        in printed[3]
    )
    assert names["found"].differences[0]["difference"] == 0.5


UNRELEASED = re.compile(r"ragbench/ragbench@v1|/ragbench/v1/|pip install '?ragbench-eval")


def test_what_is_not_released_stands_beside_what_to_write_today(repository):
    # installing.md begins with it
    pages = [repository / "README.md", *(repository / "docs").glob("*.md")]
    places = 0
    for page in pages:
        if page.name == "installing.md":
            continue
        text = page.read_text(encoding="utf-8")
        for match in UNRELEASED.finditer(text):
            places += 1
            after = text[match.end() :].partition("```")[2].lstrip()
            assert "ntil the first release" in after.partition("\n\n")[0], (page.name, match[0])
    assert places >= 5


def test_linked_pages_exist(readme, repository):
    # absolute, since an index of packages shows the page as well
    home = r"https://(?:github\.com/ragbench/ragbench/blob|raw\.githubusercontent\.com/ragbench/ragbench)"
    links = re.findall(rf"\]\({home}/main/([^)#]+)", readme)
    assert not re.search(r"\]\((?!http)", readme)

    assert links
    assert [link for link in links if not (repository / link).exists()] == []


def test_the_changelog_is_short_and_its_links_exist(repository):
    changelog = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)", changelog)

    assert len(changelog.splitlines()) <= 80
    assert len(links) > 20
    assert [link for link in links if not (repository / link).exists()] == []


@pytest.mark.costly
def test_every_shipped_config_names_the_schema_and_is_valid(
    repository, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")  # `validate` asks for what `run` needs
    configs = sorted((repository / "configs").glob("*.yaml"))

    assert configs
    for config in configs:
        first = config.read_text().splitlines()[0]
        assert first.endswith(" $schema=ragbench.schema.json")
        monkeypatch.setattr(sys, "argv", ["ragbench", "validate", str(config)])
        with pytest.raises(SystemExit) as exit_error:
            main()
        printed = capsys.readouterr()
        assert exit_error.value.code in (None, 0), printed.err
        assert printed.out.startswith("ok")


def test_the_extras_of_the_package_are_those_of_the_design(repository):
    import importlib.metadata

    extras = set(importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra"))

    assert {"judge", "langchain", "dense", "bertscore", "parquet", "all", "test"} <= extras
    assert yaml.safe_load((repository / ".pre-commit-config.yaml").read_text())["repos"]


SHARES = re.compile(r"(\d+\.\d) / (\d+\.\d)")


def largest(cells):
    """The largest shares of cells such as `2.5 / 1.0`, on the left and on the right."""
    shares = [match.groups() for cell in cells if (match := SHARES.search(cell))]
    return [max(side, key=float) for side in zip(*shares, strict=True)]


def test_the_simulations_have_all_worlds_and_name_their_largest_errors(repository, monkeypatch):
    # Every world; `python benchmarks/gates.py --write docs/simulations.md` draws them.
    monkeypatch.syspath_prepend(repository / "benchmarks")
    from worlds import WORLDS

    page, for_users = (
        (repository / "docs" / name).read_text(encoding="utf-8")
        for name in ("simulations.md", "statistics.md")
    )
    verdicts, gates = (
        page.split(f"<!-- made by benchmarks/{script}.py -->")[1].split("<!-- end -->")[0]
        for script in ("verdicts", "gates")
    )

    assert [world.name for world in WORLDS if f"| {world.name} " not in gates] == []
    assert "Plans for power 0.8" in gates
    equal = verdicts.partition("Real scores")[0]
    better, worse = largest(cell for row in equal.splitlines() for cell in row.split("|"))
    passed, failed = SHARES.search(gates.partition("Largest wrong pass / fail")[2]).groups()
    # a star marks worlds without a bar
    rows = [row.split("|") for row in gates.splitlines() if row.count("|") == 11]
    cells = [cell for row in rows if "*" not in row[1] for cell in row[2:5]]
    assert len(rows) >= 2 * len(WORLDS)
    shown_pass, shown_fail = map(float, largest(cells))
    assert shown_pass <= float(passed)
    assert shown_fail <= float(failed)
    said = " ".join(page.split())
    assert f"pass wrongly in at most {passed} % and fail wrongly in at most {failed} %" in said
    assert f"called better in at most {better} %, and worse in at most {worse} %" in said
    said = " ".join(for_users.split())
    assert f"called better in at most {better} %" in said
    assert f"err on either side in at most {failed} %" in said
