"""Rows of published judgements, by the table of their forms in `judged_forms.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.data.files.collection import check_unique
from ragbench.data.files.columns import value_at
from ragbench.data.files.fields import read_text, read_texts
from ragbench.data.files.judged_forms import JUDGED_FORMS, JudgedForm, find_judged_form
from ragbench.data.files.published_rows import convert_row
from ragbench.data.files.rows import Entry, id_problem
from ragbench.data.files.tables import read_table
from ragbench.errors import DataError, OptionError
from ragbench.signature import fingerprint
from ragbench.types.lookups import item_names, take_items
from ragbench.types.tables import PARTS, columns_named

# Form of a table that is none of the published ones.
_TABLE = JudgedForm(
    "a table with labels", (), ids_repeat=True, asks=("answer", "context", "conversation")
)
# Column of the labels, after the conversion by a form.
LABEL = "label"
_LISTED = 4  # columns that a message lists
_FEWEST_SPOKEN = 0.1  # share of the rows of a file
_TABLE_PARTS = ("id", "system", "question", "contexts", "answer")
OWN_PARTS = (*_TABLE_PARTS, "unit")


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """Row that people have judged: an answer, or two answers of which they prefer one.

    Attributes:
        entry: Row with its place, after the conversion by its form.
        id: Id of the row, unique for its system.
        unit: Unit of sampling: rows with the same unit are not independent.
        system: System that wrote the answer; None without one.
        question: Question; None without one.
        contexts: Passages; None without any.
        answer: Answer, of a pair the one that people prefer; None without one.
        other: Answer of a pair that people like less; None if there is no pair.
        raters: Rater -> label, of a set that tells the labels of each rater.
    """

    entry: Entry
    id: str
    unit: str
    system: str | None
    question: str | None
    contexts: list[str] | None
    answer: str | None
    other: str | None
    raters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Rows of published judgements; `read_judged_rows` returns them.

    Attributes:
        form: Name of the form.
        files: Files of the rows.
        rows: Rows in the order of the files, or those that were drawn.
        label_columns: Columns of the labels; empty for pairs.
        n_total: Number of rows of the files.
        group: Column by which the set is usually reported in parts; empty for none.
        asks: Objects of the labels, in the words of `asks` of a rubric.
    """

    form: str
    files: Sequence[Path]
    rows: Sequence[JudgedRow]
    label_columns: tuple[str, ...]
    n_total: int
    group: str = ""
    asks: tuple[str, ...] = ("answer",)

    @property
    def are_pairs(self) -> bool:
        """Return True if each row has two answers."""
        return self.rows[0].other is not None

    @property
    def unit(self) -> str:
        """Plural noun for the rows: `pairs` of answers, `passages` without an answer, or `rows`."""
        if self.are_pairs:
            return "pairs"
        has_answer = self.rows[0].answer is not None or self.rows[0].contexts is None
        return "rows" if has_answer else "passages"

    def draw(self, n: int, seed: int) -> JudgedSet:
        """Return n random rows, of each label as many as its share; all rows if there are fewer.

        Raises:
            OptionError: `n` is below 1.
        """
        if n < 1:
            raise OptionError("--limit", "", n, "a number from 1")
        if n >= len(self.rows):
            return self
        rng = np.random.default_rng(seed)
        labels = [str(self._label(row)) for row in self.rows]
        # sorted by label and at random within it: each (N / n)th row from a random start
        order = np.lexsort((rng.random(len(labels)), np.unique(labels, return_inverse=True)[1]))
        places = np.floor((rng.random() + np.arange(n)) * len(labels) / n).astype(int)
        chosen = sorted(order[places.clip(max=len(labels) - 1)].tolist())
        return replace(self, rows=take_items(self.rows, chosen))

    def _label(self, row: JudgedRow) -> Any:
        column = self.label_columns[0] if self.label_columns else LABEL
        return row.entry.values.get(column)


