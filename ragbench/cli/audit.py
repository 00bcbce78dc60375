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
@click.option(
    "--repair",
    is_flag=True,
    help="In place of the audit: look up the gold quotes in documents that have changed.",
)
@output.file_option(
    *("-o", "--output", "target"),
    help="Write the table with the new places of its quotes; it may be the table itself.",
)
@output.json_option(help="Print all findings as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    strict: bool,
    repair: bool,
    target: Path | None,
    as_json: bool,
) -> None:
    """Look for faults of the test set of CONFIG; no model is asked, and nothing is run.

    Each finding has its place, what is wrong and what to do: questions that repeat each other or
    stand in another split, gold that is missing, empty or copied, answers that their gold lacks,
    and outliers. The last lines are the differences between two systems that the set can detect.
    The block `audit:` of CONFIG names the kinds of questions; with it, the page of a run has the
    findings, too.

    With --repair, the table of questions of CONFIG was written for earlier documents. Labels that
    were kept, or moved to one other place, are written to -o; those that were split, merged or are
    gone are listed for a person, and count as findings.
    """
    from ragbench.config.load import load_config
    from ragbench.data.runs.run_folder import to_json
    from ragbench.experiment.audit.audit import audit_test_set
    from ragbench.experiment.audit.repair import repair_labels
    from ragbench.experiment.plan.plan import load_collection
    from ragbench.records import codec
    from ragbench.report.audit import audit_lines, repair_lines
    from ragbench.report.text import counted

    output.refuse((target and not repair, "-o goes with --repair"))
    settings = load_config(config, overrides=overrides)
    if repair:
        result = repair_labels(settings, target)
        if as_json:
            output.write_json(to_json(codec.to_json(result)))
        for line in () if as_json else repair_lines(result):
            output.echo(line)
        if target is not None:
            n_open = counted(result.open_rows, "rows")
            has = "has" if result.open_rows == 1 else "have"
            output.write_notes([f"wrote {target}; {n_open} to correct {has} keep = no"])
        ctx.exit(EXIT_GATE_FAILED if strict and result.open_rows else EXIT_OK)
    audit = audit_test_set(settings, load_collection(settings))
    if as_json:
        output.write_json(to_json(codec.to_json(audit)))
    for line in () if as_json else audit_lines(audit):
        output.echo(line)
    ctx.exit(EXIT_GATE_FAILED if strict and audit.findings else EXIT_OK)
