"""Exact match: `exact_match`."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.score.text.answers import normalized
from ragbench.score.text.base import Options, metric, reference_list
from ragbench.score.text.scripts import note_articles


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    return note_articles("exact_match", texts)


@metric(
    "exact_match",
    facts={"normalize": "squad", "references": "best"},
    notes=_notes,
    equals="the SQuAD script on ASCII; beyond it, Unicode punctuation and accents are normalised",
    not_for="answers in whole sentences",
)
def exact_match(prediction: str, references: str | Sequence[str]) -> float:
    """Return 1 where a prediction equals a reference after normalisation, else 0.

    Case, punctuation, English articles and white space do not count. An empty prediction gives 0.

    Raises:
        OptionError: There is no reference.

    Example:
        >>> exact_match("The Eiffel Tower!", ["eiffel tower", "la tour Eiffel"])
        1.0

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
    """
    references = reference_list("exact_match", references)
    if not prediction.strip():
        return 0.0
    answer = normalized(prediction).text
    return float(any(normalized(reference).text == answer for reference in references))
