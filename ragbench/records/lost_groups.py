"""Records of groups of questions that a system loses more often than chance would give."""

from __future__ import annotations

from ragbench.records.codec import Record

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

    Attributes:
        field: What the questions share: `metadata.kind`, `word`, `length`, `rare words`,
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
        """A sentence for each group, or one that says that there is none."""
        if not self.groups:
            return ["no group has more lost questions than chance would give"]
        return [
            f"{group.lost} of {self.lost} lost questions {group.phrase} ({group.expected:.2g} "
            f"expected)"
            for group in self.groups
        ]
