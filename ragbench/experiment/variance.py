"""Where the noise of a difference comes from, and the cheapest way to less of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ragbench.comparison.differences import describe
from ragbench.comparison.method import Method
from ragbench.comparison.pairs import pair_columns
from ragbench.comparison.systems import SystemScores, finite
from ragbench.experiment.costs import total_cost
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results
from ragbench.records.comparison import (
    Comparisons,
    Design,
    Difference,
    OverSource,
    Variance,
    VariancePart,
)
from ragbench.score.base import ScoreColumn
from ragbench.stats import VarianceSplit, cheapest_design, split_variance
from ragbench.types import FloatArray

_WORDS = {"query": "queries", "generator": "generator runs", "judge": "judge runs"}
_NARROWER = 2
"""The advice is for an interval that many times as narrow."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the repeats of a score come from."""

    score: str
    judge: str | None = None
    """Who gives it; None for a metric, which has no noise of its own."""
    rubric: str = ""
    judgements: int = 1
    noisy: bool = False
    """Whether the judge asks models, which may say something else another time."""


def add_variance(comparisons: Comparisons, plan: Plan, results: Results) -> Comparisons:
    """Add to comparisons with repeats what their variance is made of.

    Repeats are the `samples` of generators and of judges. Each comparison of systems that have
    some gets `variance`: its components by source, those that one run cannot tell apart together,
    and the cheapest design whose interval is half as wide. A note says the same.

    References:
        Searle, Casella and McCulloch (1992), Variance components, 3.6.
    """
    sources = _sources(plan, results)
    first = next((source for source in sources.values() if source.judge is None), None)
    measures = []
    for family in comparisons.measures:
        source, made = sources.get(family.measure), []
        for comparison in family.comparisons:
            split = None if source is None else _split(comparison, source, plan, results)
            if source is None or split is None or not split.components[0].variance >= 0:
                made.append(comparison)
                continue
            variance = _described(split, source, *_prices(comparison, source, results))
            # one metric is enough to tell who is noisy; the others are in the file
            if source.judge is not None or source == first:
                results.notes.append(_note(family.measure, comparison, variance))
            made.append(replace(comparison, variance=variance))
        measures.append(replace(family, comparisons=tuple(made)))
    return replace(comparisons, measures=tuple(measures))


def _sources(plan: Plan, results: Results) -> dict[str, _Source]:
    """Score -> where its repeats come from, for scores that are means over queries."""
    columns = {name: c for s in results.systems for name, c in s.columns.items()}
    found = {
        name: _Source(name)
        for system in results.systems
        for name, kind in system.kinds.items()
        if kind == "generation" and columns[name].aggregate == "mean"
    }
    for name, judge in plan.judges.items():
        # the verdict of a jury has a score per model, and these are no repeats
        judgements = 1 if "+" in judge.judge.model else judge.samples
        noisy = judge.judge.asks
        for rubric in judge.rubrics:
            score = plan.judge_score(rubric.name, name)
            found[score] = _Source(score, name, rubric.name, judgements, noisy)
    return found


def _split(
    comparison: Difference, source: _Source, plan: Plan, results: Results
) -> VarianceSplit | None:
    """None where neither the generators of both systems nor the judge were asked again."""
    names = (comparison.system, comparison.baseline)
    # of what only one of the two has more, a difference has no more repeats
    generations = min(results.answers[name].samples for name in names)
    if generations * source.judgements == 1:
        return None
    tables = [_runs_of(name, source, plan, results)[:, :generations] for name in names]
    differences: FloatArray = tables[0] - tables[1]
    return split_variance(differences)


def _runs_of(system: str, source: _Source, plan: Plan, results: Results) -> FloatArray:
    """The scores of one system: queries x generator runs x judge runs."""
    if source.judgements == 1:
        found = results.samples.get(system, {}).get(source.score)
        columns = found or [_column(system, source.score, results)]
        return np.stack([column.values for column in columns], axis=1)[:, :, np.newaxis]
    rows = {
        row.answer: _runs(row.samples, source.judgements)
        for row in chain.from_iterable(results.judgements[system])
        if row.judge == source.judge and row.rubric == source.rubric
    }
    samples = range(results.answers[system].samples)
    return np.array([[rows[query, sample] for sample in samples] for query in plan.ids])


def _column(system: str, score: str, results: Results) -> ScoreColumn:
    return next(s for s in results.systems if s.name == system).columns[score]


def _runs(samples: Sequence[float | None], n_samples: int) -> list[float]:
    """The runs of one item; all NaN where they are not as many as were asked for."""
    if len(samples) != n_samples:
        return [math.nan] * n_samples
    return [math.nan if score is None else score for score in samples]


