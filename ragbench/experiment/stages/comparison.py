"""Comparison of the systems of a run and its controls; reasons why a measure tells nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median

import numpy as np
from msgspec import structs

from ragbench.comparison.causes import cause_flows
from ragbench.comparison.differences import compare_systems
from ragbench.comparison.method import Method
from ragbench.comparison.pair_tests import describe
from ragbench.comparison.pairs import pair_columns
from ragbench.comparison.signatures import unlike_measures
from ragbench.comparison.slice_differences import compare_slices
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.noise import with_noise
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.records import Plan, PlannedJudge
from ragbench.experiment.plan.systems import n_distractors, user_systems
from ragbench.experiment.records import Results, mean_over_samples, ranking_notes, sample_notes
from ragbench.experiment.stages.base import Keep, Outputs, Slot, Stage
from ragbench.experiment.stages.controls import CANARY, canary_columns
from ragbench.experiment.stages.keys import code_in
from ragbench.records import comparison
from ragbench.records.codec import from_line, to_line
from ragbench.records.columns import column_row
from ragbench.report.headline import nothing_told
from ragbench.score.base import Advance
from ragbench.score.judge.verdicts import JudgeResults
from ragbench.score.retrieval.notation import Measure, parse_measure
from ragbench.signature import fingerprint
from ragbench.stats.mean import finite
from ragbench.types import Cause, Qrels, ScoreColumn
from ragbench.types.display import list_counts
from ragbench.types.lookups import group_by, index_by_name
from ragbench.types.records import reasoning_notes
from ragbench.types.rows import stack_values

# Number of words from which on a gold answer is a sentence, which a passage hardly repeats.
_SENTENCE_WORDS = 6
# Share of the queries without a gold answer in any passage from which on the gold answers are the
# likely reason, not the systems.
_DOUBTFUL_SHARE = 0.9
_ADVICE = (
    "answer_hit is for short answers that passages hold as they are; for sentences, name gold "
    "documents (relevant) or gold passages (reference_contexts), or let a judge grade passages "
    "(metrics.retrieval.fill)"
)


def _fingerprint(column: ScoreColumn) -> str:
    """Return a hash of a column and its metadata."""
    # bytes of the numbers: JSON takes far longer; one bit pattern stands for all NaN
    values = np.where(np.isnan(column.values), np.nan, column.values).astype("<f8")
    empty_column = replace(column, values=values[:0], causes=column.causes[:0])
    metadata = to_line(column_row(empty_column))
    return fingerprint([values.tobytes(), column.causes.tobytes(), metadata])


def with_reasons(
    plan: Plan, results: Results, comparisons: comparison.Comparisons
) -> comparison.Comparisons:
    """Return the comparisons; a retrieval measure that tells nothing gets a reason, and no best.

    Each reason adds a sentence to the warnings of the results. A measure that reads gold answers
    tells something as long as one is not 0; a doubt about its answers is warned of once. Controls
    do not count.
    """
    systems = results.compared_systems
    families, doubts = [], list[str]()
    for family in comparisons.measures:
        name = family.measure
        columns = []
        for system in systems:
            if name in system.columns:
                columns.append(system.columns[name])
        reason = _reason_of(plan, results, name, columns) if family.kind == "retrieval" else None
        reads_answers = family.kind == "retrieval" and parse_measure(name).spec.reads == "passages"
        if (
            reason is not None
            and reads_answers
            and not (family.tells_nothing or _all_zero(columns))
        ):
            doubts.append(f"{name}: {reason}")
            reason = None
        if reason is not None:
            family = structs.replace(family, tells_nothing=reason, best=None, tied_with_best=())
        families.append(family)
    results.warnings += [*nothing_told(families), *doubts[:1]]
    return structs.replace(comparisons, measures=tuple(families))


def _reason_of(
    plan: Plan, results: Results, measure: str, columns: Sequence[ScoreColumn]
) -> str | None:
    """Return the reason why a measure of rankings tells nothing, or a doubt about it; else None."""
    parsed = parse_measure(measure)
    reads = parsed.spec.reads
    # the value of a user's measure says nothing about passages: it may be 0 for another reason
    if reads in ("passages", "spans") and not parsed.is_built_in:
        return None
    if reads == "passages":
        return _no_answer_reason(plan, columns)
    if not _all_zero(columns):
        return None
    if reads == "spans":
        return "no passage up to the cut-off holds a character of a gold span"
    reason = _no_hit_reason(plan, results, parsed)
    if reads != "gold" or reason not in (None, _IRRELEVANT):
        return reason
    # without judgements and spans, words of gold answers are the gold
    if plan.qrels is None and not plan.collection.gold_spans:
        return _no_answer_reason(plan, columns) or _no_gold_reason(results)
    return _no_gold_reason(results)


def _all_zero(columns: Sequence[ScoreColumn]) -> bool:
    """Return True if all values of all systems are 0 or missing, and some are not missing."""
    if not columns or columns[0].aggregate != "mean" or columns[0].direction != "higher":
        return False
    values = stack_values(columns)
    return bool(np.isfinite(values).any()) and not np.nan_to_num(values).any()


def _no_answer_reason(plan: Plan, columns: Sequence[ScoreColumn]) -> str | None:
    """Return the reason why passages hold hardly any gold answers; None if they hold some."""
    # Gold answers of many words are sentences, which no passage repeats word for word.
    table = stack_values(columns)
    # a query counts if any system has a value
    scored = np.isfinite(table).any(axis=0)
    n_missed = int((scored & ~(np.nan_to_num(table) > 0).any(axis=0)).sum())
    n, answers = int(scored.sum()), plan.collection.answers
    lengths = []
    for gold in filter(None, map(answers.get, plan.ids)):
        # words, not characters: a passage is compared word for word
        lengths.append(min(len(text.split()) for text in gold))
    typical = median(lengths or [0])
    are_sentences = typical >= _SENTENCE_WORDS
    if not n or n_missed < _DOUBTFUL_SHARE * n or not (are_sentences or n_missed == n):
        return None
    reason = f"for {n_missed} of {n} queries no retrieved passage holds a gold answer word for word"
    if are_sentences:
        reason += f", as gold answers have {typical:g} words in the median"
    return f"{reason}: {_ADVICE}"


# Hits beyond the cut-off of a measure may be relevant.
_IRRELEVANT = "no hit that counts is relevant to its query"


def _no_gold_reason(results: Results) -> str:
    """Return the reason why no hit has the gold; a hit may be another passage of its document."""
    losses = chain.from_iterable(causes.losses for causes in results.causes.values())
    reason = "no hit that counts has the gold"
    if any(loss.cause == "wrong_passage" for loss in losses):
        reason += "; the right document is there, with another passage"
    return reason


def _no_hit_reason(plan: Plan, results: Results, measure: Measure) -> str | None:
    """Return the reason why no hit is relevant; None if one is, and without qrels."""
    qrels = results.qrels(plan)
    if qrels is None:
        return None
    judged = dict.fromkeys(qrels.documents)  # in their order: every run names the same example
    hits = chain.from_iterable(ranked.run.documents for ranked in results.rankings.values())
    hit_id, known_id = next(hits, None), next(iter(judged), "")
    if hit_id is None:
        return "no system found anything"
    if any(name in judged for name in chain([hit_id], hits)):
        return None if _has_relevant_hit(plan, results, qrels, measure) else _IRRELEVANT
    n_hits = sum(len(ranked.run) for ranked in results.rankings.values())
    return (
        f"none of the {n_hits} hits of all systems is a judged document (hits such as "
        f"'{hit_id}', judgements such as '{known_id}'): if these are ids of other things, say what "
        "the ids are (id_field of the retriever, metrics.retrieval.match)"
    )


def _has_relevant_hit(plan: Plan, results: Results, qrels: Qrels, measure: Measure) -> bool:
    """Return True if a system has a relevant hit up to the cut-off of a measure."""
    is_relevant = qrels.grades >= measure.options.get("rel", 1)
    for ranking in results.rankings.values():
        ranks = ranking.ranks(qrels, plan.config.metrics.retrieval)
        last = measure.k or ranks.max(initial=0)
        if (is_relevant & (ranks > 0) & (ranks <= last)).any():
            return True
    return False


def judge_warnings(system: str, name: str, judge: PlannedJudge, results: JudgeResults) -> list[str]:
    """Return warnings on the verdicts of a judge: unexpected models, then failures by rubric.

    Args:
        system: Name of the system, or "pairs", for messages.
        name: Name of the judge.
        judge: Judge.
        results: Its verdicts.
    """
    warnings = model_warnings(system, name, judge, results)
    for rubric, counts in results.failures.items():
        causes = list_counts(counts)
        is_kept = any(Cause[cause.upper()].is_kept for cause in counts)
        again = "--retry-failed asks again" if is_kept else "the same command asks again"
        n_failed, total = sum(counts.values()), results.verdict_counts[rubric]
        ending = ", and the mean is over the others" if n_failed < total else ""
        warnings.append(
            f"{system}: judge {name}: {n_failed} of {total} verdicts on {rubric} failed "
            f"({causes}){ending}; {again}"
        )
    return warnings


def model_warnings(system: str, name: str, judge: PlannedJudge, results: JudgeResults) -> list[str]:
    """Return a list with one warning if a server answered as more models than the judge names.

    For the arguments see `judge_warnings`.
    """
    if len(results.models) <= len(judge.judge.models):
        return []
    return [
        f"{system}: judge {name}: the server answered as {len(results.models)} models, "
        f"{', '.join(results.models)}: the scores are a mixture, "
        "which is compared with no other"
    ]


# The options of a judge are in the keys of its verdicts
_JUDGE_AGAIN = "; to judge all answers again by one snapshot: --set metrics.judge.model=NAME"


def unlike_warnings(systems: Sequence[SystemScores]) -> list[str]:
    """Return a warning for each difference of signatures that forbids a comparison; else [].

    Measures with one difference share a warning. That on a judge says how to judge again.
    """
    measures = defaultdict[tuple[str, bool], list[str]](list)
    for name, why in unlike_measures(systems).items():
        is_judged = any(system.kinds.get(name) == "judge" for system in systems)
        measures[why, is_judged].append(name)
    warnings = []
    for (why, is_judged), names in measures.items():
        advice = _JUDGE_AGAIN if is_judged else ""
        listed = ", ".join(names)
        warnings.append(f"{listed}: scores made in different ways are not compared: {why}{advice}")
    return warnings


class Compare(Stage[comparison.Comparisons | None]):
    """Stage that compares the systems; its results are stored, as intervals and tests take time.

    All comparisons are one item.
    """

    kind, version = "compare", 2
    has_texts = False  # numbers, and names by which they are looked up
    unit = "comparisons"

    def __init__(self, plan: Plan, systems: Sequence[SystemScores]) -> None:
        """`systems` are the systems with their scores, without controls."""
        super().__init__(plan, "compare")
        self._systems = systems

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return a list with a single slot.

        Its key depends on the scores, the method and the slices.
        """
        plan = self.plan
        parts = [code_in("ragbench.comparison", "ragbench.stats"), repr(method_of(plan.config))]
        # all that changes an interval or a test, beside the scores
        parts += map(repr, (plan.baseline, plan.clusters, plan.slicings, user_systems(plan)))
        for system in self._systems:
            columns = system.columns.items()
            scores = []
            for name, column in columns:
                scores.append(f"{name} {_fingerprint(column)}")
            parts += [system.name, *scores]
        return [Slot(self.group(plan.config.name, parts), "comparisons", 0)]

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Compare the systems over all queries and over each slice."""
        plan, method, systems = self.plan, method_of(self.plan.config), self._systems
        comparisons = compare_systems(
            systems, plan.baseline, method, plan.clusters, user_systems=user_systems(plan)
        )
        slices = compare_slices(systems, plan.baseline, method, plan.slicings, plan.clusters)
        keep(0, structs.replace(comparisons, slices=slices))
        advance(1)

    def read(self, line: bytes) -> comparison.Comparisons:
        """Return the comparisons in a stored line; raise DataError for another form."""
        return from_line(comparison.Comparisons, line)

    def output(
        self, inputs: Outputs, values: Sequence[comparison.Comparisons | None]
    ) -> comparison.Comparisons | None:
        """Return the comparisons; None if they are not made."""
        return values[0]

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add notes, and comparisons of systems, of controls, and of retrievers with a source.

        Sets `results.comparisons`; a measure that tells nothing adds a warning, and so do
        signatures that forbid a comparison.
        """
        plan, method, stored = self.plan, method_of(self.plan.config), outputs[self]
        if stored is None:
            return
        results.notes += ranking_notes(results.further_rankings)
        results.notes += [*sample_notes(results.answers.values()), *refusal_notes(plan, results)]
        results.warnings += unlike_warnings(results.systems)
        results.notes += reasoning_notes(
            {name: answers.values() for name, answers in results.answers.items()}
        )
        over_sources = compare_over_sources(plan, self._systems, method)
        controls = compare_controls(plan, results, method)
        results.notes += [*source_notes(over_sources), *control_notes(controls, method.confidence)]
        preferences = chain.from_iterable(of_judge.entries for of_judge in results.preferences)
        results.comparisons = structs.replace(
            with_noise(plan, results, with_reasons(plan, results, stored)),
            preferences=tuple(preferences),
            over_sources=tuple(over_sources),
            controls=tuple(controls),
            causes=cause_flows(
                results.causes, ((s.name, s.baseline) for s in plan.systems), plan.ids
            ),
        )


