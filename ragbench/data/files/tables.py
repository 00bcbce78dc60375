"""Tables at a path: a file, a folder with files by split, or a folder of `save_to_disk`.

Folders are those of the Hugging Face hub (`test-00000-of-00002.parquet`, `data/test.jsonl`), of
`Dataset.save_to_disk` (Arrow files) and of `DatasetDict.save_to_disk` (a subfolder per split).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path

from ragbench.data.files.lines import plain_suffix
from ragbench.data.files.rows import (
    SUFFIXES,
    Entry,
    array_entries,
    read_arrow,
    read_json,
    read_rows,
)
from ragbench.errors import DataError
from ragbench.files import subfolders_in
from ragbench.registry import nearest
from ragbench.types.lookups import item_names

# Split -> its files, or its folder of save_to_disk.
Tables = Mapping[str, Sequence[Path]]
_TABLES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
# the hub cuts long tables into files of this name
_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?")
# an agent's harness writes a file for each question
_RUN = re.compile(r"(run)_.+")
# Files of the datasets package that describe a folder
_DESCRIPTIONS = frozenset({"dataset_dict.json", "dataset_info.json", "dataset_infos.json"})
_STATE = "state.json"
# Splits in the order in which one is chosen
_SPLITS = ("test", "validation", "valid", "val", "dev")


def find_tables(folder: Path) -> Tables:
    """Return split -> files of a folder, by name; {} without tables.

    A folder of `Dataset.save_to_disk` is one table with the name of the folder. Tables may stand
    in a subfolder `data`. Hidden files are left out. Files in two formats raise DataError.
    """
    if _is_saved(folder):
        return {folder.resolve().name: [folder]}
    names = sorted(path for path in folder.iterdir() if path.name[0] not in "._")
    saved = {}
    for path in names:
        if _is_saved(path):
            saved[path.name] = [path]
    if saved:
        return saved
    tables: dict[str, list[Path]] = {}
    for path in names:
        if path.is_file() and plain_suffix(path) in _TABLES and path.name not in _DESCRIPTIONS:
            tables.setdefault(_split_of(path), []).append(path)
    for split, files in tables.items():
        is_cut = all(_part_name(path) for path in files)
        if len(files) > 1 and not is_cut:
            problem = f"split '{split}' is in {' and '.join(item_names(files))}"
            raise DataError(problem, file=folder, allowed="one of them")
    if not tables and (folder / "data").is_dir():
        return find_tables(folder / "data")
    return tables


def find_table(folder: Path, name: str) -> Path | None:
    """Return the file or subfolder of a folder that holds a table; DataError if several do."""
    paths = []
    for suffix, end in product(_TABLES, ("", ".gz")):
        path = folder / f"{name}{suffix}{end}"
        if path.is_file():
            paths.append(path)
    subfolder = folder / name
    if subfolder.is_dir() and find_tables(subfolder):
        paths.append(subfolder)
    if len(paths) > 1:
        problem = f"both {paths[0].name} and {paths[1].name} exist"
        raise DataError(problem, file=folder, allowed="one of the two")
    return paths[0] if paths else None


def read_table(path: Path, subject: str, split: str | None = None) -> Iterator[Entry]:
    """Return an iterator over the rows of a file, or of a split of a folder.

    Args:
        path: The file or folder.
        subject: Owner of the table, for the message that Parquet needs an extra.
        split: The split of a folder; None takes the only one, or `usual_split`.

    Raises:
        DataError: The path has no table or no such split, or it cannot be read.
        MissingExtra: A Parquet or Arrow file without the extra `parquet`.
    """
    if not os.path.isdir(path):
        return read_rows(path, subject)
    tables = find_tables(path)
    return _read_parts(tables[_chosen_split(path, tables, split)], subject)


def read_all_splits(path: Path, subject: str, split: str | None = None) -> Iterator[Entry]:
    """Return the rows as `read_table`, but those of all splits of a folder without the split."""
    if not os.path.isdir(path):
        return read_rows(path, subject)
    tables = find_tables(path)
    return _read_parts(tables.get(split or "") or chain.from_iterable(tables.values()), subject)


def usual_split(tables: Tables) -> str | None:
    """Return the only split, or the one that is usually scored: test, validation or dev."""
    if len(tables) == 1:
        return next(iter(tables))
    for name in _SPLITS:
        if name in tables:
            return name
    return None


def _chosen_split(folder: Path, tables: Tables, split: str | None) -> str:
    """Return the split to read; raise a `DataError` if it is missing or cannot be told."""
    if not tables:
        raise _no_table(folder)
    # a table of save_to_disk has the name of its folder, not of a split
    if _is_saved(folder):
        return next(iter(tables))
    name = usual_split(tables) if split is None else split
    names = ", ".join(tables)
    if name is None:
        problem = f"several tables: {names}"
        allowed = "one of them, or {type: huggingface, split: NAME}"
        raise DataError(problem, file=folder, allowed=allowed)
    if name not in tables:
        close = nearest(name, tables)
        problem = f"no split '{name}'"
        raise DataError(problem, file=folder, record="split", allowed=names, nearest=close)
    return name


def _no_table(folder: Path) -> DataError:
    """Return the error for a folder without a table, with its subfolders that have tables."""
    names = []
    for path in subfolders_in(folder):
        if find_tables(path):
            names.append(path.name)
    if names:
        problem = f"no table in the folder, but in {', '.join(names)}"
        return DataError(problem, file=folder, allowed="one of these folders")
    return DataError("no table in the folder", file=folder, allowed=f"{SUFFIXES} files")


def _read_parts(paths: Iterable[Path], subject: str) -> Iterator[Entry]:
    """Yield the rows of files, and of folders of save_to_disk."""
    for path in paths:
        if not path.is_dir():
            yield from _read_object(path) if _is_run_file(path) else read_rows(path, subject)
            continue
        for file in sorted(path.glob("*.arrow")):
            # the package writes its caches beside the data
            if not file.name.startswith("cache-"):
                yield from read_arrow(file, subject)


def _is_saved(path: Path) -> bool:
    """Return True for a folder that `datasets.save_to_disk` has written."""
    return (path / _STATE).is_file() and any(path.glob("*.arrow"))


def _split_of(path: Path) -> str:
    """Return the name of a file without its suffixes and the number of its part."""
    match = _part_name(path)
    return match[1] if match else _stem(path)


def _part_name(path: Path) -> re.Match[str] | None:
    """Return the name of a part of a table, with the table as its group; None for other files."""
    if _is_run_file(path):
        return _RUN.fullmatch(_stem(path))
    return _SHARD.fullmatch(_stem(path))


def _is_run_file(path: Path) -> bool:
    return plain_suffix(path) == ".json" and _RUN.fullmatch(_stem(path)) is not None


def _read_object(path: Path) -> Iterator[Entry]:
    """Yield the object of a JSON file as a row, or the rows of its array."""
    value = read_json(path)
    is_row = isinstance(value, dict)
    yield from [Entry(str(path), None, value)] if is_row else array_entries(value, path)


def _stem(path: Path) -> str:
    """Return the name of a file without `.gz` and without its ending."""
    stem = path.name[: -len(".gz")] if path.suffix.lower() == ".gz" else path.name
    return stem[: -len(plain_suffix(path))]
