"""Options, declared once: on the annotated keyword parameters of the component that has them.

Options that several components share are fields of option sets (`OptionSet`) that inherit from each
other; a component whose constructor takes the options of such a set names it by `declares`.
Declared values are checked here and nowhere else: for YAML, for Python, for names of scores.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from ragbench.errors import OptionError
from ragbench.registry.family import nearest
from ragbench.types.lookups import all_are, attributes_of, select_in_order

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform as dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Callable[[type], type]:
        """Return a decorator that changes nothing: only type checkers read the options."""
        return lambda cls: cls


P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="Configured")
S = TypeVar("S", bound="OptionSet")

_LISTS = (list, tuple, set, frozenset)
_OR_NULL = ", or null"

# Default of a required option
REQUIRED = inspect.Parameter.empty

# Kinds of things that a text may name; see `Option.refers_to`
Reference = Literal[
    "path", "path_or_name", "path_or_system", "folder_or_name", "retriever", "object", "code"
]


@dataclass(frozen=True, slots=True)
class Option:
    """Meaning and bounds of an option, as `Annotated[type, Option(...)]`.

    Bounds are of the value itself; elements of a list need an `Annotated` type of their own.

    Attributes:
        help: One sentence for `ragbench list`, the JSON Schema and the docs.
        ge: Smallest allowed number.
        gt: The number must be greater than this.
        le: Largest allowed number.
        lt: The number must be less than this.
        refers_to: `path`: a file or folder relative to the YAML file; `path_or_name`: a file, or a
            built-in name; `path_or_system`: a file, or a system of the run; `folder_or_name`: a
            folder, or a name on a hub; `retriever`: the name of another retriever; `object`:
            `module:name` of Python code; `code`: a word of the declaration, or
            `python:module:name`.
        secret: True if its value is a secret, which is sent and written nowhere.
    """

    help: str = ""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    refers_to: Reference | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """An option of a component, as the signature declares it; `declared_options` returns these.

    Attributes:
        name: Name of the parameter.
        annotation: The type, without `Annotated`.
        default: Default value; `REQUIRED` without one.
        option: Help and bounds.
    """

    name: str
    annotation: Any
    default: Any
    option: Option

    @property
    def required(self) -> bool:
        """True if the option has no default."""
        return self.default is REQUIRED

    @property
    def allowed(self) -> str:
        """Allowed values as a phrase: `a number from 0 to 1`."""
        return describe_allowed(self.annotation, self.option)

    def mismatches(self, value: Any) -> list[Mismatch]:
        """Return the parts of a value with a wrong type or out of bounds; empty if it is valid."""
        return _mismatches(self.annotation, self.option, value, ())

    def check(self, owner: str, value: Any) -> Any:
        """Return the value itself, not converted, if it is valid.

        `owner` is the component or function, for the message.

        Raises:
            OptionError: The value has a wrong type or is out of bounds.
        """
        if mismatches := self.mismatches(value):
            near = nearest(value, mismatches[0].words) if isinstance(value, str) else None
            raise OptionError(owner, self.name, value, self.allowed, near)
        return value

    def converted(self, value: Any) -> Any:
        """Return a valid value in the declared type: a list as a tuple, 1 as 1.0."""
        return _converted(self.annotation, value)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value, or a part of one, that does not fit its declaration, as `mismatches` returns it.

    Attributes:
        steps: Indices and keys that lead to the part; empty for the value itself.
        annotation: Declared type of the part.
        option: Bounds of the part; None without any.
        out_of_range: True if it is a number of the right type, out of bounds.
    """

    steps: tuple[int | str, ...]
    annotation: Any
    option: Option | None
    out_of_range: bool

    @property
    def allowed(self) -> str:
        """Allowed values as a phrase, bounds included."""
        return describe_allowed(self.annotation, self.option)

    @property
    def type_text(self) -> str:
        """Declared type as a phrase, without bounds."""
        return describe_allowed(self.annotation).removesuffix(_OR_NULL)

    @property
    def words(self) -> list[str]:
        """Words of a choice, as text; empty if the declared type is no choice alone.

        `null` is no word.
        """
        kinds = typing.get_args(self.annotation) if _is_union(self.annotation) else ()
        kind, *rivals = [kind for kind in kinds if kind is not types.NoneType] or [self.annotation]
        is_choice = not rivals and typing.get_origin(kind) is Literal
        return [str(word) for word in typing.get_args(kind)] if is_choice else []


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field,)
)
@dataclass(frozen=True, kw_only=True)
class OptionSet:
    """Options of a component, of a gate, or of a block of a config.

    A subclass only lists its options: it is a frozen dataclass with keyword-only fields. Their
    values are not checked on creation. `from_options` picks them out of a larger set.
    """

    def __init_subclass__(cls) -> None:
        """Make the subclass a dataclass."""
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def from_options(cls: type[S], options: object, **more: Any) -> S:
        """Return the set with the options of a larger set; those of `more` take precedence.

        Options that `options` lacks keep their default. An unknown name in `more` is a TypeError.
        """
        names = []
        for field in dataclasses.fields(cls):
            if hasattr(options, field.name):
                names.append(field.name)
        return cls(**attributes_of(options, names) | more)


