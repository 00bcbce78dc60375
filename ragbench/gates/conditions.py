"""Gates from the texts that results print, such as `recall@10 >= 0.8 (interval)`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragbench.errors import OptionError
from ragbench.gates.fail_if import FailIf

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_DECIDE = r"(?P<decide>interval|mean)"
_AGAINST = r"(?:\s+against\s+(?P<against>.+?))?"
# Texts of each kind of gate; a longer form stands before the form that it contains.
_FORMS = tuple(
    re.compile(rf"\s*{form}\s*", re.IGNORECASE | re.DOTALL)
    for form in (
        rf"kappa of (?P<rubric>.+?)\s*>=\s*(?P<min_kappa>{_NUMBER}) in (?P<certificate>.+?)"
        rf"(?:\s+\({_DECIDE}\))?",
        rf"cheapest within (?P<cheapest_within>{_NUMBER}) of the best(?:\s+by (?P<measure>.+?))?",
        rf"failed (?P<failed>.+?)\s*<=\s*(?P<max>{_NUMBER})",
        rf"(?P<measure>.+?)\s+worse(?:\s+by (?P<by>{_NUMBER}))?\s+on\s*<=\s*"
        rf"(?P<max_queries_worse>\d+) queries{_AGAINST}",
        rf"(?P<measure>.+?)\s+not worse{_AGAINST}",
        rf"(?P<measure>.+?)\s+drop\s*<=\s*(?P<max_drop>{_NUMBER}){_AGAINST}"
        rf"(?:\s+\((?:{_DECIDE})?(?:, )?(?:identical: (?P<identical>undecided))?\))?",
        rf"(?P<measure>.+?)\s*>=\s*(?P<min>{_NUMBER})(?:\s+\({_DECIDE}\))?",
        rf"(?P<measure>.+?)\s*<=\s*(?P<max>{_NUMBER})(?:\s+\({_DECIDE}\))?",
    )
)
_NUMBERS = frozenset({"min", "max", "max_drop", "min_kappa", "cheapest_within", "by"})
_ALLOWED = (
    "{measure: NAME, min: NUMBER}, or a condition: NAME >= NUMBER, NAME <= NUMBER, "
    "NAME drop <= NUMBER, NAME drop > NUMBER, NAME not worse"
)


def read_condition(text: str) -> Mapping[str, object]:
    """Return the keys of a gate from its text in a result, or from a condition of `--fail-if`.

    Keys that the text of a gate leaves out, such as `system`, are absent. Names are not checked.

    Raises:
        OptionError: The text is no condition, or the number of a drop is negative or not finite.

    Example:
        >>> read_condition("recall@10 >= 0.8 (interval)")
        {'measure': 'recall@10', 'min': 0.8, 'decide': 'interval'}
        >>> read_condition("ndcg@10 drop > 0.01")
        {'measure': 'ndcg@10', 'max_drop': 0.01}
    """
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is not None:
            return {key: _value(key, word) for key, word in match.groupdict().items() if word}
    # `drop >` fails where the text of a gate passes
    if re.search(r"\sdrop\s*>", text):
        drop = FailIf.parse(text).gate
        return {"measure": drop.measure, "max_drop": drop.max_drop}
    raise OptionError("gate", "", text, _ALLOWED)


def _value(key: str, word: str) -> object:
    if key == "max_queries_worse":
        return int(word)
    return float(word) if key in _NUMBERS else word
