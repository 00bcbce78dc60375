"""Records, a row per question: `dataset: {type: records, path: logs.jsonl, columns: {...}}`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files.collection import read_corpus
from ragbench.data.files.columns import check_mapping
from ragbench.data.files.rows import is_csv, read_rows
from ragbench.data.loaders.base import SplitOption, finished, parse_split
from ragbench.data.loaders.record_table import RecordTable
from ragbench.registry import Option
from ragbench.types import Collection


class Records:
    """Read JSON lines, CSV or Parquet with questions, and what systems answered to them.

    Records that carry passages or answers are themselves a system, named `given`, or one for each
    value of `system`. Columns that play no part become metadata of the question.
    """

    def __init__(
        self,
        *,
        path: Annotated[
            Path,
            Option("The .jsonl, .csv or .parquet file, a row per question.", refers_to="path"),
        ],
        columns: Annotated[
            Mapping[str, str | None] | None,
            Option(
                "Which column is the id, question, contexts, answer (the system's), reference "
                "(the gold one), queries, system; null for none."
            ),
        ] = None,
        corpus: Annotated[
            Path | None,
            Option(
                "Documents for retrievers: corpus.jsonl, or a folder of .txt and .md files.",
                refers_to="path",
            ),
        ] = None,
        split: SplitOption = None,
    ) -> None:
        self._path = Path(path)
        self._corpus = None if corpus is None else Path(corpus)
        check_mapping(columns or {}, "records")
        self._columns = columns
        self._split = parse_split(split, "records")

    def load(self) -> Collection:
        """Read and check the records, and the corpus where there is one.

        Raises:
            DataError: What is wrong, with file, line and record.
            MissingExtra: A Parquet file without pyarrow.
        """
        return finished(self._rows().collection(), self._split)

    def preview(self, count: int = 2) -> list[dict[str, Any]]:
        """Return how the first rows were read: part -> value, for `ragbench validate`."""
        return self._rows().preview(count)

    def _rows(self) -> RecordTable:
        return RecordTable(
            list(read_rows(self._path, "records")),
            columns=self._columns,
            documents=None if self._corpus is None else read_corpus(self._corpus),
            file=self._path,
            cells=is_csv(self._path),
        )
