"""`calibrate`: agreement of the judges of a result with labels of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ragbench.calibration.certificate import Calibration, certify
from ragbench.calibration.disagreements import Disagreement, find_disagreements
from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key, read_judged_run
from ragbench.calibration.labels import ONE_SYSTEM, LabelTable, read_labels
from ragbench.calibration.metadata_labels import METADATA, answer_groups, metadata_labels
from ragbench.calibration.sheet import LabelScale
from ragbench.comparison.evaluation import Evaluation
from ragbench.config.load import load_saved
from ragbench.data.files.rows import Entry
from ragbench.data.runs.run_folder import to_json
from ragbench.errors import DataError, OptionError
from ragbench.experiment.plan.plan import load_collection
from ragbench.experiment.result import Experiment
from ragbench.files import write_file
from ragbench.records.certificate import JudgeCertificate
from ragbench.records.codec import to_json as to_mapping
from ragbench.registry import nearest
from ragbench.report.calibration import certificate_report
from ragbench.report.formats import render
from ragbench.report.judge_sentences import (
    COLUMNS,
    certificate_sentences,
    disagreement_rows,
)
from ragbench.score.judge.base import JudgedItem
from ragbench.signature import Signature
from ragbench.types.tables import load_pandas, plain

if TYPE_CHECKING:
    import pandas

# Label of a person: a number on the scale, a boolean or a word; None without one.
Label: TypeAlias = "float | bool | str | None"


@dataclass(frozen=True, repr=False)
class JudgeCalibration:
    """Agreement of the judges of a result with people; `calibrate` returns it.

    The repr is the report of `ragbench calibrate`: sentences, and a table for each judge.

    Attributes:
        certificate: Agreement, bias and correlations of each judge, which `save` writes.
        disagreements: Answers on which judge and people disagree, the largest difference first.
    """

    certificate: JudgeCertificate
    disagreements: Sequence[Disagreement] = field(repr=False)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Mean and agreement of each judge in two sentences, then the pairs of judges."""
        return certificate_sentences(self.certificate)

    def __repr__(self) -> str:
        return render(certificate_report(self.certificate, is_command=False)).rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as a JSON mapping, as `ragbench calibrate --json` prints it."""
        return dict(to_mapping(self.certificate))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the disagreements as a pandas DataFrame, a row per answer.

        The columns are `rubric`, `system`, `query_id`, `question`, `passages`, `answer`, `labels`,
        `judge` (its score on the scale of the labels), `difference` (from -1 to 1) and `reason`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        pd = load_pandas("JudgeCalibration.to_pandas")
        return pd.DataFrame(disagreement_rows(self.disagreements), columns=list(COLUMNS))

    def save(self, path: str | Path) -> None:
        """Write the certificate, which gates and `ragbench calibrate` read.

        Raises:
            DataError: The file cannot be written.
        """
        write_file(Path(path), to_json(to_mapping(self.certificate)))


def calibrate(
    result: Evaluation | Experiment,
    labels: str | Mapping[Any, Label] | Sequence[Label] | pandas.Series[Any],
    *,
    rubric: str | None = None,
    scale: str | None = None,
    good: float | None = None,
    confidence: float = 0.95,
    random: bool = False,
    by: str | None = None,
) -> JudgeCalibration:
    """Compare the judges of a result with labels of people.

    Args:
        result: Result of `evaluate` with a judge, or an experiment with one.
        labels: Name of the column of the scored table that has the labels; or query id -> label, of
            an experiment with several systems (system, query id) -> label; or a Series of pandas
            with the index of the scored frame, or query ids; or a list with a label for each row of
            `result.to_pandas()`. Labels are numbers on the scale, booleans, or words such as yes
            and no, pass and fail, supported and unsupported. None and NaN are no label.
        rubric: Rubric of the labels; None: the only one of the result.
        scale: Scale of the labels, the worst first, such as `1..5`; None: that of the rubric.
        good: Smallest label of a good answer, for AUC; None: labels above the middle.
        confidence: Level of the intervals.
        random: True if the labelled answers were drawn at random: they then correct the mean.
        by: Column of the scored table, or `system`: agreement on each group of answers, too.

    Returns:
        Agreement, bias and disagreements of each judge that applied the rubric.

    Raises:
        DataError: A label is none of the scale, an answer is unknown, or nothing was judged.
        OptionError: The result has no such rubric, or several and none is named; or no such column,
            or another number of labels than rows.

    Example:
        >>> from ragbench import Judge, evaluate
        >>> rows = [{"question": f"{n}?", "response": str(n), "human": n % 2} for n in range(20)]
        >>> def odd(answer):
        ...     return answer[-1] in "13579" or answer == "8"
        >>> result = evaluate(rows, judge=Judge(type=odd))
        >>> print(calibrate(result, "human", scale="0..1").sentences[1])
        odd agrees with people on 19 of 20 answers (95 % [63, 99])
    """
    if isinstance(result, Evaluation):
        run = judged_run_of(result)
        table = _labels_of_evaluation(result, labels)
    else:
        run = read_judged_run(result.path)
        table = _labels_of_experiment(result, run, labels)
    chosen = {score.name: score for score in run.select_scores([rubric] if rubric else [])}
    rubrics = list(dict.fromkeys(score.rubric.name for score in chosen.values()))
    if len(rubrics) > 1:
        raise OptionError("calibrate", "rubric", rubric, ", ".join(rubrics))
    label_scale = None if scale is None else LabelScale.parse(scale, "scale")
    by_rubric = read_labels([table], run, list(chosen.values()), label_scale, {})
    options = Calibration(
        scale=label_scale,
        good=good,
        confidence=confidence,
        random=random,
        by=by or "",
        groups=_groups(result, run, by),
    )
    certificate = certify(run, chosen, by_rubric, options)
    return JudgeCalibration(certificate, find_disagreements(run, chosen, by_rubric, label_scale))


def _groups(result: Evaluation | Experiment, run: JudgedRun, by: str | None) -> dict[Key, str]:
    """Return answer -> its group, the value of a column; {} for None."""
    if by is None:
        return {}
    if isinstance(result, Experiment):
        load = partial(load_collection, load_saved(result.path / "config.yaml", ()))
        name = by if by == "system" or by.startswith(METADATA) else f"{METADATA}{by}"
        return answer_groups(run, {}, name, load)
    values = _column(result, "by", by)
    pairs = zip(result.query_ids, values, strict=True)
    return {(ONE_SYSTEM, query): str(value) for query, value in pairs if value is not None}


def _column(evaluation: Evaluation, option: str, name: str) -> Sequence[Any]:
    """Return the cells of a column of the scored table.

    Raises:
        OptionError: The table has no such column.
    """
    columns = evaluation.table.columns
    if name not in columns:
        allowed = ", ".join(columns) or "a table with further columns"
        raise OptionError("calibrate", option, name, allowed, nearest(name, columns))
    return columns[name]


def judged_run_of(evaluation: Evaluation) -> JudgedRun:
    """Return the verdicts of a result of `evaluate` as a run of the one system `given`.

    Raises:
        DataError: The result has no scores of a judge.
    """
    if not evaluation.rubrics:
        raise DataError("no verdicts of a judge", record="calibrate", allowed="evaluate(judge=...)")
    answers: dict[Key, JudgedItem] = {}
    for place, query in enumerate(evaluation.query_ids):
        parts = {part: cells[place] for part, cells in evaluation.texts.items()}
        answers[ONE_SYSTEM, query] = JudgedItem(
            question=parts.get("question"),
            answer=parts.get("answer"),
            contexts=parts.get("contexts"),
            query_id=query,
        )
    scores = {name: _judged_score(evaluation, name) for name in evaluation.rubrics}
    return JudgedRun(
        folder=Path("evaluate"),
        name="evaluate",
        seed=0,
        systems=(ONE_SYSTEM,),
        against={},
        data={},
        answers=answers,
        scores=scores,
    )


def _judged_score(evaluation: Evaluation, name: str) -> JudgedScore:
    """Return the scores of one rubric of a result, with the causes of missing ones."""
    values = evaluation.per_query[name]
    signature = Signature.parse(evaluation.signature[name])
    reasons = {}
    for query, by_rubric in evaluation.verdicts.items():
        if name in by_rubric and by_rubric[name].reasoning:
            reasons[ONE_SYSTEM, query] = by_rubric[name].reasoning
    return JudgedScore(
        name=name,
        rubric=evaluation.rubrics[name],
        judge=signature.part("judge") or "not named",
        model=signature.part("model") or "not named",
        signature=str(signature),
        scores={(ONE_SYSTEM, q): value for q, value in values.items() if np.isfinite(value)},
        unscored={(ONE_SYSTEM, q): cause for q, cause in evaluation.causes[name].items()},
        reasons=reasons,
    )


def _labels_of_evaluation(evaluation: Evaluation, labels: Any) -> LabelTable:
    """Return labels in any form as a table with a row for each labelled item."""
    keys = [(ONE_SYSTEM, query) for query in evaluation.query_ids]
    if isinstance(labels, str):
        return _label_table(labels, keys, _column(evaluation, "labels", labels))
    index = evaluation.table.index
    if hasattr(labels, "index") and hasattr(labels, "to_dict"):
        names = {} if index is None else dict(zip(index, evaluation.query_ids, strict=True))
        labels = {names.get(name, name): label for name, label in labels.to_dict().items()}
    return _labels_by_key(labels, keys)


def _labels_of_experiment(experiment: Experiment, run: JudgedRun, labels: Any) -> LabelTable:
    """Return labels in any form as a table with a row for each labelled answer."""
    if isinstance(labels, str):
        collection = load_collection(load_saved(experiment.path / "config.yaml", ()))
        return metadata_labels(collection, run, labels)
    keys = []
    for system, by_score in experiment.per_query.items():
        keys += [(system, query) for query in next(iter(by_score.values()), {})]
    if hasattr(labels, "index") and hasattr(labels, "to_dict"):
        labels = labels.to_dict()
    return _labels_by_key(labels, keys)


def _labels_by_key(labels: Any, keys: Sequence[Key]) -> LabelTable:
    """Return a mapping, or a list of labels in the order of the answers, as a table."""
    if isinstance(labels, Mapping):
        one_system = len({system for system, _ in keys}) == 1
        by_key = {}
        for name, label in labels.items():
            key = (keys[0][0], str(name)) if one_system and not isinstance(name, tuple) else name
            by_key[key] = label
        if strays := [name for name in by_key if name not in set(keys)]:
            first = strays[0][1] if one_system else strays[0]
            allowed = f"query ids, such as {keys[0][1]!r}"
            if not one_system:
                allowed = f"(system, query id), such as {keys[0]}"
            raise OptionError("calibrate", "labels", first, allowed)
        return _label_table("label", list(by_key), list(by_key.values()))
    values = list(labels)
    if len(values) != len(keys):
        allowed = f"{len(keys)}, one for each row of result.to_pandas()"
        raise OptionError("calibrate", "labels", f"{len(values)} labels", allowed)
    return _label_table("label", keys, values)


def _label_table(column: str, keys: Sequence[Key], labels: Sequence[Any]) -> LabelTable:
    """Return the table of the labels of some answers; missing values are empty."""
    rows = []
    for (system, query), value in zip(keys, labels, strict=True):
        label = plain(value)
        values = {"query_id": query, "system": system, column: label}
        rows.append(Entry(file="labels", line=None, values=values, record=query))
    return LabelTable("labels", rows, column)