def refusal_notes(plan: Plan, results: Results) -> list[str]:
    """Return a note for each judge and generator whose model refuses request options; else []."""
    refused = defaultdict[str, set[str]](set)
    for uses in results.judge_uses.values():
        for name, use in uses.items():
            refused[f"judge {name}"].update(use.left_out)
    for preferences in results.preferences:
        refused[f"judge {preferences.judge}"].update(preferences.use.left_out)
    if results.filled is not None:
        refused[f"judge {results.filled.counts.judge}"].update(results.filled.use.left_out)
    for system in results.systems:
        generator, answers = system.generator, results.answers.get(system.name)
        # generators that ask no model refuse nothing: their answers are not read again
        if generator is not None and answers is not None and plan.generators[generator].asks:
            for outcome in answers.outcomes:
                if outcome.value is not None:
                    refused[f"generator {generator}"].update(outcome.value.left_out)
    notes = []
    for component, names in refused.items():
        if names:
            listed = ", ".join(sorted(names))
            notes.append(f"{component}: the model refuses {listed}; requests go without")
    return notes


def differences_from(
    other: SystemScores, system: SystemScores, method: Method
) -> Iterator[tuple[str, comparison.Difference]]:
    """Yield (score, difference of `system` minus `other`) for each score of both.

    Scores that are sums over queries are left out: they have no value per query.
    """
    for name, column in system.columns.items():
        if name in other.columns and column.aggregate != "sum":
            pair = pair_columns(name, system, other)
            yield name, describe(pair, pair.differences, method)


