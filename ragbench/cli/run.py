"""Commands `ragbench run CONFIG`, `plan CONFIG` and `reproduce RUN`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli import output
from ragbench.errors import DataError

if TYPE_CHECKING:
    from ragbench.config.schema import ExperimentConfig
    from ragbench.experiment.plan.records import Plan
    from ragbench.experiment.result import Experiment
    from ragbench.experiment.stages.base import Step
    from ragbench.experiment.stages.graph import PlannedRun
    from ragbench.records.manifest import Choices
    from ragbench.records.summary import Summary

    # Summary with the gates, renderer of the Markdown report, duration in seconds if known
    Ran = tuple[Summary, Callable[[], str], float | None]

limit_option = output.number_option("--limit", help="Use a random sample of N queries, by seed.")


class _Command(output.NamesCommand):
    """Command whose `--only` takes several names: `--only bm25 exact`."""

    names_option = "--only"


@output.command(
    name="run",
    cls=_Command,
    examples=("ragbench run my.yaml", "ragbench run my.yaml --limit 20 --no-judge"),
)
@output.config_argument
@limit_option
@click.option(
    "--only",
    multiple=True,
    metavar="NAME...",
    help="Run only these retrievers, generators or pairs.",
)
@output.no_judge_option
@output.flag("--judge-replay", help="Judge from stored replies; send nothing.")
@output.flag(
    "--retry-failed",
    help="Try again all that failed in an earlier run, not only server errors and timeouts.",
)
@output.overrides_option
@output.flag("--strict", help="Exit with 4 if a gate is undecided.")
@output.json_option(help="Print summary.json instead of the tables.")
@output.flag(
    "--quiet",
    "-q",
    help="No progress; print the lines before the tables and the path of the page only.",
)
@output.flag("--verbose", help="Print all measures, gates, causes, notes and stages.")
@output.junit_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    verbose: bool,
    judge_replay: bool,
    junit: Path | None,
    **choices: Any,
) -> None:
    """Run the experiment of CONFIG; print its main results and the path of its page.

    The first line says how many questions your own system answers, and where it loses the others.
    Results are stored item by item: a second run computes only changed items, and the same command
    resumes a stopped run. The run folder is written at the end, complete or not at all.
    """
    from ragbench.config.load import load_config
    from ragbench.experiment.watched_files import watch_imports
    from ragbench.records.manifest import Choices

    judge, strict = not choices.pop("no_judge"), choices.pop("strict")
    if judge_replay and not judge:
        raise click.UsageError("pass --no-judge or --judge-replay, not both")
    if quiet and verbose:
        raise click.UsageError("pass --quiet or --verbose, not both")
    # `--only a,b`, `--only a b` and `--only a --only b` mean the same
    names = []
    for part in choices.pop("only"):
        for name in part.split(","):
            names.append(name.strip())
    chosen = Choices(judge=judge, judge_replay=judge_replay, only=tuple(names), **choices)
    with watch_imports():
        settings = load_config(config, overrides=overrides)
    if settings.collections:
        gated, page, seconds = _run_collections(settings, chosen, as_json, quiet, verbose)
    else:
        gated, page, seconds = _run_one(settings, chosen, as_json, quiet, verbose)
    output.report_gates(page, gated, config, junit, strict=strict, seconds=seconds)
    ctx.exit(gated.exit_code(strict=strict))


def _run_one(
    settings: ExperimentConfig, choices: Choices, as_json: bool, quiet: bool, verbose: bool
) -> Ran:
    """Run a config with one data set, print its tables, and return what CI gets of it."""
    from ragbench.data.runs.run_folder import read_manifest, to_json
    from ragbench.experiment.pages import markdown_of
    from ragbench.experiment.runner import run_experiment
    from ragbench.report.formats.terminal import STYLES

    with output.running(quiet, secrets=settings.secrets, verbose=verbose) as progress:
        experiment = run_experiment(settings, choices=choices, progress=progress)
    if as_json:
        output.write_json(to_json(experiment.summary))
    else:
        output.write_drawn(_tables(experiment, head=quiet, verbose=verbose), STYLES)
    for line in _kept_failures(experiment.kept_failures):
        output.echo(line, err=True)
    with suppress(DataError):  # an earlier folder may be damaged: this run is complete
        if noise := experiment.own_noise():
            output.echo(f"note: {noise}", err=True)
    # rendered only if GitHub wants a summary
    page = partial(markdown_of, experiment)
    return experiment.record, page, read_manifest(experiment.path).seconds


def _run_collections(
    settings: ExperimentConfig, choices: Choices, as_json: bool, quiet: bool, verbose: bool
) -> Ran:
    """Run a config with several data sets, print its tables, and return what CI gets of it."""
    from ragbench.data.runs.run_folder import to_json
    from ragbench.experiment.collections import run_collections
    from ragbench.report.collections import collections_report, run_report
    from ragbench.report.formats import render
    from ragbench.report.formats.terminal import STYLES
    from ragbench.report.results import cost_line, total_cost

    tell = partial(output.echo, err=True) if not quiet else lambda line: None
    with output.running(quiet, secrets=settings.secrets, verbose=verbose) as progress:
        runs = run_collections(settings, choices=choices, progress=progress, tell=tell)
    if as_json:
        output.write_json(to_json(runs.summary))
    else:
        text = render(run_report(runs.record, verbose=verbose), "table", output.screen())
        cost = total_cost(experiment.record.cost for experiment in runs.experiments.values())
        pages = [line] if cost is not None and (line := cost_line(cost)) else []
        for name, experiment in runs.experiments.items():
            pages.append(f"{name}: {experiment.path / 'report.html'}")
        pages.append(f"report: {runs.path / 'report.html'}")
        if quiet:
            # the first paragraph has the gates that did not pass, and the best systems
            text, pages = text.partition("\n\n")[0], pages[-1:]
        output.write_drawn(text + "\n".join(["", *pages, ""]), STYLES)
    return runs.gated, partial(render, collections_report(runs.record), "markdown"), None


def _kept_failures(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a warning that counts failures of earlier runs by cause; nothing without failures."""
    from ragbench.report.text import causes, counted

    if counts:
        failures = f"{counted(sum(counts.values()), 'failures')} of an earlier run"
        yield f"warning: kept {failures}{causes(counts.items())}; --retry-failed tries them again"


