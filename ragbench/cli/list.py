"""`ragbench list`."""

from __future__ import annotations

import importlib
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import click

from ragbench.cli.output import echo, json_option, terminal_width, write_json
from ragbench.registry import Family, declared_options, summary_line

# kinds of components, in the order of the list -> their family
_FAMILIES = {
    "retrievers": "ragbench.retrieve:RETRIEVERS",
    "rerankers": "ragbench.rerank:RERANKERS",
    "generators": "ragbench.generate:GENERATORS",
    "apps": "ragbench.generate:APPS",
    "loaders": "ragbench.data:LOADERS",
    "measures": "ragbench.score.retrieval:MEASURES",
    "metrics": "ragbench.score.text:METRICS",
    "judges": "ragbench.score.judge:JUDGES",
    "rubrics": "",  # files, no family of code
    "gates": "ragbench.gates:GATES",
    "executors": "ragbench.executors:EXECUTORS",
}
# attributes of a rubric that are keys of its JSON
_RUBRIC_FACTS = ("asks", "needs", "method", "direction")


@dataclass(frozen=True)
class Listed:
    """A component, measure, metric or rubric that a config can name.

    Attributes:
        options: Options of the component, as JSON has them.
        facts: Further keys of metrics and rubrics, as JSON has them.
    """

    name: str
    help: str
    options: Sequence[Mapping[str, Any]] = ()
    group: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON; `built` is always true, and kept for scripts that read it."""
        group = {} if self.group is None else {"group": self.group}
        named = {"name": self.name, "help": self.help, "built": True, "options": self.options}
        return {**group, **named, **self.facts}


@click.command(name="list")
@click.argument("kind", type=click.Choice([*_FAMILIES]), required=False)
@click.argument("name", metavar="[NAME|FILE]", required=False)
@json_option(help="Print JSON instead of text.")
def command(kind: str | None, name: str | None, as_json: bool) -> None:
    """List what a config can name: the families, or of one KIND what is in it, with its options.

    `list rubrics NAME` prints the exact prompts of a built-in rubric, or of a rubric FILE. They are
    filled with its first example; nothing is sent, and "something" stands for what a model would
    have said before.
    """
    if name is not None:
        if kind != "rubrics":
            raise click.UsageError("NAME shows the prompts of a rubric: ragbench list rubrics NAME")
        _show_prompts(name, as_json)
        return
    kinds = [kind] if kind else list(_FAMILIES)
    catalog = {name: _rubrics() if name == "rubrics" else _components(name) for name in kinds}
    if as_json:
        written = {name: [each.to_dict() for each in found] for name, found in catalog.items()}
        write_json(json.dumps(written, indent=2, ensure_ascii=False))
        return
    if kind is None:
        for name, entries in catalog.items():
            echo(f"{name} ({len(entries)})", bold=True)
            names = ", ".join(entry.name for entry in entries)
            echo(textwrap.fill(names, 100, initial_indent="  ", subsequent_indent="  "))
        echo(f"\nwith options and what they mean: ragbench list {next(iter(catalog))}")
        return
    for name, entries in catalog.items():
        echo(name, bold=True)
        group = None
        for names, entry in _alike(entries):
            if entry.group != group:
                group = entry.group
                echo(f" {group}", bold=True)
            _show(names, entry)


def _show_prompts(name: str, as_json: bool) -> None:
    """Print the prompts of one rubric, word for word."""
    from ragbench.score.judge.methods.templates import prompt_fingerprint
    from ragbench.score.judge.model_judge import example_requests
    from ragbench.score.judge.rubric import load_rubric

    rubric = load_rubric(name)
    requests = [
        {
            **{message.role: message.content for message in request.messages},
            "schema": request.schema,
        }
        for request in example_requests(rubric)
    ]
    if as_json:
        shown = {
            "rubric": rubric.name,
            **{fact: getattr(rubric, fact) for fact in _RUBRIC_FACTS},
            "fingerprint": prompt_fingerprint(rubric),
            "prompts": requests,
        }
        write_json(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    needs = ", ".join(rubric.needs)
    echo(f"{rubric.name}: asks of {rubric.asks}, by {rubric.method}; needs {needs}")
    if rubric.verdicts == "shared":
        echo("its prompts are shared: verdicts that another rubric has requested are used again")
    for number, request in enumerate(requests, start=1):
        for part, text in request.items():
            echo()
            echo(f"=== {number} of {len(requests)}: {part}", bold=True)
            echo(text if isinstance(text, str) else json.dumps(text, indent=2))


def _alike(entries: Sequence[Listed]) -> list[tuple[str, Listed]]:
    """The entries with their names; those that differ in nothing else are one."""
    shared: dict[str, list[Listed]] = {}
    for entry in entries:
        key = str(replace(entry, name="")) if entry.options else entry.name
        shared.setdefault(key, []).append(entry)
    return [(", ".join(each.name for each in same), same[0]) for same in shared.values()]


def _show(names: str, entry: Listed) -> None:
    """Print names with their options; colour repeats what the words say."""
    echo(_wrapped(f"  {names}  {entry.help}", "    "))
    for option in entry.options:
        value = option["default"]
        text = value if isinstance(value, str) else json.dumps(value)
        default = "required" if option["required"] else f"default {text}"
        line = "      {name}: {allowed}; {}. {help}".format(default, **option)
        echo(_wrapped(line, " " * 8))


def _wrapped(line: str, indent: str) -> str:
    width = max(terminal_width(), 40)
    return textwrap.fill(line.rstrip(), width, subsequent_indent=indent, break_on_hyphens=False)


def _components(kind: str) -> list[Listed]:
    """The members of a family; measures by their groups."""
    from ragbench.errors import DataError
    from ragbench.score.retrieval.base import Group, spec_of

    module, _, name = _FAMILIES[kind].partition(":")
    family: Family = getattr(importlib.import_module(module), name)
    found = []
    for name in family.names():
        try:
            component = family.load(name)
        except DataError as error:  # a package that is installed but broken
            found.append(Listed(name, str(error), group="others" if kind == "measures" else None))
            continue
        said, spec = summary_line(component), spec_of(component)
        if spec is not None and spec.reads != "grades":
            said += f" (needs {spec.needs})"
        group = spec.group if spec is not None else "others" if kind == "measures" else None
        options = _options(component, k_is_required=spec is not None and spec.cutoff == "required")
        found.append(Listed(name, said, options, group, _facts(kind, name, component)))
    groups = get_args(Group)
    return sorted(found, key=lambda e: groups.index(e.group)) if kind == "measures" else found


def _facts(kind: str, name: str, component: object) -> dict[str, Any]:
    if kind != "metrics":
        return {}
    from ragbench.score.text.base import declaration_of
    from ragbench.score.text.notation import parse_metric

    declared = declaration_of(component)
    if declared is None:
        return {}
    return {
        "parts": list(declared.parts),
        "range": [None if math.isinf(limit) else limit for limit in parse_metric(name).range],
        "direction": declared.direction,
        "equals": declared.equals,
        "not_for": declared.not_for,
    }


def _rubrics() -> list[Listed]:
    """The built-in rubrics: what they ask of, need, and do, and which judges can apply them."""
    from ragbench.score.judge import JUDGES
    from ragbench.score.judge.base import judge_facts
    from ragbench.score.judge.rubric import built_in_rubrics, describe_rubric, load_rubric

    served = {name: judge_facts(JUDGES.load(name)).served for name in JUDGES.table}
    found = []
    for name in built_in_rubrics():
        rubric, said = load_rubric(name), describe_rubric(name)
        judges = [judge for judge, names in served.items() if names is None or name in names]
        lower = ", lower is better" if rubric.direction == "lower" else ""
        sentence = (
            f"{said.measures} Asks of {rubric.asks}, by {rubric.method}{lower}; needs "
            f"{', '.join(rubric.needs)}; judge: {', '.join(judges)}"
        )
        facts = {fact: getattr(rubric, fact) for fact in _RUBRIC_FACTS}
        facts |= {"judges": judges, **said._asdict()}
        found.append(Listed(name, sentence, facts=facts))
    return found


def _options(component: Any, *, k_is_required: bool) -> list[dict[str, Any]]:
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
