"""Saved results: `result.save(path)` writes the file that `rb.load(path)` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from ragbench.comparison.input_table import InputTable
from ragbench.comparison.slices import Slicing
from ragbench.data.runs.run_folder import read_record
from ragbench.errors import DataError
from ragbench.records.codec import to_line
from ragbench.records.columns import column_row, read_column_row
from ragbench.records.evaluation import EvaluationFile, RubricScale, SavedCells, SlicesOfField
from ragbench.records.score import PairCounts, RunCounts
from ragbench.score.judge.base import Rubric
from ragbench.types.tables import load_pandas, plain


def evaluation_text(parts: Mapping[str, Any]) -> str:
    """Return the attributes of an `Evaluation` as the text of its file.

    Raises:
        DataError: A column of the table or the index holds values that JSON does not have.
    """
    counts, table = parts["input_counts"], parts["table"]
    further = []
    for name, cells in table.columns.items():
        further.append(_table_column(name, cells))
    slices = []
    for slicing in parts["slicings"]:
        labels = tuple(map(tuple, slicing.labels))
        slices.append(SlicesOfField(field=slicing.field, names=slicing.names, labels=labels))
    texts = {}
    for part, cells in parts["texts"].items():
        texts[part] = tuple(map(plain, cells))
    rubrics = {}
    for name, rubric in parts["rubrics"].items():
        levels = {}
        for level, text in rubric.scale.items():
            levels[str(level)] = text
        rubrics[name] = RubricScale(levels=levels, method=rubric.method, direction=rubric.direction)
    record = EvaluationFile(
        query_ids=tuple(parts["query_ids"]),
        confidence=parts["confidence"],
        columns=tuple(map(column_row, parts["columns"].values())),
        run_counts=counts if isinstance(counts, RunCounts) else None,
        pair_counts=counts if isinstance(counts, PairCounts) else None,
        fingerprints=parts["fingerprints"],
        notes=parts["notes"],
        query_notes=parts["query_notes"],
        kinds=parts["kinds"],
        texts=texts,
        verdicts=parts["verdicts"],
        table=tuple(further),
        index=None if table.index is None else _index_levels(table.index),
        slices=tuple(slices),
        rubrics=rubrics,
    )
    return to_line(record)


def read_evaluation(path: str | Path) -> dict[str, Any]:
    """Return the attributes of the `Evaluation` in a file.

    Raises:
        DataError: The file is missing, damaged or of another kind.
        MissingExtra: The result has the index of a pandas frame, and pandas is not installed.
    """
    record = read_record(Path(path), EvaluationFile)
    counts = record.pair_counts if record.run_counts is None else record.run_counts
    if counts is None:
        raise DataError("no counts", file=path, allowed="run_counts or pair_counts")
    columns = {}
    for row in record.columns:
        try:
            columns[row.name] = read_column_row(row)
        except (ValueError, KeyError, IndexError) as error:
            raise DataError(f"{row.name}: {error}", file=path, record="columns") from error
    _check_lengths(record, path)
    index = None if record.index is None else _pandas_index(record.index)
    table = InputTable({str(column.name): _cells(column) for column in record.table}, index)
    rubrics = {}
    for name, of in record.rubrics.items():
        levels = {}
        for level, text in of.levels.items():
            levels[int(level)] = text
        rubrics[name] = Rubric(name, "answer", (), levels, (), (), of.method, of.direction)
    return {
        "query_ids": record.query_ids,
        "columns": columns,
        "input_counts": counts,
        "confidence": record.confidence,
        "fingerprints": record.fingerprints,
        "notes": record.notes,
        "kinds": record.kinds,
        "texts": record.texts,
        "verdicts": record.verdicts,
        "query_notes": record.query_notes,
        "table": table,
        "slicings": [Slicing(part.field, part.names, part.labels) for part in record.slices],
        "rubrics": rubrics,
    }


def _table_column(name: Any, cells: Sequence[Any]) -> SavedCells:
    """Return a column with its cells as JSON values."""
    values, is_time = list[Any](), False
    for value in map(plain, cells):
        if isinstance(value, date):
            is_time = True
            values.append(value.isoformat())
        elif _is_json(value):
            values.append(value)
        else:
            is_number = isinstance(value, float)
            content = f"{value}, which JSON does not have" if is_number else type(value).__name__
            problem = f"column '{name}' holds {content}"
            allowed = "texts, numbers, times, lists and mappings; drop the column to save"
            raise DataError(problem, record="save", allowed=allowed)
    name = name if isinstance(name, (str, int)) else None
    return SavedCells(name=name, cells=tuple(values), is_time=is_time)


def _is_json(value: object) -> bool:
    """Return True for a value that JSON gives back as it is."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or type(value) in (str, bool, int)


def _index_levels(index: Any) -> tuple[SavedCells, ...]:
    """Return the levels of a pandas index."""
    levels = []
    for number, name in enumerate(index.names):
        levels.append(_table_column(name, index.get_level_values(number)))
    return tuple(levels)


def _cells(column: SavedCells) -> list[Any]:
    """Return the cells of a column, with times as such."""
    if not column.is_time:
        return list(column.cells)
    cells = []
    for text in column.cells:
        cells.append(None if text is None else datetime.fromisoformat(text))
    return cells


def _pandas_index(levels: Sequence[SavedCells]) -> Any:
    """Return the pandas index of its levels."""
    pd = load_pandas("load")
    cells = [_cells(level) for level in levels]
    if len(levels) == 1:
        return pd.Index(cells[0], name=levels[0].name)
    return pd.MultiIndex.from_arrays(cells, names=[level.name for level in levels])


def _lengths(record: EvaluationFile) -> Iterator[tuple[str, int]]:
    """Yield the place of each column in a file, and its number of items."""
    for row in record.columns:
        yield f"columns.{row.name}", len(row.values)
    for part, cells in record.texts.items():
        yield f"texts.{part}", len(cells)
    for column in record.table:
        yield f"table.{column.name}", len(column.cells)
    for level in record.index or ():
        yield f"index.{level.name}", len(level.cells)
    for slices in record.slices:
        yield f"slices.{slices.field}", len(slices.labels)


def _check_lengths(record: EvaluationFile, path: str | Path) -> None:
    """Raise a `DataError` if a column has another number of items than there are ids."""
    for place, length in _lengths(record):
        if length != len(record.query_ids):
            problem = f"{length} values"
            allowed = f"{len(record.query_ids)}, one per id"
            raise DataError(problem, file=path, record=place, allowed=allowed)
