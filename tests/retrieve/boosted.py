"""A retriever with an option of its own; a worker imports this module by its name."""

from typing import Annotated

from ragbench.registry import Option
from ragbench.retrieve.bm25 import BM25


class Boosted(BM25):
    """BM25 with an option of its own, which multiplies all scores."""

    def __init__(
        self, *, boost: Annotated[float, Option("Factor of each score.")] = 1.0, **options
    ):
        super().__init__(**options)
        self._boost = boost

    def _best(self, scores, floor, top_k, pool):
        return super()._best(scores * self._boost, floor * self._boost, top_k, pool)
