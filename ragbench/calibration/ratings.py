"""Scores of a judge beside labels of people, and tables with the ratings of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.label_words import label_words
from ragbench.calibration.labels import ONE_SYSTEM, Labels, add_group, read_rating
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError, OptionError
from ragbench.registry import check_allowed
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.signature import Signature, fingerprint_json
from ragbench.types import FloatArray
from ragbench.types.lookups import omit_empty
from ragbench.types.reasoning import split_reasoning

# Part of a row -> recognised names of its column. Columns of judge and label have the name of the
# part, alone or with an ending: `label`, `label_1`.
PARTS: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "question_id", "item", "id"),
    "system": ("system", "model"),
    "answer": ("answer", "response", "summary"),
    "document": ("document_id", "doc_id", "docid", "passage_id"),
    "judge": (),
    "label": (),
}
_OPTIONAL, _SEVERAL = ("system", "answer", "document"), ("judge", "label")


@dataclass(frozen=True)
class Ratings:
    """Scores of a judge beside labels of people, for the n answers that have both.

    `Ratings.of` joins the scores of a judge with labels. `mean_labels` are the means over the
    raters.

    Attributes:
        keys: System and query id of each answer, sorted.
        scale: Scale of the labels.
        judge: Shape (n,): scores of the judge, 0 to 1.
        people: Shape (n, raters): labels as scores from 0 to 1; NaN for a missing label.
        raters: Names of the raters, in the order of the columns.
        units: Query id -> unit of sampling; a query without one is a unit of its own.
    """

    keys: Sequence[Key]
    scale: LabelScale
    judge: FloatArray
    people: FloatArray
    raters: Sequence[str]
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, score: JudgedScore, labels: Labels, scale: LabelScale) -> Ratings:
        """Join the scores of a judge with labels by answer; empty arrays if none has both.

        Raters keep the order of `labels`; a rater without any such answer has a column of NaN.
        """
        keys = sorted(key for key in labels.labelled if key in score.scores)
        people = np.full((len(keys), len(labels.by_rater)), np.nan)
        for column, of_rater in enumerate(labels.by_rater.values()):
            people[:, column] = [of_rater.get(key, np.nan) for key in keys]
        judge = np.array([score.scores[key] for key in keys], dtype=np.float64)
        raters = list(labels.by_rater)
        return cls(keys, scale, judge, scale.score(people), raters, score.units)

    @property
    def mean_labels(self) -> FloatArray:
        """Mean label of each answer over its raters, from 0 to 1."""
        means: FloatArray = np.nanmean(self.people, axis=1)
        return means

    @property
    def queries(self) -> np.ndarray[Any, Any]:
        """Unit of each answer, mostly its query: answers of one unit are not independent."""
        units = [self.units.get(query, query) for _, query in self.keys]
        return np.array(units, dtype=object).astype(str)

    @property
    def between(self) -> int:
        """Number of labels between two levels; 0 for a scale without levels."""
        if not self.scale.levels:
            return 0
        steps = self.people[np.isfinite(self.people)] * (len(self.scale.levels) - 1)
        # rounding of the scaling to 0..1 is no step between levels
        return int(np.count_nonzero(np.abs(steps - np.round(steps)) > 1e-9))


def read_ratings(
    path: Path,
    scale: LabelScale | None,
    judge_scale: LabelScale | None = None,
    *,
    columns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    rubric: str | None = None,
    model: str = "not named",
    by: str = "",
) -> tuple[JudgedRun, dict[str, Labels]]:
    """Read a table with ratings of judges and people; return a run and its labels by rubric.

    The table (CSV, JSON lines, Parquet) has the columns `query_id`, `system` (if there are
    several), `judge`, `label` or `label_1`, `label_2` ..., and optionally `answer` and
    `document_id`. Each column of the judge is a judge, each column of labels a rater. A row without
    a rating of a judge is unscored by it. Several answers of a system to a query are told apart by
    the column `answer`, judged passages by `document_id`; they vary together. All rubrics of the
    result have the same labels; without `rubric`, each judge has a rubric of its own. The keys of
    the scores are the columns of the judges, or `rubric`, with the column for several judges. The
    seed of the run is 0, and it has no baselines; without a column of systems, its system is
    `given`.

    Args:
        path: Table of ratings.
        scale: Scale of the labels; None: 0 to 1, for words, 0 and 1.
        judge_scale: Scale of the judge's ratings; None: `scale`.
        columns: Part of a row (`query_id`, `system`, `answer`, `document`, `judge`, `label`) ->
            names of its columns; a part that is absent is recognised by usual names.
        rubric: Name of the rubric; None: the name of the judge's column.
        model: Model of the judge.
        by: Column of the groups of answers; the table may lack it.

    Raises:
        DataError: The file cannot be read, or a row has a wrong rating; the message has the line.
        OptionError: `columns` names an unknown part, one column twice, or several columns for a
            part other than `judge` and `label`.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    entries = list(read_rows(path, "ratings"))
    by_part = _columns(entries[0], columns)
    judges, raters = by_part["judge"], by_part["label"]
    scale = scale or _scale_of_words(entries, raters)
    judge_scale = judge_scale or scale
    scores: dict[str, dict[Key, float]] = {column: {} for column in judges}
    # raters in the order of the columns, also if the first rows have no label of them
    labels = Labels({rater: {} for rater in raters})
    answers: dict[Key, JudgedItem] = {}
    places: dict[str, Entry] = {}
    units: dict[str, str] = {}
    texts: dict[Key, dict[str, int]] = {}
    for entry in entries:
        system = _name(entry, by_part["system"][0]) if by_part["system"] else ONE_SYSTEM
        query = _name(entry, by_part["query_id"][0])
        text = entry.values.get(by_part["answer"][0]) if by_part["answer"] else None
        document = entry.values.get(by_part["document"][0]) if by_part["document"] else None
        key = _unique_key((system, query), text if document is None else document, texts)
        check_unique(f"{key[1]}, {system}", "answer", entry, places)
        units[key[1]] = query
        answers[key] = JudgedItem(answer=None if text is None else split_reasoning(str(text))[1])
        # no signature of a draw: a table does not come from a sheet
        labels.draws[key] = ""
        add_group(labels, key, entry, by)
        for column in judges:
            rating = read_rating(entry, column, judge_scale, "--judge-scale")
            if rating is not None:
                scores[column][key] = judge_scale.score(rating)
        for column in raters:
            rating = read_rating(entry, column, scale, "--scale")
            if rating is not None:
                labels.by_rater[column][key] = rating
    labels.by_rater = omit_empty(labels.by_rater)
    if not labels.by_rater:
        allowed = f"numbers in {' or '.join(raters)}"
        raise DataError("not one rating of people", file=path, allowed=allowed)
    judged = {}
    for name, score in judged_scores(scores, [*answers], rubric, model).items():
        judged[name] = replace(score, units=units)
    run = _run_of_ratings(path, judged, answers)
    return run, {score.rubric.name: labels for score in judged.values()}


