"""What a generator is, and what an app is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from ragbench.llm import Budget, Replies
from ragbench.types import Document, Prediction, Query


class Generator:
    """Answers questions from retrieved passages: all that a run asks of a generator.

    Built-in generators inherit it. One of the user's own need not: it is any object with `generate`
    or `generate_for` and what it has of the rest, and `ragbench.generate.python.declared` wraps it.
    `generate` may be called from many threads at once.

    Attributes:
        is_opaque: Whether its code cannot be seen from here, so that a call gets a time limit, and
            a new run asks it again unless its entry has a `version`.
        definition: Moves where its output does for a reason outside its module.
        packages: Names of distributions whose version may move its output.
        computes: Whether workers can answer in its place: it asks nobody, and an answer depends on
            what it is asked and on its options alone.
        is_elsewhere: Whether workers do, so that it need not load its model; set before `check`.
        is_stored: Whether its answers were made before, whatever passages it gets.
        asks: Whether it asks models: their replies are kept, and paid from a budget.
        query_ids: The only queries that it has an answer to, by id or by text; None answers any.
    """

    is_opaque: bool = False
    definition: int = 1
    packages: tuple[str, ...] = ()
    computes: bool = False
    is_elsewhere: bool = False
    is_stored: bool = False
    asks: bool = False
    query_ids: Collection[str] | None = None

    @property
    def temperature(self) -> float | None:
        """The temperature that it samples with; None where it has none, or it is not known."""
        return None

    @property
    def missing_key(self) -> str | None:
        """The environment variable that must hold a key and does not."""
        return None

    def prompt_text(self, question: str, contexts: Sequence[Document]) -> str | None:
        """Return the prompt for a question and its passages; None where it is not known here."""
        return None

    def keep_replies(self, replies: Replies | None) -> None:
        """Set where replies are kept and looked up; before the first question."""

    def spend_from(self, budget: Budget | None) -> None:
        """Set what all calls may cost together; before the first question."""

    def close(self) -> None:
        """Give back connections, after the last question."""

    def check(self) -> None:
        """See that nothing is missing, before anything is asked."""

    def check_samples(self, samples: int) -> None:
        """Raise an `OptionError` where it has not as many answers to a query to give."""

    def signature_parts(self) -> Mapping[str, Any]:
        """Return what answers depend on besides question and passages: model, prompt hash, ..."""
        return {}

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction | str:
        """Return the answer to a question, given the passages, best first."""
        return self.generate_sample(Query("", question), contexts, 0)

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Prediction | str:
        """Return the answer to a query, for those that must know which one it is.

        Raises:
            MissingPrediction: There is no answer to this query.
        """
        return self.generate_sample(query, contexts, 0)

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction | str:
        """Return one of the answers to a query (`samples: n`); `sample` counts them from 0.

        A subclass has this method, or `generate` where it answers a question in one way alone.
        """
        return self.generate(query.text, contexts)


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
