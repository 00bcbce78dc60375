"""`ragbench plan CONFIG`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragbench.cli.output import (
    config_argument,
    limit_option,
    no_judge_option,
    overrides_option,
    shard_option,
    token_option,
    write_json,
)
from ragbench.cli.streams import echo

if TYPE_CHECKING:
    from ragbench.experiment.plan.records import Plan
    from ragbench.experiment.stages.base import Node
    from ragbench.experiment.stages.graph import Forecast

_SDS = (0.15, 0.3)  # of paired differences, from close systems to different ones
_ONE = {
    "queries": "query",
    "measures": "measure",
    "metrics": "metric",
    "verdicts": "verdict",
    "passages": "passage",
}
_NAMES = 44  # columns of the tree


@click.command(name="plan")
@config_argument
@limit_option
@click.option("--only", multiple=True, metavar="NAME", help="Only these systems.")
@no_judge_option
@click.option("--retry-failed", is_flag=True, help="Count failed items as to do.")
@shard_option
@token_option
@overrides_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def command(
    config: Path,
    overrides: tuple[str, ...],
    shard: str | None,
    token: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Print what `ragbench run CONFIG` would do, and what it may cost; nothing is sent.

    The stages form a tree: each one reads the one above it. Stored results are not computed again.
    Modules that CONFIG names are imported, but none of their classes and functions is called.
    With --shard 3/16 it is what that part would make.
    """
    from ragbench.config.load import load_config
    from ragbench.data.runs.run_folder import to_json
    from ragbench.experiment.plan.components import missing_keys, readiness
    from ragbench.experiment.plan.plan import load_collection, make_plan
    from ragbench.experiment.plan.records import LiveComponents, Share
    from ragbench.experiment.plan.uncalled import loads_by_code, uncalled_components
    from ragbench.experiment.stages.graph import forecast, nothing_known
    from ragbench.records.manifest import Choices

    share = None if shard is None else Share.parse(shard)
    checked = load_config(config, overrides=overrides)
    uncalled = list(uncalled_components(checked))
    if loads_by_code(checked):
        unknown = f"data set ({checked.dataset.type})"
        if as_json:
            write_json(to_json(nothing_known(checked, [unknown, *uncalled])))
            return
        echo(f"{checked.name}: queries and stages are not known; nothing is sent")
        for name in (unknown, *uncalled):
            echo(f"note: {name} is not made before a run")
        return
    chosen = Choices(judge=not choices.pop("no_judge"), **choices)
    plan = make_plan(checked, load_collection(checked), chosen, LiveComponents(), calls=False)
    found = forecast(plan, retry_failed=chosen.retry_failed, share=share, token=token)
    if as_json:
        write_json(to_json(found.to_dict() | {"not_made": uncalled}))
        return
    part = "" if share is None else f"part {share} of "
    echo(f"{checked.name}: {part}{len(plan.queries)} queries; nothing is sent")
    workers = [] if found.workers is None else [f"workers: {found.workers}; the rest is done here"]
    power = [] if share else _power(plan)
    for line in (*_tree(found.nodes), *workers, *_cost(found), *power):
        echo(line)
    for warning in plan.warnings:
        echo(f"warning: {warning}")
    for name in uncalled:
        echo(f"note: {name} is not made before a run; what it asks for is not counted")
    notes = [readiness(name, judge) for name, judge in plan.asked_judges.items()]
    for note in (*missing_keys(plan.generators), *notes):
        if note is not None:
            echo(f"note: {note}")


def _tree(nodes: Sequence[Node], indent: str = "") -> Iterator[str]:
    for node in nodes:
        name = f"{indent}{node.name}"
        yield f"{name:<{_NAMES}} {_state(node)}"
        yield from _tree(node.after, f"{indent}  ")


def _state(node: Node) -> str:
    left = node.items - node.stored
    if not left:
        return "stored"
    unit = _ONE.get(node.unit, node.unit) if node.items == 1 else node.unit
    of = f"{left:,} of {node.items:,}" if node.stored else f"{node.items:,}"
    calls = "" if node.cost is None else f", {_range(node.cost.calls)} calls"
    most = "at most " if node.at_most else ""
    where = ", by workers" if node.by_workers else ""
    return f"{most}{of} {unit} to do{calls}{where}"


def _cost(found: Forecast) -> Iterator[str]:
    if not found.asks_models:
        yield "models: none is asked"
        return
    cost = found.cost
    usd = "of unknown price" if cost.usd is None else f"{_range(cost.usd, '.2g')} USD"
    yield f"models: {_range(cost.calls)} calls, {_range(cost.tokens)} tokens, {usd}"
    budget, parts = found.plan.config.budget, found.parts
    if budget.usd is not None and cost.usd is not None and cost.usd[1] > budget.usd / parts:
        yield f"budget: {budget.usd / parts:g} USD may not be enough"
    if budget.tokens is not None and cost.tokens[1] > budget.tokens // parts:
        yield f"budget: {budget.tokens // parts:,} tokens may not be enough"


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
