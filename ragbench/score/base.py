"""Options of scores: in names such as `rouge1(stemmer=true)`, and taken over by other scores."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar

from ragbench.errors import OptionError
from ragbench.registry import DeclaredOption, declared_options, nearest
from ragbench.secrets import MASK, is_secret_option
from ragbench.types.lookups import all_are

Function = TypeVar("Function", bound=Callable[..., Any])

# Function that is called with the number of items completed since the last call.
Advance = Callable[[int], None]

# Values may leave the range of a measure or metric by a rounding error.
ROUNDING = 1e-6

_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|\{[^}]*\}?|[^,"'])+""")
_QUOTED = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_NEEDS_QUOTES = re.compile(r"""[,()"'\s]|^$""")
_WORDS = {"true": True, "false": False, "null": None}

# Function that returns our spelling of an option's name and value.
Respell = Callable[[str, str], "tuple[str, str]"]


def check_range(owner: str, ends: Any) -> None:
    """Raise an OptionError of a score unless its range is two numbers, the lower one first."""
    is_pair = isinstance(ends, (tuple, list)) and len(ends) == 2
    if not is_pair or not all_are(ends, (int, float)) or not ends[0] < ends[1]:
        raise OptionError(owner, "range", ends, "two numbers (low, high) with low < high")


def split_options(text: str) -> list[str]:
    """Return the options of a text in order: parts between commas; empty list for a blank text.

    Commas inside quotes and braces do not count; a quote that is not closed is dropped.

    Example:
        >>> split_options('model="a, b", idf=true')
        ['model="a, b"', 'idf=true']
        >>> split_options("gains={1:3,2:9},base=2")
        ['gains={1:3,2:9}', 'base=2']
    """
    return [part.strip() for part in _PART.findall(text)] if text.strip() else []


def read_options(
    owner: str,
    parts: Iterable[str],
    declared: Mapping[str, DeclaredOption],
    respell: Respell | None = None,
    implied: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Read options in the form `name=value`; return those that differ from their default.

    The result is in the order of the declaration, so that equal options give equal mappings.

    Args:
        owner: Name of the score, for messages.
        parts: Options as texts.
        declared: Name -> declared option.
        respell: Translation of other spellings of an option into ours.
        implied: Values of options that the parts do not set.

    Raises:
        OptionError: An unknown or repeated option, a text without `=`, a wrong value, or a secret.

    Example:
        >>> from ragbench.registry import declared_options
        >>> from ragbench.score.text.rouge import rouge
        >>> read_options("rouge1", ["stemmer=true"], declared_options(rouge))
        {'stemmer': True}
    """
    values: dict[str, Any] = {}
    for part in parts:
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if respell is not None:
            key, text = respell(key, text)
        if not equals or key not in declared:
            allowed = ", ".join(f"{name}={option.allowed}" for name, option in declared.items())
            form = f"options in the form name=value: {allowed}" if allowed else "no options"
            raise OptionError(owner, "options", part, form, nearest(key, declared))
        if key in values:
            raise OptionError(owner, key, f"{values[key]} and {text}", "one value")
        # names of scores are printed, stored and sent: a secret would spread
        if is_secret_option(key) or declared[key].option.secret:
            allowed = (
                "no secret, for names of scores stand everywhere: read the variable in the code"
            )
            raise OptionError(owner, key, MASK, allowed)
        values[key] = read_value(owner, declared[key], text)
    values = {**(implied or {}), **values}
    options: dict[str, Any] = {}
    for name, option in declared.items():
        if name in values and values[name] != option.default:
            options[name] = values[name]
    return options


def write_options(options: Mapping[str, Any]) -> str:
    """Return options in parentheses, as `read_options` reads them; empty for no options.

    A text with double quotes inside, and a list, cannot be read back.

    Example:
        >>> write_options({"model": "my models/a", "idf": True})
        '(model="my models/a",idf=true)'
    """
    pairs = ",".join(f"{name}={_format_value(value)}" for name, value in options.items())
    return f"({pairs})" if pairs else ""


def add_option(name: str, option: str, value: str) -> str:
    """Return the name of a score with one more option, whose value is added without quotes.

    Example:
        >>> add_option("fluency", "judge", "a"), add_option("rbp(p=0.5)", "judge", "a")
        ('fluency(judge=a)', 'rbp(p=0.5,judge=a)')
    """
    return f"{name[:-1]},{option}={value})" if name.endswith(")") else f"{name}({option}={value})"


def read_value(owner: str, option: DeclaredOption, text: str) -> Any:
    """Return the value of an option from its text: a number, a word, or a text in quotes.

    `true`, `false` and `null` become True, False and None, if the option allows these; digits
    become a number, unless only a text is allowed. Another value raises an OptionError of `owner`.
    """
    if quoted := _QUOTED.fullmatch(text):
        return option.check(owner, quoted[2] if _takes_text(option) else _number(quoted[2]))
    if text in _WORDS and _takes(option, _WORDS[text]):
        return _WORDS[text]
    number = _number(text)
    is_text = _takes_text(option) and not _takes(option, number)
    return option.check(owner, text if is_text else number)


def _number(text: str) -> Any:
    """Return a number, or the text if it is none; 2.0 gives 2, so that names are unique."""
    try:
        number = float(text)
    except ValueError:
        return text
    # above 2**53 a float no longer tells neighbouring integers apart
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _takes(option: DeclaredOption, value: Any) -> bool:
    """Return True if a value fits an option."""
    try:
        option.check("", value)
    except OptionError:
        return False
    return True


def _takes_text(option: DeclaredOption) -> bool:
    return str in (option.annotation, *typing.get_args(option.annotation))


def _format_value(value: Any) -> str:
    """Return the value of an option as names of scores spell it."""
    for word, meaning in _WORDS.items():
        if value is meaning:
            return word
    text = str(value)
    return f'"{text}"' if isinstance(value, str) and _NEEDS_QUOTES.search(text) else text


def takes_options_of(other: Callable[..., Any], **defaults: Any) -> Callable[[Function], Function]:
    """Return a decorator that copies the options of another function or class.

    `defaults` replace defaults of the other in the signature; the function itself has to apply
    them. It takes the options as `**options`, and shows them in its signature.
    """

    def declare(function: Function) -> Function:
        signature, declared = inspect.signature(function), declared_options(other)
        parameters = []
        for p in signature.parameters.values():
            if p.kind is not p.VAR_KEYWORD:
                parameters.append(p)
        for p in inspect.signature(other).parameters.values():
            if p.name in declared:
                default = defaults.get(p.name, p.default)
                parameters.append(p.replace(kind=p.KEYWORD_ONLY, default=default))
        function.__dict__["__signature__"] = signature.replace(parameters=parameters)
        # with the help that the docstring of the other has
        hints = {n: Annotated[option.annotation, option.option] for n, option in declared.items()}
        function.__annotations__ = hints | function.__annotations__
        return function

    return declare
