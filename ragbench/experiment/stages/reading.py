"""Text that systems read for a question, and the gold in as much text as the baseline reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import structs

from ragbench.comparison.cause_rules import RankingFacts
from ragbench.comparison.differences import compare_systems
from ragbench.comparison.gold import meet_pieces, met_gold
from ragbench.comparison.systems import summarize
from ragbench.experiment.calls import FileRankings, values_of, without_value
from ragbench.experiment.plan.plan import method_of
from ragbench.experiment.plan.systems import user_systems
from ragbench.experiment.records import Results, RetrieverRun, with_failures
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.matching import document_of, passage_order, scored_ids
from ragbench.experiment.stages.passages import ranked_hits
from ragbench.records.causes import EQUAL_TEXT
from ragbench.records.score import Kind
from ragbench.records.summary import UNLIKE_READING, SystemReading
from ragbench.score.retrieval.found import found
from ragbench.signature import Signature, fingerprint
from ragbench.types import (
    Cause,
    Document,
    FloatArray,
    Prediction,
    ScoreColumn,
    ScoredDocument,
    Span,
)
from ragbench.types.display import counted
from ragbench.types.lookups import index_by_name


def add_reading(gold: GoldFacts, results: Results) -> None:
    """Set the readings of the results, and the comparisons of retrievers within equal text.

    Nothing is set if all passages are whole documents, or if systems read about equal amounts. Of a
    repeated ranking the first repetition counts.
    """
    texts = [_RankedTexts(gold, ranking) for ranking in _rankings(gold, results)]
    retrievers, of_rankings = dict[str, _RankedTexts](), dict[str, float]()
    if any(of.has_parts for of in texts):
        for of in texts:
            if of.mean:
                retrievers[of.ranking.name], of_rankings[of.ranking.name] = of, of.mean
    of_answers = dict(_answer_means(gold, results))
    is_unlike = _are_unlike(of_rankings)
    if not is_unlike and not _are_unlike(of_answers):
        return
    for name, mean in (of_rankings | of_answers).items():
        any_passage = name in of_rankings and _has_whole_gold(gold)
        results.readings[name] = SystemReading(characters=mean, any_passage=any_passage)
    if is_unlike:
        _compare_equal_text(gold, results, retrievers)


def _rankings(gold: GoldFacts, results: Results) -> Iterator[RetrieverRun]:
    """Yield the ranking of each retriever; run files have whole documents, and do not count."""
    for system in results.compared_systems:
        ranking = results.rankings.get(system.name)
        is_retriever = gold.plan.system(system.name).type == "retriever"
        if ranking is not None and is_retriever and not isinstance(ranking.outcomes, FileRankings):
            yield ranking


def _answer_means(gold: GoldFacts, results: Results) -> Iterator[tuple[str, float]]:
    """Yield (name, mean number of characters that are read) of each system that reads passages."""
    corpus, means, has_parts = gold.plan.corpus, dict[str, float](), False
    for system in results.compared_systems:
        lengths = []
        for answer in _answers(results, system.name):
            passages = answer.contexts or ()
            has_parts = has_parts or any(_is_part(passage, corpus) for passage in passages)
            lengths.append(sum(len(passage.text) for passage in passages))
        if any(lengths):
            means[system.name] = float(np.mean(lengths))
    # whole documents are read by all in the same way
    yield from means.items() if has_parts else ()


def _answers(results: Results, name: str) -> Iterator[Prediction]:
    """Yield the answers of a system that did not fail."""
    for outcome in results.answers[name].outcomes if name in results.answers else ():
        if outcome.value is not None:
            yield outcome.value


def _is_part(passage: Document, corpus: Mapping[str, Document]) -> bool:
    """Return True unless a passage is a whole document of the corpus."""
    whole = corpus.get(passage.id)
    return whole is None or whole.text != passage.text


def _has_whole_gold(gold: GoldFacts) -> bool:
    """Return True if the gold of a question is documents as a whole, without a span."""
    return any(gold.relevant.get(query) and query not in gold.pieces for query in gold.plan.ids)


def _are_unlike(means: Mapping[str, float]) -> bool:
    """Return True if a system reads far more text than another one that reads some."""
    amounts = [mean for mean in means.values() if mean > 0]
    return bool(amounts) and max(amounts) >= UNLIKE_READING * min(amounts)


# Note of a run whose chunks cannot be compared.
_NO_PARTS_OF_GOLD = (
    "retrievers read unlike amounts of text, and any chunk of a gold document counts: a column "
    "quote, or short gold answers, compare them by equal text"
)
# Note of a run whose chunks are compared by gold answers, and by documents.
_WORDS_OF_GOLD = (
    "any chunk of a gold document counts for {measure}, and the words of the gold answer for "
    "{equal_text}: with a column quote, both count the same gold"
)


class _Part(NamedTuple):
    """Hit that is read, whole or cut: its place in the ranking, its id, and its passage."""

    place: int
    id: str
    passage: Document
    is_cut: bool


class _RankedTexts:
    """Texts of the hits of one ranking, question by question."""

    def __init__(self, gold: GoldFacts, ranking: RetrieverRun) -> None:
        self.gold, self.ranking = gold, ranking

    @cached_property
    def _order(self) -> Mapping[str, Sequence[str]]:
        """Ids of the hits of each question, best first."""
        return passage_order(self.ranking, self.gold.plan)

    @cached_property
    def _documents(self) -> Mapping[str, Mapping[str, str]]:
        """Id by which each hit was scored, by question and id of the hit."""
        return scored_ids(self.ranking, self.gold.plan)

    def hits(self, row: int) -> list[ScoredDocument]:
        """Return the hits of the question at a row, best first."""
        return ranked_hits(self.ranking.outcomes[row], self._order.get(self.gold.plan.ids[row], ()))

    @cached_property
    def lengths(self) -> FloatArray:
        """Number of characters of the first hits of each question; NaN if a text is not known."""
        lengths = np.zeros(len(self.gold.plan.ids))
        for row in range(len(lengths)):
            for hit in self.hits(row)[: self.gold.rules.read]:
                document = document_of(hit, self.gold.plan.corpus)
                lengths[row] += math.nan if document is None else len(document.text)
        return lengths

    @property
    def mean(self) -> float:
        """Mean of the lengths over the questions that did not fail; 0 if a text is not known."""
        failed = [row for row, _ in without_value(self.ranking.outcomes)]
        lengths = np.delete(self.lengths, failed)
        return float(np.nan_to_num(lengths.mean())) if len(lengths) else 0.0

    @property
    def has_parts(self) -> bool:
        """True if one of the hits is a part of a document."""
        corpus = self.gold.plan.corpus
        for retrieved in values_of(self.ranking.outcomes):
            for hit in retrieved.documents[: self.gold.rules.read]:
                document = document_of(hit, corpus)
                if document is not None and _is_part(document, corpus):
                    return True
        return False

    def facts(self, row: int, n_characters: float) -> tuple[RankingFacts, bool]:
        """Return the gold of a question in the first text of its hits, and if the text is short.

        The last hit is cut where the text ends. The text is short if `top_k` hits have less of it.
        """
        parts, n_open = list[_Part](), n_characters
        for place, hit in enumerate(self.hits(row)):
            if n_open <= 0:
                break
            document = document_of(hit, self.gold.plan.corpus) or Document(hit.id, "")
            n = len(document.text)
            part = structs.replace(document, text=document.text[: math.ceil(n_open)])
            parts.append(_Part(place, hit.id, part, is_cut=n > n_open))
            n_open -= n
        is_short = n_open > 0 and len(parts) >= self.gold.plan.config.metrics.retrieval.top_k
        return self._meet(row, parts), is_short

    def _meet(self, row: int, parts: Sequence[_Part]) -> RankingFacts:
        """Return the gold of a question that some first parts of its hits meet."""
        facts, query = self.gold.facts(self.ranking)[row], self.gold.plan.ids[row]
        if facts.failed is not None or facts.ambiguous:
            return facts._replace(answer_rank=None)
        if query in self.gold.pieces:
            return self._meet_spans(facts, row, parts)
        # a document as gold does not say which part: the words of its gold answer do
        relevant = self.gold.relevant.get(query)
        words, least = self.gold.words(row), self.gold.rules.words
        if words is None or not words.can_be_found or self.gold.answerable[row] is False:
            return RankingFacts()
        if relevant is not None and not self.gold.documents_with_answer(row):
            return RankingFacts()
        of_hit = self._documents.get(query, {})
        for rank, part in enumerate(parts, start=1):
            is_gold = relevant is None or of_hit.get(part.id, part.id) in relevant
            if is_gold and words.find_in(part.passage.full_text, least):
                return RankingFacts(answer_rank=rank)
        return RankingFacts(answer_rank=0)

    def _meet_spans(self, facts: RankingFacts, row: int, parts: Sequence[_Part]) -> RankingFacts:
        """Return the facts of a question with gold spans."""
        placed, plan = self.gold.placed(self.ranking), self.gold.plan
        hits = []
        for part in parts:
            span = placed.spans.passages[row][part.place]
            if span is not None and part.is_cut:
                end = min(span.end, span.start + len(part.passage.text))
                span = Span(span.document, span.start, end)
            hits.append((placed.documents[row][part.place], span))
        return meet_pieces(facts, self.gold.pieces[plan.ids[row]], hits, plan.corpus)


def _compare_equal_text(
    gold: GoldFacts, results: Results, retrievers: Mapping[str, _RankedTexts]
) -> None:
    """Add the shares of questions whose gold is in equal text to the readings; compare them."""
    plan = gold.plan
    in_order = [s.name for s in results.compared_systems if plan.system(s.name).type == "retriever"]
    baseline = plan.baseline if plan.baseline in in_order else in_order[0]
    if baseline not in retrievers:  # its texts are not known, as those of a run file
        return
    # equal text is that of the first hits of the baseline, for each question by itself; where it
    # has no hits, the mean of the other questions
    limits, systems = np.nan_to_num(retrievers[baseline].lengths), []
    limits[limits == 0] = limits[limits > 0].mean()
    for name, texts in retrievers.items():
        column, n_short = _equal_text_column(texts, limits)
        score = summarize(
            column,
            confidence=plan.config.statistics.confidence,
            clusters=plan.clusters,
            kind="retrieval",
        )
        if score.mean is None:
            continue
        results.readings[name] = structs.replace(results.readings[name], score=score)
        if n_short:
            results.notes.append(_short_note(name, n_short, baseline))
        scored = index_by_name(results.systems)[name]
        kinds: dict[str, Kind] = {column.name: "retrieval"}
        systems.append(replace(scored, columns={column.name: column}, kinds=kinds))
    if not systems:
        results.notes.append(_NO_PARTS_OF_GOLD)
        return
    if _has_whole_gold(gold):
        measure = gold.rules.found_measure(plan.config.metrics.retrieval.top_k)
        results.notes.append(_WORDS_OF_GOLD.format(measure=measure, equal_text=EQUAL_TEXT))
    comparisons = compare_systems(
        systems, baseline, method_of(plan.config), plan.clusters, user_systems=user_systems(plan)
    )
    results.comparisons = structs.replace(results.comparisons, reading=comparisons.measures[0])


def _equal_text_column(texts: _RankedTexts, limits: FloatArray) -> tuple[ScoreColumn, int]:
    """Return (1 for each question whose gold is in the text, number of those with too few hits)."""
    gold, facts, are_short = texts.gold, list[RankingFacts](), list[bool]()
    for row, limit in enumerate(limits.tolist()):
        of_question, is_short = texts.facts(row, limit)
        facts.append(of_question)
        are_short.append(is_short)
    ranks = met_gold(facts)
    values = found(ranks, need=gold.rules.need)
    causes = np.where(
        np.isnan(values) & (ranks.causes == Cause.SCORED), Cause.UNPLACED_PASSAGE, ranks.causes
    )
    text = fingerprint([limits.tobytes()])
    signature = Signature.of(EQUAL_TEXT, need=gold.rules.need, **gold.signature_parts, text=text)
    column = ScoreColumn(EQUAL_TEXT, values, causes.astype(np.uint8), signature)
    column = with_failures(column, dict(without_value(texts.ranking.outcomes)))
    return column, int((np.array(are_short) & (column.values == 0)).sum())


def _short_note(name: str, n_short: int, baseline: str) -> str:
    """Return a note on questions whose hits have less text than the baseline reads."""
    questions = counted(n_short, "questions")
    return (
        f"{name}: its hits have less text than {baseline} reads, and no gold, for {questions}: "
        "a larger metrics.retrieval.top_k gives them more"
    )
