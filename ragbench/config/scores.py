"""The `metrics` block: measures, metrics and judges, their names parsed before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.config.blocks import check_block
from ragbench.config.check import INVALID, check_options, check_value
from ragbench.config.fill import Around, check_fill
from ragbench.config.judges import check_judges
from ragbench.config.matching import check_match
from ragbench.config.problems import NOT_BUILT, Place, Report
from ragbench.config.references import Context
from ragbench.config.schema import Metrics, NamedMetric
from ragbench.config.scoring_blocks import RetrievalMetrics
from ragbench.config.tree import Item
from ragbench.config.yaml_reader import UNREADABLE
from ragbench.errors import NotBuiltYet, OptionError, RagbenchError
from ragbench.registry import DeclaredOption, Option, declared_options

if TYPE_CHECKING:
    from ragbench.score.text.base import Metric

_BLOCKS = ("retrieval", "generation", "judge")
_VERIFY = DeclaredOption(
    "verify",
    bool,
    False,
    Option("Compute every score again with the packages that define it; say how far apart."),
)
_QUOTE = 'a name with a comma in quotes: "ndcg(gain=exp,discount=jk)@10"'
_NAMES = DeclaredOption("generation", tuple[str, ...], (), Option("Names of metrics."))


@dataclass(frozen=True)
class CheckedMetrics:
    """The block after its checks."""

    metrics: Metrics
    """What is scored."""
    written: dict[str, Any]
    """The block as plain data with its defaults."""


def check_metrics(item: Item | None, context: Context) -> CheckedMetrics:
    """Check the whole block; everything that is wrong goes into the report."""
    block = item or Item({}, Place(), ("metrics",))
    report = context.report
    values = check_options(block, {"verify": _VERIFY}, report, others=_BLOCKS)
    retrieval, written = _retrieval(block.get("retrieval"), context)
    result: dict[str, Any] = {"retrieval": written}
    verify = bool(values.get("verify"))
    if verify:
        result["verify"] = True
    generation, judges = None, None
    if (names := block.get("generation")) is not None:
        generation = _generation(names, context)
        result["generation"] = names.as_written()
    if (judge := block.get("judge")) is not None:
        judges, result["judge"] = check_judges(judge, block.entries["judge"].key_place, context)
    fill = None if (rules := block.get("retrieval")) is None else rules.get("fill")
    if fill is not None:
        around = Around(judges, judge is not None, retrieval.top_k, retrieval.match.level)
        checked, written["fill"] = check_fill(fill, around, context)
        retrieval = replace(retrieval, fill=checked)
    metrics = Metrics(retrieval=retrieval, generation=generation, judges=judges, verify=verify)
    return CheckedMetrics(metrics, result)


def _retrieval(item: Item | None, context: Context) -> tuple[RetrievalMetrics, dict[str, Any]]:
    from ragbench.score.retrieval.notation import parse_measures

    report = context.report
    block = item or Item({}, Place(), ("metrics", "retrieval"))
    others = tuple(RetrievalMetrics.blocks)
    values, written = check_block(block, RetrievalMetrics, report, others)
    match = block.get("match")
    if match is not None:
        checked, written["match"] = check_match(match, values.get("ties"), report)
        values |= {} if checked is None else {"match": checked}
    names = block.get("measures")
    if names is not None:
        parsed = _parse_names(names, parse_measures, "measure", report)
        _check_cutoffs(parsed, values.get("top_k"), report)
    return RetrievalMetrics(**values), written


def _generation(item: Item, context: Context) -> tuple[NamedMetric, ...] | None:
    from ragbench.score.text.notation import parse_metric

    names = check_value(item, _NAMES, context.report)
    parsed = _parse_names(item, parse_metric, "metric", context.report)
    if names is INVALID:
        return None
    return tuple(
        NamedMetric(metric=_with_paths(metric, context.base), place=name.place)
        for name, metric in parsed
    )


def _with_paths(metric: Metric, base: Path) -> Metric:
    """The metric with the files and folders that its options name, relative to the config."""
    declared = declared_options(metric.declaration.function)
    found = {}
    for name, value in metric.chosen.items():
        refers_to = declared[name].option.refers_to
        is_path = isinstance(value, str) and refers_to in ("path", "path_or_name")
        # what is nowhere there is left to the metric, which knows its names
        if is_path and (path := base / value).exists():
            found[name] = str(path.absolute())
    if not found:
        return metric
    return replace(metric, options={**metric.options, **found}, chosen={**metric.chosen, **found})


def _parse_names(
    names: Item, parse: Callable[[str], Any], noun: str, report: Report
) -> list[tuple[Item, Any]]:
    """Parse each name of a list; a wrong or repeated one is a problem at its place."""
    parsed: list[tuple[Item, Any]] = []
    seen: dict[Any, Item] = {}
    open_parenthesis = False
    for item in names.items:
        if not isinstance(item.value, str) or item.value is UNREADABLE:
            continue
        text = item.value
        balance = text.count("(") - text.count(")")
        if open_parenthesis:
            # the rest of a name that was cut at its comma, which was reported already
            open_parenthesis = balance >= 0
            continue
        if balance > 0 and len(names.items) > 1 and not item.quoted:
            open_parenthesis = True
            report.add(item.place, item.path, f"{item.shown()} has no ')'", _QUOTE)
            continue
        result = _parse(item, parse, noun, report)
        if result is None:
            continue
        names_of = _identities(result)
        if (first := next((seen[name] for name in names_of if name in seen), None)) is not None:
            found = f"{item.shown()} is named twice"
            if first.written != item.written:
                found = f"{item.shown()} is the same as {first.shown()}"
            report.add(item.place, item.path, found, f"each {noun} once")
        seen.update(dict.fromkeys(names_of, item))
        parsed.append((item, result))
    return parsed


def _identities(parsed: Any) -> list[str]:
    """What two spellings of the same score share; `ndcg_cut_5,10` are two scores."""
    if isinstance(parsed, list):
        return [measure.name for measure in parsed]
    return [parsed.canonical]


def _parse(item: Item, parse: Callable[[str], Any], noun: str, report: Report) -> Any:
    try:
        return parse(str(item.value))
    except NotBuiltYet:
        report.add(item.place, item.path, f"{item.shown()} {NOT_BUILT}")
    except OptionError as error:
        found = f"unknown {noun} {item.shown()}"
        if error.option and error.found != item.value and not item.from_environment:
            found = f"{error.option} of {item.shown()}: found {error.found!r}"
            if error.found is None:
                found = f"{item.shown()} has no {error.option}"
        report.add(item.place, item.path, found, error.allowed, error.nearest)
    except RagbenchError as error:  # a third party's, which cannot be loaded
        report.add(item.place, item.path, str(error))
    return None


def _check_cutoffs(parsed: list[tuple[Item, Any]], top_k: int | None, report: Report) -> None:
    for item, measures in parsed:
        deepest = max((measure.k or 0 for measure in measures), default=0)
        if top_k is not None and deepest > top_k:
            found = f"{item.shown()} looks deeper than top_k"
            report.add(item.place, item.path, found, f"k up to top_k, which is {top_k}")
