"""Gold of the queries of a run, and the ranks at which each ranking meets it.

Measures, causes, the fix list and the page read these facts: hits meet gold here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ragbench.comparison.cause_rules import CauseRules, RankingFacts
from ragbench.comparison.gold import GoldPiece, find_answer, gold_pieces, meet_pieces, met_gold
from ragbench.comparison.passage_places import PlacedRankings, place_rankings
from ragbench.comparison.slices import answerable_questions
from ragbench.experiment.calls import FileRankings
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import RetrieverRun
from ragbench.experiment.stages.matching import passage_order, scored_ids
from ragbench.experiment.stages.passages import hits_to_place, ranked_passages
from ragbench.experiment.stages.pools import has_pools
from ragbench.score.retrieval.found import MetGold
from ragbench.score.retrieval.ranking import rank_order
from ragbench.score.text.gold_words import GoldWords
from ragbench.types import Cause, Document, Qrels, ScoredDocument, Span
from ragbench.types.lookups import take_items
from ragbench.types.rows import Mapped

# Rank and id of each relevant document that a ranking has, best first.
Ranks = tuple[tuple[int, str], ...]
# Name of a ranking, and number of its repetition.
RankingKey = tuple[str, int]


@dataclass
class GoldFacts:
    """Gold documents, spans and answers of the queries, and the ranks at which rankings meet them.

    `facts(ranking)` has the facts of each query, and `placed(ranking)` the places of its passages
    in the documents; both are computed once for a ranking.

    Attributes:
        plan: Plan of the run.
        qrels: Judgements of people and of a model; None without any.
    """

    plan: Plan
    qrels: Qrels | None
    _facts: dict[RankingKey, Sequence[RankingFacts]] = field(default_factory=dict)
    _placed: dict[RankingKey, PlacedRankings] = field(default_factory=dict)
    _orders: dict[RankingKey, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    _with_answer: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def rules(self) -> CauseRules:
        """Rules of `causes:` in the config."""
        return self.plan.config.causes

    @cached_property
    def relevant(self) -> Mapping[str, list[str]]:
        """Relevant documents of each judged query, the highest grade first; empty without qrels.

        Relevant is a grade from that of the rules on; a query without one has an empty list.
        """
        if self.qrels is None:
            return {}
        relevant: dict[str, list[str]] = {}
        least = self.rules.relevant
        for query, grades in self.qrels.by_query.items():
            # a stable sort: documents of one grade keep their order
            best_first = sorted(grades.items(), key=lambda pair: -pair[1])
            relevant[query] = []
            for document, grade in best_first:
                if grade >= least:
                    relevant[query].append(document)
        return relevant

    @cached_property
    def pieces(self) -> Mapping[str, list[GoldPiece]]:
        """Pieces of evidence of each query with a gold span in a relevant document.

        The gold of other queries is their relevant documents.
        """
        pieces = dict[str, list[GoldPiece]]()
        for query, spans in self.plan.collection.gold_spans.items():
            relevant = self.relevant.get(query, ())
            if self.qrels is not None and any(span.document in relevant for span in spans):
                grades = {}
                for name in relevant:
                    grades[name] = self.qrels.by_query[query][name]
                pieces[query] = gold_pieces(grades, spans, self.rules.relevant)
        return pieces

    @cached_property
    def answerable(self) -> list[bool | None]:
        """True for a question with an answer, False without one, None if nothing tells.

        The judgements of a model count too.
        """
        plan = self.plan
        return answerable_questions(
            plan.queries, plan.collection.answers, self.qrels, self.rules.relevant
        )

    @property
    def references(self) -> list[tuple[str, ...]]:
        """Gold answers of each query; empty for a query without any."""
        references = []
        for query in self.plan.ids:
            references.append(tuple(self.plan.collection.answers.get(query, ())))
        return references

    def words(self, row: int) -> GoldWords | None:
        """Return the words of the gold answers of the query at `row`; None where it has none."""
        query = self.plan.queries[row]
        answers = self.plan.collection.answers.get(query.id)
        return GoldWords(answers, query.text) if answers else None

    def documents_with_answer(self, row: int) -> tuple[str, ...]:
        """Return the relevant documents of a query whose text has a gold answer, as `found` asks.

        Without a corpus, or a gold answer that a text could have, there are none.
        """
        if row not in self._with_answer:
            words, names = self.words(row), list[str]()
            if words is not None and words.can_be_found:
                for name in self.relevant.get(self.plan.ids[row], ()):
                    document = self.plan.corpus.get(name)
                    if document is not None and words.find_in(document.full_text, self.rules.words):
                        names.append(name)
            self._with_answer[row] = tuple(names)
        return self._with_answer[row]

    def facts(self, ranking: RetrieverRun | None) -> Sequence[RankingFacts]:
        """Return the ranks at which a ranking meets the gold of each query, in their order.

        Without a ranking, all queries have no hits.
        """
        if ranking is None:
            return Mapped(lambda query: self._by_documents(query, 0), self.plan.ids)
        key = (ranking.name, ranking.number)
        if key not in self._facts:
            self._facts[key] = list(self._meet(ranking))
        return self._facts[key]

    def placed(self, ranking: RetrieverRun) -> PlacedRankings:
        """Return the places of the passages of queries with gold spans, best first."""
        key = (ranking.name, ranking.number)
        if key not in self._placed:
            spans = self.plan.collection.gold_spans
            hits = hits_to_place(ranking, self.plan)
            self._placed[key] = self.place(hits, [spans.get(q, ()) for q in self.plan.ids])
        return self._placed[key]

    def place(
        self, rankings: Sequence[Sequence[ScoredDocument]], gold: Sequence[Sequence[Span]]
    ) -> PlacedRankings:
        """Return the places of hits of all queries in the documents of the corpus."""
        return place_rankings(rankings, gold, self.plan.collection.documents)

    def gold_ranks(self, ranking: RetrieverRun) -> MetGold:
        """Return the ranks at which a ranking meets the gold of all queries, for measures."""
        is_judged = ranking.has_unknown_ids and self.relevant
        rows = []
        for row, query in enumerate(self.plan.ids):
            if is_judged and query in is_judged:
                rows.append(row)
        return met_gold(self.facts(ranking), rows)

    @property
    def signature_parts(self) -> dict[str, str | int | float | None]:
        """Parts of a signature that tell which gold is met: judgements, spans and gold answers."""
        collection, rules = self.plan.collection, self.rules
        parts: dict[str, str | int | float | None] = {
            "qrels": None if self.qrels is None else self.qrels.fingerprint(),
            "rel": None if rules.relevant == 1 else rules.relevant,
        }
        if self.pieces or collection.ambiguous_gold:
            parts["spans"] = collection.fingerprint("spans")
        # the words of gold answers count for queries without judgements
        if any(query not in self.relevant for query in collection.answers):
            parts |= {"gold": collection.fingerprint("answers"), "words": rules.words}
        return parts

    def _meet(self, ranking: RetrieverRun) -> Iterator[RankingFacts]:
        """Yield the facts of each query in order, or the cause of a failed retrieval."""
        run = ranking.run if ranking.unmatched is None else ranking.unmatched
        outcomes = ranking.outcomes
        ranks = self._document_ranks(ranking)
        depth_of = dict(zip(run.query_ids, np.diff(run.starts).tolist(), strict=True))
        may_fail = not isinstance(outcomes, FileRankings)  # what a file lacks is no failure
        for row, query in enumerate(self.plan.ids):
            cause = outcomes[row].cause if may_fail and outcomes[row].value is None else None
            if cause is not None and cause is not Cause.SCORED:
                facts = self._by_documents(query, 0)._replace(failed=cause.word)
                has_words = facts.gold is None and self._searched_words(row) is not None
                yield facts._replace(answer_rank=0) if has_words else facts
                continue
            of_query = () if query in self.pieces else ranks.get(query, ())
            facts = self._by_documents(query, depth_of.get(query, 0), of_query)
            if query in self.pieces:
                facts = self._meet_pieces(facts, row, ranking)
            # judgements of other ids say nothing: the query counts as not judged, unless all of
            # its passages have places to compare with gold spans
            is_placed = query in self.pieces and not facts.unplaced
            if ranking.has_unknown_ids and facts.gold and not is_placed:
                facts = RankingFacts(retrieved=facts.retrieved)
            if facts.gold is None:
                facts = self._meet_answer(facts, row, ranking)
            yield facts

    def _meet_pieces(self, facts: RankingFacts, row: int, ranking: RetrieverRun) -> RankingFacts:
        """Return the facts of a query with gold spans: the ranks of passages that have them."""
        pieces, placed = self.pieces[self.plan.ids[row]], self.placed(ranking)
        hits = list(zip(placed.documents[row], placed.spans.passages[row], strict=True))
        return meet_pieces(facts, pieces, hits, self.plan.corpus)

    def _meet_answer(self, facts: RankingFacts, row: int, ranking: RetrieverRun) -> RankingFacts:
        """Return the facts of a query without judgements: the rank of its gold answer."""
        words = self._searched_words(row)
        passages = [] if words is None else self.first_passages(ranking, row)
        if words is None or (passages and not any(passages)):
            return facts
        rank, how = find_answer(words, passages, self.rules.words)
        return facts._replace(answer_rank=rank, answer_how=how, retrieved=len(passages))

    def _searched_words(self, row: int) -> GoldWords | None:
        """Return the words that hits of the query at `row` are searched for; None without any."""
        words = self.words(row)
        is_searched = words is not None and words.can_be_found and self.answerable[row] is not False
        return words if is_searched and not self._ambiguous(self.plan.ids[row]) else None

    def _ambiguous(self, query: str) -> tuple[str, ...]:
        """Return the documents that hold the gold passage of a query, if none of them is named."""
        return tuple(self.plan.collection.ambiguous_gold.get(query, ()))

    def first_passages(self, ranking: RetrieverRun, row: int) -> list[Document | None]:
        """Return the hits of a query whose texts are searched, in the order of `answer_hit`."""
        ranked = self._order(ranking).get(self.plan.ids[row], ())
        first = ranked[: self.rules.searched]
        return ranked_passages(ranking.outcomes[row], first, self.plan.corpus)

    def _order(self, ranking: RetrieverRun) -> Mapping[str, Sequence[str]]:
        """Return the ids of the passages of each query, best first."""
        key = (ranking.name, ranking.number)
        if key not in self._orders:
            # one ranking at a time: the order of a large run file fills the memory
            self._orders = {key: passage_order(ranking, self.plan)}
        return self._orders[key]

    def _document_ranks(self, ranking: RetrieverRun) -> Mapping[str, Ranks]:
        """Return query -> (rank, id) of the relevant documents in a ranking, best first."""
        if self.qrels is None:
            return {}
        if ranking.unmatched is None:
            return self._judged_ranks(ranking, self.qrels)
        ids, ranks = scored_ids(ranking, self.plan), dict[str, Ranks]()
        for query, passages in self._order(ranking).items():
            relevant, first = set(self.relevant.get(query, ())), dict[str, int]()
            of_passage = ids.get(query, {})
            for rank, passage in enumerate(passages if relevant else (), start=1):
                document = of_passage.get(passage, passage)
                if document in relevant:
                    first.setdefault(document, rank)
            ranks[query] = tuple((rank, document) for document, rank in first.items())
        return ranks

    def _judged_ranks(self, ranking: RetrieverRun, qrels: Qrels) -> Mapping[str, Ranks]:
        """Return the result of `_document_ranks` for a ranking whose hits are documents."""
        ranks = ranking.ranks(qrels, self.plan.config.metrics.retrieval)
        rows = np.flatnonzero((ranks > 0) & (qrels.grades >= self.rules.relevant))
        row_queries = np.searchsorted(qrels.starts, rows, "right") - 1
        rows = rows[rank_order(row_queries, ranks[rows])]
        documents = self._qrels_documents
        names = take_items(documents, rows.tolist())
        pairs = tuple(zip(ranks[rows].tolist(), names, strict=True))
        starts = np.searchsorted(row_queries, np.arange(len(qrels.query_ids) + 1)).tolist()
        ranks_of = {}
        for query, start, end in zip(qrels.query_ids, starts, starts[1:], strict=False):
            if start < end:
                ranks_of[query] = pairs[start:end]
        return ranks_of

    @cached_property
    def _qrels_documents(self) -> list[str]:
        """Document id of each row of the qrels; empty without qrels."""
        return [] if self.qrels is None else [*self.qrels.documents]

    def _by_documents(self, query: str, retrieved: int, ranks: Ranks = ()) -> RankingFacts:
        """Return the facts of a query whose gold documents have these ranks; `gold` may be None."""
        ambiguous = self._ambiguous(query)
        gold, example, missing = self._relevant_counts.get(query, (None, "", ()))
        facts = RankingFacts(
            None, gold, example, missing, ranks, retrieved=retrieved, ambiguous=ambiguous
        )
        if query in self._pools:
            facts = facts._replace(searched="pool")
        if pieces := self.pieces.get(query):
            needs = dict.fromkeys(piece.need for piece in pieces)
            return facts._replace(gold=len(needs), example=next(iter(needs)), unit="span")
        return facts

    @cached_property
    def _pools(self) -> Mapping[str, frozenset[str]]:
        """Query -> documents of its pool; a query without a pool is absent."""
        pools = dict[str, frozenset[str]]()
        if has_pools(self.plan):
            for query in self.plan.queries:
                if query.pool is not None:
                    pools[query.id] = frozenset(query.pool)
        return pools

    @cached_property
    def _relevant_counts(self) -> Mapping[str, tuple[int, str, tuple[str, ...]]]:
        """Judged query -> (number of relevant documents, id of the best, those not to be found)."""
        # gold texts and folded documents have ids that the corpus need not have
        by_id = self.plan.config.metrics.retrieval.match.level == "id"
        corpus = self.plan.corpus or None  # an empty one is no corpus
        counts = {}
        for query, names in self.relevant.items():
            documents = self._pools.get(query, corpus) if by_id else None
            missing: list[str] = []
            if documents is not None:
                for name in names:
                    if name not in documents:
                        missing.append(name)
            counts[query] = len(names), names[0] if names else "", tuple(missing)
        return counts
