"""Rows of a table by their questions, which tell whether equal ids are of one numbering."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ragbench.errors import DataError
from ragbench.registry import quote


class QuestionRows:
    """Rows of a table by their questions, without case and repeated spaces.

    The constructor takes row -> its question, and two words for messages: the file, and a noun for
    what the ids name, such as `query`. Rows without a question are left out of the mapping.
    """

    def __init__(self, questions: Mapping[str, str], *, file: object, noun: str) -> None:
        self._questions, self._file, self._noun = questions, file, noun
        self._of_question = defaultdict[str, list[str]](list)
        for row, question in questions.items():
            self._of_question[_comparable(question)].append(row)

    def asking(self, question: str) -> Sequence[str]:
        """Return the rows with a question, in their order; [] without any."""
        return self._of_question.get(_comparable(question), [])

    def check(self, row: str, question: str) -> None:
        """Raise a DataError if not this row, which an id names, but another has the question.

        A question that no row has passes, as people word questions anew, and so does a row without
        a question.
        """
        rows = self.asking(question)
        if rows and row in self._questions and row not in rows:
            problem = f"row {quote(row)} asks another question than the {self._noun} with this id"
            problem += f", which row {quote(rows[0])} asks: {quote(question)}"
            allowed = "ids of one numbering, or no column id"
            raise DataError(problem, file=self._file, allowed=allowed)


def _comparable(text: str) -> str:
    """Return a question for comparison, without case and repeated spaces."""
    return " ".join(text.split()).casefold()
