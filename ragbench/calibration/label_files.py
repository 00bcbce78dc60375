"""Files and tables with labels of people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from ragbench.calibration.answer_rows import ANSWER_PARTS, AnswerFinder
from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.label_words import is_unclear, scale_of_column
from ragbench.calibration.labels import Labels, add_group, allowed_labels, read_rating
from ragbench.calibration.sheet import COLUMNS as SHEET_COLUMNS
from ragbench.calibration.sheet import item_id
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError, list_names
from ragbench.registry import check_allowed, nearest
from ragbench.score.judge.base import Rubric
from ragbench.types.lookups import omit_keys


@dataclass(frozen=True, slots=True)
class LabelTable:
    """Rows with labels that do not stand in a file: metadata of a data set, or labels of a program.

    The constructor checks nothing.

    Attributes:
        name: Name of the table, for messages.
        rows: Rows that name the answer, with the labels.
        columns: Columns of the labels, one per rater; empty: found by their names, as in a file.
    """

    name: str
    rows: Sequence[Entry]
    columns: Sequence[str] = ()


def read_labels(
    sources: Sequence[Path | LabelTable],
    run: JudgedRun,
    scores: Sequence[JudgedScore],
    scale: LabelScale | None,
    columns: Mapping[str, Sequence[str]],
    by: str = "",
) -> dict[str, Labels]:
    """Read files of labels; return rubric -> labels, without rubrics that have none.

    Files are CSV, TSV, JSON, JSON Lines or Parquet. A file with a column `item` is a drawn sheet.
    If no usual column of a sheet has a label, its further columns are raters, in the order of the
    file. A further column of which most cells are no labels is refused, and so are further columns
    with labels in rows without a label in a usual column. A key that a row lacks is an empty cell.
    Rows of other files have `query_id`, and `system` if the run has several; or the question, with
    the system, the answer or both, as the table of the answers has them. Labels are numbers on the
    scale, or words (see `label_words`). Labels of a rubric are in the columns that `columns` names,
    else in a column with the rubric's name, else in `label`, `label_1`, `label_2` ... of the rubric
    in the column `rubric`, or of the only rubric. Each column of each file is a rater: `column`, or
    `file:column` if there are several files; in a file with a column `rater`, each of its names is
    one, with a row per answer and rater. `file` is the name without its ending, or the path if
    several files have this name. Empty cells and rows of other rubrics are skipped.

    Args:
        sources: Files of labels, or tables.
        run: Run with the judged answers.
        scores: Scores whose rubrics are labelled.
        scale: Scale of the labels; None: the scale of each rubric.
        columns: Rubric -> names of its columns, or part of `ANSWER_PARTS` -> name of its column.
        by: Column of the groups of answers; files may lack it.

    Raises:
        DataError: A file cannot be read, or a row has a wrong answer or label; the message has file
            and line.
        OptionError: `columns` names a rubric that is not in `scores`.
        MissingExtra: A Parquet file without the extra `parquet`.
        IndexError: `sources` is empty.
    """
    by_rubric = {score.rubric.name: score for score in scores}
    parts: dict[str, str] = {}
    for name in ANSWER_PARTS.keys() & columns.keys() - by_rubric.keys():
        parts[name] = columns[name][-1]
    columns = omit_keys(columns, parts)
    check_allowed("--column", "rubric", columns, by_rubric)
    of_labels = frozenset(chain.from_iterable(columns.values()))
    reader = _LabelReader(AnswerFinder(run, parts, of_labels), by_rubric, columns, by)
    labels = {name: Labels() for name in by_rubric}
    if repeated := next((source for source in sources if sources.count(source) > 1), None):
        raise DataError("labels are read twice", file=repeated, allowed="each file once")
    stems = Counter(source.stem for source in sources if isinstance(source, Path))
    for source in sources:
        # equal column names of two files are two raters, also if the files are namesakes
        prefix: str = ""
        if isinstance(source, Path) and len(sources) > 1:
            prefix = f"{source}:" if stems[source.stem] > 1 else f"{source.stem}:"
        reader.read(source, prefix, scale, labels)
    labels = {name: of_rubric for name, of_rubric in labels.items() if of_rubric.by_rater}
    if not labels:
        first = sources[0]
        allowed = "labels in the column label, or label_1, label_2 ..."
        file = first.name if isinstance(first, LabelTable) else first
        raise DataError("not one label", file=file, allowed=allowed)
    return labels


def _probability(entry: Entry) -> float:
    """Return the number in the cell `probability` of a row; NaN without one or for another text."""
    try:
        return float(str(entry.values.get("probability")))
    except ValueError:  # an edited cell is refused where the draw is repeated
        return math.nan


def _check_clear(entry: Entry, column: str, values: Sequence[object], scale: LabelScale) -> None:
    """Raise a DataError for a column of 1 alone that may mean either level."""
    if is_unclear(values, scale):
        problem = f"column '{column}' has 1 without 0 or 2"
        allowed = "--scale 1..2 (the lower level) or --scale 0..1 (the upper)"
        raise entry.error(problem, allowed=allowed)


def _is_label_column(column: str) -> bool:
    """Return True for the usual names of columns of labels: `label`, `label_1`."""
    return column == "label" or column.startswith("label_")


def _all_columns(rows: Sequence[Entry]) -> dict[str, None]:
    """Return the columns of all rows as keys: rows of JSON may lack some."""
    return dict.fromkeys(chain.from_iterable(entry.values for entry in rows))


def _is_filled(entry: Entry, column: str) -> bool:
    """Return True if a row has more than blanks in a column."""
    value = entry.values.get(column)
    return value is not None and str(value).strip() != ""


def _filled_columns(rows: Sequence[Entry]) -> Iterator[str]:
    """Yield the columns that have a value in some row."""
    for column in _all_columns(rows):
        if any(_is_filled(entry, column) for entry in rows):
            yield column


def _own_columns(entry: Entry) -> str:
    """Return the columns of a file in brackets, without those of a drawn sheet; or ''."""
    columns = ", ".join(column for column in entry.values if column not in SHEET_COLUMNS)
    return f" (columns: {columns})" if columns else ""


def _is_label(entry: Entry, column: str, scale: LabelScale, rubric: Rubric) -> bool:
    """Return True for a cell with a label on a scale, and for an empty one."""
    try:
        read_rating(entry, column, scale, "--scale", rubric)
    except DataError:
        return False
    return True


@dataclass(frozen=True)
class _LabelReader:
    """Reader of the labels of a file or table."""

    finder: AnswerFinder  # finder of the answers of rows without items
    scores: Mapping[str, JudgedScore]  # rubric -> its score
    columns: Mapping[str, Sequence[str]]  # rubric -> names of its columns
    by: str  # column of the groups

    def read(
        self,
        source: Path | LabelTable,
        prefix: str,
        scale: LabelScale | None,
        labels: Mapping[str, Labels],
    ) -> None:
        """Add the labels of a source to `labels`; `prefix` stands before its columns in raters."""
        rows = source.rows if isinstance(source, LabelTable) else list(read_rows(source, "labels"))
        own_columns = source.columns if isinstance(source, LabelTable) else ()
        own_columns = own_columns or self._raters_of_sheet(rows, scale)
        rows = self._with_empty_cells(rows, own_columns)
        scales: dict[tuple[str, str], LabelScale] = {}
        places: dict[str, Entry] = {}
        for entry in rows:
            rater = str(entry.values.get("rater") or "")
            for rubric, key in self.answers_of(entry):
                name = ", ".join(filter(None, (f"{rubric} of {key[1]}", key[0], rater)))
                check_unique(name, "answer", entry, places)
                is_sheet = "item" in entry.values
                draw = str(entry.values.get("draw") or "") if is_sheet else ""
                # the first file counts: several raters fill copies of one sheet
                labels[rubric].draws.setdefault(key, draw)
                labels[rubric].probabilities[key] = _probability(entry)
                add_group(labels[rubric], key, entry, self.by)
                judged = self.scores[rubric].rubric
                rubric_scale = scale or LabelScale.of_rubric(judged)
                names = own_columns or self.label_columns(entry, rubric)
                for column in names:
                    if (rubric, column) not in scales:
                        values = [row.values.get(column) for row in rows]
                        if scale is None:
                            _check_clear(entry, column, values, rubric_scale)
                        scales[rubric, column] = scale_of_column(values, rubric_scale)
                    cell_scale = scales[rubric, column]
                    shift = rubric_scale.low - cell_scale.low
                    label = read_rating(entry, column, cell_scale, "--scale", judged)
                    if label is not None:
                        labels[rubric].shifts.add(shift)
                        label += shift
                        name = rater or column
                        labels[rubric].by_rater.setdefault(f"{prefix}{name}", {})[key] = label

    def _with_empty_cells(
        self, rows: Sequence[Entry], own_columns: Sequence[str]
    ) -> Sequence[Entry]:
        """Return the rows with an empty cell for each column of labels that only others have."""
        names = {*own_columns, *chain.from_iterable(self.columns.values())}
        label_columns = []
        for column in _all_columns(rows):
            if column in names or _is_label_column(column):
                label_columns.append(column)
        cells = dict.fromkeys(label_columns)
        return [
            replace(entry, values=entry.values | omit_keys(cells, entry.values)) for entry in rows
        ]

    def _raters_of_sheet(self, rows: Sequence[Entry], scale: LabelScale | None) -> list[str]:
        """Return the columns of raters beside those of a sheet; DataError for another column."""
        if "item" not in _all_columns(rows) or self.columns:
            return []
        usual, further = [], []
        for column in _filled_columns(rows):
            if column in self.scores or _is_label_column(column):
                usual.append(column)
            elif column not in (*SHEET_COLUMNS, "rater", self.by):
                further.append(column)
        no_labels, raters = {}, []
        for column in further:
            cells, wrong = self._count_cells(rows, column, scale)
            # a wrong label among others is refused where it is read
            if 2 * len(wrong) > cells:
                no_labels[column] = wrong[0]
            else:
                raters.append(column)
        if usual:
            self._check_beside(usual, raters, rows)
            return []
        for column, (entry, rubric) in no_labels.items():
            problem = f"no label of {rubric.name} in column '{column}': {entry.values[column]!r}"
            allowed = allowed_labels(scale or LabelScale.of_rubric(rubric))
            if raters:
                allowed += f"; or a sheet without the column {' and '.join(no_labels)}"
            raise entry.error(problem, allowed=allowed)
        return raters

    def _check_beside(
        self, usual: Sequence[str], raters: Sequence[str], rows: Sequence[Entry]
    ) -> None:
        """Raise a DataError for labels of raters in a row without a label in a usual column."""
        for entry in rows:
            rubric = str(entry.values.get("rubric"))
            if rubric not in self.scores or any(_is_filled(entry, column) for column in usual):
                continue
            if any(_is_filled(entry, column) for column in raters):
                names = list_names(usual)
                problem = f"labels in {list_names(raters)}, but none in {names} as in other rows"
                allowed = f"empty cells in {names}, or --column {rubric}=COLUMN for each rater"
                raise entry.error(problem, allowed=allowed)

    def _count_cells(
        self, rows: Sequence[Entry], column: str, scale: LabelScale | None
    ) -> tuple[int, list[tuple[Entry, Rubric]]]:
        """Return the number of filled cells of a column, and the rows in which it has no label."""
        cells, wrong = 0, []
        for entry in rows:
            score = self.scores.get(str(entry.values.get("rubric")))
            if score is None or not _is_filled(entry, column):
                continue
            cells += 1
            of_rubric = scale or LabelScale.of_rubric(score.rubric)
            # a column of a scale 1..2 may have 0 and 1
            scales = (of_rubric, scale_of_column([entry.values[column]], of_rubric))
            if not any(_is_label(entry, column, of, score.rubric) for of in scales):
                wrong.append((entry, score.rubric))
        return cells, wrong

    @cached_property
    def _items(self) -> dict[str, tuple[str, Key]]:
        """Item id -> (rubric, (system, query id)), for all answers with a score in `scores`."""
        items = {}
        for name, score in self.scores.items():
            for key in score.scores:
                items[item_id(self.finder.run, name, key)] = (name, key)
        return items

    def answers_of(self, entry: Entry) -> Iterator[tuple[str, Key]]:
        """Yield (rubric, answer) for a row, which may have labels by several rubrics."""
        if "item" not in entry.values:
            yield from self._answers_to_query(entry)
        elif entry.values["item"] not in (None, ""):
            item, rubric = entry.id("item"), entry.values.get("rubric")
            if item in self._items:
                yield self._items[item]
            elif not self._is_of_another_rubric(entry, rubric):
                raise entry.error(
                    f"item '{item}' is no answer of this run",
                    allowed=f"items of a sheet drawn from {self.finder.run.name}, whose answers "
                    "have not changed since",
                )

    def _answers_to_query(self, entry: Entry) -> Iterator[tuple[str, Key]]:
        """Yield (rubric, answer) of a row with a query id or texts in place of an item."""
        key = self.finder.key(entry)
        for rubric in self._rubrics_of(entry):
            score = self.scores[rubric]
            if key not in score.scores and key not in score.unscored:
                problem = f"the run has no verdict on {rubric} for query '{key[1]}' of '{key[0]}'"
                raise entry.error(problem, allowed="answers that were judged")
            yield rubric, key

    def _rubrics_of(self, entry: Entry) -> list[str]:
        """Return the rubrics that a row has labels of."""
        name = entry.values.get("rubric")
        if name not in (None, ""):
            return [] if self._is_of_another_rubric(entry, name) else [str(name)]
        rubrics = [name for name in self.scores if name in self.columns or name in entry.values]
        if not rubrics and len(self.scores) == 1:
            rubrics = list(self.scores)
        if rubrics:
            return rubrics
        raise entry.error(
            f"labels of which rubric? (columns: {', '.join(entry.values)})",
            allowed=f"a column rubric, a column named {' or '.join(self.scores)}, --rubric NAME, "
            "or --column RUBRIC=COLUMN",
        )

    def _is_of_another_rubric(self, entry: Entry, name: object) -> bool:
        """Return True for a row of a rubric that is not asked for; refuse a misspelt rubric."""
        if name in (None, "") or name in self.scores:
            return False
        rubrics = [score.rubric.name for score in self.finder.run.scores.values()]
        close = nearest(str(name), rubrics)
        if name not in rubrics and close is not None:
            allowed = ", ".join(dict.fromkeys(rubrics))
            raise entry.error(f"the run has no rubric '{name}'", allowed=allowed, near=close)
        return True

    def label_columns(self, entry: Entry, rubric: str) -> list[str]:
        """Return the names of the columns with labels by a rubric, one per rater."""
        columns = self.columns.get(rubric) or [name for name in [rubric] if name in entry.values]
        for column in columns:
            entry.field(column)  # raises if the row has no such column
        columns = columns or [column for column in entry.values if _is_label_column(column)]
        if not columns:
            problem = f"no column with labels of {rubric}{_own_columns(entry)}"
            allowed = f"label, or label_1, label_2 ... for several raters, or --column {rubric}="
            raise entry.error(problem, allowed=f"{allowed}COLUMN")
        return list(columns)
