"""`ragbench calibrate RUN`: a sheet for people to label, and what their labels say of a judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragbench.calibration.asking import Probe
    from ragbench.calibration.verdicts import JudgedRun

_USES = {
    "systems": ("--system", {"--draw"}),
    "unit": ("--unit", {"--draw"}),
    "seed": ("--seed", {"--draw", "--probe"}),
    "sample": ("--sample", {"--probe"}),
    "scale": ("--scale", {"--labels", "--probe"}),
    "confidence": ("--confidence", {"--labels", "--probe"}),
    "as_json": ("--json", {"--labels", "--probe"}),
    "good": ("--good", {"--labels"}),
    "columns": ("--column", {"--labels"}),
    "random": ("--random", {"--labels"}),
    "retest": ("--retest", {"--labels"}),
}
"""Parameters that mean nothing for some of the uses: their option, and what they are for."""
_SAMPLE = 50


@click.command(name="calibrate")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--draw",
    "n",
    type=int,
    metavar="N",
    help="Draw N answers (--unit: or queries) per rubric at random; write a sheet for people.",
)
@click.option(
    "--labels",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A labelled sheet, or ratings by query_id and system; repeatable, one per rater.",
)
@click.option(
    "--probe",
    "probes",
    multiple=True,
    type=click.Choice(["position", "authority", "injection"]),
    help="Ask the run's judge again with the passages reversed, an appeal to experts, an order to "
    "the judge; repeatable. With --labels it goes into the certificate.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Ask again about N answers, drawn at random; default {_SAMPLE}.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the sheet, the certificate or what the probes found goes; without it a sheet goes "
    "to standard output.",
)
@click.option(
    "--rubric",
    "rubrics",
    multiple=True,
    metavar="NAME",
    help="Only this rubric; repeatable. Default: all that the judge applied.",
)
@click.option(
    "--system", "systems", multiple=True, metavar="NAME", help="Draw from this one; repeatable."
)
@click.option(
    "--unit",
    type=click.Choice(["answer", "query"]),
    help="Draw single answers (default), or queries with the answers of all systems.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Equal seeds draw the same; default: the seed of the run.",
)
@click.option(
    "--scale",
    metavar="LOW..HIGH",
    help="The scale of the labels, the worst first: 1..5, 0..1. Default: the rubric's levels; 0..1 "
    "where it judges claims.",
)
@click.option(
    "--good",
    type=float,
    metavar="LABEL",
    help="The label from which an answer is good, for AUC. Default: beyond the middle.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="RUBRIC=COLUMN",
    help="Where a file of your own has the labels of a rubric; repeatable, one per rater.",
)
@click.option(
    "--random",
    is_flag=True,
    help="You vouch that the labelled answers of your own file were drawn at random.",
)
@click.option(
    "--retest",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="A second run of the same judge, for the rate of flips.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Coverage of the intervals; default 0.95.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the certificate instead of the tables."
)
def command(
    run: Path,
    n: int | None,
    labels: tuple[Path, ...],
    probes: tuple[Probe, ...],
    output: Path | None,
    rubrics: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare the judge of a finished RUN with people, and probe it.

    `--draw 100 -o sheet.csv` writes a sheet of answers without system and score, in random order.
    People fill its column `label`; for several raters, make copies. `--labels sheet.csv -o
    judge.json` then prints how well the judge agrees with them, and writes the certificate.
    `--probe injection` asks the judge again, and says what sways it; it needs no labels.
    """
    given = {name: value for name, value in options.items() if value not in (None, (), False)}
    if (n is not None) + bool(labels or probes) != 1:
        raise click.UsageError(
            "either --draw N or --labels FILE (--probe NAME beside it, or alone): draw first, "
            "label, then compare"
        )
    uses = {"--draw": n is not None, "--labels": bool(labels), "--probe": bool(probes)}
    for name in given:
        option, meant_for = _USES[name]
        if not any(uses[use] for use in meant_for):
            raise click.UsageError(f"{option} is for {' and '.join(sorted(meant_for))}")
    from ragbench.calibration.verdicts import read_judged_run

    judged = read_judged_run(run)
    if n is not None:
        _draw(judged, n, output, rubrics, **given)
    elif labels:
        _certify(judged, labels, output, rubrics, probes=probes, **given)
    else:
        _probe(judged, probes, output, rubrics, **given)


def _draw(
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
    from ragbench.calibration.draw import draw
    from ragbench.calibration.sheet import COLUMNS, LONGEST_CELL, sheet_rows
    from ragbench.cli.run_questions import read_questions
    from ragbench.cli.score_output import write_notes, write_result
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
        _write(output, text)
    counts = ", ".join(f"{len(drawn.keys)} of {name}" for name, (drawn, _) in draws.items())
    write_notes([f"{len(rows)} rows to label: {counts}; seed {seed}"])
    longest = max(len(cell) for row in rows for cell in row if isinstance(cell, str))
    if longest > LONGEST_CELL:
        write_notes(
            [f"spreadsheets cut cells at {LONGEST_CELL} characters; one here has {longest}"]
        )


def _certify(
    run: JudgedRun,
    labels: Sequence[Path],
    output: Path | None,
    rubrics: Sequence[str],
    *,
    scale: str | None = None,
    columns: Sequence[str] = (),
    retest: Path | None = None,
    probes: Sequence[Probe] = (),
    sample: int = _SAMPLE,
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
        _write(output, to_json(certificate))
        notes.append(f"certificate: {output}")
    write_result(to_json(certificate) if as_json else render_certificate(certificate))
    write_notes(notes)


def _probe(
    run: JudgedRun,
    probes: Sequence[Probe],
    output: Path | None,
    rubrics: Sequence[str],
    *,
    sample: int = _SAMPLE,
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
        _write(output, to_json(report))
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


def _write(path: Path, text: str) -> None:
    from ragbench.errors import DataError
    from ragbench.files import write_atomically

    try:
        write_atomically(path, text)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", file=path) from error
