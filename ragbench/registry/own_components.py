"""Components of the user: a class, an object or a plain function becomes a component."""

from __future__ import annotations

import functools
import hashlib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from ragbench.errors import AdapterError, OptionError, Phrase, RagbenchError
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
    method_arguments: str = "",
) -> Any:
    """Return a component from a class, an object or a function of the user.

    A class is called with the options; an object with one of the methods is returned as it is. A
    function, or another object that can be called, is wrapped, with the options bound as keywords.

    Args:
        target: The class, object or function.
        options: Options by name.
        owner: Name for messages: `retriever 'mine'`.
        methods: Names of methods, one of which a component has.
        wrap: Makes a component of a function.
        arguments: Parameters of such a function, for messages.
        method_arguments: Parameters of the first method, if they differ.

    Raises:
        OptionError: An option is unknown, or an object gets options.
        AdapterError: It is none of the three, or its constructor raises anything but an error of
            ragbench.
    """
    component = _make(target, options, owner) if inspect.isclass(target) else target
    if has_method(component, methods):
        if options and component is target:
            allowed = "none: it is made already; a class takes options"
            raise OptionError(owner, "options", ", ".join(options), allowed)
        return component
    if callable(component):
        if component is target and options:
            component = functools.partial(component, **_check_names(component, options, owner))
        return wrap(component)
    method = f"{methods[0]}{method_arguments or arguments}"
    allowed = f"a class or object with {method}, or a function {arguments}"
    if isinstance(component, Mapping) and "type" in component:
        allowed += "; an entry with a type belongs into the config"
    raise AdapterError(f"{owner}: found {type(component).__name__}, allowed: {allowed}")


def has_method(component: object, methods: Sequence[str]) -> bool:
    """Return True if an object or class has one of some methods.

    An attribute counts if it is callable.
    """
    return any(callable(getattr(component, name, None)) for name in methods)


class OwnComponent:
    """A component around an object of the user, whose attributes replace the defaults.

    A subclass inherits a protocol, such as `Retriever`, after this class, and lists in `takes` the
    attributes and methods that the object may have. The protocol gives the others, also those that
    the object lacks. `component` is the object; it is not checked.
    """

    takes: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, component: Any) -> None:
        self.component = component

    @property
    def notes(self) -> Sequence[str]:
        """Notes of the object, as a new list; [] if it has none."""
        return list(getattr(self.component, "notes", ()))

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute of the object if `takes` lists it, or else the default."""
        if name not in type(self).takes or not hasattr(self.component, name):
            return super().__getattribute__(name)
        return getattr(self.component, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the object if it has it, or else of the component."""
        is_of_object = name in type(self).takes and hasattr(self.component, name)
        if is_of_object:
            setattr(self.component, name, value)
        else:
            super().__setattr__(name, value)


def make_object(path: str, args: Mapping[str, Any], owner: str) -> Any:
    """Return the object that `module:name` names; a function or class is called with the arguments.

    Args:
        path: Module and name.
        args: Arguments by name.
        owner: Name for messages.

    Raises:
        OptionError: An argument is unknown, or an object gets arguments.
        DataError: The path cannot be imported.
        AdapterError: The function raises anything but an error of ragbench, or the object is None
            or a coroutine.
    """
    target = load_object(path)
    if is_factory(target):
        component = _make(target, args, f"{owner}: {path}", "args")
    elif args:
        allowed = f"none: {path} is made already; a class or function takes args"
        raise OptionError(owner, "args", ", ".join(args), allowed)
    else:
        component = target
    if component is None or inspect.isawaitable(component):
        raise AdapterError(f"{owner}: {path} returned {quote(component)}, allowed: an object")
    return component


def is_factory(target: object) -> bool:
    """Return True for a class, function or `partial`, which makes an object; else False."""
    is_function = inspect.isroutine(target) or isinstance(target, functools.partial)
    return inspect.isclass(target) or is_function


