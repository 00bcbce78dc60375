"""Whether a reference occurs in the prediction: `contains`."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.score.text.answers import normalized
from ragbench.score.text.base import Options, metric, reference_list
from ragbench.score.text.scripts import note_unspaced


def _notes(texts: Sequence[str], options: Options) -> list[str]:
    return note_unspaced("contains", texts, "chrf sees parts of them")


@metric(
    "contains",
    facts={"normalize": "squad", "references": "any"},
    notes=_notes,
    equals="its definition, by brute force",
    not_for="long answers that name everything; references of one common word",
)
def contains(prediction: str, references: str | Sequence[str]) -> float:
    """Return 1 where the words of a reference stand in the prediction, in a row, else 0.

    Both are normalised as for `exact_match`. Whole words count: `no` is not in `know`. A
    reference without a word is in nothing. An empty prediction gives 0.

    Raises:
        OptionError: There is no reference.

    Example:
        >>> contains("It was built in 1889, for the fair.", "1889"), contains("I know.", "no")
        (1.0, 0.0)
    """
    references = reference_list("contains", references)
    haystack = f" {normalized(prediction).text} "
    needles = (normalized(reference).text for reference in references)
    return float(any(needle and f" {needle} " in haystack for needle in needles))
