"""Labels of people: a sheet that came back, a file of the user's own, ratings beside a judge's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ragbench.calibration.judged_run import JudgedAnswer, JudgedRun, JudgedScore, Key
from ragbench.calibration.sheet import LabelScale, item_id
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError, OptionError
from ragbench.registry import check_allowed, nearest
from ragbench.score.judge.base import Rubric
from ragbench.signature import Signature, fingerprint_json
from ragbench.types import FloatArray

_NEAREST_LIMIT = 20_000  # looking for the nearest of more ids would take seconds

# Part of a row -> the names of its column that are understood; those of judge and label are the
# part's own name, alone or with an ending: `label`, `label_1`.
PARTS: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "question_id", "item", "id"),
    "system": ("system", "model"),
    "answer": ("answer", "response", "summary"),
    "judge": (),
    "label": (),
}
_OPTIONAL, _SEVERAL = ("system", "answer"), ("judge", "label")
# The system of a table that names none.
ONE_SYSTEM = "given"


@dataclass(slots=True)
class Labels:
    """Labels of people by one rubric.

    Attributes:
        by_rater: Rater -> answer -> label, as written.
        rows: Answer -> what its sheet says of the draw, empty for a file of the user's own; with
            the answers whose label is missing.
    """

    by_rater: dict[str, dict[Key, float]] = field(default_factory=dict)
    rows: dict[Key, str] = field(default_factory=dict)

    @property
    def labelled(self) -> set[Key]:
        """The answers with a label of anybody."""
        return {key for labels in self.by_rater.values() for key in labels}


def read_labels(
    paths: Sequence[Path],
    run: JudgedRun,
    scores: Sequence[JudgedScore],
    scale: LabelScale | None,
    columns: Mapping[str, Sequence[str]],
) -> dict[str, Labels]:
    """Read labels by rubric.

    A file is a sheet where it has the column `item`; else its rows are found by `query_id`, and
    `system` where the run has several. Its labels are in the columns that `columns` names for a
    rubric, else in one with the rubric's name, else in `label`, `label_1`, `label_2` ... of the
    rubric that the column `rubric` names, or of the only one. Each column of each file is a rater.
    Where `scale` is None, each rubric has its own.

    Raises:
        DataError: An unknown or repeated answer, a label that is no number or off the scale, a
            file without labels, with the place.
    """
    reader = _LabelReader(run, {score.rubric.name: score for score in scores}, columns)
    check_allowed("--column", "rubric", columns, reader.scores)
    labels = {name: Labels() for name in reader.scores}
    for path in paths:
        prefix = f"{path.stem}:" if len(paths) > 1 else ""
        seen: dict[str, Entry] = {}
        for entry in read_rows(path, "labels"):
            for rubric, key in reader.answers_of(entry):
                check_unique(f"{rubric} of {key[1]}, {key[0]}", "answer", entry, seen)
                is_sheet = "item" in entry.values
                draw = str(entry.values.get("draw") or "") if is_sheet else ""
                labels[rubric].rows.setdefault(key, draw)
                rubric_scale = scale or LabelScale.of_rubric(reader.scores[rubric].rubric)
                for column in reader.label_columns(entry, rubric):
                    label = read_rating(entry, column, rubric_scale, "--scale")
                    if label is not None:
                        labels[rubric].by_rater.setdefault(f"{prefix}{column}", {})[key] = label
    labels = {name: of_rubric for name, of_rubric in labels.items() if of_rubric.by_rater}
    if not labels:
        allowed = "numbers in the column label, or label_1, label_2 ..."
        raise DataError("not one label", file=paths[0], allowed=allowed)
    return labels


@dataclass(frozen=True)
class _LabelReader:
    """Find the answers and the columns that the rows of a file of labels are about."""

    run: JudgedRun
    scores: Mapping[str, JudgedScore]
    columns: Mapping[str, Sequence[str]]

    @cached_property
    def _items(self) -> dict[str, tuple[str, Key]]:
        """Return item -> rubric and answer, for all items that a sheet of this run may hold."""
        return {
            item_id(self.run, name, key): (name, key)
            for name, score in self.scores.items()
            for key in score.scores
        }

    def answers_of(self, entry: Entry) -> Iterator[tuple[str, Key]]:
        """Yield rubric and answer of a row; nothing for a row of a sheet that is empty."""
        if "item" not in entry.values:
            yield from self._answers_to_query(entry)
        elif entry.values["item"] not in (None, ""):
            item, rubric = entry.id("item"), entry.values.get("rubric")
            if item in self._items:
                yield self._items[item]
            elif rubric in (None, "") or rubric in self.scores:
                raise entry.error(
                    f"item '{item}' is no answer of this run",
                    allowed=f"items of a sheet that was drawn from {self.run.name}, while its "
                    "answers are what they were",
                    near=nearest(item, self._items) if len(self._items) <= _NEAREST_LIMIT else None,
                )

    def _answers_to_query(self, entry: Entry) -> Iterator[tuple[str, Key]]:
        if "query_id" not in entry.values:
            raise entry.error(
                f"no 'item' and no 'query_id' (keys: {', '.join(entry.values)})",
                allowed="item, as a sheet that was drawn has it, or query_id",
                near=nearest("query_id", entry.values),
            )
        query, systems = entry.id("query_id"), self.run.systems
        system, allowed = entry.values.get("system"), ", ".join(systems)
        if system in (None, "") and len(systems) > 1:
            raise entry.error(f"no 'system', and the run has {len(systems)}", allowed=allowed)
        text = str(system or systems[0])
        name = self.run.named(text)
        if name is None:
            near = nearest(text, systems)
            raise entry.error(f"system '{text}' was not judged", allowed=allowed, near=near)
        for rubric in self._rubrics_of(entry):
            score = self.scores[rubric]
            if (name, query) not in score.scores and (name, query) not in score.unscored:
                queries = sorted({query for _, query in (*score.scores, *score.unscored)})
                near = nearest(query, queries) if len(queries) <= _NEAREST_LIMIT else None
                raise entry.error(f"query '{query}' was not judged", near=near)
            yield rubric, (name, query)

    def _rubrics_of(self, entry: Entry) -> list[str]:
        name = entry.values.get("rubric")
        if name not in (None, ""):
            return [name] if name in self.scores else []
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

    def label_columns(self, entry: Entry, rubric: str) -> list[str]:
        """Return the columns of a row with labels by a rubric, one for each rater."""
        columns = list(self.columns.get(rubric, ()))
        if not columns and rubric in entry.values:
            columns = [rubric]
        for column in columns:
            entry.field(column)
        columns = columns or [c for c in entry.values if c == "label" or c.startswith("label_")]
        if not columns:
            raise entry.error(
                f"no column with labels of {rubric} (columns: {', '.join(entry.values)})",
                allowed="label, or label_1, label_2 ... for several raters, or --column "
                f"{rubric}=COLUMN",
            )
        return columns


def read_rating(entry: Entry, column: str, scale: LabelScale, option: str) -> float | None:
    """Read a number on a scale; None where the cell is empty.

    Raises:
        DataError: Something else, with the place and the option that names another scale.
    """
    value = entry.field(column)
    text = str(value).strip() if value is not None else ""
    if not text:
        return None
    allowed = f"a number from {scale.low:g} to {scale.high:g}, or nothing"
    try:
        rating = float(text)
    except ValueError as error:
        raise entry.error(f"{column}: {value!r}", allowed=allowed) from error
    if isinstance(value, bool) or not math.isfinite(rating) or not scale.holds(rating):
        hint = f"; another scale: {option} LOW..HIGH"
        raise entry.error(f"{column}: {value!r}", allowed=allowed + hint)
    return rating


@dataclass(frozen=True)
class Ratings:
    """The n answers that have a verdict and a label of anybody.

    Attributes:
        scale: What people label on.
        judge: Scores from 0 to 1.
        people: Labels as scores from 0 to 1, a column per rater; NaN where one gave none.
    """

    keys: Sequence[Key]
    scale: LabelScale
    judge: FloatArray
    people: FloatArray
    raters: Sequence[str]

    @classmethod
    def of(cls, score: JudgedScore, labels: Labels, scale: LabelScale) -> Ratings:
        """Put scores and labels side by side."""
        keys = sorted(key for key in labels.labelled if key in score.scores)
        people = np.array(
            [[of_rater.get(key, np.nan) for of_rater in labels.by_rater.values()] for key in keys]
        ).reshape(len(keys), len(labels.by_rater))
        judge = np.array([score.scores[key] for key in keys], dtype=np.float64)
        return cls(keys, scale, judge, scale.score(people), list(labels.by_rater))

    @property
    def mean_labels(self) -> FloatArray:
        """The mean label of each answer, from 0 to 1."""
        found: FloatArray = np.nanmean(self.people, axis=1)
        return found

    @property
    def queries(self) -> np.ndarray[Any, Any]:
        """The query of each answer: answers to one query vary together."""
        return np.array([query for _, query in self.keys], dtype=object).astype(str)

    @property
    def between(self) -> int:
        """Count the labels that lie between two levels."""
        if not self.scale.levels:
            return 0
        steps = self.people[np.isfinite(self.people)] * (len(self.scale.levels) - 1)
        return int(np.count_nonzero(np.abs(steps - np.round(steps)) > 1e-9))


def read_ratings(
    path: Path,
    scale: LabelScale,
    judge_scale: LabelScale | None = None,
    *,
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    rubric: str | None = None,
    model: str = "not named",
) -> tuple[JudgedRun, dict[str, Labels]]:
    """Read the ratings of one or several judges, made by `model`, and of people on a scale.

    Each column of the judge is a judge, each one of labels a rater. A row without a rating of the
    judge is counted as without a verdict, one without a label is of use to correct a mean.

    The columns of CSV, JSON lines or Parquet are `query_id`, `system` (where there are several),
    `judge`, `label` or `label_1`, `label_2` ...; the text of the answer, `answer`, if known.
    `columns` names other ones by these words. `rubric` is what was rated; None: what the judge's
    column is called. Returned is what `certify` takes.

    Raises:
        DataError: A missing column, a repeated answer, a rating that is no number or off its
            scale, with the place.
        OptionError: A part that no row has.
    """
    entries = list(read_rows(path, "ratings"))
    named, judge_scale = _columns(entries[0], columns), judge_scale or scale
    judges, raters = named["judge"], named["label"]
    scores: dict[str, dict[Key, float]] = {column: {} for column in judges}
    labels = Labels({rater: {} for rater in raters})
    answers: dict[Key, JudgedAnswer] = {}
    seen: dict[str, Entry] = {}
    for entry in entries:
        system = _name(entry, named["system"][0]) if named["system"] else ONE_SYSTEM
        key = (system, _name(entry, named["query_id"][0]))
        check_unique(f"{key[1]}, {system}", "answer", entry, seen)
        text = entry.values.get(named["answer"][0]) if named["answer"] else None
        answers[key] = JudgedAnswer(None if text is None else str(text), ())
        labels.rows[key] = ""
        for column in judges:
            rating = read_rating(entry, column, judge_scale, "--judge-scale")
            if rating is not None:
                scores[column][key] = judge_scale.score(rating)
        for column in raters:
            rating = read_rating(entry, column, scale, "--scale")
            if rating is not None:
                labels.by_rater[column][key] = rating
    labels.by_rater = {rater: of for rater, of in labels.by_rater.items() if of}
    if not labels.by_rater:
        allowed = f"numbers in {' or '.join(raters)}"
        raise DataError("not one rating of people", file=path, allowed=allowed)
    run = _judged(path, rubric, model, scores, answers)
    return run, {score.rubric.name: labels for score in run.scores.values()}


def _name(entry: Entry, column: str) -> str:
    """The name in a cell: any text, as it only says what belongs together."""
    value = entry.field(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise entry.error(f"{column}: {value!r}", allowed="a name or a number")
    return str(value)


def _columns(first: Entry, named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return part -> its columns: those that `named` has, else those that are understood."""
    players: dict[str, str] = {}
    check_allowed("--column", "part", named, PARTS)
    for part, columns in named.items():
        if len(columns) > 1 and part not in _SEVERAL:
            allowed = f"one column; {' and '.join(_SEVERAL)} may have several"
            raise OptionError("--column", part, ", ".join(columns), allowed)
        for column in columns:
            first.field(column)
            if column in players:
                allowed = f"a column of its own; {column} is the {players[column]}"
                raise OptionError("--column", part, column, allowed)
            players[column] = part

    def of(part: str) -> list[str]:
        free = [column for column in first.values if column not in players]
        usual = [name for name in PARTS[part] if name in free][:1]
        if part in _SEVERAL:
            usual = [name for name in free if name == part or name.startswith(f"{part}_")]
        found = [*named.get(part, usual)]
        if not found and part not in _OPTIONAL:
            names = ", ".join(PARTS[part]) or f"{part}, or {part}_1, {part}_2 ..."
            raise first.error(
                f"no column with the {part} (columns: {', '.join(first.values)})",
                allowed=f"{names}, or --column {part}=COLUMN",
            )
        return found

    return {part: of(part) for part in PARTS}


def _judged(
    path: Path,
    rubric: str | None,
    model: str,
    scores: Mapping[str, Mapping[Key, float]],
    answers: Mapping[Key, JudgedAnswer],
) -> JudgedRun:
    """Return the table as a run with a score for each judge."""
    judged = {}
    for column, values in scores.items():
        word = rubric or column
        name = word if len(scores) == 1 or rubric is None else f"{word}(judge={column})"
        judged[name] = JudgedScore(
            name=name,
            rubric=Rubric(word, "answer", ("answer",), {}, (), (), "rating", "higher"),
            judge=column,
            model=model,
            signature=str(Signature.of(word, judge="elsewhere", model=model)),
            scores=values,
            unscored={key: "no_rating" for key in answers if key not in values},
        )
    ratings = {
        name: sorted([*key, value] for key, value in score.scores.items())
        for name, score in judged.items()
    }
    return JudgedRun(
        folder=path,
        name=path.name.partition(".")[0],
        seed=0,
        systems=tuple(dict.fromkeys(system for system, _ in answers)),
        against={},
        data={"ratings": fingerprint_json(ratings)},
        answers=answers,
        scores=judged,
    )