def _run_of_ratings(
    path: Path, judged: Mapping[str, JudgedScore], answers: Mapping[Key, JudgedItem]
) -> JudgedRun:
    """Return the scores of a table of ratings as a run without a seed and baselines."""
    fingerprints = {}
    for name, score in judged.items():
        fingerprints[name] = sorted([*key, value] for key, value in score.scores.items())
    return JudgedRun(
        folder=path,
        name=path.name.partition(".")[0],
        seed=0,
        systems=tuple(dict.fromkeys(system for system, _ in answers)),
        against={},
        data={"ratings": fingerprint_json(fingerprints)},
        answers=answers,
        scores=judged,
    )


def _unique_key(key: Key, text: object, texts: dict[Key, dict[str, int]]) -> Key:
    """Return the key of an answer, numbered if other texts have it; add the text to `texts`."""
    if text is None:
        return key
    numbers = texts.setdefault(key, {})
    number = numbers.setdefault(str(text), len(numbers))
    return (key[0], f"{key[1]}-{number + 1}") if number else key


def _scale_of_words(entries: Sequence[Entry], raters: Sequence[str]) -> LabelScale:
    """Return the scale 0..1 of labels that are words; raise DataError for labels of any scale."""
    scale = LabelScale(0, 1)
    words = {*label_words(scale, None), "0", "0.0"}
    texts = set[str]()
    for entry in entries:
        for column in raters:
            value = entry.values.get(column)
            text = "" if value is None else str(value).strip().casefold()
            texts.add(text)
            if text not in words and text not in ("", "1", "1.0"):
                allowed = "yes/no, true/false, pass/fail, supported/unsupported, 0/1; or --scale "
                raise entry.error(f"{column}: {value!r}", allowed=f"{allowed}LOW..HIGH, as in 1..5")
    # without any label, the caller says so
    if texts & {"1", "1.0"} and not texts & words:
        raise entries[0].error("all labels are 1", allowed="--scale 0..1, or another scale of them")
    return scale


