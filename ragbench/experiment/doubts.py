"""Scores that tell nothing: where no value but one can occur, why, and what to do.

What all systems have alike is found where they are compared; here stands what the data say about
it, and what is wrong with one system alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median

import numpy as np

from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.records import Ranked, Results
from ragbench.records.comparison import Comparisons, MeasureComparison
from ragbench.report.headline import nothing_told
from ragbench.score.base import ScoreColumn
from ragbench.score.judge.verdicts import Judged
from ragbench.score.retrieval.notation import parse_measure

_SENTENCE = 6
"""Words from which on a gold answer is rather a sentence than what stands in a passage as it is."""
_HARDLY = 0.9
"""Share of the queries without a hit from which on the answers are in doubt, not the systems."""
_WHAT_TO_DO = (
    "answer_hit is for short answers that passages hold as they are; for sentences, name gold "
    "documents (relevant) or gold passages (reference_contexts), or let a judge grade passages "
    "(metrics.retrieval.fill)"
)


def with_reasons(plan: Plan, results: Results, comparisons: Comparisons) -> Comparisons:
    """Return the comparisons with the reasons why measures tell nothing, and none of them best.

    The warnings of the results get a sentence for each reason.
    """
    systems = [system for system in results.systems if system.role != "control"]
    families, doubtful = [], dict[str, str]()
    for family in comparisons.measures:
        if family.kind == "retrieval":
            columns = [s.columns[family.measure] for s in systems if family.measure in s.columns]
            if _reads_passages(family.measure):
                family = _by_answers(plan, results, family, columns, doubtful)
            elif _all_zero(columns) and (why := _nothing_relevant(plan, results)) is not None:
                family = _silenced(family, why)
        families.append(family)
    results.warnings += [*nothing_told(families), *doubtful.values()]
    return replace(comparisons, measures=tuple(families))


def _silenced(family: MeasureComparison, why: str) -> MeasureComparison:
    return replace(family, tells_nothing=why, best=None, tied_with_best=())


def _reads_passages(measure: str) -> bool:
    return parse_measure(measure).spec.reads == "passages"


def _all_zero(columns: Sequence[ScoreColumn]) -> bool:
    """Whether every query that is scored has 0, where more is better, by every system."""
    if not columns or columns[0].aggregate != "mean" or columns[0].direction != "higher":
        return False
    values = np.concatenate([column.values for column in columns])
    return bool(np.isfinite(values).any()) and not np.nan_to_num(values).any()


def _by_answers(
    plan: Plan,
    results: Results,
    family: MeasureComparison,
    columns: Sequence[ScoreColumn],
    doubtful: dict[str, str],
) -> MeasureComparison:
    """Say of a measure that looks for gold answers that they are not of the kind it can find."""
    why = _not_found(plan, results, columns)
    if why is None:
        return family
    if family.tells_nothing or _all_zero(columns):
        return _silenced(family, why)
    doubtful.setdefault("answers", f"{family.measure}: {why}")
    return family


def _not_found(plan: Plan, results: Results, columns: Sequence[ScoreColumn]) -> str | None:
    """Why hardly any passage holds a gold answer: most often, they are sentences."""
    table = np.array([column.values for column in columns])
    scored = np.isfinite(table).any(axis=0)
    never = int((scored & ~(np.nan_to_num(table) > 0).any(axis=0)).sum())
    n, shortest = int(scored.sum()), _answer_lengths(plan)
    longest = _longest_passage(plan, results.rankings.values())
    above, middle = sum(words > longest for words in shortest), median(shortest or [0])
    hardly = n and never >= _HARDLY * n and (middle >= _SENTENCE or never == n)
    if not hardly and not above:
        return None
    found = f"for {never} of {n} queries no retrieved passage holds a gold answer word for word"
    if above:
        found += f"; {above} of {len(shortest)} gold answers are longer than any passage"
    elif middle >= _SENTENCE:
        found += f", as gold answers have {middle:g} words in the median"
    return f"{found}: {_WHAT_TO_DO}"


def _answer_lengths(plan: Plan) -> list[int]:
    """Words of the shortest gold answer of each query that has one."""
    answers = plan.collection.answers
    return [
        min(len(answer.split()) for answer in answers[query.id])
        for query in plan.queries
        if answers.get(query.id)
    ]


def _longest_passage(plan: Plan, rankings: Iterable[Ranked]) -> int:
    hits = (
        hit
        for ranked in rankings
        for outcome in ranked.outcomes
        if outcome.value is not None
        for hit in outcome.value.documents
    )
    texts = {hit.id: hit.text for hit in hits}
    known = plan.corpus
    whole = {
        name: known[name].full_text if text is None and name in known else text or ""
        for name, text in texts.items()
    }
    return max((len(text.split()) for text in whole.values()), default=0)


def _nothing_relevant(plan: Plan, results: Results) -> str | None:
    """Why no hit is relevant: none is judged, or those that are judged are irrelevant."""
    qrels = plan.qrels if results.filled is None else results.filled.qrels
    if qrels is None:
        return None
    judged = dict.fromkeys(qrels.documents)  # in their order: every run says the same
    hits = (name for ranked in results.rankings.values() for name in ranked.run.documents)
    example, known = next(hits, None), next(iter(judged), "")
    if example is None:
        return "no system found anything"
    if any(name in judged for name in chain([example], hits)):
        return "no hit of any system is relevant to its query"
    n_hits = sum(len(ranked.run) for ranked in results.rankings.values())
    return (
        f"none of the {n_hits} hits of all systems is a judged document (hits such as "
        f"'{example}', judgements such as '{known}'): if these are ids of other things, say what "
        "the ids are (id_field of the retriever, metrics.retrieval.match)"
    )


def warnings_on(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Say what makes a judge's numbers doubtful; a sentence each."""
    found = mixture(system, name, planned, judged)
    for rubric, counts in judged.failed.items():
        causes = ", ".join(f"{count} {cause}" for cause, count in counts.items())
        found.append(
            f"{system}: judge {name}: {sum(counts.values())} of {judged.asked[rubric]} verdicts on "
            f"{rubric} failed ({causes}); kept in judgements/, the mean is over the others"
        )
    return found


def mixture(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Warn where a server answered as more models than were asked."""
    if len(judged.models) <= len(planned.judge.model.split("+")):
        return []
    return [
        f"{system}: judge {name}: the server answered as {len(judged.models)} models, "
        f"{', '.join(judged.models)}: the scores are a mixture"
    ]
