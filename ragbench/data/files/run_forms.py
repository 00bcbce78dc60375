"""Runs and judgements in other files than TREC's: JSON of ranx and BEIR, MS MARCO, folders.

JSON is an object {query id: {document id: score or grade}}. A run of MS MARCO has three columns:
query, document and rank. A folder has a file for each question, as the harness of an agent writes
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ragbench.data.files import lines
from ragbench.data.files.rows import Entry, check_ids, read_json
from ragbench.errors import DataError
from ragbench.records.codec import kind

_NESTED = "{query id: {document id: number}}"
_LARGEST = 1e300  # JSON may have integers that no float holds
_RANKED = "query document rank"


def is_json(source: lines.Source) -> bool:
    """Return True for the path of a file that ends in .json or .json.gz."""
    return isinstance(source, (str, Path)) and lines.plain_suffix(Path(source)) == ".json"


def read_nested(path: Path) -> Mapping[str, Mapping[str, float]]:
    """Return the scores or grades of a JSON file, by query and document.

    Raises:
        DataError: The file cannot be read, has another form, no query or an id that run files
            cannot hold.
    """
    values = read_json(path)
    if not isinstance(values, dict) or not values:
        raise DataError(f"{kind(values)}", file=path, allowed=_NESTED)
    for query, row in values.items():
        if not isinstance(row, dict):
            problem = f"'{query}' has {kind(row)}"
            raise DataError(problem, file=path, allowed=_NESTED)
        for document, number in row.items():
            is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
            if not is_number or abs(number) > _LARGEST:
                problem = f"document '{document}' of query '{query}' has {kind(number)}"
                raise DataError(problem, file=path, allowed=_NESTED)
        check_ids(list(row), "document")
    check_ids(list(values), "query")
    return values


def as_trec(source: lines.Source) -> bytes | None:
    """Return the lines of TREC for a run in JSON, of MS MARCO or in a folder; None for others.

    The tag is the name of the file or folder without its suffix.

    Raises:
        DataError: The file begins in such a form, and cannot be read or has a wrong line.
    """
    if not isinstance(source, (str, Path)) or not Path(source).exists():
        return None
    path = Path(source)
    tag = "_".join(path.name.partition(".")[0].split()) or "run"
    if path.is_dir():
        hits = _recorded_hits(path)
    elif not path.is_file():
        return None
    elif is_json(path):
        hits = _nested_hits(path)
    elif _is_ranked(path):
        hits = _ranked_hits(path)
    else:
        return None
    lines_of_hits = []
    for query, document, score in hits:
        if query.startswith("#"):
            problem = f"query '{query}' begins with #, as comments of run files do"
            raise DataError(problem, file=path, allowed="another first character")
        lines_of_hits.append(f"{query} Q0 {document} 0 {score} {tag}\n")
    return "".join(lines_of_hits).encode() or b"# a run without hits\n"


def _nested_hits(path: Path) -> Iterable[tuple[str, str, str]]:
    """Yield (query, document, score) of a JSON file, the hits of each query best first."""
    for query, row in read_nested(path).items():
        # the order of a mapping means nothing
        for document, score in sorted(row.items(), key=lambda hit: -hit[1]):
            yield query, document, repr(float(score))


def _recorded_hits(folder: Path) -> Iterable[tuple[str, str, str]]:
    """Yield (query, document, score) of a folder of answers with the ids that they retrieved."""
    # a run file needs no tables
    from ragbench.data.files.collection import check_unique
    from ragbench.data.files.gold import RankedIds
    from ragbench.data.files.published_rows import read_published
    from ragbench.data.files.tables import read_table

    published = read_published(list(read_table(folder, "run")), {})
    if not published.columns.keys() >= {"id", "retrieved"}:
        allowed = "a run file, or a folder of run_*.json with query_id and retrieved_docids"
        raise DataError("a folder without a run", file=folder, allowed=allowed)
    name, retrieved = published.columns["id"], published.columns["retrieved"]
    reader, entries = RankedIds(None), dict[str, Entry]()
    for entry in published.entries:
        query = entry.id(name)
        check_unique(query, "query", entry, entries)
        for rank, document in enumerate(reader.ranking(entry, retrieved) or (), 1):
            yield query, document, f"-{rank}"


def _is_ranked(path: Path) -> bool:
    """Return True if the first line of a file has the three columns of MS MARCO."""
    first = next((line.split() for _, line in lines.read_lines(path) if line.strip()), [])
    # a line of TREC that was cut has Q0 in its place
    return len(first) == 3 and first[2].isdigit() and first[1] != b"Q0"


def _ranked_hits(path: Path) -> Iterable[tuple[str, str, str]]:
    """Yield (query, document, score) of each line; raise a `DataError` for a wrong line."""
    for number, line in lines.read_lines(path):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 3:
            raise lines.wrong_columns(fields, line, "3", _RANKED, str(path), number)
        query, document, rank = (part.decode("utf-8", "backslashreplace") for part in fields)
        if not rank.isdecimal() or rank.strip("0") == "":
            problem = f"rank '{rank[:40]}'"
            raise DataError(problem, file=path, line=number, allowed="an integer from 1")
        # the best rank has the highest score
        yield query, document, f"-{rank}"
