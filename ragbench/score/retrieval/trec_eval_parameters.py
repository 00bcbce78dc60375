"""Parameters of measures in trec_eval's notation: `P.5,10`, `ndcg.1=3,2=9`, `set_F.2`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.score.retrieval.trec_eval import FAMILIES

_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_SIGNED = rf"-?{_NUMBER}"
# trec_eval is asked with a dot, `P.5`, and prints an underscore, `P_5`
_CUTOFFS = re.compile(
    rf"({'|'.join([*FAMILIES, 'set_F'])})[._]({_NUMBER}(?:,{_NUMBER})*)", re.IGNORECASE
)
_PAIRS = rf"\d+={_SIGNED}(?:,\d+={_SIGNED})*"


@dataclass(frozen=True, slots=True)
class TrecEvalName:
    """Parts of a measure's name in trec_eval's notation.

    `read_parameters` makes it.

    Attributes:
        printed: Name as trec_eval prints it; for a single measure, as the caller wrote it.
        family: Name without parameters, in the case of the caller.
        options: Parameters as options of ours.
        k: Cut-off, after `@` in our notation; None without one.
    """

    printed: str
    family: str
    options: str = ""
    k: str | None = None


# Pattern of a name with parameters, and the function that translates these into options.
_OPTIONS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (
        re.compile(rf"(ndcg|Rndcg|ndcg_rel|G)[._]({_PAIRS})", re.IGNORECASE),
        lambda text: f"gains={{{text.replace('=', ':')}}}",
    ),
    (
        re.compile(rf"(utility)[._]({_SIGNED}(?:,{_SIGNED}){{3}})", re.IGNORECASE),
        lambda text: ",".join(map("=".join, zip("abcd", text.split(","), strict=True))),
    ),
    (
        re.compile(rf"(11pt_avg)[._]({_NUMBER}(?:,{_NUMBER})*)", re.IGNORECASE),
        lambda text: f"levels={{{text}}}",
    ),
)

# Option of ours that trec_eval has too -> how it prints the parameters, given all options.
_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "gains": lambda parts: str(parts["gains"]).strip(" {}").replace(":", "=").replace(" ", ""),
    "levels": lambda parts: str(parts["levels"]).strip(" {}").replace(" ", ""),
    "beta": lambda parts: f"{parts['beta']:g}",
    **dict.fromkeys("abcd", lambda parts: ",".join(f"{parts[name]:g}" for name in "abcd")),
}


def read_parameters(text: str) -> list[TrecEvalName]:
    """Return the measures of a name with parameters, one per cut-off.

    Returns an empty list for a name in another notation, without parameters, or with malformed
    ones. Case does not count.

    Example:
        >>> [(name.printed, name.k) for name in read_parameters("ndcg_cut.5,10")]
        [('ndcg_cut_5', '5'), ('ndcg_cut_10', '10')]
        >>> read_parameters("utility.1,-1,0,0")[0].options
        'a=1,b=-1,c=0,d=0'
    """
    if match := _CUTOFFS.fullmatch(text):
        family, parameters = match[1], match[2].split(",")
        names = [text] if len(parameters) == 1 else [f"{family}_{k}" for k in parameters]
        # the parameter of set_F is beta, not a cut-off
        beta = family.casefold() == "set_f"
        parsed: list[TrecEvalName] = []
        for name, k in zip(names, parameters, strict=True):
            if beta:
                parsed.append(TrecEvalName(name, family, f"beta={k}"))
            else:
                parsed.append(TrecEvalName(name, family, "", k))
        return parsed
    for pattern, options in _OPTIONS:
        if match := pattern.fullmatch(text):
            return [TrecEvalName(text, match[1], options(match[2]))]
    return []


def print_parameters(
    text: str, options: Mapping[str, Any], all_options: Mapping[str, Any]
) -> str | None:
    """Return the parameters of a measure as trec_eval prints them; empty for none.

    `text` is the name as the caller wrote it, whose own parameters are kept. `options` are those
    other than the default, `all_options` include defaults. Returns None if trec_eval has no
    parameter for one of `options`. The result is None too if several parameters would be printed.

    Example:
        >>> print_parameters("utility.1.0,-2,0,0", {"b": -2.0}, {})
        '1.0,-2,0,0'
        >>> print_parameters("set_f(beta=2)", {"beta": 2}, {"beta": 2})
        '2'
    """
    if any(option not in _WORDS for option in options):
        return None
    parts = read_parameters(text)
    if len(parts) == 1 and parts[0].options:
        return text[len(parts[0].family) + 1 :]
    # the four weights of `utility` are one parameter: each of them writes all
    parameters = {_WORDS[option](all_options) for option in options}
    if len(parameters) > 1:
        return None
    return parameters.pop() if parameters else ""
