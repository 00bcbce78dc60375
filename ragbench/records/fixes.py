"""Records of `ragbench fix --json`: changes, questions rescued and lost, remaining losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from ragbench.records.codec import Record
from ragbench.records.contract import AnswerGain, GeneratorContract
from ragbench.records.lost_groups import LostGroups
from ragbench.types.json_fields import Prose, optional

FIX_SCHEMA = "ragbench.fix/1"

# Kinds of changes, in the order of their effort
ChangeKind = Literal[
    "retriever",
    "reranker",
    "rrf",
    "weighted",
    "near_duplicates",
    "neighbours",
    "passages",
    "refusal",
    "perfect_reranker",
]


class FusedRetriever(Record):
    """Fusion of retrievers as `type: fusion` takes it.

    Attributes:
        retrievers: Names of the retrievers.
        method: `rrf` or `weighted`.
        weights: Weight of each retriever; empty for rrf.
    """

    retrievers: tuple[str, ...]
    method: Literal["rrf", "weighted"]
    weights: tuple[float, ...] = ()


class PricedChange(Record):
    """Change of a system with the questions that it rescues and loses.

    Attributes:
        kind: Kind of the change.
        text: The change in words: `fuse with minilm (rrf)`.
        retriever: Retriever after the change; None for a fusion, a bound and a change in your code.
        fusion: Fusion after the change; None without one.
        passages: Passages that a generator reads after the change.
        reach: Hits that it looks at; 0 where that does not differ.
        right: Questions that are right after the change.
        of: Questions that count.
        rescued: Ids of the questions that become right.
        lost: Ids of the questions that are no longer right.
        gain: Gain in questions, confirmed on questions that did not choose the weights.
        interval: Interval of the mean gain.
        is_bound: True if no change is known that gives it: the most that such a change can give.
        tokens: Further input tokens a question, about; None if no text tells.
        latency_ms: Further milliseconds a question (median); None if they are not known.
        answers: Gain in right answers of each generator with controls; empty for a bound, and if
            the number of passages changes.
    """

    kind: ChangeKind
    text: Prose
    retriever: str | None = optional()
    fusion: FusedRetriever | None = optional()
    passages: int
    right: int
    of: int
    rescued: tuple[str, ...]
    lost: tuple[str, ...]
    gain: float
    interval: tuple[float, float]
    is_bound: bool = optional(False)
    tokens: float | None = optional()
    latency_ms: float | None = optional()

    reach: int = optional(0)
    answers: tuple[AnswerGain, ...] = optional(())

    @property
    def net(self) -> int:
        """Questions rescued minus questions lost."""
        return len(self.rescued) - len(self.lost)

    @property
    def is_better(self) -> bool:
        """True if the interval of the gain is above 0."""
        return self.interval[0] > 0


class Promise(Record):
    """The change with the most gain that a config can state, with its gain after the choice.

    Attributes:
        change: The change.
        gain: Gain in questions of the choice, confirmed on questions that did not make it.
        interval: Interval of this gain.
        untouched: Interval of the gain on as many other questions.
        ties: Further changes with as many right questions.
    """

    change: PricedChange
    gain: float
    interval: tuple[float, float]
    untouched: tuple[float, float]
    ties: tuple[str, ...] = ()

    @property
    def is_better(self) -> bool:
        """True if the interval of the gain is above 0."""
        return self.interval[0] > 0


class RemainingLoss(Record):
    """Questions that no change of the retriever rescues.

    Attributes:
        system: System that loses them.
        reason: Property that they share, in words.
        advice: Part that can rescue them: the corpus, the retriever, the prompt.
        queries: Their ids.
    """

    system: str
    reason: str
    advice: str
    queries: tuple[str, ...]


class FixList(Record):
    """Changes of a run by counts over its stored results, and the losses that remain.

    Attributes:
        schema: Kind and version of the file.
        name: Name of the experiment.
        run_id: Name of the run folder.
        system: Retriever that the changes start from.
        read: Passages that a generator reads now.
        of: Questions that count: judged ones that have an answer.
        right: Questions of these whose gold is read now.
        confidence: Level of the intervals.
        changes: Changes, the largest number of questions rescued minus lost first.
        best: The change that `--write` writes; None if the run has one ranking alone.
        remaining: Losses that no change of the retriever rescues.
        groups: What the lost questions of the selected system have in common.
        contracts: Contract of each generator with controls.
        labels: Query id -> its name for a reader, where it has another than its id.
        notes: Limits of the counts, a sentence each.
    """

    schema: str = FIX_SCHEMA
    name: str
    run_id: str
    system: str
    read: int
    of: int
    right: int
    confidence: float
    changes: tuple[PricedChange, ...]
    best: Promise | None = None
    remaining: tuple[RemainingLoss, ...] = ()
    groups: LostGroups | None = None
    contracts: tuple[GeneratorContract, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Prose, ...] = ()
