"""Command `ragbench calibrate RUN`: draw a sheet to label, compare the judge with the labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click

from ragbench.cli import output

_SAMPLE = 50  # answers that a probe judges again
# Parameters that only some uses of the command accept -> these uses.
_USES = {
    ("systems", "unit", "where"): {"--draw"},
    ("seed",): {"--draw", "--probe", "--on"},
    ("sample", "trusted"): {"--probe"},
    ("limit", "overrides", "only_plan", "retry_failed"): {"--on"},
    ("scale", "confidence", "form", "as_json"): {"--labels", "--probe", "--ratings", "--on"},
    ("judge_scale", "model"): {"--ratings", "--on"},
    ("good", "judge_good", "own_columns", "by", "verbose", "disagreements"): {
        "--labels",
        "--ratings",
        "--on",
    },
    ("random",): {"--labels", "--ratings"},
}
_SHARED = ("scale", "confidence", "form", "trusted", "disagreements", "verbose")


class _CalibrateCommand(output.NamesCommand):
    """Command whose `--on` takes several files: `--on response.jsonl source_info.jsonl`."""

    names_option = "--on"


@output.command(
    name="calibrate",
    cls=_CalibrateCommand,
    examples=(
        "ragbench calibrate runs/my --draw 100 -o sheet.html",
        "ragbench calibrate runs/my --labels sheet.csv -o judge.json",
        "ragbench calibrate my.yaml --on response.jsonl source_info.jsonl --limit 200",
    ),
)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option(
    "--draw",
    "n",
    type=int,
    metavar="N",
    help="Draw N answers per rubric at random, and write a sheet to label. --unit "
    "query draws queries.",
)
@output.path_option(
    "--labels",
    multiple=True,
    help="A labelled sheet, a table of answers with labels, or metadata.COLUMN of the "
    "data set; repeatable, one per rater.",
)
@output.path_option(
    "--ratings",
    help="A table with the ratings of a judge and of people, without a RUN. One row "
    "per answer: query_id, system, judge, label (or label_1, label_2 ...).",
)
@output.path_option(
    "--on",
    multiple=True,
    metavar="FILE...",
    help="Judge a published set of judged answers, with the judges of a CONFIG in place of RUN; "
    "several files of one set may follow. --column judge=COLUMN takes predictions that FILE "
    "holds, without a CONFIG.",
)
@output.number_option("--limit", help="With --on: draw N rows by seed, by strata of the label.")
@output.flag("--plan", "only_plan", help="With --on: print calls and cost, and ask nothing.")
@output.flag(
    "--retry-failed",
    help="With --on: ask once more for rows whose verdict failed, such as by an unreadable reply, "
    "whatever is stored.",
)
@output.overrides_option
@click.option(
    "--probe",
    "probe",
    type=click.Choice(["position"]),
    help="Judge answers again with the passages in reverse order. With --labels the "
    "result is part of the certificate.",
)
@output.number_option("--sample", help=f"Judge N random answers again; default {_SAMPLE}.")
@output.several(
    "--trust",
    "trusted",
    metavar="URL|NAME",
    help="Allow --probe to use this address or environment variable of the run "
    "folder; repeatable. Without it, nothing is sent to an address that only the "
    "run folder names, and OPENAI_API_KEY is the only variable that is sent.",
)
@output.path_option(
    "-o",
    "--output",
    "target",
    help="The file for the sheet, the certificate or the probe results. FILE.html is "
    "a page to label with keys, which saves the sheet. Default: a sheet goes to "
    "standard output.",
)
@output.several(
    "--rubric", "rubrics", help="Only this rubric; repeatable. Default: all rubrics of the judge."
)
@output.several(
    "--system", "systems", help="Draw answers of this system; repeatable. Default: all."
)
@click.option(
    "--unit",
    type=click.Choice(["answer", "query"]),
    help="Draw single answers (default), or queries with the answers of all systems.",
)
@click.option(
    "--where",
    type=click.Choice(["unsure"]),
    help="Draw more often where the judge is unsure, N answers in all, the same "
    "number of each system. All rows of the sheet need a label. Default: all "
    "answers alike.",
)
@output.seed_option(help="Equal seeds draw the same answers; default: the seed of the run.")
@click.option(
    "--scale",
    metavar="LOW..HIGH",
    help="The scale of the labels, the worst value first: 1..5, 0..1. Default: the "
    "levels of the rubric; 0..1 if it judges claims, and for words in --ratings.",
)
@click.option(
    "--judge-scale",
    metavar="LOW..HIGH",
    help="The scale of the judge's column in --ratings. Default: that of the labels.",
)
@click.option("--model", metavar="NAME", help="Model behind the judge's column in --ratings.")
@click.option(
    "--good",
    type=float,
    metavar="LABEL",
    help="The smallest label of a good answer, for AUC. Default: above the middle of the scale.",
)
@click.option(
    "--judge-good",
    type=float,
    metavar="SCORE",
    help="The smallest score of the judge, from 0 to 1, that passes beside labels of two levels "
    "(the largest, where lower is better). Default: above the middle.",
)
@output.several(
    "--column",
    "own_columns",
    metavar="NAME=COLUMN",
    help="A column of your own file. With --labels: RUBRIC=COLUMN has the labels of a "
    "rubric; repeatable, one per rater; question=, query_id=, system= or answer=COLUMN. With "
    "--ratings: query_id=, system=, answer=, document=, judge= or label=COLUMN. With --on: id=, "
    "unit=, system=, question=, contexts=, answer=, label= or judge=COLUMN, or a path such as "
    "metadata.gpt_4o.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    help="Agreement on each group of answers, too: a column of the labels, system, or "
    "metadata.COLUMN of the data set.",
)
@click.option(
    "--random", is_flag=True, help="The labelled answers of your own file were drawn at random."
)
@output.path_option(
    "--disagreements",
    help="Write the answers on which judge and people disagree, with passages, labels and the "
    "reason of the judge: FILE.html is a page, other files are CSV.",
)
@output.flag("--verbose", help="Print all statistics and notes, and the largest disagreements.")
@output.confidence_option(help="Coverage of the intervals; default 0.95.")
@output.format_option(
    "json",
    default=None,
    help="A table (default); csv has a row for each number, json is the certificate.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    run: Path | None,
    n: int | None,
    labels: tuple[Path, ...],
    ratings: Path | None,
    on: tuple[Path, ...],
    probe: str | None,
    target: Path | None,
    **options: Any,
) -> None:
    """Compare the judge of a finished RUN with people, and probe its position bias.

    First, `--draw 100 -o sheet.csv` writes a sheet of answers in random order, without systems and
    scores. People fill in the column `label`, each rater in a copy. Then `--labels sheet.csv -o
    judge.json` prints the agreement of the judge with people, and writes the certificate.
    `--probe position` judges again with the passages reversed and reports the shift of the scores;
    it needs no labels. `--ratings table.csv` needs no run: the table has the ratings of both.
    `CONFIG --on FILE` judges a published set, such as LLM-AggreFact, RAGTruth or FaithBench, and
    compares the judge with its labels.
    """
    rubrics: tuple[str, ...] = options.pop("rubrics")
    choices = _choices(options)
    is_used = {
        "--draw": n is not None,
        "--labels": bool(labels),
        "--ratings": ratings is not None,
        "--probe": probe is not None,
        "--on": bool(on),
    }
    _check_uses(is_used, run, choices)
    if choices.pop("as_json", False):
        choices["form"] = "json"
    # `columns` is an option of LaTeX tables
    if "own_columns" in choices:
        choices["columns"] = choices.pop("own_columns")
    from ragbench.calibration.judged_run import read_judged_run
    from ragbench.calibration.label_scale import LabelScale
    from ragbench.cli import certificate

    for name, option in (("scale", "--scale"), ("judge_scale", "--judge-scale")):
        if name in choices:
            choices[name] = LabelScale.parse(choices[name], option)
    if on:
        _certify_on(run, on, ratings, target, rubrics, choices)
        return
    if run is None:
        _certify_ratings(cast("Path", ratings), target, rubrics, choices)
        return
    judged_run = read_judged_run(run)
    seed, sample = choices.pop("seed", judged_run.seed), choices.pop("sample", _SAMPLE)
    shared = {}
    for key in _SHARED:
        if key in choices:
            shared[key] = choices.pop(key)
    request = certificate.Request(
        judged_run, seed, sample, target, rubrics, probes=probe is not None, **shared
    )
    if n is not None:
        certificate.draw_sheet(request, n, **choices)
    elif labels:
        certificate.certify_judge(request, labels, **choices)
    else:
        certificate.probe_judge(request)


def _choices(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the user passed."""
    choices = {}
    for name, value in options.items():
        # by identity: 0 == False, but a seed or a label of 0 is a choice
        if value is not None and value is not False and value != ():
            choices[name] = value
    return choices


