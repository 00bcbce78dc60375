"""What a generator is, and what an app is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ragbench.llm import Budget, Replies, Totals
from ragbench.types import Document, Prediction, Query


class Generator(Protocol):
    """Answers questions from retrieved passages.

    A generator may also have `is_opaque = True`: its code cannot be seen from here, so that a call
    gets a time limit, and a new run asks it again unless its entry has a `version`.
    """

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


@runtime_checkable
class SamplingGenerator(Protocol):
    """A generator that must know which of several answers to a query it gives (`samples: n`).

    One without `generate_sample` is called again with the same arguments. Any generator may have
    `check_samples(samples)`, which raises an `OptionError` where it has not as many to give.
    """

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Return one of the answers to a query; `sample` counts them from 0."""
        ...


@runtime_checkable
class AskingGenerator(Protocol):
    """A generator that asks models for replies, which can be kept; the names of `AskingJudge`.

    Who runs it calls `keep_replies` and `check` before the first question and `close` after the
    last one. `generate` may be called from many threads at once. `missing_key`, where it has one,
    is the environment variable that must hold a key and does not.
    """

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction:
        """Return the answer to a question, given the passages, best first."""
        ...

    def keep_replies(self, replies: Replies | None) -> None:
        """Set where replies are kept and looked up; before the first question."""
        ...

    def spend_from(self, budget: Budget | None) -> None:
        """Set what all calls may cost together; before the first question."""
        ...

    def check(self) -> None:
        """Connect, so that a missing key or package is said before anything is asked."""
        ...

    def signature_parts(self) -> Mapping[str, Any]:
        """Return what answers depend on besides question and passages: model, prompt hash, ..."""
        ...

    def totals(self) -> Totals:
        """Return a copy of what has been sent and paid so far."""
        ...

    def close(self) -> None:
        """Give back the connections."""
        ...


class MissingPrediction(LookupError):
    """A generator that reads stored answers has none for this query: not a failure."""


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
