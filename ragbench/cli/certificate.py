"""What `ragbench calibrate` does: sheets to label, certificates and probes of a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragbench.calibration.judged_run import JudgedRun, JudgedScore, Key
    from ragbench.calibration.probes import Probe
    from ragbench.calibration.scale import Scale
    from ragbench.calibration.sheet import Question
    from ragbench.experiment.records import PlannedJudge
    from ragbench.score.judge.base import Item


SAMPLE = 50
"""Answers that probes ask about again."""


def certify_judge(
    run: JudgedRun,
    labels: Sequence[Path],
    output: Path | None,
    rubrics: Sequence[str],
    *,
    scale: str | None = None,
    columns: Sequence[str] = (),
    retest: Path | None = None,
    probes: Sequence[Probe] = (),
    sample: int = SAMPLE,
    seed: int | None = None,
    as_json: bool = False,
    **options: Any,
) -> None:
    """Compare, print, and write the certificate."""
    from dataclasses import replace

    from ragbench.calibration.certificate import Calibration, certify
    from ragbench.calibration.judged_run import read_judged_run
    from ragbench.calibration.labels import read_labels
    from ragbench.calibration.scale import Scale
    from ragbench.cli.output import write_notes, write_result
    from ragbench.data.run_folder import to_json
    from ragbench.report.calibration import render_certificate

    chosen = {score.name: score for score in run.chosen(rubrics)}
    calibration = Calibration(
        scale=None if scale is None else Scale.parse(scale),
        again=None if retest is None else read_judged_run(retest),
        **options,
    )
    found = read_labels(labels, run, list(chosen.values()), calibration.scale, _columns(columns))
    notes: list[str] = []
    if probes:
        asked, notes = ask_judges(
            run,
            [score for score in chosen.values() if score.rubric.name in found],
            probes,
            n=sample,
            seed=run.seed if seed is None else seed,
            scale=calibration.scale,
            confidence=calibration.confidence,
        )
        calibration = replace(calibration, asked=asked)
    certificate = certify(run, chosen, found, calibration)
    if output is not None:
        write_file(output, to_json(certificate))
        notes.append(f"certificate: {output}")
    write_result(to_json(certificate) if as_json else render_certificate(certificate))
    write_notes(notes)


def probe_judge(
    run: JudgedRun,
    probes: Sequence[Probe],
    output: Path | None,
    rubrics: Sequence[str],
    *,
    sample: int = SAMPLE,
    seed: int | None = None,
    scale: str | None = None,
    confidence: float = 0.95,
    as_json: bool = False,
) -> None:
    """Ask again, print, and write what was found, without people."""
    from ragbench.calibration.certificate import probe_report
    from ragbench.calibration.scale import Scale
    from ragbench.cli.output import write_notes, write_result
    from ragbench.data.run_folder import to_json
    from ragbench.report.calibration import render_probes

    chosen = run.chosen(rubrics)
    known = None if scale is None else Scale.parse(scale)
    seed = run.seed if seed is None else seed
    asked, notes = ask_judges(
        run, chosen, probes, n=sample, seed=seed, scale=known, confidence=confidence
    )
    report = probe_report(run, chosen, asked, scale=known, confidence=confidence)
    if output is not None:
        write_file(output, to_json(report))
        notes.append(f"probes: {output}")
    write_result(to_json(report) if as_json else render_probes(report))
    write_notes(notes)


def _columns(pairs: Sequence[str]) -> dict[str, list[str]]:
    """Read RUBRIC=COLUMN options."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        rubric, equals, column = pair.partition("=")
        if not (rubric and equals and column):
            raise click.UsageError(f"--column {pair}: expected RUBRIC=COLUMN")
        found.setdefault(rubric, []).append(column)
    return found