def compare_over_sources(
    plan: Plan, systems: Sequence[SystemScores], method: Method
) -> list[comparison.OverSource]:
    """Return the differences of each retriever over one other from that one, if both are scored.

    Such a retriever has one source, as a reranker has. A difference is the retriever minus its
    source. By retriever in the order of the config, then by score; missing ends of an interval are
    None.
    """
    by_name = index_by_name(systems)
    rows = []
    for name in plan.scored_retrievers:
        names = plan.retrievers[name].sources
        if len(names) != 1 or names[0] not in by_name:
            continue
        for measure, difference in differences_from(by_name[names[0]], by_name[name], method):
            rows.append(
                comparison.OverSource(
                    system=name,
                    over=names[0],
                    measure=measure,
                    difference=difference.difference,
                    interval=difference.interval or (None, None),
                    n=difference.n,
                    n_changed=difference.n_changed or 0,
                )
            )
    return rows


def source_notes(rows: Sequence[comparison.OverSource]) -> list[str]:
    """Return a note for each retriever over another, with the difference by the first measure.

    A retriever without a difference or an interval has no note.
    """
    notes = []
    for name, (row, *_) in group_by(rows, lambda row: row.system).items():
        low, high = row.interval
        if row.difference is None or low is None or high is None:
            continue
        notes.append(
            f"{name} over {row.over}: {row.measure} {row.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
        )
    return notes


