"""`type: "python:module:Name"`: found where the docs say, options checked where possible."""

import sys

import pytest

HEAD = "dataset: {type: beir, path: data}\nretrievers:\n"
MODULE = """
from typing import TYPE_CHECKING, Annotated
from ragbench.registry import Option
if TYPE_CHECKING:
    from nowhere import Unknown

class Declared:
    def __init__(self, *, depth: Annotated[int, Option("Depth.", ge=1)] = 10, mode="a"): ...

class Plain:
    def __init__(self, url, retries=3): ...

class Unresolvable:
    def __init__(self, client: "Unknown" = None): ...

class Greedy:
    def __init__(self, **anything): ...

def function(question, top_k, *, boost=1): ...

ready = Plain("x")
"""


@pytest.fixture(autouse=True)
def module(config_folder, monkeypatch):
    """A module of the user's own in the working directory, forgotten after the test."""
    (config_folder / "mine_of_test.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("mine_of_test", "broken_of_test", "beside_of_test"):
        sys.modules.pop(name, None)


def entry(keys):
    return f"{HEAD}  x: {{type: 'python:mine_of_test:{keys}}}\n"


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ("Declared'", {"depth": 10}),
        ("Declared', depth: 3, mode: b", {"depth": 3, "mode": "b"}),
        ("Plain', url: u", {"url": "u"}),
        ("Unresolvable', client: 3", {"client": 3}),
        ("Greedy', a: 1, b: [2]", {"a": 1, "b": [2]}),
        ("function', boost: 2", {"boost": 2}),
        ("ready'", {}),
    ],
)
def test_options(load, keys, options):
    component = load(entry(keys)).retrievers["x"]

    assert component.options == options
    assert component.timeout == 60.0, "code that we cannot see gets a time limit"


def test_common_keys_are_not_options(load):
    keys = "Plain', url: u, timeout: 5, version: v7, retries: 2"
    component = load(entry(keys)).retrievers["x"]

    assert component.options == {"url": "u"}
    assert (component.timeout, component.version, component.retries) == (5, "v7", 2)


@pytest.mark.parametrize(
    "keys",
    [
        "Declared', depth: 0",
        "Declared', dept: 1",
        "Plain'",
        "Plain', url: u, retrys: 1",
        "Plain', url: u, retries: -1",
        "function', bost: 1",
        "Nothing'",
        "'",
    ],
)
def test_mistakes(lines, keys, assert_message):
    [line] = lines(entry(keys))

    assert_message(line)


@pytest.mark.parametrize("body", ["import nowhere_at_all", "1 / 0", "def f(:", "raise SystemError"])
def test_a_module_that_cannot_be_imported(lines, config_folder, body, assert_message):
    (config_folder / "broken_of_test.py").write_text(body, encoding="utf-8")

    [line] = lines(f"{HEAD}  x: {{type: 'python:broken_of_test:X'}}\n")

    assert_message(line)


def test_the_folder_of_the_yaml_is_searched_too(config_folder):
    from ragbench.config.load import load_config

    (config_folder / "configs").mkdir()
    (config_folder / "configs" / "beside_of_test.py").write_text(
        "def f(q, k): ...\n", encoding="utf-8"
    )
    (config_folder / "configs" / "c.yaml").write_text(
        "dataset: {type: beir, path: ../data}\n"
        "retrievers: {x: {type: 'python:beside_of_test:f'}}\n",
        encoding="utf-8",
    )

    assert load_config("configs/c.yaml").retrievers["x"].cls.__name__ == "f"


def test_packages_in_src_are_found_without_being_installed(config_folder):
    from ragbench.config.load import load_config

    package = config_folder / "src" / "pumps_of_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "search.py").write_text("def f(q, k): ...\n", encoding="utf-8")
    # a package in `src` imports its own modules by its own name
    text = "from pumps_of_test.search import f\n"
    (package / "core.py").write_text(text, encoding="utf-8")
    (config_folder / "c.yaml").write_text(
        "dataset: {type: beir, path: data}\n"
        "retrievers: {x: {type: 'python:pumps_of_test.core:f'}}\n",
        encoding="utf-8",
    )

    assert load_config("c.yaml").retrievers["x"].cls.__name__ == "f"
