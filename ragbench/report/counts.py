"""How many items stand behind the numbers of a section, in as few lines as say it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.report.digits import ends_of, printable, significant

Json = Mapping[str, Any]
Key = tuple[int, tuple[tuple[str, int], ...], int, int]


def count_lines(scores: Mapping[str, Mapping[str, Json]], measures: Sequence[str]) -> list[str]:
    """Describe the counts of a section: the usual ones first, then where they differ.

    Args:
        scores: system -> measure -> score, as in summary.json.
        measures: The measures of the section, in order.

    Returns:
        One line where all scores have the same counts; otherwise one for the most frequent
        counts, one for each other count of scores that do not apply, and one for each system
        with failed items, which names the causes and the bounds of each mean.
    """
    groups: dict[Key, list[tuple[str, str]]] = {}
    for measure in measures:
        for system, by_measure in scores.items():
            if measure in by_measure:
                groups.setdefault(_key(by_measure[measure]), []).append((system, measure))
    if not groups:
        return []
    usual = max(groups, key=lambda key: len(groups[key]))
    rest = {key: places for key, places in groups.items() if key != usual}
    lines = _failed_lines(usual, groups[usual], scores) if usual[1] else [_describe(usual)]
    if rest and not usual[1]:
        lines[0] += " in every score but these:"
    for key, places in rest.items():
        if key[1]:
            lines += _failed_lines(key, places, scores)
        else:
            lines.append(f"{_describe(key)}: {_where(places, scores)}")
    return lines


def n_failed(score: Json) -> int:
    """Count the failed items of a score, whatever their cause."""
    return sum((score.get("failed") or {}).values())


def _key(score: Json) -> Key:
    failed = tuple((cause, n) for cause, n in (score.get("failed") or {}).items() if n)
    not_judged = score.get("not_judged") or 0
    return score.get("n") or 0, failed, (score.get("not_applicable") or 0) - not_judged, not_judged


def _describe(key: Key) -> str:
    scored, failed, not_applicable, not_judged = key
    causes = ", ".join(f"{printable(cause)} {n}" for cause, n in failed)
    total = sum(n for _, n in failed)
    reasons = f" ({causes})" if causes else ""
    early = f", {not_judged} not judged" if not_judged else ""
    return f"{scored} scored, {total} failed{reasons}, {not_applicable} not applicable{early}"


def _failed_lines(
    key: Key, places: Sequence[tuple[str, str]], scores: Mapping[str, Mapping[str, Json]]
) -> list[str]:
    by_system: dict[str, list[str]] = {}
    for system, measure in places:
        bounds = ends_of(scores[system][measure].get("bounds"))
        text = printable(measure)
        if bounds is not None:
            text += f" (mean from {significant(bounds[0])} to {significant(bounds[1])}"
            text += ", whatever the failed would have been)"
        by_system.setdefault(system, []).append(text)
    what = _describe(key)
    return [f"{printable(s)}: {what}: {', '.join(texts)}" for s, texts in by_system.items()]


def _where(places: Sequence[tuple[str, str]], scores: Mapping[str, Mapping[str, Json]]) -> str:
    """Name the measures, and the systems only where not every system is meant."""
    having = Counter(measure for by_measure in scores.values() for measure in by_measure)
    by_measure: dict[str, list[str]] = {}
    for system, measure in places:
        by_measure.setdefault(measure, []).append(printable(system))
    return ", ".join(
        printable(measure)
        if len(systems) == having[measure]
        else f"{printable(measure)} of {', '.join(systems)}"
        for measure, systems in by_measure.items()
    )
