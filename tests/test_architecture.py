"""The shape of the package: directions of imports, and the page that describes it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import House, measure


@pytest.mark.costly
def test_imports_point_down(repository):
    tool = Path(sys.executable).parent / "lint-imports"
    if not tool.exists():
        tool = Path(shutil.which("lint-imports") or pytest.fail("import-linter is not installed"))

    done = subprocess.run(
        [tool, "--no-cache"], cwd=repository, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_house_keeps_its_limits(repository):
    """`make house` prints all figures; `python -m tests.house -v` also what they count."""
    broken = [figure for figure in measure(repository / "ragbench") if not figure.kept]

    assert not broken


def test_the_house_counts_results_that_are_read_by_key(tmp_path):
    """What people write is read by key: options, rows of their tables; what we write is not."""
    (tmp_path / "report").mkdir()
    (tmp_path / "report/page.py").write_text(
        "def page(summary, entry, options, PLACES, values: dict[str, Any], n: dict[str, int]):\n"
        '    read = [summary["scores"], summary.get("gates", ()), values["mean"]]\n'
        '    kept = {"name": summary.name}\n'
        '    kept["n"] = 1\n'
        '    read += [entry.pop("seed"), "n" in values, "a" in entry.text, "n" in n, "n" in kept]\n'
        '    return read, entry.values.get("system"), options["k"], PLACES["a"], kept\n'
    )

    assert House(tmp_path).string_keys() == [f"{tmp_path.name}.report.page"] * 5


def test_a_word_that_a_module_is_called_by_is_no_table(tmp_path):
    """A short module with one user is exempt where a table loads it; a text may have its name."""
    (tmp_path / "one.py").write_text(f"from {tmp_path.name}.two import A\nX = 'two'\n")
    (tmp_path / "two.py").write_text("A = 1\n")
    alone = House(tmp_path).single_user()
    (tmp_path / "table.py").write_text(f'T = {{"b": "{tmp_path.name}.two:A"}}\n')

    assert (alone, House(tmp_path).single_user()) == ([f"{tmp_path.name}.two"], [])


def test_shares_are_held_as_they_are(tmp_path):
    """10.04 % is more than 10 %."""
    (tmp_path / "module.py").write_text("import ast\n" * 10 + "a = 1\n" * 89)

    (imports,) = [each for each in measure(tmp_path) if each.name == "imports, % of code"]

    assert imports.value == pytest.approx(1000 / 99)
    assert not imports.kept


def test_the_house_counts_branches_as_ruff_does(tmp_path):
    source = """
def branches(x):
    if x: pass
    elif x > 1: pass
    else: pass
    for _ in x:
        while x: pass
        else: pass
    try: pass
    except ValueError: pass
    except KeyError: pass
    else: pass
    with x: pass
    match x:
        case 1: pass
        case _: pass
    return [y for y in x if y and not x] or (1 if x else 2)
"""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text(source)
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901"]
    strict = ["--config", "lint.mccabe.max-complexity=1", str(tmp_path)]
    done = subprocess.run([*ruff, *strict], capture_output=True, text=True, check=False)

    (function,) = House(tmp_path / "package").functions

    assert f"too complex ({function.complexity} > 1)" in done.stdout


def test_every_docstring_documents_something(repository):
    """What is moved may leave the line below it behind."""
    modules = House(repository / "ragbench").modules.values()

    assert [place for module in modules for place in module.strings_of_nothing()] == []


def test_a_string_after_nothing_is_found(tmp_path):
    (tmp_path / "module.py").write_text(
        '"""Of the module."""\n'
        'A = 1\n"""Of A."""\n"""Of nothing."""\n'
        'class B:\n    """Of B."""\n    c: int = 1\n    """Of c."""\n"""Of nothing."""\n'
        'if A:\n    """Of nothing."""\n'
        'else:\n    D = 1\n    """Of D."""\n'
        'def f():\n    """Of f."""\n    f()\n    """Of nothing."""\n'
    )

    (module,) = House(tmp_path).modules.values()

    lines = [place.rpartition(":")[2] for place in module.strings_of_nothing()]
    assert sorted(map(int, lines)) == [4, 9, 11, 18]


def test_every_folder_is_on_the_architecture_page(repository):
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [p.name for p in (repository / "ragbench").iterdir() if (p / "__init__.py").exists()]

    missing = [name for name in folders if f"{name}/" not in page]

    assert not missing


def test_every_path_on_the_architecture_page_exists(repository):
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[\w-]+/)*[\w-]+(?:/|\.py))`", page))

    def exists(name):
        package = repository / "ragbench"
        return (repository / name).exists() or any(package.glob(f"**/{name}"))

    assert len(named) > 40
    assert [name for name in sorted(named) if not exists(name)] == []


def test_every_path_in_the_docs_exists(repository):
    pages = [
        *repository.glob("*.md"),
        *repository.glob("docs/*.md"),
        *repository.glob("*/README.md"),
    ]
    places = r"`((?:ragbench|tests|configs|benchmarks|datasets|docs)/[\w./-]+)`"

    missing = [
        f"{page.name}: {name}"
        for page in pages
        for name in re.findall(places, page.read_text(encoding="utf-8"))
        if not (repository / name).exists()
    ]

    assert missing == []


def test_no_module_is_called_utils(repository):
    names = {path.stem for path in (repository / "ragbench").rglob("*.py")}

    assert not names & {"utils", "helpers", "common", "misc", "manager"}


def test_modules_are_named_by_nouns_of_the_field(repository):
    """Participles, prepositions and metaphors that once were names of modules."""
    names = {path.stem for path in (repository / "ragbench").rglob("*.py")}
    words = "shelf hearing trail given sampled decided looks across either live cells upkeep bench"
    words += " door flight gather regroup fill stale rulings"

    assert not names & set(words.split())
