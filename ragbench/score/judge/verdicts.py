"""Verdicts of a judge on many items, or on pairs in both orders, and their score columns and rows.

A judge that takes many items gets all of them at once, any other judge one item after another. It
runs in this process or on workers.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from msgspec import structs

from ragbench.executors.base import Executor, Facts, LostItem, Task, blocks_of
from ragbench.records.manifest import VerdictRow, form_id
from ragbench.score.base import Advance
from ragbench.score.judge import JUDGES
from ragbench.score.judge.base import (
    JudgedItem,
    Rubric,
    RubricJudge,
    both_orders,
    missing_verdict,
)
from ragbench.score.judge.items import judge_with_evidence
from ragbench.score.judge.python import as_judge, read_verdict
from ragbench.signature import Signature, fingerprint_json, fingerprint_unordered, mixture
from ragbench.types import CauseArray, ScoreColumn
from ragbench.types.lookups import index_by_name, item_names, take_items
from ragbench.types.records import Usage, add_usage
from ragbench.types.rows import Mapped
from ragbench.types.scores import Cause, Verdict


def judge_all(
    judge: RubricJudge,
    items: Iterable[JudgedItem],
    rubrics: Sequence[Rubric],
    advance: Advance | None = None,
) -> list[dict[str, Verdict]]:
    """Return rubric -> verdict per item, in order; a failure is a verdict, not an error.

    `advance` is called with the number of items that were completed since the last call. Items may
    be an iterator.

    A judge that judges items one by one never fails: any exception becomes a `failed` verdict. A
    judge that takes many items raises RagbenchError if the user has to act.
    """
    if judge.takes_many:
        return judge.judge_all(items, rubrics, advance)
    verdicts = []
    for item in items:
        verdicts.append({rubric.name: apply_rubric(judge, item, rubric) for rubric in rubrics})
        if advance is not None:
            advance(1)
    return verdicts


def numbered_verdicts(
    judge: RubricJudge, items: Sequence[JudgedItem], rubrics: Sequence[Rubric]
) -> Iterator[tuple[int, Mapping[str, Verdict]]]:
    """Yield the position of each item with its verdicts, as they arrive.

    Replies of a model come in any order, and a judge whose time is up leaves gaps.
    """
    if judge.asks:
        yield from judge.judge_each(items, rubrics)
    else:
        yield from enumerate(judge_all(judge, items, rubrics))


async def ajudge_all(
    judge: RubricJudge,
    items: Iterable[JudgedItem],
    rubrics: Sequence[Rubric],
    advance: Advance | None = None,
) -> list[dict[str, Verdict]]:
    """Return the result of `judge_all` without blocking the running event loop.

    `advance` is called with the number of items that were completed since the last call. Cancelling
    aborts the requests in progress; a judge without requests stops between two items. Raises
    RagbenchError if the user has to act, only of a judge that takes many items; other failures are
    verdicts.
    """
    if judge.takes_many:
        return await judge.ajudge_all(items, rubrics, advance)
    verdicts = []
    for item in items:
        verdicts += await asyncio.to_thread(judge_all, judge, [item], rubrics)
        if advance is not None:
            advance(1)
    return verdicts


def apply_rubric(judge: RubricJudge, item: JudgedItem, rubric: Rubric) -> Verdict:
    """Return the verdict of a judge on one item; `failed` if the judge raises an exception.

    A part that the item lacks makes it `not_applicable`. A RagbenchError becomes `failed` as well,
    and so does a result that is no verdict, as that of an object of the user may be.
    """
    try:
        return judge_with_evidence(item, rubric, lambda *args: read_verdict(judge.judge(*args)))
    except Exception as error:  # noqa: BLE001 - a judge of the user's may raise anything
        return failed_verdict(error)


def failed_verdict(error: Exception) -> Verdict:
    """Return a verdict with status `failed` whose reasoning is `Type: text` of an error.

    The score is None and the cause `error`.
    """
    reason = f"{type(error).__name__}: {error}"
    return Verdict(None, reasoning=reason, status="failed", cause=Cause.ERROR.word)


_BLOCK = 8  # items that a worker process gets at once


def judge_on(
    executor: Executor,
    items: Iterable[JudgedItem],
    rubrics: Sequence[Rubric],
    judge: RubricJudge,
    type_name: str,
    options: Mapping[str, Any],
) -> Iterator[list[dict[str, Verdict]]]:
    """Judge items on the workers of an executor, in blocks of 8; yield the verdicts of each block.

    A block is a list of rubric -> verdict per item, in the order of the items.
    Workers create the judge anew from `type_name` and `options`, and must report the same model.
    Items whose worker process died get `failed` verdicts.

    Raises:
        AdapterError: A worker cannot create the judge or has another model, or the first three
            blocks end their workers.
        RuntimeError: The judge fails with another error.
    """
    task = Task(
        f"judge '{type_name}'",
        _make_judge,
        {"type_name": type_name, "options": options},
        partial(judge_all, rubrics=rubrics),
        _facts_of,
        _facts_of(judge),
    )
    for results in executor.map(task, blocks_of(items, _BLOCK)):
        verdicts = []
        for result in results:
            if isinstance(result, LostItem):
                # a text may crash a worker: its block fails, the run goes on
                failure = failed_verdict(ChildProcessError(result.why))
                result = dict.fromkeys(item_names(rubrics), failure)
            verdicts.append(result)
        yield verdicts


def _make_judge(type_name: str, options: Mapping[str, Any]) -> RubricJudge:
    return as_judge(JUDGES.load(type_name)(**options))


def _facts_of(judge: RubricJudge) -> Facts:
    return {"model": judge.model}


def deviation_of(scores: Sequence[float]) -> float:
    """Return the sample standard deviation (divisor n - 1) of at least two scores."""
    # not `stdev`, whose last digit depends on the version of Python
    mean = statistics.fmean(scores)
    return math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))


def without_probabilities(verdict: Verdict, rubric: Rubric) -> Verdict:
    """Return a verdict by its levels alone; one that is not weighted is returned unchanged."""
    if verdict.plain_level is None:
        return verdict
    scores = []
    for score in verdict.plain_samples:
        if score is not None:
            scores.append(score)
    return structs.replace(
        verdict,
        score=rubric.score_of(verdict.plain_level),
        level=verdict.plain_level,
        weighted=False,
        plain_level=None,
        samples=verdict.plain_samples,
        plain_samples=(),
        spread=deviation_of(scores) if len(scores) > 1 else None,
    )


def weightings_of(
    verdicts: Sequence[Mapping[str, Verdict]], rubrics: Sequence[Rubric]
) -> dict[str, set[bool]]:
    """Return rubric -> whether its scored verdicts are weighted: True, False, or both."""
    weightings = {}
    for rubric in rubrics:
        weightings[rubric.name] = set[bool]()
    for by_rubric in verdicts:
        for name, kinds in weightings.items():
            if by_rubric[name].status == "scored":
                # a judge of the user may weight verdicts without telling their levels
                kinds.add(by_rubric[name].plain_level is not None)
    return weightings


def mixed_rubrics(weightings: Iterable[Mapping[str, set[bool]]]) -> list[str]:
    """Return the rubrics of which some verdicts are weighted and some are not, over all mappings.

    `weightings` are results of `weightings_of`. Rubrics are in the order of the first mapping.
    """
    total: dict[str, set[bool]] = {}
    for of_verdicts in weightings:
        for name, kinds in of_verdicts.items():
            total.setdefault(name, set()).update(kinds)
    rubrics = []
    for name, kinds in total.items():
        if len(kinds) > 1:
            rubrics.append(name)
    return rubrics


def levels_note(scores: Sequence[str]) -> str:
    """Return the sentence on scores whose verdicts are counted by their levels alone."""
    return (
        f"{', '.join(scores)}: only some replies have token probabilities, so that the levels "
        "alone count for all answers"
    )


def count_alike(
    verdicts: Sequence[Mapping[str, Verdict]],
    rubrics: Sequence[Rubric],
    by_level: Collection[str] = (),
) -> Sequence[Mapping[str, Verdict]]:
    """Return the verdicts, by levels alone for the rubrics of which only some are weighted.

    Args:
        verdicts: Rubric -> verdict of each item.
        rubrics: Rubrics of the verdicts.
        by_level: Further rubrics whose verdicts are counted by levels alone.
    """
    mixed = {*by_level, *mixed_rubrics([weightings_of(verdicts, rubrics)])}
    if not mixed:
        return verdicts
    by_name = index_by_name(rubrics)

    def count(row: int) -> dict[str, Verdict]:
        """Return the verdicts of a row, in a mixed column without probabilities."""
        plain = dict(verdicts[row])
        for name in mixed & plain.keys():
            plain[name] = without_probabilities(plain[name], by_name[name])
        return plain

    return Mapped(count, range(len(verdicts)))


# Reasoning of a verdict on two equal answers.
SAME = "the two answers are the same: a tie, without asking the judge"


def judge_pairs(
    judge: RubricJudge,
    items: Sequence[JudgedItem],
    rubrics: Sequence[Rubric],
    *,
    type_name: str,
    advance: Advance | None = None,
) -> JudgeResults:
    """Compare `answer` with `other` of each item in both orders, by rubrics that judge pairs.

    A judge that calls models asks in both orders itself; any other judge gets each item a second
    time with the two answers exchanged. Verdicts that contradict each other are a tie. So are
    equal answers, without asking the judge. An item without one of the two answers gets no score.

    Args:
        judge: Judge of the pairs.
        items: Items with `answer` and `other`.
        rubrics: Rubrics with `asks: pair`.
        type_name: Name of the judge in rows and signatures.
        advance: Called with the number of items that were completed since the last call.

    Returns:
        Results whose `columns` have 1 for a win of `answer`, 0.5 for a tie and 0 for a loss, also
        for a rubric whose lower scores are better. Rows keep the mean of samples or models; a
        column has on which side of 0.5 it lies.

    Raises:
        RagbenchError: The user has to act, as for a missing key.
    """
    verdicts = compare_answers(judge, items, rubrics, advance or (lambda n: None))
    return collect_pairs(judge, items, rubrics, verdicts, type_name=type_name)


def compare_answers(
    judge: RubricJudge, items: Sequence[JudgedItem], rubrics: Sequence[Rubric], advance: Advance
) -> list[dict[str, Verdict]]:
    """Return rubric -> verdict of each item, as `judge_pairs` compares its two answers."""
    differing = []
    for row, item in enumerate(items):
        if not same_answers(item):
            differing.append(row)
    compared = take_items(items, differing)
    # equal answers count as completed without the judge
    advance(len(items) - len(compared))
    if judge.asks:
        outcomes = judge_all(judge, compared, rubrics, advance)
    else:
        swapped = []
        for item in compared:
            swapped.append(replace(item, answer=item.other, other=item.answer))
        first = judge_all(judge, compared, rubrics)
        second = judge_all(judge, swapped, rubrics, advance)
        outcomes = []
        for one, two in zip(first, second, strict=True):
            outcomes.append({r.name: _merge_orders(one[r.name], two[r.name], r) for r in rubrics})
    # equal answers, and items that lack one, get their verdicts without the judge
    ties = {}
    for rubric in rubrics:
        ties[rubric.name] = Verdict(0.5, level=(1 + rubric.levels) / 2, reasoning=SAME)
    verdicts = [_missing_or_ties(item, rubrics, ties) for item in items]
    for row, by_rubric in zip(differing, outcomes, strict=True):
        verdicts[row] = by_rubric
    return verdicts


def collect_pairs(
    judge: RubricJudge,
    items: Sequence[JudgedItem],
    rubrics: Sequence[Rubric],
    verdicts: Sequence[Mapping[str, Verdict]],
    *,
    type_name: str,
) -> JudgeResults:
    """Return the results of `judge_pairs` from the verdicts of `compare_answers`."""
    judged = collect_verdicts(judge, items, rubrics, verdicts, type_name=type_name)
    columns = {}
    for rubric in rubrics:
        columns[rubric.name] = _win_column(judged.columns[rubric.name], rubric.direction == "lower")
    return replace(judged, columns=columns)


def _missing_or_ties(
    item: JudgedItem, rubrics: Sequence[Rubric], ties: Mapping[str, Verdict]
) -> dict[str, Verdict]:
    """Return rubric -> verdict on two equal answers, or on an item that lacks one."""
    verdicts = {}
    for rubric in rubrics:
        missing = missing_verdict(item, rubric)
        verdicts[rubric.name] = ties[rubric.name] if missing is None else missing
    return verdicts


def same_answers(item: JudgedItem) -> bool:
    """Return True if both answers exist and differ in white space at most.

    Two empty answers are the same.
    """
    if item.answer is None or item.other is None:
        return False
    return item.answer.split() == item.other.split()


def _merge_orders(one: Verdict, two: Verdict, rubric: Rubric) -> Verdict:
    """Merge the verdicts of the two orders; if one has no score, return that verdict."""
    # The scores of `two` are those of the exchanged answers.
    if one.score is None or two.score is None:
        return one if one.score is None else two
    scores = one.score, 1 - two.score
    both = both_orders(rubric, scores, (one.reasoning, two.reasoning))
    return structs.replace(
        one, score=both.score, level=both.level, reasoning=both.reasoning, orders=scores
    )


def _win_column(column: ScoreColumn, lower_wins: bool) -> ScoreColumn:
    """Return the column with each score rounded to a win 1, a tie 0.5 or a loss 0; NaN stays."""
    values = 0.5 + 0.5 * np.sign(column.values - 0.5)
    return replace(column, values=1 - values if lower_wins else values, direction="higher")


# Version of the definition; change it only when scores change.
VERSION = 1


@dataclass(frozen=True, slots=True)
class JudgeResults:
    """Scores, rows and usage of the verdicts of one judge on many items.

    `collect_verdicts` and `judge_pairs` make it.

    Attributes:
        columns: Rubric -> score column, one value per item in the order of the items.
        rows: One row per rubric and item: the verdict with its query, judge and model.
        models: Names of the models as the servers report them; without replies, as the judge
            names them.
        usage: Tokens and cost (US dollars) of all replies behind the verdicts, stored replies
            included.
        left_out: Names of the request parameters that were dropped because a model refuses them.
        words: Id -> system and user template of the prompts behind the rows.
        deviations: Rubric -> standard deviation of the samples or models per item; rubrics and
            items with a single sample are absent, so that a position is no number of an item.
        failures: Rubric -> number of failed verdicts by cause; rubrics without failures are absent.
        verdict_counts: Rubric -> number of verdicts, failed ones included; those that do not apply
            are left out. Where repetitions of a judge failed, each repetition counts.
        weightings: Rubric -> whether the scored verdicts are weighted by probabilities, before
            they are counted alike: True, False, or both.
    """

    columns: Mapping[str, ScoreColumn]
    rows: Sequence[VerdictRow]
    models: tuple[str, ...]
    usage: Usage
    left_out: tuple[str, ...] = ()
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    deviations: Mapping[str, Sequence[float]] = field(default_factory=dict)
    failures: Mapping[str, Counter[str]] = field(default_factory=dict)
    verdict_counts: Mapping[str, int] = field(default_factory=dict)
    weightings: Mapping[str, set[bool]] = field(default_factory=dict)

    @property
    def spreads(self) -> dict[str, float]:
        """Rubric -> mean over the items of the standard deviation of their samples or models.

        On the scale of the scores, 0 to 1; empty if no item has several samples.
        """
        spreads = {}
        for rubric, values in self.deviations.items():
            spreads[rubric] = statistics.fmean(values)
        return spreads


def collect_verdicts(
    judge: RubricJudge,
    items: Sequence[JudgedItem],
    rubrics: Sequence[Rubric],
    verdicts: Sequence[Mapping[str, Verdict]],
    *,
    type_name: str,
    by_level: Collection[str] = (),
) -> JudgeResults:
    """Collect the verdicts on items into score columns, rows and usage.

    Of a rubric with and without token probabilities, the levels alone count, in columns and rows;
    so do those of the rubrics `by_level`.

    `verdicts` holds rubric -> verdict per item, in the order of `items`; a missing rubric raises
    KeyError. `type_name` names the judge in rows and signatures. Rows are in the order of the
    rubrics, then of the items.
    """
    weightings = weightings_of(verdicts, rubrics)
    verdicts = count_alike(verdicts, rubrics, by_level)
    tallies = {rubric.name: _RubricTally(len(items), judge.models) for rubric in rubrics}

    usage = add_usage(_tallied_usages(verdicts, tallies))
    models = _union(tally.models for tally in tallies.values()) or (judge.model,)
    # signatures count each query once, however many samples it has
    first_rows = []
    for row, item in enumerate(items):
        if not item.sample:
            first_rows.append(row)
    data = _data_fingerprints(Mapped(items.__getitem__, first_rows))
    columns = {}
    for rubric in rubrics:
        tally = tallies[rubric.name]
        columns[rubric.name] = _column_of(judge, rubric, tally, data, models, type_name)

    def row_at(position: int) -> VerdictRow:
        """Return the verdict at a position of the table: by rubric, then by item."""
        number, row = divmod(position, len(items))
        item, verdict = items[row], verdicts[row][rubrics[number].name]
        return VerdictRow.of(
            verdict,
            query_id=item.query_id,
            sample=item.sample if len(first_rows) < len(items) else None,
            rubric=rubrics[number].name,
            judge=type_name,
            model=verdict.model or judge.model,
        )

    templates, deviations, failures, counts = {}, {}, {}, {}
    for name, tally in tallies.items():
        for words in tally.templates:
            templates[form_id(*words)] = words
        if tally.deviations:
            deviations[name] = tally.deviations
        of_rubric = failures_of(columns[name])
        counts[name] = int((columns[name].verdict_causes == Cause.SCORED).sum() + of_rubric.total())
        if of_rubric:
            failures[name] = of_rubric
    return JudgeResults(
        columns,
        Mapped(row_at, range(len(items) * len(rubrics))),
        models,
        usage,
        _union(tally.left_out for tally in tallies.values()),
        templates,
        deviations,
        failures,
        counts,
        weightings,
    )


def _tallied_usages(
    verdicts: Sequence[Mapping[str, Verdict]], tallies: Mapping[str, _RubricTally]
) -> Iterator[Usage]:
    """Yield the usage of each verdict while the tallies count it."""
    for row, item_verdicts in enumerate(verdicts):
        for name, tally in tallies.items():
            tally.add(row, verdict := item_verdicts[name])
            yield verdict.usage


def _column_of(
    judge: RubricJudge,
    rubric: Rubric,
    tally: _RubricTally,
    data: Mapping[str, str | None],
    models: Sequence[str],
    type_name: str,
) -> ScoreColumn:
    """Return the score column of a rubric, with its signature; a value per item."""
    nuggets = data["nuggets"] if rubric.method == "nuggets" else None
    signature = Signature.of(
        rubric.name,
        judge=type_name,
        model=tally.model_part or "+".join(models),
        **_signature_parts(judge, rubric, tally),
        queries=data["queries"],
        gold=data["gold"] if "reference" in rubric.needs and not nuggets else None,
        nuggets=nuggets,
        v=VERSION,
    )
    return ScoreColumn(
        name=rubric.name,
        values=tally.values,
        causes=tally.causes,
        signature=signature,
        direction="lower" if rubric.direction == "lower" else "higher",
        details=tally.details,
        answer_causes=tally.all_causes,
    )


def failures_of(column: ScoreColumn) -> Counter[str]:
    """Return the number of failed verdicts of a column by cause."""
    failures = Counter[str]()
    for code, n in enumerate(np.bincount(column.verdict_causes.ravel()).tolist()):
        if n and Cause(code).failed:
            failures[Cause(code).word] = n
    return failures


def _data_fingerprints(items: Sequence[JudgedItem]) -> dict[str, str | None]:
    """Return short hashes of gold answers, queries and nuggets; None for nuggets without any."""
    gold, queries, nuggets = list[list[str]](), list[list[str]](), list[list[str]]()
    has_nuggets = False
    # one pass: the items of a large run are read from files
    for item in items:
        has_nuggets |= item.nuggets is not None
        turns = (fingerprint_json(turn.to_dict()) for turn in item.turns)
        gold.append(sorted(item.references))
        queries.append([item.query_id, item.question or "", *turns])
        nuggets.append([item.query_id, fingerprint_json(item.nuggets)])
    return {
        "gold": fingerprint_unordered(gold),
        "queries": fingerprint_unordered(queries),
        "nuggets": fingerprint_unordered(nuggets) if has_nuggets else None,
    }


class _RubricTally:
    """Running tally of the verdicts by one rubric on n items; `requested` names the models."""

    def __init__(self, n: int, requested: Sequence[str]) -> None:
        self._requested, self._joined = requested, "+".join(sorted(requested))
        # packed arrays: nine bytes a verdict, and no object per row
        self.values, self.causes = np.full(n, np.nan), np.zeros(n, np.uint8)
        self.details = dict[int, str]()
        self.models, self.left_out, self.weighted = set[str](), set[str](), set[bool]()
        self.templates, self.scored_by = set[tuple[str, str]](), set[str]()
        self.deviations, self.repeat_causes = array("d"), dict[int, tuple[str, ...]]()

    def add(self, row: int, verdict: Verdict) -> None:
        """Count the verdict on the item of a row."""
        if verdict.score is not None:
            self.values[row] = verdict.score
        self.causes[row] = Cause[verdict.cause.upper()]
        if verdict.repeat_causes:
            self.repeat_causes[row] = verdict.repeat_causes
        if verdict.status == "failed":
            self.details[row] = verdict.reasoning
        elif verdict.status == "scored":
            self.weighted.add(verdict.weighted)
            # a failed verdict, and a tie of equal answers, does not move the mean
            self.scored_by.update(filter(None, [verdict.model]))
        if verdict.model:
            # a verdict joins the names by `+`, which a name may hold too
            is_requested = verdict.model == self._joined
            self.models.update(self._requested if is_requested else verdict.model.split("+"))
        self.left_out.update(verdict.left_out)
        self.templates.update((prompt.system, prompt.user) for prompt in verdict.prompts)
        if verdict.spread is not None:
            self.deviations.append(verdict.spread)

    @property
    def all_causes(self) -> CauseArray | None:
        """Cause of each repetition, of shape (items, repetitions); None if none failed."""
        n = max(map(len, self.repeat_causes.values()), default=1)
        if n == 1:
            return None
        causes: CauseArray = np.repeat(self.causes[:, None], n, axis=1)
        for row, words in self.repeat_causes.items():
            causes[row, : len(words)] = [Cause[word.upper()] for word in words]
        return causes

    @property
    def model_part(self) -> str:
        """Models of the scored verdicts for the signature, else all; '' without any."""
        # It is a mixture if verdicts come from different models, as after an alias moved.
        names = "+".join(sorted(self.models))
        if len(self.scored_by) > 1:
            return mixture(_union(joined.split("+") for joined in self.scored_by))
        return next(iter(self.scored_by), names)


def _union(name_sets: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the distinct names of several sets, sorted."""
    return tuple(sorted(set(chain.from_iterable(name_sets))))


def _signature_parts(judge: RubricJudge, rubric: Rubric, tally: _RubricTally) -> dict[str, Any]:
    """Return name -> value of the signature parts that scores depend on besides model and data."""
    # A judge that asks a model adds `weighted` (levels are means weighted by log-probabilities) and
    # `in_words` (the model refused a response format).
    parts, refused = dict(judge.signature_parts(rubric)), tally.left_out
    if not judge.asks:
        return parts
    # a server that returns log-probabilities now and then mixes two definitions
    weighted: Any = tally.weighted == {True}
    if len(tally.weighted) > 1:
        weighted = mixture(["no", "yes"])
    parts["weighted"] = weighted if rubric.method == "rating" else None
    # an option that the model refuses counts as not asked for; `weighted` covers log-probabilities
    parts |= dict.fromkeys(refused & parts.keys())
    return {**parts, "in_words": True if "response_format" in refused else None}
