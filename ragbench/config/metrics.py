"""Checks of the blocks `metrics`, `statistics` and `causes`: score names and combinations."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.comparison.cause_rules import CauseRules, RightAnswer, SupportedAnswer
from ragbench.comparison.slices import PERIOD
from ragbench.config import schema
from ragbench.config.first_guesses import report_listed_scores
from ragbench.config.judges import check_judges, check_rubric, report_misplaced
from ragbench.config.options import INVALID, Context, check_reference, check_value
from ragbench.config.tree import UNREADABLE, Node, Report
from ragbench.errors import OptionError, Phrase, Place, RagbenchError
from ragbench.records.score import Kind
from ragbench.registry import DeclaredOption, Option, declared_options, nearest
from ragbench.score.text.base import Metric
from ragbench.types.lookups import item_names

if TYPE_CHECKING:
    from ragbench.score.retrieval.notation import Measure

_BLOCKS = ("retrieval", "generation", "judge")
# YAML reads a comma in an unquoted list element as the end of the element
_QUOTE_NAME = 'a name with a comma in quotes: "ndcg(gain=exp,discount=jk)@10"'
_NAMES = DeclaredOption("generation", tuple[str, ...], (), Option("Names of metrics."))


def check_metrics(node: Node | None, context: Context) -> schema.Metrics:
    """Return the checked block `metrics`; problems go into the report.

    Values with a problem keep their defaults.

    Args:
        node: The block; None if the config has none, which gives the defaults.
        context: Report, folders and retrievers of the config.
    """
    block = node or Node({}, Place(), ("metrics",))
    if report_listed_scores(block, context.report):
        block = Node({}, block.place, block.path)
    context.check(block, {}, extra=_BLOCKS)
    retrieval = _retrieval(block.get("retrieval"), context)
    generation, judges = None, None
    if (generation_node := block.get("generation")) is not None:
        generation = _generation(generation_node, context)
    if (judge_node := block.get("judge")) is not None:
        judges = check_judges(judge_node, block.entries["judge"].place, context)
    metrics = schema.Metrics(retrieval=retrieval, generation=generation, judges=judges)
    retrieval_node = block.get("retrieval")
    fill_node = None if retrieval_node is None else retrieval_node.get("fill")
    if fill_node is not None:
        # after the judges, one of which it names
        fill_config = _fill(fill_node, metrics, judge_node is not None, context)
        metrics = replace(metrics, retrieval=replace(retrieval, fill=fill_config))
    return metrics


def _retrieval(node: Node | None, context: Context) -> schema.RetrievalMetrics:
    """Return the block `metrics.retrieval`; values with a problem keep their defaults."""
    from ragbench.score.retrieval.notation import parse_measures

    report = context.report
    block = node or Node({}, Place(), ("metrics", "retrieval"))
    if report_listed_scores(block, report):
        block = Node({}, block.place, block.path)
    declared = declared_options(schema.RetrievalMetrics)
    values = context.check(block, declared, extra=tuple(schema.RetrievalMetrics.blocks))
    match_node = block.get("match")
    if match_node is not None:
        match_config = _match(match_node, values.get("ties"), context)
        values |= {} if match_config is None else {"match": match_config}
    names = block.get("measures")
    if names is not None:
        parsed = _parse_names(names, parse_measures, "measure", report)
        top_k = values.get("top_k")
        for node, measures in parsed:
            _check_depth(node, measures, top_k, report)
    return schema.RetrievalMetrics(**values)


def check_measure(node: Node, top_k: int, report: Report) -> None:
    """Report a name that is not one measure, or a cut-off beyond `top_k`."""
    from ragbench.score.retrieval.notation import parse_measures

    measures = _parse(node, parse_measures, "measure", report)
    if measures is None:
        return
    _check_depth(node, measures, top_k, report)
    if len(measures) > 1:
        report.wrong(node, f"{node.quote()} names several measures", "one measure")


def _check_depth(
    node: Node, measures: Sequence[Measure], top_k: int | None, report: Report
) -> None:
    """Report measures with a cut-off beyond `top_k`; None is a `top_k` that has a problem."""
    deepest = max((measure.k or 0 for measure in measures), default=0)
    if top_k is not None and deepest > top_k:
        problem = f"{node.quote()} looks deeper than top_k"
        report.wrong(node, problem, f"k up to top_k, which is {top_k}")


def _generation(node: Node, context: Context) -> tuple[schema.NamedMetric, ...] | None:
    """Return the metrics of `metrics.generation`; None if it is no list of texts."""
    from ragbench.score.text.notation import parse_metrics

    names = check_value(node, _NAMES, context.report)
    parsed = _parse_names(node, parse_metrics, "metric", context.report)
    if names is INVALID:
        return None
    named_metrics = []
    for row, (name, metrics) in enumerate(parsed):
        for metric in metrics if isinstance(metrics, list) else [metrics]:
            metric = _with_paths(metric, context.base)
            named_metrics.append(schema.NamedMetric(metric=metric, row=row, place=name.place))
    return tuple(named_metrics)


def _with_paths(metric: Metric, base: Path) -> Metric:
    """Return the metric with absolute paths for options that name a file beside the config."""
    declared = declared_options(metric.declaration.function)
    paths = {}
    for name, value in metric.chosen.items():
        refers_to = declared[name].option.refers_to
        is_path = isinstance(value, str) and refers_to in ("path", "path_or_name")
        # what is nowhere there is left to the metric, which knows its names
        if is_path and os.path.exists(path := base / value):
            paths[name] = str(path.absolute())
    if not paths:
        return metric
    return replace(metric, options={**metric.options, **paths}, chosen={**metric.chosen, **paths})


def _parse_names(
    names: Node, parse: Callable[[str], Any], noun: str, report: Report
) -> list[tuple[Node, Any]]:
    """Return the names of a list, each with its parsed scores; wrong names are reported."""
    parsed: list[tuple[Node, Any]] = []
    by_name: dict[Any, Node] = {}
    in_cut_name = False
    for node in names.elements:
        if not isinstance(node.value, str) or node.value is UNREADABLE:
            continue
        text = node.value
        balance = text.count("(") - text.count(")")
        if in_cut_name:
            # the rest of a name that YAML cut at its comma; the first part has the problem
            in_cut_name = balance >= 0
            continue
        if balance > 0 and len(names.elements) > 1 and not node.quoted:
            in_cut_name = True
            report.wrong(node, f"{node.quote()} has no ')'", _QUOTE_NAME)
            continue
        score = _parse(node, parse, noun, report)
        if score is None:
            continue
        # equal for two spellings of one score; `ndcg_cut_5,10` is a list of two scores
        are_several = isinstance(score, list)
        score_names = item_names(score) if are_several else [score.canonical]
        earlier = next(filter(None, map(by_name.get, score_names)), None)
        if earlier is not None:
            problem = f"{node.quote()} is named twice"
            if earlier.source != node.source:
                problem = f"{node.quote()} is the same as {earlier.quote()}"
            report.wrong(node, problem, f"each {noun} once")
        by_name.update(dict.fromkeys(score_names, node))
        parsed.append((node, score))
    return parsed


_KINDS: Mapping[str, Kind] = {"measure": "retrieval", "metric": "generation"}


def _parse(node: Node, parse: Callable[[str], Any], noun: str, report: Report) -> Any:
    """Return the score of a name; None, with a problem in the report, if the name is wrong."""
    try:
        return parse(str(node.value))
    except OptionError as error:
        if report_misplaced(node, _KINDS[noun], report):
            return None
        problem = f"unknown {noun} {node.quote()}"
        has_detail = error.option or isinstance(error.found, Phrase)
        if has_detail and error.found != node.value and not node.parts:
            place = f"{error.option} of {node.quote()}".removeprefix(" of ")
            problem = f"{place}: found {error.found!r}"
            if error.found is None:
                problem = f"{node.quote()} has no {error.option}"
        report.wrong(node, problem, error.allowed, error.nearest)
    except RagbenchError as error:  # a third-party package that cannot be loaded
        report.wrong(node, str(error))
    return None


# A value of the metadata as a config names it: `metadata.topic`, also nested
METADATA = re.compile(r"metadata(\.[^.\s]+)+")
_BARE_KEY = re.compile(r"[^.\s()]+(\.[^.\s()]+)*")

# Key of `match` -> the only level that reads it
_LEVEL_OF = {"id": "document", "separator": "document", "overlap": "text"}


def _match(node: Node, ties: Any, context: Context) -> schema.Match | None:
    """Return the block `match`; None if its level is wrong, or if it is no mapping."""
    report = context.report
    values = context.check(node, declared_options(schema.Match))
    level = values.get("level")
    if level is None:
        return None
    for key, level_of_key in _LEVEL_OF.items():
        if (entry := node.entries.get(key)) is not None and level != level_of_key:
            problem = f"'{key}' has no effect with level: {level}"
            report.wrong(entry, problem, f"level: {level_of_key}, or no '{key}'")
    id_node, separator_node = node.get("id"), node.get("separator")
    if level == "document" and id_node is None and separator_node is None:
        problem = "level: document needs the document id of each passage"
        report.wrong(node, problem, 'id: metadata.<key>, or separator: "#"')
    if level == "document" and id_node is not None:
        if separator_node is not None:
            report.wrong(separator_node, "id and separator exclude each other", "one of them")
        if isinstance(id_node.value, str):
            _check_field(id_node, (), context, example="metadata.doc_id")
    if level == "document" and separator_node is not None and separator_node.value == "":
        report.wrong(separator_node, "the separator is empty", "a text, such as '#'")
    if level == "text" and ties == "average":
        # a gold passage counts once, at its first hit; averaging over orders has no first hit
        problem = "level: text cannot be combined with ties: average"
        report.wrong(node, problem, "ties: docid, stable")
    return schema.Match(**values)


def _fill(
    node: Node, metrics: schema.Metrics, has_judges: bool, context: Context
) -> schema.Fill | None:
    """Return the block `fill`; None if it has a problem, or if its judge has one."""
    report, n_problems = context.report, len(context.report)
    values = context.check(node, declared_options(schema.Fill))
    if not has_judges:
        problem = "fill needs a judge, and metrics.judge is missing"
        report.wrong(node, problem, "metrics.judge: {type: openai, model: ...}")
    judges = metrics.judges or {}
    name = _judge_name(node, values, list(judges), context) if metrics.judges is not None else None
    rubric = _rubric(node, values, judges.get(str(name)), context)
    depth, top_k = values.get("depth"), metrics.retrieval.top_k
    level = metrics.retrieval.match.level
    if depth is not None and depth > top_k:
        problem = f"{depth} is more than top_k"
        report.wrong(node.get("depth") or node, problem, f"at most top_k, which is {top_k}")
    # grades are of passages, which the other levels fold or match by words
    if level != "id":
        problem = f"fill cannot be combined with match: level: {level}"
        report.wrong(node, problem, "match: level: id")
    if len(report) > n_problems or rubric is None or name is None:
        return None
    context.fill(node, "judge", name)
    return schema.Fill(**{**values, "judge": name, "rubric": rubric})


def _judge_name(
    node: Node, values: Mapping[str, Any], judges: Sequence[str], context: Context
) -> str | None:
    """Return the judge that `fill` names, or the only judge; None, with a problem, if unclear."""
    judge_node = node.get("judge")
    if judge_node is None and len(judges) != 1:
        problem = f"fill must name one of the {len(judges)} judges"
        context.report.wrong(node, problem, f"judge: {', '.join(judges)}")
        return None
    name = judges[0] if judge_node is None else values.get("judge")
    if name is not None and name not in judges and judge_node is not None:
        close, problem = nearest(str(name), judges), f"no judge {judge_node.quote()}"
        context.report.wrong(judge_node, problem, ", ".join(judges), close)
        return None
    return name


def _rubric(
    node: Node, values: Mapping[str, Any], judge: schema.JudgeBlock | None, context: Context
) -> str | Path | None:
    """Return the name or file of the rubric of `fill`; None, with a problem, if it is not found."""
    from ragbench.score.judge.base import judge_facts
    from ragbench.score.judge.rubric import load_rubric, not_applied

    rubric_node = node.get("rubric")
    source: str | Path | None = values.get("rubric")
    if rubric_node is not None and isinstance(rubric_node.value, str):
        checked = check_rubric(rubric_node, context)
        source = None if checked is None else checked[1]
    if source is None:
        return None
    place_node, rubric = rubric_node or node, load_rubric(source)
    if (rubric.asks, rubric.method) != ("context", "rating") or rubric.direction != "higher":
        problem = f"rubric '{rubric.name}' cannot grade passages"
        allowed = "a rubric with asks: context, method: rating, direction: higher"
        context.report.wrong(place_node, problem, allowed)
    if judge is not None and not_applied(rubric, judge_facts(judge.cls)) is not None:
        problem = f"judge '{judge.type}' cannot apply rubric '{rubric.name}'"
        allowed = "a judge that is a language model, such as openai"
        context.report.wrong(place_node, problem, allowed)
    relevant_from, relevant_node = values.get("relevant_from"), node.get("relevant_from")
    if relevant_from is not None and relevant_node is not None and relevant_from > rubric.levels:
        problem = f"{relevant_from} is above the highest level of rubric '{rubric.name}'"
        context.report.wrong(relevant_node, problem, f"an integer from 2 to {rubric.levels}")
    return source


def check_statistics(node: Node, context: Context) -> schema.Statistics:
    """Return the checked block `statistics`; problems go into the report.

    Problems are also combinations that make no sense, such as `mcnemar` with clusters. Values with
    a problem keep their defaults; `bh` becomes `benjamini_hochberg`, and repeated slices count
    once.
    """
    values = context.check(node, declared_options(schema.Statistics))
    baseline = node.get("baseline")
    # without retrievers the systems are those of the records, known when they are read
    if baseline is not None and isinstance(baseline.value, str) and context.retrievers:
        check_reference(baseline, context)
    test, correction = values.get("test", "randomization"), node.get("correction")
    if correction is not None and correction.value == "max_t" and test != "randomization":
        problem = f"correction: max_t needs sign flips, which test: {test} does not use"
        context.report.wrong(correction, problem, "test: randomization")
    if values.get("correction") == "none" and values.get("family") == "all":
        conflict = node.entries["family"].node
        problem = "family: all has no effect with correction: none"
        context.report.wrong(conflict, problem, "family: measure, or another correction")
    if test == "mcnemar" and values.get("cluster") is not None:
        conflict = node.entries["test"].node
        problem = "test: mcnemar counts single queries and cannot be combined with cluster"
        context.report.wrong(conflict, problem, "randomization, t, wilcoxon")
    # an alias; records have one spelling
    if values.get("correction") == "bh":
        values["correction"] = "benjamini_hochberg"
    cluster, slices = node.get("cluster"), node.get("slices")
    if cluster is not None and isinstance(cluster.value, str):
        _check_field(cluster, (), context)
    if slices is not None and values.get("slices"):
        for field in slices.elements:
            _check_field(field, schema.SLICES, context)
        # a field twice would be tested twice, and count twice in the correction
        values["slices"] = tuple(dict.fromkeys(values["slices"]))
    return schema.Statistics(**values)


def check_causes(node: Node, metrics: schema.Metrics, context: Context) -> CauseRules:
    """Return the rules of the block `causes`; problems go into the report.

    A `measure` in it must be a score of answers that the block `metrics` computes. Values with a
    problem keep their defaults; a config without the block passes an empty mapping.
    """
    declared = declared_options(CauseRules)
    values = context.check(node, declared, extra=tuple(CauseRules.blocks))
    record_types: dict[str, Any] = {"right": RightAnswer, "supported": SupportedAnswer}
    for name, record in record_types.items():
        block = node.get(name)
        if block is not None:
            options = context.check(block, declared_options(record))
            values[name] = record(**options)
            if block.text("measure") is not None:
                _check_answer_score(block.entries["measure"].node, metrics, context.report)
    return CauseRules(**values)


def check_audit(node: Node | None, context: Context) -> schema.AuditRules | None:
    """Return the options of the block `audit`, None without it; problems go into the report."""
    if node is None:
        return None
    values = context.check(node, declared_options(schema.AuditRules))
    if (kind := node.get("kind")) is not None and isinstance(kind.value, str):
        _check_field(kind, (), context, "metadata.kind")
    return schema.AuditRules(**values)


def _check_answer_score(node: Node, metrics: schema.Metrics, report: Report) -> None:
    """Report a measure that does not score answers, or that the config does not compute."""
    from ragbench.config.gates import gate_scores  # a config without gates does not load them

    scores, name = gate_scores(metrics), str(node.value)
    score = scores.find(name)
    names = []
    for declared in scores.scores.values():
        if declared.name.startswith(f"{name}(judge="):
            return  # a rubric of several judges, each of which is allowed
        if declared.kind != "retrieval":
            names.append(declared.name)
    if score is None or score.kind == "retrieval":
        problem = "is not scored" if score is None else "scores rankings, not answers"
        allowed = ", ".join(names) or "a metric or a rubric, such as token_f1 or correctness"
        report.wrong(node, f"{node.quote()} {problem}", allowed, nearest(name, names))


def _check_field(
    node: Node, words: tuple[str, ...], context: Context, example: str = "metadata.topic"
) -> None:
    """Report a field that is neither an allowed word nor a key of the metadata."""
    value = str(node.value)
    if words and PERIOD.fullmatch(value):
        return
    # a bare key is one of the metadata, unless it looks like a misspelled word
    if words and _BARE_KEY.fullmatch(value) and not nearest(value, words):
        return
    if value not in words and not METADATA.fullmatch(value):
        problem = f"{node.quote()} does not name a key of the metadata"
        allowed = f"metadata.<key>, such as {example}"
        if words:
            allowed = f"{', '.join(words)}, week(metadata.time) (or day, month), {allowed}"
            problem = f"unknown field {node.quote()}"
            words = (*words, "week(metadata.time)", "day(metadata.time)", "month(metadata.time)")
        context.report.wrong(node, problem, allowed, nearest(value, words))
