"""Rule by which signatures allow a comparison, of two runs and of the systems of one run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragbench.comparison.systems import is_scored
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.signature import Signature

# Parts that tell how a system was chosen, not how it is scored: systems may differ in them.
_OF_SYSTEMS = frozenset({"folds"})


def unlike_parts(
    one: Signature, other: Signature, tolerated: Collection[str] = frozenset()
) -> list[str]:
    """Return the parts of two signatures because of which their scores are not compared.

    They are the parts that differ, with "" for the name of the measure, and the mixtures of either.
    The folds by which a system was tuned are no such part.
    `tolerated` are parts that may differ, as the queries behind them were compared; a part that one
    signature lacks counts all the same. The list is empty if the scores may be compared.

    Example:
        >>> unlike_parts(Signature.of("bleu", case="yes"), Signature.of("bleu", case="no"))
        ['case']
    """
    # IDF weights depend on all references, so that other queries move a value of this one
    of_all = {"gold"} if ("idf", "yes") in one.parts else set[str]()
    differing = []
    for part, value, other_value in one.differences(other):
        if part in _OF_SYSTEMS:
            continue
        if part not in tolerated or part in of_all or None in (value, other_value):
            differing.append(part)
    return list(dict.fromkeys([*differing, *one.mixtures, *other.mixtures]))


def explain_unlike(
    placed: Sequence[tuple[str, Signature]], tolerated: Collection[str] = frozenset()
) -> str:
    """Return in words why scores are not compared with each other; '' if they may be compared.

    Args:
        placed: Place of each score in words, such as `in runs/a`, and its signature; at least one.
        tolerated: Parts that may differ, as in `unlike_parts`.

    Example:
        >>> explain_unlike([("of a", Signature.of("f1", v=1)), ("of b", Signature.of("f1", v=2))])
        'v is 1 of a and 2 of b'
    """
    first, parts = placed[0][1], list[str]()
    for _, other in placed:
        parts += unlike_parts(first, other, tolerated)
    return "; ".join(_clause(part, placed) for part in dict.fromkeys(parts))


def _clause(part: str, placed: Sequence[tuple[str, Signature]]) -> str:
    """Return the values of a part with their places: `v is 1 of a and 2 of b`."""
    places: dict[str, list[str]] = {}
    for place, signature in placed:
        value = signature.part(part) if part else signature.name
        places.setdefault(value or "absent", []).append(place)
    *texts, last = [f"{value} {', '.join(names)}" for value, names in places.items()]
    values = f"{', '.join(texts)} and {last}" if texts else last
    return f"{part or 'the measure'} is {values}"


def unlike_measures(
    systems: Sequence[SystemScores], tolerated: Collection[str] = frozenset()
) -> dict[str, str]:
    """Return measure -> why not all systems are compared by it; without the other measures.

    Systems without a value do not count: nothing of theirs would be compared. Measures are in the
    order in which the systems name them first.
    """
    signatures: dict[str, list[tuple[str, Signature]]] = {}
    for system in systems:
        for name, column in system.columns.items():
            placed = signatures.setdefault(name, [])
            if is_scored(column):
                placed.append((f"of {system.name}", column.signature))
    reasons = {}
    for name, placed in signatures.items():
        if len(placed) > 1 and (why := explain_unlike(placed, tolerated)):
            reasons[name] = why
    return reasons
