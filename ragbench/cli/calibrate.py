"""`ragbench calibrate RUN`: a sheet to label, and a comparison of the judge with the labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.output import confidence_type

if TYPE_CHECKING:
    from ragbench.calibration.probes import Probe

_SAMPLE = 50  # answers that probes ask about again
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


@click.command(name="calibrate")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--draw",
    "n",
    type=int,
    metavar="N",
    help="Draw N answers per rubric at random (--unit: or queries); write a sheet to label.",
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
    help="Ask the judge again with reversed passages, an appeal to experts, or an instruction to "
    "the judge; repeatable. With --labels the result goes into the certificate.",
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
    help="The file for the sheet, the certificate or the results of probes; without it a sheet "
    "goes to standard output.",
)
@click.option(
    "--rubric",
    "rubrics",
    multiple=True,
    metavar="NAME",
    help="Only this rubric; repeatable. Default: all rubrics of the judge.",
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
    help="Equal seeds draw the same answers; default: the seed of the run.",
)
@click.option(
    "--scale",
    metavar="LOW..HIGH",
    help="The scale of the labels, the worst value first: 1..5, 0..1. Default: the levels of the "
    "rubric; 0..1 if it judges claims.",
)
@click.option(
    "--good",
    type=float,
    metavar="LABEL",
    help="The label from which an answer is good, for AUC. Default: above the middle of the scale.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="RUBRIC=COLUMN",
    help="The column of your own file with the labels of a rubric; repeatable, one per rater.",
)
@click.option(
    "--random",
    is_flag=True,
    help="State that the labelled answers of your own file were drawn at random.",
)
@click.option(
    "--retest",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="A second run of the same judge, for the share of changed levels.",
)
@click.option("--confidence", type=confidence_type, help="Coverage of the intervals; default 0.95.")
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

    `--draw 100 -o sheet.csv` writes a sheet of answers in random order, without systems and scores.
    People fill in the column `label`; for several raters, make copies. `--labels sheet.csv -o
    judge.json` then prints how well the judge agrees with them, and writes the certificate.
    `--probe injection` asks the judge about changed answers and reports the shift; it needs no
    labels.
    """
    given = {  # by identity: a seed of 0 and a label of 0 are given, though 0 == False
        name: value
        for name, value in options.items()
        if value is not None and value is not False and value != ()
    }
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
    from ragbench.calibration.judged_run import read_judged_run
    from ragbench.calibration.scale import Scale
    from ragbench.cli.certificate import Request, certify_judge, draw_sheet, probe_judge

    judged = read_judged_run(run)
    seed, sample = given.pop("seed", judged.seed), given.pop("sample", _SAMPLE)
    if scale := given.pop("scale", None):
        given["scale"] = Scale.parse(scale)
    shared = {key: given.pop(key) for key in ("scale", "confidence", "as_json") if key in given}
    request = Request(judged, seed, sample, output, rubrics, probes, **shared)
    if n is not None:
        draw_sheet(request, n, **given)
    elif labels:
        certify_judge(request, labels, **given)
    else:
        probe_judge(request)