def ask_judges(
    run: JudgedRun,
    scores: Sequence[JudgedScore],
    probes: Sequence[Probe],
    *,
    n: int,
    seed: int,
    scale: Scale | None = None,
    confidence: float = 0.95,
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Ask each judge, as the run's config has it, about a sample of its answers.

    Returns:
        Score -> probe -> what came out, and notes on what was sent.

    Raises:
        ConfigError: A judge lacks its key or model.
        DataError: The data set is not what it was, or another model answers now.
    """
    from ragbench.calibration.probes import ask_again, sample_answers
    from ragbench.experiment.stages.judging import connected, totals_of
    from ragbench.files import cache_folder

    questions = read_questions(run)
    found: dict[str, dict[str, Any]] = {}
    notes = []
    for name in dict.fromkeys(score.judge for score in scores):
        own = [score for score in scores if score.judge == name]
        keys = sample_answers(own, n, seed)
        planned = _planned(run, name, own)
        with connected({name: planned}, cache_folder(), replay=False):
            asked = ask_again(
                planned.judge,
                [score.rubric for score in own],
                {key: _item(run, key, questions[key[1]]) for key in keys},
                probes,
                scale=scale,
                confidence=confidence,
            )
            sent = totals_of(planned)
        found |= {score.name: asked[score.rubric.name] for score in own}
        what = f"{len(keys)} answers, seed {seed}"
        calls = f"; {sent.calls} calls, {sent.stored} replies from the store" if sent.models else ""
        notes.append(f"judge {name} asked again about {what}{calls}")
    return found, notes


def _planned(run: JudgedRun, name: str, scores: Sequence[JudgedScore]) -> PlannedJudge:
    """The judge as the run's own config has it."""
    from ragbench.config.load import load_config
    from ragbench.experiment.plan.components import build_judge

    judges = load_config(run.folder / "config.yaml").metrics.judges or {}
    return build_judge(judges.get(name), [score.rubric.name for score in scores])


def _item(run: JudgedRun, key: Key, question: Question) -> Item:
    """What the judge was shown."""
    from ragbench.score.judge.base import Item

    judged = run.answers[key]
    return Item(
        question=question.text,
        answer=judged.answer,
        contexts=list(judged.contexts) or None,
        references=list(question.references),
        query_id=key[1],
        queries=list(judged.queries) or None,
    )


def draw_sheet(
    run: JudgedRun,
    n: int,
    output: Path | None,
    rubrics: Sequence[str],
    *,
    systems: Sequence[str] = (),
    unit: Any = "answer",
    seed: int | None = None,
) -> None:
    """Draw per rubric, and write the sheet."""
    from ragbench.calibration.sheet import COLUMNS, LONGEST_CELL, draw, sheet_rows
    from ragbench.cli.output import write_notes, write_result
    from ragbench.data.run_folder import to_csv

    if output is not None and output.exists():
        raise click.UsageError(f"{output} exists: a new sheet would replace its labels")
    seed = run.seed if seed is None else seed
    draws = {}
    for score in run.chosen(rubrics):
        if score.rubric.name not in draws:  # one sheet serves all judges of a rubric
            drawn = draw(run, score, n, seed=seed, unit=unit, systems=systems)
            draws[score.rubric.name] = (drawn, score.rubric)
    rows = sheet_rows(run, draws.values(), read_questions(run))
    text = to_csv(COLUMNS, rows)
    if output is None:
        write_result(text)
    else:
        write_file(output, text)
    counts = ", ".join(f"{len(drawn.keys)} of {name}" for name, (drawn, _) in draws.items())
    write_notes([f"{len(rows)} rows to label: {counts}; seed {seed}"])
    longest = max(len(cell) for row in rows for cell in row if isinstance(cell, str))
    if longest > LONGEST_CELL:
        write_notes(
            [f"spreadsheets cut cells at {LONGEST_CELL} characters; one here has {longest}"]
        )


def write_file(path: Path, text: str) -> None:
    """Write a file, or say why it cannot be written.

    Raises:
        DataError: It cannot be written.
    """
    from ragbench.errors import DataError
    from ragbench.files import write_atomically

    try:
        write_atomically(path, text)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error


def read_questions(run: JudgedRun) -> Mapping[str, Question]:
    """Read questions and gold answers of the run's data set, by query id.

    Raises:
        DataError: The data set is not what it was.
    """
    from ragbench.calibration.sheet import Question
    from ragbench.config.load import load_config
    from ragbench.errors import DataError
    from ragbench.experiment.plan.plan import load_collection

    collection = load_collection(load_config(run.folder / "config.yaml"))
    for part in ("queries", "answers"):
        then, now = run.data.get(part), collection.fingerprints.get(part)
        if then != now:
            raise DataError(
                f"the {part} are no longer those of the run: fingerprint {then} then, {now} now",
                file=run.folder / "config.yaml",
                allowed="the data as they were, or a new run",
            )
    return {
        query.id: Question(query.text, collection.answers.get(query.id, ()))
        for query in collection.queries
    }
