"""Gold that the rankings of a run folder meet: their stored hits, and what these do not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ragbench.comparison.cause_rules import CauseRules
from ragbench.comparison.gold import gold_pieces
from ragbench.fixes.rankings import NEVER, StoredRankings
from ragbench.records.causes import AnswerCause, CauseRow
from ragbench.records.manifest import ANSWER, HitsRow, QuestionRow
from ragbench.types import IntArray, Qrels


@dataclass
class StoredGold:
    """Questions of a run folder with their gold, and the hits that meet it.

    Attributes:
        questions: The questions.
        hits: Ranking -> query -> its stored hits; rankings of documents whose gold is documents
            have none.
        causes: System -> query -> row of `causes.csv`.
        rules: Rules by which the run counts gold as found.
    """

    questions: Sequence[QuestionRow]
    hits: Mapping[str, Mapping[str, HitsRow]]
    causes: Mapping[str, Mapping[str, CauseRow]]
    rules: CauseRules

    @cached_property
    def documents(self) -> Qrels:
        """Relevant documents of each question, with grade 1; questions may have none."""
        relevant, least = {}, self.rules.relevant
        for row in self.questions:
            documents = []
            for name, grade in row.judged.items():
                if grade >= least:
                    documents.append(name)
            relevant[row.query_id] = dict.fromkeys(documents, 1)
        return Qrels.from_dict(relevant)

    def doubts(self, name: str) -> IntArray:
        """Return the first rank of each question, from 1, of a hit of which the gold is not known.

        It is 0 where no hit has known gold, as for a question without gold, and `NEVER` where all
        hits have.
        """
        with_gold = self.queries_with_gold(name)
        has_gold = np.array([row.query_id in with_gold for row in self.questions], bool)
        # in a ranking of documents, ids tell of each hit whether it is gold
        doubts = np.where(has_gold, NEVER, 0)
        if name in self.hits:
            causes, stored = self.causes.get(name, {}), self.hits[name]
            for place in np.flatnonzero(has_gold).tolist():
                query = self.questions[place].query_id
                cause = causes[query].cause if query in causes else "unknown"
                doubts[place] = _first_doubt(stored.get(query, _NO_HITS), cause)
        return doubts

    def queries_with_gold(self, name: str) -> set[str]:
        """Return the questions with gold that a ranking can find.

        Questions judged without a relevant document have none.
        """
        if name not in self.hits:
            return self._judged_relevant
        rows = self.hits[name]
        needs = set()
        for question in self.questions:
            if rows.get(question.query_id, _NO_HITS).needs:
                needs.add(question.query_id)
        return self._judged_relevant | needs

    @cached_property
    def _judged_relevant(self) -> set[str]:
        """Questions with a relevant document."""
        queries = set()
        for query, relevant in self.documents.by_query.items():
            if relevant:
                queries.add(query)
        return queries

    @property
    def has_answers(self) -> bool:
        """True if the gold of a question in a ranking is the words of its gold answer."""
        return any(row.needs == (ANSWER,) for rows in self.hits.values() for row in rows.values())

    @cached_property
    def has_alternatives(self) -> bool:
        """True if one of several gold documents of a question is as good as another."""
        return any(self._alternatives())

    def _alternatives(self) -> Iterator[bool]:
        for row in self.questions:
            documents = dict[str, set[str]]()
            for piece in gold_pieces(row.judged, row.spans, self.rules.relevant):
                documents.setdefault(piece.need, set()).add(piece.document)
            yield any(len(names) > 1 for names in documents.values())

    def fusion_obstacle(self, name: str, rankings: StoredRankings) -> str:
        """Return the reason why fusions with a ranking cannot be counted; "" if they can.

        They are counted by documents: each hit has to be a whole document, and any of its gold
        documents has to be gold for a question, or each of them.
        """
        if name not in self.hits:
            return ""
        rows = self.hits[name].values()
        if any(row.needs == (ANSWER,) for row in rows):
            return "only the first hit with a gold answer is stored"
        if self.rules.need == "all" and self.has_alternatives:
            return "a quote stands in several gold documents, and all gold is needed"
        is_judged = np.diff(rankings.gold.starts) > 0
        if np.any(is_judged & (rankings.doubts[name] < NEVER)):
            return "the gold of some hits is not known"
        parts = (hit.document is not None or hit.start is not None for r in rows for hit in r.hits)
        if any(parts) or np.any(rankings.depths(name) != rankings.document_depths(name)):
            return "hits are passages"
        return ""


_NO_HITS = HitsRow(query_id="")


def _first_doubt(hits: HitsRow, cause: AnswerCause) -> int:
    """Return the first rank of a question at which gold is not known; 0 and `NEVER` as above."""
    # such a question is lost, whatever its hits have
    if cause in ("failed", "not_in_corpus"):
        return NEVER
    return hits.unplaced or (0 if hits.gold_rank is None else NEVER)
