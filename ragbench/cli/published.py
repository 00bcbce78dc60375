"""Judges on published sets of judged answers: `ragbench calibrate CONFIG --on FILE`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from ragbench.calibration.certificate import Calibration, certify, check_good, with_passing_score
from ragbench.calibration.disagreements import find_disagreements
from ragbench.calibration.judged_run import JudgedRun, Key
from ragbench.calibration.judged_set import groups_of_rows, labels_of_rows, rated_run
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import Labels
from ragbench.calibration.preferred import certify_pairs
from ragbench.cli import output
from ragbench.cli.certificate import Target, write_certificate, write_record
from ragbench.config.load import load_judges
from ragbench.config.schema import DEFAULT_SEED, ExperimentConfig
from ragbench.data.files.judged_qrels import TrecFiles, read_judged_qrels, sort_trec_files
from ragbench.data.files.judged_rows import OWN_PARTS, JudgedSet, read_judged_rows
from ragbench.data.files.trec_files import read_qrels
from ragbench.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_UNREACHABLE
from ragbench.experiment.judge_qrels import (
    common_pairs,
    graded_pairs,
    lone_pairs,
    pairs_of,
    plan_grader,
    rated_qrels,
    read_passages,
    system_order,
    with_grades,
)
from ragbench.experiment.judge_set import SetJudge, SetVerdicts, judge_rows, plan_judges
from ragbench.llm import Estimate
from ragbench.records.certificate import SystemOrder
from ragbench.registry import check_allowed
from ragbench.report.preferred import pairs_report
from ragbench.types import Qrels
from ragbench.types.display import counted
from ragbench.types.lookups import item_names

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
        seed: Seed of the draw; None is that of the config, or the default seed.
        scale: Scale of the labels; None: that of the rubric, or 0..1 for predictions.
        target: Files and format of the certificate.
        retry_failed: Ask again for rows whose verdict failed.
        judge_good: Smallest score of the judge that passes beside labels of two levels.
        by: Column of groups; empty means that of the form, if the rows have it.
        options: `good` and `confidence` of `Calibration`.
    """

    files: Sequence[Path]
    columns: Mapping[str, Sequence[str]]
    target: Target
    retry_failed: bool = False
    rubrics: Sequence[str] = ()
    limit: int | None = None
    seed: int | None = None
    scale: LabelScale | None = None
    judge_good: float | None = None
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
        labels = []
        for row in rows.rows:
            value = row.entry.values.get(column)
            labels.append("" if value is None else str(value).strip())
        numbers = Counter(labels)
        n_empty = numbers.pop("", 0)
        counts = []
        for label, n in sorted(numbers.items()):
            counts.append(f"{n:,} {label}")
        if n_empty:
            counts.append(f"{n_empty:,} without a label")
        if len(counts) <= 6:
            text += f"; {', '.join(counts)}"
    return text


def with_seed_of(config: Path, request: SetRequest) -> SetRequest:
    """Return a request for predictions with the seed of a config, whose judges are not asked.

    Raises:
        ConfigError: The config has problems.
    """
    seed = load_judges(config).seed
    output.write_notes([f"the predictions are those of the file: no judge of {config} is asked"])
    return replace(request, seed=seed if request.seed is None else request.seed)


