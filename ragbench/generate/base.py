"""Base class of generators, and protocol of apps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from ragbench.llm import Budget, Replies
from ragbench.registry import Configured
from ragbench.types import Document, Prediction, Query


class Generator(Configured):
    """Generator of answers from retrieved passages, with all methods that a run calls.

    Built-in generators inherit this class. A user's object only needs `generate` or `generate_for`;
    `ragbench.generate.python.declared` adds the rest. Several threads may call `generate` at once.
    A subclass overrides `generate` or `generate_sample`: the defaults call each other. They return
    a text or a prediction, and raise CallFailure if a model fails.

    Attributes:
        is_opaque: True for code that ragbench cannot inspect, such as a server: calls get a time
            limit, and a new run calls it again unless its config has a `version`.
        definition: Number to increase when answers change for a reason outside the module.
        packages: Distributions whose version may change the answers.
        computes: True if worker processes can answer in its place, since an answer depends only on
            the arguments and options.
        is_elsewhere: True if workers answer, so that no model is loaded here; set before `check`.
        is_stored: True if the answers come from a file and do not depend on the passages.
        n_stored: Number of answers to a query in that file; None without one.
        asks: True if it calls chat models, whose replies are stored and paid from a budget.
        query_ids: Ids or texts of the only queries with an answer; None means all queries.
    """

    is_opaque: bool = False
    definition: int = 1
    packages: tuple[str, ...] = ()
    computes: bool = False
    is_elsewhere: bool = False
    is_stored: bool = False
    n_stored: int | None = None
    asks: bool = False
    query_ids: Collection[str] | None = None

    @property
    def temperature(self) -> float | None:
        """Sampling temperature; None if it has none or it is unknown."""
        return None

    @property
    def missing_key(self) -> str | None:
        """Name of the environment variable whose key is missing; None if no key is missing."""
        return None

    def prompt_text(self, question: str, contexts: Sequence[Document]) -> str | None:
        """Return the prompt for a question and its passages; None if it is unknown."""
        return None

    # Empty by default: a generator without a model has no replies, costs and connections.
    def keep_replies(self, replies: Replies | None) -> None:
        """Set the store of model replies, before the first question; None stores nothing."""

    def spend_from(self, budget: Budget | None) -> None:
        """Set the budget of all calls, before the first question."""

    def close(self) -> None:
        """Close connections, after the last question."""

    def check(self) -> None:
        """Load models or connect; raise the error of a missing key or package.

        The errors are OptionError and MissingExtra.
        """

    def signature_parts(self) -> Mapping[str, Any]:
        """Return the inputs of answers besides question and passages, such as model and prompt.

        None as a value means that the input is not set.
        """
        return {}

    def has_answer(self, query: Query) -> bool:
        """Return False for a query that the stored answers of `query_ids` lack.

        Raises:
            DataError: The stored answer to the query is that to another question.
        """
        stored = self.query_ids
        return stored is None or query.id in stored or query.text in stored

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction | str:
        """Return the answer to a question from its passages, best first; they may be empty.

        Failures of a model are raised as CallFailure.
        """
        # Calls `generate_sample`, whose default calls this: a subclass overrides one of the two.
        return self.generate_sample(Query("", question), contexts, 0)

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Prediction | str:
        """Return the answer to a query; generators that need its id or turns override this.

        The default is the answer of sample 0.

        Raises:
            MissingPrediction: The generator has no answer to this query.
        """
        return self.generate_sample(query, contexts, 0)

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction | str:
        """Return the answer of a sample to a query.

        A subclass overrides this method, or `generate` if it gives a single answer. By default
        every sample is the answer of `generate`, whose errors are passed on.

        Args:
            query: Query to answer.
            contexts: Passages, best first.
            sample: Number of the answer, from 0.
        """
        return self.generate(query.text, contexts)


class MissingPrediction(LookupError):
    """Signal of a generator with stored answers that a query has none, which is no failure.

    Its argument is the id of the query.
    """


class App(Protocol):
    """App that retrieves and answers by itself; both its ranking and its answers are scored.

    Apps are never combined with retrievers. All have `is_opaque = True`: calls get a time limit,
    and a new run calls them again unless the config has a `version`.

    Attributes:
        passages_advice: Advice in messages on answers whose passages are not known.
    """

    passages_advice: str

    def answer(self, question: str) -> Prediction:
        """Return the answer to a question.

        Its `contexts` are the retrieved passages, best first. Their order is scored as a ranking,
        and the answer is judged by their texts; None leaves the retrieval side without a score. Its
        `queries` are the queries that the app formulated. Errors are those of the app; CallFailure
        names a cause of its own.
        """
