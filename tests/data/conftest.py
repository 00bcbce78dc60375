"""Small files on disk, and the text of a data error without the folder."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import DataError

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write `name` below the test's folder: bytes, text, or objects as JSON lines."""

    def writer(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(row) + "\n" for row in content)
        data = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return writer


@pytest.fixture
def problem(tmp_path: Path) -> Callable[[Callable[[], Any]], str]:
    """Run something that must end in a `DataError`; return its text, paths cut to their names."""

    def message(call: Callable[[], Any]) -> str:
        with pytest.raises(DataError) as caught:
            call()
        return str(caught.value).replace(f"{tmp_path}/", "").replace(str(tmp_path), "FOLDER")

    return message


@pytest.fixture
def folder(write: Write, tmp_path: Path) -> Path:
    """A data set folder: three documents, three queries, two of them judged."""
    write(
        "corpus.jsonl",
        [
            {"_id": "d1", "title": "One", "text": "first text"},
            {"_id": "d2", "text": "second text", "metadata": {"year": 1999}},
            {"_id": "d3", "title": "", "text": ""},
        ],
    )
    write("queries.jsonl", [{"_id": f"q{n}", "text": f"question {n}"} for n in (1, 2, 3)])
    write("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq2\td2\t2\nq1\td1\t1\nq1\td2\t0\n")
    return tmp_path
