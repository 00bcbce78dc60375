"""`ragbench calibrate --draw`: a sheet of judged answers for people to label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragbench.calibration.verdicts import JudgedRun


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
