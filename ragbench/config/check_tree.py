"""The checks of a whole config, block by block, and what they make of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ragbench.config.blocks import check_block
from ragbench.config.check import check_options
from ragbench.config.components import Checked, check_component, retriever_family
from ragbench.config.datasets import check_dataset_options
from ragbench.config.gate_block import Gate
from ragbench.config.gates import GateContext, check_gates, pairs_of
from ragbench.config.judges import check_clusters
from ragbench.config.known_scores import known_scores
from ragbench.config.problems import Report
from ragbench.config.references import Context, report_cycles
from ragbench.config.resolve import resolve_options
from ragbench.config.schema import (
    BLOCKS,
    BudgetLimits,
    Component,
    Executor,
    ExperimentConfig,
    Metrics,
    Top,
)
from ragbench.config.scores import check_metrics
from ragbench.config.scoring_blocks import Statistics
from ragbench.config.statistics import check_statistics
from ragbench.config.sweep import Expanded, expand_sweeps
from ragbench.config.tree import Item
from ragbench.registry import Family, declared_options

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
# what expand_sweeps makes; a saved config has these names
_SWEPT_NAME = re.compile(r"[A-Za-z0-9_.-]+?(?:-[A-Za-z_][A-Za-z0-9_.]*=[A-Za-z0-9_.+-]+)+")
_NAME_ALLOWED = "letters, digits, '_', '.' and '-'"


class TreeCheck:
    """The checks of one tree, block by block."""

    def __init__(
        self,
        tree: Item,
        report: Report,
        path: Path | None,
        base: Path,
        live: tuple[Collection[str], Collection[str], Collection[str]],
    ) -> None:
        self.tree, self.report, self.path = tree, report, path
        self.live_retrievers, self.live_generators, self.live_apps = live
        self.swept = {block: self._expand(block) for block in ("retrievers", "generators", "apps")}
        names = dict.fromkeys([*self.swept["retrievers"].components, *self.live_retrievers])
        self.context = Context(report, base, list(names), self.swept["retrievers"].members)

    def build(self) -> ExperimentConfig | None:
        """Check everything; None where anything is wrong."""
        from ragbench.data import LOADERS
        from ragbench.generate import GENERATORS
        from ragbench.generate.apps import APPS

        declared = declared_options(Top)
        top = check_options(self.tree, declared, self.report, others=BLOCKS, planned=Top.planned)
        resolve_options(self.tree, declared, top, self.context)
        name = self._name(top.get("name"))
        dataset = self._dataset(LOADERS)
        retrievers = self._components("retrievers", retriever_family)
        generators = self._components("generators", lambda _: GENERATORS)
        apps = self._components("apps", lambda _: APPS)
        self._check_names()
        references = {name: checked.references for name, checked in retrievers.items()}
        report_cycles(references, self.report)
        self._require_a_system(LOADERS)
        metrics = check_metrics(self.tree.get("metrics"), self.context)
        statistics = self._statistics()
        check_clusters(metrics.metrics.judges, statistics[0].get("cluster"), self.report)
        budget = self._block("budget", BudgetLimits)
        executor = self._block("executor", Executor)
        gates = self._gates(metrics.metrics, generators, LOADERS)
        is_complete = top.keys() >= declared_options(Top).keys()  # else it was unreadable
        if self.report or not is_complete or dataset is None or not dataset.component:
            return None
        resolved = {
            "name": self._as_written("name", name),
            "seed": self._as_written("seed", top["seed"]),
            "dataset": dataset.written,
            "retrievers": {key: checked.written for key, checked in retrievers.items()},
            "generators": {key: checked.written for key, checked in generators.items()},
            "apps": {key: checked.written for key, checked in apps.items()},
            "controls": self._as_written("controls", top["controls"]),
            "metrics": metrics.written,
            "statistics": statistics[1],
            "gates": gates[1],
            "max_failed": self._as_written("max_failed", top["max_failed"]),
            "budget": budget[1],
            "executor": executor[1],
            **{key: self._as_written(key, top[key]) for key in ("cache", "cache_also")},
            "output": self._as_written("output", top["output"]),
        }
        return ExperimentConfig(
            name=name,
            seed=top["seed"],
            dataset=dataset.component,
            retrievers=_built(retrievers),
            generators=_built(generators),
            apps=_built(apps),
            controls=tuple(dict.fromkeys(top["controls"] or ())),
            metrics=metrics.metrics,
            statistics=Statistics(**statistics[0]),
            gates=gates[0],
            max_failed=top["max_failed"],
            budget=BudgetLimits(**budget[0]),
            executor=Executor(**executor[0]),
            cache=top["cache"],
            cache_also=tuple(map(Path, top["cache_also"] or ())),
            output=top["output"],
            path=self.path,
            resolved={key: value for key, value in resolved.items() if value not in ({}, [], None)},
        )

    def _as_written(self, key: str, value: Any) -> Any:
        item = self.tree.get(key)
        return value if item is None or item.value is None else item.as_written()

    def _name(self, name: str | None) -> str:
        if name is None:
            stem = self.path.stem if self.path else "experiment"
            return re.sub(r"[^A-Za-z0-9_.-]+", "-", stem)
        item = self.tree.get("name")
        if item is not None and (not _NAME.fullmatch(name) or set(name) == {"."}):
            self.report.add(item.place, item.path, f"{item.shown()} is not a name", _NAME_ALLOWED)
        return name

    def _dataset(self, loaders: Family) -> Checked | None:
        entry = self.tree.entries.get("dataset")
        if entry is None:
            allowed = f"dataset: {{type: {', '.join(loaders.names())}, ...}}"
            self.report.add(self.tree.place, (), "missing key 'dataset'", allowed)
            return None
        checked = check_component("dataset", entry, loaders, self.context)
        kind = entry.item.get("type")
        if kind is not None and isinstance(kind.value, str) and kind.value in loaders.table:
            check_dataset_options(entry.item, self.report)
        return checked

    def _expand(self, block: str) -> Expanded:
        item = self.tree.get(block)
        if item is None:
            return Expanded({})
        if not isinstance(item.value, dict):
            found = f"{item.shown()} is not a mapping"
            self.report.add(item.place, item.path, found, "a mapping from names to components")
        for name, entry in item.entries.items():
            if not (_NAME.fullmatch(name) or _SWEPT_NAME.fullmatch(name)) or set(name) == {"."}:
                self.report.add(
                    entry.key_place, item.path, f"{name!r} is not a name", _NAME_ALLOWED
                )
        return expand_sweeps(item, self.report)

    def _components(self, block: str, family_of: Callable[[Item], Family]) -> dict[str, Checked]:
        return {
            name: check_component(name, entry, family_of(entry.item), self.context)
            for name, entry in self.swept[block].components.items()
        }

    def _check_names(self) -> None:
        """Refuse two pairs whose files would have the same name."""
        taken: dict[str, str] = {}
        for generator, entry in self.swept["generators"].components.items():
            for retriever in self.context.retrievers:
                pair, file = f"{retriever}/{generator}", f"{retriever}--{generator}"
                if taken.setdefault(file, pair) != pair:
                    found = f"{taken[file]} and {pair} would write the same file"
                    self.report.add(entry.key_place, entry.item.path, found, "names without '--'")

    def _may_bring_systems(self, loaders: Family) -> bool:
        """Whether the data set may: records do, and loaders that we do not know."""
        dataset = self.tree.get("dataset")
        kind = dataset.get("type") if dataset is not None else None
        type_name = kind.value if kind is not None and isinstance(kind.value, str) else None
        return type_name not in loaders.table or type_name == "records"

    def _require_a_system(self, loaders: Family) -> None:
        brings = self.live_retrievers or self.live_apps or self.swept["apps"].components
        if brings or self._may_bring_systems(loaders):
            return
        item = self.tree.entries.get("retrievers")
        if item is None:
            self.report.add(
                self.tree.place, (), "missing key 'retrievers'", "at least one retriever or app"
            )
        elif item.item.value == {}:
            self.report.add(
                item.key_place, item.item.path, "no retriever", "at least one retriever"
            )

    def _statistics(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return check_statistics(self._item("statistics"), self.context)

    def _gates(
        self, metrics: Metrics, generators: Mapping[str, Checked], loaders: Family
    ) -> tuple[tuple[Gate, ...], list[Any]]:
        item = self.tree.get("gates")
        if item is None:
            return (), []
        paired = {name: checked.component for name, checked in generators.items()}
        pairs = pairs_of(self.context.retrievers, {**paired, **dict.fromkeys(self.live_generators)})
        apps = [*self.swept["apps"].components, *self.live_apps]
        known = GateContext(
            self.context, known_scores(metrics), pairs, apps, self._may_bring_systems(loaders)
        )
        return check_gates(item, known)

    def _block(self, name: str, record: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of a block, and the block as plain data with its defaults."""
        return check_block(self._item(name), record, self.report)

    def _item(self, name: str) -> Item:
        """The block as it stands in the file, or an empty one."""
        entry = self.tree.entries.get(name)
        return entry.item if entry else Item({}, self.tree.place, (name,))


def _built(checked: Mapping[str, Checked]) -> dict[str, Component]:
    return {name: c.component for name, c in checked.items() if c.component is not None}
