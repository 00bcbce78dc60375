"""`ragbench score`: trec_eval's drop-in for runs, and scores of predictions; no config."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import click

from ragbench import __version__
from ragbench.cli.output import Form, Output, number_option, refuse, several

# trec_eval's long option -> ours
_LONG = {
    "query_eval_wanted": "per-query",
    "nosummary": "no-summary",
    "complete_rel_info_wanted": "complete",
    "level_for_rel": "level",
    "Judged_docs_only": "judged-only",
    "Number_docs_in_coll": "documents",
    "Max_retrieved_per_topic": "depth",
    "Rel_info_format": "rel-format",
    "Results_format": "results-format",
    "Debug_level": "debug",
    "Zscore": "zscores",
}

# format of judgements -> what to do instead
_REL_FORMATS = {
    "qrels_jg": "split the file by its second column, the judge, and score each part",
    "prefs": "there is no measure of preferences between pairs; bpref needs grades alone",
    "qrels_prefs": "there is no measure of preferences between pairs; bpref needs grades alone",
}


_ONLY_FORMAT = {"-R": "qrels", "-T": "trec_results"}


def _check_format(_: click.Context, parameter: click.Parameter, value: str | None) -> None:
    option = parameter.opts[0]
    if value in (None, _ONLY_FORMAT[option]):
        return
    if option == "-R" and (instead := _REL_FORMATS.get(str(value))):
        raise click.UsageError(f"-R {value} is not supported: {instead}")
    raise click.UsageError(f"{option} {value}: no such format; allowed: {_ONLY_FORMAT[option]}")


# option -> why it is not supported
_REFUSED = {
    "-D": "it prints the inner steps of trec_eval; ragbench list measures describes each measure",
    "-Z": "use --format csv -q and the means of your reference runs instead",
    "-o": "trec_eval dropped that page in version 9; leave it out",
}


def _refuse(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value and not context.resilient_parsing:
        option = parameter.opts[0]
        raise click.UsageError(f"{option} is not supported: {_REFUSED[option]}")


_FORMATS = ("table", "trec", "json", "csv")
_WORDS = ("zero", "skip")


@click.command(
    name="score",
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: _LONG.get(name, name),
    },
)
@click.argument("files", nargs=-1, metavar="[QRELS RUN...]")
@click.option("--qrels", metavar="FILE", help="The judgements, instead of the first argument.")
@several("--run", "runs", metavar="FILE", help="A run, - for standard input; repeatable.")
@click.option(
    "--predictions", metavar="FILE", help="Generated answers: JSONL, CSV, or lines of text."
)
@several("--references", metavar="FILE", help="Gold answers in the same format; repeatable.")
@several(
    *("-m", "--measure", "measures"),
    help="A measure or metric, as we, trec_eval or ir_measures write it; repeatable. "
    "Default: trec_eval's official set; for predictions ROUGE and BLEU.",
)
@click.option("-q", "--per-query", is_flag=True, help="Print the values of every query too.")
@click.option("-n", "--no-summary", is_flag=True, help="Leave out the means; needs -q.")
@click.option(
    *("-c", "--complete"),
    is_flag=True,
    help="Judged queries that are missing from a run count as 0 (--missing zero).",
)
@number_option(*("-l", "--level"), help="Documents graded below N are not relevant; default 1.")
@click.option(
    "-M", "--depth", type=click.IntRange(min=1), metavar="N", help="Use only the best N documents."
)
@click.option(
    *("-J", "--judged-only"),
    is_flag=True,
    help="Remove documents without judgement from the runs before scoring.",
)
@number_option(
    *("-N", "--documents"),
    help="Number of documents in the collection; `utility` with a fourth parameter needs it.",
)
@click.option(
    *("-R", "--rel-format"),
    metavar="FORMAT",
    callback=_check_format,
    expose_value=False,
    help="Form of the judgements: qrels, the only one supported.",
)
@click.option(
    *("-T", "--results-format"),
    metavar="FORMAT",
    callback=_check_format,
    expose_value=False,
    help="Form of the runs: trec_results, the only one supported.",
)
@click.option(*("-D", "--debug"), callback=_refuse, expose_value=False, hidden=True)
@click.option(*("-Z", "--zscores"), callback=_refuse, expose_value=False, hidden=True)
@click.option("-o", "old_page", is_flag=True, callback=_refuse, expose_value=False, hidden=True)
@click.version_option(
    __version__, "-v", "--version", prog_name="ragbench", message="%(prog)s %(version)s"
)
@click.option(
    "--missing",
    type=click.Choice(_WORDS),
    help="A judged query that is missing from a run: counts as 0, or (default) is left out.",
)
@click.option(
    "--no-relevant",
    type=click.Choice(_WORDS),
    help="A query without a relevant document: counts as 0 (default), or is left out.",
)
@click.option(
    "--ties",
    type=click.Choice(["docid", "average", "stable"]),
    help="Equal scores: by document id, descending (default); the mean over their orders; as read.",
)
@click.option(
    "--trec-eval",
    type=click.Choice(["9", "10"]),
    help="Rules of which version: scores compared as doubles (10, default) or 32-bit floats (9), "
    "and its rounding of recall levels.",
)
@number_option(
    "--workers", help="Threads that read a long run; default: one for each core that may be used."
)
@click.option(
    *("--format", "form"),
    type=click.Choice(_FORMATS),
    default="table",
    help="A table for people (default), trec_eval's lines, JSON, or CSV.",
)
def command(
    files: tuple[str, ...], form: Form, per_query: bool, no_summary: bool, **options: Any
) -> None:
    """Score runs against qrels, or predictions against references.

    The rules are trec_eval's: queries that are missing from a run are left out unless -c is given,
    and queries without a relevant document count as 0. Files may be gzipped. trec_eval's long
    options work, too; for options that are not supported, a message says what to use instead.
    """
    refuse((no_summary and not per_query, "-n without -q leaves nothing to print"))
    # no matrix is multiplied here: starting the threads of BLAS would cost more than the work
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from ragbench.registry import looking_in

    output = Output(form, per_query, not no_summary)
    given = {name: value for name, value in options.items() if value not in (None, (), False)}
    score = _predictions if "predictions" in given or "references" in given else _runs
    with looking_in([Path.cwd()]):  # where `run` looks, too, for names with `python:`
        score(files, output, given)


def _runs(files: tuple[str, ...], output: Output, options: dict[str, Any]) -> None:
    is_mixed = files and ("qrels" in options or "runs" in options)
    refuse((is_mixed, "QRELS RUN... or --qrels and --run: one form, not both"))
    qrels, runs = options.pop("qrels", None), options.pop("runs", ())
    if files:
        qrels, *runs = files
    paths = [run if run == "-" else os.path.realpath(run) for run in runs]
    repeated = "".join([run for n, run in enumerate(runs) if paths[n] in paths[:n]][:1])
    refuse(
        (not qrels, "no judgements: give QRELS RUN..., or --qrels and --run"),
        (not runs, f"no run beside the judgements {qrels}: give RUN..., or --run"),
        (qrels == "-", "- is for a run: the judgements must be a file"),
        (repeated, f"the run {repeated} is given twice"),
        (
            "complete" in options and options.get("missing") == "skip",
            "-c and --missing skip contradict each other",
        ),
    )
    # of all the objects that loading makes, no circle is left over: to look for them is for nothing
    gc.disable()
    try:
        from ragbench.cli.score_files import score_runs

        score_runs(qrels, runs, output, **options)
    finally:
        gc.enable()


def _predictions(files: tuple[str, ...], output: Output, options: dict[str, Any]) -> None:
    shared = ("predictions", "references", "measures")
    names = {p.name: p.opts[0] for p in command.params if p.name not in shared}
    of_runs = [*files[:1], *(option for name, option in names.items() if name in options)]
    is_complete = "predictions" in options and "references" in options
    missing = "references" if "predictions" in options else "predictions"
    refuse(
        (of_runs, f"{''.join(of_runs[:1])} is for runs, not for --predictions and --references"),
        (output.form == "trec", "--format trec is for runs; predictions: table, json, csv"),
        (not is_complete, f"--{missing} is missing; the other one was given"),
    )
    from ragbench.cli.score_files import score_predictions

    predictions, references = options.pop("predictions"), options.pop("references")
    score_predictions(predictions, references, output, **options)
