"""Reads and writes trec_eval's parameters: `P.5,10`, `utility.1,-1,0,0`, `ndcg.1=3,2=9`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.score.retrieval.trec_eval_names import FAMILIES

_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_SIGNED = rf"-?{_NUMBER}"
_CUTOFFS = re.compile(
    rf"({'|'.join([*FAMILIES, 'set_F'])})[._]({_NUMBER}(?:,{_NUMBER})*)", re.IGNORECASE
)
_PAIRS = rf"\d+={_SIGNED}(?:,\d+={_SIGNED})*"


@dataclass(frozen=True, slots=True)
class Asked:
    """One measure that was asked for in trec_eval's way."""

    written: str
    """How trec_eval prints it, or as it was written where it is one measure."""
    family: str
    """Its name without parameters, in its own case."""
    options: str = ""
    """What the parameters are as options of ours."""
    k: str | None = None
    """What stands behind `@` in our notation."""


def _coefficients(text: str) -> str:
    return ",".join(f"{name}={value}" for name, value in zip("abcd", text.split(","), strict=True))


_OPTIONS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (
        re.compile(rf"(ndcg|Rndcg|ndcg_rel|G)[._]({_PAIRS})", re.IGNORECASE),
        lambda text: f"gains={{{text.replace('=', ':')}}}",
    ),
    (re.compile(rf"(utility)[._]({_SIGNED}(?:,{_SIGNED}){{3}})", re.IGNORECASE), _coefficients),
    (
        re.compile(rf"(11pt_avg)[._]({_NUMBER}(?:,{_NUMBER})*)", re.IGNORECASE),
        lambda text: f"levels={{{text}}}",
    ),
)
"""What a name with parameters looks like, and the options that they are."""

_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "gains": lambda parts: str(parts["gains"]).strip(" {}").replace(":", "=").replace(" ", ""),
    "levels": lambda parts: str(parts["levels"]).strip(" {}").replace(" ", ""),
    "beta": lambda parts: f"{parts['beta']:g}",
    **dict.fromkeys("abcd", lambda parts: ",".join(f"{parts[name]:g}" for name in "abcd")),
}
"""Option of ours that trec_eval has too -> how it prints the parameters, given all options."""


def read_parameters(written: str) -> list[Asked]:
    """Read a name with parameters; several cut-offs are several measures.

    Returns:
        Nothing where it is not written in trec_eval's way.

    Example:
        >>> [(asked.written, asked.k) for asked in read_parameters("ndcg_cut.5,10")]
        [('ndcg_cut_5', '5'), ('ndcg_cut_10', '10')]
        >>> read_parameters("utility.1,-1,0,0")[0].options
        'a=1,b=-1,c=0,d=0'
    """
    if match := _CUTOFFS.fullmatch(written):
        family, parameters = match[1], match[2].split(",")
        names = [written] if len(parameters) == 1 else [f"{family}_{k}" for k in parameters]
        beta = family.casefold() == "set_f"
        return [
            Asked(name, family, f"beta={k}") if beta else Asked(name, family, "", k)
            for name, k in zip(names, parameters, strict=True)
        ]
    for pattern, options in _OPTIONS:
        if match := pattern.fullmatch(written):
            return [Asked(written, match[1], options(match[2]))]
    return []


def print_parameters(
    written: str, options: Mapping[str, Any], all_options: Mapping[str, Any]
) -> str | None:
    """Return the parameters as trec_eval prints them behind the name: as they were written.

    Args:
        written: The name as the caller wrote it.
        options: Our options that are not at their default.
        all_options: Our options, defaults included.

    Returns:
        None where an option is not among trec_eval's parameters.

    Example:
        >>> print_parameters("utility.1.0,-2,0,0", {"b": -2.0}, {})
        '1.0,-2,0,0'
        >>> print_parameters("set_f(beta=2)", {"beta": 2}, {"beta": 2})
        '2'
    """
    if any(option not in _WORDS for option in options):
        return None
    asked = read_parameters(written)
    if len(asked) == 1 and asked[0].options:
        return written[len(asked[0].family) + 1 :]
    found = {_WORDS[option](all_options) for option in options}
    return found.pop() if len(found) == 1 else None if found else ""