def certify_set(
    config: Path, request: SetRequest, overrides: Sequence[str], *, only_plan: bool
) -> int:
    """Judge a published set by the judges of a config, and write the certificate.

    Calls and cost are printed before anything is asked; with `only_plan`, nothing is asked. The
    result is the exit code: 3 if more verdicts failed than `max_failed` allows, 7 if no server
    could be reached.

    Raises:
        ConfigError: The config has problems, or a key is missing.
        OptionError: A rubric or part of a column is unknown.
        DataError: The set cannot be read, or no rubric can judge it.
        UsageError: An option is not for a set of this form.
        AdapterError: Code of the user fails.
        MissingExtra: A judge needs a package that is not installed.
    """
    settings = load_judges(config, overrides)
    files = sort_trec_files(request.files)
    fill, labels = None, dict[str, Labels]()
    if files is None:
        rows = request.read_rows(settings.seed)
        judges = plan_judges(settings, rows, request.rubrics)
        if rows.are_pairs:
            _refuse_for_pairs(request)
        else:
            labels = _read_labels(judges, rows, request)
    else:
        rows = _read_passages(settings, files, request)
        judge, fill = plan_grader(settings, rows)
        judges = [judge]
    for line in _plan_lines(settings, judges, rows):
        output.echo(line, err=True)
    if only_plan:
        return EXIT_OK
    verdicts = _ask(settings, judges, rows, retry_failed=request.retry_failed)
    run = verdicts.run
    if not any(score.scores for score in run.scores.values()):
        output.echo(f"not one row was judged; {verdicts.advice}", err=True)
    elif files is not None and fill is not None:
        run = with_grades(run, fill)
        judge_qrels = graded_pairs(rows, next(iter(run.scores.values())), fill.top_grade)
        scale = LabelScale(0, fill.top_grade)
        _write_grades(run, judge_qrels, rows, files, scale, request, is_part=True)
    elif rows.are_pairs:
        certificate = certify_pairs(run, **request.options)
        write_record("certificate", certificate, pairs_report, (), request.target)
    else:
        _write(run, labels, rows, request)
    # replies are stored, so that the same command asks about the rest alone
    if verdicts.failed.total() <= settings.max_failed * verdicts.n_verdicts:
        return EXIT_OK
    return EXIT_UNREACHABLE if verdicts.is_unreachable else EXIT_INCOMPLETE


def _read_labels(
    judges: Sequence[SetJudge], rows: JudgedSet, request: SetRequest
) -> dict[str, Labels]:
    """Return rubric -> labels of a set; a wrong label, --by or --good costs no verdict."""
    if request.by:
        groups_of_rows(rows, request.by)
    rubrics = {}
    for judge in judges:
        for rubric in judge.rubrics:
            rubrics[rubric.name] = rubric
    for rubric in rubrics.values():
        if "good" in request.options:
            scale = request.scale or LabelScale.of_rubric(rubric)
            check_good(request.options["good"], scale)
    labels = {}
    for name, of in rubrics.items():
        labels[name] = labels_of_rows(rows, of, request.scale)
    return labels


def _ask(
    settings: ExperimentConfig,
    judges: Sequence[SetJudge],
    rows: JudgedSet,
    *,
    retry_failed: bool,
) -> SetVerdicts:
    """Return the verdicts of the judges, and print their calls and failures."""
    with (
        output.resumable(),
        output.stage("judge", len(rows.rows) * len(judges), rows.unit) as stage,
    ):
        verdicts = judge_rows(settings, judges, rows, stage.advance, retry_failed=retry_failed)
    calls = verdicts.totals.items()
    output.write_notes([f"judge {name}: {output.spent(of)}" for name, of in calls])
    unscored: Counter[str] = Counter()
    for score in verdicts.run.scores.values():
        unscored.update(score.unscored.values())
    if unscored:
        causes = ", ".join(f"{cause} {number}" for cause, number in unscored.most_common())
        note = f"{counted(unscored.total(), 'verdicts')} without a score: {causes}"
        output.write_notes(["; ".join(filter(None, (note, verdicts.advice)))])
    return verdicts


def _read_passages(settings: ExperimentConfig, files: TrecFiles, request: SetRequest) -> JudgedSet:
    """Return the judged passages of qrels, and print how many have no text."""
    output.refuse(
        (request.columns, "--column is for tables, not for qrels"),
        (request.judge_good is not None, "--judge-good is for labels of answers, not for pairs"),
        (request.by, "--by is for tables, not for qrels"),
        (request.rubrics, "--rubric: metrics.retrieval.fill names the rubric that grades passages"),
    )
    rows, n_without = read_passages(settings, files.qrels[0])
    if n_without:
        note = "left out: the data set has no question or no text of them"
        output.write_notes([f"{counted(n_without, 'judged passages')} {note}"])
    return request.draw(rows, settings.seed)


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
    rows = request.draw(rows, DEFAULT_SEED)
    judge = read_qrels(ratings)
    run, scale = rated_qrels(rows, judge, ratings, rubric=rubric, model=model)
    is_part = request.limit is not None
    _write_grades(run, judge, rows, files, scale, request, is_part=is_part)


