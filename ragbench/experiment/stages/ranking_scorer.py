"""Scores of one ranking by measures of ids, texts, places, gold and forbidden documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from ragbench.comparison.forbidden import forbidden_ranks, unclear_warning
from ragbench.comparison.passage_places import unplaced_warning
from ragbench.errors import DataError
from ragbench.experiment import records
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.stages.matching import passage_order
from ragbench.experiment.stages.model_judgements import Judgements
from ragbench.experiment.stages.passages import hits_of, ranked_passages
from ragbench.records.score import RunCounts
from ragbench.score.retrieval.base import RetrievedPassages
from ragbench.score.retrieval.notation import Measure
from ragbench.score.retrieval.score_run import (
    Rules,
    score_forbidden,
    score_gold,
    score_passages,
    score_run,
)
from ragbench.types import Cause, Qrels, ScoreColumn
from ragbench.types.lookups import index_by_name, index_positions


@dataclass(frozen=True, slots=True)
class RankingScorer:
    """Scores of one ranking by the measures of each kind."""

    plan: Plan
    ranking: records.RetrieverRun
    judgements: Judgements  # judgements with the gold of the queries

    def score(
        self, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], RunCounts | None, tuple[str, ...]]:
        """Return (label -> column of each measure, counts of the run, warnings)."""
        by_id = []
        for measure in measures:
            if measure.spec.reads_ids:
                by_id.append(measure)
        by_text, by_place, by_gold, forbidden = [], [], [], []
        for measure in measures:
            if measure.spec.reads == "passages":
                by_text.append(measure)
            elif measure.spec.reads == "spans":
                by_place.append(measure)
            elif measure.spec.reads == "gold":
                by_gold.append(measure)
            elif measure.spec.reads == "forbidden":
                forbidden.append(measure)
        columns, counts, warnings = dict[str, ScoreColumn](), None, tuple[str, ...]()
        if by_id and self.judgements.qrels is not None:
            columns, counts = self._score_ids(self.judgements.qrels, by_id)
        if by_text:
            text_columns, warnings = self._score_texts(by_text)
            columns |= text_columns
        if by_place:
            span_columns, unplaced = self._score_spans(by_place)
            columns, warnings = columns | span_columns, (*warnings, *unplaced)
        columns |= index_by_name(self._score_gold(by_gold))
        leaks, unclear = self._score_forbidden(forbidden)
        columns |= index_by_name(leaks)
        warnings = (*warnings, *unclear)
        return columns, counts, warnings

    def _score_ids(
        self, qrels: Qrels, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], RunCounts | None]:
        """Return label -> column of measures that read ids, and the counts of the run."""
        match, columns = self.plan.config.metrics.retrieval.match, dict[str, ScoreColumn]()
        scored = score_run(self.ranking.run, qrels, measures, **asdict(self._rules()))
        if scored.ranked is not None:
            self.ranking.store_ranks(qrels, scored.ranked)
        row_of = index_positions(scored.query_ids)
        # -1, a query without judgements, reads the NaN that is appended to the values
        rows = np.array([row_of.get(name, -1) for name in self.plan.ids], dtype=np.int64)
        for column in scored.columns:
            signature = column.signature.with_parts(match=match.rule)
            if self.judgements.source is not None:
                signature = signature.replacing(qrels=self.judgements.source)
            columns[column.name] = self._with_ambiguous(
                replace(
                    column,
                    values=np.append(column.values, np.nan)[rows],
                    causes=np.append(column.causes, np.uint8(Cause.NO_JUDGEMENTS))[rows],
                    signature=signature,
                )
            )
        return columns, scored.counts

    def _score_texts(
        self, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], tuple[str, ...]]:
        """Return (label -> column of measures that search passages for gold answers, warnings)."""
        # passages are those that were retrieved, before they are folded or matched
        plan, ranking, warnings = self.plan, self.ranking, tuple[str, ...]()
        order, deepest = passage_order(ranking, plan), self._deepest(measures)
        passages, n_unknown, n_read = list[list[str]](), 0, 0
        for name, outcome in zip(plan.ids, ranking.outcomes, strict=True):
            texts = []
            for rank, hit in enumerate(ranked_passages(outcome, order.get(name, ()), plan.corpus)):
                texts.append("" if hit is None else hit.full_text)
                n_unknown += hit is None and rank < deepest
            passages.append(texts)
            n_read += len(texts[:deepest])
        if n_unknown:
            message = f"{ranking.name}: {n_unknown} of {n_read} passages have no text"
            if n_unknown == n_read:
                allowed = "a retriever that returns texts, or a data set with these documents"
                raise DataError(f"{message} for {measures[0].label}", allowed=allowed)
            warnings = (f"{message}: {measures[0].label} cannot find an answer in them",)
        retrieved = RetrievedPassages(
            passages,
            [plan.collection.answers.get(name, ()) for name in plan.ids],
        )
        columns = score_passages(retrieved, measures, self._rules(), missing=self._missing())
        return index_by_name(columns), warnings

    def _score_spans(
        self, measures: Sequence[Measure]
    ) -> tuple[dict[str, ScoreColumn], tuple[str, ...]]:
        """Return (label -> column of measures that compare places with gold spans, warnings)."""
        # passages are those that were retrieved, before they are folded or matched
        plan, ranking = self.plan, self.ranking
        placed = self.judgements.gold.placed(ranking).first(self._deepest(measures))
        warnings = unplaced_warning(ranking.name, plan.ids, placed)
        columns = score_passages(placed.spans, measures, self._rules(), missing=self._missing())
        return {c.name: self._with_ambiguous(c) for c in columns}, tuple(warnings)

    def _score_gold(self, measures: Sequence[Measure]) -> list[ScoreColumn]:
        """Return the columns of measures that read the ranks at which the gold is met."""
        if not measures:
            return []
        gold, parts = self.judgements.gold, self.judgements.gold.signature_parts
        parts["match"] = self.plan.config.metrics.retrieval.match.rule
        if self.judgements.source is not None:
            parts["qrels"] = self.judgements.source
        ranks = gold.gold_ranks(self.ranking)
        return score_gold(ranks, measures, self._rules(), missing=self._missing(), **parts)

    def _score_forbidden(
        self, measures: Sequence[Measure]
    ) -> tuple[list[ScoreColumn], tuple[str, ...]]:
        """Return (columns of measures that read the ranks of forbidden hits, warnings)."""
        if not measures:
            return [], ()
        plan, rules = self.plan, self.plan.config.metrics.retrieval
        forbidden = [*map(plan.collection.forbidden.get, plan.ids)]
        forbidden_ids = plan.collection.forbidden
        hits = hits_of(self.ranking, plan, forbidden_ids, self._deepest(measures))
        unknown = range(len(plan.ids)) if self.ranking.has_unknown_ids else ()
        ranks = forbidden_ranks(hits, forbidden, plan.collection.documents, unknown)
        parts = {"forbidden": plan.collection.fingerprint("forbidden")}
        parts["match"] = rules.match.rule
        columns = score_forbidden(ranks, measures, self._rules(), missing=self._missing(), **parts)
        # a gate passes on the other questions: what it did not see has to be told
        warnings = unclear_warning(self.ranking.name, plan.ids, columns)
        return columns, tuple(warnings)

    def _deepest(self, measures: Sequence[Measure]) -> int:
        """Return the last rank that one of the measures reads."""
        top_k = self.plan.config.metrics.retrieval.top_k
        return max(measure.k or top_k for measure in measures)

    def _with_ambiguous(self, column: ScoreColumn) -> ScoreColumn:
        """Return a column in which queries with an ambiguous gold passage have that cause."""
        ambiguous = self.plan.collection.ambiguous_gold
        if not ambiguous:
            return column
        rows = np.array([query in ambiguous for query in self.plan.ids])
        values = np.where(rows, np.nan, column.values)
        causes = np.where(rows, np.uint8(Cause.AMBIGUOUS_QUOTE), column.causes)
        return replace(column, values=values, causes=causes)

    def _missing(self) -> list[int]:
        """Return the rows of the queries that the ranking lacks, also failed ones, ascending."""
        ranking = self.ranking
        run = ranking.run if ranking.unmatched is None else ranking.unmatched
        rows = []
        for row, name in enumerate(self.plan.ids):
            if name not in run.query_index:
                rows.append(row)
        return rows

    def _rules(self) -> Rules:
        """Return the rules of scoring."""
        return Rules.from_options(self.plan.config.metrics.retrieval)
