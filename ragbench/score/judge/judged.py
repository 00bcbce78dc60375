"""Score columns and rows of the verdicts of one judge over many items."""

from __future__ import annotations

import math
import statistics
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ragbench.records.manifest import VerdictRow, form_id
from ragbench.score.judge.base import Item, Judge, Rubric
from ragbench.signature import Signature, fingerprint, fingerprint_json
from ragbench.types import ScoreColumn
from ragbench.types.records import Usage, add_usage
from ragbench.types.rows import Mapped
from ragbench.types.scores import Cause, Verdict

# Version of the definition; moves only when numbers move.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge said of many items.

    Attributes:
        columns: Rubric -> one score per item, in the order of the items.
        rows: One per item and rubric: the verdict with its query, judge and model.
        models: The models as their servers name them; else what the judge says that it asks.
        usage: What the replies took that the verdicts rest on, stored ones included.
        left_out: What the requests lacked, since the models refuse it.
        words: Id -> the words of prompts, for system and user, that were sent for the rows.
        apart: Rubric -> how far the samples or models of an item lie apart, of those with several.
        failed: Rubric -> how many verdicts failed, by cause; rubrics without a failure are absent.
        asked: Rubric -> how many verdicts there are.
    """

    columns: Mapping[str, ScoreColumn]
    rows: Sequence[VerdictRow]
    models: tuple[str, ...]
    usage: Usage
    left_out: tuple[str, ...] = ()
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    apart: Mapping[str, Sequence[float]] = field(default_factory=dict)
    failed: Mapping[str, Counter[str]] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)

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
) -> Judged:
    """Turn the verdicts on items into columns of scores.

    Verdicts are looked at one by one, again for the rows.
    """
    gathered = {rubric.name: _Gathered(len(items)) for rubric in rubrics}

    def usages() -> Iterator[Usage]:
        for row, verdicts in enumerate(found):
            for name, of_rubric in gathered.items():
                of_rubric.add(row, verdict := verdicts[name])
                yield verdict.usage

    usage = add_usage(usages())
    models = _all(of_rubric.models for of_rubric in gathered.values()) or (judge.model,)
    firsts = [row for row, item in enumerate(items) if not item.sample]
    data = _data_of(Mapped(items.__getitem__, firsts))
    columns = {}
    for rubric in rubrics:
        of_rubric = gathered[rubric.name]
        nuggets = data["nuggets"] if rubric.method == "nuggets" else None
        signature = Signature.of(
            rubric.name,
            judge=type_name,
            model="+".join(sorted(of_rubric.models) or models),
            **_parts(judge, rubric, of_rubric),
            queries=data["queries"],
            gold=data["gold"] if "reference" in rubric.needs and not nuggets else None,
            nuggets=nuggets,
            v=VERSION,
        )
        columns[rubric.name] = of_rubric.column(rubric, signature)

    def row_of(place: int) -> VerdictRow:
        number, row = divmod(place, len(items))
        item, verdict = items[row], found[row][rubrics[number].name]
        return VerdictRow.of(
            verdict,
            query_id=item.query_id,
            sample=item.sample if len(firsts) < len(items) else None,
            rubric=rubrics[number].name,
            judge=type_name,
            model=verdict.model or judge.model,
        )

    return Judged(
        columns,
        Mapped(row_of, range(len(items) * len(rubrics))),
        models,
        usage,
        _all(of_rubric.left_out for of_rubric in gathered.values()),
        {form_id(*words): words for of_rubric in gathered.values() for words in of_rubric.sent},
        {name: of_rubric.apart for name, of_rubric in gathered.items() if of_rubric.apart},
        {name: of_rubric.failed for name, of_rubric in gathered.items() if of_rubric.failed},
        {name: of_rubric.asked for name, of_rubric in gathered.items()},
    )


def _data_of(items: Sequence[Item]) -> dict[str, str | None]:
    """Short hashes of what the data say: gold, queries, and nuggets where any came with them."""
    has_nuggets = False

    def gold() -> Iterator[str]:
        nonlocal has_nuggets
        for item in items:
            has_nuggets |= item.nuggets is not None
            yield from (str(len(item.references)), *item.references)

    def queries() -> Iterator[str]:
        for item in items:
            yield from (item.query_id, item.question or "")
            yield from (fingerprint_json(turn.to_dict()) for turn in item.turns)

    hashes: dict[str, str | None] = {"gold": fingerprint(gold()), "queries": fingerprint(queries())}
    nuggets = [[item.query_id, item.nuggets] for item in items] if has_nuggets else None
    return hashes | {"nuggets": None if nuggets is None else fingerprint_json(nuggets)}


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
        self.asked += 1
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


def _parts(judge: Judge, rubric: Rubric, gathered: _Gathered) -> dict[str, Any]:
    """The parts of a signature that scores depend on besides model and data."""
    parts, refused = dict(judge.signature_parts(rubric)), gathered.left_out
    if not judge.asks:
        return parts
    # a server that returns log-probabilities now and then mixes two definitions
    weighted: Any = "some" if len(gathered.weighted) > 1 else gathered.weighted == {True}
    parts["weighted"] = weighted if rubric.method == "rating" else None
    # an option that the model refuses counts as not asked for; `weighted` covers log-probabilities
    parts |= {name: None for name in refused if name in parts}
    return {**parts, "in_words": True if "response_format" in refused else None}
