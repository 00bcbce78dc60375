"""Sheets to label, certificates and probe results of `ragbench calibrate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import click

from ragbench.calibration import sheet
from ragbench.calibration.certificate import Calibration, certify, probe_report, with_passing_score
from ragbench.calibration.disagreements import (
    Disagreement,
    find_disagreements,
    find_flips,
    mark_flips,
)
from ragbench.calibration.draw import Draw, draw
from ragbench.calibration.earlier_agreement import ChangedAgreement, changed_agreements
from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.label_files import LabelTable, read_labels
from ragbench.calibration.label_scale import LabelScale
from ragbench.calibration.labels import Labels
from ragbench.calibration.metadata_labels import METADATA, answer_groups, metadata_labels
from ragbench.calibration.probes import POSITION, probe_position, sample_answers
from ragbench.calibration.rating_tables import read_ratings
from ragbench.cli.output import (
    parse_pairs,
    resumable,
    screen,
    stage,
    write_json,
    write_notes,
    write_report,
    write_result,
)
from ragbench.config.load import load_saved
from ragbench.data.runs.run_folder import read_record, to_csv, to_json
from ragbench.errors import DataError
from ragbench.experiment.plan.components import build_judge, open_models
from ragbench.experiment.plan.plan import load_collection
from ragbench.experiment.records import judge_totals
from ragbench.experiment.reproduce import check_trust
from ragbench.files import naming_unwritable, write_file
from ragbench.records import codec
from ragbench.records.certificate import (
    CERTIFICATE_SCHEMA,
    JudgeCertificate,
    PairCertificate,
    ProbeReport,
    ProbeResult,
    RequiredCertificate,
)
from ragbench.report.calibration import certificate_report, certificate_screen, probes_report
from ragbench.report.judge_sentences import (
    COLUMNS,
    certificate_change_lines,
    change_lines,
    disagreement_rows,
)
from ragbench.report.page.review import write_disagreement_page, write_label_page
from ragbench.report.table import TableReport
from ragbench.score.base import Advance
from ragbench.score.judge.base import Rubric
from ragbench.types import Collection
from ragbench.types.display import counted
from ragbench.types.lookups import group_by, index_by_id, index_by_name

Result = TypeVar("Result", JudgeCertificate, PairCertificate, ProbeReport)


@dataclass(frozen=True, slots=True)
class Target:
    """Files and format of a certificate.

    Attributes:
        output: File of the certificate; None writes none.
        form: Format of the result on stdout: `json`, or one of `report.formats`.
        disagreements: File of the answers on which judge and people disagree; None writes none.
        verbose: True prints all statistics.
    """

    output: Path | None = None
    form: str = "table"
    disagreements: Path | None = None
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """Options that drawing, certifying and probing share.

    Attributes:
        seed: Seed of the answers that are drawn, or of the sample that probes judge again.
        sample: Number of answers that a probe judges again.
        rubrics: Names of rubrics; empty means all rubrics of the judge.
        probes: True judges the sample again with the passages reversed.
        scale: Scale of the labels; None means the scale of each rubric.
        trusted: Addresses and variables that probes may send to and send; a run folder may name
            any.
        run: Judged run whose scores are compared.
        output: File to write; None writes none, and a sheet goes to stdout.
        confidence: Level of the intervals, such as 0.95.
        form: Format of the result: `json`, or one of `report.formats`.
        disagreements: File of the answers on which judge and people disagree; None writes none.
        verbose: True prints all statistics.
    """

    run: JudgedRun
    seed: int
    sample: int
    output: Path | None = None
    rubrics: Sequence[str] = ()
    probes: bool = False
    scale: LabelScale | None = None
    confidence: float = 0.95
    form: str = "table"
    trusted: Sequence[str] = ()
    disagreements: Path | None = None
    verbose: bool = False


def write_record(
    noun: str,
    record: Result,
    build: Callable[[Result], TableReport],
    notes: Sequence[str],
    target: Target,
) -> None:
    """Write a certificate or probe report to the file of the target, if any, and print it.

    Raises:
        DataError: The file cannot be written.
    """
    output, form = target.output, target.form
    text = to_json(codec.to_json(record))
    if output is not None:
        write_file(output, text)
        notes = [*notes, f"{noun}: {output}"]
    if form == "json":
        write_json(text)
    else:
        write_report(build(record), form)
    write_notes(notes)


def draw_sheet(request: Request, n: int, **options: Any) -> None:
    """Draw n answers per rubric at random, and write the sheet to label; .html is a page for it.

    A .json file is a list of rows, all other files are CSV; without a file, CSV goes to stdout.
    Notes on stderr count the rows. `options` are `unit`, `systems` and `where` of `draw`.

    Raises:
        UsageError: The file exists: it may hold labels.
        OptionError: The run lacks a rubric or a system, or n is below 1.
        DataError: The data set has changed since the run, or the sheet cannot be written.
        ConfigError: The config of the run folder is wrong.
        MissingExtra: The loader or a file needs a package that is not installed.
    """
    run, output = request.run, request.output
    if output is not None and output.exists():
        raise click.UsageError(f"{output} exists and may hold labels; choose a new file")
    draws = {}
    for score in run.select_scores(request.rubrics):
        if score.rubric.name not in draws:  # one sheet serves all judges of a rubric
            drawn = draw(run, score, n, seed=request.seed, **options)
            draws[score.rubric.name] = (drawn, score.rubric)
    rows = sheet.sheet_rows(_with_questions(run), draws.values())
    text = to_csv(sheet.COLUMNS, rows)
    if output is None:
        write_result(text, exact=True)
    elif output.suffix == ".html":
        scales = {}
        for name, (_, rubric) in draws.items():
            scales[name] = LabelScale.of_rubric(rubric)
        with naming_unwritable(output):
            write_label_page(output, rows, scales)
    elif output.suffix == ".json":
        write_file(output, to_json([dict(zip(sheet.COLUMNS, row, strict=True)) for row in rows]))
    else:
        write_file(output, text)
    write_notes([*_draw_notes(draws, n, request.seed, options.get("unit"))])
    texts = (cell for cell in chain.from_iterable(rows) if isinstance(cell, str))
    longest = max(map(len, texts))
    if longest > sheet.LONGEST_CELL:
        note = f"a cell has {longest} characters; spreadsheets cut cells at {sheet.LONGEST_CELL}"
        write_notes([note])


def _draw_notes(
    draws: Mapping[str, tuple[Draw, Rubric]], n: int, seed: int, unit: str | None
) -> Iterator[str]:
    """Yield the numbers of drawn rows, and the rubrics with fewer answers than n."""
    sizes = {name: len(drawn.keys) for name, (drawn, _) in draws.items()}
    counts = ", ".join(f"{size} of {name}" for name, size in sizes.items())
    yield f"{counted(sum(sizes.values()), 'rows')} to label: {counts}; seed {seed}"
    whole = []
    for name, (drawn, _) in draws.items():
        units = {query for _, query in drawn.keys} if unit == "query" else drawn.keys
        if len(units) < n:
            whole.append(f"{len(units)} of {name}")
    if whole:
        noun = "queries" if unit == "query" else "answers"
        yield f"{', '.join(whole)} in place of {n}: all {noun} that have a verdict"
    if equal := [name for name, (of, _) in draws.items() if {*of.strata.values()} == {0}]:
        note = f"{', '.join(equal)}: all answers are drawn with the same probability, since the "
        yield note + "scores of the judge promise no gain from drawing unsure ones more"


def certify_judge(
    request: Request,
    labels: Sequence[Path],
    *,
    columns: Sequence[str] = (),
    by: str = "",
    judge_good: float | None = None,
    **options: Any,
) -> None:
    """Compare the judge with the labels of people, print the result, and write the certificate.

    `columns` are texts RUBRIC=COLUMN, `by` is the column of groups, `judge_good` the smallest score
    that passes; `options` are `good` and `random` of `Calibration`.

    Raises:
        DataError: A file of labels has a mistake or no label, or the certificate cannot be written.
        OptionError: A rubric, also that of a column, is not in the run, or nothing has the column
            of groups.
        UsageError: A column has another form than NAME=COLUMN.

    With `probes`, also DataError, OptionError, MissingExtra and ConfigError of `_probe_judges`.
    """
    run = request.run
    chosen = index_by_name(run.select_scores(request.rubrics))
    scale = request.scale
    chosen = with_passing_score(chosen, judge_good, scale)
    label_columns = parse_pairs("--column", columns)
    sources = [_label_source(path, run) for path in labels]
    labels_by_rubric = read_labels(sources, run, list(chosen.values()), scale, label_columns, by)
    groups = answer_groups(run, labels_by_rubric, by, partial(_load_collection, run))
    calibration = Calibration(
        scale=scale, confidence=request.confidence, by=by, groups=groups, **options
    )
    notes: list[str] = []
    if request.probes:
        labelled = []
        for score in chosen.values():
            if score.rubric.name in labels_by_rubric:
                labelled.append(score)
        probe_results, notes = _probe_judges(request, labelled)
        calibration = replace(calibration, probes=probe_results)
    certificate = certify(run, chosen, labels_by_rubric, calibration)
    target = Target(request.output, request.form, request.disagreements, request.verbose)
    disagreements = find_disagreements(run, chosen, labels_by_rubric, scale)
    changes = _changes(request, chosen, labels_by_rubric)
    lines = _change_lines(request, changes, certificate)
    flips = find_flips(run, chosen, labels_by_rubric, changes, scale)
    write_certificate(certificate, mark_flips(disagreements, flips), notes, target, lines)


def write_certificate(
    certificate: JudgeCertificate,
    disagreements: Sequence[Disagreement],
    notes: Sequence[str],
    target: Target,
    changes: Sequence[str] = (),
) -> None:
    """Print a certificate with the largest disagreements, and write the files of the target."""
    path = target.disagreements
    if path is not None:
        if path.suffix == ".html":
            with naming_unwritable(path):
                write_disagreement_page(path, disagreements, certificate, changes)
        else:
            write_file(path, to_csv(COLUMNS, disagreement_rows(disagreements)))
        n_gained = sum(of.flip == "gained" for of in disagreements)
        text = counted(len(disagreements) - n_gained, "disagreements")
        gained = f" and {counted(n_gained, 'answers')} that came to agree" if n_gained else ""
        notes = [*notes, f"{text}{gained}: {path}"]
    terminal = screen()
    is_brief = terminal.is_terminal and target.form == "table" and not target.verbose

    def build(record: JudgeCertificate) -> TableReport:
        """Return the certificate as a report: on a terminal, one screen of it."""
        if is_brief:
            return certificate_screen(record, disagreements, changes, terminal)
        return certificate_report(record, disagreements, changes=changes, verbose=target.verbose)

    write_record("certificate", certificate, build, notes, target)


def _changes(
    request: Request, scores: Mapping[str, JudgedScore], labels: Mapping[str, Labels]
) -> list[ChangedAgreement]:
    """Return the changes of the judges since an earlier run; a damaged run is a note."""
    options: dict[str, Any] = {"scale": request.scale, "confidence": request.confidence}
    try:
        return [*changed_agreements(request.run, scores, labels, **options)]
    except DataError as error:
        # the agreement of this run needs no earlier one
        write_notes([f"no comparison with an earlier run: {error}"])
        return []


def _change_lines(
    request: Request, changes: Sequence[ChangedAgreement], certificate: JudgeCertificate
) -> list[str]:
    """Return lines on the changes of the judges; without changes, since the old certificate."""
    questions = {}
    for key, item in request.run.answers.items():
        questions[key] = item.question or ""
    lines: list[str] = []
    for change in changes:
        lines += change_lines(change, questions)
    file = request.output
    if lines or file is None or not file.is_file():
        return lines
    # any other file is replaced, unread
    if f'"{CERTIFICATE_SCHEMA}"' in file.read_text(encoding="utf-8", errors="replace"):
        earlier = read_record(file, RequiredCertificate)
        lines += certificate_change_lines(earlier, certificate, file.name)
    return lines


def _load_collection(run: JudgedRun) -> Collection:
    """Return the data set of a run, by the config in its folder."""
    return load_collection(load_saved(run.folder / "config.yaml", ()))


def _label_source(path: Path, run: JudgedRun) -> Path | LabelTable:
    """Return the label file, or the labels of the data set for `metadata.COLUMN`."""
    text = str(path)
    if path.exists():
        return path
    if not text.startswith(METADATA):
        allowed = f"a file of labels, or {METADATA}{path.stem} for a column of the data set"
        raise DataError("no such file", file=path, allowed=allowed)
    return metadata_labels(_load_collection(run), run, text.removeprefix(METADATA))


def certify_ratings(
    path: Path,
    target: Target,
    rubrics: Sequence[str],
    *,
    scale: LabelScale | None = None,
    judge_scale: LabelScale | None = None,
    model: str = "not named",
    columns: Sequence[str] = (),
    by: str = "",
    **options: Any,
) -> None:
    """Compare a judge with people by a table with the ratings of both, and write the certificate.

    `columns` are texts NAME=COLUMN with the parts of the table. `judge_scale` None is the scale of
    the labels, and `scale` None is 0..1 for words. `by` is the column of groups. `options` are
    `judge_good`, the smallest score that passes, and `good`, `confidence` and `random` of
    `Calibration`.

    Raises:
        UsageError: There are two rubrics, or a column has another form than NAME=COLUMN.
        DataError: The table cannot be read, lacks a column or has a wrong rating; or the
            certificate cannot be written.
        OptionError: `columns` names an unknown part of the table, or one column twice; or the table
            has no column `by`.
        MissingExtra: A Parquet file without the extra `parquet`.
    """
    if len(rubrics) > 1:
        raise click.UsageError("--ratings has one rubric; pass --rubric once")
    rubric = rubrics[0] if rubrics else None
    run, labels = read_ratings(
        path,
        scale,
        judge_scale,
        columns=parse_pairs("--column", columns),
        rubric=rubric,
        model=model,
        by=by,
    )
    scale = scale or LabelScale(0, 1)
    groups = answer_groups(run, labels, by)
    scores = with_passing_score(run.scores, options.pop("judge_good", None), scale)
    calibration = Calibration(scale=scale, by=by, groups=groups, **options)
    certificate = certify(run, scores, labels, calibration)
    disagreements = find_disagreements(run, scores, labels, scale)
    write_certificate(certificate, disagreements, (), target)


def probe_judge(request: Request) -> None:
    """Judge a sample with reversed passages, print the shift, and write it; needs no labels.

    Raises:
        DataError: The data set cannot be read or has changed since the run, or the file cannot be
            written.
        OptionError: The run lacks a rubric, or an address or variable of it is not trusted.
        AdapterError: The judge cannot be created.
        MissingExtra: The judge needs a package that is not installed.
        ConfigError: The config of the run cannot be read, the judge refuses an option, or its key
            is missing.
    """
    chosen = request.run.select_scores(request.rubrics)
    probe_results, notes = _probe_judges(request, chosen)
    report = probe_report(request.run, chosen, probe_results, confidence=request.confidence)
    write_record("probes", report, probes_report, notes, Target(request.output, request.form))


def _probe_judges(
    request: Request, scores: Sequence[JudgedScore]
) -> tuple[dict[str, dict[str, ProbeResult]], list[str]]:
    """Judge a sample of answers again; return score -> probe -> result, and a note per judge."""
    run, seed = _with_questions(request.run), request.seed
    of_judges = group_by(scores, lambda score: score.judge)
    judge_names = set(of_judges)
    config = load_saved(run.folder / "config.yaml", judge_names)
    judges = config.metrics.judges or {}
    check_trust(config, judge_names, request.trusted)
    results: dict[str, dict[str, ProbeResult]] = {}
    notes = []
    for name, judge_scores in of_judges.items():
        keys = sample_answers(judge_scores, request.sample, seed)
        planned = build_judge(judges[name])
        # the same texts that the judge read in the run
        items = {}
        for k in keys:
            items[k] = replace(run.answers[k], nuggets=planned.nuggets_of(k[1]))
        with resumable(), open_models({name: planned}):
            by_rubric = probe_position(
                planned.judge,
                [score.rubric for score in judge_scores],
                items,
                scale=request.scale,
                confidence=request.confidence,
                progress=partial(_progress_bar, name),
            )
            usage = judge_totals(planned)
        for score in judge_scores:
            results[score.name] = {POSITION: by_rubric[score.rubric.name]}
        note = f"judge {name} judged {counted(len(keys), 'answers')} again, seed {seed}"
        if usage.models:
            note += f"; {usage.calls} calls, {usage.stored} replies from the store"
        notes.append(note)
    return results, notes


@contextmanager
def _progress_bar(judge: str, total: int) -> Iterator[Advance]:
    """Show the progress of a judge; yield the function that adds a number of judged answers."""
    with stage(f"ask {judge} again", total, "answers") as progress:
        yield progress.advance


def _with_questions(run: JudgedRun) -> JudgedRun:
    """Return the run with the questions, earlier turns and gold answers of its data set."""
    collection = _load_collection(run)
    for part, words in (("queries", "questions"), ("answers", "gold answers")):
        if run.data.get(part) != collection.fingerprints.get(part):
            problem = f"the {words} of the data set are not those that were judged"
            allowed = "the data as they were, or a new run"
            raise DataError(problem, file=run.folder, allowed=allowed)
    queries = index_by_id(collection.queries)
    answers = {}
    for key, item in run.answers.items():
        query = queries.get(key[1])
        if query is not None:
            references = list(collection.answers.get(query.id, ()))
            answers[key] = replace(
                item,
                question=query.text,
                references=references,
                query_id=query.id,
                turns=query.turns,
            )
    return replace(run, answers=answers)
