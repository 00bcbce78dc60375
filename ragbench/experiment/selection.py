"""Choice of one combination of a sweep: decided on one split of the data, reported on another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from msgspec import structs

from ragbench.config.schema import ExperimentConfig, Metrics, Selection, Sweep
from ragbench.errors import DataError
from ragbench.experiment.plan.plan import check_only, check_single
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.result import Experiment
from ragbench.records.manifest import Choices
from ragbench.records.summary import FoldChoice, SelectedSystem
from ragbench.types.lookups import group_by, index_by_name

# Blocks that the run of a choice does not have.
_LEFT_OUT = ("generators", "apps", "controls", "gates", "audit", "causes", "budget")


def choose_combinations(
    config: ExperimentConfig,
    choices: Choices,
    run: Callable[..., Experiment],
    live: LiveComponents | None = None,
) -> ExperimentConfig:
    """Return the config with the chosen combination of each sweep that has a `select`.

    The combinations run on the split that decides, as an experiment of their own with the run
    folder `<output>/<name>/select-<sweep>`. The one with the best mean is chosen; of equal means
    the first. Sweeps are decided in the order of the file, so that a later one may read an earlier
    choice. Without an open choice the config is returned as it is, and so is a sweep of which
    `choices.only` names a combination.

    Args:
        config: Checked config.
        choices: Options of the command line; a sample and `retry_failed` hold for the choice, too.
        run: `run_experiment`, which gets a config and `choices`.
        live: Components that a caller passed as objects.

    Raises:
        OptionError: There is an open choice, and `choices.only` names no system.
        DataError: No combination has a value on that split, or the config has several data sets;
            other errors are those of `run`.
    """
    check_single(config)
    chosen: dict[str, str] = {}
    selected: list[SelectedSystem] = []
    open_sweeps = []
    for name, sweep in config.sweeps.items():
        # `--only` of a combination is a choice by the user, and needs no run to decide
        if sweep.select and sweep.is_open and not set(choices.only) & set(sweep.members):
            open_sweeps.append((name, sweep, sweep.select))
    if open_sweeps:
        # before any combination runs: a wrong name would be refused after all of them
        check_only(config, choices, live or LiveComponents())
    # `config` is another object after each choice
    for name, sweep, select in open_sweeps:
        # no judge: the run decides by a measure of rankings, and verdicts cost money
        only = structs.replace(choices, only=sweep.members, judge=False, judge_replay=False)
        experiment = run(_deciding(config, name, select), choices=only)
        selected.append(_selected(name, sweep, select, experiment))
        chosen[name] = selected[-1].system
        if config.reload is not None:  # every config with sweeps has it
            again, gates = config.reload(chosen), config.gates
            # a caller may have changed these fields: `ragbench gate` takes the gates away, skips
            # judges without a key, and runs a base in a folder of its own
            config = replace(
                again,
                gates=again.gates if gates else (),
                metrics=config.metrics,
                output=config.output,
                budget=config.budget,  # the rest of it, after other collections
                selected=tuple(selected),
            )
    return config


def _deciding(config: ExperimentConfig, name: str, select: Selection) -> ExperimentConfig:
    """Return the config of the run that decides: the retrievers on one split, by one measure."""
    # `fill` asks a judge about passages: without it the choice costs no calls
    retrieval = replace(config.metrics.retrieval, measures=(select.measure,), fill=None)
    folder = f"select-{name}"  # names of swept systems have no other characters than file names
    output = f"{config.output}/{config.name}"
    # the stored config has to match the fields below: `reproduce` reads it, not the objects
    resolved = {}
    for key, value in config.resolved.items():
        if key not in _LEFT_OUT:
            resolved[key] = value
    by_key = {key: dict(resolved.get(key) or {}) for key in ("metrics", "statistics")}
    # the baseline may be a system that does not run here, such as a generator
    by_key["statistics"].pop("baseline", None)
    rules = {**(by_key["metrics"].get("retrieval") or {}), "measures": [select.measure]}
    rules.pop("fill", None)
    resolved |= {
        "name": folder,
        "dataset": {**resolved["dataset"], "split": select.on},
        "metrics": {"retrieval": rules},
        "statistics": by_key["statistics"],
        "output": output,
    }
    return replace(
        config,
        name=folder,
        output=output,
        dataset=replace(config.dataset, options={**config.dataset.options, "split": select.on}),
        generators={},
        apps={},
        controls=(),
        metrics=Metrics(retrieval=retrieval),
        statistics=replace(config.statistics, baseline=None),
        gates=(),
        audit=None,
        sweeps={},
        selected=(),
        resolved=resolved,
    )


def _selected(name: str, sweep: Sweep, select: Selection, experiment: Experiment) -> SelectedSystem:
    """Return the chosen combination of a sweep; raise DataError if none has a value."""
    systems = index_by_name(experiment.record.systems)
    family = experiment.compared.measure(select.measure)
    # in the order of the file: `scored[0]` is the first of equal combinations
    scored = []
    for n in sweep.members:
        if systems[n].scores[select.measure].mean is not None:
            scored.append(n)
    if not scored:
        problem = f"no combination of '{name}' has a value of {select.measure} on '{select.on}'"
        raise DataError(problem, file=experiment.path, allowed="a split with judgements")
    # without a best one all combinations are the same on every query
    best = scored[0] if family is None or family.best is None else family.best
    tied = scored if family is None or family.best is None else family.tied_with_best
    return SelectedSystem(
        sweep=name,
        system=best,
        combinations=len(sweep.members),
        on=select.on,
        measure=select.measure,
        score=systems[best].scores[select.measure],
        tied=tuple(n for n in tied if n != best),
        run=str(experiment.path),
    )


def sweep_notes(config: ExperimentConfig, folds: Sequence[FoldChoice]) -> Iterator[str]:
    """Yield a note for each choice, and for each sweep that is reported where it is decided.

    The order is that of the choices on another split, then of those by folds, then of the sweeps.
    """
    split = config.dataset.options.get("split")
    allowed = "{folds: 5, measure: ndcg@10}"
    if isinstance(split, str):
        allowed = f"{{on: train, measure: ndcg@10}} or {allowed}"
    for choice in config.selected:
        mean = choice.score.mean
        tied = f"; not surely worse there: {', '.join(choice.tied)}" if choice.tied else ""
        yield (
            f"{choice.sweep}: {choice.system} is the best of {choice.combinations} on "
            f"'{choice.on}', by {choice.measure} {mean:.3f}{tied}"
        )
    yield from _fold_notes(folds)
    own_split = set()
    for choice in config.selected:
        if choice.on == split:
            own_split.add(choice.sweep)
    for name, sweep in config.sweeps.items():
        # after a choice the sweep has one member, and a note only if it was made on this split
        if len(sweep.members) > 1 or name in own_split:
            yield (
                f"{name}: its best combination is decided on the queries that report it, so that "
                f"its score is too high; write select: {allowed}"
            )


def _fold_notes(choices: Sequence[FoldChoice]) -> Iterator[str]:
    """Yield a note for each sweep with folds: the combination of each fold."""
    for sweep, of_sweep in group_by(choices, lambda choice: choice.sweep).items():
        places: dict[str, list[str]] = {}
        for choice in of_sweep:
            name = choice.system.removeprefix(f"{sweep}-")
            places.setdefault(name, []).append(str(choice.fold))
        parts, first = [], of_sweep[0]
        for name, folds in places.items():
            noun = "fold" if len(folds) == 1 else "folds"
            parts.append(f"{name} in {noun} {', '.join(folds)}")
        yield (
            f"{sweep}, best of {first.combinations} by {first.measure} on the other folds: "
            f"{'; '.join(parts)} (seed {first.seed})"
        )
