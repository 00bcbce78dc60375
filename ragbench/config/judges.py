"""Checks of the block `metrics.judge`: one judge, or several by name, and their rubrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from ragbench.config.components import load_type, options_of, without_useless_repeat
from ragbench.config.first_guesses import report_listed_scores
from ragbench.config.options import Context, resolve_path
from ragbench.config.schema import JudgeBlock, RubricSource
from ragbench.config.tree import KeyEntry, Node, Report, WrittenPath
from ragbench.config.variables import escaped
from ragbench.data.runs.run_folder import unfit_names
from ragbench.errors import DataError, OptionError, Place, shorten_names
from ragbench.records.score import Kind
from ragbench.registry import PYTHON, Option, OptionSet, declared_options, nearest
from ragbench.types.lookups import omit_keys

_FILE_SUFFIXES = (".yaml", ".yml")


class JudgeCommon(OptionSet):
    """Keys of every judge: rubrics, and when and what it judges.

    They stand in `metrics.judge`, or in each of the named judges there, beside those of the type.
    """

    rubrics: Annotated[
        list[str | dict[str, Any]] | None,
        Option(
            "Built-in rubrics, files, or the content of a file; default: faithfulness, "
            "answer_relevancy, correctness, or all of a judge that has none of these."
        ),
    ] = None
    when: Annotated[
        Literal["always", "available"],
        Option("`available`: only if its key is set and its packages are installed."),
    ] = "always"
    pairs: Annotated[
        Literal["all", "baseline"] | None,
        Option(
            "Rubrics of pairs compare every two systems (`all`), or each with the "
            "baseline; default: `all` up to 4 systems."
        ),
    ] = None
    nuggets: Annotated[
        str | None,
        Option(
            "Nuggets of the queries, JSON lines as in TREC RAG, for rubrics over "
            "nuggets; default: made of the references.",
            refers_to="path",
        ),
    ] = None
    repeat: Annotated[
        int, Option("How often each item is judged; its score is the mean.", ge=1)
    ] = 1


def check_judges(node: Node, place: Place, context: Context) -> dict[str, JudgeBlock] | None:
    """Return the judges by name; None if a single judge is wrong, else without the wrong ones.

    The block has several judges if all its values are mappings; a single judge is named by its
    type.

    Args:
        node: The block.
        place: Place of the key `judge`.
        context: Report and folders of the config.
    """
    if report_listed_scores(node, context.report):
        return None
    are_named = all(isinstance(entry.node.value, dict) for entry in node.entries.values())
    if not isinstance(node.value, dict) or not are_named:
        block = _judge(None, KeyEntry(place, node), context)
        return None if block is None else {block.type: block}
    for name, problem, allowed in unfit_names(node.entries):
        context.report.wrong(node.entries[name], problem, allowed)
    blocks = {}
    for name, entry in node.entries.items():
        block = _judge(name, entry, context)
        if block is not None:
            blocks[name] = block
    return blocks


def _judge(name: str | None, entry: KeyEntry, context: Context) -> JudgeBlock | None:
    """Return the checked judge; None, with problems in the report, if it is wrong."""
    from ragbench.score.judge import JUDGES

    node, report = entry.node, context.report
    n_problems = len(report)
    loaded = load_type(entry, JUDGES, context)
    # of a judge of an unknown type, the keys that all judges have are checked: all mistakes at once
    if loaded is None and not node.entries:
        return None
    options = options_of(loaded[1]) if loaded else {}
    # a judge that repeats its requests by itself, as models do, gets the number
    common = {**declared_options(JudgeCommon)}
    if "repeat" in options:
        del common["repeat"]
    options = omit_keys(options, common)
    declared = {**common, **options}
    if loaded is not None:
        node = without_useless_repeat(node, loaded[1], options, report)
    values = context.check(
        node,
        declared,
        place=entry.place,
        # without a type its options are unknown, so that every key is accepted
        extra=["type"] if loaded else list(dict.fromkeys(["type", *node.entries])),
        order=[*node.entries, *declared],
    )
    if loaded is not None and len(report) == n_problems and values.keys() >= declared.keys():
        context.try_component(entry, loaded[1], values, options, late=True)
    rubrics = _rubrics(node.get("rubrics"), loaded and loaded[1], context)
    context.fill(node, "rubrics", _written_rubrics(node.get("rubrics"), rubrics))
    _check_combination(node, values, rubrics, common, context)
    if loaded is None or len(report) > n_problems or not values.keys() >= declared.keys():
        return None
    return JudgeBlock(
        name=name,
        type=loaded[0],
        cls=loaded[1],
        options={key: values[key] for key in options},
        rubrics=rubrics,
        **{key: values[key] for key in common if key != "rubrics"},
        place=entry.place,
    )


def _written_rubrics(node: Node | None, rubrics: Sequence[RubricSource]) -> list[object]:
    """Return the sources of the rubrics with their paths as the config writes them."""
    sources: list[object] = list(rubrics)
    # default rubrics have no node, and no path either
    elements = () if node is None else node.elements
    for row, (element, source) in enumerate(zip(elements, rubrics, strict=False)):
        if isinstance(source, Path):
            sources[row] = WrittenPath(escaped(str(element.value)))
    return sources


def _rubrics(node: Node | None, cls: object, context: Context) -> tuple[RubricSource, ...]:
    """Return the sources of the rubrics: built-in names, mappings, absolute paths of files."""
    from ragbench.score.judge.base import judge_facts
    from ragbench.score.judge.rubric import default_rubrics, load_rubric, not_applied

    judge = judge_facts(cls)
    if node is None or node.value is None:
        return default_rubrics(judge)
    own_rubric = judge.own_rubric
    sources: dict[str, RubricSource] = {}
    for part in node.elements:
        named_source: tuple[str, RubricSource] | None = None
        if isinstance(part.value, dict):
            keys = part.plain()
            try:
                named_source = load_rubric(keys).name, keys
            except DataError as error:
                details = error.problem
                problem = ": ".join(filter(None, [details.path, details.found]))
                context.report.wrong(part, problem, details.allowed, details.nearest)
        # a judge of the user may bring a rubric of its own, which no list has
        elif own_rubric is not None and part.value == own_rubric["name"]:
            named_source = str(own_rubric["name"]), own_rubric
        elif isinstance(part.value, str):
            named_source = check_rubric(part, context)
        if named_source is None:
            continue
        name, source = named_source
        if name in sources:
            problem = f"{part.quote()} gives a second score named '{name}'"
            context.report.wrong(part, problem, "each rubric once")
        elif (allowed := not_applied(load_rubric(source), judge)) is not None:
            context.report.wrong(part, f"this judge cannot apply {part.quote()}", allowed)
        sources[name] = source
    return tuple(sources.values())


def _check_combination(
    node: Node,
    values: dict[str, Any],
    rubrics: Sequence[RubricSource],
    common: Collection[str],
    context: Context,
) -> None:
    """Report `nuggets`, `pairs` and `repeat` if the judge has no rubric that uses them."""
    from ragbench.score.judge.rubric import load_rubric

    methods = [load_rubric(name).method for name in rubrics]
    if values.get("nuggets") is not None and "nuggets" not in methods:
        problem = "'nuggets' has no effect without a rubric over nuggets"
        context.report.wrong(node.entries["nuggets"], problem, "rubrics: [nugget_recall]")
    if node.get("pairs") is not None and "pairwise" not in methods:
        problem = "'pairs' has no effect without a rubric that compares two answers"
        context.report.wrong(node.entries["pairs"], problem, "rubrics: [pairwise]")
    if "repeat" in common and values.get("repeat", 1) > 1 and "pairwise" in methods:
        problem = "own code compares two answers once in each order"
        context.report.wrong(node.entries["repeat"], problem, "repeat: 1")


# Kind of score -> its description, and the place of its names in a config
_PLACES: Mapping[Kind, tuple[str, str]] = {
    "retrieval": ("a measure of rankings", "metrics.retrieval.measures"),
    "generation": ("a metric of answers", "metrics.generation"),
    "judge": ("a rubric of judges", "metrics.judge.rubrics"),
}


def report_misplaced(node: Node, expected: Kind, report: Report) -> bool:
    """Return True if a name is a score of another kind, and report where the config may name it.

    Args:
        node: The name.
        expected: Kind of the scores that stand here.
        report: Receives the problem.
    """
    from ragbench.gates.base import score_facts  # a config without gates does not load them

    name = str(node.value)
    for kind, (description, place) in _PLACES.items():
        if kind != expected and not name.startswith(PYTHON) and score_facts(name, kind) is not None:
            report.wrong(node, f"{node.quote()} is {description}", f"this name under {place}")
            return True
    return False


def check_rubric(node: Node, context: Context) -> tuple[str, str | Path] | None:
    """Return a rubric's name and its source; None, with a problem, if it is unknown or wrong.

    The result is (name, source); the source is the name of a built-in rubric, or the absolute path
    of a file. A text that ends as a YAML file and is no built-in name is a file.
    """
    from ragbench.score.judge.rubric import built_in_rubrics, is_built_in, load_rubric, read_rubric

    report, text = context.report, str(node.value)
    built_in = built_in_rubrics()
    if is_built_in(text):
        try:
            name = load_rubric(text).name
        except OptionError as error:
            problem = f"{node.quote()}: {error.option}: {error.found!r}"
            report.wrong(node, problem, error.allowed, error.nearest)
            return None
        return name, name
    if not text.endswith(_FILE_SUFFIXES):
        if report_misplaced(node, "judge", report):
            return None
        near, names = nearest(text, built_in), ", ".join(built_in)
        allowed = f"{shorten_names(names) if near else names}, or a rubric file (.yaml)"
        report.wrong(node, f"unknown rubric {node.quote()}", allowed, near)
        return None
    path = resolve_path(node, context)
    if path is None:
        return None
    try:
        return read_rubric(path).name, path
    except DataError as error:
        details = error.problem
        parts = [node.quote(), f"line {details.line}" if details.line else "", details.path]
        problem = ": ".join([*filter(None, parts), details.found])
        report.wrong(node, problem, details.allowed, details.nearest)
        return None
