"""The shape of the package: directions of imports, and the page that describes it."""

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.house import COMPLEX_FUNCTION, LONG_FUNCTION, count_paths, read_once, read_package


@pytest.mark.costly
def test_imports_point_down(repository):
    tool = Path(sys.executable).parent / "lint-imports"
    if not tool.exists():
        tool = Path(shutil.which("lint-imports") or pytest.fail("import-linter is not installed"))

    done = subprocess.run(
        [tool, "--no-cache"], cwd=repository, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


LARGE_PACKAGES = (
    "bert_score|datasets|faiss|fastapi|mlflow|nltk|pandas|polars|pyarrow|ray|rouge_score|scipy"
    "|sentence_transformers|sklearn|torch|transformers"
)


def test_modules_of_tests_import_large_packages_when_they_use_them(repository):
    # each worker collects all modules, and would import them: tests/lazy.py
    modules = []
    for file in repository.glob("tests/**/*.py"):
        head = re.split(r"^(?:def|class|@)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[
            0
        ]
        if re.search(rf"^(?:import|from) (?:{LARGE_PACKAGES})\b", head, re.MULTILINE):
            modules.append(file.relative_to(repository).as_posix())

    assert modules == []


@pytest.fixture(scope="module")
def reports(repository):
    """Places of each kind in all files: to parse the package takes seconds."""
    places = defaultdict(list)
    for file in read_once(repository / "ragbench"):
        places["long functions"] += file.long_functions()
        places["complex functions"] += file.complex_functions()
        places["dense expressions"] += file.dense_expressions()
        places["stray strings"] += file.stray_strings()
    return places


def test_functions_are_short(reports):
    assert reports["long functions"] == []


def test_functions_have_few_paths(reports):
    assert reports["complex functions"] == []


def test_expressions_are_not_dense(reports):
    assert reports["dense expressions"] == []


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("pass", 1),
        ("if a and b or c: pass", 4),
        ("return [x for x in y if x if z] if y else ()", 5),
        ("for x in y: pass\n    else: pass", 3),
        ("try: pass\n    except A: pass\n    except B: pass", 3),
        ("def inner():\n        if a: pass", 1),
    ],
)
def test_paths_are_counted_as_by_radon(body, paths):
    (function,) = ast.parse(f"def f():\n    {body}").body

    assert count_paths(function) == paths


def test_a_complex_function_is_reported(tmp_path):
    names = [f"a{i}" for i in range(COMPLEX_FUNCTION)]
    (tmp_path / "module.py").write_text(
        f"def simple():\n    return {' or '.join(names)}\n\n"
        f"def complex():\n    return {' or '.join(names)} or b\n"
    )

    (file,) = read_package(tmp_path)

    assert file.complex_functions() == ["module.py:4 complex"]


def test_a_dense_expression_is_reported(tmp_path):
    (tmp_path / "module.py").write_text(
        "A = [x for y in z for x in y]\n"
        "B = [x for y in z for x in y if x]\n"
        "C = 1 if a else 2\n"
        "D = 1 if a else 2 if b else 3\n"
        "E = {\n    x\n    for x in y\n}\n"
        "F = {\n    x:\n    1\n    for x in y\n}\n"
    )

    (file,) = read_package(tmp_path)

    places = sorted(place.split(":")[1] for place in file.dense_expressions())
    assert places == ["2 two `for` and a condition", "4 nested conditional", "9 long comprehension"]


def test_a_long_function_is_reported(tmp_path):
    body = "    a = 1\n" * LONG_FUNCTION
    (tmp_path / "module.py").write_text(
        f'def long():\n{body}\n\ndef short():\n    """Text."""\n{body[10:]}'
    )

    (file,) = read_package(tmp_path)

    assert file.long_functions() == ["module.py:1 long"]


def test_every_string_documents_something(reports):
    # A definition that moves may leave the text below it behind.
    assert reports["stray strings"] == []


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
