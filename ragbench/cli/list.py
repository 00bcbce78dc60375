"""Command `ragbench list`: list components, measures, metrics and rubrics."""

from __future__ import annotations

import importlib
import json
import math
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from ragbench.cli import output
from ragbench.registry import Family, declared_options, summary_line
from ragbench.types.lookups import attributes_of

if TYPE_CHECKING:
    from ragbench.score.text.base import Declaration

# Kind of component, in the order of the list -> place of its family.
_FAMILIES = {
    "retrievers": "ragbench.retrieve:RETRIEVERS",
    "rerankers": "ragbench.rerank:RERANKERS",
    "generators": "ragbench.generate:GENERATORS",
    "apps": "ragbench.generate:APPS",
    "loaders": "ragbench.data:LOADERS",
    "measures": "ragbench.score.retrieval:MEASURES",
    "metrics": "ragbench.score.text:METRICS",
    "judges": "ragbench.score.judge:JUDGES",
    "rubrics": "",  # YAML files, which have no family
    "gates": "ragbench.gates:GATES",
    "executors": "ragbench.executors:EXECUTORS",
}
# Column of the table of local judges -> key of a preset.
_PRESET_FACTS = {
    **{name: name for name in ("size", "licence", "languages")},
    **{"RAM": "ram", "needs": "needs", "AUC": "auc"},
}
# Attributes of a rubric that its JSON has as keys.
_RUBRIC_FACTS = ("asks", "needs", "method", "direction")


# Component, measure, metric or rubric as `--json` shows it: `group` for a measure, then `name` in a
# config, `help` (a sentence, or the error of a broken package), `options` and keys of its kind
_Entry = dict[str, Any]


@output.command(
    name="list",
    examples=("ragbench list measures", "ragbench list rubrics faithfulness"),
)
@click.argument("kind", type=click.Choice([*_FAMILIES]), required=False)
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
    kinds = [kind] if kind else list(_FAMILIES)
    catalog = {}
    for k in kinds:
        catalog[k] = _list_rubrics() if k == "rubrics" else _list_components(k, with_rare=with_rare)
    if as_json:
        output.write_json(json.dumps(catalog, indent=2, ensure_ascii=False))
        return
    if kind is None:
        for name, entries in catalog.items():
            output.echo(f"{name} ({len(entries)})", bold=True)
            names = ", ".join(entry["name"] for entry in entries)
            output.echo(_wrap(f"  {names}", "  "))
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
    for preset in _presets():
        texts = []
        for key in _PRESET_FACTS.values():
            fact = preset[key]
            texts.append("not measured here" if fact is None else str(fact))
        rows.append((preset["name"], *texts))
    output.echo("local judges", bold=True)
    for line in draw_table(word_table(("judge", *_PRESET_FACTS), rows), Screen(width=sys.maxsize)):
        output.echo(f"  {line}")
    text = "  RAM is that of the weights, as 32-bit floats in dense, in 4 bits on a server."
    output.echo(_wrap(text, "  "))


def _presets() -> list[dict[str, Any]]:
    """Return name, model and facts of each local judge, in the order of their file."""
    from ragbench.score.judge.presets import load_presets

    keys = ("model", "source", *_PRESET_FACTS.values())
    presets: list[dict[str, Any]] = []
    for name, preset in load_presets().items():
        presets.append({"name": name, **attributes_of(preset, keys)})
    return presets


