"""Labels and groups of answers that stand in the table of the judged answers, as metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ragbench.calibration.judged_run import JudgedRun, Key
from ragbench.calibration.label_files import LabelTable
from ragbench.calibration.labels import Labels
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError, OptionError
from ragbench.records.manifest import query_label
from ragbench.registry import nearest
from ragbench.types import Collection, Query
from ragbench.types.display import quoted_start
from ragbench.types.lookups import index_by_id

# Start of the name of a column of metadata, such as `metadata.human`.
METADATA = "metadata."


def metadata_labels(collection: Collection, run: JudgedRun, column: str) -> LabelTable:
    """Return the labels in a column of the data set, a row for each recorded answer of the run.

    Systems that were not judged are left out.

    Raises:
        DataError: No answer of a judged system has the column.
    """
    rows, columns = [], dict[str, None]()
    name = f"{METADATA}{column}"
    queries = index_by_id(collection.queries)
    for system, answers in collection.recorded_answers.items():
        for answered in answers if system in run.systems else ():
            columns |= dict.fromkeys(answered.metadata)
            if column in answered.metadata and (system, answered.query_id) in run.answers:
                values = {"query_id": answered.query_id, "system": system}
                values[column] = answered.metadata[column]
                record = _place(queries.get(answered.query_id), answered.query_id, system)
                rows.append(Entry(file=name, line=None, values=values, record=record))
    if not rows:
        problem = f"the answers of the data set have no column '{column}'"
        allowed = ", ".join(columns) or "a table whose answers have further columns"
        raise DataError(problem, file="--labels", allowed=allowed, nearest=nearest(column, columns))
    return LabelTable(name, rows, [column])


def _place(query: Query | None, query_id: str, system: str) -> str:
    """Return the place of an answer in a message: `row 2 'Which moon is hot?' of bm25`."""
    if query is None:
        return f"{query_id} of {system}"
    return f"{query_label(query.id, query.row)} {quoted_start(query.text)} of {system}"


def answer_groups(
    run: JudgedRun,
    labels: Mapping[str, Labels],
    by: str,
    load: Callable[[], Collection] | None = None,
) -> dict[Key, str]:
    """Return answer -> its group: the value of a column of the labels, the system, or metadata.

    Args:
        run: Run with the judged answers.
        labels: Rubric -> labels, read with the same `by`.
        by: Column of the labels, `system`, or `metadata.COLUMN` of the answers or questions; empty:
            no groups.
        load: Function that loads the data set; None: there is none.

    Raises:
        OptionError: Nothing has such a column.
    """
    if not by:
        return {}
    groups: dict[Key, str] = {}
    for of in labels.values():
        groups |= of.groups
    if not groups and by == "system":
        groups = {key: key[0] for key in run.answers}
    elif not groups and by.startswith(METADATA) and load is not None:
        groups = _metadata_groups(load(), run, by.removeprefix(METADATA))
    if not groups:
        metadata = "" if load is None else ", metadata.COLUMN"
        raise OptionError("--by", "", by, f"a column of the labels, system{metadata}")
    return groups


def _metadata_groups(collection: Collection, run: JudgedRun, column: str) -> dict[Key, str]:
    """Return answer -> value in a column of its row, else of its question."""
    queries = {query.id: query.metadata.get(column) for query in collection.queries}
    values = {}
    for key in run.answers:
        values[key] = queries.get(key[1])
    for system, answers in collection.recorded_answers.items():
        for answered in answers:
            if column in answered.metadata and (system, answered.query_id) in values:
                values[system, answered.query_id] = answered.metadata[column]
    groups = {}
    for key, value in values.items():
        if value not in (None, ""):
            groups[key] = str(value)
    return groups
