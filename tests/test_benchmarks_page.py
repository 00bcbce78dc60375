"""`docs/benchmarks.md`: each script of benchmarks/ has a row, with the bar that it holds."""

import ast
import re

import pytest

# Script -> the constants whose numbers its row names.
BARS = {
    "audit.py": ["BAR_S"],
    "bm25.py": ["BAR"],
    "cheapest.py": ["BAR"],
    "family_trials.py": ["BAR"],
    "fix.py": ["SECONDS"],
    "groups.py": ["BAR"],
    "judge_calls.py": ["BARS"],
    "page_load.py": ["BAR_S"],
    "retrieval.py": ["BARS"],
    "second_run.py": ["BAR_S"],
}
# A module with a bar -> the script that runs it.
RUN_BY = {"family_trials.py": "statistics.py"}
SHARES = {"cheapest.py", "groups.py"}


@pytest.fixture(scope="module")
def rows(repository):
    """Script -> its row on the page."""
    page = (repository / "docs/benchmarks.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    return {name: line for line in lines for name in re.findall(r"`(\w+\.py)`", line)}


def test_every_script_has_a_row(repository, rows):
    scripts = {
        path.name
        for path in (repository / "benchmarks").glob("*.py")
        if "__main__" in path.read_text(encoding="utf-8")
    }

    assert {*rows} == scripts - {"peer_tasks.py", "scale_parts.py"}


def constants(path):
    """Return the constants of a module that are written as literals."""
    values = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            names, value = node.targets[0], node.value
            pairs = [(names, value)]
            if isinstance(names, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(names.elts, value.elts, strict=True)
            for name, literal in pairs:
                try:
                    values[name.id] = ast.literal_eval(literal)
                except (ValueError, AttributeError):
                    continue
    return values


def numbers(value):
    """Return the numbers of a bar, which may be a mapping of tuples."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return [number for part in value for number in numbers(part)]
    return [value]


@pytest.mark.parametrize("script", BARS)
def test_a_row_names_the_bar_of_its_script(repository, rows, script):
    declared = constants(repository / "benchmarks" / script)
    row = rows[RUN_BY.get(script, script)].replace(",", "")

    for name in BARS[script]:
        for number in numbers(declared[name]):
            digits = str(number) if isinstance(number, int) else f"{number:g}"
            shown = f"{100 * number:g} %" if script in SHARES else digits
            assert re.search(rf"(?<![\d.]){re.escape(shown)}(?![\d.])", row), (name, number, row)
