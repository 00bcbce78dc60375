"""trec_eval's other options: its long names, and what `ragbench score` does not do, and why."""

from __future__ import annotations

from typing import Any

import click

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
"""trec_eval's long option -> ours."""

_REL_FORMATS = {
    "qrels_jg": "split the file by its second column, the judge, and score each part",
    "prefs": "there is no measure of preferences between pairs; bpref needs grades alone",
    "qrels_prefs": "there is no measure of preferences between pairs; bpref needs grades alone",
}
"""Format of judgements -> what to do instead."""


def our_option(name: str) -> str:
    """Return our name for a long option of trec_eval; others stay as they are."""
    return _LONG.get(name, name)


def rel_format(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Refuse a format of judgements that is not grades."""
    if value in (None, "qrels"):
        return
    instead = _REL_FORMATS.get(str(value))
    if instead:
        raise click.UsageError(f"-R {value} is not there: {instead}")
    raise click.UsageError(f"-R {value}: no such format; allowed: qrels")


def results_format(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Refuse a format of runs that is not TREC's."""
    if value not in (None, "trec_results"):
        raise click.UsageError(f"-T {value}: no such format; allowed: trec_results")


_REFUSED = {
    "-D": "it prints trec_eval's inner steps; ragbench list measures says how each is computed",
    "-Z": "put --format csv -q and the means of your reference runs together instead",
    "-o": "trec_eval dropped that page in version 9; leave it out",
}
"""Option -> why it is not there."""


def refuse(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Say what to do instead of an option of trec_eval that is not there."""
    if value and not context.resilient_parsing:
        option = parameter.opts[0]
        raise click.UsageError(f"{option} is not there: {_REFUSED[option]}")
