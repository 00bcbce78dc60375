"""Generator that reads existing answers from a file: `type: predictions`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

from ragbench.data.files.predictions import read_samples
from ragbench.data.files.question_rows import QuestionRows
from ragbench.generate.base import Generator, MissingPrediction
from ragbench.registry import Option
from ragbench.types import Document, Prediction, Query


class Predictions(Generator):
    """Read the answers of a file: JSONL or CSV with `query_id` (or `question`) and `answer`.

    The answers are judged against the `contexts` of the file, or without them against the passages
    of the paired retriever. A query that the file lacks has no answer, which is counted apart from
    failures. A file with several answers to a query numbers them from 0 in the column `sample`; all
    of them are read. Integer ids become text; null is no answer, an empty cell of CSV an empty one.
    `generate_for` returns the first answer to a query, and raises MissingPrediction if the file has
    none.
    """

    is_stored = True
    same_results = "the answers stand in a file; several to a query are numbered in `sample`"

    def __init__(
        self,
        *,
        path: Annotated[
            Path, Option("The file with the answers, or a folder of run_*.json.", refers_to="path")
        ],
    ) -> None:
        self._samples = read_samples(path)
        self.n_stored = len(self._samples)
        questions = {}
        for key, row in chain.from_iterable(sample.items() for sample in self._samples):
            if "question" in row.metadata:
                questions[key] = row.metadata["question"]
        self._rows = QuestionRows(questions, file=path, noun="query")
        # rows without an id have their question as key
        self._texts = frozenset(key for key, question in questions.items() if key == question)
        # Queries of the file, by id or by the text of the question.
        self.query_ids: frozenset[str] = frozenset(chain.from_iterable(self._samples))

    def has_answer(self, query: Query) -> bool:
        """Return False for a query that the file lacks.

        Raises:
            DataError: The row with the id of the query has another question, and the question of
                the query stands in another row.
        """
        if query.id in self.query_ids:
            self._rows.check(query.id, query.text)
        return self._key(query) is not None

    def _key(self, query: Query) -> str | None:
        """Return the id or question by which the file has an answer to a query; None without."""
        # By id first: two queries may have the same text.
        for key in (query.id, query.text):
            if key in self.query_ids:
                return key
        keys = [key for key in self._rows.asking(query.text) if key in self._texts]
        return keys[0] if len(keys) == 1 else None

    def generate_sample(
        self, query: Query, contexts: Sequence[Document], sample: int
    ) -> Prediction:
        """Return the answer to a query from the file.

        The id of the query finds the answer, else its text, whatever its case and spaces;
        `contexts` is None where the file has none.

        Raises:
            MissingPrediction: The file has no answer to the query.
        """
        stored = self._samples[sample % len(self._samples)]
        key = self._key(query)
        row = None if key is None else stored.get(key)
        if row is None or row.answer is None:
            raise MissingPrediction(query.id)
        return Prediction(row.answer, row.contexts, queries=row.queries, tool_calls=row.tool_calls)
