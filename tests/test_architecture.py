"""The shape of the package: directions of imports, and the page that describes it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import LONG_FUNCTION, read_once, read_package


@pytest.mark.costly
def test_imports_point_down(repository):
    tool = Path(sys.executable).parent / "lint-imports"
    if not tool.exists():
        tool = Path(shutil.which("lint-imports") or pytest.fail("import-linter is not installed"))

    done = subprocess.run(
        [tool, "--no-cache"], cwd=repository, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def reports(repository):
    """Long functions and stray strings of each file: to parse the package takes seconds."""
    files = read_once(repository / "ragbench")
    return [(file.long_functions(), file.stray_strings()) for file in files]


def test_functions_are_short(reports):
    # Ruff checks complexity and parameters; no other size has a limit.
    assert [name for functions, _ in reports for name in functions] == []


def test_a_long_function_is_reported(tmp_path):
    body = "    a = 1\n" * LONG_FUNCTION
    (tmp_path / "module.py").write_text(
        f'def long():\n{body}\n\ndef short():\n    """Text."""\n{body[10:]}'
    )

    (file,) = read_package(tmp_path)

    assert file.long_functions() == ["module.py:1 long"]


def test_every_string_documents_something(reports):
    # A definition that moves may leave the text below it behind.
    assert [place for _, strings in reports for place in strings] == []


def test_a_string_that_documents_nothing_is_reported(tmp_path):
    (tmp_path / "module.py").write_text(
        '"""Of the module."""\n'
        'A = 1\n"""Of A."""\n"""Of nothing."""\n'
        'class B:\n    """Of B."""\n    c: int = 1\n    """Of c."""\n"""Of nothing."""\n'
        'if A:\n    """Of nothing."""\n'
        'else:\n    D = 1\n    """Of D."""\n'
        'def f():\n    """Of f."""\n    f()\n    """Of nothing."""\n'
    )

    (file,) = read_package(tmp_path)

    lines = [place.rpartition(":")[2] for place in file.stray_strings()]
    assert sorted(map(int, lines)) == [4, 9, 11, 18]


def test_every_folder_is_on_the_architecture_page(repository):
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [p.name for p in (repository / "ragbench").iterdir() if (p / "__init__.py").exists()]

    missing = [name for name in folders if f"{name}/" not in page]

    assert not missing


def test_every_path_on_the_architecture_page_exists(repository):
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:[\w-]+/)*[\w-]+(?:/|\.py))`", page))

    def exists(name):
        package = repository / "ragbench"
        return (repository / name).exists() or any(package.glob(f"**/{name}"))

    assert len(names) > 40
    assert [name for name in sorted(names) if not exists(name)] == []


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
    # Participles, prepositions and metaphors that once were names of modules.
    names = {path.stem for path in (repository / "ragbench").rglob("*.py")}
    words = "shelf hearing trail given sampled decided looks across either live cells upkeep bench"
    words += " door flight gather regroup fill stale rulings"

    assert not names & set(words.split())
