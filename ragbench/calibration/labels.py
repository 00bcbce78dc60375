"""Labels of people, from filled sheets or own files, and tables of ratings by judges and people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ragbench.calibration.answer_rows import ANSWER_PARTS, AnswerFinder
from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.label_words import is_unclear, label_words, scale_of_column
from ragbench.calibration.sheet import LabelScale, item_id
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError, OptionError
from ragbench.registry import check_allowed, nearest
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.signature import Signature, fingerprint_json
from ragbench.types import FloatArray
from ragbench.types.reasoning import split_reasoning

# Part of a row -> recognised names of its column. Columns of judge and label have the name of the
# part, alone or with an ending: `label`, `label_1`.
PARTS: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "question_id", "item", "id"),
    "system": ("system", "model"),
    "answer": ("answer", "response", "summary"),
    "judge": (),
    "label": (),
}
_OPTIONAL, _SEVERAL = ("system", "answer"), ("judge", "label")
# System of a table without a column of systems.
ONE_SYSTEM = "given"


@dataclass(slots=True)
class Labels:
    """Labels of people by one rubric; `read_labels` and `read_ratings` return them.

    An answer is a pair (system, query id).

    Attributes:
        by_rater: Rater -> answer -> label on the scale of the file.
        rows: Answer -> signature of the draw on its sheet, empty for other files; answers without
            a label included.
        probabilities: Answer -> number in the cell `probability` on its sheet; NaN without one.
        groups: Answer -> text in the column of groups that was asked for; empty without one.
        ceiling: The same as `by_rater` for the raters behind a joint label, who are compared with
            each other alone; empty if `by_rater` has the labels of each rater.
    """

    by_rater: dict[str, dict[Key, float]] = field(default_factory=dict)
    rows: dict[Key, str] = field(default_factory=dict)
    probabilities: dict[Key, float] = field(default_factory=dict)
    groups: dict[Key, str] = field(default_factory=dict)
    ceiling: dict[str, dict[Key, float]] = field(default_factory=dict)

    @property
    def labelled(self) -> set[Key]:
        """Answers with a label of at least one rater."""
        return set(chain.from_iterable(self.by_rater.values()))


@dataclass(frozen=True, slots=True)
class LabelTable:
    """Rows with labels that do not stand in a file: metadata of a data set, or labels of a program.

    The constructor checks nothing.

    Attributes:
        name: Name of the table, for messages.
        rows: Rows that name the answer, with the labels.
        columns: Columns of the labels, which are the raters; empty: those of a file.
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
        IndexError: There is no path.
    """
    by_rubric = {score.rubric.name: score for score in scores}
    parts: dict[str, str] = {}
    for name in ANSWER_PARTS.keys() & columns.keys() - by_rubric.keys():
        parts[name] = columns[name][-1]
    columns = {name: names for name, names in columns.items() if name not in parts}
    check_allowed("--column", "rubric", columns, by_rubric)
    reader = _LabelReader(AnswerFinder(run, parts), by_rubric, columns, by)
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


def _add_group(labels: Labels, key: Key, entry: Entry, by: str) -> None:
    """Add the group of an answer to its labels; an empty or missing cell adds none."""
    value = entry.values.get(by)
    if by and value not in (None, ""):
        labels.groups[key] = str(value)


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
                labels[rubric].rows.setdefault(key, draw)
                labels[rubric].probabilities[key] = _probability(entry)
                _add_group(labels[rubric], key, entry, self.by)
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
                    label = read_rating(entry, column, cell_scale, "--scale", judged)
                    if label is not None:
                        label += rubric_scale.low - cell_scale.low
                        name = rater or column
                        labels[rubric].by_rater.setdefault(f"{prefix}{name}", {})[key] = label

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
        columns = columns or [c for c in entry.values if c == "label" or c.startswith("label_")]
        if not columns:
            problem = f"no column with labels of {rubric} (columns: {', '.join(entry.values)})"
            allowed = f"label, or label_1, label_2 ... for several raters, or --column {rubric}="
            raise entry.error(problem, allowed=f"{allowed}COLUMN")
        return list(columns)


def read_rating(
    entry: Entry, column: str, scale: LabelScale, option: str, rubric: Rubric | None = None
) -> float | None:
    """Return the label in a cell, a number on a scale or a word; None for an empty cell.

    Raises:
        DataError: There is no such column, or the cell holds no label; the message has the line.
    """
    value = entry.field(column)
    text = str(value).strip() if value is not None else ""
    if not text:
        return None
    words = label_words(scale, rubric)
    if text.casefold() in words:
        return float(words[text.casefold()])
    allowed = f"a number from {scale.low:g} to {scale.high:g}, yes or no, or nothing"
    try:
        rating = float(text)
    except ValueError as error:
        raise entry.error(f"{column}: {value!r}", allowed=allowed) from error
    if not math.isfinite(rating) or not scale.holds(rating):
        hint = f"; another scale: {option} LOW..HIGH"
        raise entry.error(f"{column}: {value!r}", allowed=allowed + hint)
    return rating


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
    several), `judge`, `label` or `label_1`, `label_2` ..., and optionally `answer`. Each column of
    the judge is a judge, each column of labels a rater. A row without a rating of a judge is
    unscored by it. Several answers of a system to a query, such as judged passages, are told apart
    by the column `answer`, and vary together. All rubrics of the result have the same labels;
    without `rubric`, each judge has a rubric of its own. The keys of the scores are the columns of
    the judges, or `rubric`, with the column for several judges. The seed of the run is 0, and it
    has no baselines; without a column of systems, its system is `given`.

    Args:
        path: Table of ratings.
        scale: Scale of the labels; None: 0 to 1, for words, 0 and 1.
        judge_scale: Scale of the judge's ratings; None: `scale`.
        columns: Part of a row (`query_id`, `system`, `answer`, `judge`, `label`) -> names of its
            columns; a part that is absent is recognised by usual names.
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
        key = _key_apart((system, query), text, texts)
        check_unique(f"{key[1]}, {system}", "answer", entry, places)
        units[key[1]] = query
        answers[key] = JudgedItem(answer=None if text is None else split_reasoning(str(text))[1])
        # no signature of a draw: a table does not come from a sheet
        labels.rows[key] = ""
        _add_group(labels, key, entry, by)
        for column in judges:
            rating = read_rating(entry, column, judge_scale, "--judge-scale")
            if rating is not None:
                scores[column][key] = judge_scale.score(rating)
        for column in raters:
            rating = read_rating(entry, column, scale, "--scale")
            if rating is not None:
                labels.by_rater[column][key] = rating
    labels.by_rater = {rater: by_key for rater, by_key in labels.by_rater.items() if by_key}
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


def _key_apart(key: Key, text: object, texts: dict[Key, dict[str, int]]) -> Key:
    """Return the key of an answer, numbered if it is a further one of the system to the query."""
    if text is None:
        return key
    numbers = texts.setdefault(key, {})
    number = numbers.setdefault(str(text), len(numbers))
    return (key[0], f"{key[1]}-{number + 1}") if number else key


def _scale_of_words(entries: Sequence[Entry], raters: Sequence[str]) -> LabelScale:
    """Return the scale 0..1 of labels that are words; DataError if they may be of any scale."""
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
        judged[name] = JudgedScore(
            name=name,
            rubric=Rubric(word, "answer", ("answer",), {}, (), (), "rating", "higher"),
            judge=judge,
            model=model,
            signature=str(Signature.of(word, judge="elsewhere", model=model)),
            scores=ratings,
            unscored={key: "no_rating" for key in answers if key not in ratings},
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
    free = [name for name in first.values if name not in used]
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
            raise first.error(
                f"no column with the {part} (columns: {', '.join(first.values)})",
                allowed=f"{expected}, or --column {part}=COLUMN",
            )
    return columns
