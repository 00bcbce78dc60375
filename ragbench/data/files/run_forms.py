"""Runs and judgements in other files than TREC's: JSON of ranx and BEIR, lines of MS MARCO.

JSON is an object {query id: {document id: score or grade}}. A run of MS MARCO has three columns:
query, document and rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ragbench.data.files import lines
from ragbench.data.files.rows import check_ids, read_json
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
    """Return the lines of TREC for a run in JSON or of MS MARCO; None for any other source.

    The tag is the name of the file without its suffix.

    Raises:
        DataError: The file begins in such a form, and cannot be read or has a wrong line.
    """
    if not isinstance(source, (str, Path)) or not Path(source).is_file():
        return None
    path = Path(source)
    tag = "_".join(path.name.partition(".")[0].split()) or "run"
    if is_json(path):
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
