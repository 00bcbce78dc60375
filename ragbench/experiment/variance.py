"""Where the noise of a judged difference comes from, and the cheapest way to less of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragbench.comparison.summary import finite
from ragbench.experiment.plan import Plan
from ragbench.experiment.results import Results
from ragbench.experiment.spending import total_cost
from ragbench.stats import VarianceSplit, cheapest_design, split_variance
from ragbench.types import FloatArray, Usage

_WORDS = {"query": "queries", "generator": "generator runs", "judge": "judge runs"}
_NARROWER = 2
"""The advice is for an interval that many times as narrow."""


def add_variance(comparisons: Mapping[str, Any], plan: Plan, results: Results) -> dict[str, Any]:
    """Add to the comparisons by a judge with `samples` what their variance is made of.

    Each comparison gets `variance`: its components by source, those that one run cannot tell apart
    together, and the cheapest design whose interval is half as wide. A note says the same.

    Args:
        comparisons: The mapping of `comparisons.json`.
        plan: The run.
        results: Its verdicts, and its notes, which grow.

    References:
        Searle, Casella and McCulloch (1992), Variance components, 3.6.
    """
    sampled = _sampled(plan)
    measures = []
    for family in comparisons["measures"]:
        made = []
        for comparison in family["comparisons"]:
            split = None
            if family["measure"] in sampled:
                split = _split(comparison, *sampled[family["measure"]], plan, results)
            if split is None or not split.components[0].variance >= 0:
                made.append(comparison)
                continue
            variance = _described(
                split, *_prices(comparison, sampled[family["measure"]][0], results)
            )
            results.notes.append(_note(family["measure"], comparison, variance))
            made.append({**comparison, "variance": variance})
        measures.append({**family, "comparisons": made})
    return {**comparisons, "measures": measures}


def _sampled(plan: Plan) -> dict[str, tuple[str, str]]:
    """Score -> judge and rubric, where the judge was asked several times."""
    return {
        plan.judge_score(rubric.name, name): (name, rubric.name)
        for name, judge in plan.judges.items()
        if judge.block is not None
        # the verdict of a jury has a score per model, and these are no repeats
        and "+" not in judge.judge.model
        and int(judge.block.options.get("samples") or 1) > 1
        for rubric in judge.rubrics
    }


def _split(
    comparison: Mapping[str, Any], judge: str, rubric: str, plan: Plan, results: Results
) -> VarianceSplit | None:
    options = getattr(plan.judges[judge].block, "options", {})
    n_samples = int(options["samples"])
    tables = []
    for system in (comparison["system"], comparison["baseline"]):
        rows = {
            row["query_id"]: _runs(row["samples"], n_samples)
            for row in results.judgements[system]
            if row["judge"] == judge and row["rubric"] == rubric
        }
        tables.append(np.array([rows[query.id] for query in plan.queries]))
    differences: FloatArray = tables[0] - tables[1]
    return split_variance(differences[:, np.newaxis, :])


def _runs(samples: Sequence[float | None], n_samples: int) -> list[float]:
    """The runs of one item; all NaN where they are not as many as were asked for."""
    if len(samples) != n_samples:
        return [math.nan] * n_samples
    return [math.nan if score is None else score for score in samples]


def _prices(
    comparison: Mapping[str, Any], judge: str, results: Results
) -> tuple[float, float, str]:
    """Of the answers of both systems to a query, of judging them once, and the unit."""
    pair = (comparison["system"], comparison["baseline"])
    runs = [verdict for name in pair for verdict in results.judgements[name]]
    judged = [r for r in runs if r["judge"] == judge and any(s is not None for s in r["samples"])]
    answers = [o.value for name in pair for o in results.answers[name].outcomes]
    judging = total_cost(Usage(**r["usage"]) for r in judged)["usd"]
    generating = total_cost(answer.usage for answer in answers if answer is not None)["usd"]
    if judging is None or generating is None or not judging:
        return 1.0, 1.0, "calls"
    n_runs = sum(len(r["samples"]) for r in judged) / len({r["rubric"] for r in judged})
    return 2 * generating / len(answers), 2 * judging / n_runs, "usd"


def _described(
    split: VarianceSplit, generation: float, judgement: float, unit: str
) -> dict[str, Any]:
    error = split.standard_error(split.queries, split.generations, split.judgements)
    design = None
    if error > 0:
        design = cheapest_design(
            split,
            error / _NARROWER,
            generation_cost=generation,
            judgement_cost=judgement,
        )
    return {
        "components": [
            {
                "sources": list(part.levels),
                "variance": finite(part.variance),
                "df": part.df,
                "confounded": part.confounded,
            }
            for part in split.components
        ],
        "queries": split.queries,
        "judgements": split.judgements,
        "standard_error": finite(error),
        "cheapest_half_as_wide": None
        if design is None
        else {
            "queries": design.queries,
            "judgements": design.judgements,
            "cost": design.cost,
            "unit": unit,
        },
    }


def _note(measure: str, comparison: Mapping[str, Any], variance: Mapping[str, Any]) -> str:
    """Say which share of one query's variance is whose, and what to ask for."""
    total = sum(part["variance"] for part in variance["components"])
    shares = [
        f"{part['variance'] / total if total else 0:.0%} "
        + " with ".join(_WORDS[source] for source in part["sources"])
        + (" (one run cannot tell them apart)" if part["confounded"] else "")
        for part in variance["components"]
    ]
    text = (
        f"{measure}, {comparison['system']} against {comparison['baseline']}: "
        f"the variance of a query's difference is {', '.join(shares)}"
    )
    design = variance["cheapest_half_as_wide"]
    if design is None:
        return text
    times = design["judgements"]
    return (
        f"{text}; an interval half as wide is cheapest with {design['queries']} queries, each "
        f"judged {times} {'time' if times == 1 else 'times'} (now {variance['queries']}, "
        f"{variance['judgements']} times)"
    )