def read_judged_rows(files: Sequence[Path], columns: Mapping[str, Sequence[str]]) -> JudgedSet:
    """Read published judgements; the columns of the first row tell their form.

    Args:
        files: One file, or the files of a set in several: rows of two files are joined by the
            column that the form names, rows of more files follow each other.
        columns: Part -> column, as the user names them: `label` may have several.

    Raises:
        DataError: A file cannot be read, the rows have no known form, or a row has a wrong value;
            the message has the place.
        MissingExtra: A Parquet file without the extra `parquet`.
        IndexError: There is no file.
    """
    tables = [list(read_table(file, "--on")) for file in files]
    for file, entries in zip(files, tables, strict=True):
        if not entries:
            raise DataError("no rows", file=file, allowed="at least one judged row")
    form, entries = _form_of(tables, columns)
    if form.convert is not None:
        entries = list(chain.from_iterable(_converted(form, entry) for entry in entries))
    if form.silence:
        _complete_raters(form, entries)
    user_columns = {}
    for part, names in columns.items():
        if part in OWN_PARTS:
            user_columns[part] = names[-1]
    labels = tuple(columns.get(LABEL, ())) or _label_columns(entries[0])
    parts = {**_usual_columns(form, entries, labels), **form.columns, **user_columns}
    rows = []
    for number, entry in enumerate(entries, start=1):
        rows.append(_row(entry, parts, number))
    rows = _apart(rows) if form.ids_repeat else rows
    if len(files) > 1 and not form.join:
        # ids are those within a file
        rows = [replace(row, id=f"{Path(row.entry.file).stem}-{row.id}") for row in rows]
    places: dict[str, Entry] = {}
    for row in rows:
        name = f"{row.id}' of '{row.system}" if row.system else row.id
        check_unique(name, "judged row", row.entry, places)
    if rows[0].other is not None:
        labels = ()
    elif not labels:
        problem = f"no column with labels (columns: {', '.join(entries[0].values)})"
        raise entries[0].error(problem, allowed="label, label_1 ..., or --column label=COLUMN")
    asks = ("pair",) if rows[0].other is not None else form.asks
    return JudgedSet(form.name, tuple(files), rows, labels, len(rows), form.group, asks)


def _form_of(
    tables: Sequence[Sequence[Entry]], columns: Mapping[str, Sequence[str]]
) -> tuple[JudgedForm, list[Entry]]:
    """Return the form of the rows, and the rows, joined if the form has two files."""
    entries = list(chain.from_iterable(tables))
    if len(tables) == 2:
        for form in JUDGED_FORMS:
            if form.join and form.fits(tables[0][0].values | tables[1][0].values):
                return form, _joined(tables, form.join)
    first = entries[0]
    form_of_first = find_judged_form(first.values)
    if form_of_first is not None:
        return form_of_first, entries
    # the form that lacks least, if the row has most of its keys
    closest = min(JUDGED_FORMS, key=lambda form: len(form.missing_keys(first.values)))
    missing = closest.missing_keys(first.values)
    if closest.join in first.values and closest.join:
        problem = f"{closest.name} without {', '.join(missing)}"
        raise first.error(problem, allowed=f"both files, joined by {closest.join}: --on FILE FILE")
    if LABEL in columns:
        return _TABLE, entries
    if 2 * len(missing) < len(closest.keys):
        allowed = "all its columns, or --column label=COLUMN for another table"
        raise first.error(f"{closest.name} without {', '.join(missing)}", allowed=allowed)
    if _label_columns(first):
        return _TABLE, entries
    columns_of_row = [*first.values][:_LISTED] + ["..."] * (len(first.values) > _LISTED)
    problem = f"no form of a judged set (columns: {', '.join(columns_of_row)})"
    names = ", ".join(item_names(JUDGED_FORMS))
    raise first.error(problem, allowed=f"{names}, or a table with a column label")


