"""`ragbench calibrate --labels`, `--probe`: what people and a second question say of a judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.label_sheet import write_file

if TYPE_CHECKING:
    from ragbench.calibration.asking import Probe
    from ragbench.calibration.verdicts import JudgedRun

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
    from ragbench.calibration.labels import read_labels
    from ragbench.calibration.scale import Scale
    from ragbench.calibration.verdicts import read_judged_run
    from ragbench.cli.asking_judges import ask_judges
    from ragbench.cli.score_output import write_notes, write_result
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
    from ragbench.cli.asking_judges import ask_judges
    from ragbench.cli.score_output import write_notes, write_result
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
