"""Catalog of components, measures, metrics and rubrics, as `ragbench list` prints it."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from ragbench.registry import Family, declared_options, summary_line

if TYPE_CHECKING:
    from ragbench.score.text.base import Declaration

# Kind of component, in the order of the list -> place of its family.
FAMILIES = {
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
PRESET_FACTS = {
    "size": "size",
    "licence": "licence",
    "languages": "languages",
    "RAM": "ram",
    "needs": "needs",
    "AUC": "auc",
}
# Attributes of a rubric that its JSON has as keys.
RUBRIC_FACTS = ("asks", "needs", "method", "direction")
# Component, measure, metric or rubric as `--json` shows it: `group` for a measure, then `name` in a
# config, `help` (a sentence, or the error of a broken package), `options` and keys of its kind
CatalogEntry = dict[str, Any]


def list_presets() -> list[dict[str, Any]]:
    """Return name, model and facts of each local judge, in the order of their file."""
    from ragbench.score.judge.presets import load_presets
    from ragbench.types.lookups import attributes_of

    keys = ("model", "source", *PRESET_FACTS.values())
    presets: list[dict[str, Any]] = []
    for name, preset in load_presets().items():
        presets.append({"name": name, **attributes_of(preset, keys)})
    return presets


def list_components(kind: str, *, with_rare: bool) -> list[CatalogEntry]:
    """List the members of a family, such as `measures`, which are sorted by their groups."""
    from ragbench.errors import DataError
    from ragbench.score.retrieval.base import Group, spec_of

    module, _, name = FAMILIES[kind].partition(":")
    family: Family = getattr(importlib.import_module(module), name)
    entries = list[CatalogEntry]()
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


def _pass_metrics() -> list[CatalogEntry]:
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
        return {"presets": list_presets()}
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


def list_rubrics() -> list[CatalogEntry]:
    """Return an entry for each built-in rubric, sorted by name."""
    from ragbench.score.judge import JUDGES
    from ragbench.score.judge.base import judge_facts
    from ragbench.score.judge.rubric import built_in_rubrics, describe_rubric, load_rubric
    from ragbench.types.lookups import attributes_of

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
        facts = attributes_of(rubric, RUBRIC_FACTS)
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