def _joined(tables: Sequence[Sequence[Entry]], column: str) -> list[Entry]:
    """Return the rows of two files joined by a column, which is unique in one of the files."""
    rows, further_rows = tables
    keys = []
    for table in tables:
        keys.append([entry.id(column) for entry in table])
    # the file with a row for each key completes the other one
    if len(set(keys[1])) < len(keys[1]) and len(set(keys[0])) == len(keys[0]):
        rows, further_rows = further_rows, rows
        keys.reverse()
    places: dict[str, Entry] = {}
    further = {}
    for key, entry in zip(keys[1], further_rows, strict=True):
        check_unique(key, column, entry, places)
        further[key] = entry.values
    joined = []
    for key, entry in zip(keys[0], rows, strict=True):
        if key not in further:
            problem = f"{column} '{key}' is in no row of {Path(further_rows[0].file).name}"
            raise entry.error(problem, allowed="a row for it in each of both files")
        joined.append(replace(entry, values={**further[key], **entry.values}))
    return joined


def _apart(rows: Sequence[JudgedRow]) -> list[JudgedRow]:
    """Return the rows with a number behind an id that comes again with another answer."""
    numbers: dict[tuple[str, str | None], dict[tuple[str | None, str | None], int]] = {}
    apart = []
    for row in rows:
        of_id = numbers.setdefault((row.id, row.system), {})
        answers = row.answer, row.other
        number = of_id.setdefault(answers, len(of_id))
        apart.append(replace(row, id=f"{row.id}-{number + 1}") if number else row)
    return apart


def _converted(form: JudgedForm, entry: Entry) -> Iterator[Entry]:
    """Yield the rows of a row in its form; a number of a row stays its own."""
    for values in convert_row(form, entry)[0]:
        yield replace(entry, values=dict(values))


def _complete_raters(form: JudgedForm, entries: Sequence[Entry]) -> None:
    """Add the label for silence to the rows that a rater of the file said nothing about."""
    # a rater who spoke about few rows has not read them all, and is left out
    n_rows = Counter(entry.file for entry in entries)
    n_spoken = {}
    for file in n_rows:
        n_spoken[file] = Counter[str]()
    for entry in entries:
        n_spoken[entry.file].update(list(entry.values["raters"]))
    for entry in entries:
        raters = {}
        for rater, n in n_spoken[entry.file].items():
            if n >= _FEWEST_SPOKEN * n_rows[entry.file]:
                raters[rater] = entry.values["raters"].get(rater, form.silence)
        entry.values["raters"] = raters


def _label_columns(entry: Entry) -> tuple[str, ...]:
    """Return `label`, or else `label_1`, `label_2` ... of a row."""
    if LABEL in entry.values:
        return (LABEL,)
    return tuple(name for name in entry.values if name.startswith(f"{LABEL}_"))


def _usual_columns(
    form: JudgedForm, entries: Sequence[Entry], labels: Sequence[str]
) -> dict[str, str]:
    """Return part -> its column by usual names, for the parts that the form does not name."""
    free = []
    for name in entries[0].values:
        if name not in labels and name not in form.columns.values():
            free.append(name)
    chosen = {}
    for part in _TABLE_PARTS:
        names = columns_named(free, PARTS[part].sure) or columns_named(free, PARTS[part].likely)
        if names and part not in form.columns:
            chosen[part] = names[0]
    for part in ("answer", "other"):
        if form.convert is not None and part in entries[0].values:
            chosen[part] = part
    return chosen


def _row(entry: Entry, parts: Mapping[str, str], number: int) -> JudgedRow:
    """Return a row with the value of each part."""
    for part in parts.values():
        if "." in part and part not in entry.values:
            entry = replace(entry, values={**entry.values, part: value_at(entry.values, part)})

    def text(part: str) -> str | None:
        column = parts.get(part)
        if column is None or column not in entry.values:
            return None
        return read_text(entry, column, entry.values[column])

    name = text("id")
    if name is None:
        name = f"row-{number}"
    if reason := id_problem(name):
        raise entry.error(f"'{parts['id']}' {reason}: {name!r}")
    contexts = read_texts(entry, parts["contexts"]) if "contexts" in parts else None
    for part in ("answer", "other"):
        if part in parts and text(part) is None:
            raise entry.error(f"no {part} in column '{parts[part]}'")
    unit = text("unit")
    return JudgedRow(
        entry=entry,
        id=name,
        unit=name if unit is None else fingerprint([unit]),
        system=text("system"),
        question=text("question"),
        contexts=contexts,
        answer=text("answer"),
        other=text("other"),
        raters=entry.values.get("raters") or {},
    )
