"""`ragbench list`."""

from __future__ import annotations

from typing import Any

import click

_KINDS = ("retrievers", "generators", "loaders", "measures", "metrics", "judges", "rubrics")


@click.command(name="list")
@click.argument("kind", type=click.Choice(_KINDS), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(kind: str | None, as_json: bool) -> None:
    """List what a config can name: types with their options, measures, metrics and rubrics.

    Names that are planned but not built yet are marked.
    """
    import json

    kinds = [kind] if kind else list(_KINDS)
    catalog = {name: _rubrics() if name == "rubrics" else _components(name) for name in kinds}
    if as_json:
        click.echo(json.dumps(catalog, indent=2, ensure_ascii=False))
        return
    for position, (name, entries) in enumerate(catalog.items()):
        if position:
            click.echo()
        click.secho(name, bold=True)
        group = None
        for entry in entries:
            if entry.get("group") != group:
                group = entry["group"]
                click.secho(f" {group}", bold=True)
            _show(entry)


def _show(entry: dict[str, Any]) -> None:
    """Print one name with its options; colour repeats what the words say."""
    if not entry["built"]:
        click.secho(f"  {entry['name']}  (not built yet)", dim=True)
        return
    click.echo(f"  {entry['name']}  {entry['help']}".rstrip())
    for option in entry["options"]:
        default = "required" if option["required"] else f"default {_word(option['default'])}"
        click.echo(f"      {option['name']}: {option['allowed']}; {default}. {option['help']}")


def _word(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value)


def _components(kind: str) -> list[dict[str, Any]]:
    """The members of a family, and what the design has besides."""
    from ragbench.errors import DataError
    from ragbench.registry import summary_line

    family = _family(kind)
    found = []
    for name in family.names():
        try:
            component = family.load(name)
        except DataError as error:  # a package that is installed but broken
            found.append({"name": name, "help": str(error), "built": True, "options": []})
            continue
        entry = {"name": name, "help": summary_line(component), "built": True}
        # a metric's options are arguments of the Python functions: a config names metrics only
        options = [] if kind == "metrics" else _options(component)
        found.append({**entry, "options": options})
    names = {entry["name"] for entry in found}
    planned = sorted(family.planned - names)
    found += [{"name": name, "help": "", "built": False, "options": []} for name in planned]
    return _grouped(found) if kind == "measures" else found


def _grouped(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put measures of one kind together, and say which kind it is."""
    from ragbench.score.retrieval import GROUPS

    group_of = {name: group for group, names in GROUPS.items() for name in names}
    found = [{**entry, "group": group_of.get(entry["name"], "others")} for entry in entries]
    order = [*GROUPS, "others"]
    return sorted(found, key=lambda entry: (order.index(entry["group"]), not entry["built"]))


def _rubrics() -> list[dict[str, Any]]:
    """The built-in rubrics, with what their best level means."""
    from ragbench.config.schema import JudgeCommon
    from ragbench.score.judge.rubric import built_in_rubrics, load_rubric

    found = []
    for name in built_in_rubrics():
        rubric = load_rubric(name)
        sentence = f"{rubric.levels} levels; the highest: {rubric.meaning(rubric.levels)}"
        found.append({"name": name, "help": sentence, "built": True, "options": []})
    planned = sorted(JudgeCommon.planned_rubrics - {entry["name"] for entry in found})
    return found + [{"name": name, "help": "", "built": False, "options": []} for name in planned]


def _family(kind: str) -> Any:
    from ragbench.data import LOADERS
    from ragbench.generate import GENERATORS
    from ragbench.retrieve import RETRIEVERS
    from ragbench.score.judge import JUDGES
    from ragbench.score.retrieval import MEASURES
    from ragbench.score.text import METRICS

    return {
        "retrievers": RETRIEVERS,
        "generators": GENERATORS,
        "loaders": LOADERS,
        "measures": MEASURES,
        "metrics": METRICS,
        "judges": JUDGES,
    }[kind]


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


def _plain(value: Any) -> Any:
    """A default as JSON has it."""
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)
