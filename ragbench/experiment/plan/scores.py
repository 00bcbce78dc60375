"""Choice of the measures, metrics and judges of a run: the named ones, or those the data allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from ragbench.comparison.scorable import decides_by_refusals, nothing_to_score
from ragbench.config.schema import ExperimentConfig
from ragbench.data.files.fields import content_id
from ragbench.experiment.plan import components
from ragbench.experiment.plan.records import PlanInputs, PlannedFill, PlannedJudge, System
from ragbench.experiment.plan.systems import names_of
from ragbench.records.manifest import Choices
from ragbench.score.judge.judge import load_rubrics
from ragbench.score.retrieval.base import no_average
from ragbench.score.retrieval.notation import Measure, parse_measure, parse_measures
from ragbench.score.retrieval.score_run import SUBTOPICS_ALLOWED
from ragbench.score.text import DEFAULT_METRICS, GROUPS
from ragbench.score.text.base import Metric
from ragbench.score.text.judged_rows import JUDGED_PARTS, judged_parts
from ragbench.score.text.notation import parse_metric
from ragbench.types import Answered, Collection
from ragbench.types.documents import record_ids
from ragbench.types.lookups import item_names

# Default measures behind `found`; those with k above `top_k` are left out.
DEFAULT_MEASURES = (
    "ndcg@10",
    "recall@10",
    "mrr@10",
    "map",
    "hit_rate@1",
    "hit_rate@5",
    "precision@5",
    "f1@5",
)

# Default measures of data with gold answers and no judgements; @5 comes first, as a generator gets
# 5 passages by default.
DEFAULT_ANSWER_MEASURES = ("answer_hit@5", "answer_hit@1", "answer_hit@10")

# Default measures of data with gold spans, behind `found`.
DEFAULT_SPAN_MEASURES = ("span_recall@5",)

# Default measures of data with forbidden documents, behind all others.
DEFAULT_FORBIDDEN_MEASURES = ("leak@5",)

# Warning of traces without gold and judge.
ONLY_REFUSALS = (
    "no gold and no judge: of the answers, refusals are counted, and nothing is scored; name gold "
    "answers (dataset.gold) or a judge (metrics.judge)"
)

# Part of the judgements of answers -> its description in messages.
_JUDGED_NOUNS = {
    "support": "judgements of support",
    "nuggets": "nuggets that are assigned to answers",
    "length": "a limit of words",
}

# Default metrics of data with gold tool calls.
DEFAULT_CALL_METRICS = ("tool_call_correctness", "tool_call_f1")


def choose_measures(
    inputs: PlanInputs, retrievers: Sequence[str], *, fills: bool, no_fill: str
) -> tuple[str, ...]:
    """Return the names of the measures: `found`, and those of the config or the default ones.

    `found` at the number of passages that are read comes first, unless the config names it or has
    an empty list. Default measures with a k above `top_k` are left out, and those without an
    average over ties if ties are averaged; without judgements and gold answers there are none.

    Args:
        inputs: Config and data set.
        retrievers: Names of the systems with a ranking; without any there are no measures.
        fills: True if a judge grades the passages that people have not judged.
        no_fill: Reason why the judge of the config does not, for messages; else empty.

    Raises:
        DataError: The data lack what a measure of the config reads, or there is no ranking for it.
        OptionError: Ties are averaged, and a named measure has no average over ties.
    """
    config, rules = inputs.config, inputs.config.metrics.retrieval
    if not retrievers:
        # measures without a ranking would vanish unseen; with `--only`, they are those of others
        if rules.measures and not (config.retrievers or config.apps or config.generators):
            problem = f"{rules.measures[0]} needs a ranking, and no system has one"
            allowed = "a retriever, an app, records with contexts, or no measures"
            raise inputs.error(problem, "metrics.retrieval.measures", allowed)
        return ()
    if rules.measures is None:
        return tuple(_default_measures(inputs, fills))
    chosen = parse_measures(rules.measures)
    for measure in chosen:
        _check_needs(measure, inputs, fills, no_fill)
    first = _found_measures(inputs, fills) if chosen else ()
    chosen_names = set(item_names(chosen))
    names = []
    for name in first:
        if parse_measure(name).name not in chosen_names:
            names.append(name)
    return (*names, *rules.measures)


def _default_measures(inputs: PlanInputs, fills: bool) -> Iterator[str]:
    """Yield the measures that the data allow, for a config that names none."""
    collection, rules = inputs.collection, inputs.config.metrics.retrieval
    names = [*_found_measures(inputs, fills)]
    if any(collection.gold_spans.values()):
        names += DEFAULT_SPAN_MEASURES
    if collection.qrels is not None or fills:
        names += DEFAULT_MEASURES
    elif collection.answers:
        names += DEFAULT_ANSWER_MEASURES
    if collection.forbidden:
        names += DEFAULT_FORBIDDEN_MEASURES
    for measure in parse_measures(names):
        has_ties = rules.ties != "average" or measure.spec.averages_ties
        if has_ties and (measure.k or 0) <= rules.top_k:
            yield measure.label


def _found_measures(inputs: PlanInputs, fills: bool) -> tuple[str, ...]:
    """Return `found` as the causes count it; nothing without any gold, or with averaged ties."""
    config, collection = inputs.config, inputs.collection
    has_gold = collection.qrels is not None or fills or bool(collection.answers)
    if not has_gold or config.metrics.retrieval.ties == "average":
        return ()
    return (config.causes.found_measure(config.metrics.retrieval.top_k),)


def check_deciding_measure(inputs: PlanInputs, name: str, place: str) -> None:
    """Check that people's judgements have what the measure of a `select` reads.

    `place` is its path in the config. Errors are those of measures of the config.
    """
    [measure] = parse_measures([name])
    rules = inputs.config.metrics.retrieval
    if rules.ties == "average" and not measure.spec.averages_ties:
        raise no_average(measure.spec.name)
    lacks, allowed = _missing_data(measure, inputs.collection, False)
    if lacks:
        problem = f"{measure.label} needs {lacks}, and the data set has none"
        raise inputs.error(problem, place, allowed)


def _check_needs(measure: Measure, inputs: PlanInputs, fills: bool, no_fill: str) -> None:
    """Check that the data have what a measure of the config reads."""
    rules, reads = inputs.config.metrics.retrieval, measure.spec.reads
    if rules.ties == "average" and not measure.spec.averages_ties:
        raise no_average(measure.spec.name)
    if reads == "subtopics" and fills:
        problem = f"{measure.label} reads subtopics, and relevance judged by a model has none"
        allowed = "measures of grades, or no fill"
        raise inputs.error(problem, "metrics.retrieval.fill", allowed)
    lacks, allowed = _missing_data(measure, inputs.collection, fills)
    if lacks:
        note = f" ({no_fill})" if no_fill else ""
        problem = f"{measure.label} needs {lacks}, and the data set has none{note}"
        raise inputs.error(problem, "metrics.retrieval.measures", allowed)


def _missing_data(measure: Measure, collection: Collection, fills: bool) -> tuple[str, str]:
    """Return (data that a measure reads and the data set lacks, remedy); both are empty if none."""
    reads, has_judgements = measure.spec.reads, collection.qrels is not None or fills
    if reads == "passages" and not collection.answers:
        return "gold answers", "answers in the data set, or measures of judgements"
    if reads == "spans" and not any(collection.gold_spans.values()):
        return "gold spans", (
            "records with a column reference_spans ({document, start, end} or {document, quote}), "
            "or with a column quote beside a corpus that holds the quotes; or other measures"
        )
    if reads == "forbidden" and not collection.forbidden:
        return "forbidden documents", "records with a column forbidden; or other measures"
    if reads == "gold" and not (has_judgements or collection.answers):
        return "gold", "qrels, or gold answers, in the data set; or `measures: []`"
    if measure.spec.reads_ids and not has_judgements:
        return "relevance judgements", (
            "answer_hit@k, which needs gold answers only, qrels in the data set, relevance judged "
            "by a model (metrics.retrieval.fill), or `measures: []`"
        )
    if reads == "subtopics" and collection.qrels and collection.qrels.subtopics is None:
        return "subtopics", SUBTOPICS_ALLOWED
    return "", ""


def choose_answer_scores(
    inputs: PlanInputs, *, has_answers: bool
) -> tuple[tuple[Metric, ...], dict[str, PlannedJudge], dict[str, str]]:
    """Return (metrics, judges by name, reason by name of each skipped judge).

    Metrics are those of the config, else the default ones that the data allow; judges are those of
    the config. All are empty without answers.

    Args:
        inputs: Config, data set and options; `--no-judge` leaves judges out.
        has_answers: True if a system answers.

    Raises:
        ConfigError: A metric or judge refuses an option.
        DataError: A metric reads tool calls, and the data have no gold ones; or a file of nuggets
            or of a rubric cannot be read.
        MissingExtra: A named metric needs a package that is not installed.
        AdapterError: The judge of a user fails, or is none.
        OptionError: A rubric is unknown, or the judge cannot apply it.
    """
    if not has_answers:
        return (), {}, {}
    metrics = _choose_metrics(inputs)
    blocks = inputs.config.metrics.judges
    if not inputs.choices.judge or blocks is None:
        return metrics, {}, {}
    judges, skipped = {}, {}
    build = partial(components.build_judge, calls=inputs.calls)
    planned_judges = components.make_all(build, blocks.values())
    for name, planned in zip(blocks, planned_judges, strict=True):
        if planned.nuggets is None and inputs.collection.nuggets:
            planned = replace(planned, nuggets=inputs.collection.nuggets)
        reason = components.unavailable(planned, replay=inputs.choices.judge_replay)
        if reason is not None:
            skipped[name] = reason
        else:
            judges[name] = planned
    return metrics, judges, skipped


def _choose_metrics(inputs: PlanInputs) -> tuple[Metric, ...]:
    """Return the metrics of the config, else the default ones that the data allow."""
    collection, blocks = inputs.collection, inputs.config.metrics.generation
    if blocks is not None:
        candidates = components.make_all(components.checked_metric, blocks)
        _check_gold(candidates, inputs)
        _check_judged(candidates, inputs)
    else:
        names: tuple[str, ...] = DEFAULT_METRICS if collection.answers else ()
        names += DEFAULT_CALL_METRICS if collection.expected_tool_calls else ()
        names += _judged_metrics(collection)
        candidates = list(map(parse_metric, names))
    metrics = []
    for metric in candidates:
        # causes decide `right`, by a judge where there is one; others count its repetitions
        if metric.canonical != "right" and metric.declaration.reads != "repetitions":
            metrics.append(metric)
    return tuple(metrics)


def _check_gold(metrics: Sequence[Metric], inputs: PlanInputs) -> None:
    """Raise a DataError for a metric of the config that reads gold which the data set lacks."""
    for metric in metrics:
        reads, collection = metric.declaration.reads, inputs.collection
        needs_calls = reads == "tool_calls" and metric.declaration.needs_reference
        if needs_calls and not collection.expected_tool_calls:
            problem = f"{metric.name} needs gold tool calls, and the data set has none"
            allowed = "records with a column expected_tool_calls, or metrics of texts"
            raise inputs.error(problem, "metrics.generation", allowed)
        if reads == "citations" and collection.qrels is None:
            problem = f"{metric.name} needs gold documents, and the data set has none"
            allowed = "records with a column relevant, or metrics of texts"
            raise inputs.error(problem, "metrics.generation", allowed)


def _judged_metrics(collection: Collection) -> tuple[str, ...]:
    """Return the default metrics of answers that the data set holds with their judgements."""
    parts = judged_parts(collection)
    names: tuple[str, ...] = GROUPS["nuggets"] if "nuggets" in parts else ()
    names += GROUPS["citation_support"] if "support" in parts else ()
    if "length" in parts and collection.qrels is not None:
        names += GROUPS["citation_gold"]
    # the length of an answer alone says nothing of its quality
    return (*names, "words_over_limit") if "length" in parts and names else names


def _check_judged(metrics: Sequence[Metric], inputs: PlanInputs) -> None:
    """Raise a DataError for a metric of the config that reads judgements the data set lacks."""
    parts = judged_parts(inputs.collection)
    for metric in metrics:
        reads = metric.declaration.reads
        if reads in JUDGED_PARTS and reads not in parts:
            problem = f"{metric.name} needs {_JUDGED_NOUNS[reads]}, and the data set has none"
            allowed = "dataset: {type: trec_rag, ...} with such a file, or other metrics"
            raise inputs.error(problem, "metrics.generation", allowed)


def plan_fill(
    config: ExperimentConfig, choices: Choices, judges: Mapping[str, PlannedJudge], *, calls: bool
) -> tuple[PlannedFill | None, str]:
    """Return (judge of unjudged passages or None, reason why there is none or '').

    The reason is a warning for people, such as that `--no-judge` is set or a key is missing.

    Args:
        config: Config; without `metrics.retrieval.fill` there is neither judge nor reason.
        choices: Options of the command line.
        judges: Judges of answers by name: the same judge may grade passages.
        calls: False calls no code of the user.

    Raises:
        ConfigError: The judge refuses an option.
        OptionError: The rubric is unknown, or the judge cannot apply it.
        AdapterError, DataError: As `build_judge`.
    """
    rules, blocks = config.metrics.retrieval.fill, config.metrics.judges
    if rules is None or blocks is None:
        return None, ""
    name = str(rules.judge)
    if not choices.judge:
        return None, f"judgements are not filled: judge {name} is not asked (--no-judge)"
    # one judge may judge answers and passages: it is created once
    judge = judges.get(name) or components.build_judge(blocks[name], calls=calls)
    reason = components.unavailable(judge, replay=choices.judge_replay)
    if reason is not None:
        return None, f"judgements are not filled: judge {name}: {reason}"
    # the config names exactly one rubric for a fill
    (rubric,) = load_rubrics([rules.rubric], judge.type, judge.judge)
    return PlannedFill(name, judge, rubric, rules), ""


def fit_measures(
    fill: PlannedFill | None, measures: Sequence[str], top_k: int
) -> tuple[PlannedFill | None, list[str]]:
    """Return (judge of passages if a measure reads grades, else None; list of one warning or none).

    A judge that no measure reads gives a warning; without measures there is none.

    Args:
        fill: Judge of passages; None without one.
        measures: Names of the measures.
        top_k: Depth of measures without a cut-off; deeper than the judge gives a warning.
    """
    graded = []
    for measure in parse_measures(measures):
        if measure.spec.reads == "grades":
            graded.append(measure)
    if fill is None or not graded:
        is_unread = fill is not None and bool(measures)
        return None, ["fill: no measure reads judgements, and so none are made"] * is_unread
    too_deep = []
    for measure in graded:
        if (measure.k or top_k) > fill.rules.depth:
            too_deep.append(measure.label)
    if not too_deep:
        return fill, []
    return fill, [
        f"fill: {', '.join(too_deep)} may look below rank {fill.rules.depth}, where only people's "
        "judgements count, and what is not judged is taken for not relevant (fill.depth)"
    ]


@dataclass(frozen=True, slots=True)
class ChosenScores:
    """Measures, metrics and judges that score the systems of a run, as `choose_scores` returns.

    Attributes:
        measures: Names of the retrieval measures.
        metrics: Metrics of answers.
        judges: Judges of answers by name.
        skipped: Reason by name of the judges with `when: available` that cannot run.
        fill: Judge of unjudged passages; None without one.
        recorded_rankings: Names of the recorded systems whose contexts are scored as rankings.
        warnings: Warnings for the summary.
    """

    measures: tuple[str, ...]
    metrics: tuple[Metric, ...]
    judges: dict[str, PlannedJudge]
    skipped: dict[str, str]
    fill: PlannedFill | None
    recorded_rankings: list[str]
    warnings: list[str]


def choose_scores(inputs: PlanInputs, systems: Sequence[System]) -> ChosenScores:
    """Return measures, metrics and judges: those of the config, or those that the data allow.

    Args:
        inputs: Config, data set and options; without `calls`, no measure's packages are checked.
        systems: Systems of the run.

    Raises:
        ConfigError: A metric or judge refuses an option.
        DataError: The data lack what a score of the config reads, nothing would be scored, or a
            file of a judge is wrong.
        OptionError: Ties are averaged, and a named measure has no average over ties; or a judge
            cannot apply a rubric.
        MissingExtra: A measure or metric needs a package that is not installed.
        AdapterError: The judge of a user fails, or is none.
    """
    config, collection = inputs.config, inputs.collection
    recorded = {}
    for name in names_of(systems, "recorded"):
        recorded[name] = collection.recorded_answers[name]
    has_answers = bool(names_of(systems, "pair", "app"))
    has_answers = has_answers or any(map(_has_answer, chain.from_iterable(recorded.values())))
    metrics, judges, skipped = choose_answer_scores(inputs, has_answers=has_answers)
    rankings = []
    for name, rows in recorded.items():
        if _are_rankings(rows, inputs):
            rankings.append(name)
    ranked = [*names_of(systems, "retriever", "app"), *rankings]
    fill, no_fill = plan_fill(config, inputs.choices, judges, calls=inputs.calls)
    measures = choose_measures(inputs, ranked, fills=fill is not None, no_fill=no_fill)
    for measure in parse_measures(measures) if inputs.calls else ():
        measure.check()
    fill, remarks = fit_measures(fill, measures, config.metrics.retrieval.top_k)
    warnings = [*([no_fill] if no_fill and ranked else []), *remarks]
    for name, judge in judges.items():
        warnings += components.nugget_warnings(name, judge, record_ids(collection.queries))
    for name, reason in skipped.items():
        warnings.append(f"judge {name} was skipped: {reason} (when: available)")
    is_unasked = config.metrics.judges is not None and not inputs.choices.judge
    if not (measures or metrics or judges or skipped or is_unasked):
        warnings += _accept_no_scores(inputs, has_answers=has_answers)
    return ChosenScores(measures, metrics, judges, skipped, fill, rankings, warnings)


def _has_answer(row: Answered) -> bool:
    return row.answer is not None


def _are_rankings(rows: Sequence[Answered], inputs: PlanInputs) -> bool:
    """Return True if the passages of a recorded system are scored as its ranking."""
    collection, names = inputs.collection, inputs.config.metrics.retrieval.measures
    passages = []
    for row in rows:
        if row.contexts is not None:
            passages.append(row.contexts)
    if names:
        return bool(passages)
    if collection.qrels is not None:
        # passages that are matched by their words need no ids
        if collection.gold_passages:
            return bool(passages)
        # a hash of a text is no id that somebody judged
        hits = chain.from_iterable(passages)
        return names is None and any(hit.id != content_id(hit.text) for hit in hits)
    # gold answers, and no answers to compare with them
    if not collection.answers or any(map(_has_answer, rows)):
        return False
    return any(hit.full_text for hit in chain.from_iterable(passages))


def _accept_no_scores(inputs: PlanInputs, *, has_answers: bool) -> list[str]:
    """Return the warnings of a run that can count refusals alone; raise for other runs."""
    if has_answers and decides_by_refusals(inputs.collection):
        return []
    if has_answers and inputs.config.dataset.type == "traces":
        return [ONLY_REFUSALS]
    path = inputs.config.dataset.options.get("path")
    raise nothing_to_score(inputs.collection, Path(path).name if path else inputs.config.path)
