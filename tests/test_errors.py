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


def test_problem_quotes_the_line_with_a_caret_below_the_value(assert_message):
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

    assert_message(head)
    assert quoted == f"   4 | {LINE}"
    assert_message(caret)
    assert quoted[caret.index("^") :].startswith("1.4")


def test_problem_in_a_long_line_still_shows_the_value():
    source = "x" * 500 + "VALUE" + "y" * 500
    problem = Problem("odd", file="a", line=1, column=501, source=source, width=5)

    _, quoted, caret = str(problem).split("\n")

    assert len(quoted) < 130
    assert quoted[caret.index("^") : caret.rindex("^") + 1] == "VALUE"


def test_problem_without_a_place_is_one_line(assert_message):
    problem = Problem("unknown key 'methd'", path="retrievers.x", nearest="method")

    assert_message(str(problem))


@pytest.mark.parametrize(("n", "total"), [(1, "1 error in a.yaml"), (2, "2 errors in a.yaml")])
def test_config_error_counts_its_problems(n, total):
    error = ConfigError([Problem("odd", file="a.yaml", line=1)] * n, "a.yaml")

    assert str(error).split("\n")[-1] == f"{total}; nothing was run"
    assert len(error.problems) == n


@pytest.mark.parametrize(
    ("n", "short"),
    [
        (12, "a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11"),
        (13, "a0, a1, a2, a3, a4, a5, ... (7 more)"),
    ],
)
def test_a_long_list_of_names_is_cut(n, short):
    assert shorten_names(", ".join(f"a{i}" for i in range(n))) == short


def test_data_error_names_file_line_and_record(assert_message):
    error = DataError("not a number", file="q.tsv", line=3, record="query 'q1'", allowed="0..3")

    assert_message(str(error))


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
    path, tree = [], {}
    for line in errors.__doc__.splitlines():
        match = re.match(r"    ((?:[|`] ?[- ]*)*)([A-Z]\w+)(?: \((\w+)\))?  ", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            tree[match[2]] = (path[depth - 1] if depth else "Exception", match[3])
    return tree


def test_the_tree_of_errors_is_drawn_whole():
    # Every module is read, so that no class can hide.
    for module in pkgutil.walk_packages(ragbench.__path__, "ragbench."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    tree, kinds = {}, [RagbenchError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__name__.startswith("_") or not kind.__module__.startswith("ragbench."):
            continue
        first, *mixins = (base.__name__ for base in kind.__bases__)
        tree[kind.__name__] = (first, mixins[0] if mixins else None)

    assert tree == _drawn()


def test_a_missing_value_is_not_told_to_lose_its_quotes(assert_message):
    assert_message(str(OptionError("map", "k", None, "an integer")))
    assert str(OptionError("map", "k", "9", "9 or 10", "9")).endswith("9 or 10, without quotes")