def compare_controls(
    plan: Plan, results: Results, method: Method
) -> list[comparison.ControlDifference]:
    """Return the differences of each control from its system, by score.

    The system is the pair of the same generator with the baseline retriever; differences are paired
    over the queries that both answered. A control without such a pair has none. A difference is
    control minus system. The canary of an injection is looked for in the answers of both.
    """
    rows = []
    by_name = index_by_name(results.systems)
    for planned in plan.systems:
        if planned.type != "control" or planned.baseline is None:
            continue
        control, system = by_name[planned.name], by_name[planned.baseline]
        if CANARY in control.columns:
            answers = results.answers[system.name]
            canaries = canary_columns(answers, plan.ids, plan.config.seed)
            columns = {**system.columns, CANARY: mean_over_samples(canaries)}
            system = replace(system, columns=columns)
        for name, difference in differences_from(system, control, method):
            rows.append(
                comparison.ControlDifference(
                    control=str(control.retriever),
                    generator=str(control.generator),
                    score=name,
                    mean=finite(control.columns[name].mean),
                    system=system.name,
                    system_mean=finite(system.columns[name].mean),
                    difference=difference.difference,
                    interval=difference.interval or (None, None),
                    n=difference.n,
                )
            )
    return rows


# Control -> how notes name its passages.
_CONTROL_TEXTS = {
    "gold_context": "with the relevant documents for passages",
    "no_context": "without passages",
    "shuffled_context": "with the passages of another question",
    "injection": "with an order to write a canary in one passage",
}


