"""The `metrics.judge` block: one judge or several by name, and the rubrics that they apply."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from ragbench.config.components import load_type, options_of
from ragbench.config.options import Context, resolve_path
from ragbench.config.problems import Report
from ragbench.config.schema import JudgeBlock, RubricSource
from ragbench.config.tree import KeyEntry, Node, WrittenPath
from ragbench.config.variables import escaped
from ragbench.data.runs.run_folder import unfit_names
from ragbench.errors import DataError, OptionError, Place, first_of
from ragbench.gates.scores import known_score
from ragbench.records.score import Kind
from ragbench.registry import PYTHON, Option, declared_options, nearest

_FILE_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCommon:
    """Keys that every judge takes."""

    rubrics: Annotated[
        list[str | dict[str, Any]] | None,
        Option(
            "Built-in rubrics, files, or what would stand in a file; default: faithfulness, "
            "answer_relevancy, correctness, or all of a judge that has none of these."
        ),
    ] = None
    when: Annotated[
        Literal["always", "available"], Option("`available`: only if its key is set.")
    ] = "always"
    pairs: Annotated[
        Literal["all", "baseline"] | None,
        Option(
            "Rubrics of pairs compare every two systems (`all`), or each with the baseline; "
            "default: `all` up to 4 systems."
        ),
    ] = None
    nuggets: Annotated[
        str | None,
        Option(
            "Nuggets of the queries, JSON lines as in TREC RAG, for rubrics over nuggets; default: "
            "made of the references.",
            refers_to="path",
        ),
    ] = None


def check_judges(node: Node, at: Place, context: Context) -> dict[str, JudgeBlock] | None:
    """Return the judges by name, several where all entries are mappings; None where it is wrong."""
    are_named = all(isinstance(entry.node.value, dict) for entry in node.entries.values())
    if not isinstance(node.value, dict) or not are_named:
        block = _judge(None, KeyEntry(at, node), context)
        return None if block is None else {block.type: block}
    for unfit, found, allowed in unfit_names(node.entries):
        context.report.wrong(node.entries[unfit], found, allowed)
    blocks = {name: _judge(name, entry, context) for name, entry in node.entries.items()}
    return {name: block for name, block in blocks.items() if block is not None}


def _judge(name: str | None, entry: KeyEntry, context: Context) -> JudgeBlock | None:
    from ragbench.score.judge import JUDGES

    node, report = entry.node, context.report
    before = len(report)
    common = declared_options(JudgeCommon)
    loaded = load_type(entry, JUDGES, context)
    if loaded is None and not node.entries:
        return None
    own = options_of(loaded[1]) if loaded else {}
    own = {key: option for key, option in own.items() if key not in common}
    known = {**common, **own}
    values = context.check(
        node,
        known,
        place=entry.place,
        # without a type the other keys cannot be checked
        extra=["type"] if loaded else list(dict.fromkeys(["type", *node.entries])),
        order=[*node.entries, *known],
    )
    if loaded is not None and len(report) == before and values.keys() >= known.keys():
        context.try_component(entry, loaded[1], values, own, late=True)  # --no-judge
    rubrics = _rubrics(node.get("rubrics"), loaded and loaded[1], context)
    written = (node.get("rubrics") or Node((), node.place, ())).elements
    sources = [
        WrittenPath(escaped(str(part.value))) if isinstance(source, Path) else source
        for part, source in itertools.zip_longest(written, rubrics)
    ]
    context.fill(node, "rubrics", sources)
    _check_combination(node, values, rubrics, context)
    if loaded is None or len(report) > before or not values.keys() >= known.keys():
        return None
    return JudgeBlock(
        name=name,
        type=loaded[0],
        cls=loaded[1],
        options={key: values[key] for key in own},
        rubrics=rubrics,
        **{key: values[key] for key in common if key != "rubrics"},
        place=entry.place,
    )


def _rubrics(node: Node | None, cls: object, context: Context) -> tuple[RubricSource, ...]:
    """Built-in names and mappings as they are, files as absolute paths; each is checked."""
    from ragbench.score.judge.base import judge_facts
    from ragbench.score.judge.rubric import default_rubrics, load_rubric, not_applied

    judge = judge_facts(cls)
    if node is None or node.value is None:
        return default_rubrics(judge)
    own = judge.own_rubric
    found: dict[str, RubricSource] = {}
    for part in node.elements:
        rubric: tuple[str, RubricSource] | None = None
        if isinstance(part.value, dict):
            keys = part.plain()
            try:
                rubric = load_rubric(keys).name, keys
            except DataError as error:
                problem = error.problem
                shown = ": ".join(filter(None, [problem.path, problem.found]))
                context.report.wrong(part, shown, problem.allowed, problem.nearest)
        elif own is not None and part.value == own["name"]:
            rubric = str(own["name"]), own
        elif isinstance(part.value, str):
            rubric = check_rubric(part, context)
        if rubric is None:
            continue
        name, source = rubric
        if name in found:
            shown = f"{part.shown()} gives a second score named '{name}'"
            context.report.wrong(part, shown, "each rubric once")
        elif (allowed := not_applied(load_rubric(source), judge)) is not None:
            context.report.wrong(part, f"this judge cannot apply {part.shown()}", allowed)
        found[name] = source
    return tuple(found.values())


def _check_combination(
    node: Node, values: dict[str, Any], rubrics: Sequence[RubricSource], context: Context
) -> None:
    """Refuse `nuggets` and `pairs` where no rubric of the judge reads them."""
    from ragbench.score.judge.rubric import load_rubric

    methods = [load_rubric(name).method for name in rubrics]
    if values.get("nuggets") is not None and "nuggets" not in methods:
        found = "'nuggets' means nothing without a rubric over nuggets"
        context.report.wrong(node.entries["nuggets"], found, "rubrics: [nugget_recall]")
    if node.get("pairs") is not None and "pairwise" not in methods:
        found = "'pairs' means nothing without a rubric that compares two answers"
        context.report.wrong(node.entries["pairs"], found, "rubrics: [pairwise]")


# What a score is, and where a config names it.
_PLACES: Mapping[Kind, tuple[str, str]] = {
    "retrieval": ("a measure of rankings", "metrics.retrieval.measures"),
    "generation": ("a metric of answers", "metrics.generation"),
    "judge": ("a rubric of judges", "metrics.judge, rubrics"),
}


def report_misplaced(node: Node, here: Kind, report: Report) -> bool:
    """Report a score of another kind with its place in a config; return False if it is no score."""
    name = str(node.value)
    for kind, (what, place) in _PLACES.items():
        if kind != here and not name.startswith(PYTHON) and known_score(name, kind) is not None:
            report.wrong(node, f"{node.shown()} is {what}", f"this name under {place}")
            return True
    return False


def check_rubric(node: Node, context: Context) -> tuple[str, str | Path] | None:
    """Return a rubric's name, and where it is; None, with a problem, where it is nowhere."""
    from ragbench.score.judge.rubric import built_in_rubrics, is_built_in, load_rubric, read_rubric

    report, text = context.report, str(node.value)
    known = built_in_rubrics()
    if is_built_in(text):
        try:
            name = load_rubric(text).name
        except OptionError as error:
            shown = f"{node.shown()}: {error.option}: {error.found!r}"
            report.wrong(node, shown, error.allowed, error.nearest)
            return None
        return name, name
    if not text.endswith(_FILE_SUFFIXES):
        if report_misplaced(node, "judge", report):
            return None
        near, names = nearest(text, known), ", ".join(known)
        allowed = f"{first_of(names) if near else names}, or a rubric file (.yaml)"
        report.wrong(node, f"unknown rubric {node.shown()}", allowed, near)
        return None
    path = resolve_path(node, context)
    if path is None:
        return None
    try:
        return read_rubric(path).name, path
    except DataError as error:
        problem = error.problem
        parts = [node.shown(), f"line {problem.line}" if problem.line else "", problem.path]
        found = ": ".join([*filter(None, parts), problem.found])
        report.wrong(node, found, problem.allowed, problem.nearest)
        return None
