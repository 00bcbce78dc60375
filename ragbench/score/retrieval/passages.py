"""What measures of texts look at: the passages that were retrieved, and the gold answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.errors import DataError


@dataclass(frozen=True)
class RetrievedPassages:
    """What n queries retrieved, as texts, and the answers that they should have found."""

    passages: Sequence[Sequence[str]]
    """Query -> the texts of its passages, best first."""
    answers: Sequence[Sequence[str]]
    """Query -> its gold answers; none where it has no reference."""

    def __post_init__(self) -> None:
        if len(self.passages) != len(self.answers):
            raise DataError(
                f"passages of {len(self.passages)} queries, answers of {len(self.answers)}",
                allowed="one list of answers for each list of passages",
            )
