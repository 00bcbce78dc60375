"""`calibrate`: agreement of the judges of a result with labels of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ragbench.calibration.certificate import Calibration, certify, with_passing_score
from ragbench.calibration.disagreements import (
    Disagreement,
    find_disagreements,
    find_flips,
    mark_flips,
)
from ragbench.calibration.earlier_agreement import ChangedAgreement, agreement_since
from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key, read_judged_run
from ragbench.calibration.label_files import read_labels
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import ONE_SYSTEM, Labels
from ragbench.comparison.evaluation import Evaluation
from ragbench.data.runs.run_folder import to_json
from ragbench.errors import DataError, OptionError, Phrase
from ragbench.experiment.label_tables import groups_of, label_tables
from ragbench.experiment.result import Experiment
from ragbench.files import write_file
from ragbench.records.certificate import JudgeCertificate
from ragbench.records.codec import to_json as to_mapping
from ragbench.report.calibration import certificate_report
from ragbench.report.formats import render
from ragbench.report.judge_sentences import (
    COLUMNS,
    certificate_sentences,
    change_lines,
    disagreement_rows,
)
from ragbench.score.judge.base import JudgedItem
from ragbench.signature import Signature
from ragbench.types.lookups import index_by_name
from ragbench.types.tables import load_pandas

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
        flipped: Answers that came to agree or no longer do since `before`, lost ones first.
        changes: Agreement of each judge on the same answers before and after, if there is `before`.
        run: Answers and verdicts of the result, which a later calibration reads as `before`.
    """

    certificate: JudgeCertificate
    disagreements: Sequence[Disagreement]
    flipped: Sequence[Disagreement]
    changes: Sequence[ChangedAgreement]
    run: JudgedRun

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """Mean and agreement of each judge in two sentences, then pairs and changes of judges."""
        changes = []
        for change in self.changes:
            changes.append(next(change_lines(change, {})))
        return (*certificate_sentences(self.certificate), *changes)

    def __repr__(self) -> str:
        questions = {(of.system, of.query_id): of.question for of in self.flipped}
        lines: list[str] = []
        for change in self.changes:
            lines += change_lines(change, questions)
        report = certificate_report(self.certificate, changes=lines, is_command=False)
        return render(report).rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as a JSON mapping, as `ragbench calibrate --json` prints it."""
        return dict(to_mapping(self.certificate))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the disagreements, then answers that came to agree, as a pandas DataFrame.

        The columns are `rubric`, `system`, `query_id`, `question`, `passages`, `answer`, `labels`,
        `judge` (its score on the scale of the labels), `difference` (from -1 to 1), `reason`,
        `flip` (`gained` or `lost` since `before`) and `judge_before`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        pd = load_pandas("JudgeCalibration.to_pandas")
        answers = mark_flips(self.disagreements, self.flipped)
        rows = disagreement_rows(answers)
        frame: pandas.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS))
        return frame

    def save(self, path: str | Path) -> None:
        """Write the certificate, which gates and `ragbench calibrate` read.

        Raises:
            DataError: The file cannot be written.
        """
        write_file(Path(path), to_json(to_mapping(self.certificate)))


def calibrate(  # noqa: PLR0913  the public signature: a keyword per rule
    result: Evaluation | Experiment,
    labels: str
    | Mapping[Any, Label]
    | Sequence[Label]
    | Sequence[Mapping[str, Any]]
    | pandas.Series[Any]
    | pandas.DataFrame,
    *,
    rubric: str | None = None,
    scale: str | None = None,
    good: float | None = None,
    judge_good: float | None = None,
    confidence: float = 0.95,
    random: bool = False,
    by: str | None = None,
    before: JudgeCalibration | Evaluation | Experiment | None = None,
) -> JudgeCalibration:
    """Compare the judges of a result with labels of people.

    Args:
        result: Result of `evaluate` with a judge, or an experiment with one.
        labels: Name of the column of the scored table that has the labels; or query id -> label, of
            an experiment with several systems (system, query id) -> label; or a Series of pandas
            with the index of the scored frame, or an index `id` of query ids; or a list with a
            label for each row of `result.to_pandas()`. Of several raters: a list of such columns;
            or a DataFrame or list of rows, with a column per rater, or with columns `rater` and
            `label`; a row names its answer by `id`, by the question with system or answer, or by
            its index, as a Series does. Labels are numbers on the scale, booleans, or words such as
            yes and no, pass and fail, supported and unsupported. None and NaN are no label.
        rubric: Rubric of the labels; None: the only one of the result.
        scale: Scale of the labels, the worst first, such as `1..5`; None: that of the rubric.
        good: Smallest label of a good answer, for AUC; None: labels above the middle.
        judge_good: Smallest score of the judge that passes beside labels of two levels (largest,
            where lower is better); None: scores above the middle.
        confidence: Level of the intervals.
        random: True if the labelled answers were drawn at random: they then correct the mean.
        by: Column of the scored table, or `system`: agreement on each group of answers, too.
        before: Earlier calibration or result with the same answers, such as one by an earlier
            rubric: agreement before and after, and the answers whose agreement flipped.

    Returns:
        Agreement, bias and disagreements of each judge that applied the rubric.

    Raises:
        DataError: A label is none of the scale, an answer is unknown, or nothing was judged.
        OptionError: The result has no such rubric, or several and none is named; or no such column,
            or another number of labels than rows; or `before` has none of the labelled answers.

    Example:
        >>> from ragbench import Judge, evaluate
        >>> rows = [{"question": f"{n}?", "response": str(n), "human": n % 2} for n in range(20)]
        >>> def odd(answer):
        ...     return answer[-1] in "13579" or answer == "8"
        >>> result = evaluate(rows, judge=Judge(type=odd))
        >>> print(calibrate(result, "human", scale="0..1").sentences[1])
        odd agrees with people on 19 of 20 answers (95 % [63, 99])
    """
    run = _judged_run(result)
    chosen = index_by_name(run.select_scores([rubric] if rubric else []))
    rubrics = list(dict.fromkeys(score.rubric.name for score in chosen.values()))
    if len(rubrics) > 1:
        raise OptionError("calibrate", "rubric", rubric, ", ".join(rubrics))
    label_scale = None if scale is None else LabelScale.parse(scale, "scale")
    tables = label_tables(result, run, labels, by)
    chosen = with_passing_score(chosen, judge_good, label_scale)
    by_rubric = read_labels(tables, run, list(chosen.values()), label_scale, {}, by or "")
    options = Calibration(
        scale=label_scale,
        good=good,
        confidence=confidence,
        random=random,
        by=by or "",
        groups=groups_of(result, run, by_rubric, by),
    )
    certificate = certify(run, chosen, by_rubric, options)
    changes: list[ChangedAgreement] = []
    if before is not None:
        earlier = before.run if isinstance(before, JudgeCalibration) else _judged_run(before)
        changes = _changes_since(earlier, run, chosen, by_rubric, options)
    return JudgeCalibration(
        certificate,
        find_disagreements(run, chosen, by_rubric, label_scale),
        find_flips(run, chosen, by_rubric, changes, label_scale),
        changes,
        run,
    )


def _judged_run(result: Evaluation | Experiment) -> JudgedRun:
    """Return the verdicts of a result."""
    return judged_run_of(result) if isinstance(result, Evaluation) else read_judged_run(result.path)


def _changes_since(
    earlier: JudgedRun,
    run: JudgedRun,
    scores: Mapping[str, JudgedScore],
    labels: Mapping[str, Labels],
    options: Calibration,
) -> list[ChangedAgreement]:
    """Return the changes of the judges since an earlier result; there is at least one."""
    since = agreement_since(
        earlier, run, scores, labels, scale=options.scale, confidence=options.confidence
    )
    if changes := list(since):
        return changes
    problem = Phrase("a result without the labelled answers and levels of these rubrics")
    allowed = "a calibration or result with the same answers"
    raise OptionError("calibrate", "before", problem, allowed)


def judged_run_of(evaluation: Evaluation) -> JudgedRun:
    """Return the verdicts of a result of `evaluate` as a run of the one system `given`.

    Raises:
        DataError: The result has no scores of a judge.
    """
    if not evaluation.rubrics:
        raise DataError("no verdicts of a judge", record="calibrate", allowed="evaluate(judge=...)")
    answers: dict[Key, JudgedItem] = {}
    for place, query in enumerate(evaluation.query_ids):
        parts = {}
        for part, cells in evaluation.texts.items():
            parts[part] = cells[place]
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
    scores = {}
    for query, value in values.items():
        if np.isfinite(value):
            scores[ONE_SYSTEM, query] = value
    return JudgedScore(
        name=name,
        rubric=evaluation.rubrics[name],
        judge=signature.part("judge") or "not named",
        model=signature.part("model") or "not named",
        signature=str(signature),
        scores=scores,
        unscored={(ONE_SYSTEM, q): cause for q, cause in evaluation.causes[name].items()},
        reasons=reasons,
    )
