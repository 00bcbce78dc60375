"""The programs of docs/integrations.md print what the page says, where the tool is installed.

That of MLflow runs beside the export to it, in `tests/report/test_exports.py`: to import MLflow and
to create its store take seconds.
"""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.notebook import programs

# Program -> the package that it needs; CI installs the first.
TOOLS = {
    "pydantic": "pydantic_evals",
    "langsmith": "langsmith",
    "inspect": "inspect_ai",
    "dspy": "dspy",
    "haystack": "haystack",
}
# Nothing is sent, and no tool looks for a server that is not there.
ENVIRONMENT = {
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGSMITH_TRACING": "false",
    "PYTHONWARNINGS": "default",
}


def files(repository):
    """Name of the file -> program, by the comment in its first line."""
    page = repository / "docs/integrations.md"
    return {program.split("\n", 1)[0].removeprefix("# "): program for program in programs(page)}


def test_every_program_has_a_test(repository):
    tools = ("mlflow", *TOOLS)
    assert {*files(repository)} == {"bridge.py", *(f"{tool}_scores.py" for tool in tools)}


def output_lines(program):
    """The lines that the page says a program prints."""
    lines = re.findall(r"^# (.*)$", program.split("print(")[1], re.MULTILINE)
    assert lines
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_the_program_prints_what_the_page_says(repository, tmp_path, tool):
    if importlib.util.find_spec(TOOLS[tool]) is None:
        pytest.skip(f"{TOOLS[tool]} is not installed")
    program = files(repository)[f"{tool}_scores.py"]
    for name in ("bridge.py", f"{tool}_scores.py"):
        (tmp_path / name).write_text(files(repository)[name], encoding="utf-8")

    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, f"{tool}_scores.py"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-2000:]
    expected = output_lines(program)
    assert [line for line in done.stdout.splitlines() if line in expected] == expected, done.stdout
