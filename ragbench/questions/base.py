"""Records of question making: passages, candidates, and the rows of the table."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from ragbench.data.files.fields import UNANSWERABLE_KIND, content_id
from ragbench.data.runs.run_folder import to_csv
from ragbench.registry import Option, OptionSet
from ragbench.signature import fingerprint
from ragbench.text.chunk import Chunker, Chunking
from ragbench.types import Cause, Document

COLUMNS = ("id", "question", "reference", "relevant", "quote", "kind", "checks", "keep")
# Columns of the review page, which a table gets behind those.
REVIEW_COLUMNS = ("comment", "reviewed")

# Gold answer of an unanswerable question, which `ragbench.score.text.gold_words` reads as such.
NO_ANSWER = "No answer"
# Check -> candidates that fail it, in words; the order breaks ties between equal counts.
FAILURES = {
    "unique": "duplicates",
    "answered": "not answerable from the passage",
    "closed_book": "answerable without it",
    "not_in_corpus": "answered in the corpus",
    "quote": "without a quote from the document",
    "self_contained": "pointing at the text",
    "not_copied": "copied from the passage",
    "rare_terms": "without a rare term",
    "reply": "without a usable reply",
    "budget": "beyond the budget",
}


class QuestionCounts(OptionSet):
    """Number of questions of each kind that a model writes, the option `--kinds`.

    It is created by keywords; a kind that is not named has 0 questions.
    """

    fact: Annotated[int, Option("Questions that one passage answers.", ge=1)] = 0
    unanswerable: Annotated[int, Option("Questions that the corpus nearly answers.", ge=1)] = 0


@dataclass(frozen=True, slots=True)
class QuestionPassage:
    """Part of a document that a question is written about; `draw_passages` yields them.

    Attributes:
        document: The whole document.
        text: Text of the passage, a slice of the text of the document.
    """

    document: Document
    text: str


def is_of_questions(column: str, columns: Collection[str]) -> bool:
    """Return True for a column without gold that this module writes, in a table that it wrote.

    Example:
        >>> is_of_questions("kind", ["kind", "checks", "keep"]), is_of_questions("kind", ["kind"])
        (True, False)
    """
    marks = COLUMNS[-3:]
    return {*marks} <= {*columns} and column in (*marks, "reason", *REVIEW_COLUMNS)


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """Question with its gold, and the result of its checks.

    `check(name, reason)` returns a new candidate, which has failed if there is a reason; `row()`
    returns the cells of its row in the table.

    Attributes:
        passage: Passage that it was written about.
        kind: `fact`, `unanswerable`, or `known_item`, a query for one document without a model.
        question: Text of the question; empty if the model returned none.
        reference: Gold answer; empty for `known_item`.
        quote: Slice of the document that answers the question; empty for `unanswerable`, and before
            the check of the quote what the model returned.
        checks: Names of the checks that it passed, in their order.
        failure: Name of the check that it failed; empty for a kept question.
        reason: Evidence of the failure; empty for a kept question.
        cause: Cause of a reply that cannot be used or a call without one; else None.
    """

    passage: QuestionPassage
    kind: str
    question: str = ""
    reference: str = ""
    quote: str = ""
    checks: tuple[str, ...] = ()
    failure: str = ""
    reason: str = ""
    cause: Cause | None = None

    def check(self, name: str, reason: str) -> QuestionCandidate:
        """Return the candidate after a check, which it fails if there is a reason.

        A candidate that failed an earlier check is returned as it is.
        """
        if self.failure:
            return self
        if reason:
            return replace(self, failure=name, reason=reason)
        return replace(self, checks=(*self.checks, name))

    def row(self) -> list[str]:
        """Return the cells of `COLUMNS`; `relevant` is empty for an unanswerable question.

        `id` is `q-` with a hash of kind, document and question. `keep` is no for a failed
        candidate, else yes.
        """
        document = self.passage.document.id
        return [
            f"q-{content_id(f'{self.kind} {document} {self.question}')}",
            self.question,
            self.reference,
            "" if self.kind == UNANSWERABLE_KIND else document,
            self.quote,
            self.kind,
            " ".join(self.checks),
            "no" if self.failure else "yes",
        ]


def to_table(candidates: Sequence[QuestionCandidate], *, reasons: bool = False) -> str:
    """Return the CSV table of candidates in order, with a column `reason` if `reasons` is True.

    Cells that a spreadsheet would run as formulas get an apostrophe. Without candidates, it is the
    header alone. The reason of a candidate that failed no check is empty.
    """
    rows = []
    for candidate in candidates:
        reason = ""
        if candidate.failure:
            reason = f"{FAILURES[candidate.failure]}: {candidate.reason}"
        rows.append([*candidate.row(), *([reason] if reasons else [])])
    return to_csv([*COLUMNS, "reason"] if reasons else COLUMNS, rows)


def summary_line(candidates: Sequence[QuestionCandidate]) -> str:
    """Return the counts of kept candidates and of the failed checks, the most frequent first.

    Example:
        >>> passage = QuestionPassage(Document("a", "Io is hot."), "Io is hot.")
        >>> good = QuestionCandidate(passage, "fact")
        >>> summary_line([good, replace(good, failure="unique")])
        'kept 1 of 2: 1 duplicate'
    """
    counts = Counter(candidate.failure for candidate in candidates)
    parts = []
    for name in sorted(filter(counts.get, FAILURES), key=lambda name: -counts[name]):
        is_one_duplicate = name == "unique" and counts[name] == 1
        parts.append("1 duplicate" if is_one_duplicate else f"{counts[name]} {FAILURES[name]}")
    return f"kept {counts['']} of {len(candidates)}{': ' if parts else ''}{', '.join(parts)}"


def passing(candidates: Iterable[QuestionCandidate]) -> list[QuestionCandidate]:
    """Return the candidates that failed no check, in order."""
    return [candidate for candidate in candidates if not candidate.failure]


def without_reply(candidates: Iterable[QuestionCandidate]) -> list[QuestionCandidate]:
    """Return the candidates for which the model sent no usable reply, in order."""
    return [candidate for candidate in candidates if candidate.failure == "reply"]


def is_over_budget(candidates: Iterable[QuestionCandidate]) -> bool:
    """Return True if the budget refused a call for one of the candidates."""
    return any(candidate.failure == "budget" for candidate in candidates)


# In words: a passage of this size holds several facts, and ten of them fit into any prompt.
CHUNKING = Chunking(by="words", size=200)


def draw_passages(documents: Sequence[Document], seed: str) -> Iterator[QuestionPassage]:
    """Yield every passage of the corpus once, in an order that depends on texts, ids and seed.

    First one passage of each document, then a second one of each that has two, and so on: n
    passages come from as many documents as possible. Blank documents have no passage. Documents
    are cut when they are reached.
    """
    chunker = Chunker(CHUNKING)
    unread: list[deque[QuestionPassage]] = []  # passages of each document that are to come
    # hashes, not a random generator: an added document moves no other one
    for document in sorted(documents, key=lambda document: fingerprint([seed, document.id], 64)):
        passages = [QuestionPassage(document, chunk.text) for chunk in chunker(document.text)]
        passages.sort(key=lambda passage: fingerprint([seed, passage.text], 64))
        if passages:
            yield passages[0]
        unread.append(deque(passages[1:]))
    while any(unread):
        for later in filter(None, unread):
            yield later.popleft()
