"""Options, declared once: on the annotated keyword parameters of the component that has them.

Options that several components share are fields of keyword-only dataclasses that inherit from each
other; a component whose constructor takes such a dataclass's fields names it by `declares`.
What is declared is checked here and nowhere else: for YAML, for Python, for names of scores.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from ragbench.errors import OptionError
from ragbench.registry.family import nearest

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="Configured")

_LISTS = (list, tuple, set, frozenset)
_OR_NULL = ", or null"


# The default of an option that has none.
REQUIRED = inspect.Parameter.empty

# What a text may name; see `Option.refers_to`.
Reference = Literal[
    "path", "path_or_name", "path_or_system", "folder_or_name", "retriever", "object", "code"
]


@dataclass(frozen=True, slots=True)
class Option:
    """What an option means, and its bounds; goes into `Annotated[type, Option(...)]`.

    Attributes:
        help: One sentence for `list`, the schema and the docs.
        refers_to: `path`: a file or folder relative to the YAML file; `path_or_name`: a file, or a
            built-in name; `path_or_system`: a file, or a system of the run; `folder_or_name`: a
            folder, or a name on a hub; `retriever`: the name of another one; `object`:
            `module:name` of Python code; `code`: a word of the declaration, or
            `python:module:name`.
        secret: Whether what it holds is a secret: it is sent, and written nowhere.
    """

    help: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    refers_to: Reference | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """One option of a component, as its signature declares it.

    Attributes:
        annotation: The bare type, without `Annotated`.
    """

    name: str
    annotation: Any
    default: Any
    option: Option

    @property
    def required(self) -> bool:
        """Whether the option has no default."""
        return self.default is REQUIRED

    @property
    def allowed(self) -> str:
        """What a value must be, as a phrase: `a number from 0 to 1`."""
        return describe_allowed(self.annotation, self.option)

    def mismatches(self, value: Any) -> list[Mismatch]:
        """Return the parts of a value that are not what was declared; none where all is well."""
        return _mismatches(self.annotation, self.option, value, ())

    def check(self, owner: str, value: Any) -> Any:
        """Return the value, or raise an `OptionError` that says what is allowed."""
        if wrong := self.mismatches(value):
            near = nearest(value, wrong[0].words) if isinstance(value, str) else None
            raise OptionError(owner, self.name, value, self.allowed, near)
        return value

    def converted(self, value: Any) -> Any:
        """Return a value without mismatches in the declared type: a list as a tuple, 1 as 1.0."""
        return _converted(self.annotation, value)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value, or a part of one, that is not what was declared.

    Attributes:
        steps: The indices and keys that lead to it; none is the value itself.
        out_of_range: Whether it is a number of the right type, beyond the bounds.
    """

    steps: tuple[int | str, ...]
    annotation: Any
    option: Option | None
    out_of_range: bool

    @property
    def allowed(self) -> str:
        """What it must be, bounds included."""
        return describe_allowed(self.annotation, self.option)

    @property
    def wanted(self) -> str:
        """What it is not: the type alone."""
        return describe_allowed(self.annotation).removesuffix(_OR_NULL)

    @property
    def words(self) -> list[str]:
        """The words of a choice; empty where anything else is allowed too."""
        kinds = typing.get_args(self.annotation) if _is_union(self.annotation) else ()
        first, *others = [kind for kind in kinds if kind is not types.NoneType] or [self.annotation]
        is_choice = not others and typing.get_origin(first) is Literal
        return [str(word) for word in typing.get_args(first)] if is_choice else []


def declared_options(component: Any) -> dict[str, DeclaredOption]:
    """Read the options of a class or function off its annotated keyword parameters.

    Parameters without an `Option` are inputs, not options, and are left out.
    """
    may_be_kept = inspect.isclass(component) or inspect.isfunction(component)
    return {**_declared(component)} if may_be_kept else _read(component)


class Configured:
    """A component that remembers the options that its constructor got.

    Copies of it in workers and the keys of what it stores are made of `options_of`, so that an
    option stands in the constructor and nowhere else.
    """

    _given_options: Mapping[str, Any]

    def __new__(cls: type[C], *args: Any, **options: Any) -> C:
        """Create the component; `__init__` gets the same arguments."""
        component = super().__new__(cls)
        component._given_options = options
        return component


