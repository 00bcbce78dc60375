"""Where answers are lost: from what a run measured to one cause per query and system."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np

from ragbench.comparison.cause_rules import (
    AnswerFacts,
    CauseRules,
    RankingFacts,
    cause_of_answer,
    cause_of_ranking,
)
from ragbench.comparison.causes import GoldWords, SystemCauses, cause_flows, has_no_answer, refuses
from ragbench.comparison.systems import find_score
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import FileRankings, Outcome
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import Answers, Ranked, Results
from ragbench.experiment.stages.base import Stage
from ragbench.experiment.stages.matching import document_of, scored_ids
from ragbench.records.causes import Lost
from ragbench.score.retrieval.ranking import rank_order
from ragbench.types import Cause, Prediction, Qrels, Run, ScoreColumn
from ragbench.types.rows import Mapped

# Hits in which a gold answer is looked for where a question is not judged: reading is slow.
_LOOKED_AT = 20
_SAYS_SO = ("answerable", "is_answerable")
_SAYS_NOT = ("is_impossible", "unanswerable", "is_unanswerable")


class FindCauses(Stage):
    """The last one: looks at what the others found; nothing is asked or stored."""

    def collect(self, results: Results) -> None:
        """Add the cause of every query by every system, and which queries moved."""
        plan = self.plan
        results.causes = find_causes(plan, results)
        baselines = ((system.name, system.baseline) for system in plan.systems)
        flows = cause_flows(results.causes, baselines, plan.ids)
        results.comparisons = replace(results.comparisons, causes=flows)


def find_causes(plan: Plan, results: Results) -> dict[str, SystemCauses]:
    """Give every query of every system one cause.

    Costs a walk over the judged documents that each ranking has; for queries without judgements
    also reading the first hits, until a gold answer is found in one.
    """
    gold = _Gold(plan, results)
    causes = {}
    for system in results.systems:
        source, answers = plan.system(system.name), results.answers.get(system.name)
        ranking = results.rankings.get(source.ranking_of or "")
        lost: Iterator[Lost]
        # records may have rankings of a system, and not one answer
        if answers is None or (
            ranking is not None
            and all(o.value is None and o.cause is Cause.MISSING_ANSWER for o in answers.outcomes)
        ):
            lost = (
                cause_of_ranking(facts, gold.rules, answerable=gold.answerable[row])
                for row, facts in enumerate(gold.found_in(ranking))
            )
        else:
            lost = _of_answers(_Answering(gold, source, answers, ranking, system))
        causes[system.name] = SystemCauses(list(lost))
    return causes


@dataclass
class _Gold:
    """What is known to be right, and where rankings have it."""

    plan: Plan
    results: Results
    _found: dict[str, Sequence[RankingFacts]] = field(default_factory=dict)

    @property
    def rules(self) -> CauseRules:
        return self.plan.config.causes

    @cached_property
    def qrels(self) -> Qrels | None:
        return self.results.qrels(self.plan)

    @cached_property
    def relevant(self) -> Mapping[str, list[str]]:
        """Judged query -> its relevant documents, the best first."""
        if self.qrels is None:
            return {}
        least = self.rules.relevant
        return {
            query: sorted((d for d, g in grades.items() if g >= least), key=lambda d: -grades[d])
            for query, grades in self.qrels.by_query.items()
        }

    @cached_property
    def _names(self) -> list[str]:
        """The document of each row of the judgements."""
        return [] if self.qrels is None else [*self.qrels.documents]

    def words(self, row: int) -> GoldWords | None:
        """Return the gold answers of a query, by their words; None where it has none."""
        query = self.plan.queries[row]
        answers = self.plan.collection.answers.get(query.id)
        return GoldWords(answers, query.text) if answers else None

    @cached_property
    def answerable(self) -> list[bool | None]:
        """Whether each question has an answer; None where nothing says so.

        The metadata say so, the gold answers, or people who judged documents and found none.
        """
        return [*map(self._answerable, range(len(self.plan.queries)))]

    def _answerable(self, row: int) -> bool | None:
        query = self.plan.queries[row]
        for names, value in ((_SAYS_SO, False), (_SAYS_NOT, True)):
            if any(query.metadata.get(name) is value for name in names):
                return False
        gold = self.plan.collection.answers.get(query.id)
        if gold:
            return not has_no_answer(gold)
        relevant = self.relevant.get(query.id)
        return None if relevant is None else bool(relevant)

    def found_in(self, ranking: Ranked | None) -> Sequence[RankingFacts]:
        """Return what a ranking has of the gold documents of every query."""
        if ranking is None:
            return Mapped(lambda query: self._judged(query, 0), self.plan.ids)
        if ranking.name not in self._found:
            self._found[ranking.name] = list(self._look(ranking))
        return self._found[ranking.name]

    def _look(self, ranking: Ranked) -> Iterator[RankingFacts]:
        run, outcomes = ranking.run, ranking.outcomes
        ranks, strange = self._ranks(ranking), self._is_strange(run)
        depths = dict(zip(run.query_ids, np.diff(run.starts).tolist(), strict=True))
        may_fail = not isinstance(outcomes, FileRankings)  # what a file lacks is no failure
        for row, query in enumerate(self.plan.queries):
            failed = outcomes[row].cause if may_fail and outcomes[row].value is None else None
            if failed is not None and failed is not Cause.SCORED:
                yield self._judged(query.id, 0)._replace(failed=failed.word)
                continue
            one = self._judged(query.id, depths.get(query.id, 0), ranks.get(query.id, ()))
            if strange and one.gold:
                one = RankingFacts(retrieved=one.retrieved, ranks=one.ranks)
            words = self.words(row) if one.gold is None else None
            if words is not None and words.can_be_found:
                value = outcomes[row].value
                hits = [] if value is None else value.documents[:_LOOKED_AT]
                passages = [document_of(hit, self.plan.corpus) for hit in hits]
                if not hits or any(passages):
                    ranks_with_answer = (
                        rank
                        for rank, passage in enumerate(passages, start=1)
                        if passage is not None
                        and words.share(passage.full_text).reaches(self.rules.words)
                    )
                    rank = next(ranks_with_answer, 0)
                    one = one._replace(answer_rank=rank, retrieved=len(hits))
            yield one

    def _is_strange(self, run: Run) -> bool:
        """Whether no judgement has an id of the hits, so that judgements say nothing of them."""
        if self.qrels is None or self.plan.config.metrics.retrieval.match.level == "text":
            return False
        judged, corpus = set(self._names), self.plan.corpus or ()
        # some at a time: mostly one of the first is known
        parts = (run.documents[start : start + 1_000] for start in range(0, len(run), 1_000))
        hits = chain.from_iterable(parts)
        return len(run) > 0 and not any(name in judged or name in corpus for name in hits)

    def _ranks(self, ranking: Ranked) -> dict[str, tuple[tuple[int, str], ...]]:
        """Query -> rank and id of each relevant document that a ranking has, best first."""
        if (qrels := self.qrels) is None:
            return {}
        ranks = ranking.ranks(qrels, self.plan.config.metrics.retrieval)
        rows = np.flatnonzero((ranks > 0) & (qrels.grades >= self.rules.relevant))
        query = np.searchsorted(qrels.starts, rows, "right") - 1
        rows = rows[rank_order(query, ranks[rows])]
        names = map(self._names.__getitem__, rows.tolist())
        pairs = tuple(zip(ranks[rows].tolist(), names, strict=True))
        starts = np.searchsorted(query, np.arange(len(qrels.query_ids) + 1)).tolist()
        return {
            query: pairs[start:end]
            for query, start, end in zip(qrels.query_ids, starts, starts[1:], strict=False)
            if start < end
        }

    def _judged(
        self, query: str, retrieved: int, ranks: tuple[tuple[int, str], ...] = ()
    ) -> RankingFacts:
        """What is known of a query's gold before the texts of a ranking are looked at."""
        gold, example, missing = self._documents.get(query, (None, "", ()))
        return RankingFacts(None, gold, example, missing, ranks, retrieved)

    @cached_property
    def _documents(self) -> Mapping[str, tuple[int, str, tuple[str, ...]]]:
        """Judged query -> how many documents are relevant, one of them, those not in the corpus."""
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
class _Answering:
    gold: _Gold
    source: System
    answers: Answers
    ranking: Ranked | None
    system: SystemScores

    @cached_property
    def samples(self) -> list[Sequence[Outcome[Prediction]]]:
        """The outcomes sample by sample, each with one per query."""
        return [each.outcomes for each in self.answers.each()]

    @cached_property
    def ids(self) -> Mapping[str, Mapping[str, str]]:
        """Query -> passage -> the id by which it was scored."""
        if self.ranking is None:
            return {}
        return scored_ids(self.ranking, self.gold.plan)

    def column(self, name: str | None, rubric: str | None = None) -> ScoreColumn | None:
        """Return the score that the config names, or else a rubric of a judge that understands."""
        columns = self.system.columns
        if name is not None:
            found = find_score(name, list(columns))
            several = (each for each in columns if each.startswith(f"{name}(judge="))
            return columns.get(found or next(several, ""))
        for judge in self.gold.plan.judges:
            of = columns.get(self.gold.plan.judge_score(str(rubric), judge))
            if of is not None:
                return of
        return None


