"""Data sets of the Hugging Face hub: `dataset: {type: huggingface, path: org/name}`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ragbench.data.files.columns import check_mapping
from ragbench.data.files.corpus import read_corpus
from ragbench.data.files.rows import Entry
from ragbench.data.loaders.base import parse_split
from ragbench.data.loaders.records import RecordTable, TableLoader
from ragbench.errors import DataError, MissingExtra
from ragbench.registry import Option


class HuggingFace(TableLoader):
    """Read a data set of the hub, or a folder in its layout, with a question in each row.

    Rows are read as `records` reads them; the columns of the RAGBench data set are known. A
    folder is read where it lies, what comes from the hub is kept by the datasets package.
    """

    def __init__(
        self,
        *,
        path: Annotated[
            str,
            Option(
                "Name on the hub, or a folder of .parquet, .jsonl or .csv files.",
                refers_to="folder_or_name",
            ),
        ],
        subset: Annotated[
            str | None, Option("The subset, if there are several: `covidqa` of RAGBench.")
        ] = None,
        split: Annotated[
            str | Mapping[str, Any],
            Option(
                "The split that is scored; {test: 0.2, seed: 13} draws one if there is only one."
            ),
        ] = "test",
        columns: Annotated[
            Mapping[str, str | list[str] | None] | None,
            Option("Which column plays which part, as in `records`; null for none."),
        ] = None,
        corpus: Annotated[
            Path | None, Option("Documents for retrievers, as in `records`.", refers_to="path")
        ] = None,
    ) -> None:
        self._path, self._subset = path, subset
        self._name = split if isinstance(split, str) else None
        self._drawn = None if isinstance(split, str) else parse_split(split, "huggingface")
        check_mapping(columns or {}, "huggingface")
        self._columns = columns
        self._corpus = None if corpus is None else Path(corpus)

    def _rows(self) -> RecordTable:
        name, rows = self._split()
        place = self._path if self._subset is None else f"{self._path} ({self._subset})"
        numbered = enumerate(rows, start=1)
        entries = [
            Entry(place, None, dict(row), f"{name} row {number}") for number, row in numbered
        ]
        if not entries:
            raise DataError("no rows", file=place, record=name, allowed="at least one")
        corpus = None if self._corpus is None else read_corpus(self._corpus)
        return RecordTable(entries, columns=self._columns, corpus=corpus, file=place)

    def _split(self) -> tuple[str, Any]:
        try:
            # by name: a folder `datasets` where we are would pass for the package itself
            from datasets import load_dataset
        except ImportError as error:
            raise MissingExtra("dataset 'huggingface'", "datasets", "huggingface") from error
        is_local = os.path.isdir(self._path)
        try:
            # streamed: files that are here already need no second copy in the cache
            splits = load_dataset(self._path, self._subset, streaming=is_local)
        except Exception as error:
            reason = str(error).split("\n", 1)[0]
            allowed = "a data set of the hub that can be reached, or a folder with one"
            found = f"cannot be loaded: {type(error).__name__}: {reason}"
            raise DataError(found, file=self._path, allowed=allowed) from error
        names = list(splits)
        name = names[0] if self._name is None else self._name
        if name not in names:
            found = f"no split '{name}'"
            raise DataError(found, file=self._path, record="split", allowed=", ".join(names))
        if self._name is None and len(names) > 1:
            found = f"there are splits already: {', '.join(names)}"
            raise DataError(found, file=self._path, record="split", allowed="one of them by name")
        return name, splits[name]
