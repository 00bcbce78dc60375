"""`run_collections`: one config on several data sets, and the summary over them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Any

from msgspec import structs

from ragbench.comparison.collections import CollectionScores, compare_collections
from ragbench.config.schema import BudgetLimits, ExperimentConfig
from ragbench.data.runs.run_folder import COLLECTIONS, read_record, to_json, write_run_folder
from ragbench.errors import OptionError
from ragbench.experiment.gates import scored_without_controls
from ragbench.experiment.plan.compared_clusters import source_clusters
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.result import Experiment
from ragbench.experiment.runner import load_run_config, run_experiment
from ragbench.experiment.summary import new_run_id
from ragbench.files import write_file
from ragbench.records.codec import to_json as to_mapping
from ragbench.records.collections import CollectionRun, CollectionsSummary, MacroMeasure
from ragbench.records.manifest import Choices
from ragbench.records.summary import Summary
from ragbench.report.collections import collections_report, lay_out_collections, run_report
from ragbench.report.formats import render
from ragbench.report.page.html import write_runs_page
from ragbench.report.progress import Progress


@dataclass(frozen=True, repr=False)
class CollectionRuns:
    """Results of one config on several data sets; `print` shows what `ragbench run` prints.

    `run_collections` returns it. `exit_code` is that of an `Experiment` with the gates of all
    collections, which is complete if all runs are; `gated` is its summary.

    Attributes:
        path: Folder of the summary.
        record: Record of `collections.json`.
        experiments: Collection -> the finished run on it.
    """

    path: Path
    record: CollectionsSummary
    experiments: Mapping[str, Experiment]

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Mapping of `collections.json`."""
        return to_mapping(self.record)

    @property
    def gated(self) -> Summary:
        """Summary with the gates of all collections: the system of a gate is `scifact: bm25`.

        A gate without a system has the collection alone. The summary is complete if all runs are;
        its systems are those of the first run.
        """
        records = {name: experiment.record for name, experiment in self.experiments.items()}
        unreachable: dict[str, None] = {}
        gates = []
        for name, record in records.items():
            unreachable |= dict.fromkeys(record.unreachable)
            for gate in record.gates:
                system = f"{name}: {gate.system}" if gate.system else name
                gates.append(structs.replace(gate, system=system))
        # a `Summary`, so that the exit code follows the rules of a single run
        return structs.replace(
            next(iter(records.values())),
            name=self.record.name,
            complete=all(record.complete for record in records.values()),
            unreachable=tuple(unreachable),
            gates=tuple(gates),
        )

    @property
    def exit_code(self) -> int:
        """Exit code of `ragbench run`: that of the gates of all collections together.

        A refused gate (2) comes before a failed one (1), an unreachable server (7) and another
        incomplete run (3); 0 if there is none.
        """
        return self.gated.exit_code()

    def __str__(self) -> str:
        return render(run_report(self.record, verbose=False)).rstrip()

    def __repr__(self) -> str:
        return f"CollectionRuns({str(self.path)!r}, {', '.join(self.experiments)})"


def run_collections(
    source: str | Path | Mapping[str, Any] | ExperimentConfig,
    overrides: Mapping[str, Any] | None = None,
    *,
    retrievers: Mapping[str, Any] | None = None,
    generators: Mapping[str, Any] | None = None,
    apps: Mapping[str, Any] | None = None,
    choices: Choices | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], object] = lambda line: None,
) -> CollectionRuns:
    """Run a config with `datasets`: all systems on each collection, then the summary over all.

    The run on a collection is an experiment in `<output>/<name>/<collection>`, with the gates of
    the config; the summary is a folder beside them, to which `latest` points. The collections
    share the cache and the budget, of which each has the rest. The same command resumes a stopped
    run.

    Args:
        source: A YAML file, the same as a mapping, or a checked config.
        overrides: Dotted key -> value, as `--set` has it. None or empty for a checked config.
        retrievers: Live retrievers by name; each indexes one corpus after the other.
        generators: Live generators by name.
        apps: Live whole apps by name.
        choices: Options of these runs alone; a sample is one of each collection.
        progress: Display of the progress; None shows nothing.
        tell: Function that gets the name of each collection before its run.

    Raises:
        OptionError: The config has one data set, which `run_experiment` runs.
        ConfigError: The config is wrong; all its problems at once.
        DataError: As `run_experiment`, of which all other errors are too.
    """
    live = LiveComponents(retrievers or {}, generators or {}, apps or {})
    config = load_run_config(source, overrides or {}, live, has_dataset=False)
    if not config.collections:
        allowed = "a config with `datasets`; run_experiment runs one data set"
        raise OptionError("run_collections", "source", config.name, allowed)
    started = time.time()
    experiments: dict[str, Experiment] = {}
    # one after the other: live components hold the index of one corpus at a time
    for name, part in config.collections.items():
        tell(f"collection {name}")
        experiments[name] = run_experiment(
            replace(part, budget=_remaining_limits(config.budget, experiments.values(), started)),
            retrievers=live.retrievers,
            generators=live.generators,
            apps=live.apps,
            choices=choices,
            progress=progress,
        )
    # the summary comes last: a stopped command leaves finished runs, and no partial macro mean
    home = Path(config.output) / config.name
    record = _summarize(config, experiments, new_run_id(started, home))
    contents = {COLLECTIONS: to_json(to_mapping(record))}

    # the pages are written before the folder gets its name, so that it never lacks them
    def finish(folder: Path) -> None:
        write_collections(record, [folder / "report.html", folder / "report.md"])

    folder = write_run_folder(home, record.run_id, contents, finish=finish)
    return CollectionRuns(folder, record, experiments)


