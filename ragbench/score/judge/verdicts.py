"""Verdicts of judges on many items, here or on workers, and the columns of scores that they make.

Rubrics are applied at once where a judge can, else one by one; what fails is a verdict too. Pairs
of answers are compared in both orders.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from ragbench.executors.base import Executor, Facts, Lost, Task, blocks_of
from ragbench.records.manifest import VerdictRow, form_id
from ragbench.score.base import Advance, ScoreColumn
from ragbench.score.judge import JUDGES
from ragbench.score.judge.base import (
    AskingJudge,
    Item,
    Judge,
    ManyJudge,
    Rubric,
    both_orders,
    missing_verdict,
)
from ragbench.score.judge.items import explained, with_evidence
from ragbench.signature import Signature, fingerprint, fingerprint_json
from ragbench.types.records import Usage, add_usage
from ragbench.types.rows import Mapped
from ragbench.types.scores import Cause, Verdict


def judge_all(
    judge: Judge, items: Iterable[Item], rubrics: Sequence[Rubric], advance: Advance | None = None
) -> list[dict[str, Verdict]]:
    """Return for each item, in order, a verdict per rubric.

    A `ManyJudge` takes all items at once, any other one by one.
    """
    if isinstance(judge, ManyJudge):
        return judge.judge_all(items, rubrics, advance)
    found = []
    for item in items:
        found.append({rubric.name: apply_rubric(judge, item, rubric) for rubric in rubrics})
        if advance is not None:
            advance(1)
    return found


async def ajudge_all(
    judge: Judge, items: Iterable[Item], rubrics: Sequence[Rubric]
) -> list[dict[str, Verdict]]:
    """Return the same without blocking the running loop.

    Cancelling gives up the calls under way; a judge that makes none is stopped between two items.
    """
    if isinstance(judge, ManyJudge):
        return await judge.ajudge_all(items, rubrics)
    return [(await asyncio.to_thread(judge_all, judge, [item], rubrics))[0] for item in items]


def apply_rubric(judge: Judge, item: Item, rubric: Rubric) -> Verdict:
    """Judge one item by one rubric; whatever goes wrong becomes a verdict that says so."""
    shown = with_evidence(item, rubric)
    if (lacking := missing_verdict(shown, rubric)) is not None:
        return lacking
    try:
        return explained(judge.judge(shown, rubric), item, shown)
    except Exception as error:  # noqa: BLE001 - a judge of the user's may raise anything
        return failed_verdict(error)


def failed_verdict(error: Exception) -> Verdict:
    """Return the verdict of a judge that raised."""
    reason = f"{type(error).__name__}: {error}"
    return Verdict(None, reasoning=reason, status="failed", cause=Cause.ERROR.word)


VERSION = 1
"""Version of the definition; moves only when numbers move."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge said of many items."""

    columns: Mapping[str, ScoreColumn]
    """Rubric -> one score per item, in the order of the items."""
    rows: Sequence[VerdictRow]
    """One per item and rubric: the verdict with its query, judge and model."""
    models: tuple[str, ...]
    """The models as their servers name them; else what the judge says that it asks."""
    usage: Usage
    """What the replies took that the verdicts rest on, stored ones included."""
    left_out: tuple[str, ...] = ()
    """What the requests lacked, since the models refuse it."""
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Id -> the words of prompts, for system and user, that were sent for the rows."""
    apart: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Rubric -> how far the samples or models of an item lie apart, of those with several."""
    failed: Mapping[str, Counter[str]] = field(default_factory=dict)
    """Rubric -> how many verdicts failed, by cause; rubrics without a failure are absent."""
    asked: Mapping[str, int] = field(default_factory=dict)
    """Rubric -> how many verdicts there are, without those that stopping early left out."""

    @property
    def spreads(self) -> dict[str, float]:
        """Rubric -> how far the samples or models of one item lie apart, on average."""
        return {rubric: statistics.fmean(spreads) for rubric, spreads in self.apart.items()}


