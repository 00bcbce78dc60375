"""The blocks `metrics` and `statistics`: scores by their names, and what goes together."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.comparison.cause_rules import CauseRules, RightAnswer, SupportedAnswer
from ragbench.config import schema
from ragbench.config.judges import check_judges, check_rubric, report_misplaced
from ragbench.config.options import INVALID, Context, check_reference, check_value
from ragbench.config.problems import Report
from ragbench.config.tree import UNREADABLE, Node
from ragbench.errors import OptionError, Place, RagbenchError
from ragbench.records.score import Kind
from ragbench.registry import DeclaredOption, Option, declared_options, nearest

if TYPE_CHECKING:
    from ragbench.score.text.base import Metric


_BLOCKS = ("retrieval", "generation", "judge")
_QUOTE = 'a name with a comma in quotes: "ndcg(gain=exp,discount=jk)@10"'
_NAMES = DeclaredOption("generation", tuple[str, ...], (), Option("Names of metrics."))


def check_metrics(node: Node | None, context: Context) -> schema.Metrics:
    """Return the block `metrics`; problems go into the report."""
    block = node or Node({}, Place(), ("metrics",))
    context.check(block, {}, others=_BLOCKS)
    retrieval = _retrieval(block.get("retrieval"), context)
    generation, judges = None, None
    if (names := block.get("generation")) is not None:
        generation = _generation(names, context)
    if (judge := block.get("judge")) is not None:
        judges = check_judges(judge, block.entries["judge"].place, context)
    made = schema.Metrics(retrieval=retrieval, generation=generation, judges=judges)
    fill = None if (rules := block.get("retrieval")) is None else rules.get("fill")
    if fill is not None:
        checked = _fill(fill, made, judge is not None, context)
        made = replace(made, retrieval=replace(retrieval, fill=checked))
    return made


def _retrieval(node: Node | None, context: Context) -> schema.RetrievalMetrics:
    from ragbench.score.retrieval.notation import parse_measures

    report = context.report
    block = node or Node({}, Place(), ("metrics", "retrieval"))
    declared = declared_options(schema.RetrievalMetrics)
    values = context.check(block, declared, others=tuple(schema.RetrievalMetrics.blocks))
    match = block.get("match")
    if match is not None:
        checked = _match(match, values.get("ties"), context)
        values |= {} if checked is None else {"match": checked}
    names = block.get("measures")
    if names is not None:
        parsed = _parse_names(names, parse_measures, "measure", report)
        top_k = values.get("top_k")
        for node, measures in parsed:
            deepest = max((measure.k or 0 for measure in measures), default=0)
            if top_k is not None and deepest > top_k:
                found = f"{node.shown()} looks deeper than top_k"
                report.wrong(node, found, f"k up to top_k, which is {top_k}")
    return schema.RetrievalMetrics(**values)


def _generation(node: Node, context: Context) -> tuple[schema.NamedMetric, ...] | None:
    from ragbench.score.text.notation import parse_metric

    names = check_value(node, _NAMES, context.report)
    parsed = _parse_names(node, parse_metric, "metric", context.report)
    if names is INVALID:
        return None
    return tuple(
        schema.NamedMetric(metric=_with_paths(metric, context.base), place=name.place)
        for name, metric in parsed
    )


def _with_paths(metric: Metric, base: Path) -> Metric:
    """The metric with the files and folders that its options name, relative to the config."""
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
    """Parse each name of a list; a wrong or repeated one is a problem at its place."""
    parsed: list[tuple[Node, Any]] = []
    by_name: dict[Any, Node] = {}
    open_parenthesis = False
    for node in names.elements:
        if not isinstance(node.value, str) or node.value is UNREADABLE:
            continue
        text = node.value
        balance = text.count("(") - text.count(")")
        if open_parenthesis:
            # the rest of a name that was cut at its comma, which was reported already
            open_parenthesis = balance >= 0
            continue
        if balance > 0 and len(names.elements) > 1 and not node.quoted:
            open_parenthesis = True
            report.wrong(node, f"{node.shown()} has no ')'", _QUOTE)
            continue
        result = _parse(node, parse, noun, report)
        if result is None:
            continue
        # what two spellings of one score share; `ndcg_cut_5,10` are two scores
        are_several = isinstance(result, list)
        names_of = [each.name for each in result] if are_several else [result.canonical]
        if (
            first := next((by_name[name] for name in names_of if name in by_name), None)
        ) is not None:
            message = f"{node.shown()} is named twice"
            if first.written != node.written:
                message = f"{node.shown()} is the same as {first.shown()}"
            report.wrong(node, message, f"each {noun} once")
        by_name.update(dict.fromkeys(names_of, node))
        parsed.append((node, result))
    return parsed


_KINDS: Mapping[str, Kind] = {"measure": "retrieval", "metric": "generation"}


def _parse(node: Node, parse: Callable[[str], Any], noun: str, report: Report) -> Any:
    try:
        return parse(str(node.value))
    except OptionError as error:
        if report_misplaced(node, _KINDS[noun], report):
            return None
        found = f"unknown {noun} {node.shown()}"
        if error.option and error.found != node.value and not node.parts:
            found = f"{error.option} of {node.shown()}: found {error.found!r}"
            if error.found is None:
                found = f"{node.shown()} has no {error.option}"
        report.wrong(node, found, error.allowed, error.nearest)
    except RagbenchError as error:  # a third party's, which cannot be loaded
        report.wrong(node, str(error))
    return None


# How a config names a value of the metadata.
METADATA = re.compile(r"metadata(\.[^.\s]+)+")

_LEVEL_OF = {"id": "document", "separator": "document", "overlap": "text"}


def _match(node: Node, ties: Any, context: Context) -> schema.Match | None:
    report = context.report
    values = context.check(node, declared_options(schema.Match))
    level = values.get("level")
    if level is None:
        return None
    for key, wanted in _LEVEL_OF.items():
        if (entry := node.entries.get(key)) is not None and level != wanted:
            report.wrong(entry, f"'{key}' means nothing with level: {level}", f"level: {wanted}")
    where, separator = node.get("id"), node.get("separator")
    if level == "document" and where is None and separator is None:
        found = "level: document does not say which document a passage is of"
        report.wrong(node, found, 'id: metadata.<key>, or separator: "#"')
    if level == "document" and where is not None:
        if separator is not None:
            report.wrong(separator, "id and separator are both given", "one")
        if isinstance(where.value, str):
            _check_field(where, (), context, example="metadata.doc_id")
    if level == "document" and separator is not None and separator.value == "":
        report.wrong(separator, "the separator is empty", "text, such as '#'")
    if level == "text" and ties == "average":
        found = "level: text credits the first match, and ties: average has no first"
        report.wrong(node, found, "ties: docid, stable")
    return schema.Match(**values)


def _fill(
    node: Node, metrics: schema.Metrics, has_judges: bool, context: Context
) -> schema.Fill | None:
    """The block, checked beside the others; judges that are wrong are None in these."""
    report, before = context.report, len(context.report)
    values = context.check(node, declared_options(schema.Fill))
    if not has_judges:
        found = "fill needs a judge, and the config has none"
        report.wrong(node, found, "metrics.judge: {type: openai, ...}")
    name, judge = _judge(node, values, metrics.judges, context)
    source = _rubric(node, values, judge, context)
    depth, top_k = values.get("depth"), metrics.retrieval.top_k
    level = metrics.retrieval.match.level
    if depth is not None and depth > top_k:
        report.wrong(node.get("depth") or node, f"{depth} is deeper than top_k", f"up to {top_k}")
    if level != "id":
        report.wrong(node, f"fill does not go with match: level: {level}", "level: id")
    if len(report) > before or source is None or name is None:
        return None
    context.fill(node, "judge", name)
    return schema.Fill(**{**values, "judge": name, "rubric": source})


def _judge(
    node: Node,
    values: Mapping[str, Any],
    judges: Mapping[str, schema.JudgeBlock] | None,
    context: Context,
) -> tuple[str | None, schema.JudgeBlock | None]:
    """The judge that is meant: the named one, or the only one."""
    if judges is None:
        return None, None
    names, given = list(judges), node.get("judge")
    if given is None and len(names) != 1:
        found = f"fill does not say which of {len(names)} judges grades"
        context.report.wrong(node, found, f"judge: {', '.join(names)}")
        return None, None
    name = names[0] if given is None else values.get("judge")
    if name is not None and name not in names and given is not None:
        close = nearest(str(name), names)
        context.report.wrong(given, f"no judge {given.shown()}", ", ".join(names), close)
        return None, None
    return name, judges.get(str(name))


def _rubric(
    node: Node, values: Mapping[str, Any], judge: schema.JudgeBlock | None, context: Context
) -> str | Path | None:
    """Return the name or file of the rubric; report one that cannot give grades, return None."""
    from ragbench.score.judge.base import judge_facts
    from ragbench.score.judge.rubric import load_rubric

    given = node.get("rubric")
    source: str | Path | None = values.get("rubric")
    if given is not None and isinstance(given.value, str):
        found = check_rubric(given, context)
        source = None if found is None else found[1]
    if source is None:
        return None
    at, rubric = given or node, load_rubric(source)
    if (rubric.asks, rubric.method) != ("context", "rating") or rubric.direction != "higher":
        message = f"rubric '{rubric.name}' does not rate passages"
        allowed = "one with asks: context, method: rating, direction: higher"
        context.report.wrong(at, message, allowed)
    served = None if judge is None else judge_facts(judge.cls).served
    if judge is not None and served is not None and rubric.name not in served:
        message = f"judge '{judge.type}' cannot apply '{rubric.name}'"
        context.report.wrong(at, message, "a judge that is a language model")
    start, written = values.get("relevant_from"), node.get("relevant_from")
    if start is not None and written is not None and start > rubric.levels:
        message = f"{start} is above the levels of '{rubric.name}'"
        context.report.wrong(written, message, f"2 to {rubric.levels}")
    return source


def check_statistics(node: Node, context: Context) -> schema.Statistics:
    """Return the block `statistics`; problems go into the report."""
    values = context.check(node, declared_options(schema.Statistics))
    baseline = node.get("baseline")
    # without retrievers the systems are those of the records, known when they are read
    if baseline is not None and isinstance(baseline.value, str) and context.retrievers:
        check_reference(baseline, context)
    test, correction = values.get("test", "randomization"), node.get("correction")
    if correction is not None and correction.value == "max_t" and test != "randomization":
        found = f"max_t is made of sign flips, and the test is {test}"
        context.report.wrong(correction, found, "test: randomization")
    if values.get("correction") == "none" and values.get("family") == "all":
        place = node.entries["family"].node
        context.report.wrong(place, "nothing is corrected with correction: none", "measure")
    if test == "mcnemar" and values.get("cluster") is not None:
        place = node.entries["test"].node
        found = "mcnemar counts single queries, and the units are clusters"
        context.report.wrong(place, found, "randomization, t, wilcoxon")
    if values.get("correction") == "bh":
        values["correction"] = "benjamini_hochberg"
    cluster, slices = node.get("cluster"), node.get("slices")
    if cluster is not None and isinstance(cluster.value, str):
        _check_field(cluster, (), context)
    if slices is not None and values.get("slices"):
        for field in slices.elements:
            _check_field(field, schema.SLICES, context)
        values["slices"] = tuple(dict.fromkeys(values["slices"]))
    return schema.Statistics(**values)


def check_causes(node: Node, metrics: schema.Metrics, context: Context) -> CauseRules:
    """Return the rules of causes; problems go into the report."""
    declared = declared_options(CauseRules)
    values = context.check(node, declared, others=tuple(CauseRules.blocks))
    records: dict[str, Any] = {"right": RightAnswer, "supported": SupportedAnswer}
    for name, record in records.items():
        block = node.get(name)
        if block is not None:
            inner = context.check(block, declared_options(record))
            values[name] = record(**inner)
            if block.text("measure") is not None:
                _check_answer_score(block.entries["measure"].node, metrics, context.report)
    return CauseRules(**values)


def _check_answer_score(node: Node, metrics: schema.Metrics, report: Report) -> None:
    """Report what is no score of answers, or none that the config has."""
    from ragbench.config.gates import known_scores  # as gates, loaded where they are used

    known, name = known_scores(metrics), str(node.value)
    score = known.find(name)
    names = [each.name for each in known.scores.values() if each.kind != "retrieval"]
    if any(each.startswith(f"{name}(judge=") for each in names):
        return
    if score is None or score.kind == "retrieval":
        what = "no score" if score is None else "a score of rankings"
        allowed = ", ".join(names) or "a metric or a rubric, such as token_f1 or correctness"
        report.wrong(node, f"{node.shown()} is {what}", allowed, nearest(name, names))


def _check_field(
    node: Node, words: tuple[str, ...], context: Context, example: str = "metadata.topic"
) -> None:
    """Report a name that is neither one of the words nor a key of the metadata."""
    value = str(node.value)
    if value not in words and not METADATA.fullmatch(value):
        found = f"{node.shown()} is no key of the metadata"
        allowed = f"metadata.<key>, such as {example}"
        if words:
            found, allowed = f"unknown field {node.shown()}", f"{', '.join(words)}, {allowed}"
        context.report.wrong(node, found, allowed, nearest(value, words))
