"""Choice of the best retriever by cross-validation: `select: {folds: 5}` of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from ragbench.errors import OptionError
from ragbench.registry import Option
from ragbench.retrieve.base import Retriever


class CrossValidated(Retriever):
    """Rank each query by the retriever that has the best mean on the queries of the other folds.

    The queries are cut at random into folds. Queries of one cluster (`statistics.cluster`) share a
    fold; without clusters, queries of the same text do. The `seed` of the config decides the folds.
    Of equal means, the first retriever wins. A query without a value counts as the worst value
    where another retriever has one. A sweep with `select: {folds: 5, measure: ndcg@10}` is such a
    retriever over its combinations, which are no systems themselves.

    References:
        Stone (1974), Cross-validatory choice and assessment of statistical predictions.
    """

    same_results = "it takes its rankings from its sources: repeat these"

    def __init__(
        self,
        *,
        retrievers: Annotated[list[str], Option("Names of the retrievers.", refers_to="retriever")],
        measure: Annotated[str, Option("Retrieval measure that decides, such as ndcg@10.")],
        folds: Annotated[int, Option("Number of folds.", ge=2)] = 5,
    ) -> None:
        self.sources: Sequence[str] = list(dict.fromkeys(retrievers))
        self.measure, self.folds = measure, folds
        if not self.sources:
            raise OptionError("cross_validated", "retrievers", retrievers, "one retriever or more")