def _of_answers(asked: _Answering) -> Iterator[Lost]:
    rules, gold = asked.gold.rules, asked.gold
    right = asked.column(rules.right.measure, "correctness")
    supported = asked.column(rules.supported.measure, "faithfulness")
    recall, refusal = asked.column(None, "context_recall"), asked.column(None, "refusal")
    # a control gets other passages than any retriever found
    ranked = asked.source.control is None
    found = gold.found_in(asked.ranking if ranked else None)
    for row in range(len(asked.gold.plan.queries)):
        said, facts = _said(asked, row), found[row]
        if said.failed is None:
            is_right, right_how = _right(asked, right, row)
            is_supported, supported_how = _reached(supported, row, rules.supported.min)
            holds, holds_how = _holds(asked, recall, row, facts)
            is_refusal, how = _reached(refusal, row, 0.5, oriented=False)
            said = replace(
                said,
                is_right=is_right,
                right_how=right_how,
                is_supported=is_supported,
                supported_how=supported_how,
                holds_answer=holds,
                holds_how=holds_how,
            )
            if is_refusal is not None:
                said = replace(said, refuses=is_refusal, refuses_how=f"declines ({how})")
        if asked.ranking is None and ranked and said.read is None:
            facts = RankingFacts()  # an app that never says what it retrieved
        yield cause_of_answer(facts, said, rules, answerable=gold.answerable[row])


