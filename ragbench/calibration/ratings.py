"""Ratings of a judge that ran elsewhere, beside those of people: one table, a row per answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragbench.calibration.judged_run import JudgedAnswer, JudgedRun, JudgedScore, Key
from ragbench.calibration.labels import Labels, read_rating
from ragbench.calibration.sheet import Scale
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError, OptionError
from ragbench.registry import nearest
from ragbench.score.judge.base import Rubric
from ragbench.signature import Signature, fingerprint_json

PARTS: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "question_id", "item", "id"),
    "system": ("system", "model"),
    "answer": ("answer", "response", "summary"),
    "judge": (),
    "label": (),
}
"""Part of a row -> the names of its column that are understood; those of judge and label are the
part's own name, alone or with an ending: `label`, `label_1`."""
_OPTIONAL, _SEVERAL = ("system", "answer"), ("judge", "label")
ONE_SYSTEM = "given"
"""The system of a table that names none."""


@dataclass(frozen=True, slots=True)
class RatingsForm:
    """How a table of ratings is read."""

    scale: Scale
    """What people rate on."""
    judge_scale: Scale
    """What the judge rates on."""
    columns: Mapping[str, Sequence[str]]
    """Part -> its columns; judge and label may have several."""
    rubric: str | None = None
    """What was rated; None: what the judge's column is called."""
    model: str = "not named"
    """What gave the judge's ratings."""


def read_ratings(path: Path, form: RatingsForm) -> tuple[JudgedRun, dict[str, Labels]]:
    """Read the ratings of one or several judges and of people.

    Each column of the judge is a judge, each one of labels a rater. A row without a rating of the
    judge is counted as without a verdict, one without a label is of use to correct a mean.

    Args:
        path: CSV, JSON lines or Parquet: `query_id`, `system` (where there are several), `judge`,
            `label` or `label_1`, `label_2` ...; the text of the answer, `answer`, if known.
        form: Scales, and the names of columns that are called otherwise.

    Returns:
        What `certify` takes: a judged run, and the labels by the name of the rubric.

    Raises:
        DataError: A missing column, a repeated answer, a rating that is no number or off its
            scale, with the place.
        OptionError: A part that no row has.
    """
    entries = list(read_rows(path, "ratings"))
    columns = _columns(entries, form.columns)
    judges, raters = columns.judge, columns.label
    scores: dict[str, dict[Key, float]] = {column: {} for column in judges}
    labels = Labels({rater: {} for rater in raters})
    answers: dict[Key, JudgedAnswer] = {}
    seen: dict[str, Entry] = {}
    for entry in entries:
        system = ONE_SYSTEM if columns.system is None else _name(entry, columns.system)
        key = (system, _name(entry, columns.query_id))
        check_unique(f"{key[1]}, {system}", "answer", entry, seen)
        text = None if columns.answer is None else entry.values.get(columns.answer)
        answers[key] = JudgedAnswer(None if text is None else str(text), ())
        labels.rows[key] = ""
        for column in judges:
            rating = read_rating(entry, column, form.judge_scale, "--judge-scale")
            if rating is not None:
                low, high = form.judge_scale.low, form.judge_scale.high
                scores[column][key] = (rating - low) / (high - low)
        for column in raters:
            rating = read_rating(entry, column, form.scale, "--scale")
            if rating is not None:
                labels.by_rater[column][key] = rating
    labels.by_rater = {rater: of for rater, of in labels.by_rater.items() if of}
    if not labels.by_rater:
        allowed = f"numbers in {' or '.join(raters)}"
        raise DataError("not one rating of people", file=path, allowed=allowed)
    run = _judged(path, form, scores, answers)
    return run, {score.rubric.name: labels for score in run.scores.values()}


def _name(entry: Entry, column: str) -> str:
    """The name in a cell: any text, as it only says what belongs together."""
    value = entry.field(column)
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise entry.error(f"{column}: {value!r}", allowed="a name or a number")
    return str(value)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns play which part."""

    query_id: str
    system: str | None
    answer: str | None
    judge: Sequence[str]
    label: Sequence[str]


def _columns(entries: Sequence[Entry], named: Mapping[str, Sequence[str]]) -> _Columns:
    """Find the columns by the names that somebody gave, or that are understood."""
    first = entries[0]
    players: dict[str, str] = {}
    for part, columns in named.items():
        if part not in PARTS:
            raise OptionError("--column", "part", part, ", ".join(PARTS), nearest(part, PARTS))
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

    system, answer = ([*of(part), None][0] for part in _OPTIONAL)
    return _Columns(of("query_id")[0], system, answer, of("judge"), of("label"))


def _judged(
    path: Path,
    form: RatingsForm,
    scores: Mapping[str, Mapping[Key, float]],
    answers: Mapping[Key, JudgedAnswer],
) -> JudgedRun:
    """The table as a run with a score for each judge."""
    made = {}
    for column, of in scores.items():
        rubric = form.rubric or column
        name = rubric if len(scores) == 1 or form.rubric is None else f"{rubric}(judge={column})"
        made[name] = JudgedScore(
            name=name,
            rubric=_rubric(rubric),
            judge=column,
            model=form.model,
            signature=str(Signature.of(rubric, judge="elsewhere", model=form.model)),
            scores=of,
            unscored={key: "no_rating" for key in answers if key not in of},
        )
    said = {
        name: sorted([*key, value] for key, value in s.scores.items()) for name, s in made.items()
    }
    return JudgedRun(
        folder=path,
        name=path.name.partition(".")[0],
        seed=0,
        systems=tuple(dict.fromkeys(system for system, _ in answers)),
        against={},
        models={},
        data={"ratings": fingerprint_json(said)},
        answers=answers,
        scores=made,
        elsewhere=True,
    )


def _rubric(name: str) -> Rubric:
    """A rubric of which only the name is known."""
    return Rubric(
        name=name,
        asks="answer",
        needs=("answer",),
        scale={},
        steps=(),
        examples=(),
        method="rating",
        direction="higher",
    )
