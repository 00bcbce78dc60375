"""What an app is: anything that retrieves and answers in one call."""

from __future__ import annotations

from typing import Protocol

from ragbench.types import Prediction


class App(Protocol):
    """Answers questions by itself; never crossed with retrievers, scored on both sides.

    `is_opaque = True`, which all of them have, gives a call a time limit, and makes a new run ask
    again unless the entry has a `version`.
    """

    def answer(self, question: str) -> Prediction:
        """Return the answer to a question.

        Its `contexts` are the passages that the app retrieved, best first: their order is the
        ranking that is scored, and their texts are what the answer is judged by; None where the
        app does not say, which leaves the retrieval side without a score. Its `queries` are those
        that the app formulated.
        """
        ...
