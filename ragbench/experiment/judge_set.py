"""Judges of a config on a published set of judged answers: plan, cost, verdicts and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.judged_set import item_of_row, key_of, run_of_rows
from ragbench.config.schema import ExperimentConfig
from ragbench.data.files.judged_rows import JudgedRow, JudgedSet
from ragbench.errors import DataError
from ragbench.experiment.plan.components import (
    build_judge,
    make_all,
    open_models,
    stored_replies,
    unavailable,
)
from ragbench.experiment.plan.records import PlannedJudge
from ragbench.experiment.records import judge_totals
from ragbench.llm import Budget, CountedRequests, Estimate
from ragbench.llm.usage import Totals
from ragbench.score.base import Advance, add_option
from ragbench.score.judge.base import JudgedItem, Rubric
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.verdicts import (
    JudgeResults,
    collect_pairs,
    collect_verdicts,
    compare_answers,
    failures_of,
    numbered_verdicts,
)
from ragbench.signature import order_key
from ragbench.types import Cause, Verdict


@dataclass(frozen=True, slots=True)
class SetJudge:
    """Judge of a config, with the rubrics that it applies to a published set.

    Attributes:
        name: Name of the judge.
        planned: The judge.
        rubrics: Rubrics that the rows have all parts for.
        skipped: Reason -> rubrics that are not applied for it.
        cost: Estimate of calls that have no stored reply; None for a judge that calls no model.
    """

    name: str
    planned: PlannedJudge
    rubrics: Sequence[Rubric]
    skipped: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cost: Estimate | None = None


def plan_judges(
    config: ExperimentConfig, rows: JudgedSet, names: Sequence[str] = ()
) -> list[SetJudge]:
    """Return the judges of a config with the rubrics that can judge a set, and their cost.

    Nothing is sent.

    Args:
        config: Config with judges.
        rows: Rows to judge.
        names: Rubrics to apply; empty: all that the rows have the parts for.

    Raises:
        DataError: The config has no judge that is available, or no rubric can judge the rows.
        ConfigError: A judge refuses an option.
        OptionError: A rubric is unknown, or a judge cannot apply it.
        AdapterError: Code of the user fails, or returns no judge.
    """
    blocks = config.metrics.judges or {}
    planned_judges = make_all(build_judge, blocks.values())
    judges, reasons = [], list[str]()
    for name, planned in zip(blocks, planned_judges, strict=True):
        if reason := unavailable(planned, replay=False):
            reasons.append(f"judge {name}: {reason}")
            continue
        rubrics, skipped = _fitting_rubrics(planned, rows, names)
        for why, group in skipped.items():
            reasons.append(f"{', '.join(group)} ({why})")
        if rubrics:
            judges.append(SetJudge(name, planned, rubrics, skipped))
    if not judges:
        reason = "; ".join(dict.fromkeys(reasons)) or "no judge"
        problem = f"nothing can judge {rows.form}: {reason}"
        rubric = "pairwise" if rows.are_pairs else "supported"
        allowed = f"metrics: {{judge: {{..., rubrics: [{rubric}]}}}}"
        raise DataError(problem, file=config.path, record="metrics.judge", allowed=allowed)
    return with_cost(config, judges, rows)


def with_cost(
    config: ExperimentConfig, judges: Sequence[SetJudge], rows: JudgedSet
) -> list[SetJudge]:
    """Return the judges with the estimated cost of their calls that have no stored reply."""
    with stored_replies(config) as stored:
        counted = CountedRequests(stored=stored)
        return [replace(judge, cost=_cost(judge, rows, counted)) for judge in judges]


def _fitting_rubrics(
    planned: PlannedJudge, rows: JudgedSet, names: Sequence[str]
) -> tuple[list[Rubric], dict[str, list[str]]]:
    """Return the rubrics that a set has the parts for, and reason -> other rubrics."""
    fitting, skipped = [], dict[str, list[str]]()
    for rubric in (*planned.rubrics, *planned.pairwise):
        if names and rubric.name not in names:
            continue
        missing = []
        for part in rubric.needs:
            if not _has_part(rows.rows, part, rubric):
                missing.append(part)
        if rubric.asks not in rows.asks:
            skipped.setdefault(f"no rubric of {rows.asks[0]}s", []).append(rubric.name)
        elif missing:
            skipped.setdefault(f"without {' and '.join(missing)}", []).append(rubric.name)
        else:
            fitting.append(rubric)
    return fitting, skipped


def _has_part(rows: Iterable[JudgedRow], part: str, rubric: Rubric) -> bool:
    """Return True if some row has a part of an item, or if the rubric can do without it."""
    if part == "question" and rubric.method == "claims":
        return True
    if part == "guidelines" and rubric.guidelines:
        return True
    return any(getattr(row, part, None) for row in rows)


def _cost(judge: SetJudge, rows: JudgedSet, counted: CountedRequests) -> Estimate | None:
    """Return the estimated cost of a judge on a set; None if it calls no model."""
    model = judge.planned.judge
    if not isinstance(model, ModelJudge):
        return None
    return rehearse(model, _items(judge, rows.rows), judge.rubrics, counted)


def _items(judge: SetJudge, rows: Iterable[JudgedRow]) -> list[JudgedItem]:
    """Return the items of the rows, with the nuggets of a judge."""
    items = []
    for row in rows:
        items.append(replace(item_of_row(row), nuggets=judge.planned.nuggets_of(row.id)))
    return items


@dataclass(frozen=True, slots=True)
class SetVerdicts:
    """Verdicts of judges on a set, as `judge_rows` returns them.

    Attributes:
        run: The scores of the judges as a run.
        totals: Judge that asks models -> its calls.
        failed: Cause -> number of verdicts that failed.
        n_verdicts: Number of all verdicts.
    """

    run: JudgedRun
    totals: Mapping[str, Totals]
    failed: Counter[str]
    n_verdicts: int

    @property
    def advice(self) -> str:
        """Command that asks for the failed verdicts again, as text; empty without failures."""
        if any(Cause[cause.upper()].is_kept for cause in self.failed):
            return "--retry-failed asks again"
        return "the same command asks again" if self.failed else ""

    @property
    def is_unreachable(self) -> bool:
        """True if requests were sent, and the servers served none."""
        totals = self.totals.values()
        n_unreachable = sum(of.unreachable for of in totals)
        n_calls = sum(of.calls + of.failed - of.unreachable for of in totals)
        return n_unreachable > 0 and not n_calls


def judge_rows(
    config: ExperimentConfig,
    judges: Sequence[SetJudge],
    rows: JudgedSet,
    advance: Advance,
    *,
    retry_failed: bool = False,
) -> SetVerdicts:
    """Return the scores of judges on a set, with their calls and failures.

    Rows are judged in random order, so that a budget that ends leaves a random sample. Replies
    come from the store, or are stored before they are used.

    Args:
        config: Config with the budget and the folder of the replies.
        judges: Judges, as `plan_judges` returns them.
        rows: Rows to judge.
        advance: Counts rows for the progress display.
        retry_failed: Ask once more for rows with a failed verdict, whatever replies are stored.

    Raises:
        ConfigError: A key is missing.
        MissingExtra: A judge needs a package that is not installed.
        AdapterError: Code of the user fails.
        DataError: The file of replies cannot be opened.
    """
    order = sorted(rows.rows, key=lambda row: order_key(config.seed, "/".join(key_of(row))))
    budget = Budget(**asdict(config.budget))
    scores: dict[str, JudgedScore] = {}
    totals: dict[str, Totals] = {}
    failed: Counter[str] = Counter()
    planned = {judge.name: judge.planned for judge in judges}
    with open_models(planned, config, budget=budget) as replies:
        for judge in judges:
            items = _items(judge, order)
            verdicts = _verdicts(judge, items, advance)
            if retry_failed and replies is not None:
                with replies.asking_again():
                    _judge_failed(judge, items, verdicts)
            judged = _collect(judge, items, verdicts)
            for rubric in judge.rubrics:
                name = rubric.name
                if len(judges) > 1:
                    name = add_option(name, "judge", judge.name)
                scores[name] = _score(name, judge, rubric, judged, order)
            for column in judged.columns.values():
                # an item counts once, however often it is judged
                failed.update(failures_of(replace(column, answer_causes=None)))
            if judge.planned.judge.asks:
                totals[judge.name] = judge_totals(judge.planned)
    run = run_of_rows(rows, scores, config.seed)
    return SetVerdicts(run, totals, failed, len(order) * len(scores))


def _verdicts(
    judge: SetJudge, items: Sequence[JudgedItem], advance: Advance
) -> list[dict[str, Verdict]]:
    """Return rubric -> verdict of each item; items after the end of the time have a cause."""
    model, rubrics = judge.planned.judge, judge.rubrics
    if items[0].other is not None:
        return compare_answers(model, items, rubrics, advance)
    by_number = {}
    for number, by_rubric in numbered_verdicts(model, items, rubrics):
        by_number[number] = by_rubric
        advance(1)
    late = Verdict(None, reasoning="not judged", status="failed", cause=Cause.OVER_BUDGET.word)
    without = {rubric.name: late for rubric in rubrics}
    return [dict(by_number.get(number, without)) for number in range(len(items))]


def _judge_failed(
    judge: SetJudge, items: Sequence[JudgedItem], verdicts: list[dict[str, Verdict]]
) -> None:
    """Judge the items with a failed verdict again, and replace their verdicts."""
    failed = []
    for place, by_rubric in enumerate(verdicts):
        if any(verdict.status == "failed" for verdict in by_rubric.values()):
            failed.append(place)
    if failed:
        again = _verdicts(judge, [items[place] for place in failed], lambda n: None)
        for place, by_rubric in zip(failed, again, strict=True):
            verdicts[place] = by_rubric


def _collect(
    judge: SetJudge, items: Sequence[JudgedItem], verdicts: Sequence[Mapping[str, Verdict]]
) -> JudgeResults:
    """Return the results of a judge from its verdicts on the items."""
    results_of = collect_verdicts if items[0].other is None else collect_pairs
    model, type_name = judge.planned.judge, judge.planned.type
    return results_of(model, items, judge.rubrics, verdicts, type_name=type_name)


def _score(
    name: str, judge: SetJudge, rubric: Rubric, judged: JudgeResults, order: Sequence[JudgedRow]
) -> JudgedScore:
    """Return the scores of a judge by one rubric, for rows in the order of the results."""
    scores, unscored, reasons, orders = {}, {}, {}, {}
    start = list(judge.rubrics).index(rubric) * len(order)
    for place, row in enumerate(order):
        verdict = judged.rows[start + place]
        if verdict.orders:
            # a judge that is asked several times has the scores of both orders each time
            sides = np.array(verdict.orders).reshape(-1, 2).mean(axis=0)
            sides = 1 - sides if rubric.direction == "lower" else sides
            orders[key_of(row)] = (float(sides[0]), float(sides[1]))
        if verdict.score is None:
            unscored[key_of(row)] = verdict.cause
        else:
            scores[key_of(row)] = float(verdict.score)
        if verdict.reasoning:
            reasons[key_of(row)] = verdict.reasoning
    return JudgedScore(
        name=name,
        rubric=rubric,
        judge=judge.name,
        model="+".join(judged.models),
        signature=str(judged.columns[rubric.name].signature),
        scores=scores,
        unscored=unscored,
        reasons=reasons,
        orders=orders,
    )