def _said(asked: _Answering, row: int) -> AnswerFacts:
    """What an answer is, before anything is compared."""
    outcomes = [sample[row] for sample in asked.samples]
    known = [outcome.value for outcome in outcomes if outcome.value is not None]
    if not known:
        cause = outcomes[0].cause
        return AnswerFacts(failed=cause.word, was_asked=cause.failed or cause is Cause.SCORED)
    refusing = [how for how in (refuses(each.answer) for each in known) if how is not None]
    said = AnswerFacts(
        refuses=2 * len(refusing) > len(known),
        refuses_how=refusing[0] if refusing else "declines",
    )
    contexts = known[0].contexts
    if contexts is None:
        generator = asked.source.generator
        return replace(said, passages=asked.gold.plan.passages(generator) if generator else None)
    query = asked.gold.plan.ids[row]
    relevant = set(asked.gold.relevant.get(query, ()))
    scored = asked.ids.get(query, {})
    names = [passage.id for passage in contexts]
    read = frozenset(scored.get(name, name) for name in names) & relevant
    if asked.ranking is not None and asked.source.control is None and not read and names:
        hits = asked.ranking.outcomes[row].value
        if hits is None or not {hit.id for hit in hits.documents} & set(names):
            return replace(said, passages=len(contexts))  # ids of its own: the ranks have to tell
    return replace(said, passages=len(contexts), read=read)


def _right(asked: _Answering, column: ScoreColumn | None, row: int) -> tuple[bool | None, str]:
    """Whether an answer is right, by the score that decides, or else by the gold words."""
    rules = asked.gold.rules.right
    decided, how = _reached(column, row, rules.min)
    if decided is not None or rules.measure is not None:
        return decided, how or f"{rules.measure} has no value"
    words = asked.gold.words(row)
    if words is None:
        return None, ""
    answers = [sample[row].value for sample in asked.samples]
    shares = [words.share(each.answer) for each in answers if each is not None]
    right = [share for share in shares if share.reaches(rules.words)]
    decided = 2 * len(right) >= len(shares)
    shown = next(share for share in shares if share.reaches(rules.words) is decided)
    return decided, f"the answer {shown.says}"


def _holds(
    asked: _Answering, recall: ScoreColumn | None, row: int, found: RankingFacts
) -> tuple[bool | None, str]:
    """Whether the passages of a query that is not judged tell the gold answer."""
    if found.gold is not None:
        return None, ""
    decided, how = _reached(recall, row, 0.5)
    if decided is not None:
        return decided, how
    words, answers = asked.gold.words(row), [sample[row].value for sample in asked.samples]
    contexts = next((each.contexts for each in answers if each is not None), None)
    if words is None or contexts is None or not words.can_be_found:
        return None, ""
    share = words.share(" ".join(passage.full_text for passage in contexts))
    number = f"what was read, {len(contexts)} passages," if contexts else "what was read, nothing,"
    return share.reaches(asked.gold.rules.words), f"{number} {share.says}"


def _reached(
    column: ScoreColumn | None, row: int, least: float, *, oriented: bool = True
) -> tuple[bool | None, str]:
    """Whether a score reaches a threshold, the other way round where lower is better; and how."""
    value = math.nan if column is None else float(column.values[row])
    if column is None or math.isnan(value):
        return None, ""
    if oriented and column.direction == "lower":
        good = 1 - value >= least
        return good, f"{column.name} {value:.2g} {'<=' if good else '>'} {1 - least:.2g}"
    good = value >= least
    return good, f"{column.name} {value:.2g} {'>=' if good else '<'} {least:.2g}"
