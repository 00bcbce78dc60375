"""Compare runs with `ragbench compare BASE RUN...`; write baselines with `baseline RUN`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.output import (
    confidence_option,
    echo,
    file_option,
    number_option,
    report_to_github,
    run_argument,
    seed_option,
    several,
    terminal_width,
    write_json,
    write_notes,
    write_result,
)

if TYPE_CHECKING:
    from ragbench.experiment.compare import Comparison
    from ragbench.records.gate import Decision

_FORMATS = ("table", "markdown", "latex", "csv", "json", "junit")
_WORDS = {"fail": "error", "undecided": "warning"}


@click.command(name="compare")
@click.argument("base")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@several(
    *("-m", "--measure", "measures"),
    help="A measure or metric; repeatable. Default: all that BASE and RUN share.",
)
@click.option("--qrels", metavar="FILE", help="The judgements of TREC run files.")
@several(
    "--fail-if",
    metavar="'NAME drop > X'",
    help="Exit 1 if NAME certainly dropped by more than X: 'ndcg@10 drop > 0.01'; repeatable.",
)
@click.option(
    "--cluster",
    metavar="metadata.KEY",
    help="Queries with equal values are one unit; one of the runs must be a run folder.",
)
@click.option(
    "--family",
    type=click.Choice(["measure", "all"]),
    default="measure",
    show_default=True,
    help="Correct p-values over the comparisons of each measure, or of all measures.",
)
@click.option("--strict", is_flag=True, help="Exit 4 if a --fail-if is undecided.")
@click.option(
    "--intersect",
    is_flag=True,
    help="Compare the common queries if the sets differ, without those that are not the same.",
)
@number_option(
    "--moved",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="List the N queries that changed most on the first measure, with both rankings.",
)
@confidence_option(default=0.95, show_default=True, help="Coverage of the intervals.")
@number_option(
    "--resamples",
    default=10_000,
    show_default=True,
    help="Sign flips of a test and bootstrap resamples.",
)
@seed_option(default=13, show_default=True, help="Equal seeds give equal results.")
@click.option(
    *("--format", "form"),
    type=click.Choice(_FORMATS),
    default="table",
    help="A table (default), Markdown, LaTeX, CSV, JSON; junit has only the verdicts of --fail-if.",
)
def command(base: str, runs: tuple[str, ...], form: str, strict: bool, **options: Any) -> int:
    """Compare each RUN with BASE, paired over their queries.

    Each is a run folder, the folder of an experiment (its newest run), a baseline file, or a TREC
    run file with --qrels. Systems are matched by name; if both sides have one system, these two are
    compared. With BASE alone, its systems are compared with its own baseline. Scores with other
    data, options or judges are refused, with a list of the differences.
    """
    from ragbench.experiment.compare import compare
    from ragbench.report.comparison import gate_line

    if strict and not options["fail_if"]:
        raise click.UsageError("--strict is for --fail-if")
    if form == "junit" and not options["fail_if"]:
        raise click.UsageError("--format junit needs at least one --fail-if")
    # click has an empty tuple where no measure was named, `compare` None
    found = compare(base, *runs, measures=options.pop("measures") or None, **options)
    text = _render(found, form)
    write_json(text) if form == "json" else write_result(text, exact=form == "csv")
    if found.is_empty and not found.record.gates:
        echo("error: nothing was compared: no query has a score of both systems", err=True)
    for gate in found.record.gates:
        if gate.verdict != "pass":
            echo(f"{_WORDS[gate.verdict]}: {gate_line(gate)}", err=True)
    report_to_github(partial(_render, found, "markdown"), _gates(found), None, os.environ)
    return found.exit_code(strict=strict)


def _render(found: Comparison, form: str) -> str:
    if form == "json":
        from ragbench.data.runs.run_folder import to_json

        return to_json(found.to_dict())
    if form == "junit":
        from ragbench.records.summary import Summary
        from ragbench.report.ci import render_junit

        name = " ".join(found.record.sources)
        return render_junit(Summary(name=name, systems=(), gates=_gates(found)))
    from ragbench.report import comparison

    if form == "table":
        return comparison.render_table(found.record, width=terminal_width())
    render = {
        "csv": comparison.render_csv,
        "latex": comparison.render_latex,
        "markdown": comparison.render_markdown,
    }
    return render[form](found.record)


def _gates(found: Comparison) -> tuple[Decision, ...]:
    from ragbench.records.gate import Decision

    return tuple(
        Decision(gate=gate.gate, system=gate.system, verdict=gate.verdict, why=gate.why)
        for gate in found.record.gates
    )


@click.command(name="baseline")
@run_argument
@file_option(
    *("-o", "--output"),
    required=True,
    help="The file, such as baselines/main.json; an existing file is replaced.",
)
@click.option(
    "--costs",
    is_flag=True,
    help="Add the time and cost of each query, for gates with max_increase; the file then "
    "differs from run to run.",
)
def baseline(run: Path, output: Path, costs: bool) -> None:
    """Write the scores of a finished RUN to one small file.

    RUN is a run folder, or the folder of an experiment, whose newest run is used. Commit the file:
    `ragbench compare FILE RUN` shows what has changed since. Equal scores give equal bytes.
    """
    from ragbench.data.runs.baseline import write_baseline
    from ragbench.data.runs.run_scores import read_run_scores
    from ragbench.report.text import counted

    scores = read_run_scores(run)
    systems = counted(sum(bool(system.columns) for system in scores.systems.values()), "systems")
    kept = f"{systems}, {counted(len(scores.query_ids), 'queries')}"
    write_baseline(output, scores, costs=costs)
    echo(f"baseline: {output}: {kept}")
    if scores.summary is not None and not scores.summary.complete:
        write_notes(["the run is incomplete: too many items failed, and its baseline lacks them"])
