"""Answers of the generators of a run folder by what they read, for the fix list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ragbench.comparison.cause_rules import DEFAULT_READ
from ragbench.experiment.plan.systems import n_distractors
from ragbench.fixes.changes import PricedRun
from ragbench.fixes.contract import AnswersByReading
from ragbench.records.causes import CauseRow
from ragbench.records.fixes import AnswerGain, PricedChange
from ragbench.records.summary import Summary
from ragbench.types import FloatArray
from ragbench.types.rows import BoolArray


def answers_by_generator(
    summary: Summary,
    causes: Mapping[str, Mapping[str, CauseRow]],
    run: PricedRun,
    passages: Mapping[str, int],
) -> dict[str, AnswersByReading]:
    """Return generator -> its answers to the questions that all rankings can be compared on.

    Only generators that are paired with a retriever count. Those without both controls, gold and
    wrong passages, or without any right answer, are left out. If `gold_context` is missing, the
    control with the most distractors stands for it; for `shuffled_context`, `no_context` does.

    Args:
        summary: Summary of the run.
        causes: System -> query -> row of `causes.csv`.
        run: Stored rankings.
        passages: Generator -> number of passages that it reads; a missing one reads the default.
    """
    generators: dict[str, AnswersByReading] = {}
    for generator in dict.fromkeys(s.generator for s in summary.systems if s.type == "pair"):
        systems = [s for s in summary.systems if s.generator == generator]
        n_read = passages.get(str(generator), DEFAULT_READ)
        rows = _comparable(run, n_read)
        depths = {name: run.rankings.depths(name)[rows] for name in run.rankings.runs}
        query_ids = [run.query_ids[row] for row in np.flatnonzero(rows).tolist()]
        answers = {s.retriever: _right(causes.get(s.name, {}), query_ids) for s in systems}
        # By number, not by name: `distractors=10` sorts before `distractors=9` as text. The most
        # distractors come closest to what a retriever returns.
        controls = sorted(filter(n_distractors, answers), key=n_distractors)
        nothing = np.full(len(query_ids), np.nan)
        wrong = answers.get("shuffled_context", answers.get("no_context", nothing))
        by_reading = AnswersByReading(
            depths=depths,
            passages=n_read,
            pairs={
                s.ranking_of: answers[s.retriever]
                for s in systems
                if s.type == "pair" and s.ranking_of in depths
            },
            gold_alone=answers.get("gold_context", answers[controls[-1]] if controls else nothing),
            wrong_passages=wrong,
        )
        # Without any right answer, the run may have no metric that tells right from wrong: rates of
        # 0 % would blame the generator for it.
        if by_reading.has_controls and any(np.nansum(v) for v in answers.values()):
            generators[str(generator)] = by_reading
    return generators


def _comparable(run: PricedRun, k: int) -> BoolArray:
    """Return True for each query of which all rankings tell whether its gold is among k hits.

    Rankings that tell it of no query are left out, as those with unknown ids.
    """
    is_known = np.array([run.rankings.is_known(name, k) for name in run.rankings.runs])
    rows: BoolArray = np.all(is_known[is_known.any(axis=1)], axis=0)
    return rows


def _right(rows: Mapping[str, CauseRow], query_ids: Sequence[str]) -> FloatArray:
    """Return 1 for each right answer, 0 for a wrong one, NaN if it failed, is unknown or absent."""
    causes = [rows[query].cause if query in rows else "unknown" for query in query_ids]
    absent = {"failed": np.nan, "unknown": np.nan}
    values = [absent.get(cause, float(cause == "right")) for cause in causes]
    return np.array(values, np.float64)


def with_answers(
    changes: Sequence[PricedChange], run: PricedRun, generators: Mapping[str, AnswersByReading]
) -> list[PricedChange]:
    """Return the changes, in their order, with the gain in right answers of each generator.

    Generators that read another number of passages than the list counts, or that the run has not
    paired with the retriever, are left out. A bound has no gain, and neither has a change of the
    number of passages: the answers tell nothing about other numbers.
    """
    rows = _comparable(run, run.read)
    fitting = {
        name: answers
        for name, answers in generators.items()
        if answers.passages == run.read and run.base in answers.pairs
    }

    def gains(change: PricedChange) -> Iterator[AnswerGain]:
        rescued, lost = (
            np.array([query in moved for query in run.query_ids], np.bool_)[rows]
            for moved in ({*change.rescued}, {*change.lost})
        )
        is_priced = not change.is_bound and change.passages == run.read
        for name, answers in fitting.items() if is_priced else ():
            gain = answers.predict_gain(run.base, rescued, lost, confidence=run.confidence)
            yield AnswerGain(generator=name, gain=gain.mean, interval=(gain.lower, gain.upper))

    return [replace(change, answers=tuple(gains(change))) for change in changes]


def answer_notes(
    summary: Summary, run: PricedRun, generators: Mapping[str, AnswersByReading]
) -> Iterator[str]:
    """Yield reasons why right answers of a generator are not predicted, a sentence each."""
    types = {system.type for system in summary.systems}
    if "pair" in types and "control" not in types:
        yield "controls: [gold_context, shuffled_context] in the config predict right answers"
    for name, answers in generators.items():
        if answers.passages != run.read:
            yield (
                f"no gain in right answers for {name}: it reads {answers.passages} passages, and "
                f"the list counts {run.read}; causes: {{read: {answers.passages}}} counts as many"
            )