def _certify_on(
    config: Path | None,
    files: tuple[Path, ...],
    ratings: Path | None,
    target: Path | None,
    rubrics: tuple[str, ...],
    choices: dict[str, Any],
) -> None:
    """Compare judges, predictions or qrels of a judge with the labels of a published set."""
    from ragbench.cli import certificate, published

    names = choices.keys() & {"form", "disagreements", "verbose"}
    retry_failed = choices.pop("retry_failed", False)
    options = {}
    for name in choices.keys() & {"good", "confidence"}:
        options[name] = choices.pop(name)
    request = published.SetRequest(
        files=files,
        columns=output.parse_pairs("--column", choices.pop("columns", ())),
        target=certificate.Target(target, **{name: choices.pop(name) for name in names}),
        retry_failed=retry_failed,
        rubrics=rubrics,
        limit=choices.pop("limit", None),
        seed=choices.pop("seed", None),
        scale=choices.pop("scale", None),
        judge_good=choices.pop("judge_good", None),
        by=choices.pop("by", ""),
        options=options,
    )
    has_predictions = published.JUDGE in request.columns or ratings is not None
    output.refuse(
        (
            not config and not has_predictions,
            "Missing argument 'CONFIG' with the judge, or --column judge=COLUMN with predictions "
            "that FILE holds",
        ),
        (
            not has_predictions and choices.keys() & {"judge_scale", "model"},
            "--judge-scale and --model are for --column judge=COLUMN",
        ),
        (
            has_predictions and (choices.keys() & {"overrides", "only_plan"} or retry_failed),
            "--set, --plan and --retry-failed are for the judge of a CONFIG",
        ),
        (
            retry_failed and "only_plan" in choices,
            "--plan counts calls without a stored reply: pass it without --retry-failed",
        ),
    )
    if config is not None and not has_predictions:
        overrides, only_plan = choices.get("overrides", ()), choices.get("only_plan", False)
        code = published.certify_set(config, request, overrides, only_plan=only_plan)
        click.get_current_context().exit(code)
    if config is not None:
        request = published.with_seed_of(config, request)
    judge_scale, model = choices.get("judge_scale"), choices.get("model", "not named")
    if ratings is not None:
        published.certify_qrels(request, ratings, model)
    else:
        published.certify_predictions(request, judge_scale, model)


