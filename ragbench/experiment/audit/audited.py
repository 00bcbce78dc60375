"""Test set as the checks of an audit read it, and the findings that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.comparison.slices import look_up
from ragbench.config.schema import AuditRules
from ragbench.data.loaders.base import Places
from ragbench.records.audit import FINDING_KINDS, Finding
from ragbench.types import Document, Query


@dataclass(frozen=True, slots=True)
class AuditedSet:
    """Questions, judgements and texts of a data set, with their places, as `audited_set` returns.

    `finding` returns a finding on a query, with its place in the files.

    Attributes:
        queries: Queries of the test set.
        judged: Query id -> document id -> grade; empty without judgements.
        gold: Query id -> ids of the documents with a grade above 0; no query without one.
        corpus: Documents; None without a corpus.
        texts: Gold documents that the corpus has, and gold passages, by id.
        answers: Query id -> gold answers.
        rankings: Name of a system -> query id -> its hits, best first.
        places: Places of the files, and the queries of other splits.
        rules: Kinds of questions.
        words: Smallest share of the content words of a long gold answer in a passage that has it.
        matches_ids: False where judged ids need not be ids of the corpus.
    """

    queries: Sequence[Query]
    judged: Mapping[str, Mapping[str, int]]
    gold: Mapping[str, Sequence[str]]
    corpus: Sequence[Document] | None
    texts: Mapping[str, Document]
    answers: Mapping[str, Sequence[str]]
    rankings: Mapping[str, Mapping[str, Sequence[str]]]
    places: Places
    rules: AuditRules
    words: float
    matches_ids: bool

    def question_kind(self, query: Query) -> str:
        """Return the kind of a question, by the metadata key `rules.kind`; empty without one."""
        kind = look_up(query.metadata, self.rules.kind)
        return "" if kind is None else str(kind)

    def gold_documents(self, query: Query) -> list[Document]:
        """Return the gold documents that have a text, in the order of the judgements."""
        documents = map(self.texts.get, self.gold.get(query.id, ()))
        with_text = []
        for document in documents:
            if document is not None and document.full_text.strip():
                with_text.append(document)
        return with_text

    def finding(
        self,
        kind: str,
        query: Query | None,
        problem: str,
        *,
        document: str | None = None,
        place: str | None = None,
    ) -> Finding:
        """Return a finding on a query, or on all queries for None.

        By default, `place` is that of the judgement of `document`, or else of the query. A finding
        on all queries has the place `test set`. Raises KeyError for a `kind` that is no key of
        `FINDING_KINDS`.
        """
        name = None if query is None else query.id
        if name is None:
            place = "test set"
        elif place is None:
            place = self.places.queries.get(name, f"query {name}")
            place = self.places.judgements.get((name, document or ""), place)
        return Finding(
            kind=kind,
            place=place,
            query_id=name,
            document_id=document,
            problem=problem,
            advice=FINDING_KINDS[kind][1],
        )
