"""Options are declared once and checked everywhere alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from ragbench.errors import OptionError
from ragbench.registry import (
    DeclaredOption,
    Option,
    check_values,
    checked,
    declared_options,
    describe_allowed,
    load_object,
)
from ragbench.retrieve.base import Retriever


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
    ("name", "value", "place"),
    [
        ("k1", -0.1, "component: k1"),
        ("k1", "0.9", "component: k1"),
        ("k1", float("nan"), "component: k1"),  # NaN is neither more nor less than 0
        ("k1", True, "component: k1"),  # True is an integer in Python
        ("depth", 0, "component: depth"),
        ("depth", 1.0, "component: depth"),  # a float
        ("depth", False, "component: depth"),
        ("method", "rff", "component: method"),
        ("path", 3, "component: path"),
    ],
)
def test_refuses(name, value, place, assert_message):
    with pytest.raises(OptionError) as caught:
        declared_options(Component)[name].check("component", value)

    assert_message(caught.value, place)


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


@pytest.mark.parametrize(
    ("annotation", "value", "steps"),
    [
        (list[str], ["a", 1, "b", None], [(1,), (3,)]),
        (list[Annotated[int, Option("", ge=0)]], [0, -1], [(1,)]),
        (Mapping[str, str | None], {"a": None, "b": 1}, [("b",)]),
        (Mapping[str, Any], {1: "a"}, [()]),
        (dict[str, list[int]], {"a": [1, True]}, [("a", 1)]),
        (str | list[str], 1, [()]),
        (str | list[str], [1], [(0,)]),
        (tuple[str, int], ("a", "b"), []),  # left to the component
        (tuple[str, ...], ["a", "b"], []),
    ],
)
def test_says_which_part_is_wrong(annotation, value, steps):
    mismatches = DeclaredOption("x", annotation, None, Option("")).mismatches(value)

    assert [mismatch.steps for mismatch in mismatches] == steps


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 10**400])
def test_a_number_is_finite(value):
    [mismatch] = DeclaredOption("x", float | None, None, Option("")).mismatches(value)

    assert mismatch.out_of_range


def test_a_function_checks_what_it_declares(assert_message):
    def scale(value, *, by: Annotated[float, Option("Factor.", gt=0)] = 1.0):
        return value * by

    assert checked("scale", scale)(3, by=2) == 6
    with pytest.raises(OptionError) as caught:
        checked("scale", scale)(3, by=0)
    assert_message(caught.value, "scale: by")


def test_a_name_that_is_not_declared_says_the_nearest():
    declared = declared_options(Component)

    with pytest.raises(OptionError, match="did you mean 'depth'"):
        check_values("component", declared, {"dept": 3})


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Declare the options that two components share."""

    timeout: Annotated[float, Option("Seconds.", gt=0)] = 60.0
    name: Annotated[str, Option("A name.")]


@dataclass(frozen=True, kw_only=True)
class OwnComponent(Shared):
    """Declare an option of its own, and another default for a shared option."""

    depth: Annotated[int, Option("A cut.")]
    timeout: Annotated[float, Option("Seconds.", gt=0)] = 5.0


class Declaring:
    """Takes the fields of a dataclass."""

    declares = OwnComponent

    def __init__(self, **options: Any) -> None:
        self.options = OwnComponent(**options)


class Inheriting(Declaring):
    """Has the constructor of the other one."""


class Rewriting(Declaring):
    """Has a constructor of its own, and with it options of its own."""

    def __init__(self, *, size: Annotated[int, Option("A size.")]) -> None:
        super().__init__(depth=size, name="")


@pytest.mark.parametrize("component", [OwnComponent, Declaring, Inheriting])
def test_options_that_are_inherited_come_after_those_of_its_own(component):
    options = declared_options(component)

    assert list(options) == ["depth", "timeout", "name"]
    assert [option.required for option in options.values()] == [True, False, True]
    assert options["timeout"].default == 5.0


class RewritingRecord(OwnComponent):
    """A record's subclass with a constructor of its own."""

    def __init__(self, *, size: Annotated[int, Option("A size.")]) -> None:
        super().__init__(depth=size, name="")


@pytest.mark.parametrize("component", [Rewriting, RewritingRecord])
def test_a_constructor_of_its_own_declares_for_itself(component):
    assert list(declared_options(component)) == ["size"]


@pytest.mark.parametrize(
    ("path", "options", "place"),
    [
        ("retrieve.bm25:BM25", {"k1": -5}, "bm25: k1"),
        ("retrieve.bm25:BM25", {"b": "x"}, "bm25: b"),
        ("retrieve.dense:Dense", {"index": "tree"}, "dense: index"),
        ("rerank.mmr:MMR", {"lambda_mult": 2}, "mmr: lambda_mult"),
        ("generate.extractive:Extractive", {"language": 3}, "extractive: language"),
        (
            "generate.chat:OpenAIGenerator",
            {"model": "m", "client": print, "temperature": -1},
            "openaigenerator: temperature",
        ),
    ],
)
def test_a_component_that_is_created_in_python_takes_the_values_of_a_config(
    path, options, place, assert_message
):
    with pytest.raises(OptionError) as caught:
        load_object(f"ragbench.{path}")(**options)
    assert_message(caught.value, place)


def test_a_component_of_a_user_is_not_checked():
    # Its annotations need not be there when the program runs

    class Own(Retriever):
        def __init__(self, *, index=None):
            self.size = index

    Own.__init__.__annotations__ = {"index": "Annotated[NotImported, Option()]"}
    assert Own(index=3).size == 3
