"""Load an experiment: a YAML file or mapping to an `ExperimentConfig`, or all its problems."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ragbench.comparison.cause_rules import CauseRules
from ragbench.config import schema
from ragbench.config.components import check_component, check_dataset_options, retriever_family
from ragbench.config.metrics import (
    check_audit,
    check_causes,
    check_measure,
    check_metrics,
    check_statistics,
)
from ragbench.config.options import Context, report_cycles
from ragbench.config.overrides import (
    FOLDS,
    Expanded,
    Overrides,
    apply_overrides,
    expand_sweeps,
)
from ragbench.config.resolver import resolve_config
from ragbench.config.secret_values import (
    Environment,
    declared_secrets,
    environment_of,
    report_secret_paths,
    variable_record,
)
from ragbench.config.tree import KeyEntry, Node, PythonReader, Report
from ragbench.config.variables import interpolate
from ragbench.config.yaml_reader import read_file
from ragbench.data.loaders.python import PASSED
from ragbench.data.runs.run_folder import LATEST, LONGEST_NAME, unfit_names
from ragbench.errors import OptionError
from ragbench.records.score import Kind
from ragbench.registry import (
    Family,
    code_folders,
    declared_options,
    default_options,
    looking_in,
)
from ragbench.secrets import mask_addresses, note_secrets, redactor, secrets_of_process
from ragbench.types.lookups import omit_none, select_keys

if TYPE_CHECKING:
    from ragbench.gates.base import Gate

# Order of the keys in a resolved config
_ORDER = (
    *("name", "seed", "dataset", "retrievers", "generators", "apps", "controls", "metrics"),
    *("statistics", "causes", "audit", "gates", "max_failed", "budget", "executor"),
    *("cache", "cache_also", "output"),
)

DATASETS = "datasets"
# Blocks that an override may create; any other key on its way must exist
_CREATED_BLOCKS = (
    *itertools.product(schema.BLOCKS.keys() - {"gates"}),
    *itertools.product(["metrics"], ["retrieval", "judge"]),
    *itertools.product(["metrics"], ["retrieval"], schema.RetrievalMetrics.blocks),
    *itertools.product(["causes"], CauseRules.blocks),
)


def load_config(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    base_dir: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    live_retrievers: Collection[str] = (),
    live_generators: Collection[str] = (),
    live_apps: Collection[str] = (),
    code: Sequence[Path] | None = None,
) -> schema.ExperimentConfig:
    """Return a config, read and checked as a whole, with all its defaults.

    A variable `${VAR}` that is not set, and a secret in the name of a folder, are problems too.
    Modules of `python:` types are imported. Secrets are noted, so that printed texts mask them.

    Args:
        source: The YAML file, or its content as a mapping.
        overrides: `dotted.key=value` texts, as `--set` takes them, or a mapping from dotted keys to
            values.
        base_dir: The folder that paths are relative to; default: that of the file, or the working
            directory for a mapping.
        environment: Variables that `${VAR}` reads; default: the environment of the process.
        live_retrievers: Names of retrievers that the caller adds as objects; references may use
            them.
        live_generators: Names of generators that the caller adds; gates may name their pairs.
        live_apps: Names of apps that the caller adds.
        code: Folders in which `python:` looks before installed packages; default: the working
            directory, then `base_dir`, each followed by its folder `src`.

    Raises:
        ConfigError: The file cannot be read, or the config has problems: all of them, in file
            order.
        OptionError: `source` is no path or mapping.
    """
    if not isinstance(source, (str, os.PathLike, Mapping)):
        raise OptionError("load_config", "source", source, "a path, a mapping")
    parent = Path() if isinstance(source, Mapping) else Path(source).parent
    base = parent if base_dir is None else Path(base_dir)
    folders = code_folders((Path.cwd(), base.absolute())) if code is None else code
    surroundings = Surroundings(base, tuple(folders), live_retrievers, live_generators, live_apps)
    variables = os.environ if environment is None else environment
    return _load(source, overrides, variables, surroundings)


def _load(
    source: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Overrides,
    variables: Mapping[str, str],
    around: Surroundings,
) -> schema.ExperimentConfig:
    """Return the checked config; with several data sets that of the first one, which has all."""
    report, hidden = Report(), secrets_of_process(variables)
    path = None if isinstance(source, Mapping) else Path(source)
    original = PythonReader(report).read(source) if path is None else read_file(path, report)
    checks: dict[str, TreeCheck] = {}
    configs: dict[str, schema.ExperimentConfig | None] = {}
    if original is not None:
        tree = apply_overrides(original, overrides, _CREATED_BLOCKS, report)
        tree = interpolate(tree, variables, report)
        hidden |= environment_of(tree).secrets
        note_secrets(hidden)
        with looking_in(around.code or ()):
            for name, part in _trees_by_collection(tree, report).items():
                checks[name] = TreeCheck(part, report, path, around)
                configs[name] = checks[name].build()
    if "" not in configs:
        _refuse_baseline_files(configs.values(), report)
    if None not in configs.values() and not report:
        for check in checks.values():
            report_secret_paths(check.tree, _variables_of(check), report)
    complete = {}
    for name, config in configs.items():
        if config is not None:
            complete[name] = config
    if report or not complete:
        clean = redactor(hidden)
        subject = os.fspath(path) if path else "the config"
        raise report.error(subject, lambda text: mask_addresses(clean(text)))

    def reload(chosen: Mapping[str, str], collection: str = "") -> schema.ExperimentConfig:
        """Return the config, or that of a collection, with only these combinations of sweeps."""
        again = _load(source, overrides, variables, replace(around, chosen=chosen))
        return again.collections[collection] if collection else again

    finished, collections = [], {}
    for name, config in complete.items():
        config = _finish(config, checks[name], variables, hidden)
        config = replace(config, reload=partial(reload, collection=name))
        finished.append(config)
        # each collection is a run of its own, in `<output>/<experiment>/<collection>`
        output = f"{config.output}/{config.name}"
        data = {**config.resolved, "name": name, "output": output}
        collections[name] = replace(config, name=name, output=output, resolved=data)
    return finished[0] if "" in complete else replace(finished[0], collections=collections)


def _finish(
    config: schema.ExperimentConfig,
    check: TreeCheck,
    variables: Mapping[str, str],
    hidden: Mapping[str, str],
) -> schema.ExperimentConfig:
    """Return a checked config with its resolved form, its variables and its secrets, noted."""
    variables_used = _variables_of(check)
    keys, records = {}, {}
    for name in named_keys(config):
        value = variables.get(name)
        records[name] = variable_record(value, secret=True)
        if value:
            keys[name] = value
    hidden = {**hidden, **keys, **variables_used.secrets}
    note_secrets(hidden)
    return replace(
        config,
        resolved=resolve_config(check.expanded(), check.context, variables_used),
        environment={**records, **variables_used.record()},
        secrets=hidden,
        literal_secrets=tuple(variables_used.literal),
    )


def _variables_of(check: TreeCheck) -> Environment:
    """Return the variables of a tree, and the secrets among them, as its options declare them."""
    declared = {*declared_secrets(check.expanded(), check.context.blocks)}
    return environment_of(check.tree, declared)


def _trees_by_collection(tree: Node, report: Report) -> dict[str, Node]:
    """Return name -> the config with one of its `datasets` as `dataset`; {"": tree} without any."""
    entry = tree.entries.get(DATASETS)
    if entry is None:
        return {"": tree}
    without = tree.without(DATASETS)
    if (single := tree.entries.get("dataset")) is not None:
        report.wrong(entry, "'datasets' beside 'dataset'", "one of the two")
        return {"": without.with_entry("dataset", single.node)}
    if not entry.node.entries:
        problem = f"{entry.node.quote()} is not a mapping of data sets"
        report.wrong(entry.node, problem, "datasets: {name: {type: beir, path: ...}, ...}")
    for name, _, allowed in unfit_names(entry.node.entries):
        report.wrong(entry.node.entries[name], f"'{name}' cannot be a folder", allowed)
    for name, part in entry.node.entries.items():
        if not _NAME.fullmatch(name) or set(name) == {"."} or name == LATEST:
            report.wrong(part, f"{name!r} is not a name", f"{_NAME_ALLOWED}; not '{LATEST}'")
    trees = {}
    for name, part in entry.node.entries.items():
        trees[name] = without.with_entry("dataset", part.node, part.place)
    return trees


def _refuse_baseline_files(
    configs: Iterable[schema.ExperimentConfig | None], report: Report
) -> None:
    """Report gates against a baseline file, which has the queries of one collection."""
    from ragbench.gates.drop import PairGate

    allowed = "no file: min, max, or the baseline of the run; or a config for each data set"
    for config in configs:
        for gate in () if config is None else config.gates:
            if isinstance(gate, PairGate) and gate.file is not None:
                report.add(gate.place, ("gates",), "'against' a file, of one data set", allowed)


def load_judges(path: Path, overrides: Sequence[str] = ()) -> schema.ExperimentConfig:
    """Return a config of which the judges and the budget are used; it may lack a data set.

    Args:
        path: The YAML file.
        overrides: `dotted.key=value` texts, as `--set` takes them.

    Raises:
        ConfigError: The file cannot be read, or the config has problems.
    """
    tree = read_file(path, Report())
    if tree is not None and not {"dataset", "datasets"} & tree.entries.keys():
        overrides = (*overrides, f"dataset.type={PASSED}")
    return load_config(path, overrides=overrides)


def load_saved(path: Path, judges: Collection[str] | None = None) -> schema.ExperimentConfig:
    """Return the data set and judges of a config in a run folder; all other blocks are left out.

    A run folder is data: code that the config names is a problem and is not imported. It has no
    retrievers, generators, apps and gates.

    Args:
        path: The file.
        judges: Names of the judges to read; default: all. Unknown names are left out. () reads
            none; a single judge without a name is read with any other value.

    Raises:
        ConfigError: The file cannot be read, or these blocks have problems.
    """
    report, config = Report(), None
    saved = read_file(path, report)
    if saved is not None:
        tree = interpolate(_data_and_judges(saved, judges), os.environ, report)
        config = TreeCheck(tree, report, path, Surroundings(path.parent, None)).build()
    if config is None or report:
        raise report.error(os.fspath(path))
    return replace(config, environment=environment_of(tree).record())


def _data_and_judges(tree: Node, judges: Collection[str] | None) -> Node:
    """Return a tree with the name, the data set and the judges of another tree."""
    metrics = tree.get("metrics")
    part = replace(tree, value=_only(tree, ("name", "dataset")))
    judge = None if metrics is None else metrics.get("judge")
    # an empty tuple asks for no judge; None asks for all
    if metrics is None or judge is None or judges == ():
        return part
    are_named = all(isinstance(entry.node.value, dict) for entry in judge.entries.values())
    if judges is not None and are_named:
        judge = replace(judge, value=_only(judge, judges))
    return part.with_entry("metrics", replace(metrics, value={}).with_entry("judge", judge))


def _only(node: Node, keys: Collection[str]) -> dict[str, KeyEntry]:
    """Return the entries of a mapping with some keys."""
    return select_keys(node.entries, keys)


def named_keys(config: schema.ExperimentConfig) -> Iterator[str]:
    """Yield the environment variables that options name in place of a key: `api_key_env: NAME`.

    These are options whose names end in `_env`, with a text. Components come first, then judges; a
    name may come twice.
    """
    options = []
    for components in (config.retrievers, config.generators, config.apps):
        for component in components.values():
            options.append(component.options)
    for judge in (config.metrics.judges or {}).values():
        options.append(judge.options)
    for mapping in options:
        for name, value in mapping.items():
            if name.endswith("_env") and isinstance(value, str) and value:
                yield value


_NAME = re.compile(r"[A-Za-z0-9_.-]+")
# Names from `expand_sweeps`, such as bm25-k1=0.9: a saved config has these
_SWEPT_NAME = re.compile(r"[A-Za-z0-9_.-]+?(?:-[A-Za-z_][A-Za-z0-9_.]*=[A-Za-z0-9_.+-]+)+")
_NAME_ALLOWED = "letters, digits, '_', '.' and '-'"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Folders and live components that a config may refer to.

    Attributes:
        base: The folder that paths are relative to.
        code: Folders where `python:` looks before installed packages; None forbids code.
        retrievers: Names of retrievers that the caller adds as objects.
        generators: Names of generators that the caller adds.
        apps: Names of apps that the caller adds.
        chosen: Swept retriever -> the one combination that is left.
    """

    base: Path
    code: tuple[Path, ...] | None
    retrievers: Collection[str] = ()
    generators: Collection[str] = ()
    apps: Collection[str] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)


