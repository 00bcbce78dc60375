"""Command `ragbench audit CONFIG`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import structs

from ragbench import errors
from ragbench.cli import output
from ragbench.config.load import load_config
from ragbench.config.schema import ExperimentConfig
from ragbench.experiment.audit import doubtful
from ragbench.experiment.audit.audit import audit_test_set, audited_set
from ragbench.experiment.audit.judged import JudgedLabels, judge_labels
from ragbench.experiment.audit.repair import repair_labels
from ragbench.experiment.plan.plan import load_collection
from ragbench.files import naming_unwritable, write_file
from ragbench.records.audit import Repair
from ragbench.report.audit import audit_report, repair_lines, screen_report
from ragbench.report.page.review import write_label_page
from ragbench.report.text import counted
from ragbench.types import Collection
from ragbench.types.display import list_counts
from ragbench.types.lookups import take_items


@output.command(
    name="audit",
    examples=("ragbench audit my.yaml", "ragbench audit my.yaml --judge"),
)
@output.config_argument
@output.overrides_option
@output.flag("--strict", help="Exit with 1 if there are findings.")
@output.flag(
    "--judge", help="Also ask the judge of the config about gold passages and unjudged hits."
)
@output.path_option(
    "--reviewed",
    help="In place of the audit: read the sheet that the page of --judge saved, and "
    "print how far people agree with the judge.",
)
@output.flag(
    "--repair",
    help="In place of the audit: look up the gold quotes in documents that have changed.",
)
@output.file_option(
    "-o",
    "--output",
    "target",
    help="With --judge, a page (FILE.html) to grade the doubtful passages; with "
    "--reviewed, the corrected judgements (FILE.tsv); with --repair, the table "
    "with the new places of its quotes, which may be the table itself.",
)
@output.flag("--verbose", help="Print all findings, and what each slice can detect.")
@output.json_option(help="Print all findings as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    strict: bool,
    verbose: bool,
    target: Path | None,
    as_json: bool,
    **modes: Any,
) -> None:
    """Look for faults of the test set of CONFIG; nothing is run, and no model asked but by --judge.

    Each finding has its place, what is wrong and what to do: questions that repeat each other or
    stand in another split, gold that is missing, empty or copied, answers that their gold lacks,
    and outliers. The last lines are the differences between two systems that the set can detect.
    The block `audit:` of CONFIG names the kinds of questions; with it, the page of a run has the
    findings, too.

    With --judge, the judge of CONFIG grades gold passages and the best unjudged hits of stored
    rankings: labels that it doubts are findings, and -o writes a page to grade them.

    With --repair, the table of questions of CONFIG was written for earlier documents. Labels that
    were kept, or moved to one other place, are written to -o; those that were split, merged or are
    gone are listed for a person, and count as findings.
    """
    judge, reviewed, repair = take_items(modes, ("judge", "reviewed", "repair"))
    n_modes = sum(map(bool, modes.values()))
    output.refuse(
        (n_modes > 1, "pass one of --judge, --reviewed and --repair"),
        (target and not n_modes, "-o goes with --repair, --judge or --reviewed"),
        (judge and target and target.suffix != ".html", "--judge needs -o FILE.html"),
        (reviewed and (as_json or strict), "--reviewed takes CONFIG and -o alone"),
        (verbose and (as_json or reviewed or repair), "--verbose is for the text of the audit"),
    )
    settings = load_config(config, overrides=overrides)
    # before the data set is loaded: gold that its documents lack is the subject here
    if repair:
        result = repair_labels(settings, target)
        _print_repair(result, target, as_json=as_json)
        ctx.exit(errors.EXIT_GATE_FAILED if strict and result.open_rows else errors.EXIT_OK)
    collection = load_collection(settings)
    if reviewed:
        _read_back(collection, reviewed, target)
        return
    audit, code = audit_test_set(settings, collection), errors.EXIT_OK
    if judge:
        labels = _judge(settings, collection)
        audit = structs.replace(audit, findings=(*audit.findings, *labels.findings))
        if target is not None:
            _write_page(target, labels, collection, config)
        code = _exit_code(labels, settings.max_failed)
    # JSON alone on stdout, so that it can be piped into another program
    if as_json:
        output.print_record(audit, (), as_json=True)
    else:
        report = audit_report(audit) if verbose else screen_report(audit, output.screen())
        output.write_report(report, "table")
    # findings come first: they hold however many passages are left to judge
    ctx.exit(errors.EXIT_GATE_FAILED if strict and audit.findings else code)


def _exit_code(labels: JudgedLabels, max_failed: float) -> int:
    """Return the exit code of judged labels; other than 0 if too many judgements failed."""
    # verdicts are stored, so that the same command asks only about the rest
    n_failed = sum(labels.failed.values())
    if n_failed <= max_failed * (n_failed + labels.judged):
        return errors.EXIT_OK
    return errors.EXIT_UNREACHABLE if labels.is_unreachable else errors.EXIT_INCOMPLETE


def _judge(config: ExperimentConfig, collection: Collection) -> JudgedLabels:
    """Return the labels that the judge doubts, and print calls and failures as notes."""
    with output.resumable(), output.stage("judge labels", None, "passages") as stage:
        labels = judge_labels(config, collection, audited_set(config, collection), stage.advance)
    judged = f"{counted(labels.judged, 'passages')} judged: {output.spent(labels.totals)}"
    causes = list_counts(labels.failed)
    failed = [f"{sum(labels.failed.values())} could not be judged: {causes}"] if causes else []
    output.write_notes([judged, *failed])
    return labels


def _write_page(target: Path, labels: JudgedLabels, collection: Collection, config: Path) -> None:
    """Write the page to grade doubtful passages; a note on stderr has its name."""
    if not labels.doubtful:
        output.write_notes([f"no label is doubtful: {target} is not written"])
        return
    # the grades of the judgements, not the levels of the judge: a person corrects the former
    rows = doubtful.doubtful_rows(labels.doubtful, collection)
    scales = {doubtful.RUBRIC: doubtful.grade_scale(collection.qrels)}
    with naming_unwritable(target):
        write_label_page(
            target,
            rows,
            scales,
            noun="passage",
            command=f"ragbench audit {config} -o corrected.tsv --reviewed",
        )
    output.write_notes([f"wrote {target}: {counted(len(rows), 'passages')} to grade in a browser"])


def _read_back(collection: Collection, reviewed: Path, target: Path | None) -> None:
    """Print the agreement of people with the judge, and write the corrected judgements."""
    graded, n_empty = doubtful.read_graded(reviewed, collection)
    if target is not None:
        text = doubtful.corrected_judgements(graded, collection.qrels)
        # never over judgements that were corrected by hand; a repeated command changes nothing
        if target.exists() and target.read_bytes() != text.encode():
            problem = "exists with other judgements, perhaps corrected by hand"
            raise errors.DataError(problem, file=target, allowed="another file")
        write_file(target, text)
    for line in doubtful.graded_lines(graded, n_empty):
        output.echo(line)
    if target is not None:
        output.write_notes([f"wrote {target}"])


def _print_repair(repair: Repair, target: Path | None, *, as_json: bool) -> None:
    """Print the labels of a repaired table, or with `as_json` its record as JSON."""
    output.print_record(repair, repair_lines(repair), as_json=as_json)
    if target is not None:
        has = "has" if repair.open_rows == 1 else "have"
        n_open = counted(repair.open_rows, "rows")
        output.write_notes([f"wrote {target}; {n_open} to correct {has} keep = no"])
