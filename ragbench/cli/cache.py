"""Command `ragbench cache`: show, check and remove the results stored between runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sized
from itertools import groupby
from pathlib import Path

import click

from ragbench.cli import output
from ragbench.errors import visible
from ragbench.store.database import CacheEntry
from ragbench.store.maintenance import remove, stored_in, to_prune, verify
from ragbench.types.display import counted

_BYTES = {f"{unit}{b}": 1000.0**n for n, unit in enumerate(["", "k", "m", "g"]) for b in ("", "b")}
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}


@output.command(
    name="cache",
    cls=click.Group,
    invoke_without_command=True,
    examples=("ragbench cache", "ragbench cache prune --older-than 30d"),
)
@click.option(
    "--path",
    type=click.Path(path_type=Path),
    help="The cache folder; default: the variable RAGBENCH_CACHE, or .ragbench.",
)
@click.pass_context
def command(ctx: click.Context, path: Path | None) -> None:
    """Show the size of the cache, which stores results between runs, or manage it.

    The next run computes removed results again, and pays again for removed replies of models.
    """
    from ragbench.files import cache_folder, check_cache

    ctx.obj = check_cache(path) if path else cache_folder()
    if ctx.invoked_subcommand is not None:
        return
    stored = stored_in(ctx.obj)
    output.echo(f"{ctx.obj}: {_size(sum(entry.size for entry in stored))} in {_entries(stored)}")
    for kind, entries in groupby(stored, key=lambda entry: entry.kind):
        sizes = [entry.size for entry in entries]
        output.echo(f"  {kind:<10}{_size(sum(sizes)):>10}  {_entries(sizes)}")


@output.command(name="prune", group=command)
@click.option(
    "--older-than", metavar="AGE", help="Remove entries not used for this long: 12h, 30d, 8w."
)
@click.option(
    "--max-size", metavar="SIZE", help="Keep the newest entries up to this size: 500M, 2G."
)
@click.pass_obj
def prune(folder: Path, older_than: str | None, max_size: str | None) -> None:
    """Remove entries by age, or the oldest above a size; replies of models stay.

    At least one of the two options is needed. A run that is in progress is not disturbed; the next
    run computes removed entries again.
    """
    if older_than is None and max_size is None:
        raise click.UsageError("pass --older-than AGE, --max-size SIZE, or both")
    days = _amount(older_than, _DAYS, "--older-than", "12h, 30d, 8w")
    size = _amount(max_size, _BYTES, "--max-size", "500M, 2G")
    _remove(to_prune(stored_in(folder), older_than_days=days, keep_bytes=size))


@output.command(name="verify", group=command)
@click.pass_context
def verify_command(ctx: click.Context) -> None:
    """Check every checksum; the next run computes damaged items again.

    The exit code is 2 if an item is damaged, else 0.
    """
    from ragbench.errors import EXIT_BAD_INPUT

    total = 0
    for path, damaged, description in verify(ctx.obj):
        total += damaged
        output.echo(f"{path}: {counted(damaged, 'damaged items')} ({description})")
    output.echo(counted(total, "damaged items"))
    ctx.exit(EXIT_BAD_INPUT if total else 0)


@output.command(name="clear", group=command)
@output.flag("--replies", help="Also remove replies of models, which were paid for.")
@output.flag("--yes", help="Do not ask.")
@click.pass_obj
def clear(folder: Path, replies: bool, yes: bool) -> None:
    """Remove all stored results of stages.

    A run that is in progress is not disturbed; the next run computes removed results again, and
    pays again for removed replies. Without a terminal, --yes is needed.
    """
    # replies cost money, everything else only time
    entries = []
    for entry in stored_in(folder):
        if replies or entry.kind != "replies":
            entries.append(entry)
    if entries and not yes:
        if not sys.stdin.isatty():
            text = f"cannot ask about {_entries(entries)} without a terminal; use --yes"
            raise click.UsageError(text)
        question = f"Remove {_entries(entries)} from {folder}?"
        click.confirm(visible(question), abort=True, err=True)
    _remove(entries)


def _remove(entries: list[CacheEntry]) -> None:
    freed = remove(entries)
    output.echo(f"removed {_entries(entries)}, {_size(freed)}")


def _entries(entries: Sized) -> str:
    """Return the number of entries: `1 entry`."""
    return counted(len(entries), "entries")


def _size(size: float) -> str:
    """Format a number of bytes: `800 B`, `1.2 kB`; a unit is 1,000 of the smaller one, up to GB."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _amount(
    text: str | None, units: Mapping[str, float], option: str, examples: str
) -> float | None:
    """Parse a number with a unit, such as `12h`, in days or bytes; None for None."""
    if text is None:
        return None
    # the pattern has the units, so that an unknown unit is a usage error and no KeyError
    match = re.fullmatch(rf"(?<![\d.])(\d+(?:\.\d+)?)({'|'.join(units)})", text.strip().lower())
    if match is None:
        problem = f"found {text!r}, allowed: a number and its unit, as in {examples}"
        raise click.BadParameter(problem, param_hint=option)
    return float(match[1]) * units[match[2]]
