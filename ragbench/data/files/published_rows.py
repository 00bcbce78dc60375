"""Rows and documents of published data sets, by the table of their forms in `forms.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from ragbench.data.files.columns import PartMap, value_at
from ragbench.data.files.forms import Content, Form, find_form
from ragbench.data.files.judged_forms import find_judged_form
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.records.codec import kind
from ragbench.types.display import counted

# Errors of Python for values of another form than a function reads
_WRONG_VALUES = (KeyError, TypeError, AttributeError, ValueError, IndexError)


@dataclass(frozen=True, slots=True)
class Published:
    """Rows with the usual columns, as `read_published` returns them.

    Attributes:
        entries: Rows, in the order of the file.
        columns: Part -> its column, as the form knows it; {} without a form.
        documents: Documents that stand in the rows, a row each; each text once.
        notes: A note with the form, and one on values that are left out; [] without a form.
        needs_all: True if an answer needs all gold documents of its question.
    """

    entries: Sequence[Entry]
    columns: Mapping[str, str] = field(default_factory=dict)
    documents: Sequence[Entry] = ()
    notes: Sequence[str] = ()
    needs_all: bool = False

    def mapping(self, columns: PartMap) -> PartMap:
        """Return part -> column of the user, and of the form where the user names neither."""
        of_user = columns.values()
        of_form = {}
        for part, name in self.columns.items():
            if name not in of_user:
                of_form[part] = name
        return of_form | dict(columns)


def read_published(entries: Sequence[Entry], columns: PartMap) -> Published:
    """Return the rows of a table in the form of a published data set; other rows as they are.

    The first row decides on the form. Rows stay as they are, too, if the user names a column that
    the conversion takes away.

    Args:
        entries: Rows of the file.
        columns: Part -> column, as the user names them.

    Raises:
        DataError: A row has another form than the first one; or the rows are judged answers of a
            published set, and the user names no column.
    """
    form = find_form(entries[0].values) if entries else None
    if form is None:
        if entries and not columns:
            _refuse_judged(entries[0])
        return Published(entries)
    rows, documents, dropped = list(entries), list[Entry](), list[str]()
    if form.convert is not None:
        rows = []
        for entry in entries:
            new_rows, new_documents = convert_row(form, entry, entries)
            dropped += form.dropped(entry.values) if form.dropped is not None else ()
            for values in new_rows:
                rows.append(replace(entry, values=dict(values)))
            for values in new_documents:
                documents.append(replace(entry, values=dict(values)))
    for column in filter(None, columns.values()):
        if column in entries[0].values and not _is_present(rows, column):
            return Published(entries)
    of_form = {}
    for part, column in form.columns.items():
        if _is_present(rows, column):
            of_form[part] = column
    notes = [f"read as {form.name}"]
    if dropped:
        keys = counted(len(dropped), "sentence keys")
        notes.append(f"{keys} of {form.name} left out, of no document: {', '.join(dropped[:3])}")
    return Published(rows, of_form, _joined(documents), notes, form.needs_all)


def _refuse_judged(first: Entry) -> None:
    """Raise a DataError for a set that checks judges, which has no questions to answer."""
    form = find_judged_form(first.values)
    if form is not None:
        problem = f"{form.name} has judged answers, which check a judge"
        allowed = "ragbench calibrate CONFIG --on FILE; or columns: {question: NAME, ...}"
        raise DataError(problem, file=first.file, allowed=allowed)


def convert_row(form: Form, entry: Entry, entries: Sequence[Entry] = ()) -> Content:
    """Return the rows and documents of a row; raise a `DataError` for a row of another form.

    One of the `entries` of the table is the model that the message of the error names.
    """
    if form.convert is None:
        return [entry.values], []
    try:
        return form.convert(entry.values)
    except _WRONG_VALUES as error:
        model = next((other for other in entries if other is not entry), entry)
        raise _wrong_row(form, entry, model, error) from error


def _wrong_row(form: Form, entry: Entry, model: Entry, error: Exception) -> DataError:
    """Return the error of a row that cannot be converted, beside a model row."""
    place = model.place if model.file == entry.file else Path(model.file).name
    rows = "rows as they are published" if model is entry else place
    allowed = f"the keys and values of {rows}"
    # null is often a value that may be missing, and comes last
    differences = sorted(_differences(entry.values, model.values), key=lambda d: d[1] == kind(None))
    if isinstance(error, KeyError):
        problem = f"no '{error.args[0]}'"
    elif differences:
        path, value_kind, model_kind = differences[0]
        problem, allowed = f"'{path}' is {value_kind}", f"{model_kind}, as in {place}"
    elif str(error).startswith("zip()"):
        problem = "lists of different lengths"
    else:
        problem = str(error)
    return entry.error(f"not as rows of {form.name} are: {problem}", allowed=allowed)


def _differences(value: Any, model: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the path and both types of each value that has another type in a model row."""
    pairs: Iterable[tuple[object, Any, Any]] = ()
    if isinstance(value, Mapping) and isinstance(model, Mapping):
        pairs = []
        for key in model:
            if key in value:
                pairs.append((key, value[key], model[key]))
    elif isinstance(value, list) and isinstance(model, list):
        pairs = zip(count(), value, model, strict=False)
    elif kind(value) != kind(model) and model is not None:
        yield path[1:], kind(value), kind(model)
    for key, item, item_of_model in pairs:
        yield from _differences(item, item_of_model, f"{path}.{key}")


def _is_present(entries: Sequence[Entry], column: str) -> bool:
    """Return True for a column or path that some row has."""
    for entry in entries:
        if column in entry.values or value_at(entry.values, column) is not None:
            return True
    return False


def _joined(documents: Iterable[Entry]) -> list[Entry]:
    """Return the documents without repeats; the texts of one id become its lines."""
    texts: dict[str, dict[str, None]] = {}
    first: dict[str, Entry] = {}
    for entry in documents:
        name, text = str(entry.values["id"]), entry.values.get("text")
        if not isinstance(text, str):
            raise entry.error(f"passage '{name}' is {kind(text)}", allowed="text")
        first.setdefault(name, entry)
        texts.setdefault(name, {}).setdefault(text)
    joined = []
    for name, entry in first.items():
        joined.append(replace(entry, values={**entry.values, "text": "\n".join(texts[name])}))
    return joined