def control_notes(rows: Sequence[comparison.ControlDifference], confidence: float) -> list[str]:
    """Return notes for each generator with the means of its controls: first score, then canary.

    A generator has none for a score of which its system or all of its controls have no mean.

    Args:
        rows: Differences of the controls.
        confidence: Level of the intervals, such as 0.95.
    """
    # generator -> its first score
    firsts: dict[str, str] = {}
    for row in rows:
        firsts.setdefault(row.generator, row.score)
    notes = []
    scores: dict[tuple[str, str], None] = {}
    for generator, first in firsts.items():
        scores[generator, first] = None
        scores[generator, CANARY] = None
    for generator, score in scores:
        score_rows = []
        for row in rows:
            if (row.generator, row.score) == (generator, score):
                score_rows.append(row)
        parts = []
        for row in score_rows:
            if row.mean is not None:
                parts.append(_control_text(row, row.mean))
        if parts and (system_mean := score_rows[0].system_mean) is not None:
            notes.append(
                f"{generator}: {score} is {system_mean:.3f} with {score_rows[0].system}; "
                f"{'; '.join(parts)} ({confidence:.0%} intervals)"
            )
    return notes


def _control_text(row: comparison.ControlDifference, mean: float) -> str:
    """Return the mean of a control, with the difference and interval where there is one."""
    among = f"with the relevant documents among {n_distractors(row.control)} others"
    text = f"{_CONTROL_TEXTS.get(row.control, among)} {mean:.3f}"
    low, high = row.interval
    if row.difference is None or low is None or high is None:
        return text
    return f"{text}, {row.difference:+.3f} [{low:+.3f}, {high:+.3f}]"
