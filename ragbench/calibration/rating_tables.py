"""Tables with the ratings of judges and people, as a run and its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.label_words import label_words
from ragbench.calibration.labels import ONE_SYSTEM, Labels, add_group, read_rating
from ragbench.calibration.rating_columns import find_columns, read_name
from ragbench.data.files.collection import check_unique
from ragbench.data.files.rows import Entry, read_rows
from ragbench.errors import DataError
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.signature import Signature, fingerprint_json
from ragbench.types.lookups import omit_empty
from ragbench.types.reasoning import split_reasoning


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
    by_part = find_columns(entries[0], columns)
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
        system = read_name(entry, by_part["system"][0]) if by_part["system"] else ONE_SYSTEM
        query = read_name(entry, by_part["query_id"][0])
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
