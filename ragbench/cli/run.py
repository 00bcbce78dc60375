"""`ragbench run CONFIG`, `plan CONFIG`, which says what a run would do, and `reproduce RUN`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli import output

if TYPE_CHECKING:
    from ragbench.experiment.plan.records import Plan
    from ragbench.experiment.result import Experiment
    from ragbench.experiment.stages.base import Node
    from ragbench.experiment.stages.graph import Forecast

_SDS = (0.15, 0.3)  # of paired differences, from close systems to different ones
_NAMES = 44  # columns of the tree
_RESUMES = "finished items are stored; the same command resumes the run"

limit_option = output.number_option("--limit", help="A seeded sample of N queries.")
no_judge_option = click.option("--no-judge", is_flag=True, help="Ask no judge.")


class _Command(click.Command):
    """Lets `--only` take several names: `--only bm25 exact` is `--only bm25 --only exact`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        expanded: list[str] = []
        names_follow = False
        for arg in args:
            names_follow = arg == "--only" or (
                names_follow and not arg.startswith("-") and not arg.endswith((".yaml", ".yml"))
            )
            if names_follow and arg != "--only" and expanded[-1] != "--only":
                expanded.append("--only")
            expanded.append(arg)
        return super().parse_args(ctx, expanded)


@click.command(name="run", cls=_Command)
@output.config_argument
@limit_option
@click.option(
    "--only", multiple=True, metavar="NAME...", help="Only these retrievers, generators or pairs."
)
@no_judge_option
@click.option("--judge-replay", is_flag=True, help="Judge from stored replies only; send nothing.")
@click.option("--retry-failed", is_flag=True, help="Try failed items again.")
@output.overrides_option
@click.option("--strict", is_flag=True, help="Exit with 4 if a gate is undecided.")
@output.json_option(help="Print summary.json instead of the tables.")
@click.option("--quiet", is_flag=True, help="No progress and no notes.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: Path,
    overrides: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    judge_replay: bool,
    **choices: Any,
) -> None:
    """Run the experiment that CONFIG describes.

    Prints the tables, and where the report is. Results are stored item by item: a second run
    computes only what changed, and a stopped run resumes. The run folder is written at the end,
    complete or not at all.
    """
    from ragbench.config.load import load_config
    from ragbench.data.runs.run_folder import to_json
    from ragbench.errors import AdapterError
    from ragbench.experiment.result import exit_code_of
    from ragbench.experiment.runner import run_experiment
    from ragbench.records.manifest import Choices
    from ragbench.report.markdown import render_markdown
    from ragbench.report.progress import Progress
    from ragbench.report.terminal import STYLES
    from ragbench.secrets import redact

    judge, strict = not choices.pop("no_judge"), choices.pop("strict")
    if judge_replay and not judge:
        raise click.UsageError("--no-judge and --judge-replay exclude each other")
    names = [name.strip() for part in choices.pop("only") for name in part.split(",")]
    chosen = Choices(judge=judge, judge_replay=judge_replay, only=tuple(names), **choices)
    checked = load_config(config, overrides=overrides)
    try:
        # what a component prints is no result
        with contextlib.redirect_stdout(sys.stderr), output.resumable(_RESUMES):
            progress = Progress(quiet=quiet, stream=output.behind(sys.stderr))
            experiment = run_experiment(checked, choices=chosen, progress=progress)
    except AdapterError as error:  # its text is the user's own and may hold a key
        raise AdapterError(redact(Exception.__str__(error), checked.secrets)) from error
    if as_json:
        output.write_json(to_json(experiment.summary))
    else:
        output.write_drawn(_tables(experiment, notes=not quiet), STYLES)
    summary = experiment.record
    page = partial(render_markdown, summary, experiment.compared)
    output.report_to_github(page, summary.gates, config, os.environ)
    ctx.exit(exit_code_of(summary, strict=strict))


def _tables(experiment: Experiment, *, notes: bool) -> str:
    from ragbench.report.terminal import render_terminal

    color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    page = experiment.path / "report.html"
    return render_terminal(
        experiment.record,
        experiment.compared,
        width=output.terminal_width(),
        color=color and sys.stdout.isatty(),
        notes=notes,
        # short where it lies below the working directory
        report=str(page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page),
    )


@click.command(name="reproduce")
@output.run_argument
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option(
    "--trust",
    is_flag=True,
    help="Import modules that lie in RUN too; only if you know who wrote them.",
)
@click.pass_context
def reproduce(ctx: click.Context, run: Path, quiet: bool, trust: bool) -> None:
    """Repeat the run of the run folder RUN beside it, and show what differs.

    Values of environment variables are those that were recorded; secrets have to be set. Stored
    stages are not used, but stored replies of models are. `latest` stays. The config of
    RUN is run as `ragbench run` would run it, so read that of a stranger first. Each module that it
    names is printed before it is imported; modules in RUN itself are imported with --trust only.
    The exit code is 0 if every number is the same, else 1.
    """
    from ragbench.errors import EXIT_GATE_FAILED
    from ragbench.experiment.reproduce import reproduce as repeat
    from ragbench.report.progress import Progress
    from ragbench.report.text import counted

    with contextlib.redirect_stdout(sys.stderr), output.resumable():  # components print no result
        progress = Progress(quiet=quiet, stream=output.behind(sys.stderr))
        found = repeat(run, progress, trust=trust, tell=output.echo)
    for line in found.environment:
        output.echo(f"environment: {line}")
    for line in found.surroundings:
        output.echo(f"changed: {line}")
    for line in found.numbers:
        output.echo(f"differs: {line}")
    same = "reproduced: every score and every ranking is the same"
    output.echo(counted(len(found.numbers), "differences") if found.numbers else same)
    output.echo(f"{found.original} again: {found.again.path}")
    ctx.exit(EXIT_GATE_FAILED if found.numbers else 0)


