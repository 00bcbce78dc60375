"""What each query of a run was: fingerprints of its text, judgements and gold answers.

The fingerprints of a whole data set tell that two differ; these tell in which queries:
`fingerprints.csv` of a run folder, a row per query and a column per part that the data set has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ragbench.data.runs.run_folder import csv_rows, to_csv
from ragbench.errors import DataError
from ragbench.registry import nearest
from ragbench.signature import fingerprint, fingerprint_json
from ragbench.types import Qrels, Query
from ragbench.types.columnar import QueryFingerprints

FINGERPRINTS_FILE = "fingerprints.csv"
PARTS = ("question", "judgements", "subtopics", "answers")
"""What a query has, in the order of columns."""
_DIGITS = 12


def fingerprint_queries(
    queries: Sequence[Query], qrels: Qrels | None, answers: Mapping[str, Sequence[str]]
) -> QueryFingerprints:
    """Fingerprint every query by itself, as far as there is something to say.

    Example:
        >>> found = fingerprint_queries([Query("q1", "Who?"), Query("q2", "Why?")], None,
        ...                             {"q1": ["the cat"]})
        >>> {part: [*queries] for part, queries in found.items()}
        {'question': ['q1', 'q2'], 'answers': ['q1']}
    """
    asked = {query.id for query in queries}
    found = {"question": {query.id: _question(query) for query in queries}}
    for part, prints in ({} if qrels is None else qrels.query_fingerprints()).items():
        found[part] = {query: print_ for query, print_ in prints.items() if query in asked}
    own = answer_fingerprints({query: gold for query, gold in answers.items() if query in asked})
    # a data set without any has no such column
    return {**found, **({"answers": own} if answers else {})}


def _question(query: Query) -> str:
    """A question with what was said before it."""
    return fingerprint([query.text, *(fingerprint_json(turn.to_dict()) for turn in query.turns)])


def answer_fingerprints(answers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Fingerprint the gold answers of each query, in whatever order; a query without is absent."""
    return {query: fingerprint(sorted(gold)) for query, gold in answers.items() if gold}


def format_fingerprints(query_ids: Sequence[str], prints: QueryFingerprints) -> str:
    """Write `fingerprints.csv`; an empty cell where a part says nothing of a query."""
    return to_csv(
        ["query_id", *_columns(prints)],
        ([query, *row] for query, row in fingerprint_rows(query_ids, prints)),
    )


def fingerprint_rows(
    query_ids: Iterable[str], prints: QueryFingerprints
) -> Iterable[tuple[str, list[str | None]]]:
    """Yield each query with its fingerprint by every part that is known."""
    columns = [prints[part] for part in _columns(prints)]
    return ((query, [column.get(query) for column in columns]) for query in query_ids)


def _columns(prints: QueryFingerprints) -> list[str]:
    return [part for part in PARTS if part in prints]


def read_fingerprints(path: Path) -> QueryFingerprints:
    """Read `fingerprints.csv`; older versions did not write it, which is: nothing is known."""
    try:
        head, *rows = [*csv_rows(path)] or [[]]
    except FileNotFoundError:
        return {}
    if head[:1] != ["query_id"]:
        raise DataError(f"columns: {', '.join(head)}", file=path, allowed="query_id first")
    table = {}
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head):
            allowed = f"one for each of {', '.join(head)}"
            raise DataError(f"{len(row)} cells", file=path, line=number, allowed=allowed)
        table[row[0]] = [cell or None for cell in row[1:]]
    return checked_fingerprints(head[1:], table, path)


def checked_fingerprints(
    parts: Sequence[str], table: Mapping[str, Sequence[object]], file: str | Path
) -> QueryFingerprints:
    """Return what a file holds, a row per query and a column per part, as fingerprints."""
    for part in parts:
        if part not in PARTS or parts.count(part) > 1:
            allowed, near = f"each once: {', '.join(PARTS)}", nearest(part, PARTS)
            raise DataError(f"part '{part}'", file=file, allowed=allowed, nearest=near)
    found: dict[str, dict[str, str]] = {part: {} for part in parts}
    for query, row in table.items():
        if len(row) != len(parts) or not all(cell is None or _is_print(cell) for cell in row):
            allowed = f"{_DIGITS} hexadecimal digits, or nothing, for each of {', '.join(parts)}"
            raise DataError(f"fingerprints of '{query}': {list(row)!r}", file=file, allowed=allowed)
        for part, cell in zip(parts, row, strict=True):
            if isinstance(cell, str):
                found[part][query] = cell
    return found


def _is_print(cell: object) -> bool:
    digits: Collection[str] = "0123456789abcdef"
    return isinstance(cell, str) and len(cell) == _DIGITS and all(c in digits for c in cell)
