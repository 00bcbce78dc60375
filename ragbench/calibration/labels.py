"""Labels of people beside a judge's scores: a sheet that came back, or a file of the user's own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.sheet import Scale, item_id
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest

if TYPE_CHECKING:
    from ragbench.types import FloatArray


_NEAREST_LIMIT = 20_000  # looking for the nearest of more ids would take seconds


@dataclass(slots=True)
class Labels:
    """What people said by one rubric."""

    by_rater: dict[str, dict[Key, float]] = field(default_factory=dict)
    """Rater -> answer -> label, as written."""
    rows: dict[Key, str] = field(default_factory=dict)
    """Answer -> what its sheet says of the draw, empty for a file of the user's own; with the
    answers whose label is missing."""

    @property
    def labelled(self) -> set[Key]:
        """The answers with a label of anybody."""
        return {key for labels in self.by_rater.values() for key in labels}


def read_labels(
    paths: Sequence[Path],
    run: JudgedRun,
    scores: Sequence[JudgedScore],
    scale: Scale | None,
    columns: Mapping[str, Sequence[str]],
) -> dict[str, Labels]:
    """Read labels by rubric.

    A file is a sheet where it has the column `item`; else its rows are found by `query_id`, and
    `system` where the run has several. Its labels are in the columns that `columns` names for a
    rubric, else in one with the rubric's name, else in `label`, `label_1`, `label_2` ... of the
    rubric that the column `rubric` names, or of the only one. Each column of each file is a rater.

    Args:
        paths: The files: CSV, JSON lines or Parquet.
        run: What was judged.
        scores: The scores that labels are for.
        scale: The scale of all labels; None: that of each rubric.
        columns: Rubric -> names of its label columns.

    Raises:
        DataError: An unknown or repeated answer, a label that is no number or off the scale, a
            file without labels, with the place.
    """
    rubrics = {score.rubric.name: score for score in scores}
    reader = _Reader(run, rubrics, scale, columns)
    for path in paths:
        reader.read(path, several=len(paths) > 1)
    if not any(labels.by_rater for labels in reader.found.values()):
        allowed = "numbers in the column label, or label_1, label_2 ..."
        raise DataError("not one label", file=paths[0], allowed=allowed)
    return {name: labels for name, labels in reader.found.items() if labels.by_rater}


class _Reader:
    """Reads files into labels by rubric."""

    def __init__(
        self,
        run: JudgedRun,
        rubrics: Mapping[str, JudgedScore],
        scale: Scale | None,
        columns: Mapping[str, Sequence[str]],
    ) -> None:
        self.found = {name: Labels() for name in rubrics}
        self._run, self._rubrics, self._columns = run, rubrics, columns
        self._scales = {n: scale or Scale.of_rubric(s.rubric) for n, s in rubrics.items()}
        self._known = {name: {*score.scores, *score.unscored} for name, score in rubrics.items()}
        for name in columns:
            if name not in rubrics:
                close = nearest(name, rubrics)
                raise OptionError("--column", "rubric", name, ", ".join(rubrics), close)

    def read(self, path: Path, *, several: bool) -> None:
        rater_of = f"{path.stem}:" if several else ""
        seen: dict[str, Entry] = {}
        places: dict[str, tuple[str, Key]] = {}
        for entry in read_rows(path, "labels"):
            is_sheet = "item" in entry.values
            if is_sheet and not places:
                places = self._items()
            if is_sheet and entry.values["item"] in (None, ""):
                continue  # a row that somebody left empty
            found = self._of_item(entry, places) if is_sheet else self._of_query(entry)
            for rubric, key in found:
                check_unique(f"{rubric} of {key[1]}, {key[0]}", "answer", entry, seen)
                draw = str(entry.values.get("draw") or "") if is_sheet else ""
                self.found[rubric].rows.setdefault(key, draw)
                for column in self._label_columns(entry, rubric):
                    label = read_rating(entry, column, self._scales[rubric], "--scale")
                    if label is not None:
                        rater = f"{rater_of}{column}"
                        self.found[rubric].by_rater.setdefault(rater, {})[key] = label

    def _items(self) -> dict[str, tuple[str, Key]]:
        """Return rubric and answer for each item that a sheet of this run may hold."""
        return {
            item_id(self._run, name, key): (name, key)
            for name, score in self._rubrics.items()
            for key in score.scores
        }

    def _of_item(
        self, entry: Entry, places: Mapping[str, tuple[str, Key]]
    ) -> Iterator[tuple[str, Key]]:
        item, rubric = entry.id("item"), entry.values.get("rubric")
        if item in places:
            yield places[item]
        elif rubric in (None, "") or rubric in self._rubrics:
            raise entry.error(
                f"item '{item}' is no answer of this run",
                allowed=f"items of a sheet that was drawn from {self._run.name}, while its answers "
                "are what they were",
                near=nearest(item, places) if len(places) <= _NEAREST_LIMIT else None,
            )

    def _of_query(self, entry: Entry) -> Iterator[tuple[str, Key]]:
        if "query_id" not in entry.values:
            raise entry.error(
                f"no 'item' and no 'query_id' (keys: {', '.join(entry.values)})",
                allowed="item, as a sheet that was drawn has it, or query_id",
                near=nearest("query_id", entry.values),
            )
        query, systems = entry.id("query_id"), self._run.systems
        system = entry.values.get("system")
        if system in (None, "") and len(systems) > 1:
            raise entry.error(
                f"no 'system', and the run has {len(systems)}", allowed=", ".join(systems)
            )
        written = str(system or systems[0])
        name = self._run.named(written)
        if name is None:
            raise entry.error(
                f"system '{written}' was not judged",
                allowed=", ".join(systems),
                near=nearest(written, systems),
            )
        key = (name, query)
        for rubric in self._rubrics_of(entry):
            if key not in self._known[rubric]:
                queries = sorted({query for _, query in self._known[rubric]})
                close = nearest(query, queries) if len(queries) <= _NEAREST_LIMIT else None
                raise entry.error(f"query '{query}' was not judged", near=close)
            yield rubric, key

    def _rubrics_of(self, entry: Entry) -> list[str]:
        named = entry.values.get("rubric")
        if named not in (None, ""):
            return [named] if named in self._rubrics else []
        own = [name for name in self._rubrics if name in self._columns or name in entry.values]
        if own:
            return own
        if len(self._rubrics) == 1:
            return list(self._rubrics)
        raise entry.error(
            f"labels of which rubric? (columns: {', '.join(entry.values)})",
            allowed=f"a column rubric, a column named {' or '.join(self._rubrics)}, --rubric NAME, "
            "or --column RUBRIC=COLUMN",
        )

    def _label_columns(self, entry: Entry, rubric: str) -> list[str]:
        named = list(self._columns.get(rubric, ()))
        if not named and rubric in entry.values:
            named = [rubric]
        for column in named:
            entry.field(column)
        named = named or [c for c in entry.values if c == "label" or c.startswith("label_")]
        if not named:
            has = ", ".join(entry.values)
            raise entry.error(
                f"no column with labels of {rubric} (columns: {has})",
                allowed="label, or label_1, label_2 ... for several raters, or --column "
                f"{rubric}=COLUMN",
            )
        return named


def read_rating(entry: Entry, column: str, scale: Scale, option: str) -> float | None:
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
    """The n answers that have a verdict and a label of anybody."""

    keys: Sequence[Key]
    """The answers."""
    scale: Scale
    """What people label on."""
    judge: FloatArray
    """Scores of the judge, from 0 to 1."""
    people: FloatArray
    """Labels as scores from 0 to 1, a column per rater; NaN where one gave none."""
    raters: Sequence[str]
    """Names of the columns."""

    @classmethod
    def of(cls, score: JudgedScore, labels: Labels, scale: Scale) -> Ratings:
        """Put scores and labels side by side."""
        keys = sorted(key for key in labels.labelled if key in score.scores)
        people = np.array(
            [[of_rater.get(key, np.nan) for of_rater in labels.by_rater.values()] for key in keys]
        ).reshape(len(keys), len(labels.by_rater))
        judge = np.array([score.scores[key] for key in keys], dtype=np.float64)
        return cls(keys, scale, judge, scale.scores(people), list(labels.by_rater))

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
        """How many labels lie between two levels."""
        if not self.scale.levels:
            return 0
        steps = self.people[np.isfinite(self.people)] * (len(self.scale.levels) - 1)
        return int(np.count_nonzero(np.abs(steps - np.round(steps)) > 1e-9))
