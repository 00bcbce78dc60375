"""Command `ragbench fix RUN`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ragbench.cli import output


@output.command(
    name="fix",
    examples=("ragbench fix runs/my", "ragbench fix runs/my --passages 10"),
)
@output.run_argument
@click.option(
    "--system",
    metavar="S",
    help="Start from this system. Default: the first one of the run's headline.",
)
@output.number_option(
    "--passages",
    type=click.IntRange(min=1),
    help="Let a generator read N passages after the change. Default: as many as now.",
)
@output.file_option(
    "--write",
    help="Write the config with the best change, if it is better; another file is not replaced.",
)
@output.flag("--best", help="Write it even if it is not shown to be better.")
@output.flag("--verbose", help="Print all changes, and the questions that none helps.")
@output.format_option(
    "json", help="csv has a row for each change; json has all changes with all questions."
)
@output.json_option(help="The same as --format json.")
def command(
    run: Path,
    system: str | None,
    passages: int | None,
    write: Path | None,
    best: bool,
    verbose: bool,
    form: str,
    as_json: bool,
) -> None:
    """Show what to change in RUN: the questions that each change rescues and loses.

    RUN is a run folder, or the folder of an experiment (the newest run). Changes are counted from
    its stored rankings: another retriever, a reranker, a fusion, more or fewer passages. Counts are
    exact; gains have an interval, confirmed on questions that did not choose. Nothing is run.
    `ragbench run` of the file of --write finds the questions that are promised.
    """
    output.refuse(
        (best and write is None, "--best needs --write FILE"),
        (as_json and form not in ("table", "json"), f"pass --json or --format {form}, not both"),
    )
    # Imported here: `ragbench --help` must not load the modules of an experiment.
    from ragbench.data.runs.run_folder import resolve_run_folder, to_json
    from ragbench.experiment.best_config import write_best
    from ragbench.experiment.fix import RunReader, list_fixes
    from ragbench.records import codec
    from ragbench.report.fixes import fix_report, fix_screen

    reader = RunReader(resolve_run_folder(run), system)
    fixes = list_fixes(reader, passages)
    options = (("--system", system), ("--passages", passages))
    words = shlex.join([str(run), *(f"{o}={v}" for o, v in options if v is not None)])
    if as_json or form == "json":
        output.write_json(to_json(codec.to_json(fixes)))
    else:
        if form == "table" and not verbose:
            report = fix_screen(fixes, words, output.screen())
        else:
            report = fix_report(fixes, words)
        output.write_report(report, form)
    promise = fixes.best
    if write is None:
        return
    if promise is None or promise.change.net <= 0 or not (best or promise.is_better):
        output.echo(f"nothing written to {write}: no change is surely better", err=True)
        return
    retriever = write_best(reader.config, reader.folder, fixes, promise.change, write)
    count = f"{promise.change.found} of {promise.change.of} at {promise.change.passages}"
    # To stderr: with --json, stdout holds one JSON document.
    output.echo(f"{write}: `ragbench run {write}` gives {retriever}, which finds {count}", err=True)
