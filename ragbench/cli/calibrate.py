"""`ragbench calibrate RUN`: a sheet to label, and a comparison of the judge with the labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import click

from ragbench.cli.output import (
    confidence_option,
    number_option,
    path_option,
    refuse,
    seed_option,
    several,
)

_SAMPLE = 50  # answers that probes ask about again
# parameters that only some uses take -> these uses
_USES = {
    ("systems", "unit"): {"--draw"},
    ("seed",): {"--draw", "--probe"},
    ("sample", "trusted"): {"--probe"},
    ("scale", "confidence", "as_json"): {"--labels", "--probe", "--ratings"},
    ("judge_scale", "model"): {"--ratings"},
    ("good", "columns", "random"): {"--labels", "--ratings"},
}
_SHARED = ("scale", "confidence", "as_json", "trusted")


@click.command(name="calibrate")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option(
    *("--draw", "n"),
    type=int,
    metavar="N",
    help="Draw N answers per rubric at random (--unit: or queries); write a sheet to label.",
)
@path_option(
    "--labels",
    multiple=True,
    help="A labelled sheet, or ratings by query_id and system; repeatable, one per rater.",
)
@path_option(
    "--ratings",
    help="Without a RUN: ratings of a judge and of people, a row per answer: "
    "query_id, system, judge, label (or label_1, label_2 ...).",
)
@click.option(
    *("--probe", "probe"),
    type=click.Choice(["position"]),
    help="Ask the judge again with the passages in reverse order. With --labels the result goes "
    "into the certificate.",
)
@number_option("--sample", help=f"Ask again about N answers, drawn at random; default {_SAMPLE}.")
@several(
    *("--trust", "trusted"),
    metavar="URL|NAME",
    help="Let --probe ask this address, or send this variable, which the run folder names; "
    "repeatable. A run folder may be anybody's: without it no key and no text leaves for an "
    "address that only it names, and no variable but OPENAI_API_KEY is sent.",
)
@path_option(
    *("-o", "--output"),
    help="The file for the sheet, the certificate or the results of probes; without it a sheet "
    "goes to standard output.",
)
@several(
    *("--rubric", "rubrics"),
    help="Only this rubric; repeatable. Default: all rubrics of the judge.",
)
@several("--system", "systems", help="Draw from this one; repeatable.")
@click.option(
    "--unit",
    type=click.Choice(["answer", "query"]),
    help="Draw single answers (default), or queries with the answers of all systems.",
)
@seed_option(help="Equal seeds draw the same answers; default: the seed of the run.")
@click.option(
    "--scale",
    metavar="LOW..HIGH",
    help="The scale of the labels, the worst value first: 1..5, 0..1. Default: the levels of the "
    "rubric; 0..1 if it judges claims.",
)
@click.option(
    "--judge-scale",
    metavar="LOW..HIGH",
    help="The scale of the judge's column in --ratings. Default: that of the labels.",
)
@click.option("--model", metavar="NAME", help="What gave the judge's column in --ratings.")
@click.option(
    "--good",
    type=float,
    metavar="LABEL",
    help="The label from which an answer is good, for AUC. Default: above the middle of the scale.",
)
@several(
    *("--column", "columns"),
    metavar="NAME=COLUMN",
    help="Of your own file with --labels: RUBRIC=COLUMN, the labels of a rubric; repeatable, one "
    "per rater. Of --ratings: query_id=, system=, answer=, judge= or label=COLUMN.",
)
@click.option(
    "--random",
    is_flag=True,
    help="State that the labelled answers of your own file were drawn at random.",
)
@confidence_option(help="Coverage of the intervals; default 0.95.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the certificate instead of the tables."
)
def command(
    run: Path | None,
    n: int | None,
    labels: tuple[Path, ...],
    ratings: Path | None,
    probe: str | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Compare the judge of a finished RUN with people, and probe its bias of position.

    `--draw 100 -o sheet.csv` writes a sheet of answers in random order, without systems and scores.
    People fill in the column `label`; for several raters, make copies. `--labels sheet.csv -o
    judge.json` then prints how well the judge agrees with them, and writes the certificate.
    `--probe position` asks the judge again with the passages reversed and reports the shift; it
    needs no labels. `--ratings table.csv` needs no run: the table has the ratings of the judge
    beside those of people.
    """
    rubrics: tuple[str, ...] = options.pop("rubrics")
    given = {  # by identity: a seed of 0 and a label of 0 are given, though 0 == False
        name: value
        for name, value in options.items()
        if value is not None and value is not False and value != ()
    }
    uses = {
        "--draw": n is not None,
        "--labels": bool(labels),
        "--ratings": ratings is not None,
        "--probe": probe is not None,
    }
    _check_uses(uses, run, given)
    from ragbench.calibration.judged_run import read_judged_run
    from ragbench.calibration.sheet import LabelScale
    from ragbench.cli import certificate

    for name, option in (("scale", "--scale"), ("judge_scale", "--judge-scale")):
        if name in given:
            given[name] = LabelScale.parse(given[name], option)
    if run is None:
        certificate.certify_ratings(cast("Path", ratings), output, rubrics, **given)
        return
    judged = read_judged_run(run)
    seed, sample = given.pop("seed", judged.seed), given.pop("sample", _SAMPLE)
    shared = {key: given.pop(key) for key in _SHARED if key in given}
    request = certificate.Request(
        judged, seed, sample, output, rubrics, probes=probe is not None, **shared
    )
    if n is not None:
        certificate.draw_sheet(request, n, **given)
    elif labels:
        certificate.certify_judge(request, labels, **given)
    else:
        certificate.probe_judge(request)


def _check_uses(uses: Mapping[str, bool], run: Path | None, given: Collection[str]) -> None:
    drawing, labelled, rated, probing = uses.values()
    refuse(
        (
            drawing + (labelled or probing) + rated != 1,
            "either --draw N or --labels FILE (--probe position beside it, or alone): draw first, "
            "label, then compare; or --ratings FILE, a table with the judge's ratings",
        ),
        (rated and run, "--ratings needs no RUN: the table has the judge's ratings"),
        (not (rated or run), "Missing argument 'RUN': a run folder; --ratings FILE needs none"),
    )
    options = {str(option.name): option.opts[0] for option in command.params}
    for names, allowed in _USES.items():
        for name in names:
            is_refused = name in given and not any(uses[use] for use in allowed)
            refuse((is_refused, f"{options[name]} is for {' and '.join(sorted(allowed))}"))
