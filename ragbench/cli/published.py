"""Judges on published sets of judged answers: `ragbench calibrate CONFIG --on FILE`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from ragbench.calibration.certificate import Calibration, certify
from ragbench.calibration.disagreements import find_disagreements
from ragbench.calibration.judged_run import JudgedRun, Key
from ragbench.calibration.judged_set import groups_of_rows, labels_of_rows, rated_run
from ragbench.calibration.labels import Labels
from ragbench.calibration.preferred import certify_pairs
from ragbench.calibration.sheet import LabelScale
from ragbench.cli import output
from ragbench.cli.certificate import Target, write_certificate, write_record
from ragbench.config.load import load_judges
from ragbench.config.schema import ExperimentConfig
from ragbench.data.files.judged_qrels import TrecFiles, read_judged_qrels, sort_trec_files
from ragbench.data.files.judged_rows import OWN_PARTS, JudgedSet, read_judged_rows
from ragbench.errors import DataError
from ragbench.experiment.judge_qrels import (
    plan_grader,
    rated_qrels,
    read_passages,
    system_order,
    with_grades,
)
from ragbench.experiment.judge_set import SetJudge, judge_rows, plan_judges
from ragbench.llm import Estimate
from ragbench.records.certificate import SystemOrder
from ragbench.registry import check_allowed
from ragbench.report.preferred import pairs_report
from ragbench.types.display import counted

# Column of the predictions that a file holds.
JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class SetRequest:
    """Options of `calibrate --on`.

    Attributes:
        files: Files of the published set.
        columns: Part -> columns, as the user names them.
        rubrics: Names of rubrics; empty means all that can judge the set.
        limit: Number of rows to draw; None takes all.
        seed: Seed of the draw; None is that of the config, or 0.
        scale: Scale of the labels; None: that of the rubric, or 0..1 for predictions.
        target: Files and format of the certificate.
        by: Column of groups; empty means that of the form, if the rows have it.
        options: `good` and `confidence` of `Calibration`.
    """

    files: Sequence[Path]
    columns: Mapping[str, Sequence[str]]
    target: Target
    rubrics: Sequence[str] = ()
    limit: int | None = None
    seed: int | None = None
    scale: LabelScale | None = None
    by: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def read_rows(self, seed: int) -> JudgedSet:
        """Return the rows of the files, or a draw of them, and print their number.

        Raises:
            OptionError: A part of a column is unknown.
            DataError: A file cannot be read, or has no known form.
            MissingExtra: A Parquet file without the extra `parquet`.
        """
        check_allowed("--column", "part", self.columns, (*OWN_PARTS, "label", JUDGE))
        return self.draw(read_judged_rows(self.files, self.columns), seed)

    def draw(self, rows: JudgedSet, seed: int) -> JudgedSet:
        """Return the rows, or a draw of them, and print their number."""
        if self.limit is not None:
            rows = rows.draw(self.limit, seed if self.seed is None else self.seed)
        output.write_notes([_summary(rows)])
        return rows


def _summary(rows: JudgedSet) -> str:
    """Return a sentence on the rows of a set: form, number, labels."""
    drawn = "" if len(rows.rows) == rows.n_total else f" of {rows.n_total:,}, drawn by label"
    text = f"{rows.form}: {counted(len(rows.rows), rows.unit)}{drawn}"
    for column in rows.label_columns[:1]:
        numbers = Counter(str(row.entry.values.get(column)) for row in rows.rows)
        if len(numbers) <= 6:
            text += "; " + ", ".join(f"{n:,} {label}" for label, n in sorted(numbers.items()))
    return text


def certify_set(
    config: Path, request: SetRequest, overrides: Sequence[str], *, only_plan: bool
) -> None:
    """Judge a published set by the judges of a config, and write the certificate.

    Calls and cost are printed before anything is asked; with `only_plan`, nothing is asked.

    Raises:
        ConfigError: The config has problems, or a key is missing.
        OptionError: A rubric or part of a column is unknown.
        DataError: The set cannot be read, no rubric can judge it, or not one row was judged.
        AdapterError: Code of the user fails.
        MissingExtra: A judge needs a package that is not installed.
    """
    settings = load_judges(config, overrides)
    if (files := sort_trec_files(request.files)) is not None:
        _certify_grades(settings, files, request, only_plan=only_plan)
        return
    rows = request.read_rows(settings.seed)
    judges = plan_judges(settings, rows, request.rubrics)
    run = _ask(settings, judges, rows, only_plan=only_plan)
    if run is None:
        return
    if rows.are_pairs:
        certificate = certify_pairs(run, **_confidence(request))
        write_record("certificate", certificate, pairs_report, (), request.target)
        return
    rubrics = {score.rubric.name: score.rubric for score in run.scores.values()}
    labels = {name: labels_of_rows(rows, of, request.scale) for name, of in rubrics.items()}
    _write(run, labels, rows, request)


def _ask(
    settings: ExperimentConfig, judges: Sequence[SetJudge], rows: JudgedSet, *, only_plan: bool
) -> JudgedRun | None:
    """Print the plan of the judges, ask them, and return their scores; None for a plan alone.

    Raises:
        DataError: Not one row was judged.
    """
    for line in _plan_lines(settings, judges, rows):
        output.echo(line, err=True)
    if only_plan:
        return None
    with (
        output.resumable(),
        output.stage("judge", len(rows.rows) * len(judges), rows.unit) as stage,
    ):
        run, totals = judge_rows(settings, judges, rows, stage.advance)
    output.write_notes([f"judge {name}: {output.spent(of)}" for name, of in totals.items()])
    failed: Counter[str] = Counter()
    for score in run.scores.values():
        failed.update(score.unscored.values())
    if failed:
        causes = ", ".join(f"{cause} {number}" for cause, number in failed.most_common())
        output.write_notes([f"{counted(failed.total(), 'verdicts')} without a score: {causes}"])
    if not any(score.scores for score in run.scores.values()):
        allowed = "a judge that answers; the same command asks again what failed"
        raise DataError("not one row was judged", file=settings.path, allowed=allowed)
    return run


def _certify_grades(
    settings: ExperimentConfig, files: TrecFiles, request: SetRequest, *, only_plan: bool
) -> None:
    """Grade the passages of qrels by the judge of a config, and write the certificate."""
    output.refuse(
        (request.columns, "--column is for tables, not for qrels"),
        (request.by, "--by is for tables, not for qrels"),
        (request.rubrics, "--rubric: metrics.retrieval.fill names the rubric that grades passages"),
    )
    rows, n_without = read_passages(settings, files.qrels[0])
    if n_without:
        output.write_notes(
            [f"{n_without:,} judged pairs left out: the data set has no text of them"]
        )
    rows = request.draw(rows, settings.seed)
    judge, fill = plan_grader(settings, rows)
    run = _ask(settings, [judge], rows, only_plan=only_plan)
    if run is not None:
        scale = LabelScale(0, fill.top_grade)
        _write_grades(with_grades(run, fill), rows, files, scale, request)


def certify_qrels(request: SetRequest, ratings: Path, model: str) -> None:
    """Compare qrels of a judge with qrels of people; no model is called.

    Raises:
        UsageError: The files after --on are not qrels.
        DataError: A file cannot be read, or no pair has grades of both.
    """
    files = sort_trec_files(request.files)
    if files is None:
        raise click.UsageError("--ratings beside --on is for qrels of TREC in both")
    rows, _ = read_judged_qrels(files.qrels[0], None, None)
    rubric = request.rubrics[0] if request.rubrics else None
    rows = request.draw(rows, 0)
    run, scale = rated_qrels(rows, ratings, rubric=rubric, model=model)
    _write_grades(run, rows, files, scale, request)


def _write_grades(
    run: JudgedRun, rows: JudgedSet, files: TrecFiles, scale: LabelScale, request: SetRequest
) -> None:
    """Certify the grades of a judge, with the order of systems, and write the certificate."""
    score = next(iter(run.scores.values()))
    order = None
    confidence = request.options.get("confidence", 0.95)
    if files.runs:
        order = system_order(rows, score, int(scale.high), files.runs, confidence)
    labels = {score.rubric.name: labels_of_rows(rows, None, scale)}
    _write(run, labels, rows, replace(request, scale=scale), order)


def _confidence(request: SetRequest) -> dict[str, Any]:
    """Return the option of a certificate of pairs; refuse that of answers.

    Raises:
        UsageError: The request has a label of good answers.
    """
    output.refuse(
        ("good" in request.options, "--good is for labels of answers, not for pairs"),
        (request.by, "--by is for labels of answers, not for pairs"),
    )
    return dict(request.options)


def _plan_lines(
    config: ExperimentConfig, judges: Sequence[SetJudge], rows: JudgedSet
) -> Iterator[str]:
    """Yield the calls and cost of each judge, and each budget that may not be enough."""
    for judge in judges:
        names = ", ".join(rubric.name for rubric in judge.rubrics)
        cost = "no calls" if judge.cost is None else output.estimated(judge.cost)
        yield f"plan: {judge.name} judges {counted(len(rows.rows), rows.unit)} by {names}: {cost}"
        for reason, rubrics in judge.skipped.items():
            yield f"note: {judge.name} does not apply {', '.join(rubrics)}: {reason}"
        blind = [rubric.name for rubric in judge.rubrics if "contexts" not in rubric.needs]
        if blind and rows.are_pairs and rows.rows[0].contexts:
            advice = "a rubric with needs: [question, contexts, answer, other] does"
            yield f"note: {', '.join(blind)} does not read the passages of the pairs; {advice}"
    costs = [judge.cost for judge in judges if judge.cost is not None]
    yield from output.short_budgets(config.budget, sum(costs, start=Estimate()))


def certify_predictions(request: SetRequest, judge_scale: LabelScale | None, model: str) -> None:
    """Compare predictions that a published set holds with its labels; no model is called.

    Raises:
        OptionError: A part of a column is unknown.
        DataError: The set cannot be read, or a label or prediction is none of its scale.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    rows = request.read_rows(0)
    scale = request.scale or LabelScale(0, 1)
    rubric = request.rubrics[0] if request.rubrics else None
    judges = request.columns[JUDGE]
    run, labels = rated_run(rows, judges, scale, judge_scale or scale, rubric=rubric, model=model)
    _write(run, labels, rows, request)


def _write(
    run: JudgedRun,
    labels: Mapping[str, Labels],
    rows: JudgedSet,
    request: SetRequest,
    order: SystemOrder | None = None,
) -> None:
    """Certify the judges of a run, and write the certificate."""
    scale, by, groups = request.scale, request.by, dict[Key, str]()
    if not by and rows.group in rows.rows[0].entry.values:
        by = rows.group
    if by:
        groups = groups_of_rows(rows, by)
    if scale is None and not next(iter(run.scores.values())).rubric.scale:
        scale = LabelScale(0, 1)
    calibration = Calibration(scale=scale, by=by, groups=groups, **request.options)
    certificate = certify(run, run.scores, labels, calibration)
    if order is not None:
        rubrics = {}
        for name, rubric in certificate.rubrics.items():
            rubrics[name] = structs.replace(rubric, systems=order)
        certificate = structs.replace(certificate, rubrics=rubrics)
    disagreements = find_disagreements(run, run.scores, labels, scale)
    write_certificate(certificate, disagreements, (), request.target)