def declared_options(component: Any) -> dict[str, DeclaredOption]:
    """Return the options of a class or function by name, from its annotated keyword parameters.

    Parameters without an `Option` are inputs and are left out. The fields of a dataclass come
    before inherited ones. The class in the attribute `declares` is read in place of a class.

    Raises:
        NameError: An annotation cannot be resolved.
        TypeError: The object has no signature.
        ValueError: The object has no readable signature, as some functions in C.
    """
    is_cacheable = inspect.isclass(component) or inspect.isfunction(component)
    return {**_declared(component)} if is_cacheable else _read_options(component)


def default_options(component: Any) -> dict[str, Any]:
    """Return the default of each option of a class or function, by name; `REQUIRED` if it has none.

    Raises the errors of `declared_options`.
    """
    defaults = {}
    for name, option in declared_options(component).items():
        defaults[name] = option.default
    return defaults


class Configured:
    """Base of components that remember the options of their constructor, for `options_of`.

    Workers copy a component by these options, and keys of stored items contain them. Only keyword
    arguments are remembered, as they are. Values of a component of this package are checked as in a
    config. Raises OptionError for a wrong one.

    Attributes:
        same_results: Reason why equal calls have equal results, so that a `repeat` tells nothing;
            empty for a component that may answer differently.
    """

    same_results: str = ""
    _given_options: Mapping[str, Any]

    def __new__(cls: type[C], *args: Any, **options: Any) -> C:
        """Create the component; `__init__` gets the same arguments."""
        component = super().__new__(cls)
        # annotations of a user's class may name what only a type checker imports
        if cls.__module__.startswith("ragbench."):
            declared = declared_options(cls)
            values = {}
            for name in options:
                if name in declared:
                    values[name] = options[name]
            check_values(cls.__name__.lower(), declared, values)
        component._given_options = options
        return component


def options_of(component: Configured) -> dict[str, Any]:
    """Return the options of a component by name, with the defaults of its class.

    Defaults come first, in the order of the class. A required option that was passed by position is
    absent; an argument that is no declared option is among them.

    Example:
        >>> from ragbench.retrieve.bm25 import BM25
        >>> options = options_of(BM25(k1=1.2))
        >>> options["k1"], options["b"]
        (1.2, 0.4)
    """
    declared = declared_options(type(component))
    defaults = {}
    for n, option in declared.items():
        if not option.required:
            defaults[n] = option.default
    return {**defaults, **component._given_options}


def check_repeat(component: object, repeat: object) -> None:
    """Raise an OptionError for a `repeat` above 1 of a component that gives the same each time."""
    reason = getattr(component, "same_results", "")
    if reason and repeat != 1:
        owner = type(component).__name__.lower()
        raise OptionError(owner, "repeat", repeat, f"1: {reason}")


def _read_options(component: Any) -> dict[str, DeclaredOption]:
    """Return the options of a component by name, as `declared_options` does, but uncached."""
    options = {}
    for name, annotation, default in _parameters(component):
        option = option_in(annotation)
        if option is not None:
            options[name] = DeclaredOption(name, _without_annotated(annotation), default, option)
    return options


# cached: a config reads the options of each component dozens of times, and evaluating the
# annotations takes longest
_declared = functools.lru_cache(maxsize=512)(_read_options)


