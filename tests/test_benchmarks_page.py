"""Scripts of benchmarks/: a row of docs/benchmarks.md each, and bars that end with pass or FAIL."""

import argparse
import ast
import importlib
import re
import sys

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
RUN_BY = {"family_trials.py": "families.py"}
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


def test_no_script_hides_a_module_of_python(repository):
    # `statistics.py` did, and set the threads of all scripts that import ragbench
    names = {path.stem for path in (repository / "benchmarks").glob("*.py")}

    assert not names & sys.stdlib_module_names


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


# Scripts whose result is a table alone
WITHOUT_BARS = {"local_judges.py", "peers.py", "workers.py"}


def test_every_script_prints_its_bars_and_ends_by_them(repository, rows):
    calls = {}
    for name in {*rows} - WITHOUT_BARS:
        tree = ast.parse((repository / "benchmarks" / name).read_text(encoding="utf-8"))
        calls[name] = {
            ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)
        }

    without = [name for name, of in calls.items() if not {"Bars", "bars.exit"} <= of]

    assert without == []


def test_every_simulation_takes_its_trials_by_one_option(repository):
    page = (repository / "docs/benchmarks.md").read_text(encoding="utf-8")
    section = page.partition("## Errors of decisions")[2].partition("\n## ")[0]
    simulations = re.findall(r"`(\w+\.py)`", section)
    texts = {name: (repository / "benchmarks" / name).read_text() for name in simulations}

    assert len(simulations) == 9
    for name, text in texts.items():
        assert "add_trials(" in text, name
        assert re.search(rf"benchmarks/{name}.* \[--trials ", text), name


@pytest.fixture
def benchmark(repository, monkeypatch):
    """Import a module of benchmarks/."""
    monkeypatch.syspath_prepend(repository / "benchmarks")
    return importlib.import_module


@pytest.mark.parametrize(("values", "code"), [((1, 2), 0), ((1, 4, 2), 1), ((), 0)])
def test_a_missed_bar_ends_with_code_one(benchmark, capsys, values, code):
    bars = benchmark("bars").Bars()
    for value in values:
        bars.check(f"{value}, at most 3", value <= 3)

    with pytest.raises(SystemExit) as ended:
        bars.exit()

    assert ended.value.code == code
    *lines, _ = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines] == ["pass" if value <= 3 else "FAIL" for value in values]
    assert bars.missed == [f"{value}, at most 3" for value in values if value > 3]


def test_a_benchmark_fails_by_its_bar(benchmark, monkeypatch, capsys):
    refusals = benchmark("refusals")
    monkeypatch.setattr("sys.argv", ["refusals.py"])
    codes = []
    for least in (0.88, 0.99):
        monkeypatch.setattr(refusals, "LEAST_RECALL", least)
        with pytest.raises(SystemExit) as ended:
            refusals.main()
        codes.append(ended.value.code)

    assert codes == [0, 1]
    assert capsys.readouterr().out.count("FAIL: ") == 2  # of `measure` and `fresh`


def test_errors_of_simulated_figures(benchmark):
    trials = benchmark("trials")

    assert trials.share_error(0.5, 100) == 0.05
    # standard deviation 1 over the root of 4
    assert trials.mean_error([1.0, 1.0, 3.0, 3.0]) == pytest.approx((4 / 3) ** 0.5 / 2)
    assert str(trials.share_cell("n 20", 0.5, 100)) == "50.0 ± 5.0 % (n 20)"
    cells = [trials.Cell(name, value, 0.0) for name, value in (("a", 0.1), ("b", 0.3), ("c", 0.2))]
    assert trials.largest(cells).name == "b"


@pytest.mark.parametrize(("arguments", "trials"), [([], 500), (["--trials", "7"], 7)])
def test_the_number_of_trials(benchmark, arguments, trials):
    parser = argparse.ArgumentParser()
    benchmark("trials").add_trials(parser, 500, 5_000, "draws")

    assert parser.parse_args(arguments).trials == trials


@pytest.mark.parametrize("text", ["1", "0", "-3", "many"])
def test_too_few_trials_are_refused(benchmark, text):
    parser = argparse.ArgumentParser()
    benchmark("trials").add_trials(parser, 500, 5_000, "draws")

    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--trials", text])

    assert ended.value.code == 2