def _prices(comparison: Difference, source: _Source, results: Results) -> tuple[float, float, str]:
    """Of one answer of both systems to a query, of judging them once, and the unit."""
    pair = (comparison.system, comparison.baseline)
    answers = [o.value for name in pair for o in results.answers[name].outcomes]
    generating = total_cost(answer.usage for answer in answers if answer is not None).usd
    if source.judge is None:
        return (2 * generating / len(answers), 0.0, "usd") if generating else (1.0, 0.0, "calls")
    verdicts = (row for name in pair for rows in results.judgements[name] for row in rows)
    judged = [r for r in verdicts if r.judge == source.judge and r.score is not None]
    judging = total_cost(row.usage.usage for row in judged).usd
    if judging is None or generating is None or not judging:
        return 1.0, 1.0, "calls"
    n_runs = source.judgements * len(judged) / len({row.rubric for row in judged})
    return 2 * generating / len(answers), 2 * judging / n_runs, "usd"


def _described(
    split: VarianceSplit, source: _Source, generation: float, judgement: float, unit: str
) -> Variance:
    error = split.standard_error(split.queries, split.generations, split.judgements)
    design = None
    if error > 0:
        design = cheapest_design(
            split, error / _NARROWER, generation_cost=generation, judgement_cost=judgement
        )
    components = []
    for part in split.components:
        levels = tuple(level for level in part.levels if level != "judge" or source.noisy)
        components.append(
            VariancePart(
                sources=levels,
                variance=finite(part.variance),
                df=part.df,
                confounded=len(levels) > 1,
            )
        )
    # what was asked once has no place in the file
    several = split.generations > 1
    return Variance(
        components=tuple(components),
        queries=split.queries,
        generations=split.generations if several else None,
        judgements=split.judgements,
        standard_error=finite(error),
        cheapest_half_as_wide=None
        if design is None
        else Design(
            queries=design.queries,
            generations=design.generations if several else None,
            judgements=design.judgements,
            cost=design.cost,
            unit=unit,
        ),
    )


def _note(measure: str, comparison: Difference, variance: Variance) -> str:
    """Say which share of one query's variance is whose, and what to ask for."""
    total = sum(part.variance or 0.0 for part in variance.components)
    shares = [
        f"{(part.variance or 0.0) / total if total else 0:.0%} "
        + " with ".join(_WORDS[source] for source in part.sources)
        + (" (one run cannot tell them apart)" if part.confounded else "")
        for part in variance.components
    ]
    text = (
        f"{measure}, {comparison.system} against {comparison.baseline}: "
        f"the variance of a query's difference is {', '.join(shares)}"
    )
    design = variance.cheapest_half_as_wide
    if design is None:
        return text
    # what the run cannot tell apart is not asked for
    amounts = [
        (design.generations, variance.generations, "answered"),
        (design.judgements, variance.judgements, "judged"),
    ]
    known = [(n, now, word) for n, now, word in amounts if n is not None and (now or 1) > 1]
    wanted = " and ".join(f"{word} {_times(n)}" for n, _, word in known)
    now = " and ".join(_times(has or 1) for _, has, _ in known)
    return (
        f"{text}; an interval half as wide is cheapest with {design.queries} queries, each "
        f"{wanted} (now {variance.queries}, {now})"
    )


def _times(n: int) -> str:
    return f"{n} {'time' if n == 1 else 'times'}"


def differences_from(
    other: SystemScores, system: SystemScores, method: Method
) -> Iterator[tuple[str, Difference]]:
    """Compare a system with another one by each score of both that is a mean over queries."""
    for name, column in system.columns.items():
        if name in other.columns and column.aggregate != "sum":
            yield name, describe(pair_columns(name, system, other), method, None)


def describe_deltas(
    plan: Plan, systems: Sequence[SystemScores], method: Method
) -> list[OverSource]:
    """Compare each retriever over exactly one other with that one, if both are scored."""
    by_name = {system.name: system for system in systems}
    sources = {name: plan.retrievers[name].sources for name in plan.retrieving}
    single = [(name, each[0]) for name, each in sources.items() if len(each) == 1]
    return [
        OverSource(
            system=name,
            over=first,
            measure=measure,
            difference=found.difference,
            interval=found.interval or (None, None),
            n=found.n,
            n_changed=found.n_changed or 0,
        )
        for name, first in single
        if first in by_name
        for measure, found in differences_from(by_name[first], by_name[name], method)
    ]


def delta_notes(rows: Sequence[OverSource]) -> list[str]:
    """Say in a sentence each what it adds, by its first measure."""
    notes = []
    for name in dict.fromkeys(row.system for row in rows):
        row = next(row for row in rows if row.system == name)
        low, high = row.interval
        if row.difference is None or low is None or high is None:
            continue
        notes.append(
            f"{name} over {row.over}: {row.measure} {row.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    return notes