def _tables(experiment: Experiment, *, head: bool, verbose: bool) -> str:
    """Return the text for the terminal; the path of the page stands in the last line."""
    from ragbench.report.results import render_terminal

    text = render_terminal(
        experiment.record,
        experiment.compared,
        output.screen(),
        head=head,
        verbose=verbose,
        report=output.short_path(experiment.path / "report.html"),
        run=output.short_path(experiment.path.parent),
    )
    lead, blank, tables = text.partition("\n\n")
    lines = [] if head else _lowest_answers(experiment)
    return "\n".join([lead, *lines]) + blank + tables


def _lowest_answers(experiment: Experiment) -> list[str]:
    """Return lines on the lowest answers where a judge is all that tells of the answers."""
    from ragbench.cli.explain import read_explanation
    from ragbench.report.explanation import Explanation, lowest_lines

    if not Explanation(experiment.record, experiment.compared, (), {}).judged_systems:
        return []
    return [*lowest_lines(read_explanation(experiment.path, None, None))]


@output.command(
    name="reproduce",
    examples=("ragbench reproduce runs/my",),
)
@output.run_argument
@output.flag("--quiet", "-q", help="No progress.")
@output.flag(
    "--trust", help="Also import modules inside RUN; use it only if you trust their author."
)
@click.pass_context
def reproduce(ctx: click.Context, run: Path, quiet: bool, trust: bool) -> None:
    """Repeat the run of the run folder RUN in a new folder beside it, and show the differences.

    Environment variables have their recorded values; set the secrets yourself. Stages are computed
    again; stored replies of models are used. The pointer `latest` does not move. The config of RUN
    runs as with `ragbench run`: read the config of a stranger first. The command prints each module
    before it imports it, and imports modules inside RUN only with --trust. The exit code is 0 if
    all numbers are the same, else 1.
    """
    from ragbench.errors import EXIT_GATE_FAILED
    from ragbench.experiment.reproduce import reproduce as repeat
    from ragbench.report.text import counted

    with output.running(quiet, output.ASKS_REST) as progress:
        result = repeat(run, progress, trust=trust, tell=output.echo)
    changes = {"environment": result.environment, "changed": result.surroundings}
    for word, lines in {**changes, "differs": result.numbers}.items():
        for line in lines:
            output.echo(f"{word}: {line}")
    same = "reproduced: every score and every ranking is the same"
    output.echo(counted(len(result.numbers), "differences") if result.numbers else same)
    output.echo(f"{result.original} again: {result.again.path}")
    ctx.exit(EXIT_GATE_FAILED if result.numbers else 0)


