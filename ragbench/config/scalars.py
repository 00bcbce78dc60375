"""What a plain word in YAML means: the YAML 1.2 core rules, plus `_` in integers."""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {"": None, "~": None}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True)
_WORDS |= dict.fromkeys(("false", "False", "FALSE"), False)

_INTEGER = re.compile(r"[-+]?(?:0|[1-9](?:_?[0-9])*)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN = re.compile(r"\.(?:nan|NaN|NAN)")
_LONGEST = 300  # digits; Python itself refuses to read integers beyond 4,300


class ScalarError(ValueError):
    """A word that looks like a number but is none.

    Attributes:
        found: What is wrong with it.
        allowed: What to write instead.
    """

    def __init__(self, found: str, allowed: str) -> None:
        self.found, self.allowed = found, allowed
        super().__init__(f"{found}, allowed: {allowed}")


def resolve(text: str) -> Scalar:
    """Return what an unquoted word stands for.

    Raises:
        ScalarError: A number with a leading zero, which YAML 1.1 would read as octal and
            YAML 1.2 as decimal, or one with hundreds of digits.

    Example:
        >>> [resolve(word) for word in ("no", "1e-3", "1_000", "0x1F", "12:30", "true", "~")]
        ['no', 0.001, 1000, 31, '12:30', True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) > _LONGEST and _FLOAT.fullmatch(text.replace("_", "")):
        raise ScalarError(f"a number of {len(text)} characters", "a shorter one, or text in quotes")
    if _INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if _LEADING_ZERO.fullmatch(text):
        number = int(text.replace("_", ""))
        raise ScalarError(f"{text} has a leading zero", f"{number}, or '{text}' in quotes for text")
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITY.fullmatch(text):
        return float(text.replace(".", ""))
    return float("nan") if _NAN.fullmatch(text) else text
