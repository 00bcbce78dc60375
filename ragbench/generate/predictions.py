"""Answers that were made before, from a file: `type: predictions`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from ragbench.data.files.predictions import read_samples
from ragbench.errors import OptionError
from ragbench.generate.base import Generator, MissingPrediction
from ragbench.registry import Option
from ragbench.types import Document, Prediction, Query


class Predictions(Generator):
    """Take the answers from a file: JSONL or CSV with `query_id` (or `question`) and `answer`.

    Where the file has `contexts`, those are what the answers are judged against; otherwise the
    passages of the retriever that it is paired with. A query that the file lacks has no answer,
    which is counted apart from failures. A file with several answers to a query numbers them from 0
    in the column `sample`, and `samples` says how many there are.
    """

    is_stored = True

    def __init__(
        self, *, path: Annotated[Path, Option("The file with the answers.", refers_to="path")]
    ) -> None:
        self._samples = read_samples(path)
        # The queries that the file has, by id or by the text of the question.
        self.query_ids = frozenset(key for sample in self._samples for key in sample)

    def check_samples(self, samples: int) -> None:
        """Refuse to leave answers out, or to give one twice."""
        if samples != (known := len(self._samples)):
            allowed = f"{known}, the answers to a query in the file"
            raise OptionError("predictions", "samples", samples, allowed)

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Return a stored answer to a query; `MissingPrediction` where the file has none."""
        stored = self._samples[sample]
        found = stored.get(query.id) or stored.get(query.text)
        if found is None or found.answer is None:
            raise MissingPrediction(query.id)
        return Prediction(
            found.answer, found.contexts, queries=list(found.queries), tool_calls=found.tool_calls
        )