def _certify_ratings(
    ratings: Path, target: Path | None, rubrics: tuple[str, ...], choices: dict[str, Any]
) -> None:
    """Compare the judge with people by a table of ratings."""
    from ragbench.cli import certificate

    names = choices.keys() & {"form", "disagreements", "verbose"}
    files = certificate.Target(target, **{name: choices.pop(name) for name in names})
    certificate.certify_ratings(ratings, files, rubrics, **choices)


def _check_uses(is_used: Mapping[str, bool], run: Path | None, choices: Mapping[str, Any]) -> None:
    """Raise a usage error for uses that exclude each other, and for options of other uses."""
    is_drawing, has_labels, has_ratings, is_probing, is_on = is_used.values()
    output.refuse(
        (
            is_drawing + (has_labels or is_probing) + (has_ratings or is_on) != 1,
            "pass one of --draw N, --labels FILE, --probe position, --ratings FILE and --on FILE; "
            "--probe may stand beside --labels",
        ),
        (
            has_ratings and run and not is_on,
            "--ratings takes no RUN: the table has the judge's ratings",
        ),
        (
            not (has_ratings or is_on or run),
            "Missing argument 'RUN', a run folder (none with --ratings FILE)",
        ),
    )
    from ragbench.report.text import listed

    options = {}
    for option in command.params:
        options[str(option.name)] = option.opts[0]
    for names, allowed in _USES.items():
        for name in names:
            is_refused = name in choices and not any(is_used[use] for use in allowed)
            output.refuse((is_refused, f"{options[name]} is for {listed(sorted(allowed))}"))
    output.refuse(
        (
            "where" in choices and "unit" in choices,
            "--unit is for a draw of all answers alike: --where unsure draws the answers of all "
            "systems to a query together where it can",
        ),
        (
            "as_json" in choices and choices.get("form", "json") != "json",
            f"pass --json or --format {choices.get('form')}, not both",
        ),
    )