def options_of(component: Configured) -> dict[str, Any]:
    """Return the options of a component by name, with the defaults of its class.

    Example:
        >>> from ragbench.retrieve.bm25 import BM25
        >>> options = options_of(BM25(k1=1.2))
        >>> options["k1"], options["b"]
        (1.2, 0.4)
    """
    declared = declared_options(type(component))
    defaults = {n: option.default for n, option in declared.items() if not option.required}
    return {**defaults, **component._given_options}


def _read(component: Any) -> dict[str, DeclaredOption]:
    found = {}
    for name, annotation, default in _parameters(component):
        option = option_in(annotation)
        if option is not None:
            found[name] = DeclaredOption(name, _bare(annotation), default, option)
    return found


# a config looks at each component dozens of times, and to evaluate annotations takes longest
_declared = functools.lru_cache(maxsize=512)(_read)


def check_values(
    owner: str, declared: Mapping[str, DeclaredOption], values: Mapping[str, Any]
) -> None:
    """Raise an `OptionError` for a name that is not declared, or a value that is not allowed."""
    for name, value in values.items():
        if name not in declared:
            allowed = ", ".join(declared) or "no options"
            raise OptionError(owner, "options", name, allowed, nearest(name, declared))
        declared[name].check(owner, value)


def checked(owner: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that checks the options that it declares before it runs.

    A value outside what is allowed raises an `OptionError`; other parameters are left alone.
    """
    # read on the first call: annotations may name what its module defines further down
    declared = functools.cache(lambda: declared_options(function))

    # the same few values come with call after call, and a look at a type costs some microseconds
    @functools.lru_cache(maxsize=256, typed=True)
    def allow(name: str, value: object) -> None:
        if name in declared():
            declared()[name].check(owner, value)

    @functools.wraps(function)
    def run(*args: P.args, **options: P.kwargs) -> R:
        for name, value in options.items():
            try:
                allow(name, value)
            except TypeError:  # a value that cannot be remembered, as a list
                allow.__wrapped__(name, value)
        return function(*args, **options)

    return run


def _parameters(component: Any) -> Iterator[tuple[str, Any, Any]]:
    if inspect.isclass(component):
        # the class that defines the constructor says what it takes
        owner = next(c for c in component.__mro__ if vars(c).keys() & {"__init__", "declares"})
        component = vars(owner).get("declares", owner)
        is_record: bool = dataclasses.is_dataclass(component)
        if is_record:
            by_name = {field.name: field for field in dataclasses.fields(component) if field.init}
            # other names: a constructor that was written by hand
            if by_name.keys() == inspect.signature(component).parameters.keys():
                yield from _fields(component, by_name)
                return
    target = inspect.unwrap(component.__init__ if inspect.isclass(component) else component)
    hints = typing.get_type_hints(target, include_extras=True)
    for name, parameter in inspect.signature(target).parameters.items():
        yield name, hints.get(name), parameter.default


def _fields(
    record: Any, by_name: Mapping[str, dataclasses.Field[Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """The fields of a dataclass: its own before those that it shares, in the order of its bases."""
    hints = typing.get_type_hints(record, include_extras=True)
    names: dict[str, None] = {}
    for cls in reversed(record.__mro__):
        # what it declares anew of theirs, such as another default, keeps their place
        new = [name for name in vars(cls).get("__annotations__", ()) if name not in names]
        names = dict.fromkeys([*new, *names])
    for field in (by_name[name] for name in names if name in by_name):
        default = REQUIRED if field.default is dataclasses.MISSING else field.default
        yield field.name, hints[field.name], default


def option_in(annotation: Any) -> Option | None:
    """Return the `Option` in an annotation, also inside `Annotated[...] | None`."""
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Option):
            return extra
    for part in typing.get_args(annotation):
        if (option := option_in(part)) is not None:
            return option
    return None


def _peeled(annotation: Any, option: Option | None) -> tuple[Any, Option | None]:
    """The annotation of an element without `Annotated`, and the bounds in it."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(annotation), option_in(annotation)
    return annotation, option


def _bare(annotation: Any) -> Any:
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    if _is_union(annotation):
        return functools.reduce(operator.or_, map(_bare, typing.get_args(annotation)))
    return annotation


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def describe_allowed(annotation: Any, option: Option | None = None) -> str:
    """Say what a type and its bounds allow, as a phrase for people."""
    annotation, option = _peeled(annotation, option)
    if _is_union(annotation):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        text = " or ".join(dict.fromkeys(describe_allowed(part, option) for part in parts))
        return text if len(parts) == len(typing.get_args(annotation)) else f"{text}{_OR_NULL}"
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
    if origin in _LISTS:
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


def _mismatches(
    annotation: Any, option: Option | None, value: Any, steps: tuple[int | str, ...]
) -> list[Mismatch]:
    """The parts of a value that do not have their type or lie out of bounds, the deepest ones."""
    annotation, option = _peeled(annotation, option)
    if _is_union(annotation):
        members = [
            _mismatches(member, option, value, steps) for member in typing.get_args(annotation)
        ]
        return _wrong_for_all(members, annotation, option, steps) if all(members) else []
    kind = typing.get_origin(annotation) or annotation
    if not _is_a(kind, annotation, value):
        return [Mismatch(steps, annotation, option, out_of_range=False)]
    if kind in (int, float) and not _within(kind, option, value):
        return [Mismatch(steps, annotation, option, out_of_range=True)]
    return [
        mismatch
        for step, declared, part in _parts(kind, annotation, value)
        for mismatch in _mismatches(declared, None, part, (*steps, step))
    ]


def _wrong_for_all(
    members: list[list[Mismatch]], union: Any, option: Option | None, steps: tuple[int | str, ...]
) -> list[Mismatch]:
    """What is wrong with a value for every member of a union, each place once."""
    found: dict[tuple[int | str, ...], Mismatch] = {}
    for mismatch in (mismatch for member in members for mismatch in member):
        known = found.setdefault(mismatch.steps, mismatch)
        is_out = known.out_of_range or mismatch.out_of_range
        found[mismatch.steps] = replace(known, out_of_range=is_out)
    whole = found.pop(steps, None)
    # a list with one wrong element is meant as a list: the element is what is to be mended
    if found or whole is None:
        return list(found.values())
    return [replace(whole, annotation=union, option=option)]


def _is_a(kind: Any, annotation: Any, value: Any) -> bool:
    """Whether a value has a type, its parts aside; true is never an integer."""
    arguments = typing.get_args(annotation)
    if kind is Literal:
        return any(type(value) is type(word) and value == word for word in arguments)
    if kind in (int, float):
        numbers = (int,) if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if kind is Path:
        return isinstance(value, (str, Path))
    if kind in _LISTS:  # YAML has one kind of list, which stands for all
        return isinstance(value, (list, tuple, kind))
    if isinstance(value, Mapping) and arguments[:1] == (str,):
        return isinstance(value, kind) and all(isinstance(key, str) for key in value)
    # what is no class, such as a type variable, is left to the component
    return kind is Any or not inspect.isclass(kind) or isinstance(value, kind)


def _parts(kind: Any, annotation: Any, value: Any) -> Iterator[tuple[int | str, Any, Any]]:
    """Step, declared type and value of each element of a list, or value of a mapping."""
    arguments = typing.get_args(annotation)
    # a tuple with a type for each of its elements is left to the component
    if kind in _LISTS and len(set(arguments) - {...}) == 1:
        for index, part in enumerate(value):
            yield index, arguments[0], part
    elif isinstance(value, Mapping) and len(arguments) == 2:
        for key, part in value.items():
            yield key, arguments[1], part


def _converted(annotation: Any, value: Any) -> Any:
    annotation, _ = _peeled(annotation, None)
    if _is_union(annotation):
        members = [m for m in typing.get_args(annotation) if not _mismatches(m, None, value, ())]
        exact = [m for m in members if (typing.get_origin(m) or m) is type(value)]
        return _converted([*exact, *members][0], value)
    kind = typing.get_origin(annotation) or annotation
    if kind in (float, Path):
        return kind(value)
    parts = _parts(kind, annotation, value)
    if isinstance(value, Mapping):
        return {**value, **{step: _converted(declared, part) for step, declared, part in parts}}
    if kind in _LISTS:
        return kind([_converted(declared, part) for _, declared, part in parts] or value)
    return value


def _within(kind: Any, option: Option | None, value: float) -> bool:
    if kind is float and not abs(value) <= sys.float_info.max:
        return False  # not finite: no sense in any option, and NaN lies nowhere
    return option is None or (
        (option.ge is None or value >= option.ge)
        and (option.gt is None or value > option.gt)
        and (option.le is None or value <= option.le)
        and (option.lt is None or value < option.lt)
    )
