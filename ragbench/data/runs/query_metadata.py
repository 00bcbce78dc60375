"""`queries.jsonl` of a run folder: the metadata of the queries, which may group them later."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.data.runs.run_folder import to_jsonl
from ragbench.errors import DataError
from ragbench.registry import shown
from ragbench.types import Query

QUERIES_FILE = "queries.jsonl"


def format_query_metadata(queries: Sequence[Query]) -> str | None:
    """Write a line for each query; None where no query has metadata.

    Text, numbers and truth values stay, also in mappings; nothing can be grouped by what else there
    is, such as lists.

    Example:
        >>> query = Query("q1", "?", {"topic": "law", "tags": ["a"]})
        >>> print(format_query_metadata([query]).rstrip())
        {"query_id": "q1", "metadata": {"topic": "law"}}
    """
    rows = [{"query_id": query.id, "metadata": _plain(query.metadata)} for query in queries]
    return to_jsonl(rows) if any(row["metadata"] for row in rows) else None


def read_query_metadata(path: Path) -> dict[str, Mapping[str, Any]]:
    """Read query id -> metadata.

    Raises:
        DataError: The file is not what a run writes; names the line.
    """
    found: dict[str, Mapping[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file=path) from error
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            found[str(row["query_id"])] = dict(row["metadata"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"not a line of ours: {shown(line)}", file=path, line=number,
                allowed="query_id and metadata",
            ) from error  # fmt: skip
    return found


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What may name a group."""
    found: dict[str, Any] = {}
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            found[str(key)] = _plain(value)
        elif isinstance(value, (str, bool, int)) or (
            isinstance(value, float) and math.isfinite(value)
        ):
            found[str(key)] = value
    return found