@click.command(name="plan")
@output.config_argument
@limit_option
@click.option("--only", multiple=True, metavar="NAME", help="Only these systems.")
@no_judge_option
@click.option("--retry-failed", is_flag=True, help="Count failed items as to do.")
@output.overrides_option
@output.json_option(help="Print JSON instead of text.")
def plan(
    config: Path,
    overrides: tuple[str, ...],
    as_json: bool,
    **choices: Any,
) -> None:
    """Print what `ragbench run CONFIG` would do, and what it may cost; nothing is sent.

    The stages form a tree: each one reads the one above it. Stored results are not computed again.
    Modules that CONFIG names are imported, but none of their classes and functions is called.
    """
    from ragbench.config.load import load_config
    from ragbench.data.runs.run_folder import to_json
    from ragbench.experiment.plan.components import (
        loads_by_code,
        startup_problems,
        uncalled_components,
    )
    from ragbench.experiment.plan.plan import load_collection, make_plan
    from ragbench.experiment.plan.records import LiveComponents
    from ragbench.experiment.stages.graph import forecast, plan_record
    from ragbench.records.manifest import Choices

    checked = load_config(config, overrides=overrides)
    uncalled = list(uncalled_components(checked))
    if loads_by_code(checked):
        unknown = f"data set ({checked.dataset.type})"
        if as_json:
            output.write_json(to_json(plan_record(checked.name, [unknown, *uncalled], None)))
            return
        output.echo(f"{checked.name}: queries and stages are not known; nothing is sent")
        for name in (unknown, *uncalled):
            output.echo(f"note: {name} is not made before a run")
        return
    chosen = Choices(judge=not choices.pop("no_judge"), **choices)
    plan = make_plan(checked, load_collection(checked), chosen, LiveComponents(), calls=False)
    found = forecast(plan)
    if as_json:
        output.write_json(to_json(plan_record(checked.name, uncalled, found)))
        return
    output.echo(f"{checked.name}: {len(plan.queries)} queries; nothing is sent")
    workers = [] if found.workers is None else [f"workers: {found.workers}; the rest is done here"]
    for line in (*_tree(found.nodes), *workers, *_cost(found), *_power(plan)):
        output.echo(line)
    for warning in plan.warnings:
        output.echo(f"warning: {warning}")
    for name in uncalled:
        output.echo(f"note: {name} is not made before a run; what it asks for is not counted")
    for problem in startup_problems(plan.generators, plan.all_judges):
        output.echo(f"note: {problem}")


def _tree(nodes: Sequence[Node], indent: str = "") -> Iterator[str]:
    for node in nodes:
        name = f"{indent}{node.name}"
        yield f"{name:<{_NAMES}} {_state(node)}"
        yield from _tree(node.after, f"{indent}  ")


def _state(node: Node) -> str:
    from ragbench.report.text import counted

    n_open = node.items - node.stored
    if not n_open:
        return "stored"
    items = counted(1, node.unit) if node.items == 1 else f"{node.items:,} {node.unit}"
    share = f"{n_open:,} of " if node.stored else ""
    calls = "" if node.cost is None else f", {_range(node.cost.calls)} calls"
    most = "at most " if node.at_most else ""
    where = ", by workers" if node.by_workers else ""
    return f"{most}{share}{items} to do{calls}{where}"


def _cost(found: Forecast) -> Iterator[str]:
    if not found.asks_models:
        yield "models: none is asked"
        return
    cost = found.cost
    usd = "of unknown price" if cost.usd is None else f"{_range(cost.usd, '.2g')} USD"
    yield f"models: {_range(cost.calls)} calls, {_range(cost.tokens)} tokens, {usd}"
    budget = found.plan.config.budget
    if budget.usd is not None and cost.usd is not None and cost.usd[1] > budget.usd:
        yield f"budget: {budget.usd:g} USD may not be enough"
    if budget.tokens is not None and cost.tokens[1] > budget.tokens:
        yield f"budget: {budget.tokens:,} tokens may not be enough"


def _range(numbers: tuple[float, float], form: str = ",.0f") -> str:
    low, high = (format(number, form) for number in numbers)
    return low if low == high else f"{low} to {high}"


def _power(plan: Plan) -> Iterator[str]:
    """The smallest difference that the queries can show, for similar and for different systems."""
    from ragbench.stats import minimum_detectable_difference

    n = len(plan.queries)
    if n < 2:
        yield "detects: nothing: a comparison needs two queries"
        return
    low, high = (minimum_detectable_difference(sd, n) for sd in _SDS)
    yield (
        f"detects: differences of {low:.2g} to {high:.2g} between two systems with power 0.8 "
        f"(where they differ by {_SDS[0]:g} to {_SDS[1]:g} from query to query)"
    )
