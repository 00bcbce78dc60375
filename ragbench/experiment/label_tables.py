"""Labels of people as `calibrate` takes them in Python, as tables; and groups of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ragbench.calibration.answer_rows import ANSWER_PARTS
from ragbench.calibration.judged_run import JudgedRun, Key
from ragbench.calibration.label_files import LabelTable
from ragbench.calibration.labels import ONE_SYSTEM, Labels
from ragbench.calibration.metadata_labels import METADATA, answer_groups, metadata_labels
from ragbench.comparison.evaluation import Evaluation
from ragbench.config.load import load_saved
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError, OptionError, Phrase
from ragbench.experiment.plan.plan import load_collection
from ragbench.experiment.result import Experiment
from ragbench.registry import nearest
from ragbench.types.ids import id_text
from ragbench.types.lookups import take_items
from ragbench.types.tables import PARTS, columns_named, is_table, plain, rows_of

# Columns of a frame of labels that are no rater; `rater` names the rater of a row.
_RATER, _LABEL = "rater", "label"
# Names of an index of query ids
_ID_NAMES = ("query_id", *PARTS["id"].sure, *PARTS["id"].likely)


def label_tables(
    result: Evaluation | Experiment, run: JudgedRun, labels: Any, by: str | None = None
) -> list[LabelTable]:
    """Return labels in any form as tables with a row for each answer, or answer and rater.

    `by` is a column of groups, which is no rater. Names of columns, one per rater, give a table
    each.

    Raises:
        OptionError: There is no such column, an id is unknown, or there is another number of labels
            than answers.
        DataError: A frame has no column with labels.
    """
    index = result.table.index if isinstance(result, Evaluation) else None
    keys = _keys_of(result)
    if isinstance(labels, str):
        return [_column_labels(result, run, labels)]
    if _are_columns(result, labels):
        return [_column_labels(result, run, column) for column in labels]
    if is_table(labels):
        return [_frame_labels(run, labels, index, keys, by)]
    # only pandas has positions and an index
    if hasattr(labels, "iloc"):
        names = _names_of_index(labels.index, index, keys)
        return [_labels_by_name(list(zip(names, labels.tolist(), strict=True)), keys)]
    if isinstance(labels, Mapping):
        return [_labels_by_name(list(labels.items()), keys)]
    values = list(labels)
    if len(values) != len(keys):
        allowed = f"{len(keys)}, one for each row of result.to_pandas()"
        raise OptionError("calibrate", "labels", f"{len(values)} labels", allowed)
    return [_label_table(_LABEL, keys, values)]


def _names_of_index(index: Any, frame_index: Any, keys: Sequence[Key]) -> list[Any]:
    """Return the names of answers in an index of labels: query ids, or that of the scored frame."""
    # an index with a name of ids has these, also where the scored frame has the same numbers
    names, queries = [*index], [query for _, query in keys]
    is_named = bool(columns_named([str(index.name)], _ID_NAMES))
    if frame_index is None or (is_named and set(queries).issuperset(map(_text_of, names))):
        return names
    if not set(names).issubset(frame_index):
        return names
    if not frame_index.is_unique:
        problem = Phrase("labels by the index of the scored frame, which repeats")
        raise OptionError("calibrate", "labels", problem, "query ids, or a list of all labels")
    query_of = dict(zip(frame_index, queries, strict=True))
    return take_items(query_of, names)


def _text_of(name: Any) -> Any:
    """Return a query id as text; a name that is no id as it is."""
    try:
        return id_text(plain(name))
    except ValueError:
        return name


def _are_columns(result: Evaluation | Experiment, labels: Any) -> bool:
    """Return True for a list of names of columns of the scored table."""
    if not isinstance(labels, list) or not labels or not isinstance(result, Evaluation):
        return False
    return all(isinstance(name, str) and name in result.table.columns for name in labels)


def _column_labels(result: Evaluation | Experiment, run: JudgedRun, column: str) -> LabelTable:
    """Return the labels in a column of the scored table, or of the data set of an experiment."""
    if isinstance(result, Evaluation):
        return _label_table(column, _keys_of(result), _column(result, "labels", column))
    return metadata_labels(
        load_collection(load_saved(result.path / "config.yaml", ())), run, column
    )


def _keys_of(result: Evaluation | Experiment) -> list[Key]:
    """Return the answers of a result, in the order of the rows of `to_pandas`."""
    if isinstance(result, Evaluation):
        return [(ONE_SYSTEM, query) for query in result.query_ids]
    keys = []
    for system, by_score in result.per_query.items():
        for query in next(iter(by_score.values()), {}):
            keys.append((system, query))
    return keys


def _frame_labels(
    run: JudgedRun, frame: Any, index: Any, keys: Sequence[Key], by: str | None
) -> LabelTable:
    """Return a frame, or a list of rows, with a column per rater or a column `rater`."""
    cells = rows_of(frame, "calibrate")
    columns = list(dict.fromkeys(chain.from_iterable(cells)))
    names = [*ANSWER_PARTS["query_id"], *ANSWER_PARTS["question"]]
    # a frame that has neither ids nor questions names the answers by its index
    if not columns_named(columns, names) and hasattr(frame, "iloc"):
        queries = {query for _, query in keys}
        for row, name in zip(cells, _names_of_index(frame.index, index, keys), strict=True):
            row["query_id"] = _text_of(name)
            if row["query_id"] not in queries:
                allowed = "a column id or question, or the index of the scored frame"
                raise OptionError("calibrate", "labels", name, allowed)
    rows = []
    for number, values in enumerate(cells, start=1):
        record = f"row {number}"
        rows.append(Entry(file="labels", line=None, values=values, record=record, number=number))
    return LabelTable("labels", rows, _rater_columns(run, columns, by))


def _rater_columns(run: JudgedRun, columns: Sequence[str], by: str | None) -> list[str]:
    """Return the columns of the raters; [] if they are named as in a file of labels."""
    if any(column == _LABEL or column.startswith(f"{_LABEL}_") for column in columns):
        return []
    parts = chain.from_iterable((*of.sure, *of.likely) for of in PARTS.values())
    no_raters = {
        *columns_named(columns, [*parts, *ANSWER_PARTS["query_id"]]),
        _RATER,
        by,
        *run.scores,
    }
    raters = []
    for column in columns:
        if column not in no_raters:
            raters.append(column)
    if not raters:
        problem = f"no column with labels (columns: {', '.join(columns)})"
        allowed = "a column per rater, or columns rater and label"
        raise DataError(problem, file="labels", allowed=allowed)
    return raters


def _labels_by_name(labels: Sequence[tuple[Any, Any]], keys: Sequence[Key]) -> LabelTable:
    """Return (query id or answer, label) of each labelled answer as a table."""
    one_system = len({system for system, _ in keys}) == 1
    answers, by_key = set(keys), dict[Key, Any]()
    for name, label in labels:
        key = (keys[0][0], _text_of(name)) if one_system and not isinstance(name, tuple) else name
        if key not in answers:
            allowed = f"query ids, such as {keys[0][1]!r}"
            if not one_system:
                allowed = f"(system, query id), such as {keys[0]}"
            raise OptionError("calibrate", "labels", key[1] if one_system else key, allowed)
        if key in by_key:
            allowed = "one label of each answer, or a column for each rater"
            raise OptionError("calibrate", "labels", Phrase(f"two labels of {name!r}"), allowed)
        by_key[key] = label
    return _label_table(_LABEL, list(by_key), list(by_key.values()))


def _label_table(column: str, keys: Sequence[Key], labels: Sequence[Any]) -> LabelTable:
    """Return the table of the labels of some answers; missing values are empty."""
    rows = []
    for (system, query), value in zip(keys, labels, strict=True):
        label = plain(value)
        values = {"query_id": query, "system": system, column: label}
        rows.append(Entry(file="labels", line=None, values=values, record=query))
    return LabelTable("labels", rows, [column])


def groups_of(
    result: Evaluation | Experiment, run: JudgedRun, labels: Mapping[str, Labels], by: str | None
) -> dict[Key, str]:
    """Return answer -> its group: the value of a column of the labels or of the scored table.

    The result is {} for None. An experiment has groups by `system` and by metadata, too.

    Raises:
        OptionError: Nothing has such a column.
    """
    if by is None:
        return {}
    if isinstance(result, Experiment):
        load = partial(load_collection, load_saved(result.path / "config.yaml", ()))
        name = by if by == "system" or by.startswith(METADATA) else f"{METADATA}{by}"
        return answer_groups(run, labels, name, load)
    if any(of.groups for of in labels.values()):
        return answer_groups(run, labels, by)
    values = _column(result, "by", by)
    pairs = zip(_keys_of(result), values, strict=True)
    groups = {}
    for key, value in pairs:
        if plain(value) is not None:
            groups[key] = str(value)
    return groups


def _column(evaluation: Evaluation, option: str, name: str) -> Sequence[Any]:
    """Return the cells of a column of the scored table; raise OptionError if it is missing."""
    columns = evaluation.table.columns
    if name not in columns:
        allowed = ", ".join(columns) or "a table with further columns"
        raise OptionError("calibrate", option, name, allowed, nearest(name, columns))
    return columns[name]
