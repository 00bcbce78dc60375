"""The public surface: names, what importing costs, and that nothing shadows anything."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ragbench
from tests.conftest import GOLDEN
from tests.surface import list_surface

HEAVY = [
    *("numpy", "yaml", "click", "pydantic", "rich", "jinja2", "scipy", "sklearn", "pandas"),
    *(
        "torch",
        "transformers",
        "openai",
        "langchain_core",
        "nltk",
        "rouge_score",
        "sacrebleu",
        "bm25s",
    ),
    "pyarrow",
]


def loaded_by(code):
    """The heavy packages that a fresh interpreter has loaded after some code."""
    probe = f"{code}\nimport sys; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_all_is_the_map_of_names():
    names = [name for names in ragbench._HOMES.values() for name in names]

    assert sorted([*names, "__version__"]) == ragbench.__all__
    assert dir(ragbench) == ragbench.__all__


def test_names_commands_and_keys_that_users_write_are_still_there(request, golden):
    # A name that is gone breaks code or configs of users. `make golden` lists new ones.
    surface = list_surface()
    if request.config.getoption("--update-golden"):
        golden("surface.txt", surface)

    listed = (GOLDEN / "surface.txt").read_text(encoding="utf-8").splitlines()

    assert sorted({*listed} - {*surface.splitlines()}) == []


def test_every_name_works_after_every_module_was_imported():
    # A function `compare` would be shadowed by a folder `compare/` once that is imported.
    modules = [m.name for m in pkgutil.walk_packages(ragbench.__path__, "ragbench.")]
    for module in modules:
        if module != "ragbench.__main__":
            importlib.import_module(module)

    top_level = {module.split(".")[1] for module in modules}
    assert not top_level & set(ragbench.__all__)
    for name in ragbench.__all__:
        assert not isinstance(getattr(ragbench, name), type(sys)), f"{name} is a module"


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'ndgc'"):
        ragbench.ndgc  # noqa: B018 - the access is the test


@pytest.mark.costly
@pytest.mark.parametrize(
    "code",
    [
        "import ragbench",
        "import ragbench as rb; rb.ndcg(['a'], {'a': 1}, k=5)",
        "import ragbench as rb; rb.average_precision(['a'], {'a'})",
        "import ragbench as rb; rb.token_f1('a', 'a'), rb.exact_match('a', 'a')",
    ],
)
def test_loads_nothing_heavy(code):
    assert loaded_by(code) == []


@pytest.mark.costly
@pytest.mark.parametrize(
    ("code", "package"),
    [
        ("from ragbench import rouge; rouge('a fox', 'the fox')['rouge1']", "rouge_score"),
        ("from ragbench import bleu; bleu('a fox', ['the fox']).score", "sacrebleu"),
    ],
)
def test_a_text_is_scored_with_the_package_of_its_metric_alone(code, package):
    assert set(loaded_by(code)) <= {package}, "neither NumPy nor nltk"


@pytest.mark.costly
def test_evaluating_a_run_loads_numpy_alone():
    code = (
        "import ragbench as rb; rb.evaluate_run({'q': {'a': 1.0}}, {'q': {'a': 1}}, ['map']).mean"
    )

    assert loaded_by(code) == ["numpy"]


@pytest.mark.costly
@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_loads_click_alone(argument):
    trace = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ragbench", argument],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    modules = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in trace.splitlines()}

    assert modules & set(HEAVY) == {"click"}


def test_types_are_shipped():
    assert (Path(ragbench.__file__).parent / "py.typed").exists()


def test_functions_of_statistics_come_from_the_modules_that_type_checkers_read():
    stats = importlib.import_module("ragbench.stats")

    for name, home in stats._HOME_OF.items():
        assert getattr(stats, name).__module__ == f"ragbench.stats.{home}"