@output.command(
    name="plan",
    examples=("ragbench plan my.yaml",),
)
@output.config_argument
@limit_option
@click.option("--only", multiple=True, metavar="NAME", help="Plan only these systems; repeatable.")
@output.no_judge_option
@output.flag("--retry-failed", help="Count all failed items as items to do.")
@output.overrides_option
@output.flag("--verbose", help="Print a line for each stage, however many there are.")
@output.json_option(help="Print JSON instead of text.")
def plan(
    config: Path, overrides: tuple[str, ...], verbose: bool, as_json: bool, **choices: Any
) -> None:
    """Print the stages, model calls and cost of `ragbench run CONFIG`; send nothing.

    The stages form a tree: each stage reads the results of the stage above it. A tree that does not
    fit a screen is counted by kind of stage. Stored results are not computed again. Modules that
    CONFIG names are imported, but none of their classes and functions is called. If a key or
    package is missing for the run, the last line says so, and the exit code is 2.
    """
    from ragbench.config.load import load_config
    from ragbench.data.runs.run_folder import to_json
    from ragbench.records.manifest import Choices
    from ragbench.report.formats import MOST_LINES

    output.refuse((verbose and as_json, "pass --verbose or --json, not both"))
    settings = load_config(config, overrides=overrides)
    chosen = Choices(judge=not choices.pop("no_judge"), **choices)
    if not settings.collections:
        write = (lambda record: output.write_json(to_json(record))) if as_json else None
        _plan(settings, chosen, write, n_lines=None if verbose else MOST_LINES)
        return
    records: list[object] = []
    n_lines = None if verbose else MOST_LINES // len(settings.collections)
    for part in settings.collections.values():
        _plan(part, chosen, records.append if as_json else None, n_lines=n_lines)
    if as_json:
        record = {"schema": "ragbench.plan/1", "name": settings.name, "collections": records}
        output.write_json(to_json(record))


def _plan(
    settings: ExperimentConfig,
    chosen: Choices,
    write: Callable[[object], None] | None,
    *,
    n_lines: int | None,
) -> None:
    """Print the plan of a run on one data set, then raise for a missing key or package."""
    from ragbench.experiment.plan import components
    from ragbench.experiment.plan.plan import check_without_data, load_collection, make_plan
    from ragbench.experiment.plan.records import LiveComponents
    from ragbench.experiment.stages.graph import plan_record, plan_run
    from ragbench.report.text import counted

    not_created, lines = list(components.uncalled_components(settings)), list[str]()
    if components.loads_by_code(settings):
        planned, remark = None, ""
        not_created.insert(0, f"data set ({settings.dataset.type})")
        title = f"{settings.name}: queries and stages are unknown; nothing is sent"
        check = partial(check_without_data, settings, chosen)
    else:
        plan = make_plan(settings, load_collection(settings), chosen, LiveComponents(), calls=False)
        planned, remark = plan_run(plan), "; its calls are not counted"
        title = f"{settings.name}: {counted(len(plan.queries), 'queries')}; nothing is sent"
        lines += [*_cost(planned), *_power(plan)]
        for warning in plan.warnings:
            lines.append(f"warning: {warning}")
        lines += _kept_failures(planned.kept_failures)
        parts = (plan.retrievers, plan.generators, plan.all_judges)
        check = partial(components.check_startup, settings, *parts)
    if write is not None:
        write(plan_record(settings.name, not_created, planned))
    else:
        for name in not_created:
            lines.append(f"note: {name} is created by a run only{remark}")
        _print_plan(title, () if planned is None else planned.nodes, lines, n_lines)
    check()


