"""Components of the user's own: a class, an object or a plain function becomes one."""

from __future__ import annotations

import functools
import hashlib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from ragbench.errors import AdapterError, OptionError, RagbenchError
from ragbench.registry.family import load_object, nearest
from ragbench.registry.options import Option, option_in

FactoryArgs = Annotated[dict[str, Any] | None, Option("Arguments of the factory.")]


def adapt(
    target: Any,
    options: Mapping[str, Any],
    owner: str,
    *,
    methods: tuple[str, ...],
    wrap: Callable[[Callable[..., Any]], Any],
    arguments: str,
    of_method: str = "",
) -> Any:
    """Make a component of what the user named or passed.

    A class is made with the options; an object that has one of the methods is taken as it is; a
    plain function is wrapped, with the options bound as keywords.

    `owner` (`retriever 'mine'`), the `arguments` of a function and those of the first method
    (`of_method`, where they differ) are for messages.
    """
    made = _make(target, options, owner) if inspect.isclass(target) else target
    if has_method(made, methods):
        if options and made is target:
            raise OptionError(owner, "options", ", ".join(options), "none: it is made already")
        return made
    if callable(made):
        bound = made is target and options
        return wrap(functools.partial(made, **_known(made, options, owner)) if bound else made)
    method = f"{methods[0]}{of_method or arguments}"
    allowed = f"a class or object with {method}, or a function {arguments}"
    raise AdapterError(f"{owner}: found {type(made).__name__}, allowed: {allowed}")


def has_method(found: object, methods: Sequence[str]) -> bool:
    """Whether an object, or those of a class, has one of some methods."""
    return any(callable(getattr(found, name, None)) for name in methods)


class OwnComponent:
    """An object of the user's own as a component: its attributes replace the defaults.

    A subclass inherits a protocol, such as `Retriever`, after this class, and lists in `takes` the
    attributes and methods that the object may have. What it lacks is as the protocol says.
    """

    takes: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, made: Any) -> None:
        self.made = made

    @property
    def notes(self) -> Sequence[str]:
        """Notes of the object, where it has some."""
        return list(getattr(self.made, "notes", ()))

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute of the object, or else the default."""
        if name not in type(self).takes or not hasattr(self.made, name):
            return super().__getattribute__(name)
        return getattr(self.made, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the object where it has it: a folder to keep things in, say."""
        is_theirs = name in type(self).takes and hasattr(self.made, name)
        if is_theirs:
            setattr(self.made, name, value)
        else:
            super().__setattr__(name, value)


def make_object(path: str, args: Mapping[str, Any], owner: str) -> Any:
    """Return what `module:name` names: what a function or class makes, or an object as it is."""
    found = load_object(path)
    if is_factory(found):
        made = _make(found, args, f"{owner}: {path}", "args")
    elif args:
        raise OptionError(owner, "args", ", ".join(args), f"none: {path} is made already")
    else:
        made = found
    if made is None or inspect.isawaitable(made):
        raise AdapterError(f"{owner}: {path} returned {shown(made)}, allowed: an object")
    return made


def is_factory(found: object) -> bool:
    """Whether something makes an object when it is called; else it is the object."""
    is_function = inspect.isroutine(found) or isinstance(found, functools.partial)
    return inspect.isclass(found) or is_function


def _make(
    factory: Callable[..., Any], options: Mapping[str, Any], owner: str, key: str = "options"
) -> Any:
    known = _known(factory, options, owner, key)
    try:
        return factory(**known)
    except (RagbenchError, KeyboardInterrupt):
        raise
    # a constructor of the user's may raise anything, also SystemExit
    except BaseException as error:
        raise AdapterError(f"{owner}: {type(error).__name__}: {error}") from error


def _known(
    function: Callable[..., Any], options: Mapping[str, Any], owner: str, key: str = "options"
) -> Mapping[str, Any]:
    parameters = inspect.signature(function).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in options:
        if name not in parameters and not takes_any:
            allowed = ", ".join(parameters) or "no options"
            raise OptionError(owner, key, name, allowed, nearest(name, parameters))
    return options


def shown(value: Any) -> str:
    """Return a foreign value as error messages show it: cut where it is long, no addresses.

    An address would differ from run to run; a coroutine says what is likely wrong.

    Example:
        >>> shown([1, 2]), shown(object())
        ('[1, 2]', 'an object')
    """
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()  # it is never awaited, and would warn
        return "a coroutine (async functions are not supported)"
    text = repr(value)
    if " at 0x" in text:
        name = type(value).__name__
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def plain_signature(
    function: Callable[..., object], owner: str, inputs: Sequence[int], taken: str
) -> tuple[int, inspect.Signature]:
    """Return how many inputs a plain function takes, and a signature that declares its options.

    Inputs are the parameters without a default that may be given by position; every other one is
    an option, by its `Option`, or else by its annotation or the type of its default.

    Args:
        function: A function that declares nothing.
        owner: What it is called, for messages.
        inputs: How many inputs are allowed.
        taken: These inputs in words: `(prediction, references)`.

    Raises:
        OptionError: It is no function, or takes something else.
    """
    allowed = f"a function of {taken}, and of options with a default"
    if not inspect.isroutine(function):
        raise OptionError(owner, "", type(function).__name__, allowed)
    signature = inspect.signature(function)
    first = [
        each
        for each in signature.parameters.values()
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    rest = [each for each in signature.parameters.values() if each not in first]
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    wrong = any(each.default is each.empty or each.kind not in plain for each in rest)
    if len(first) not in inputs or wrong:
        raise OptionError(owner, "", f"{function.__name__}{signature}", allowed)
    return len(first), inspect.Signature([*first, *option_parameters(function, rest)])


def option_parameters(
    function: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> list[inspect.Parameter]:
    """Return parameters of a function or class as keywords that declare options.

    By their `Option`, or else by the annotation or the type of the default.
    """
    target = function.__init__ if inspect.isclass(function) else function
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError):  # names that only a type checker can resolve
        hints = {}
    made = []
    for each in parameters:
        is_known = each.default is not None and each.default is not each.empty
        kind = hints.get(each.name, type(each.default) if is_known else str)
        known = kind if option_in(kind) is not None else typing.Annotated[kind, Option("")]
        made.append(each.replace(kind=each.KEYWORD_ONLY, annotation=known))
    return made


def source_print(function: Callable[..., object]) -> str:
    """Return what tells a version of a function from another: a hash of its source, or nothing."""
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        return ""