def collect_verdicts(
    judge: Judge,
    items: Sequence[Item],
    rubrics: Sequence[Rubric],
    found: Sequence[Mapping[str, Verdict]],
    *,
    type_name: str,
    names: Sequence[tuple[str, int]] | None = None,
) -> Judged:
    """Turn the verdicts on items into columns of scores.

    Verdicts are looked at one by one, again for the rows. `names`: query and sample of each item.
    """
    named = names or Mapped(lambda item: (item.query_id, item.sample), items)
    gathered = {rubric.name: _Gathered(len(items)) for rubric in rubrics}

    def usages() -> Iterator[Usage]:
        for row, verdicts in enumerate(found):
            for name, own in gathered.items():
                own.add(row, verdict := verdicts[name])
                yield verdict.usage

    usage = add_usage(usages())
    models = _all(own.models for own in gathered.values()) or (judge.model,)
    firsts = [row for row, (_, sample) in enumerate(named) if not sample]
    data = _data_of(Mapped(items.__getitem__, firsts))
    columns = {}
    for rubric in rubrics:
        own, given = gathered[rubric.name], data["nuggets"] if rubric.method == "nuggets" else None
        signature = Signature.of(
            rubric.name,
            judge=type_name,
            model="+".join(_all([own.models]) or models),
            **_parts(judge, rubric, own),
            queries=data["queries"],
            gold=data["gold"] if "reference" in rubric.needs and not given else None,
            nuggets=given,
            v=VERSION,
        )
        columns[rubric.name] = own.column(rubric, signature)

    def row_of(place: int) -> VerdictRow:
        number, row = divmod(place, len(items))
        (query, sample), verdict = named[row], found[row][rubrics[number].name]
        return VerdictRow.of(
            verdict,
            query_id=query,
            sample=sample if len(firsts) < len(items) else None,
            rubric=rubrics[number].name,
            judge=type_name,
            model=verdict.model or judge.model,
        )

    return Judged(
        columns,
        Mapped(row_of, range(len(items) * len(rubrics))),
        models,
        usage,
        _all(own.left_out for own in gathered.values()),
        {form_id(*words): words for own in gathered.values() for words in own.sent},
        {name: own.apart for name, own in gathered.items() if own.apart},
        {name: own.failed for name, own in gathered.items() if own.failed},
        {name: own.asked for name, own in gathered.items()},
    )


def _data_of(items: Sequence[Item]) -> dict[str, str | None]:
    """Short hashes of what the data say: gold, queries, and nuggets where any came with them."""
    has_nuggets = False

    def gold() -> Iterator[str]:
        nonlocal has_nuggets
        for item in items:
            has_nuggets |= item.nuggets is not None
            yield from (str(len(item.references)), *item.references)

    asked = (
        piece
        for item in items
        for piece in (
            item.query_id,
            item.question or "",
            *(fingerprint_json(turn.to_dict()) for turn in item.turns),
        )
    )
    return {
        "gold": fingerprint(gold()),
        "queries": fingerprint(asked),
        "nuggets": fingerprint_json([[item.query_id, item.nuggets] for item in items])
        if has_nuggets
        else None,
    }


class _Gathered:
    """What the verdicts by one rubric come to."""

    def __init__(self, n: int) -> None:
        self.values, self.causes = array("d", [math.nan]) * n, bytearray(n)
        self.details = dict[int, str]()
        self.models, self.left_out, self.weighted = set[str](), set[str](), set[bool]()
        self.sent = set[tuple[str, str]]()
        self.apart, self.failed, self.asked = array("d"), Counter[str](), 0

    def add(self, row: int, verdict: Verdict) -> None:
        if verdict.score is not None:
            self.values[row] = verdict.score
        self.causes[row] = Cause[verdict.cause.upper()]
        self.asked += verdict.cause != Cause.STOPPED_EARLY.word
        if verdict.status == "failed":
            self.details[row] = verdict.reasoning
            self.failed[verdict.cause] += 1
        elif verdict.status == "scored":
            self.weighted.add(verdict.weighted)
        if verdict.model:
            self.models.update(verdict.model.split("+"))
        self.left_out.update(verdict.left_out)
        self.sent.update((prompt.system, prompt.user) for prompt in verdict.prompts)
        if verdict.spread is not None:
            self.apart.append(verdict.spread)

    def column(self, rubric: Rubric, signature: Signature) -> ScoreColumn:
        import numpy as np

        return ScoreColumn(
            name=rubric.name,
            values=np.array(self.values, dtype=float),
            causes=np.array(self.causes, dtype=np.uint8),
            signature=signature,
            direction="lower" if rubric.direction == "lower" else "higher",
            details=self.details,
        )


