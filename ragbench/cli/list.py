"""Command `ragbench list`: list components, measures, metrics and rubrics."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from ragbench.cli import output
from ragbench.cli.catalog import (
    FAMILIES,
    PRESET_FACTS,
    RUBRIC_FACTS,
    CatalogEntry,
    list_components,
    list_presets,
    list_rubrics,
)


@output.command(
    name="list",
    examples=("ragbench list measures", "ragbench list rubrics faithfulness"),
)
@click.argument("kind", type=click.Choice([*FAMILIES]), required=False)
@click.argument("name", metavar="[NAME|FILE]", required=False)
@output.flag(
    "--all",
    "with_rare",
    help="List measures and metrics that are hardly read as well, such as yaap and "
    "rouge9; a config may always name them.",
)
@output.json_option(help="Print JSON instead of text.")
def command(kind: str | None, name: str | None, with_rare: bool, as_json: bool) -> None:
    """List the components that a config can name; with a KIND, each with its options.

    `list rubrics NAME` prints the exact prompts of a built-in rubric, or of a rubric FILE, filled
    with its first example. Nothing is sent; the word "something" stands for earlier replies of the
    model.
    """
    if name is not None:
        if kind != "rubrics":
            raise click.UsageError("NAME is for rubrics only: ragbench list rubrics NAME")
        _print_prompts(name, as_json)
        return
    kinds = [kind] if kind else list(FAMILIES)
    catalog = {}
    for k in kinds:
        catalog[k] = list_rubrics() if k == "rubrics" else list_components(k, with_rare=with_rare)
    if as_json:
        output.write_json(json.dumps(catalog, indent=2, ensure_ascii=False))
        return
    if kind is None:
        for name, entries in catalog.items():
            output.echo(f"{name} ({len(entries)})", bold=True)
            output.echo(_wrap(f"  {_join_names(entries)}", "  "))
        output.echo(f"\noptions and their meaning: ragbench list {next(iter(catalog))}")
        return
    for name, entries in catalog.items():
        output.echo(name, bold=True)
        group = None
        for names, entry in _group_entries(entries):
            if entry.get("group") != group:
                group = entry["group"]
                output.echo(f" {group}", bold=True)
            _print_entry(names, entry)
        if name == "judges":
            _print_presets()


def _print_presets() -> None:
    """Print the table of local judges: the presets of `classifier`, and `nli`."""
    from ragbench.report.formats.base import Screen
    from ragbench.report.formats.terminal import draw_table
    from ragbench.report.table import word_table

    rows = []
    for preset in list_presets():
        texts = []
        for key in PRESET_FACTS.values():
            fact = preset[key]
            texts.append("not measured here" if fact is None else str(fact))
        rows.append((preset["name"], *texts))
    output.echo("local judges", bold=True)
    for line in draw_table(word_table(("judge", *PRESET_FACTS), rows), Screen(width=sys.maxsize)):
        output.echo(f"  {line}")
    text = "  RAM is that of the weights, as 32-bit floats in dense, in 4 bits on a server."
    output.echo(_wrap(text, "  "))


def _print_prompts(name: str, as_json: bool) -> None:
    """Print the exact prompts of a built-in rubric or a rubric file, as text or JSON."""
    from ragbench.score.judge.methods.templates import prompt_parts
    from ragbench.score.judge.model_judge import example_requests
    from ragbench.score.judge.rubric import load_rubric
    from ragbench.types.lookups import attributes_of

    rubric = load_rubric(name)
    requests: list[dict[str, Any]] = []
    for example in example_requests(rubric):
        messages: dict[str, Any] = {m.role: m.content for m in example.messages}
        requests.append({**messages, "schema": example.schema})
    if as_json:
        content = {
            "rubric": rubric.name,
            **attributes_of(rubric, RUBRIC_FACTS),
            "fingerprints": prompt_parts(rubric),
            "prompts": requests,
        }
        output.write_json(json.dumps(content, indent=2, ensure_ascii=False))
        return
    needs = ", ".join(rubric.needs)
    output.echo(f"{rubric.name}: judges the {rubric.asks}, by {rubric.method}; needs {needs}")
    if rubric.verdicts == "shared":
        output.echo(
            "its prompts are shared: verdicts of the same prompts for another rubric are used"
        )
    for number, request in enumerate(requests, start=1):
        for part, text in request.items():
            output.echo()
            output.echo(f"=== {number} of {len(requests)}: {part}", bold=True)
            output.echo(text if isinstance(text, str) else json.dumps(text, indent=2))


def _group_entries(entries: Sequence[CatalogEntry]) -> list[tuple[str, CatalogEntry]]:
    """Join entries that differ in their names only; return (joined names, one of the entries)."""
    groups: dict[str, list[CatalogEntry]] = {}
    for entry in entries:
        key = str({**entry, "name": ""}) if entry["options"] else entry["name"]
        groups.setdefault(key, []).append(entry)
    rows = []
    for group in groups.values():
        rows.append((_join_names(group), group[0]))
    return rows


def _join_names(entries: Sequence[CatalogEntry]) -> str:
    return ", ".join(entry["name"] for entry in entries)


def _print_entry(names: str, entry: CatalogEntry) -> None:
    """Print the names and help of an entry, and a line per option."""
    output.echo(_wrap(f"  {names}  {entry['help']}", "    "))
    for option in entry["options"]:
        value = option["default"]
        text = value if isinstance(value, str) else json.dumps(value)
        default = "required" if option["required"] else f"default {text}"
        line = "      {name}: {allowed}; {}. {help}".format(default, **option)
        output.echo(_wrap(line, " " * 8))


def _wrap(line: str, indent: str) -> str:
    width = max(output.terminal_width(), 40)
    return textwrap.fill(line.rstrip(), width, subsequent_indent=indent, break_on_hyphens=False)
