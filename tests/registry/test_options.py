"""Options are declared once and checked everywhere alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from ragbench.errors import OptionError
from ragbench.registry import Option, declared_options, describe_allowed


class Component:
    """A component with options of all kinds."""

    def __init__(
        self,
        corpus: list[str],
        *,
        path: Annotated[Path, Option("A file.", refers_to="path")],
        k1: Annotated[float, Option("A number.", ge=0)] = 0.9,
        depth: Annotated[int | None, Option("A cut.", ge=1, le=1000)] = None,
        method: Annotated[Literal["rrf", "sum"], Option("A word.")] = "rrf",
        plain: int = 3,
    ) -> None:
        pass


def test_reads_the_annotated_keywords_alone():
    options = declared_options(Component)

    assert list(options) == ["path", "k1", "depth", "method"]
    assert options["path"].required
    assert not options["k1"].required
    assert options["k1"].default == 0.9
    assert options["depth"].annotation == int | None
    assert options["path"].option.refers_to == "path"


@pytest.mark.parametrize(
    ("name", "value"),
    [("k1", 0), ("k1", 2.5), ("depth", None), ("depth", 1000), ("method", "sum"), ("path", "x")],
)
def test_accepts(name, value):
    assert declared_options(Component)[name].check("component", value) == value


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("k1", -0.1, "a number >= 0"),
        ("k1", "0.9", "a number >= 0"),
        ("k1", float("nan"), "a number >= 0"),
        ("k1", True, "a number >= 0"),
        ("depth", 0, "an integer from 1 to 1000, or null"),
        ("depth", 1.0, "an integer from 1 to 1000, or null"),
        ("depth", False, "an integer from 1 to 1000, or null"),
        ("method", "rff", "rrf, sum"),
        ("path", 3, "a path"),
    ],
)
def test_refuses(name, value, allowed):
    with pytest.raises(OptionError) as caught:
        declared_options(Component)[name].check("component", value)

    assert str(caught.value) == f"component: {name}: found {value!r}, allowed: {allowed}"


@pytest.mark.parametrize(
    ("annotation", "option", "phrase"),
    [
        (int, Option("", gt=0), "an integer > 0"),
        (float, Option("", gt=0, lt=1), "a number > 0 and < 1"),
        (bool, None, "true or false"),
        (list[str], None, "a list of text"),
        (Mapping[str, str], None, "a mapping"),
        (str | list[str], None, "text or a list of text"),
        (Any, None, "anything"),
    ],
)
def test_says_what_is_allowed(annotation, option, phrase):
    assert describe_allowed(annotation, option) == phrase
