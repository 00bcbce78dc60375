"""Systems of a comparison with their letters and labels in tables, and short names of runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ragbench.comparison.matching import Matching
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.types.lookups import select_in_order

# Letters of systems in tables; most fonts have no superscript q.
_LETTERS = "abcdefghijklmnoprstuvwxyz"
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """System of a comparison, with its label and letter in tables; `compared_rows` returns them.

    Attributes:
        letter: Letter in marks of significance: `a`, `b` to `z` without `q`, then `a1`.
        label: Name that no other row has: `bm25`, or `bm25 (runs/new)`.
        source: Position of its source; 0 is the base.
        group: Its key in `Matching.groups`: mostly the name of the same system in the base.
        scores: System under its own name, with the columns of the compared measures only.
    """

    letter: str
    label: str
    source: int
    group: str
    scores: SystemScores


def compared_rows(matching: Matching) -> list[ComparedRow]:
    """Return a row for each system, those that are compared with each other side by side.

    Systems without any of the measures have no row. They are ordered by their set of measures, then
    by group and source; letters follow this order. Labels of systems of the same name end with the
    short name of their source.
    """
    # a table has the systems of the same measures: together, so that its letters have no gaps
    by_measures: dict[tuple[str, ...], list[tuple[str, int, SystemScores]]] = {}
    for group, names_of_group in matching.groups.items():
        for place, name in enumerate(names_of_group):
            if name is not None:
                system = matching.sources[place].systems[name]
                columns = select_in_order(system.columns, matching.measures)
                system = replace(system, columns=columns)
                by_measures.setdefault(tuple(columns), []).append((group, place, system))
    by_measures.pop((), None)
    members = list(chain.from_iterable(by_measures.values()))
    counts = Counter(system.name for _, _, system in members)
    tails = short_names(matching.names)
    rows = []
    for i, (group, place, system) in enumerate(members):
        turn, letter = divmod(i, len(_LETTERS))
        letters = f"{_LETTERS[letter]}{turn or ''}"
        is_unique = counts[system.name] == 1
        name = system.name if is_unique else f"{system.name} ({tails[place]})"
        rows.append(ComparedRow(letters, name, place, group, system))
    return rows


def rows_by_label(matching: Matching) -> dict[str, ComparedRow]:
    """Return the rows of `compared_rows` by their labels."""
    return {row.label: row for row in compared_rows(matching)}


def short_names(sources: Sequence[str]) -> list[str]:
    """Return the shortest ends of paths that differ, in the order of the paths.

    Run folders of the same day are named without the date. If two paths are equal, all keep their
    full path and get a number: `path #1`, `path #2`. Without paths the list is empty.

    Example:
        >>> short_names(["runs/a/20261122-183350-2371", "runs/a/20261122-190412-1ce2"])
        ['183350-2371', '190412-1ce2']
        >>> short_names([])
        []
    """
    parts = []
    for source in sources:
        parts.append(source.replace("\\", "/").rstrip("/").split("/"))
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = []
        for part in parts:
            names.append("/".join(part[-length:]))
        if len(set(names)) == len(names):
            days = set()
            for name in names:
                days.add(name[:9] if _RUN_ID.fullmatch(name) else name)
            return [name[9:] for name in names] if len(days) == 1 < len(names) else names
    return _numbered(sources)


def unique_names(sources: Sequence[str]) -> list[str]:
    """Return the paths, with numbers as in `short_names` if two of them are equal."""
    return list(sources) if len(set(sources)) == len(sources) else _numbered(sources)


def _numbered(sources: Sequence[str]) -> list[str]:
    """Return `path #1`, `path #2` and so on, in the order of the paths."""
    return [f"{source} #{place}" for place, source in enumerate(sources, start=1)]
