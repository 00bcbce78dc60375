"""Labels and judges of a published set of judged answers, as a run that can be certified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.label_words import label_words, scale_of_column
from ragbench.calibration.labels import ONE_SYSTEM, Labels, read_rating
from ragbench.calibration.metadata_labels import METADATA
from ragbench.calibration.rating_tables import judged_scores
from ragbench.data.files.columns import value_at
from ragbench.data.files.judged_rows import JudgedRow, JudgedSet
from ragbench.data.loaders.questions import system_name
from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.signature import fingerprint_json


def key_of(row: JudgedRow) -> Key:
    """Return (system, id) of a judged row."""
    return (ONE_SYSTEM if row.system is None else system_name(row.system), row.id)


def item_of_row(row: JudgedRow) -> JudgedItem:
    """Return a judged row as an item for a judge."""
    return JudgedItem(
        question=row.question,
        answer=row.answer,
        contexts=row.contexts,
        other=row.other,
        query_id=row.id,
    )


def run_of_rows(rows: JudgedSet, scores: Mapping[str, JudgedScore], seed: int = 0) -> JudgedRun:
    """Return the rows of a published set, with scores of judges, as a run without baselines.

    The units of sampling of the rows are added to the scores.
    """
    units = {row.id: row.unit for row in rows.rows}
    answers = {}
    for row in rows.rows:
        answers[key_of(row)] = item_of_row(row)
    # the file alone may be larger than what was drawn
    texts = []
    for row in rows.rows:
        texts.append([*key_of(row), row.answer, row.other, *(row.contexts or ())])
    return JudgedRun(
        folder=rows.files[0],
        name=rows.files[0].name.partition(".")[0],
        seed=seed,
        systems=tuple(dict.fromkeys(system for system, _ in answers)),
        against={},
        data={"judged_set": fingerprint_json(texts)},
        answers=answers,
        scores={name: replace(score, units=units) for name, score in scores.items()},
    )


def groups_of_rows(rows: JudgedSet, column: str) -> dict[Key, str]:
    """Return answer -> text in a column, or at a path, of its row; rows without it are left out.

    Raises:
        OptionError: No row has the column.
    """
    groups = {}
    for row in rows.rows:
        value = row.system if column == "system" else value_at(row.entry.values, column)
        if value not in (None, ""):
            groups[key_of(row)] = str(value)
    if not groups:
        names = ", ".join(rows.rows[0].entry.values)
        raise OptionError("--by", "", column, names, nearest(column, rows.rows[0].entry.values))
    return groups


def labels_of_rows(
    rows: JudgedSet, rubric: Rubric | None, scale: LabelScale | None = None
) -> Labels:
    """Return the labels of a published set on a scale.

    Args:
        rows: Rows with labels.
        rubric: Rubric that the judge applies; None for a table of ratings.
        scale: Scale of the labels; None: that of the rubric, or 0..1 without one.

    Raises:
        DataError: A label is none of the scale, or there is not one label; the message has the
            place.
    """
    rubric_scale = scale or (LabelScale(0, 1) if rubric is None else LabelScale.of_rubric(rubric))
    words = label_words(rubric_scale, rubric)
    labels = Labels()
    for column in rows.label_columns:
        values = [row.entry.values.get(column) for row in rows.rows]
        cell_scale = rubric_scale if scale is not None else scale_of_column(values, rubric_scale)
        shift = rubric_scale.low - cell_scale.low
        for row in rows.rows:
            labels.draws[key_of(row)] = ""
            label = read_rating(row.entry, column, cell_scale, "--scale", rubric)
            if label is not None:
                labels.by_rater.setdefault(column, {})[key_of(row)] = label + shift
                labels.shifts.add(shift)
    for row in rows.rows:
        for rater, word in row.raters.items():
            labels.ceiling.setdefault(rater, {})[key_of(row)] = words[word]
    if not labels.by_rater:
        problem = f"not one label in {', '.join(rows.label_columns)}"
        raise DataError(problem, file=rows.files[0], allowed="a label in one row at least")
    return labels


def rated_run(
    rows: JudgedSet,
    judges: Sequence[str],
    scale: LabelScale,
    judge_scale: LabelScale,
    *,
    rubric: str | None = None,
    model: str = "not named",
) -> tuple[JudgedRun, dict[str, Labels]]:
    """Return predictions that a published set holds as a run, and its labels by rubric.

    Args:
        rows: Rows with labels and predictions.
        judges: Columns or paths of the predictions, such as `metadata.gpt_4o`.
        scale: Scale of the labels.
        judge_scale: Scale of the predictions.
        rubric: Name of the rubric; None: that of the column.
        model: Model of the judge.

    Raises:
        DataError: A column is in no row, or a label or prediction is none of its scale.
    """
    scores: dict[str, dict[Key, float]] = {}
    for column in judges:
        name = column.removeprefix(METADATA)
        scores[name] = {}
        n_values = 0
        for row in rows.rows:
            values = row.entry.values
            path = column if value_at(values, column) is not None else name
            value = value_at(values, path)
            n_values += value is not None
            entry = replace(row.entry, values={column: value})
            rating = read_rating(entry, column, judge_scale, "--judge-scale")
            if rating is not None:
                scores[name][key_of(row)] = judge_scale.score(rating)
        if not n_values:
            raise rows.rows[0].entry.error(f"no column '{column}'", allowed=_columns(rows.rows[0]))
    keys = [key_of(row) for row in rows.rows]
    run = run_of_rows(rows, judged_scores(scores, keys, rubric, model))
    labels = labels_of_rows(rows, None, scale)
    return run, {score.rubric.name: labels for score in run.scores.values()}


def _columns(row: JudgedRow) -> str:
    """Return the columns that may hold predictions: numbers and flags, also those of metadata."""
    values = dict(row.entry.values)
    if isinstance(metadata := values.get("metadata"), Mapping):
        values |= {f"{METADATA}{key}": value for key, value in metadata.items()}
    names = []
    for name, value in values.items():
        if isinstance(value, (int, float)):
            names.append(name)
    return ", ".join(names or row.entry.values)
