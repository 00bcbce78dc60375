"""Options, declared once: on the annotated keyword parameters of the component that has them."""

from __future__ import annotations

import functools
import inspect
import operator
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

from ragbench.errors import OptionError


class _Required:
    """The default of an option that has none."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


@dataclass(frozen=True, slots=True)
class Option:
    """What an option means and allows; goes into `Annotated[type, Option(...)]`."""

    help: str
    """One sentence for `list`, the schema and the docs."""
    ge: float | None = None
    """Smallest allowed value."""
    gt: float | None = None
    """Allowed values lie above this one."""
    le: float | None = None
    """Largest allowed value."""
    lt: float | None = None
    """Allowed values lie below this one."""
    refers_to: (
        Literal["path", "path_or_name", "path_or_system", "folder_or_name", "retriever", "object"]
        | None
    ) = None
    """`path`: a file or folder relative to the YAML file; `path_or_name`: a file, or a built-in
    name; `path_or_system`: a file, or a system of the run; `folder_or_name`: a folder, or a name on
    a hub; `retriever`: the name of another one; `object`: `module:name` of Python code."""


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """One option of a component, as its signature declares it."""

    name: str
    annotation: Any
    """The bare type, without `Annotated`."""
    default: Any
    """The default, or `REQUIRED`."""
    option: Option

    @property
    def required(self) -> bool:
        """Whether the option has no default."""
        return self.default is REQUIRED

    @property
    def allowed(self) -> str:
        """What a value must be, as a phrase: `a number from 0 to 1`."""
        return describe_allowed(self.annotation, self.option)

    def check(self, owner: str, value: Any) -> Any:
        """Return the value, or raise an `OptionError` that says what is allowed."""
        if not _matches(self.annotation, self.option, value):
            raise OptionError(owner, self.name, value, self.allowed)
        return value


def declared_options(component: Any) -> dict[str, DeclaredOption]:
    """Read the options of a class or function off its annotated keyword parameters.

    Parameters without an `Option` are inputs, not options, and are left out.

    Raises:
        TypeError: An annotation names something that cannot be resolved.
    """
    target = component.__init__ if inspect.isclass(component) else component
    target = inspect.unwrap(target)
    # fields that a dataclass inherits have their types in the module of the class they come from
    annotated = component if is_dataclass(component) else target
    hints = typing.get_type_hints(annotated, include_extras=True)
    found = {}
    for name, parameter in inspect.signature(target).parameters.items():
        annotation = hints.get(name)
        option = _option_of(annotation)
        if option is None:
            continue
        default = REQUIRED if parameter.default is parameter.empty else parameter.default
        found[name] = DeclaredOption(name, _bare(annotation), default, option)
    return found


def _option_of(annotation: Any) -> Option | None:
    """The `Option` in an annotation, also inside `Annotated[...] | None`."""
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Option):
            return extra
    for part in typing.get_args(annotation):
        if (option := _option_of(part)) is not None:
            return option
    return None


def _bare(annotation: Any) -> Any:
    """The annotation without `Annotated`, unions kept."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    if _is_union(annotation):
        return functools.reduce(operator.or_, map(_bare, typing.get_args(annotation)))
    return annotation


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def describe_allowed(annotation: Any, option: Option | None = None) -> str:
    """Say what a type and its bounds allow, as a phrase for people.

    Example:
        >>> describe_allowed(float, Option("", ge=0, le=1))
        'a number from 0 to 1'
        >>> describe_allowed(typing.Literal["zero", "skip"])
        'zero, skip'
        >>> describe_allowed(int | None, Option("", ge=1))
        'an integer >= 1, or null'
    """
    if _is_union(annotation):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        text = " or ".join(dict.fromkeys(describe_allowed(part, option) for part in parts))
        return text if len(parts) == len(typing.get_args(annotation)) else f"{text}, or null"
    origin = typing.get_origin(annotation) or annotation
    if origin is Literal:
        return ", ".join(str(value) for value in typing.get_args(annotation))
    if origin is bool:
        return "true or false"
    if origin in (int, float):
        noun = "an integer" if origin is int else "a number"
        return f"{noun}{_bounds(option)}"
    if origin is str or origin is Path:
        return "a path" if origin is Path else "text"
    if origin in (list, tuple, Sequence, set, frozenset):
        inner = typing.get_args(annotation)
        return f"a list of {describe_allowed(inner[0])}" if inner else "a list"
    if origin in (dict, Mapping):
        return "a mapping"
    return "anything"


def _bounds(option: Option | None) -> str:
    if option is None:
        return ""
    low, high = option.ge, option.le
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    signs = ((">=", low), (">", option.gt), ("<=", high), ("<", option.lt))
    parts = [f"{sign} {limit:g}" for sign, limit in signs if limit is not None]
    return f" {' and '.join(parts)}" if parts else ""


def _matches(annotation: Any, option: Option, value: Any) -> bool:
    """Whether a value has the type and lies within the bounds; true is never an integer."""
    if _is_union(annotation):
        return any(_matches(part, option, value) for part in typing.get_args(annotation))
    origin = typing.get_origin(annotation) or annotation
    if origin is Literal:
        return any(type(value) is type(a) and value == a for a in typing.get_args(annotation))
    if origin in (int, float):
        numbers = (int,) if origin is int else (int, float)
        if isinstance(value, bool) or not isinstance(value, numbers):
            return False
        return _within(option, value)
    if origin is Path:
        return isinstance(value, (str, Path))
    if origin is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str)
    return origin is Any or isinstance(value, origin)


def _within(option: Option, value: float) -> bool:
    return (
        value == value  # NaN lies nowhere
        and (option.ge is None or value >= option.ge)
        and (option.gt is None or value > option.gt)
        and (option.le is None or value <= option.le)
        and (option.lt is None or value < option.lt)
    )