def _all(parts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The names in all parts, each once, in order."""
    return tuple(sorted(set(chain.from_iterable(parts))))


def _parts(judge: Judge, rubric: Rubric, own: _Gathered) -> dict[str, Any]:
    """What the scores depend on besides model and data."""
    if not isinstance(judge, AskingJudge):
        return {"rubric": rubric.fingerprint, **judge.options}
    weighted: Any = None
    if rubric.method == "rating":
        # a server that returns log-probabilities now and then mixes two definitions
        weighted = "some" if len(own.weighted) > 1 else own.weighted == {True}
    parts = {**judge.signature_parts(rubric), "weighted": weighted}
    lacking = own.left_out
    # as though it had not been asked for; whether there were log-probabilities is said already
    parts |= {name: None for name in lacking if name in parts}
    return {**parts, "in_words": True if "response_format" in lacking else None}


SAME = "the two answers are the same: a tie, without asking the judge"
"""What a verdict says where there is nothing to compare."""


def judge_pairs(
    judge: Judge,
    items: Sequence[Item],
    rubrics: Sequence[Rubric],
    *,
    type_name: str,
    advance: Advance | None = None,
) -> Judged:
    """Compare `answer` with `other` in both orders, by rubrics that ask of a pair.

    A judge that asks models asks them in both orders itself; any other one is given each item a
    second time with the answers in each other's place. A judge that says otherwise then has not
    told them apart: a tie. So are equal answers, which no judge is asked about. Without an answer,
    or another one, a rubric does not apply.

    Returns:
        Columns of 1 for a win of `answer`, 0.5 for a tie and 0 for a loss. Where several samples
        or models voted, the majority decides.
    """
    differing = [row for row, item in enumerate(items) if not same_answers(item)]
    asked = [items[row] for row in differing]
    if advance is not None:
        advance(len(items) - len(asked))
    if isinstance(judge, AskingJudge):
        answered = judge_all(judge, asked, rubrics, advance)
    else:
        swapped = [replace(item, answer=item.other, other=item.answer) for item in asked]
        first = judge_all(judge, asked, rubrics)
        second = judge_all(judge, swapped, rubrics, advance)
        answered = [
            {rubric.name: _agreed(one[rubric.name], two[rubric.name], rubric) for rubric in rubrics}
            for one, two in zip(first, second, strict=True)
        ]
    ties = {
        each.name: Verdict(0.5, level=(1 + each.levels) / 2, reasoning=SAME) for each in rubrics
    }
    found = [
        {each.name: missing_verdict(item, each) or ties[each.name] for each in rubrics}
        for item in items
    ]
    for row, verdicts in zip(differing, answered, strict=True):
        found[row] = verdicts
    judged = collect_verdicts(judge, items, rubrics, found, type_name=type_name)
    columns = {
        rubric.name: _decided(judged.columns[rubric.name], rubric.direction == "lower")
        for rubric in rubrics
    }
    return replace(judged, columns=columns)


def same_answers(item: Item) -> bool:
    """Whether two answers look the same to a reader, so that no request is needed."""
    if item.answer is None or item.other is None:
        return False
    return item.answer.split() == item.other.split()


def _agreed(one: Verdict, two: Verdict, rubric: Rubric) -> Verdict:
    """One verdict of two orders; without a score in both, the one that lacks it."""
    if one.score is None or two.score is None:
        return one if one.score is None else two
    scores = one.score, 1 - two.score
    of = both_orders(rubric, scores, (one.reasoning, two.reasoning))
    return replace(one, score=of.score, level=of.level, reasoning=of.reasoning, orders=scores)


def _decided(column: ScoreColumn, lower_wins: bool) -> ScoreColumn:
    """The column with every value a win, a tie or a loss, as the direction has it."""
    import numpy as np

    values = 0.5 + 0.5 * np.sign(column.values - 0.5)
    return replace(column, values=1 - values if lower_wins else values, direction="higher")


_BLOCK = 8  # items that a worker gets at once


def judge_on(
    executor: Executor,
    items: Iterable[Item],
    rubrics: Sequence[Rubric],
    judge: Judge,
    type_name: str,
    options: Mapping[str, Any],
) -> Iterator[list[dict[str, Verdict]]]:
    """Yield in parts what `judge_all` returns; the items of a lost block have failed."""
    task = Task(
        f"judge '{type_name}'",
        _make_judge,
        {"type_name": type_name, "options": options},
        partial(_judge_block, rubrics),
        _facts_of,
        _facts_of(judge),
    )
    for results in executor.map(task, blocks_of(items, _BLOCK)):
        yield [
            {rubric.name: failed_verdict(ChildProcessError(result.why)) for rubric in rubrics}
            if isinstance(result, Lost)
            else result
            for result in results
        ]


def _make_judge(type_name: str, options: Mapping[str, Any]) -> Judge:
    judge: Judge = JUDGES.load(type_name)(**options)
    return judge


def _judge_block(
    rubrics: Sequence[Rubric], judge: Judge, items: list[Item]
) -> list[dict[str, Verdict]]:
    return judge_all(judge, items, rubrics)


def _facts_of(judge: Judge) -> Facts:
    return {"model": judge.model}