def _print_prompts(name: str, as_json: bool) -> None:
    """Print the exact prompts of a built-in rubric or a rubric file, as text or JSON."""
    from ragbench.score.judge.methods.templates import prompt_parts
    from ragbench.score.judge.model_judge import example_requests
    from ragbench.score.judge.rubric import load_rubric

    rubric = load_rubric(name)
    requests: list[dict[str, Any]] = []
    for example in example_requests(rubric):
        messages: dict[str, Any] = {m.role: m.content for m in example.messages}
        requests.append({**messages, "schema": example.schema})
    if as_json:
        content = {
            "rubric": rubric.name,
            **attributes_of(rubric, _RUBRIC_FACTS),
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


def _group_entries(entries: Sequence[_Entry]) -> list[tuple[str, _Entry]]:
    """Join entries that differ in their names only; return (joined names, one of the entries)."""
    groups: dict[str, list[_Entry]] = {}
    for entry in entries:
        key = str({**entry, "name": ""}) if entry["options"] else entry["name"]
        groups.setdefault(key, []).append(entry)
    rows = []
    for group in groups.values():
        rows.append((", ".join(entry["name"] for entry in group), group[0]))
    return rows


def _print_entry(names: str, entry: _Entry) -> None:
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


def _list_components(kind: str, *, with_rare: bool) -> list[_Entry]:
    """List the members of a family, such as `measures`, which are sorted by their groups."""
    from ragbench.errors import DataError
    from ragbench.score.retrieval.base import Group, spec_of

    module, _, name = _FAMILIES[kind].partition(":")
    family: Family = getattr(importlib.import_module(module), name)
    entries = list[_Entry]()
    fallback = {"group": "others"} if kind == "measures" else {}
    for name in family.names():
        if name in family.rare and not with_rare:
            continue
        try:
            component = family.load(name)
        except DataError as error:  # an entry point of an installed package that fails to load
            entries.append({**fallback, "name": name, "help": str(error), "options": []})
            continue
        summary, spec = summary_line(component), spec_of(component)
        if spec is not None and spec.reads != "grades":
            summary += f" (needs {spec.needs})"
        if spec is not None and spec.aliases:
            summary += f"; also {', '.join(spec.aliases)}"
        facts = _further_facts(kind, name, component)
        if facts.get("direction") == "lower":
            summary += "; lower is better"
        group = fallback if spec is None else {"group": spec.group}
        needs_k = spec is not None and spec.cutoff == "required"
        options = _describe_options(component, k_is_required=needs_k)
        entries.append({**group, "name": name, "help": summary, "options": options, **facts})
    if kind == "metrics":
        entries += _pass_metrics()
    if kind == "measures":
        groups = get_args(Group)
        entries.sort(key=lambda entry: groups.index(entry["group"]))
    return entries


def _pass_metrics() -> list[_Entry]:
    """Return the entries of `pass^k` and `pass@k`, which stand in no table: k is part of a name."""
    from ragbench.score.text.pass_rate import PASS_METRICS, parse_pass

    entries = []
    for name, summary in PASS_METRICS.items():
        metric = parse_pass(name.replace("k", "1"))
        declared = {} if metric is None else _declared_facts(metric.declaration, metric.range)
        text = f"{summary}; {name.replace('k', '3')} needs `repeat: 3` or more"
        entries.append({"name": name, "help": text, "options": [], **declared})
    return entries


def _further_facts(kind: str, name: str, component: object) -> dict[str, Any]:
    """Return the declaration of a score or the presets of `classifier` as JSON keys."""
    if kind == "judges" and name == "classifier":
        return {"presets": _presets()}
    if kind not in ("measures", "metrics"):
        return {}
    from ragbench.score.retrieval.base import spec_of
    from ragbench.score.text.base import declaration_of
    from ragbench.score.text.notation import parse_metric

    if callable(component) and (spec := spec_of(component)) is not None:
        return {"direction": spec.direction}
    declared = declaration_of(component)
    if declared is None:
        return {}
    return _declared_facts(declared, parse_metric(name).range)


def _declared_facts(declared: Declaration, limits: Sequence[float]) -> dict[str, Any]:
    """Return the declared parts, range, direction and advice of a metric or measure."""
    return {
        "parts": list(declared.parts),
        "range": [None if math.isinf(limit) else limit for limit in limits],
        "direction": declared.direction,
        "equals": declared.equals,
        "not_for": declared.not_for,
    }


def _list_rubrics() -> list[_Entry]:
    """Return an entry for each built-in rubric, sorted by name."""
    from ragbench.score.judge import JUDGES
    from ragbench.score.judge.base import judge_facts
    from ragbench.score.judge.rubric import built_in_rubrics, describe_rubric, load_rubric

    served = {name: judge_facts(JUDGES.load(name)).served for name in JUDGES.table}
    entries = []
    for name in built_in_rubrics():
        rubric, description = load_rubric(name), describe_rubric(name)
        judges = []
        for judge, names in served.items():
            if names is None or name in names:
                judges.append(judge)
        lower = ", lower is better" if rubric.direction == "lower" else ""
        sentence = (
            f"{description.measures} Judges the {rubric.asks}, by {rubric.method}{lower}; needs "
            f"{', '.join(rubric.needs)}; judge: {', '.join(judges)}"
        )
        facts = attributes_of(rubric, _RUBRIC_FACTS)
        facts |= {"judges": judges, **description._asdict()}
        entries.append({"name": name, "help": sentence, "options": [], **facts})
    return entries


def _describe_options(component: Any, *, k_is_required: bool) -> list[dict[str, Any]]:
    """Return the options of a component as JSON objects, in the order of its constructor."""
    rows = []
    for option in declared_options(component).values():
        default = None if option.required else option.default
        is_plain = default is None or isinstance(default, (str, bool, int, float))
        rows.append(
            {
                "name": option.name,
                "help": option.option.help,
                "allowed": option.allowed,
                "required": option.required or (option.name == "k" and k_is_required),
                "default": default if is_plain else str(default),
            }
        )
    return rows