def _remaining_limits(
    budget: BudgetLimits, experiments: Iterable[Experiment], started: float
) -> BudgetLimits:
    """Return the limits less the tokens, dollars and minutes since `started` of earlier runs."""
    spent = []
    for e in experiments:
        if e.record.budget is not None:
            spent.append(e.record.budget.spent)
    usd, tokens, minutes = budget.usd, budget.tokens, budget.minutes
    if usd is not None:
        usd = max(usd - fsum(cost.usd or 0.0 for cost in spent), 0)
    if tokens is not None:
        tokens = int(max(tokens - sum(cost.tokens or 0 for cost in spent), 0))
    if minutes is not None:
        minutes = max(minutes - (time.time() - started) / 60, 0)
    return BudgetLimits(usd=usd, tokens=tokens, minutes=minutes)


def write_collections(record: CollectionsSummary, paths: Sequence[Path]) -> None:
    """Write the tables over all collections as pages: HTML by the suffix `.html`, else Markdown.

    Raises:
        DataError: A file cannot be written.
    """
    for path in paths:
        if path.suffix == ".html":
            write_runs_page(path, lay_out_collections(record))
        else:
            write_file(path, render(collections_report(record), "markdown"))


def _summarize(
    config: ExperimentConfig, experiments: Mapping[str, Experiment], run_id: str
) -> CollectionsSummary:
    """Return the record of `collections.json`: macro means and tests over the finished runs."""
    method, cluster, collections = method_of(config), config.statistics.cluster, []
    for name, experiment in experiments.items():
        # from the files of the run: the summary and `ragbench compare` read the same numbers
        scored = scored_without_controls(experiment.path)
        labels = None if cluster is None else source_clusters(cluster, scored, scored.query_ids)
        collections.append(CollectionScores(name, scored, experiment.compared, labels))
    measures = compare_collections(collections, method)
    runs = []
    for name, experiment in experiments.items():
        summary = experiment.record
        runs.append(
            CollectionRun(
                name=name,
                run=f"{name}/{experiment.path.name}",
                queries=None if summary.dataset is None else summary.dataset.queries,
                complete=summary.complete,
                gates=summary.gates,
            )
        )
    notes = [*_missing_measures(collections, measures), *_partial_systems(collections)]
    return CollectionsSummary(
        name=config.name,
        run_id=run_id,
        confidence=method.confidence,
        resamples=method.resamples,
        seed=method.seed,
        correction=method.correction,
        runs=tuple(runs),
        measures=measures,
        notes=tuple(notes),
    )


def _missing_measures(
    collections: Sequence[CollectionScores], measures: Sequence[MacroMeasure]
) -> Iterator[str]:
    """Yield a note for each measure without a system that has it on all collections."""
    common = {measure.measure for measure in measures}
    rare: dict[str, None] = {}
    for collection in collections:
        for name, _ in collection.scores:
            if name not in common:
                rare[name] = None
    for name in rare:
        yield f"{name} is left out: no system has it on every collection"


def _partial_systems(collections: Sequence[CollectionScores]) -> Iterator[str]:
    """Yield a note for each system that some collections lack, such as a combination of a sweep."""
    collections_of: dict[str, list[str]] = {}
    for collection in collections:
        for system in collection.scored.systems:
            collections_of.setdefault(system, []).append(collection.name)
    for system, names in collections_of.items():
        # a macro mean over fewer collections is not comparable with one over all of them
        if len(names) < len(collections):
            yield f"{system} is left out: it ran on {', '.join(names)} alone"


def read_collections(folder: Path) -> CollectionsSummary:
    """Return the record of `collections.json`; raise DataError if it is missing or wrong."""
    return read_record(folder / COLLECTIONS, CollectionsSummary)