def _print_plan(title: str, nodes: Sequence[Step], lines: list[str], n_lines: int | None) -> None:
    """Print a plan; stages that do not fit `n_lines` are counted, by their kind or all together."""
    from ragbench.report.formats import fit_screen
    from ragbench.report.table import Paragraph, Table, TableCell, TableColumn, TableReport

    def report(stages: Iterable[tuple[str, str]], *more: str) -> TableReport:
        """Return the title, the stages as a table, and the lines."""
        cells = []
        for name, state in stages:
            cells.append((TableCell(name), TableCell(state)))
        table = Table((TableColumn(""), TableColumn("", "words")), tuple(cells), title)
        blocks = (table if cells else Paragraph((title,)), Paragraph((*lines, *more)))
        return TableReport(blocks, table)

    result = report(_tree(nodes))
    if n_lines is not None:
        more = "each stage: --verbose"
        by_kind = report(_by_kind(nodes), more)
        together = report([("all stages", _state(_merged(list(_all(nodes)))))], more)
        result = fit_screen((result, by_kind, together), output.screen(), n_lines)
    output.write_report(result, "table")


def _tree(nodes: Sequence[Step], indent: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and state of each stage, indented below the stage that it reads."""
    for node in nodes:
        yield f"{indent}{node.name}", _state(node)
        yield from _tree(node.after, f"{indent}  ")


def _all(nodes: Sequence[Step]) -> Iterator[Step]:
    """Yield the stages of a tree."""
    for node in nodes:
        yield node
        yield from _all(node.after)


def _by_kind(nodes: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Yield the number of stages of each kind, as `retrieve: 8 stages`, with their state."""
    from ragbench.report.text import counted

    kinds: dict[str, list[Step]] = {}
    for node in _all(nodes):
        kinds.setdefault(node.name.partition(" ")[0], []).append(node)
    for kind, stages in kinds.items():
        yield f"{kind}: {counted(len(stages), 'stages')}", _state(_merged(stages))


def _merged(stages: Sequence[Step]) -> Step:
    """Return the items and the cost of several stages as those of one."""
    from ragbench.experiment.stages.base import Step
    from ragbench.llm.usage import Estimate

    units = {stage.unit for stage in stages}
    costs = []
    for stage in stages:
        if stage.cost is not None:
            costs.append(stage.cost)
    return Step(
        "",
        items=sum(stage.items for stage in stages),
        stored=sum(stage.stored for stage in stages),
        unit=units.pop() if len(units) == 1 else "items",
        cost=sum(costs, Estimate()) if costs else None,
        at_most=any(stage.at_most for stage in stages),
    )


def _state(node: Step) -> str:
    """Return `stored`, or the items to do and their calls: `3 of 66 queries to do, 3 calls`."""
    from ragbench.report.text import counted

    n_open = node.items - node.stored
    if not n_open:
        return "stored"
    items = counted(1, node.unit) if node.items == 1 else f"{node.items:,} {node.unit}"
    share = f"{n_open:,} of " if node.stored else ""
    calls = "" if node.cost is None else f", {output.number_range(node.cost.calls)} calls"
    most = "at most " if node.at_most else ""
    return f"{most}{share}{items} to do{calls}"


def _cost(planned: PlannedRun) -> Iterator[str]:
    """Yield the calls, tokens and cost of all models, and each budget that may not be enough."""
    from ragbench.experiment.costs import unpriced_models
    from ragbench.types.display import printable

    if not planned.asks_models:
        yield "models: no calls"
        return
    cost = planned.cost
    yield f"models: {output.estimated(cost)}"
    unpriced: dict[str, str] = {}
    for models in unpriced_models(planned.plan).values() if cost.usd is None else ():
        unpriced |= models
    for model, entry in unpriced.items():
        if entry:
            yield f"{printable(model)} has no known price: write {printable(entry)}"
    if cost.usd is not None and cost.usd[1] > 0:
        most = format(cost.usd[1], ".2g")
        yield f"gate: further looks at a loss that is not sure cost at most {most} USD a side"
    yield from output.short_budgets(planned.plan.config.budget, cost)


def _power(plan: Plan) -> Iterator[str]:
    """Yield a line with the smallest detectable differences; it says so if none is detectable."""
    from ragbench.stats.planning import TYPICAL_SDS, typical_detectable

    low, high = typical_detectable(max(len(plan.queries), 1))
    if math.isnan(low) or math.isnan(high):
        yield "detects: nothing; a comparison needs more queries"
        return
    yield (
        f"detects: differences of {low:.2g} to {high:.2g} between two systems with power 0.8 "
        f"(where they differ by {TYPICAL_SDS[0]:g} to {TYPICAL_SDS[1]:g} from query to query)"
    )
