"""Command `ragbench audit CONFIG`."""

from __future__ import annotations

from pathlib import Path

import click

from ragbench.cli import output
from ragbench.errors import EXIT_GATE_FAILED, EXIT_OK


@click.command(name="audit")
@output.config_argument
@output.overrides_option
@click.option("--strict", is_flag=True, help="Exit with 1 if there are findings.")
@output.json_option(help="Print all findings as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Look for faults of the test set of CONFIG; no model is asked, and nothing is run.

    Each finding has its place, what is wrong and what to do: questions that repeat each other or
    stand in another split, gold that is missing, empty or copied, answers that their gold lacks,
    and outliers. The last lines are the differences between two systems that the set can detect.
    The block `audit:` of CONFIG names the kinds of questions; with it, the page of a run has the
    findings, too.
    """
    from ragbench.config.load import load_config
    from ragbench.data.runs.run_folder import to_json
    from ragbench.experiment.audit.audit import audit_test_set
    from ragbench.experiment.plan.plan import load_collection
    from ragbench.records import codec
    from ragbench.report.audit import audit_lines

    settings = load_config(config, overrides=overrides)
    audit = audit_test_set(settings, load_collection(settings))
    if as_json:
        output.write_json(to_json(codec.to_json(audit)))
    for line in () if as_json else audit_lines(audit):
        output.echo(line)
    ctx.exit(EXIT_GATE_FAILED if strict and audit.findings else EXIT_OK)
