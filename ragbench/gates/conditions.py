"""Gates from the texts that results print, such as `recall@10 >= 0.8 (interval)`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.errors import OptionError

_ALLOWED = (
    "{measure: NAME, min: NUMBER}, or a condition: NAME >= NUMBER, NAME <= NUMBER, "
    "NAME drop <= NUMBER, NAME drop > NUMBER, NAME not worse"
)
_LIMIT = re.compile(r"(?P<subject>[^<>]*)(?P<sign>[<>]=)(?P<right>.*)", re.DOTALL)
# The name of a measure may have spaces inside its parentheses.
_DROP = re.compile(r"\s*(\S(?:.*\S)?)\s+drop\s*>\s*(\S+)\s*")
# Keys of a gate.
_Keys = dict[str, Any]
# Options in brackets at the end of a text -> the keys that they are.
_OPTIONS: Mapping[str, _Keys] = {
    "interval": {"decide": "interval"},
    "mean": {"decide": "mean"},
    "identical: undecided": {"identical": "undecided"},
}


def read_condition(text: str) -> dict[str, Any]:
    """Return the keys of a gate from its text in a result, or from `NAME drop > NUMBER`.

    Keys that the text of a gate leaves out, such as `system`, are absent. Names are not checked.

    Raises:
        OptionError: The text is no condition, or the number of a drop is negative or not finite.

    Example:
        >>> read_condition("recall@10 >= 0.8 (interval)")
        {'measure': 'recall@10', 'min': 0.8, 'decide': 'interval'}
        >>> read_condition("ndcg@10 drop > 0.01")
        {'measure': 'ndcg@10', 'max_drop': 0.01}
    """
    words, limit = text.split(), _LIMIT.fullmatch(text)
    keys: _Keys | None = None
    if limit is not None and limit["sign"] == ">=":
        keys = _read_least(limit["subject"].split(), limit["right"])
    elif limit is not None:
        keys = _read_most(limit["subject"].split(), limit["right"])
    # `drop >` fails where the text of a gate passes
    elif "drop" in words and ">" in text:
        keys = _read_drop(text)
    else:
        keys = _read_words(words)
    if keys is None:
        raise OptionError("gate", "", text, _ALLOWED)
    return keys


def _read_least(subject: Sequence[str], right: str) -> _Keys | None:
    """Return the keys of `NAME >= NUMBER` or `kappa of RUBRIC >= NUMBER in FILE`, or None."""
    number, words, options = _read_number(right)
    if number is None or not subject:
        return None
    is_kappa = [*subject[:2]] == ["kappa", "of"] and words[:1] == ["in"]
    if is_kappa and len(subject) > 2 and len(words) > 1:
        certificate = " ".join(words[1:])
        keys = {"rubric": " ".join(subject[2:]), "min_kappa": number, "certificate": certificate}
        return keys | options
    return None if words else {"measure": " ".join(subject), "min": number} | options


def _read_most(subject: Sequence[str], right: str) -> _Keys | None:
    """Return the keys of a condition with `<=`, or None."""
    number, words, options = _read_number(right)
    against = _read_against(words)
    if number is None or not subject:
        return None
    if subject[0] == "failed" and len(subject) > 1:
        return None if words else {"failed": " ".join(subject[1:]), "max": number}
    if subject[-1] == "drop" and len(subject) > 1:
        keys: _Keys = {"measure": " ".join(subject[:-1]), "max_drop": number}
        return None if against is None else keys | against | options
    if subject[-1] == "on" and "worse" in subject[1:] and words[:1] == ["queries"]:
        return _read_queries(subject, number, _read_against(words[1:]))
    return None if words else {"measure": " ".join(subject), "max": number} | options


def _read_drop(text: str) -> _Keys | None:
    """Return the keys of `NAME drop > NUMBER`, or None."""
    match = _DROP.fullmatch(text)
    if match is None:
        return None
    measure, limit = match.groups()
    try:
        margin = float(limit)
    except ValueError:
        margin = math.nan
    # float() takes nan too, which is in no range
    if not 0 <= margin < math.inf:
        allowed = "a number from 0 on: a share of 1, not percent"
        raise OptionError("gate", "drop >", limit, allowed)
    return {"measure": measure, "max_drop": margin}


def _read_queries(subject: Sequence[str], number: float, against: _Keys | None) -> _Keys | None:
    """Return the keys of `NAME worse by NUMBER on <= N queries`, or None."""
    place = len(subject) - 1 - [*reversed(subject)].index("worse")
    margin = subject[place + 1 : -1]
    if against is None or not number.is_integer():
        return None
    keys: _Keys = {"measure": " ".join(subject[:place])}
    if margin:
        by = _number(margin[-1])
        if margin[0] != "by" or len(margin) != 2 or by is None:
            return None
        keys["by"] = by
    return keys | {"max_queries_worse": int(number)} | against


def _read_words(words: Sequence[str]) -> _Keys | None:
    """Return the keys of `NAME not worse` or `cheapest within N of the best`, or None."""
    if [*words[:2]] == ["cheapest", "within"] and [*words[3:6]] == ["of", "the", "best"]:
        margin, measure = _number(words[2]), words[6:]
        if margin is None or (measure and (measure[0] != "by" or len(measure) < 2)):
            return None
        by_measure = {"measure": " ".join(measure[1:])} if measure else {}
        return {"cheapest_within": margin} | by_measure
    for place in range(1, len(words) - 1):
        if [*words[place : place + 2]] == ["not", "worse"]:
            against = _read_against(words[place + 2 :])
            return None if against is None else {"measure": " ".join(words[:place])} | against
    return None


def _read_number(text: str) -> tuple[float | None, list[str], _Keys]:
    """Return (number at the start, words after it, keys of options in brackets at the end)."""
    body, options = text.strip(), _Keys()
    head, bracket, inner = body.rpartition("(")
    parts = []
    for part in inner.removesuffix(")").split(","):
        parts.append(part.strip())
    if bracket and inner.endswith(")") and all(part in _OPTIONS for part in parts):
        body = head
        for part in parts:
            options |= _OPTIONS[part]
    words = body.split()
    return (_number(words[0]) if words else None), words[1:], options


def _read_against(words: Sequence[str]) -> _Keys | None:
    """Return the key `against` of the words after a limit; {} without words, None for others."""
    if not words:
        return {}
    return {"against": " ".join(words[1:])} if words[0] == "against" and words[1:] else None


def _number(word: str) -> float | None:
    """Return a number as results print it; None for another word, such as `nan`."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if word[-1].isdigit() or word.endswith(".") else None
