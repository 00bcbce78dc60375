"""The last stage of a run: the cause of each query by each system, where its answer was lost."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ragbench.comparison.cause_rules import (
    AnswerFacts,
    CauseRules,
    RankingFacts,
    cause_of_answer,
    cause_of_ranking,
)
from ragbench.comparison.causes import GoldWords, SystemCauses, cause_flows
from ragbench.comparison.passage_places import place_rankings
from ragbench.comparison.systems import find_score
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import FileRankings, Outcome
from ragbench.experiment.plan.groups import answerable_questions
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import Answers, Results, RetrieverRun
from ragbench.experiment.stages.answers import hits_of_passages
from ragbench.experiment.stages.base import Stage
from ragbench.experiment.stages.matching import (
    hits_to_place,
    passage_order,
    ranked_passages,
    scored_ids,
)
from ragbench.records.causes import Loss
from ragbench.score.retrieval.ranking import rank_order
from ragbench.text.refusals import refuses
from ragbench.types import Cause, Document, Prediction, Qrels, ScoreColumn, ScoredDocument, Span
from ragbench.types.rows import Mapped

# First hits whose texts are searched for the gold answer of a query without judgements: to read
# all texts is slow.
_READ_HITS = 20


# True, False or None where it is unknown; and the reason, empty where it is unknown.
Decision = tuple[bool | None, str]


class FindCauses(Stage):
    """Stage that finds the cause of each query from the results of other stages; stores nothing.

    `collect` sets `results.causes`, and replaces `results.comparisons`, which must be set.
    """

    def collect(self, results: Results) -> None:
        """Set `results.causes`, and add the flows between causes to `results.comparisons`.

        The comparisons must be set before, as `Compare` does.
        """
        plan = self.plan
        results.causes = find_causes(plan, results)
        baselines = ((system.name, system.baseline) for system in plan.systems)
        flows = cause_flows(results.causes, baselines, plan.ids)
        results.comparisons = replace(results.comparisons, causes=flows)


def find_causes(plan: Plan, results: Results) -> dict[str, SystemCauses]:
    """Return the causes of all queries by the name of the system.

    A system without answers gets causes of its ranking alone; so does one with a ranking whose
    answers all have the cause `MISSING_ANSWER`. The time is that of a pass over the judged
    documents of each ranking; for queries without judgements the first hits are read as well, until
    one holds a gold answer. Systems are in the order of `results.systems`, and causes in that of
    the queries.
    """
    gold = _Gold(plan, results)
    causes = {}
    for system in results.systems:
        source, answers = plan.system(system.name), results.answers.get(system.name)
        ranking = results.rankings.get(source.ranking_of or "")
        lost: Iterator[Loss]
        # recorded systems may have contexts and no answer: their rankings have causes
        if answers is None or (
            ranking is not None
            and all(o.value is None and o.cause is Cause.MISSING_ANSWER for o in answers.outcomes)
        ):
            lost = (
                cause_of_ranking(facts, gold.rules, answerable=gold.answerable[row])
                for row, facts in enumerate(gold.retrieved_gold(ranking))
            )
        else:
            lost = _answer_causes(_SystemAnswers(gold, source, answers, ranking, system))
        causes[system.name] = SystemCauses(list(lost))
    return causes


@dataclass
class _Gold:
    """Gold documents and gold answers of the queries, and the ranks that rankings give them.

    Attributes:
        plan: Plan of the run.
        results: Results of the stages before.
        rules: Rules of `causes:` in the config.
        qrels: Judgements of people and of a model; None without any.
    """

    plan: Plan
    results: Results
    _compared: dict[str, Sequence[RankingFacts]] = field(default_factory=dict)
    _orders: dict[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @property
    def rules(self) -> CauseRules:
        return self.plan.config.causes

    @cached_property
    def qrels(self) -> Qrels | None:
        return self.results.qrels(self.plan)

    @cached_property
    def relevant(self) -> Mapping[str, list[str]]:
        """Relevant documents of each judged query, the highest grade first; empty without qrels.

        Relevant is a grade from that of the rules on; a query without one has an empty list.
        """
        if self.qrels is None:
            return {}
        low = self.rules.relevant
        return {
            query: sorted((d for d, g in grades.items() if g >= low), key=lambda d: -grades[d])
            for query, grades in self.qrels.by_query.items()
        }

    @cached_property
    def spans(self) -> Mapping[str, dict[str, Span]]:
        """Query -> its gold spans by label; only of queries with a span in a relevant document.

        A relevant document without spans is a span as well, from its start to any end, by its id.
        """
        spans = dict[str, dict[str, Span]]()
        for query, gold in self.plan.collection.gold_spans.items():
            relevant, with_spans = self.relevant.get(query, ()), {span.document for span in gold}
            if not with_spans.isdisjoint(relevant):
                whole = {d: Span(d, 0, sys.maxsize) for d in relevant if d not in with_spans}
                spans[query] = {s.label: s for s in gold if s.document in relevant} | whole
        return spans

    def spans_in(
        self, rankings: Sequence[Sequence[ScoredDocument]]
    ) -> list[list[list[str] | None]]:
        """Return the labels of the gold spans in each hit of each query; none without gold spans.

        A span is in a hit that has any character of it; None stands for a hit that cannot be placed
        in a document. Queries and hits are in the order of `rankings`, which has all queries.
        """
        gold = [self.spans.get(query, {}) for query in self.plan.ids]
        corpus = self.plan.collection.documents
        placed = place_rankings(rankings, [[*spans.values()] for spans in gold], corpus)
        return [
            [p if p is None else [s for s in spans if p.overlaps(spans[s])] for p in places]
            for spans, places in zip(gold, placed.spans.passages, strict=True)
        ]

    @cached_property
    def _names(self) -> list[str]:
        """Document id of each row of the qrels; empty without qrels."""
        return [] if self.qrels is None else [*self.qrels.documents]

    def words(self, row: int) -> GoldWords | None:
        """Return the words of the gold answers of the query at `row`; None where it has none."""
        query = self.plan.queries[row]
        answers = self.plan.collection.answers.get(query.id)
        return GoldWords(answers, query.text) if answers else None

    @cached_property
    def answerable(self) -> list[bool | None]:
        """True for a question with an answer, False without one, None if nothing tells.

        The judgements of a model count too.
        """
        plan = self.plan
        return answerable_questions(
            plan.queries, plan.collection.answers, self.qrels, self.rules.relevant
        )

    def retrieved_gold(self, ranking: RetrieverRun | None) -> Sequence[RankingFacts]:
        """Return the gold that a ranking has of each query; no hits for all without a ranking.

        In the order of the queries; the facts of a ranking are computed once.
        """
        if ranking is None:
            return Mapped(lambda query: self._facts(query, 0), self.plan.ids)
        if ranking.name not in self._compared:
            self._compared[ranking.name] = list(self._compare(ranking))
        return self._compared[ranking.name]

    def _compare(self, ranking: RetrieverRun) -> Iterator[RankingFacts]:
        """Yield the retrieved gold of each query in order, or the cause of a failed retrieval."""
        run, outcomes = ranking.run, ranking.outcomes
        ranks, placed = self._ranks(ranking), self._placed_gold(ranking)
        depth_of = dict(zip(run.query_ids, np.diff(run.starts).tolist(), strict=True))
        may_fail = not isinstance(outcomes, FileRankings)  # what a file lacks is no failure
        for row, query in enumerate(self.plan.queries):
            cause = outcomes[row].cause if may_fail and outcomes[row].value is None else None
            if cause is not None and cause is not Cause.SCORED:
                yield self._facts(query.id, 0)._replace(failed=cause.word)
                continue
            facts = self._facts(query.id, depth_of.get(query.id, 0), ranks.get(query.id, ()))
            facts = placed.get(query.id, facts)
            # judgements of other ids say nothing: the query counts as not judged, unless all of
            # its passages have places to compare with gold spans
            is_placed = query.id in placed and not facts.unplaced
            if ranking.has_unknown_ids and facts.gold and not is_placed:
                facts = RankingFacts(retrieved=facts.retrieved, ranks=facts.ranks)
            words = self.words(row) if facts.gold is None else None
            if words is not None and words.can_be_found:
                passages = self._first_passages(ranking, row)
                if not passages or any(passages):
                    rank, how = self.find_answer(words, passages)
                    facts = facts._replace(
                        answer_rank=rank, answer_how=how, retrieved=len(passages)
                    )
            yield facts

    def _first_passages(self, ranking: RetrieverRun, row: int) -> list[Document | None]:
        """Return the hits of a query whose texts are searched, in the order of `answer_hit`.

        They are the first 20, or the first `causes.read` if that is more. None stands for a hit
        without text; a query that the ranking lacks has none.
        """
        if ranking.name not in self._orders:
            self._orders = {ranking.name: passage_order(ranking, self.plan)}
        ranked = self._orders[ranking.name].get(self.plan.ids[row], ())
        depth = max(_READ_HITS, self.rules.read)
        return ranked_passages(ranking.outcomes[row], ranked[:depth], self.plan.corpus)

    def find_answer(self, words: GoldWords, passages: Sequence[Document | None]) -> tuple[int, str]:
        """Return (rank of the first passage that has a gold answer, what it has of it).

        Ranks are from 1. If none has one, (0, the words that were looked for).
        """
        for rank, passage in enumerate(passages, start=1):
            how = "" if passage is None else words.find_in(passage.full_text, self.rules.words)
            if how:
                return rank, how
        return 0, words.name_target(self.rules.words)

    def _ranks(self, ranking: RetrieverRun) -> dict[str, tuple[tuple[int, str], ...]]:
        """Return query -> (rank from 1, id) of the relevant documents in a ranking, best first.

        A query without a relevant hit has no entry; all lack one without qrels.
        """
        if (qrels := self.qrels) is None:
            return {}
        ranks = ranking.ranks(qrels, self.plan.config.metrics.retrieval)
        rows = np.flatnonzero((ranks > 0) & (qrels.grades >= self.rules.relevant))
        row_queries = np.searchsorted(qrels.starts, rows, "right") - 1
        rows = rows[rank_order(row_queries, ranks[rows])]
        names = map(self._names.__getitem__, rows.tolist())
        pairs = tuple(zip(ranks[rows].tolist(), names, strict=True))
        starts = np.searchsorted(row_queries, np.arange(len(qrels.query_ids) + 1)).tolist()
        return {
            query: pairs[start:end]
            for query, start, end in zip(qrels.query_ids, starts, starts[1:], strict=False)
            if start < end
        }

    def _placed_gold(self, ranking: RetrieverRun) -> dict[str, RankingFacts]:
        """Return query with gold spans -> the ranks of its spans among the passages.

        {} without gold spans. `unplaced` is the rank of the first hit that cannot be placed in a
        document, 0 without one.
        """
        facts = dict[str, RankingFacts]()
        rows = self.spans_in(hits_to_place(ranking, self.plan)) if self.spans else ()
        for query, hits in zip(self.plan.ids, rows, strict=False):
            if query in self.spans:
                first = dict[str, int]()
                for rank, names in enumerate(hits, start=1):
                    first = dict.fromkeys(names or (), rank) | first
                unplaced = 1 + hits.index(None) if None in hits else 0
                ranks = tuple(sorted((rank, name) for name, rank in first.items()))
                facts[query] = self._facts(query, len(hits), ranks)._replace(unplaced=unplaced)
        return facts

    def _facts(
        self, query: str, retrieved: int, ranks: tuple[tuple[int, str], ...] = ()
    ) -> RankingFacts:
        """Return the gold documents of a query id with their ranks, before texts are read.

        Without judgements of the query, `gold` is None. For a query with gold spans, `gold` counts
        the spans, and `unit` is `span`.
        """
        gold, example, missing = self._relevant_counts.get(query, (None, "", ()))
        facts = RankingFacts(None, gold, example, missing, ranks, retrieved)
        if spans := self.spans.get(query):
            return facts._replace(gold=len(spans), example=next(iter(spans)), unit="span")
        return facts

    @cached_property
    def _relevant_counts(self) -> Mapping[str, tuple[int, str, tuple[str, ...]]]:
        """Judged query -> (number of relevant documents, id of the best, ids not in the corpus).

        The id is '' without a relevant document; there are no ids without a corpus, and where qrels
        need not hold ids of the corpus.
        """
        # gold texts and folded documents have ids that the corpus need not have
        by_id = self.plan.config.metrics.retrieval.match.level == "id"
        corpus = self.plan.corpus if by_id else None
        return {
            query: (
                len(names),
                names[0] if names else "",
                tuple(name for name in names if name not in corpus) if corpus else (),
            )
            for query, names in self.relevant.items()
        }


@dataclass
class _SystemAnswers:
    """Answers and scores of one system, beside the gold that they are compared with.

    `column` returns None for a score that the system lacks, `contexts` for a query without answer.

    Attributes:
        gold: Gold documents and answers, and the rules of causes.
        source: The system as it is planned.
        answers: Its answers to all queries.
        ranking: Its ranking; None for an app that returns no passages.
        system: The system with its score columns.
    """

    gold: _Gold
    source: System
    answers: Answers
    ranking: RetrieverRun | None
    system: SystemScores

    @cached_property
    def samples(self) -> list[Sequence[Outcome[Prediction]]]:
        """Outcomes of each sample, one per query."""
        return [sample.outcomes for sample in self.answers.by_sample()]

    @cached_property
    def ids(self) -> Mapping[str, Mapping[str, str]]:
        """Id by which each passage was scored, by query and passage id.

        Empty without a ranking or a matching; a passage without an entry has its own id.
        """
        if self.ranking is None:
            return {}
        return scored_ids(self.ranking, self.gold.plan)

    def contexts(self, row: int) -> Sequence[Document] | None:
        """Return the passages of the first answer to a query that did not fail.

        None without such an answer, or if it does not tell its passages.
        """
        answers = (sample[row].value for sample in self.samples)
        return next((answer.contexts for answer in answers if answer is not None), None)

    @cached_property
    def read_spans(self) -> list[frozenset[str]]:
        """Labels of the gold spans in the passages that were read, in the order of the queries.

        Empty for a query without gold spans or passages. Passages are placed by the hits of the
        ranking, those of a control by the hits of the baseline.
        """
        plan, rankings = self.gold.plan, []
        # controls have no ranking; an injection is a text that stands in no document
        ranking = self.ranking or self.gold.results.rankings.get(plan.baseline)
        retrieved = [[] for _ in plan.ids] if ranking is None else hits_to_place(ranking, plan)
        for row, hits in enumerate(retrieved):
            # a hit knows its document, which the passage that a generator gets may not have
            hit_of = {hit.id: hit for hit in hits}
            passages = hits_of_passages(self.contexts(row) or ())
            rankings.append([hit_of.get(passage.id, passage) for passage in passages])
        return [
            frozenset(span for spans in passages for span in spans or ())
            for passages in self.gold.spans_in(rankings)
        ]

    def column(self, name: str | None, rubric: str | None = None) -> ScoreColumn | None:
        """Return the column of the score `name`; without a name, the first judge's of `rubric`.

        A rubric's name alone finds the first of its columns `name(judge=...)`. None where the
        system has no such score.
        """
        columns = self.system.columns
        if name is not None:
            score = find_score(name, list(columns))
            of_judges = (column for column in columns if column.startswith(f"{name}(judge="))
            return columns.get(score or next(of_judges, ""))
        for judge in self.gold.plan.judges:
            column = columns.get(self.gold.plan.judge_score(str(rubric), judge))
            if column is not None:
                return column
        return None


def _answer_causes(system: _SystemAnswers) -> Iterator[Loss]:
    """Yield the cause of each query of a system that answers.

    In the order of the queries.
    """
    rules, gold = system.gold.rules, system.gold
    correctness = system.column(rules.right.measure, "correctness")
    faithfulness = system.column(rules.supported.measure, "faithfulness")
    # scores that the config cannot name for causes: a judge's rubrics, if it has them
    recall, refusal = system.column(None, "context_recall"), system.column(None, "refusal")
    # a control gets other passages than its retriever returned
    reads_ranking = system.source.control is None
    retrieved = gold.retrieved_gold(system.ranking if reads_ranking else None)
    for row in range(len(system.gold.plan.queries)):
        answer, facts = _answer_facts(system, row), retrieved[row]
        if answer.failed is None:
            is_right, right_how = _is_right(system, correctness, row)
            is_supported, supported_how = _reaches(faithfulness, row, rules.supported.min)
            holds, holds_how = _holds_answer(system, recall, row, facts)
            is_refusal, how = _reaches(refusal, row, 0.5, oriented=False)
            answer = replace(
                answer,
                is_right=is_right,
                right_how=right_how,
                is_supported=is_supported,
                supported_how=supported_how,
                holds_answer=holds,
                holds_how=holds_how,
            )
            if is_refusal is not None:
                answer = replace(answer, refuses=is_refusal, refuses_how=f"declines ({how})")
        if system.ranking is None and reads_ranking and answer.read is None:
            facts = RankingFacts()  # an app without passages: nothing tells what it retrieved
        yield cause_of_answer(facts, answer, rules, answerable=gold.answerable[row])


def _answer_facts(system: _SystemAnswers, row: int) -> AnswerFacts:
    """Return the facts of the answers to one query that need no score.

    More than half of several samples decide whether they decline to answer; without such a
    majority of those that are clear, it is not sure. Their passages are those of the first one that
    did not fail. Without any prediction, the cause of the first sample counts.
    """
    outcomes = [sample[row] for sample in system.samples]
    predictions = [outcome.value for outcome in outcomes if outcome.value is not None]
    if not predictions:
        cause = outcomes[0].cause
        return AnswerFacts(failed=cause.word, was_asked=cause.failed or cause is Cause.SCORED)
    replies = [refuses(prediction.answer) for prediction in predictions]
    declines = 2 * replies.count(True) > len(replies)
    is_sure = declines or 2 * replies.count(False) >= len(replies)
    is_empty = not any(prediction.answer.strip() for prediction in predictions)
    facts = AnswerFacts(
        refuses=declines if is_sure else None, refuses_how="is empty" if is_empty else "declines"
    )
    contexts = system.contexts(row)
    if contexts is None:
        generator = system.source.generator
        return replace(facts, passages=system.gold.plan.passages(generator) if generator else None)
    query = system.gold.plan.ids[row]
    relevant = set(system.gold.relevant.get(query, ()))
    scored_id = system.ids.get(query, {})
    names = [passage.id for passage in contexts]
    read_ids = frozenset(scored_id.get(name, name) for name in names) & relevant
    if query in system.gold.spans:
        read_ids = system.read_spans[row]
    if system.ranking is not None and system.source.control is None and not read_ids and names:
        hits = system.ranking.outcomes[row].value
        if hits is None or not {hit.id for hit in hits.documents} & set(names):
            return replace(facts, passages=len(contexts))  # other ids: ranks decide
    return replace(facts, passages=len(contexts), read=read_ids)


def _is_right(system: _SystemAnswers, column: ScoreColumn | None, row: int) -> Decision:
    """Return (whether the answer to a query is right, reason such as "f1 0.7 >= 0.5").

    By the column of the config; else by the share of gold words in the answers, of several samples
    in at least half of them. None where neither has a value. A named measure without a value gives
    None with a reason. The caller has checked that an answer did not fail.
    """
    rules = system.gold.rules.right
    decision, how = _reaches(column, row, rules.min)
    if decision is not None or rules.measure is not None:
        return decision, how or f"{rules.measure} has no value"
    words = system.gold.words(row)
    if words is None:
        return None, ""
    answers = [sample[row].value for sample in system.samples]
    shares = [words.share(answer.answer) for answer in answers if answer is not None]
    right = [share for share in shares if share.reaches(rules.words)]
    # at least half of the samples: a tie counts as right
    decision = 2 * len(right) >= len(shares)
    example = next(share for share in shares if share.reaches(rules.words) is decision)
    return decision, f"the answer {example.says}"


def _holds_answer(
    system: _SystemAnswers, context_recall: ScoreColumn | None, row: int, facts: RankingFacts
) -> Decision:
    """Return (whether the passages of a query hold its gold answer, reason).

    By the judge's context recall, else by the share of gold words in the passages. None for a
    judged query, where ranks decide, and where neither has a value.
    """
    if facts.gold is not None:
        return None, ""
    decision, how = _reaches(context_recall, row, 0.5)
    if decision is not None:
        return decision, how
    words, contexts = system.gold.words(row), system.contexts(row)
    if words is None or contexts is None or not words.can_be_found:
        return None, ""
    rank, how = system.gold.find_answer(words, contexts)
    if rank:
        return True, f"{how} in passage {rank} of {len(contexts)} that were read"
    if not contexts or words.is_short:
        return False, f"{how} in none of {len(contexts)} passages that were read"
    share = words.share(" ".join(passage.full_text for passage in contexts))
    read = f"what was read, {len(contexts)} passages, {share.says}"
    return share.reaches(system.gold.rules.words), read


def _reaches(
    column: ScoreColumn | None, row: int, threshold: float, *, oriented: bool = True
) -> Decision:
    """Return (whether a score reaches a threshold, the comparison as text).

    None and an empty text where the query has no value.

    Args:
        column: Column of the score; None where the system lacks it.
        row: Row of the query.
        threshold: Smallest value that reaches it.
        oriented: True turns scores where lower is better around: the value must be at most
            `1 - threshold`.
    """
    value = math.nan if column is None else float(column.values[row])
    if column is None or math.isnan(value):
        return None, ""
    if oriented and column.direction == "lower":
        reaches = 1 - value >= threshold
        return reaches, f"{column.name} {value:.2g} {'<=' if reaches else '>'} {1 - threshold:.2g}"
    reaches = value >= threshold
    return reaches, f"{column.name} {value:.2g} {'>=' if reaches else '<'} {threshold:.2g}"
