"""`ragbench calibrate RUN`: a sheet for people to label, and what their labels say of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.options import confidence_type

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
    type=confidence_type,
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
