"""Answers that some other program wrote: `type: predictions`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from ragbench.data.predictions import read_predictions
from ragbench.generate.base import MissingPrediction
from ragbench.registry import Option
from ragbench.types import Document, Prediction, Query


class Predictions:
    """Take the answers from a file: JSONL or CSV with `query_id` (or `question`) and `answer`.

    Where the file has `contexts`, those are what the answers are judged against; otherwise the
    passages of the retriever that it is paired with. A query that the file lacks has no answer,
    which is counted apart from failures.
    """

    def __init__(
        self,
        *,
        path: Annotated[Path, Option("The file with the answers.", refers_to="path")],
    ) -> None:
        self._predictions = read_predictions(path)
        self.query_ids = frozenset(self._predictions)
        """The queries that the file has, by id or by the text of the question."""

    def generate_for(self, query: Query, contexts: Sequence[Document]) -> Prediction:
        """Return the stored answer to a query.

        Raises:
            MissingPrediction: The file has none.
        """
        found = self._predictions.get(query.id) or self._predictions.get(query.text)
        if found is None or found.answer is None:
            raise MissingPrediction(query.id)
        return Prediction(found.answer, found.contexts)