def _make(
    factory: Callable[..., Any], options: Mapping[str, Any], owner: str, key: str = "options"
) -> Any:
    """Return the result of a factory, called with the options."""
    checked_options = _check_names(factory, options, owner, key)
    try:
        return factory(**checked_options)
    except (RagbenchError, KeyboardInterrupt):
        raise
    # a user's constructor may raise anything, also SystemExit
    except BaseException as error:
        raise AdapterError(f"{owner}: {type(error).__name__}: {error}") from error


def _check_names(
    function: Callable[..., Any], options: Mapping[str, Any], owner: str, key: str = "options"
) -> Mapping[str, Any]:
    """Return the options if a function accepts their names, or does not tell its parameters."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # code in C need not tell its parameters: the call refuses wrong names
        return options
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in options:
        if name not in parameters and not takes_any:
            allowed = ", ".join(parameters) or "no options"
            raise OptionError(owner, key, name, allowed, nearest(name, parameters))
    return options


def quote(value: Any) -> str:
    """Return a foreign value as error messages show it: at most 80 characters, no addresses.

    An address would differ from run to run. A coroutine is closed and named as such.

    Example:
        >>> quote([1, 2]), quote(object())
        ('[1, 2]', 'an object')
    """
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()  # it is never awaited, and would warn
        return "a coroutine (async functions are not supported)"
    text = repr(value)
    if " at 0x" in text:
        name = type(value).__name__
        return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def plain_signature(
    function: Callable[..., object], owner: str, inputs: Sequence[int], inputs_text: str
) -> tuple[int, inspect.Signature]:
    """Return the number of inputs of a plain function, and a signature that declares its options.

    Inputs are the positional parameters without a default; every other parameter is an option, by
    its `Option`, or else by its annotation or the type of its default. The options are in the order
    of the function.

    Args:
        function: A function that declares nothing.
        owner: Name for messages.
        inputs: Allowed numbers of inputs.
        inputs_text: These inputs in words: `(prediction, references)`.

    Raises:
        OptionError: It is no function with readable parameters, or cannot be called with just these
            inputs.
    """
    allowed = f"a function of {inputs_text}, and of options with a default"
    if not inspect.isroutine(function):
        raise OptionError(owner, "", Phrase(type(function).__name__), allowed)
    try:
        signature = inspect.signature(function)
    except ValueError as error:  # a function in C need not tell its parameters
        raise OptionError(owner, "", Phrase(function.__name__), allowed) from error
    positional, options, is_wrong = [], [], False
    for parameter in signature.parameters.values():
        kind, has_default = parameter.kind, parameter.default is not parameter.empty
        is_by_position = kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if is_by_position and not has_default:
            positional.append(parameter)
            continue
        options.append(parameter)
        is_by_name = kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        is_wrong = is_wrong or not (is_by_name and has_default)
    if len(positional) not in inputs or is_wrong:
        raise OptionError(owner, "", Phrase(f"{function.__name__}{signature}"), allowed)
    return len(positional), inspect.Signature([*positional, *option_parameters(function, options)])


def option_parameters(
    function: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> list[inspect.Parameter]:
    """Return parameters of a function or class as keywords that declare options.

    A parameter without an `Option` gets one, with its annotation or the type of its default; text
    without both.
    """
    target = function.__init__ if inspect.isclass(function) else function
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError):  # names that only a type checker can resolve
        hints = {}
    declared = []
    for parameter in parameters:
        is_known = parameter.default is not None and parameter.default is not parameter.empty
        kind = hints.get(parameter.name, type(parameter.default) if is_known else str)
        annotated = kind if option_in(kind) is not None else typing.Annotated[kind, Option("")]
        declared.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=annotated))
    return declared


def source_print(function: Callable[..., object]) -> str:
    """Return a hash of the source of a function, which tells versions apart.

    The hash has 12 hexadecimal digits, and is '' without source.
    """
    try:
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        return ""