def judged_scores(
    scores: Mapping[str, dict[Key, float]], answers: Sequence[Key], rubric: str | None, model: str
) -> dict[str, JudgedScore]:
    """Return name -> scores of each judge of a table; answers without a rating are unscored."""
    judged: dict[str, JudgedScore] = {}
    for judge, ratings in scores.items():
        word = rubric or judge
        # several judges by one rubric: the name of the score has to tell them apart
        name = word if len(scores) == 1 or rubric is None else f"{word}(judge={judge})"
        unscored = {}
        for key in answers:
            if key not in ratings:
                unscored[key] = "no_rating"
        judged[name] = JudgedScore(
            name=name,
            rubric=Rubric(word, "answer", ("answer",), {}, (), (), "rating", "higher"),
            judge=judge,
            model=model,
            signature=str(Signature.of(word, judge="elsewhere", model=model)),
            scores=ratings,
            unscored=unscored,
        )
    return judged


def _name(entry: Entry, column: str) -> str:
    """Return the name or integer in a cell as text, since names only group rows."""
    value = entry.field(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise entry.error(f"{column}: {value!r}", allowed="a name or a number")
    return str(value)


def _check_columns(first: Entry, chosen: Mapping[str, Sequence[str]]) -> None:
    """Raise an `OptionError` for parts or columns of the user that do not fit the table."""
    check_allowed("--column", "part", chosen, PARTS)
    for part, names in chosen.items():
        if len(names) > 1 and part not in _SEVERAL:
            allowed = f"one column; {' and '.join(_SEVERAL)} may have several"
            raise OptionError("--column", part, ", ".join(names), allowed)
        for name in names:
            first.field(name)  # raises if the table has no such column
    n_uses = Counter(chain.from_iterable(chosen.values()))
    if repeated := next((name for name, n in n_uses.items() if n > 1), None):
        raise OptionError("--column", "", repeated, "each column for one part")


def _columns(first: Entry, chosen: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return part -> names of its columns in a table, `chosen` by the user or recognised."""
    _check_columns(first, chosen)
    used = set(chain.from_iterable(chosen.values()))
    free = []
    for name in first.values:
        if name not in used:
            free.append(name)
    columns = {}
    for part, usual in PARTS.items():
        if part in chosen:
            columns[part] = [*chosen[part]]
        elif part in _SEVERAL:
            columns[part] = [n for n in free if n == part or n.startswith(f"{part}_")]
        else:
            columns[part] = [name for name in usual if name in free][:1]
        # a table without systems has one, and texts of answers are only for reading
        if not columns[part] and part not in _OPTIONAL:
            expected = ", ".join(usual) or f"{part}, or {part}_1, {part}_2 ..."
            labels = [] if part != "label" else _possible_labels(first, free, columns)
            options = [f"--column {part}={name}" for name in labels[:2] or ["COLUMN"]]
            raise first.error(
                f"no column with the {part} (columns: {', '.join(first.values)})",
                allowed=f"{expected}, or {' '.join(options)}",
            )
    return columns


def _possible_labels(
    first: Entry, free: Sequence[str], columns: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the free columns of a table that have a number or a word of a label in its first row.

    `columns` are those that have another meaning.
    """
    words = label_words(LabelScale(0, 1), None)
    used = set(chain.from_iterable(columns.values()))
    names = []
    for name in free:
        text = str(first.values[name]).strip().casefold()
        if name not in used and (text in words or text.removesuffix(".0").isdecimal()):
            names.append(name)
    return names