class TreeCheck:
    """Checks of one tree, block by block; its problems go into a report.

    Names of components and sweeps are checked on creation, all blocks by one call of `build`, which
    returns the config, or None.

    Attributes:
        tree: The config, with variables replaced.
        report: Receives the problems.
        path: The YAML file; None for a mapping.
        live: Folders and live components.
        swept: Block of components -> its `Expanded` entries, sweeps written out.
        context: State of the checks.
    """

    def __init__(self, tree: Node, report: Report, path: Path | None, around: Surroundings) -> None:
        self.tree, self.report, self.path = tree, report, path
        self.has_all_scores = True
        self.live = around
        self.swept = {block: self._expand(block) for block in ("retrievers", "generators", "apps")}
        # names of live objects come last, as they stand in no file
        names = dict.fromkeys([*self.swept["retrievers"].components, *self.live.retrievers])
        members = self.swept["retrievers"].members
        self.context = Context(report, around.base, list(names), members, around.code)

    def build(self) -> schema.ExperimentConfig | None:
        """Return the checked config; None if any block has a problem."""
        from ragbench.data import LOADERS
        from ragbench.generate import APPS, GENERATORS

        declared = declared_options(schema.Top)
        top = self.context.check(self.tree, declared, extra=schema.BLOCKS, order=_ORDER)
        name = self._name(top.get("name"))
        if (name_node := self.tree.get("name")) is None or name_node.value is None:
            self.context.fill(self.tree, "name", name)
        dataset = self._dataset(LOADERS)
        selections = self._selections(dataset)
        retrievers = self._components("retrievers", retriever_family)
        references = self.context.references
        # with the references of all retrievers
        report_cycles({name: references.get(name, []) for name in retrievers}, self.report)
        self._refuse_nested_folds(retrievers)
        generators = self._components("generators", lambda _: GENERATORS)
        apps = self._components("apps", lambda _: APPS)
        self._check_names()
        self._require_a_system()
        # before causes and gates, which name its scores
        n_problems = len(self.report)
        metrics = check_metrics(self.tree.get("metrics"), self.context)
        # a score that could not be read may be the one that a gate names
        self.has_all_scores = len(self.report) == n_problems
        self._check_deciding_measures(metrics.retrieval.top_k)
        statistics = check_statistics(self._item("statistics"), self.context)
        causes = check_causes(self._item("causes"), metrics, self.context)
        audit = check_audit(self.tree.get("audit"), self.context)
        limits = declared_options(schema.BudgetLimits)
        budget = self.context.check(self._item("budget"), limits)
        executor = self._executor()
        controls = self._controls(top.get("controls"))
        gates = self._gates(metrics, causes, generators)
        for check in self.context.late_checks if self.report else ():
            check()
        # a value that could not be read is missing in `top`, without a problem in this report
        if self.report or top.keys() < declared.keys() or dataset is None:
            return None
        return schema.ExperimentConfig(
            name=name,
            dataset=dataset,
            retrievers=_complete(retrievers),
            sweeps=self._sweeps(selections),
            generators=_complete(generators),
            apps=_complete(apps),
            controls=controls,
            metrics=metrics,
            statistics=statistics,
            causes=causes,
            audit=audit,
            gates=gates,
            budget=schema.BudgetLimits(**budget),
            executor=executor,
            cache_also=tuple(map(Path, top["cache_also"] or ())),
            **{key: top[key] for key in ("seed", "max_failed", "cache", "output")},
            path=self.path,
            base=self.context.base.absolute(),
        )

    def _controls(self, entries: Sequence[str | Mapping[str, int]] | None) -> tuple[str, ...]:
        """Return the name of each control, once; `{distractors: 3}` becomes `distractors=3`."""
        names, node, most = [], self.tree.get("controls"), schema.MOST_DISTRACTORS
        for place, entry in enumerate(entries or ()):
            if isinstance(entry, Mapping):
                count = entry.get("distractors", 0)
                if node is not None and (len(entry) != 1 or not 1 <= count <= most):
                    element = node.elements[place]
                    allowed = f"distractors: N, with N from 1 to {most}"
                    self.report.wrong(element, f"{element.quote()} is no control", allowed)
                entry = f"distractors={count}"
            names.append(entry)
        return tuple(dict.fromkeys(names))

    def expanded(self) -> Node:
        """Return the tree with one component for each combination of a sweep.

        It is the config itself without sweeps.
        """
        tree = self.tree
        for block, swept in self.swept.items():
            if swept.members or swept.selects:
                node = replace(tree.entries[block].node, value=dict(swept.components))
                tree = tree.with_entry(block, node)
        return tree

    def _name(self, name: str | None) -> str:
        """Return the name of the experiment; default: that of the file, with `-` for odd signs."""
        if name is None:
            stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.path.stem if self.path else "")
            # `..` and names that Windows reserves cannot be folders
            stem = stem[:LONGEST_NAME].rstrip(".")
            return "experiment" if not stem or [*unfit_names([stem])] else stem
        node = self.tree.get("name")
        if node is not None:
            for _, problem, allowed in unfit_names([name]):
                self.report.wrong(node, problem, allowed)
        if node is not None and (not _NAME.fullmatch(name) or set(name) == {"."}):
            self.report.wrong(node, f"{node.quote()} is not a name", _NAME_ALLOWED)
        return name

    def _dataset(self, loaders: Family) -> schema.Component | None:
        """Return the checked data set; None, with a problem, if it is missing or wrong."""
        entry = self.tree.entries.get("dataset")
        if entry is None:
            allowed = f"dataset: {{type: {', '.join(loaders.names())}, ...}}"
            self.report.wrong(self.tree, "missing key 'dataset'", allowed)
            return None
        checked = check_component("dataset", entry, loaders, self.context)
        # a loader of the user may give these options another meaning
        if entry.node.text("type") in loaders.table:
            check_dataset_options(entry, self.report)
        return checked

    def _executor(self) -> schema.Component | None:
        """Return the executor, the default one if the config has none; None if it is wrong."""
        from ragbench.executors import EXECUTORS

        entry = self.tree.entries.get("executor")
        if entry is None or entry.node.value is None:
            name = next(iter(EXECUTORS.table))
            cls = EXECUTORS.load(name)
            options = default_options(cls)
            # the resolved config names every component of a run
            self.context.fill(self.tree, "executor", {"type": name})
            return schema.Component(name="executor", type=name, cls=cls, options=options)
        return check_component("executor", entry, EXECUTORS, self.context)

    def _expand(self, block: str) -> Expanded:
        """Return the components of a block with sweeps written out; none without the block."""
        node = self.tree.get(block)
        if node is None:
            return Expanded({})
        if not isinstance(node.value, dict):
            problem = f"{node.quote()} is not a mapping"
            self.report.wrong(node, problem, "a mapping from names to components")
        for name, entry in node.entries.items():
            if not (_NAME.fullmatch(name) or _SWEPT_NAME.fullmatch(name)) or set(name) == {"."}:
                problem = f"{name!r} is not a name"
                self.report.add(entry.place, node.path, problem, _NAME_ALLOWED)
        return expand_sweeps(node, self.report, self.live.chosen)

    def _components(
        self, block: str, family_of: Callable[[Node], Family]
    ) -> dict[str, schema.Component | None]:
        """Return the checked components of a block by name; a wrong one is None."""
        components: dict[str, schema.Component | None] = {}
        swept = self.swept[block]
        for name, entry in swept.components.items():
            select = swept.selects.get(name)
            if select is not None and self.report.under(select.node.path):
                components[name] = None  # its `select` has a problem, which needs no second one
                continue
            family = family_of(entry.node)
            components[name] = check_component(name, entry, family, self.context)
        return components

    def _selections(self, dataset: schema.Component | None) -> dict[str, schema.Selection]:
        """Return the checked `select` of each swept retriever that has a right one."""
        selections = {}
        for name, entry in self.swept["retrievers"].selects.items():
            node, n_problems = entry.node, len(self.report)
            declared = declared_options(schema.Selection)
            values = self.context.check(node, declared, place=entry.place)
            is_one = ("on" in node.entries) != (FOLDS in node.entries)
            if not is_one and len(self.report) == n_problems:
                both = "on and folds" if FOLDS in node.entries else "neither on nor folds"
                allowed = "one of on: train and folds: 5"
                self.report.add(entry.place, node.path, f"found {both}", allowed)
            splits = None if dataset is None else dataset.options.get("split")
            if dataset is not None and FOLDS not in node.entries and not isinstance(splits, str):
                allowed = "folds: 5, or named splits: type beir or huggingface, split: test"
                self.report.wrong(entry, "'select' needs another split of the data set", allowed)
            if len(self.report) == n_problems:
                selections[name] = schema.Selection(**values)
        return selections

    def _sweeps(self, selections: Mapping[str, schema.Selection]) -> dict[str, schema.Sweep]:
        """Return the sweeps of the retrievers by name, with their `select`."""
        members = self.swept["retrievers"].members
        sweeps = {}
        for name in members:
            sweeps[name] = schema.Sweep(members[name], selections.get(name))
        return sweeps

    def _check_deciding_measures(self, top_k: int) -> None:
        """Report each measure that chooses combinations, if it is unknown or looks too deep."""
        swept = self.swept["retrievers"]
        nodes = {}
        for name, entry in swept.components.items():
            if entry.node.text("type") == schema.CROSS_VALIDATED:
                nodes[name] = entry.node
        for name, entry in swept.selects.items():
            nodes[name] = entry.node
        for node in nodes.values():
            measure = node.get("measure")
            if measure is not None and isinstance(measure.value, str):
                check_measure(measure, top_k, self.report)

    def _refuse_nested_folds(self, retrievers: Mapping[str, schema.Component | None]) -> None:
        """Report a sweep with folds whose combinations read another sweep with folds."""
        # The inner sweep chose by queries of the fold that the outer one must not have seen.
        entries, references = self.swept["retrievers"].components, self.context.references
        inner = []
        for n in retrievers:
            if entries[n].node.text("type") == schema.CROSS_VALIDATED:
                inner.append(n)
        for name in inner:
            waiting = []
            for source, _ in references.get(name, []):
                waiting.append(source)
            for source in waiting:
                if source in inner:
                    problem = f"its combinations read '{source}', which has folds of its own"
                    self.report.wrong(entries[name], problem, "folds of one of the two")
                    break
                sources = []
                for other, _ in references.get(source, []):
                    sources.append(other)
                waiting += [other for other in sources if other not in waiting]

    def _check_names(self) -> None:
        """Report systems that cannot have a file of their own, such as `A` beside `a`."""
        components = {block: swept.components for block, swept in self.swept.items()}
        places = [*components["retrievers"].items(), *components["apps"].items()]
        for generator, entry in components["generators"].items():
            for retriever in self.context.retrievers:
                places.append((f"{retriever}/{generator}", entry))
        entries = dict(places)
        reported: set[int] = set()
        for name, problem, allowed in unfit_names(name for name, _ in places):
            if id(entries[name]) not in reported:  # one problem, not one for each of its pairs
                reported.add(id(entries[name]))
                self.report.wrong(entries[name], problem, allowed)

    def _require_a_system(self) -> None:
        """Report a config without any retriever or app, unless the data set may bring systems."""
        if self.context.code is None:  # `load_saved` reads a part of a config
            return
        has_systems = self.live.retrievers or self.live.apps or self.swept["apps"].components
        if has_systems or brings_systems(self._item("dataset").text("type")):
            return
        node = self.tree.entries.get("retrievers")
        if node is None:
            allowed = "at least one retriever or app"
            self.report.wrong(self.tree, "missing key 'retrievers'", allowed)
        elif node.node.value == {}:
            self.report.wrong(node, "no retriever", "at least one retriever")

    def _gates(
        self,
        metrics: schema.Metrics,
        causes: CauseRules,
        generators: Mapping[str, schema.Component | None],
    ) -> tuple[Gate, ...]:
        """Return the gates without a problem; empty if the config has no gates."""
        node = self.tree.get("gates")
        if node is None:
            return ()
        # a config without gates does not load them
        from ragbench.config.gates import check_gates, gate_scores, pairs_of

        live_generators = dict.fromkeys(self.live.generators)
        names = replace(
            gate_scores(metrics, causes),
            retrievers=self.context.retrievers,
            pairs=pairs_of(self.context.retrievers, {**generators, **live_generators}),
            apps=[*self.swept["apps"].components, *self.live.apps],
            sweeps=self.context.members,
            may_have_others=brings_systems(self._item("dataset").text("type")),
        )
        if not self.has_all_scores:
            names = replace(names, open_kinds=frozenset(get_args(Kind)))
        return check_gates(node, names, self.context)

    def _item(self, name: str) -> Node:
        """Return the value of a block of the file, or an empty mapping without the block."""
        entry = self.tree.entries.get(name)
        return entry.node if entry else Node({}, self.tree.place, (name,))


def brings_systems(loader: str | None) -> bool:
    """Return True if a data set may bring systems with names that no config has.

    Tables and traces may, a loader that is not built in, and one without a type.
    """
    from ragbench.data import LOADERS

    return loader not in LOADERS.table or loader in ("records", "traces", "huggingface", "trec_rag")


def _complete(
    components: Mapping[str, schema.Component | None],
) -> dict[str, schema.Component]:
    """Return the components without those that have a mistake."""
    return omit_none(components)
