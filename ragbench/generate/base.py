"""What a generator is: anything that answers a question from passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ragbench.types import Document, Prediction, Query


class Generator(Protocol):
    """Answers questions from retrieved passages."""

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction | str:
        """Return the answer to a question, given the passages, best first."""
        ...


class QueryGenerator(Protocol):
    """A generator that must know which query it answers, not only its text."""

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Prediction:
        """Return the answer to a query, given the passages, best first.

        Raises:
            MissingPrediction: There is no answer to this query.
        """
        ...


class MissingPrediction(LookupError):
    """A generator that reads stored answers has none for this query: not a failure."""
