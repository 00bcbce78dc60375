"""Lines with the numbers of scored, failed and not applicable items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from ragbench.records.score import SystemScore
from ragbench.report import text as fmt
from ragbench.types.display import printable
from ragbench.types.lookups import omit_empty

# System -> measure -> its score.
Scores = Mapping[str, Mapping[str, SystemScore]]


def count_lines(scores: Scores, measures: Sequence[str]) -> list[str]:
    """Return lines with the numbers of scored, failed and not applicable items, with causes.

    Scores with the same counts and causes share a line, the most frequent counts first. The other
    lines name their scores, with the bounds of means that failed items or answers leave open.
    """
    # equal counts are stated once, however many scores have them: counts -> (measure, system)
    groups: dict[str, list[tuple[str, str]]] = {}
    for measure, system in product(measures, scores):
        if (score := scores[system].get(measure)) is not None:
            causes = fmt.causes(omit_empty(score.failed).items())
            counts = f"{score.n} scored, {score.n_failed} failed{causes}"
            counts += f", {fmt.not_applicable(score)}"
            groups.setdefault(counts, []).append((measure, system))
    if not groups:
        return []
    usual = max(groups, key=lambda counts: len(groups[counts]))
    # with several answers per query, some may fail without a failed query
    bounded = []
    for measure, name in groups[usual]:
        if fmt.bounds_words(scores[name][measure]):
            bounded.append((measure, name))
    lines = []
    if len(bounded) < len(groups[usual]):
        lines = [f"{usual} in every score but these:" if len(groups) > 1 else usual]
    for counts, places in groups.items():
        listed = bounded if counts == usual else places
        lines += [f"{counts}: {_where(listed, scores)}"] if listed else []
    return lines


def _where(places: Sequence[tuple[str, str]], scores: Scores) -> str:
    """Return measures with systems and bounds; a measure of all systems alone names none."""
    by_measure: dict[str, list[str]] = {}
    for measure, system in places:
        bounds = fmt.bounds_words(scores[system][measure])
        text = printable(system) + (f" ({bounds})" if bounds else "")
        by_measure.setdefault(measure, []).append(text)
    words = []
    for measure, names in by_measure.items():
        everywhere = [printable(system) for system in scores if measure in scores[system]]
        systems = "" if names == everywhere else f" of {', '.join(names)}"
        words.append(printable(measure) + systems)
    return ", ".join(words)
