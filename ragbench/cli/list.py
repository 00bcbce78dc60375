"""`ragbench list`."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ragbench.registry import Family

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
}
"""What can be listed, in this order -> the family that has it."""


@click.command(name="list")
@click.argument("kind", type=click.Choice([*_FAMILIES]), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(kind: str | None, as_json: bool) -> None:
    """List what a config can name: types with their options, measures, metrics and rubrics."""
    kinds = [kind] if kind else list(_FAMILIES)
    catalog = {name: _rubrics() if name == "rubrics" else _components(name) for name in kinds}
    if as_json:
        click.echo(json.dumps(catalog, indent=2, ensure_ascii=False))
        return
    for position, (name, entries) in enumerate(catalog.items()):
        if position:
            click.echo()
        click.secho(name, bold=True)
        group = None
        for names, entry in _alike(entries):
            if entry.get("group") != group:
                group = entry["group"]
                click.secho(f" {group}", bold=True)
            _show(names, entry)


def _alike(entries: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The entries with their names; those that differ in nothing else are one."""
    shared: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        rest = {key: value for key, value in entry.items() if key != "name"}
        key = str(rest) if entry["options"] else entry["name"]
        shared.setdefault(key, []).append(entry)
    return [(", ".join(each["name"] for each in same), same[0]) for same in shared.values()]


def _show(names: str, entry: dict[str, Any]) -> None:
    """Print names with their options; colour repeats what the words say."""
    click.echo(f"  {names}  {entry['help']}".rstrip())
    for option in entry["options"]:
        default = "required" if option["required"] else f"default {_word(option['default'])}"
        click.echo(f"      {option['name']}: {option['allowed']}; {default}. {option['help']}")


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _components(kind: str) -> list[dict[str, Any]]:
    """The members of a family; `built` is what readers of earlier lists look for."""
    from ragbench.errors import DataError
    from ragbench.registry import summary_line

    module, _, name = _FAMILIES[kind].partition(":")
    family: Family = getattr(importlib.import_module(module), name)
    found = []
    for name in family.names():
        try:
            component = family.load(name)
        except DataError as error:  # a package that is installed but broken
            found.append({"name": name, "help": str(error), "built": True, "options": []})
            continue
        entry = {"name": name, "help": summary_line(component) + _needs(component), "built": True}
        found.append({**entry, "options": _options(component), **_facts(name, component)})
    return _grouped(found) if kind == "measures" else found


def _grouped(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from typing import get_args

    from ragbench.score.retrieval.base import Group

    order = get_args(Group)
    found = [{"group": "others", **entry} for entry in entries]
    return sorted(found, key=lambda entry: order.index(entry["group"]))


def _facts(name: str, component: Any) -> dict[str, Any]:
    """What a measure or metric says about itself, for the docs."""
    from ragbench.score.retrieval.base import spec_of

    if (spec := spec_of(component)) is not None:
        return {"group": spec.group}
    declared = getattr(component, "declaration", None)
    if declared is None:
        return {}
    from ragbench.score.text.notation import parse_metric

    low, high = parse_metric(name).range
    return {
        "parts": list(declared.parts),
        "range": [_limit(low), _limit(high)],
        "direction": declared.direction,
        "equals": declared.equals,
        "not_for": declared.not_for,
    }


def _limit(value: float) -> float | None:
    return value if abs(value) != float("inf") else None


def _rubrics() -> list[dict[str, Any]]:
    """The built-in rubrics: what they ask of, need, and do, and which judges can apply them."""
    from ragbench.score.judge import JUDGES
    from ragbench.score.judge.rubric import about, built_in_rubrics, load_rubric

    served = {name: getattr(JUDGES.load(name), "served", None) for name in JUDGES.table}
    found = []
    for name in built_in_rubrics():
        rubric, said = load_rubric(name), about(name)
        judges = [judge for judge, names in served.items() if names is None or name in names]
        lower = ", lower is better" if rubric.direction == "lower" else ""
        sentence = (
            f"{said.measures} Asks of {rubric.asks}, by {rubric.method}{lower}; needs "
            f"{', '.join(rubric.needs)}; judge: {', '.join(judges)}"
        )
        entry = {"name": name, "help": sentence, "built": True, "options": []}
        facts = {
            "asks": rubric.asks,
            "needs": rubric.needs,
            "method": rubric.method,
            "direction": rubric.direction,
            "judges": judges,
        }
        found.append({**entry, **facts, **said._asdict()})
    return found


def _options(component: Any) -> list[dict[str, Any]]:
    from ragbench.registry import declared_options

    cutoff = getattr(getattr(component, "measure_spec", None), "cutoff", None)
    return [
        {
            "name": option.name,
            "help": option.option.help,
            "allowed": option.allowed,
            "required": option.required or (option.name == "k" and cutoff == "required"),
            "default": None if option.required else _plain(option.default),
        }
        for option in declared_options(component).values()
    ]


def _needs(component: Any) -> str:
    spec = getattr(component, "measure_spec", None)
    return "" if spec is None or spec.reads == "grades" else f" (needs {spec.needs})"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)
