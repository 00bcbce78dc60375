"""Records of `ragbench fix --json`: changes, questions rescued and lost, remaining losses."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from ragbench.records.causes import Quantity, quantity
from ragbench.types.json_fields import Prose, Record, optional

FIX_SCHEMA = "ragbench.fix/2"

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


# Field -> what questions of a group have in common; other fields are keys of metadata.
_PHRASES = {
    "word": "have the word '{}'",
    "length": "have {}",
    "rare words": "have {}",
    "language": "are in {}",
    "document": "need the document '{}'",
    "file": "need a part of '{}'",
    "gold": "have {}",
    "number": "have {}",
}


class LostGroup(Record):
    """Group with more lost questions than chance would give.

    `phrase` puts it into words: `have kind 'dates'`.

    Attributes:
        field: Property that the questions share: `metadata.kind`, `word`, `length`, `rare words`,
            `number`, `language`, `document`, `file` (the id of a document before its last #), or
            `gold` (documents).
        value: The shared value.
        lost: Number of lost questions in the group.
        questions: Number of all questions in the group.
        expected: Number of lost questions that chance would give.
        p_adjusted: P-value of Fisher's exact test, adjusted for all groups.
        queries: Ids of the lost questions, in the order of the data set.
    """

    field: str
    value: str
    lost: int
    questions: int
    expected: float
    p_adjusted: float
    queries: tuple[str, ...]

    @property
    def phrase(self) -> str:
        """Verb and value that the questions have in common: `have kind 'dates'`."""
        # Metadata keys keep their prefix until here: a key `word` or `length` must not get the
        # phrase of the built-in field.
        other = f"have {self.field.removeprefix('metadata.')} '{{}}'"
        # not by format: a key of metadata may hold braces
        return _PHRASES.get(self.field, other).replace("{}", self.value)


class LostGroups(Record):
    """Groups of lost questions of one system.

    `sentences` has one for each group, or one that says that there is none.

    Attributes:
        lost: Number of lost questions of the system.
        questions: Number of its questions with a known cause.
        tried: Number of groups that were tested; groups of the same questions count once.
        groups: Groups with more lost questions than chance would give, the smallest p-value first.
    """

    lost: int
    questions: int
    tried: int
    groups: tuple[LostGroup, ...]

    @property
    def sentences(self) -> list[str]:
        """A sentence for each group, or one that says that there is none; without full stops."""
        if not self.groups:
            return ["no group has more lost questions than chance would give"]
        sentences = []
        for group in self.groups:
            expected = f"{group.expected:.2g} expected"
            sentences.append(
                f"{group.lost} of {self.lost} lost questions {group.phrase} ({expected})"
            )
        return sentences


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

    `net` is the number of questions rescued minus lost; `is_better` is True if the gain is shown.

    Attributes:
        kind: `retriever`, `reranker`, `rrf`, `weighted`, `near_duplicates`, `neighbours`,
            `passages`, `refusal` or `perfect_reranker`.
        text: The change in words: `fuse with minilm (rrf)`.
        retriever: Retriever after the change; None for a fusion, a bound and a change in your code.
        fusion: Fusion after the change; None without one.
        passages: Passages that a generator reads after the change.
        reach: Hits that it looks at; 0 where that does not differ.
        found: Questions whose gold is read after the change; of a refusal also questions without
            an answer that it declines.
        of: Questions that count after the change.
        rescued: Ids of the questions that become found; of a repeated question, an id for each
            repetition.
        lost: Ids of the questions that are no longer found, likewise.
        gain: Expected gain in number of questions, confirmed on questions that did not choose the
            weights.
        interval: Confidence limits of `gain`, in number of questions.
        differs: Verdict of the run on both retrievers, corrected for all of its comparisons: True
            if their difference is shown. None if the run has not compared them.
        is_bound: True if no change is known that gives it: the most that such a change can give.
        further: Further passages a question that are read, on average; negative for fewer.
        tokens: Further input tokens a question, about; None if no text tells.
        latency_ms: Further milliseconds a question (median); None if they are not known.
        repeats: Repetitions of each question; each counts as its share of the question.
        text_ratio: Text that is read after the change, divided by that of now; None if it is not
            known, or about as much.
    """

    kind: ChangeKind
    text: Prose
    retriever: str | None = optional()
    fusion: FusedRetriever | None = optional()
    passages: int
    found: Quantity
    of: Quantity
    rescued: tuple[str, ...]
    lost: tuple[str, ...]
    gain: float
    interval: tuple[float, float]
    differs: bool | None = optional()
    is_bound: bool = optional(False)
    further: float = optional(0.0)
    tokens: float | None = optional()
    latency_ms: float | None = optional()

    reach: int = optional(0)
    repeats: int = optional(1)
    text_ratio: float | None = optional()

    @property
    def net(self) -> Quantity:
        """Questions rescued minus questions lost."""
        return quantity(Fraction(len(self.rescued) - len(self.lost), self.repeats))

    @property
    def is_better(self) -> bool:
        """True if the interval of the gain is above 0, and the run does not say otherwise."""
        return self.interval[0] > 0 and self.differs is not False

    @property
    def needs_correction(self) -> bool:
        """True if the interval is above 0, and only the correction of the run stands between."""
        return self.interval[0] > 0 and self.differs is False


class Promise(Record):
    """The change with the most gain that a config can state, with its gain after the choice.

    Attributes:
        change: The change.
        gain: Gain of the choice in number of questions, confirmed on questions that did not make
            it.
        interval: Confidence limits of this gain.
        untouched: Limits of the gain on as many other questions.
        ties: Further changes that find as many questions.
    """

    change: PricedChange
    gain: float
    interval: tuple[float, float]
    untouched: tuple[float, float]
    ties: tuple[str, ...] = ()

    @property
    def is_better(self) -> bool:
        """True if the interval of the gain is above 0, and the run does not say otherwise."""
        return self.interval[0] > 0 and self.change.differs is not False

    @property
    def is_gain(self) -> bool:
        """True if the gain is above 0 as it is printed, with one digit."""
        return round(self.gain, 1) > 0


class RemainingLoss(Record):
    """Questions that no change of the retriever rescues.

    Attributes:
        system: System that loses them.
        reason: Property that they share, in words.
        advice: Part that can rescue them: the corpus, the retriever, the prompt.
        queries: Their ids; of a repeated question, an id for each repetition.
        repeats: Repetitions of each question.
    """

    system: str
    reason: str
    advice: str
    queries: tuple[str, ...]
    repeats: int = optional(1)


class FixList(Record):
    """Changes of a run by counts over its stored results, and the losses that remain.

    Attributes:
        schema: Kind and version of the file.
        name: Name of the experiment.
        run_id: Name of the run folder.
        system: Retriever that the changes start from.
        read: Passages that a generator reads now.
        of: Questions that count: it is known whether their gold is read.
        found: Questions of these whose gold is read now.
        confidence: Level of the intervals.
        changes: Changes, the largest number of questions rescued minus lost first.
        best: The change that `--write` writes; None if no config can state a change, as with one
            ranking alone, and without questions.
        remaining: Losses that no change of the retriever rescues.
        groups: Properties that lost questions of the selected system have in common.
        labels: Query id -> its name for a reader, where it has another than its id.
        notes: Limits of the counts, a sentence each.
    """

    schema: str = FIX_SCHEMA
    name: str
    run_id: str
    system: str
    read: int
    of: Quantity
    found: Quantity
    confidence: float
    changes: tuple[PricedChange, ...]
    best: Promise | None = None
    remaining: tuple[RemainingLoss, ...] = ()
    groups: LostGroups | None = None
    labels: Mapping[str, str] = {}
    notes: tuple[Prose, ...] = ()
