"""Command `ragbench score`: a drop-in for trec_eval, and scores of predictions, without config."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import click

from ragbench import __version__
from ragbench.cli import output
from ragbench.errors import EXIT_INCOMPLETE

# Long option of trec_eval -> option of ragbench.
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
}

_FORMATS = ("table", "trec", "json", "csv")
_WORDS = ("zero", "skip")


@output.command(
    name="score",
    examples=(
        "ragbench score qrels.txt bm25.run -m ndcg@10",
        "ragbench score --predictions answers.jsonl --references gold.jsonl",
    ),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: _LONG.get(name, name),
    },
)
@click.argument("files", nargs=-1, metavar="[QRELS RUN...]")
@click.option(
    "--qrels", metavar="FILE", help="The relevance judgements; default: the first argument."
)
@output.several(
    "--run", "runs", metavar="FILE", help="A run file, or - for standard input; repeatable."
)
@output.several(
    "--predictions",
    metavar="FILE",
    help="Generated answers of a system: JSONL, CSV, or lines of text; repeatable.",
)
@output.several("--references", metavar="FILE", help="Gold answers in the same format; repeatable.")
@output.several(
    "-m",
    "--measure",
    "measures",
    help="A measure or metric, in the spelling of ragbench, trec_eval or ir_measures; "
    "repeatable. Default: trec_eval's official set; for predictions ROUGE and "
    "BLEU.",
)
@output.flag("-q", "--per-query", help="Also print the values of every query.")
@output.flag("-n", "--no-summary", help="Leave out the means; needs -q.")
@output.flag(
    "-c", "--complete", help="Count judged queries that a run lacks as 0 (--missing zero)."
)
@output.number_option("-l", "--level", help="Smallest grade of a relevant document; default 1.")
@output.number_option("-M", "--depth", help="Use only the first N documents of each ranking.")
@output.flag("-J", "--judged-only", help="Remove unjudged documents from the runs before scoring.")
@output.number_option(
    "-N",
    "--documents",
    help="Number of documents in the collection; `utility` with a fourth parameter needs it.",
)
@click.option(
    "-R",
    "--rel-format",
    type=click.Choice(["qrels"]),
    expose_value=False,
    help="Format of the judgements; only qrels is supported.",
)
@click.option(
    "-T",
    "--results-format",
    type=click.Choice(["trec_results"]),
    expose_value=False,
    help="Format of the runs; only trec_results is supported.",
)
@click.version_option(
    __version__, "-v", "--version", prog_name="ragbench", message="%(prog)s %(version)s"
)
@click.option(
    "--missing",
    type=click.Choice(_WORDS),
    help="Count a judged query that a run lacks as 0, or leave it out (default).",
)
@click.option(
    "--no-relevant",
    type=click.Choice(_WORDS),
    help="Count a query without a relevant document as 0 (default), or leave it out.",
)
@click.option(
    "--ties",
    type=click.Choice(["docid", "average", "stable"]),
    help="Order of equal scores: by document id, descending (default), the mean over "
    "all orders, or as in the file.",
)
@click.option(
    "--trec-eval",
    type=click.Choice(["9", "10"]),
    help="Version whose rules apply: 10 (default) compares scores as doubles, 9 as "
    "32-bit floats; the rounding of recall levels differs too.",
)
@output.number_option(
    "--workers", help="Threads that read a long run; default: one per available core."
)
@click.option(
    "--reasoning",
    type=click.Choice(["cut", "keep"]),
    help="Cut the reasoning of a model (<think>) from predictions (default), or keep it.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="table",
    help="A table (default), the lines of trec_eval, JSON, or CSV.",
)
def command(
    files: tuple[str, ...], form: output.Form, per_query: bool, no_summary: bool, **options: Any
) -> None:
    """Score runs against relevance judgements (qrels), or predictions against references.

    The rules are those of trec_eval: queries that a run lacks are left out unless -c is passed, and
    queries without a relevant document count as 0. Files may be gzipped. The long options of
    trec_eval work too.
    """
    output.refuse((no_summary and not per_query, "-n without -q leaves nothing to print"))
    # scoring multiplies no matrices, and starting the threads of BLAS costs more than the work
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from ragbench.registry import code_folders, looking_in

    parts = {"per_query": per_query, "summary": not no_summary}
    choices = {}
    for name, value in options.items():
        if value not in (None, (), False):
            choices[name] = value
    score = _predictions if "predictions" in choices or "references" in choices else _runs
    with looking_in(code_folders([Path.cwd()])):  # `run` finds `python:` names there, too
        score(files, form, parts, choices)


def _runs(
    files: tuple[str, ...], form: output.Form, parts: output.Parts, options: dict[str, Any]
) -> None:
    """Check the arguments of a score of runs, and print the scores."""
    is_mixed = files and ("qrels" in options or "runs" in options)
    output.refuse((is_mixed, "pass QRELS RUN..., or --qrels and --run, not both"))
    qrels, runs = options.pop("qrels", None), options.pop("runs", ())
    if files:
        qrels, *runs = files
    paths = []
    for run in runs:
        paths.append(run if run == "-" else os.path.realpath(run))
    repeated = "".join([run for n, run in enumerate(runs) if paths[n] in paths[:n]][:1])
    output.refuse(
        (not qrels, "no judgements: pass QRELS RUN..., or --qrels and --run"),
        (not runs, f"no run for the judgements {qrels}: pass RUN..., or --run"),
        (qrels == "-", "- is for a run; the judgements must be a file"),
        (repeated, f"the run {repeated} is passed twice"),
        (
            "complete" in options and options.get("missing") == "skip",
            "-c and --missing skip contradict each other",
        ),
        ("reasoning" in options, "--reasoning is for --predictions, not for runs"),
    )
    # loading leaves no reference cycles, and the search for them would cost time
    gc.disable()
    try:
        from ragbench.cli.score_files import score_runs

        score_runs(qrels, runs, form, parts, **options)
    finally:
        gc.enable()


def _predictions(
    files: tuple[str, ...], form: output.Form, parts: output.Parts, options: dict[str, Any]
) -> None:
    """Check the arguments of a score of predictions, and print the scores."""
    shared = ("predictions", "references", "measures", "reasoning")
    of_runs = [*files[:1]]
    for parameter in command.params:
        if parameter.name in options and parameter.name not in shared:
            of_runs.append(parameter.opts[0])
    is_complete = "predictions" in options and "references" in options
    missing = "references" if "predictions" in options else "predictions"
    output.refuse(
        (of_runs, f"{''.join(of_runs[:1])} is for runs, not for --predictions and --references"),
        (form == "trec", "--format trec is for runs; predictions: table, json, csv"),
        (not is_complete, f"--{missing} is missing; predictions and references belong together"),
    )
    from ragbench.cli.score_files import score_predictions

    predictions, references = options.pop("predictions"), options.pop("references")
    is_complete = score_predictions(predictions, references, form, parts, **options)
    if not is_complete:
        click.get_current_context().exit(EXIT_INCOMPLETE)
