"""Labels that stand in the table of the judged answers, as metadata of the answers."""

from __future__ import annotations

from ragbench.calibration.judged_run import JudgedRun
from ragbench.calibration.labels import LabelTable
from ragbench.data.files.rows import Entry
from ragbench.errors import DataError
from ragbench.registry import nearest
from ragbench.types import Collection

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
    for system, answers in collection.recorded_answers.items():
        for answered in answers if system in run.systems else ():
            columns |= dict.fromkeys(answered.metadata)
            if column in answered.metadata and (system, answered.query_id) in run.answers:
                values = {"query_id": answered.query_id, "system": system}
                values[column] = answered.metadata[column]
                record = f"{answered.query_id} of {system}"
                rows.append(Entry(file=name, line=None, values=values, record=record))
    if not rows:
        problem = f"the answers of the data set have no column '{column}'"
        allowed = ", ".join(columns) or "a table whose answers have further columns"
        raise DataError(problem, file="--labels", allowed=allowed, nearest=nearest(column, columns))
    return LabelTable(name, rows, column)
