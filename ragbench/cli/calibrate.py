"""`ragbench calibrate RUN`: a sheet for people to label, and what their labels say of a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragbench.calibration.sheet import Question
    from ragbench.calibration.verdicts import JudgedRun

_OF_DRAWING = {"systems": "--system", "unit": "--unit", "seed": "--seed"}
_OF_LABELS = {
    "scale": "--scale",
    "good": "--good",
    "columns": "--column",
    "random": "--random",
    "retest": "--retest",
    "confidence": "--confidence",
    "as_json": "--json",
}
"""Parameters that mean nothing for the other of the two uses."""


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
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the sheet or the certificate goes; without it a sheet goes to standard output.",
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
    output: Path | None,
    rubrics: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare the judge of a finished RUN with people.

    `--draw 100 -o sheet.csv` writes a sheet of answers without system and score, in random order.
    People fill its column `label`; for several raters, make copies. `--labels sheet.csv -o
    judge.json` then prints how well the judge agrees with them, and writes the certificate.
    """
    given = {name: value for name, value in options.items() if value not in (None, (), False)}
    if (n is None) == (not labels):
        raise click.UsageError("either --draw N or --labels FILE: draw first, label, then compare")
    strange = _OF_LABELS if n is not None else _OF_DRAWING
    for name in strange:
        if name in given:
            other = "--labels" if n is not None else "--draw"
            raise click.UsageError(f"{strange[name]} is for {other}")
    from ragbench.calibration.verdicts import read_judged_run

    judged = read_judged_run(run)
    if n is not None:
        _draw(judged, n, output, rubrics, **given)
    else:
        _certify(judged, labels, output, rubrics, **given)


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
    rows = sheet_rows(run, draws.values(), _questions(run))
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


def _questions(run: JudgedRun) -> Mapping[str, Question]:
    """Read questions and gold answers of the run's data set, which must be what it was."""
    from ragbench.calibration.sheet import Question
    from ragbench.config import load_config
    from ragbench.errors import DataError
    from ragbench.experiment.load import load_collection

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


def _certify(
    run: JudgedRun,
    labels: Sequence[Path],
    output: Path | None,
    rubrics: Sequence[str],
    *,
    scale: str | None = None,
    columns: Sequence[str] = (),
    retest: Path | None = None,
    as_json: bool = False,
    **options: Any,
) -> None:
    """Compare, print, and write the certificate."""
    from ragbench.calibration.certificate import Calibration, certify
    from ragbench.calibration.labels import read_labels
    from ragbench.calibration.scale import Scale
    from ragbench.calibration.verdicts import read_judged_run
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
    certificate = certify(run, chosen, found, calibration)
    if output is not None:
        _write(output, to_json(certificate))
    write_result(to_json(certificate) if as_json else render_certificate(certificate))
    if output is not None:
        write_notes([f"certificate: {output}"])


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
