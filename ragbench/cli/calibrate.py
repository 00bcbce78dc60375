"""`ragbench calibrate RUN`: a sheet for people to label, and what their labels say of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.certificate import SAMPLE, certify_judge, draw_sheet, probe_judge

if TYPE_CHECKING:
    from ragbench.calibration.probes import Probe

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
    help=f"Ask again about N answers, drawn at random; default {SAMPLE}.",
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
    from ragbench.calibration.judged_run import read_judged_run

    judged = read_judged_run(run)
    if n is not None:
        draw_sheet(judged, n, output, rubrics, **given)
    elif labels:
        certify_judge(judged, labels, output, rubrics, probes=probes, **given)
    else:
        probe_judge(judged, probes, output, rubrics, **given)
