"""`docs/gates*.md`: their config, commands, workflow and tests run as they stand."""

import os
import re
import subprocess

import pytest
import yaml

from tests.messages import lines_with

pytestmark = pytest.mark.slow

INSTALL = "pip install ragbench-eval"
# What the step `pip install ragbench-eval` would have put there, where all is imported already.
PYTEST = """
import sys, pytest
sys.argv[0] = "pytest"
known = ["-p", "ragbench.pytest_plugin", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
sys.exit(pytest.main([*known, *sys.argv[1:]]))
"""


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def page(repository):
    """Return the texts of the two pages, the page with the config first."""
    pages = [repository / "docs" / name for name in ("gates.md", "gates-ci.md")]
    return "\n".join(path.read_text(encoding="utf-8") for path in pages)


@pytest.fixture(scope="module")
def shell(page, repository, tmp_path_factory, warm):
    """Run a command of the page in a checkout that has the config: exit code and output."""
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "datasets").symlink_to(repository / "datasets")
    (checkout / "search.ragbench.yaml").write_text(blocks(page, "yaml")[0], encoding="utf-8")
    for name, code in zip(("python", "search", "questions"), blocks(page, "python"), strict=True):
        (checkout / f"test_{name}.py").write_text(code, encoding="utf-8")
    commands = checkout / "bin"
    commands.mkdir()
    warm.write_program(commands / "pytest", PYTEST)
    base = {
        **os.environ,
        "PATH": f"{commands}:{warm.folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(repository),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }

    def run(command, **environment):
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=checkout,
            env={**base, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    code, output = run(blocks(page, "bash")[0])
    assert code == 0, output
    assert (checkout / "baselines" / "main.json").is_file()
    run.checkout = checkout
    return run


def steps(workflow):
    return [step["run"] for step in workflow["jobs"]["gates"]["steps"] if "run" in step]


def test_the_workflow_passes_and_writes_the_summary(page, shell, assert_message):
    install, *commands = steps(yaml.safe_load(blocks(page, "yaml")[2]))
    summary = shell.checkout / "summary.md"

    assert install == INSTALL
    for command in commands:
        code, output = shell(command, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
        assert code == 0, output

    assert "::error" not in output
    text = summary.read_text(encoding="utf-8")
    assert_message(lines_with(text, "search: gates"))
    assert " passed" in text.splitlines()[0]


def test_the_gitlab_job_finds_its_report(page, shell):
    job = yaml.safe_load(blocks(page, "yaml")[4])["gates"]

    assert job["script"][0] == INSTALL
    assert job["script"][1:] == steps(yaml.safe_load(blocks(page, "yaml")[2]))[1:]
    report = shell.checkout / job["artifacts"]["reports"]["junit"]
    assert report.read_text(encoding="utf-8").startswith('<?xml version="1.0"')


def test_pytest_runs_the_gates_and_the_tests(page, shell):
    command = blocks(page, "bash")[4].strip()

    code, output = shell(f"{command} test_python.py test_search.py -p no:cacheprovider")

    assert code == 0, output
    assert " passed" in output


def test_a_question_is_a_test_of_its_own(page, shell, assert_message):
    file = shell.checkout / "test_questions.py"

    # a question that this retriever cannot answer
    file.write_text(file.read_text(encoding="utf-8").replace("q03", "q04"), encoding="utf-8")
    code, output = shell("pytest test_questions.py -v -p no:cacheprovider")

    assert (code, "1 failed, 2 passed" in output) == (1, True), output
    assert_message(lines_with(output, "test_question[q02]", "E       AssertionError"))


def test_the_failure_of_a_gate_is_that_of_the_page(page, shell):
    config = (shell.checkout / "search.ragbench.yaml").read_text(encoding="utf-8")
    gates = "gates:\n  - {measure: ndcg@10, system: exact}\n"
    failing = shell.checkout / "failing.ragbench.yaml"
    failing.write_text(config[: config.index("gates:")] + gates, encoding="utf-8")

    code, output = shell("pytest failing.ragbench.yaml -p no:cacheprovider")

    (block,) = (text for text in blocks(page, "text") if text.startswith("exact got WORSE"))
    assert code == 1
    assert block in output
