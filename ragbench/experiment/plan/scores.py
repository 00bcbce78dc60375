"""Which scores a run has: the named ones, or all that the data allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ragbench.config.schema import ExperimentConfig, RetrievalMetrics
from ragbench.errors import DataError
from ragbench.experiment.plan.components import (
    build_judge,
    checked_metric,
    make_all,
    nugget_warnings,
)
from ragbench.experiment.plan.records import PlannedFill, PlannedJudge, System
from ragbench.experiment.plan.systems import names_of
from ragbench.records.manifest import Choices
from ragbench.score.judge.judge import load_rubrics
from ragbench.score.retrieval.base import no_average
from ragbench.score.retrieval.notation import Measure, parse_measure, parse_measures
from ragbench.score.retrieval.score_run import SUBTOPICS_ALLOWED
from ragbench.score.text.base import Metric
from ragbench.score.text.notation import parse_metric
from ragbench.types import Collection

# Measures of a config that names none; the first one makes the headline. Those with k above `top_k`
# are left out.
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

# The same where the data have gold answers and no judgements; a generator gets 5 passages.
DEFAULT_ANSWER_MEASURES = ("answer_hit@5", "answer_hit@1", "answer_hit@10")

# Metrics of a config that names none: all that need neither model nor extra, but exact match.
DEFAULT_METRICS = ("rouge1", "rouge2", "rougeL", "bleu", "token_f1")

# The same where the data have gold tool calls.
DEFAULT_CALL_METRICS = ("tool_call_correctness", "tool_call_f1")


def choose_measures(
    config: ExperimentConfig,
    collection: Collection,
    retrievers: Sequence[str],
    *,
    fills: bool,
    why_not: str,
) -> tuple[str, ...]:
    """The named measures, or the default ones that fit; without rankings, none.

    `fills` says whether a judge makes the judgements that the data lack, or else `why_not`.
    """
    rules = config.metrics.retrieval
    if not retrievers:
        # nobody would see that a named one is gone; a run of a part of the systems is another case
        if rules.measures and not (config.retrievers or config.apps or config.generators):
            raise DataError(
                f"{rules.measures[0]} needs a ranking, and no system has one",
                file=config.path,
                record="metrics.retrieval.measures",
                allowed="a retriever, an app, records with contexts, or no measures",
            )
        return ()
    if rules.measures is not None:
        for measure in parse_measures(rules.measures):
            _check_data(measure, config, collection, fills, why_not)
        return rules.measures
    of_answers = DEFAULT_ANSWER_MEASURES if collection.answers else ()
    judged = collection.qrels is not None or fills
    names = DEFAULT_MEASURES if judged else of_answers
    return tuple(name for name in names if _fits(parse_measure(name), rules))


def _fits(measure: Measure, rules: RetrievalMetrics) -> bool:
    deep_enough = measure.k is None or measure.k <= rules.top_k
    return deep_enough and (rules.ties != "average" or measure.spec.averages_ties)


def _check_data(
    measure: Measure, config: ExperimentConfig, collection: Collection, fills: bool, why_not: str
) -> None:
    """Refuse a named measure whose data are not there, or that the tie rule does not go with."""
    rules, reads = config.metrics.retrieval, measure.spec.reads
    if rules.ties == "average" and not measure.spec.averages_ties:
        raise no_average(measure.spec.name)
    needs = allowed = ""
    if reads == "passages" and not collection.answers:
        needs, allowed = "gold answers", "answers in the data set, or measures of judgements"
    elif reads != "passages" and collection.qrels is None and not fills:
        needs = "relevance judgements"
        allowed = (
            "answer_hit@k, which needs gold answers only, qrels in the data set, relevance judged "
            "by a model (metrics.retrieval.fill), or `measures: []`"
        )
    elif reads == "subtopics" and fills:
        raise DataError(
            f"{measure.written} reads subtopics, and relevance judged by a model has none",
            file=config.path,
            record="metrics.retrieval.fill",
            allowed="measures of grades, or no fill",
        )
    elif reads == "subtopics" and collection.qrels and collection.qrels.subtopics is None:
        needs, allowed = "subtopics", SUBTOPICS_ALLOWED
    if needs:
        skipped = f" ({why_not})" if why_not else ""
        raise DataError(
            f"{measure.written} needs {needs}, and the data set has none{skipped}",
            file=config.path,
            record="metrics.retrieval.measures",
            allowed=allowed,
        )


def choose_answer_scores(
    config: ExperimentConfig,
    collection: Collection,
    choices: Choices,
    *,
    has_answers: bool,
    calls: bool,
) -> tuple[tuple[Metric, ...], dict[str, PlannedJudge], dict[str, str]]:
    """Metrics, judges, and why judges are skipped that run only where they can.

    The default metrics are those that the data allow; no judge runs that the config does not name.
    """
    if not has_answers:
        return (), {}, {}
    if config.metrics.generation is not None:
        metrics = tuple(make_all(checked_metric, config.metrics.generation))
        # refuse a named metric of tool calls where no gold ones are
        named = next((m for m in metrics if m.declaration.reads == "tool_calls"), None)
        if named is not None and not collection.expected_tool_calls:
            raise DataError(
                f"{named.name} needs gold tool calls, and the data set has none",
                file=config.path,
                record="metrics.generation",
                allowed="records with a column expected_tool_calls, or metrics of texts",
            )
    else:
        names: tuple[str, ...] = DEFAULT_METRICS if collection.answers else ()
        names += DEFAULT_CALL_METRICS if collection.expected_tool_calls else ()
        metrics = tuple(map(parse_metric, names))
    if not choices.judge or config.metrics.judges is None:
        return metrics, {}, {}
    judges, skipped = {}, {}
    blocks = config.metrics.judges
    made = make_all(partial(build_judge, calls=calls), blocks.values())
    for (name, block), planned in zip(blocks.items(), made, strict=True):
        # a replay sends nothing, and so needs no key
        missing = None if choices.judge_replay else planned.judge.missing_key
        if block.when == "available" and missing is not None:
            skipped[name] = f"{missing} is not set"
        else:
            judges[name] = planned
    return metrics, judges, skipped


def plan_fill(
    config: ExperimentConfig, choices: Choices, judges: Mapping[str, PlannedJudge], *, calls: bool
) -> tuple[PlannedFill | None, str]:
    """Make the judge that grades passages; one that judges answers too serves both.

    The text says why there is none although the config asks for it.
    """
    rules, blocks = config.metrics.retrieval.fill, config.metrics.judges
    if rules is None or blocks is None:
        return None, ""
    name = str(rules.judge)
    if not choices.judge:
        return None, f"judgements are not filled: judge {name} is not asked (--no-judge)"
    judge = judges.get(name) or build_judge(blocks[name], calls=calls)
    missing = None if choices.judge_replay else judge.judge.missing_key
    if blocks[name].when == "available" and missing is not None:
        return None, f"judgements are not filled: judge {name}: {missing} is not set"
    (rubric,) = load_rubrics([rules.rubric], judge.type, judge.judge)
    return PlannedFill(name, judge, rubric, rules), ""


def fit_measures(
    fill: PlannedFill | None, measures: Sequence[str], top_k: int
) -> tuple[PlannedFill | None, list[str]]:
    """Return the judge if a measure reads what it grades, and what measures see of it."""
    read = [m for m in parse_measures(measures) if m.spec.reads == "grades"]
    if fill is None or not read:
        unread = fill is not None and bool(measures)
        return None, ["fill: no measure reads judgements, and so none are made"] * unread
    deep = [m.written for m in read if (m.k or top_k) > fill.rules.depth]
    if not deep:
        return fill, []
    return fill, [
        f"fill: {', '.join(deep)} may look below rank {fill.rules.depth}, where only people's "
        "judgements count, and what is not judged is taken for not relevant (fill.depth)"
    ]


@dataclass(frozen=True, slots=True)
class ChosenScores:
    """What a run scores by."""

    measures: tuple[str, ...]
    metrics: tuple[Metric, ...]
    judges: dict[str, PlannedJudge]
    skipped: dict[str, str]
    fill: PlannedFill | None
    recorded_rankings: list[str]
    warnings: list[str]


def choose_scores(
    config: ExperimentConfig,
    collection: Collection,
    choices: Choices,
    systems: Sequence[System],
    *,
    calls: bool,
) -> ChosenScores:
    """Choose measures, metrics and judges: the named ones, or those that the data allow."""
    recorded = names_of(systems, "recorded")
    has_answers = bool(names_of(systems, "pair", "app")) or any(
        row.answer is not None for name in recorded for row in collection.given[name]
    )
    metrics, judges, skipped = choose_answer_scores(
        config, collection, choices, has_answers=has_answers, calls=calls
    )
    # systems of the records that are rankings have contexts. Without named measures, they are
    # judged by their answers alone, unless the judgements know some of their passages
    named, judged = config.metrics.retrieval.measures, frozenset[str]()
    if named is None and collection.qrels is not None:
        judged = frozenset(collection.qrels.documents)
    # what is matched by its words has other ids
    by_words = bool(named) or (bool(judged) and bool(collection.gold_passages))
    rankings = [
        name
        for name in recorded
        if any(
            row.contexts is not None and (by_words or any(hit.id in judged for hit in row.contexts))
            for row in collection.given[name]
        )
    ]
    ranked = [*names_of(systems, "retriever", "app"), *rankings]
    fill, why_not = plan_fill(config, choices, judges, calls=calls)
    fills = fill is not None
    measures = choose_measures(config, collection, ranked, fills=fills, why_not=why_not)
    for measure in parse_measures(measures) if calls else ():
        measure.check()
    fill, remarks = fit_measures(fill, measures, config.metrics.retrieval.top_k)
    warnings = [*([why_not] if why_not and ranked else []), *remarks]
    for name, judge in judges.items():
        warnings += nugget_warnings(name, judge, collection.queries)
    warnings += [
        f"judge {name} was skipped: {why} (when: available)" for name, why in skipped.items()
    ]
    return ChosenScores(measures, metrics, judges, skipped, fill, rankings, warnings)
