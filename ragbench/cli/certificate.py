"""Write the sheets to label, certificates and probe results of `ragbench calibrate`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from ragbench.calibration.certificate import Calibration, certify, probe_report
from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.labels import read_labels, read_ratings
from ragbench.calibration.probes import POSITION, probe_position, sample_answers
from ragbench.calibration.sheet import (
    COLUMNS,
    LONGEST_CELL,
    LabelScale,
    Question,
    Unit,
    draw,
    sheet_rows,
)
from ragbench.cli.output import behind, resumable, write_json, write_notes, write_result
from ragbench.config.load import load_saved
from ragbench.data.runs.run_folder import to_csv, to_json
from ragbench.errors import DataError
from ragbench.experiment.plan.components import build_judge, connected
from ragbench.experiment.plan.plan import load_collection
from ragbench.experiment.records import judge_totals
from ragbench.experiment.reproduce import check_trust
from ragbench.files import write_file
from ragbench.records import codec
from ragbench.records.certificate import JudgeCertificate, ProbeFound, ProbeReport
from ragbench.report.calibration import render_certificate, render_probes
from ragbench.report.progress import Progress
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem

Found = TypeVar("Found", JudgeCertificate, ProbeReport)


@dataclass(frozen=True, slots=True)
class Request:
    """The options that the uses of the command share.

    `sample` answers are judged again by `probes`, with the passages reversed.

    Attributes:
        scale: The scale of the labels; None is that of each rubric.
        trusted: Addresses to which probes may send: a run folder is data, and names any.
    """

    run: JudgedRun
    seed: int
    sample: int
    output: Path | None = None
    rubrics: Sequence[str] = ()
    probes: bool = False
    scale: LabelScale | None = None
    confidence: float = 0.95
    as_json: bool = False
    trusted: Sequence[str] = ()


def _write(
    what: str,
    record: Found,
    render: Callable[[Found], str],
    notes: Sequence[str],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    text = to_json(codec.to_json(record))
    if output is not None:
        write_file(output, text)
        notes = [*notes, f"{what}: {output}"]
    if as_json:
        write_json(text)
    else:
        write_result(render(record))
    write_notes(notes)


def draw_sheet(
    request: Request, n: int, *, systems: Sequence[str] = (), unit: Unit = "answer"
) -> None:
    """Draw n answers per rubric at random, and write the sheet for people."""
    run, output = request.run, request.output
    if output is not None and output.exists():
        raise click.UsageError(f"{output} exists: a new sheet would replace its labels")
    draws = {}
    for score in run.chosen(request.rubrics):
        if score.rubric.name not in draws:  # one sheet serves all judges of a rubric
            drawn = draw(run, score, n, seed=request.seed, unit=unit, systems=systems)
            draws[score.rubric.name] = (drawn, score.rubric)
    rows = sheet_rows(run, draws.values(), _read_questions(run))
    text = to_csv(COLUMNS, rows)
    if output is None:
        write_result(text, exact=True)
    else:
        write_file(output, text)
    counts = ", ".join(f"{len(drawn.keys)} of {name}" for name, (drawn, _) in draws.items())
    write_notes([f"{len(rows)} rows to label: {counts}; seed {request.seed}"])
    longest = max(len(cell) for row in rows for cell in row if isinstance(cell, str))
    if longest > LONGEST_CELL:
        told = f"spreadsheets cut cells at {LONGEST_CELL} characters; one here has {longest}"
        write_notes([told])


def certify_judge(
    request: Request,
    labels: Sequence[Path],
    *,
    columns: Sequence[str] = (),
    **options: Any,
) -> None:
    """Compare the judge with people, print the result, and write the certificate."""
    run = request.run
    chosen = {score.name: score for score in run.chosen(request.rubrics)}
    scale = request.scale
    calibration = Calibration(scale=scale, confidence=request.confidence, **options)
    found = read_labels(labels, run, list(chosen.values()), scale, _by_name(columns))
    notes: list[str] = []
    if request.probes:
        labelled = [score for score in chosen.values() if score.rubric.name in found]
        asked, notes = _ask_judges(request, labelled)
        calibration = replace(calibration, asked=asked)
    certificate = certify(run, chosen, found, calibration)
    output, as_json = request.output, request.as_json
    _write("certificate", certificate, render_certificate, notes, output, as_json=as_json)


def certify_ratings(
    path: Path,
    output: Path | None,
    rubrics: Sequence[str],
    *,
    scale: LabelScale | None = None,
    judge_scale: LabelScale | None = None,
    model: str = "not named",
    columns: Sequence[str] = (),
    as_json: bool = False,
    **options: Any,
) -> None:
    """Compare a judge with people by one table that has the ratings of both."""
    if scale is None:
        raise click.UsageError("--ratings needs the scale of its labels, such as --scale 1..5")
    if len(rubrics) > 1:
        raise click.UsageError("--ratings is of one rubric: --rubric once, the name of its score")
    rubric = rubrics[0] if rubrics else None
    run, labels = read_ratings(
        path, scale, judge_scale, columns=_by_name(columns), rubric=rubric, model=model
    )
    certificate = certify(run, run.scores, labels, Calibration(scale=scale, **options))
    _write("certificate", certificate, render_certificate, (), output, as_json=as_json)


def probe_judge(request: Request) -> None:
    """Ask the judge with reversed passages, print the result, and write it; no labels needed."""
    chosen = request.run.chosen(request.rubrics)
    asked, notes = _ask_judges(request, chosen)
    report = probe_report(request.run, chosen, asked, confidence=request.confidence)
    _write("probes", report, render_probes, notes, request.output, as_json=request.as_json)


def _by_name(pairs: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, column = pair.partition("=")
        if not (name and equals and column):
            raise click.UsageError(f"--column {pair}: expected NAME=COLUMN")
        found.setdefault(name, []).append(column)
    return found


def _ask_judges(
    request: Request, scores: Sequence[JudgedScore]
) -> tuple[dict[str, dict[str, ProbeFound]], list[str]]:
    """Judge a sample again as the run's config says; return score -> probe -> result, and notes."""
    run, seed = request.run, request.seed
    questions = _read_questions(run)
    asked_judges = {score.judge for score in scores}
    config = load_saved(run.folder / "config.yaml", asked_judges)
    judges = config.metrics.judges or {}
    check_trust(config, asked_judges, request.trusted)
    found: dict[str, dict[str, ProbeFound]] = {}
    notes = []
    for name in dict.fromkeys(score.judge for score in scores):
        own = [score for score in scores if score.judge == name]
        keys = sample_answers(own, request.sample, seed)
        planned = build_judge(judges[name])
        items = {
            key: JudgedItem(  # what the judge was shown
                question=questions[key[1]].text,
                answer=run.answers[key].answer,
                contexts=list(run.answers[key].contexts) or None,
                references=list(questions[key[1]].references),
                query_id=key[1],
                queries=list(run.answers[key].queries) or None,
                nuggets=planned.nuggets_of(key[1]),
                turns=questions[key[1]].turns,
                tool_calls=run.answers[key].tool_calls,
            )
            for key in keys
        }
        with resumable(), connected({name: planned}):
            asked = probe_position(
                planned.judge,
                [score.rubric for score in own],
                items,
                scale=request.scale,
                confidence=request.confidence,
                shown=partial(_shown, name),
            )
            sent = judge_totals(planned)
        found |= {score.name: {POSITION: asked[score.rubric.name]} for score in own}
        what = f"{len(keys)} answers, seed {seed}"
        calls = f"; {sent.calls} calls, {sent.stored} replies from the store" if sent.models else ""
        notes.append(f"judge {name} asked again about {what}{calls}")
    return found, notes


@contextmanager
def _shown(judge: str, total: int) -> Iterator[Advance]:
    """Show how many answers were judged again."""
    bars = Progress(brief=not sys.stderr.isatty(), stream=behind(sys.stderr))
    with bars.stage(f"ask {judge} again", total, "answers") as stage:
        yield stage.advance


def _read_questions(run: JudgedRun) -> Mapping[str, Question]:
    """Read questions and gold answers of the run's data set, by query id."""
    collection = load_collection(load_saved(run.folder / "config.yaml", ()))
    for part in ("queries", "answers"):
        then, now = run.data.get(part), collection.fingerprints.get(part)
        if then != now:
            found = f"the {part} are no longer those of the run: fingerprint {then} then, {now} now"
            allowed, file = "the data as they were, or a new run", run.folder / "config.yaml"
            raise DataError(found, file=file, allowed=allowed)
    return {
        query.id: Question(query.text, collection.answers.get(query.id, ()), query.turns)
        for query in collection.queries
    }