def check_values(
    owner: str, declared: Mapping[str, DeclaredOption], values: Mapping[str, Any]
) -> None:
    """Check the values of options; a missing required option is no error here.

    Args:
        owner: Component or function, for messages.
        declared: Name -> declared option.
        values: Name -> value.

    Raises:
        OptionError: A name is not declared, or a value is not allowed.
    """
    for name, value in values.items():
        if name not in declared:
            allowed = ", ".join(declared) or "no options"
            raise OptionError(owner, "options", name, allowed, nearest(name, declared))
        declared[name].check(owner, value)


def checked(owner: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that checks the options that it declares before it runs.

    Only keyword arguments are checked. The new function raises `OptionError` for a wrong value.

    Args:
        owner: Name of the function in messages.
        function: The function.
    """
    # read on the first call: annotations may name classes that the module defines further down
    declared = functools.cache(lambda: declared_options(function))

    # cached: calls repeat the same few values, and a check costs some microseconds
    @functools.lru_cache(maxsize=256, typed=True)
    def check_option(name: str, value: object) -> None:
        if name in declared():
            declared()[name].check(owner, value)

    @functools.wraps(function)
    def checked_function(*args: P.args, **options: P.kwargs) -> R:
        for name, value in options.items():
            try:
                check_option(name, value)
            except TypeError:  # an unhashable value, such as a list, cannot be cached
                check_option.__wrapped__(name, value)
        return function(*args, **options)

    return checked_function


def _parameters(component: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, annotation, default) of each parameter of a constructor or function."""
    if inspect.isclass(component):
        # the class that defines the constructor declares its options
        owner = next(c for c in component.__mro__ if vars(c).keys() & {"__init__", "declares"})
        component = vars(owner).get("declares", owner)
        is_record: bool = dataclasses.is_dataclass(component)
        if is_record:
            by_name = {}
            for field in dataclasses.fields(component):
                if field.init:
                    by_name[field.name] = field
            # with other names, the constructor is written by hand and is read below
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
    """Yield (name, annotation, default) of each field of a dataclass."""
    hints = typing.get_type_hints(record, include_extras=True)
    names: dict[str, None] = {}
    for cls in reversed(record.__mro__):
        # a field that a class declares again, such as for another default, keeps its place
        new_names = []
        for name in vars(cls).get("__annotations__", ()):
            if name not in names:
                new_names.append(name)
        names = dict.fromkeys([*new_names, *names])
    for field in select_in_order(by_name, names).values():
        default = REQUIRED if field.default is dataclasses.MISSING else field.default
        yield field.name, hints[field.name], default


def option_in(annotation: Any) -> Option | None:
    """Return the first `Option` in an annotation or its parts, as in `Annotated[...] | None`."""
    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, Option):
            return extra
    for part in typing.get_args(annotation):
        if (option := option_in(part)) is not None:
            return option
    return None


def _unwrap(annotation: Any, option: Option | None) -> tuple[Any, Option | None]:
    """Return (annotation without `Annotated`, the `Option` in it or None)."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _without_annotated(annotation), option_in(annotation)
    return annotation, option


def _without_annotated(annotation: Any) -> Any:
    """Return a type without `Annotated`, also inside a union; elements of lists keep theirs."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _without_annotated(typing.get_args(annotation)[0])
    if _is_union(annotation):
        return functools.reduce(operator.or_, map(_without_annotated, typing.get_args(annotation)))
    return annotation


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def describe_allowed(annotation: Any, option: Option | None = None) -> str:
    """Return the values that a type and its bounds allow, as a phrase for people.

    `None` in a union becomes `, or null`; a type without words, such as `Any`, becomes `anything`.
    """
    annotation, option = _unwrap(annotation, option)
    if _is_union(annotation):
        parts = []
        for part in typing.get_args(annotation):
            if part is not type(None):
                parts.append(part)
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
        return f"a list of {_plural(describe_allowed(inner[0]))}" if inner else "a list"
    if origin in (dict, Mapping):
        return "a mapping"
    return "anything"


def _plural(phrase: str) -> str:
    """Return a phrase for several values: `numbers from 0 to 1` of `a number from 0 to 1`."""
    for noun in ("a number", "an integer", "a path"):
        if phrase.startswith(noun):
            return f"{noun.split()[1]}s{phrase.removeprefix(noun)}"
    return phrase


