"""Single values against declared options: every kind of type that a component may declare."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from ragbench.config.options import INVALID, check_value
from ragbench.config.tree import PythonReader, Report
from ragbench.registry import DeclaredOption, Option


def check(annotation, value, **bounds):
    """The value as it is taken, or the problems as `path: found; allowed`."""
    report = Report()
    item = PythonReader(report).read(value, ("x",))
    value_read = check_value(
        item, DeclaredOption("x", annotation, None, Option("", **bounds)), report
    )
    return (
        [f"{p.path}: {p.found}; {p.allowed}" for p in report]
        if value_read is INVALID
        else value_read
    )


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, 3, 3),
        (float, 3, 3.0),
        (bool, True, True),
        (str, "3", "3"),
        (Path, "a/b", Path("a/b")),
        (list[str], ["a"], ["a"]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Sequence[str], ["a"], ["a"]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Mapping[str, Any], {"a": [None]}, {"a": [None]}),
        (int | None, None, None),
        (str | list[str], ["a"], ["a"]),
        (Literal["a", "b"], "b", "b"),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
    ],
)
def test_right_values_keep_or_get_their_type(annotation, value, expected):
    value_read = check(annotation, value)

    assert value_read == expected
    assert type(value_read) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, True),
        (int, 1.0),
        (float, "1e-3"),
        (bool, 1),
        (str, 3),
        (list[str], "a"),
        (list[str], ["a", 1, None]),
        (dict[str, int], {"a": "b"}),
        (int | None, "a"),
        (str | list[str], ["a", 1]),
        (Literal["a", "b"], "c"),
        (Literal[9, 10], "10"),
    ],
)
def test_wrong_values_have_their_own_problems(annotation, value, assert_message):
    assert_message(check(annotation, value))


@pytest.mark.parametrize("value", [0, 0.5, 1])
def test_bounds_that_belong_to_the_range(value):
    assert check(float | None, value, ge=0, le=1) == value


@pytest.mark.parametrize("value", [-0.1, 1.1, float("inf"), float("nan")])
def test_out_of_range(value, assert_message):
    [problem] = check(float | None, value, ge=0, le=1)

    assert_message(problem)


@pytest.mark.parametrize(("value", "fits"), [(0, False), (1, False), (0.5, True)])
def test_bounds_that_do_not_belong_to_the_range(value, fits):
    assert (check(float, value, gt=0, lt=1) == value) is fits