def _write_grades(
    run: JudgedRun,
    judge: Qrels,
    rows: JudgedSet,
    files: TrecFiles,
    scale: LabelScale,
    request: SetRequest,
    *,
    is_part: bool,
) -> None:
    """Certify the grades of a judge, with the order of systems, and write the certificate."""
    people, order = read_qrels(files.qrels[0]), None
    # a draw, or the passages with a text: systems are scored under the rows that both have graded
    if is_part:
        people, judge = pairs_of(rows, people), pairs_of(rows, judge)
    lone = zip(("people", "the judge"), lone_pairs(people, judge), strict=True)
    if texts := [f"{counted(n, 'rows')} of {side} alone" for side, n in lone if n]:
        output.write_notes([f"{', '.join(texts)}: left out of the agreement"])
    if is_part:
        people, judge = common_pairs(people, judge)
    if files.runs:
        confidence = request.options.get("confidence", 0.95)
        order = system_order(people, judge, files.runs, confidence)
    name = next(iter(run.scores.values())).rubric.name
    labels = {name: labels_of_rows(rows, None, scale)}
    _write(run, labels, rows, replace(request, scale=scale), order)


def _refuse_for_pairs(request: SetRequest) -> None:
    """Raise a UsageError for options of sets with labels of answers."""
    output.refuse(
        ("good" in request.options, "--good is for labels of answers, not for pairs"),
        (request.judge_good is not None, "--judge-good is for labels of answers, not for pairs"),
        (request.by, "--by is for labels of answers, not for pairs"),
        (request.scale, "--scale is for labels of answers, not for pairs"),
        (request.target.disagreements, "--disagreements is for labels of answers, not for pairs"),
        (JUDGE in request.columns, "--column judge= is for labels of answers, not for pairs"),
    )


def _plan_lines(
    config: ExperimentConfig, judges: Sequence[SetJudge], rows: JudgedSet
) -> Iterator[str]:
    """Yield the calls and cost of each judge, and each budget that may not be enough."""
    for judge in judges:
        names = ", ".join(item_names(judge.rubrics))
        cost = "no calls" if judge.cost is None else output.estimated(judge.cost)
        yield f"plan: {judge.name} judges {counted(len(rows.rows), rows.unit)} by {names}: {cost}"
        for reason, rubrics in judge.skipped.items():
            yield f"note: {judge.name} does not apply {', '.join(rubrics)}: {reason}"
        blind = []
        for rubric in judge.rubrics:
            if "contexts" not in rubric.needs:
                blind.append(rubric.name)
        if blind and rows.are_pairs and rows.rows[0].contexts:
            advice = "a rubric with needs: [question, contexts, answer, other] does"
            yield f"note: {', '.join(blind)} does not read the passages of the pairs; {advice}"
    costs = []
    for judge in judges:
        if judge.cost is not None:
            costs.append(judge.cost)
    yield from output.short_budgets(config.budget, sum(costs, start=Estimate()))


def certify_predictions(request: SetRequest, judge_scale: LabelScale | None, model: str) -> None:
    """Compare predictions that a published set holds with its labels; no model is called.

    Raises:
        OptionError: A part of a column is unknown.
        DataError: The set cannot be read, or a label or prediction is none of its scale.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    rows = request.read_rows(DEFAULT_SEED)
    if rows.are_pairs:
        _refuse_for_pairs(request)
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
    scores = with_passing_score(run.scores, request.judge_good, scale)
    certificate = certify(run, scores, labels, calibration)
    if order is not None:
        rubrics = {}
        for name, rubric in certificate.rubrics.items():
            rubrics[name] = structs.replace(rubric, systems=order)
        certificate = structs.replace(certificate, rubrics=rubrics)
    disagreements = find_disagreements(run, scores, labels, scale)
    write_certificate(certificate, disagreements, (), request.target)