def _bounds(option: Option | None) -> str:
    """Return the bounds of a number as the end of a phrase; empty without bounds."""
    if option is None:
        return ""
    low, high = option.ge, option.le
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    signs = ((">=", low), (">", option.gt), ("<=", high), ("<", option.lt))
    parts = []
    for sign, limit in signs:
        if limit is not None:
            parts.append(f"{sign} {limit:g}")
    return f" {' and '.join(parts)}" if parts else ""


def _mismatches(
    annotation: Any, option: Option | None, value: Any, steps: tuple[int | str, ...]
) -> list[Mismatch]:
    """Return the innermost parts of a value with a wrong type or out of bounds."""
    annotation, option = _unwrap(annotation, option)
    if _is_union(annotation):
        members = []
        for member in typing.get_args(annotation):
            members.append(_mismatches(member, option, value, steps))
            if not members[-1]:
                return []  # a value that fits one member is valid
        return _union_mismatches(members, annotation, option, steps)
    kind = typing.get_origin(annotation) or annotation
    if not _has_type(kind, annotation, value):
        return [Mismatch(steps, annotation, option, out_of_range=False)]
    if kind in (int, float) and not _is_within_bounds(kind, option, value):
        return [Mismatch(steps, annotation, option, out_of_range=True)]
    mismatches = []
    for step, declared, part in _parts(kind, annotation, value):
        mismatches += _mismatches(declared, None, part, (*steps, step))
    return mismatches


def _union_mismatches(
    members: list[list[Mismatch]], union: Any, option: Option | None, steps: tuple[int | str, ...]
) -> list[Mismatch]:
    """Return the parts of a value that fit no member of a union, or else the value itself."""
    by_place: dict[tuple[int | str, ...], Mismatch] = {}
    for mismatch in itertools.chain.from_iterable(members):
        earlier = by_place.setdefault(mismatch.steps, mismatch)
        is_out_of_range = earlier.out_of_range or mismatch.out_of_range
        by_place[mismatch.steps] = replace(earlier, out_of_range=is_out_of_range)
    of_value = by_place.pop(steps, None)
    # a list with one wrong element is meant as a list, so that the element is reported
    if by_place or of_value is None:
        return list(by_place.values())
    return [replace(of_value, annotation=union, option=option)]


def _has_type(kind: Any, annotation: Any, value: Any) -> bool:
    """Return True if a value has a type, its parts aside; a truth value is never an integer."""
    arguments = typing.get_args(annotation)
    if kind is Literal:
        return any(type(value) is type(word) and value == word for word in arguments)
    if kind in (int, float):
        numbers = (int,) if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    if kind is Path:
        return isinstance(value, (str, Path))
    if kind in _LISTS:  # YAML has one type of list for all of these
        return isinstance(value, (list, tuple, kind))
    if isinstance(value, Mapping) and arguments[:1] == (str,):
        return isinstance(value, kind) and all_are(value, str)
    # a type variable and the like is checked by the component
    return kind is Any or not inspect.isclass(kind) or isinstance(value, kind)


def _parts(kind: Any, annotation: Any, value: Any) -> Iterator[tuple[int | str, Any, Any]]:
    """Yield (step, declared type, value) of each element of a list, or value of a mapping."""
    arguments = typing.get_args(annotation)
    # a tuple with a type for each element is checked by the component
    if kind in _LISTS and len(set(arguments) - {...}) == 1:
        for index, part in enumerate(value):
            yield index, arguments[0], part
    elif isinstance(value, Mapping) and len(arguments) == 2:
        for key, part in value.items():
            yield key, arguments[1], part


def _converted(annotation: Any, value: Any) -> Any:
    """Return a valid value in the declared type, its parts included."""
    annotation, _ = _unwrap(annotation, None)
    if _is_union(annotation):
        members = []
        for m in typing.get_args(annotation):
            if not _mismatches(m, None, value, ()):
                members.append(m)
        exact = []
        for member in members:
            if (typing.get_origin(member) or member) is type(value):
                exact.append(member)
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


def _is_within_bounds(kind: Any, option: Option | None, value: float) -> bool:
    """Return True if a finite number is within the bounds; always False for NaN and infinity."""
    if kind is float and not abs(value) <= sys.float_info.max:
        return False  # infinite or NaN, which no option allows
    return option is None or (
        (option.ge is None or value >= option.ge)
        and (option.gt is None or value > option.gt)
        and (option.le is None or value <= option.le)
        and (option.lt is None or value < option.lt)
    )
