"""The text of errors: place, what was found, what is allowed."""

import importlib
import pkgutil
import re

import pytest

import ragbench
from ragbench import errors
from ragbench.errors import (
    AdapterError,
    ConfigError,
    DataError,
    MissingExtra,
    OptionError,
    Problem,
    RagbenchError,
    shorten_names,
)

LINE = "  bm25: {type: bm25, k1: 0.9, b: 1.4}"


def test_problem_quotes_the_line_with_a_caret_below_the_value():
    problem = Problem(
        "1.4 is out of range",
        file="a.yaml",
        line=4,
        column=34,
        path="retrievers.bm25.b",
        allowed="a number from 0 to 1",
        source=LINE,
        width=3,
    )

    head, quoted, caret = str(problem).split("\n")

    assert head == "a.yaml:4:34: retrievers.bm25.b: 1.4 is out of range"
    assert quoted == f"   4 | {LINE}"
    assert caret == "     | " + " " * 33 + "^^^ allowed: a number from 0 to 1"
    assert quoted[caret.index("^") :].startswith("1.4")


def test_problem_in_a_long_line_still_shows_the_value():
    source = "x" * 500 + "VALUE" + "y" * 500
    problem = Problem("odd", file="a", line=1, column=501, source=source, width=5)

    _, quoted, caret = str(problem).split("\n")

    assert len(quoted) < 130
    assert quoted[caret.index("^") : caret.rindex("^") + 1] == "VALUE"


def test_problem_without_a_place_is_one_line():
    problem = Problem("unknown key 'methd'", path="retrievers.x", nearest="method")

    assert str(problem) == "retrievers.x: unknown key 'methd'; did you mean 'method'?"


@pytest.mark.parametrize(("n", "total"), [(1, "1 error in a.yaml"), (2, "2 errors in a.yaml")])
def test_config_error_counts_its_problems(n, total):
    error = ConfigError([Problem("odd", file="a.yaml", line=1)] * n, "a.yaml")

    assert str(error).split("\n")[-1] == f"{total}; nothing was run"
    assert len(error.problems) == n


@pytest.mark.parametrize(
    ("n", "shown"),
    [
        (12, "a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11"),
        (13, "a0, a1, a2, a3, a4, a5, ... (7 more)"),
    ],
)
def test_a_long_list_of_names_is_cut(n, shown):
    assert shorten_names(", ".join(f"a{i}" for i in range(n))) == shown


def test_data_error_names_file_line_and_record():
    error = DataError("not a number", file="q.tsv", line=3, record="query 'q1'", allowed="0..3")

    assert str(error) == "q.tsv:3: query 'q1': not a number; allowed: 0..3"


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (OptionError("map", "k", 0, "an integer >= 1"), ValueError),
        (MissingExtra("dense", "sentence-transformers", "dense"), ImportError),
        (DataError("x"), Exception),
        (AdapterError("x"), Exception),
        (ConfigError([]), Exception),
    ],
)
def test_every_error_is_ours_and_what_it_resembles(error, builtin):
    assert isinstance(error, RagbenchError)
    assert isinstance(error, builtin)
    assert error.exit_code == 2


def _drawn():
    """Name of each class in the tree of `errors.py` -> its parent and its built-in bases."""
    path, found = [], {}
    for line in errors.__doc__.splitlines():
        match = re.match(r"    ((?:[|`] ?[- ]*)*)([A-Z]\w+)(?: \((\w+)\))?  ", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            found[match[2]] = (path[depth - 1] if depth else "Exception", match[3])
    return found


def test_the_tree_of_errors_is_drawn_whole():
    """Every module is read, so that no class can hide."""
    for module in pkgutil.walk_packages(ragbench.__path__, "ragbench."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    seen, rest = {}, [RagbenchError]
    while rest:
        kind = rest.pop()
        rest += kind.__subclasses__()
        if kind.__name__.startswith("_") or not kind.__module__.startswith("ragbench."):
            continue
        first, *others = (base.__name__ for base in kind.__bases__)
        seen[kind.__name__] = (first, others[0] if others else None)

    assert seen == _drawn()


def test_a_missing_value_is_not_told_to_lose_its_quotes():
    assert (
        str(OptionError("map", "k", None, "an integer"))
        == "map: k: found None, allowed: an integer"
    )
    assert str(OptionError("map", "k", "9", "9 or 10", "9")).endswith("9 or 10, without quotes")
