"""The last stage of a run: the cause of each query by each system, where its answer was lost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragbench.comparison.cause_rules import (
    AnswerFacts,
    RankingFacts,
    cause_of_answer,
    cause_of_ranking,
)
from ragbench.comparison.causes import SystemCauses, cause_flows
from ragbench.comparison.gold import met_ranks
from ragbench.comparison.systems import find_score
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import Answers, Results, RetrieverRun
from ragbench.experiment.stages.answers import hits_of_passages
from ragbench.experiment.stages.base import Stage, Workspace
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.hits import stored_hits
from ragbench.experiment.stages.matching import hits_to_place, scored_ids
from ragbench.experiment.stages.model_judgements import JudgePassages
from ragbench.records.causes import Loss
from ragbench.text.refusals import refuses
from ragbench.types import Cause, Document, Prediction, ScoreColumn

# True, False or None where it is unknown; and the reason, empty where it is unknown.
Decision = tuple[bool | None, str]


class FindCauses(Stage):
    """Stage that finds the cause of each query from the results of other stages; stores nothing.

    `collect` sets `results.causes`, and replaces `results.comparisons`, which must be set.
    """

    def __init__(self, workspace: Workspace, judgements: JudgePassages) -> None:
        super().__init__(workspace, "")
        self._judgements = judgements

    def collect(self, results: Results) -> None:
        """Set `results.causes`, and add the flows between causes to `results.comparisons`.

        The comparisons must be set before, as `Compare` does.
        """
        plan = self.plan
        results.causes = find_causes(plan, results, self._judgements.gold)
        for name, ranking in results.rankings.items():
            rows = stored_hits(self._judgements.gold, ranking)
            if rows is not None:
                results.hits[name] = rows
        baselines = ((system.name, system.baseline) for system in plan.systems)
        flows = cause_flows(results.causes, baselines, plan.ids)
        results.comparisons = replace(results.comparisons, causes=flows)


def find_causes(plan: Plan, results: Results, gold: GoldFacts) -> dict[str, SystemCauses]:
    """Return the causes of all queries by the name of the system.

    A system without answers gets causes of its ranking alone; so does one with a ranking whose
    answers all have the cause `MISSING_ANSWER`. The time is that of a pass over the judged
    documents of each ranking; for queries without judgements the first hits are read as well, until
    one holds a gold answer. Systems are in the order of `results.systems`, and causes in that of
    the queries.
    """
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
                for row, facts in enumerate(gold.facts(ranking))
            )
        else:
            hits = ranking or results.rankings.get(plan.baseline or "")
            lost = _answer_causes(_SystemAnswers(gold, source, answers, ranking, hits, system))
        causes[system.name] = SystemCauses(list(lost))
    return causes


@dataclass
class _SystemAnswers:
    """Answers and scores of one system, beside the gold that they are compared with.

    `column` returns None for a score that the system lacks, `contexts` for a query without answer.

    Attributes:
        gold: Gold documents and answers, and the rules of causes.
        source: The system as it is planned.
        answers: Its answers to all queries.
        ranking: Its ranking; None for an app that returns no passages.
        hits: Ranking by whose hits its passages are placed: its own, or that of the baseline.
        system: The system with its score columns.
    """

    gold: GoldFacts
    source: System
    answers: Answers
    ranking: RetrieverRun | None
    hits: RetrieverRun | None
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
    def read_gold(self) -> list[tuple[frozenset[str], bool]]:
        """(Names of the gold in the passages that were read, True for a passage of its document).

        In the order of the queries; empty for a query without gold spans or passages. Passages are
        placed by the hits of the ranking, those of a control by the hits of the baseline.
        """
        gold, plan, rankings = self.gold, self.gold.plan, []
        # controls have no ranking; an injection is a text that stands in no document
        retrieved = [[] for _ in plan.ids] if self.hits is None else hits_to_place(self.hits, plan)
        for row, hits in enumerate(retrieved):
            # a hit knows its document, which the passage that a generator gets may not have
            hit_of = {hit.id: hit for hit in hits}
            passages = hits_of_passages(self.contexts(row) or ())
            rankings.append([hit_of.get(passage.id, passage) for passage in passages])
        pieces = [gold.pieces.get(query, []) for query in plan.ids]
        spans = [[p.span for p in of if p.span is not None] for of in pieces]
        placed = gold.place(rankings, spans)
        rows = zip(pieces, placed.documents, placed.spans.passages, strict=True)
        met = [met_ranks(of, zip(names, places, strict=True)) for of, names, places in rows]
        return [(frozenset(n for _, n in ranks), bool(documents)) for ranks, documents in met]

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
    retrieved = gold.facts(system.ranking if reads_ranking else None)
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
    reads_document = bool(read_ids)
    if query in system.gold.pieces:
        read_ids, reads_document = system.read_gold[row]
    if system.ranking is not None and system.source.control is None and not read_ids and names:
        hits = system.ranking.outcomes[row].value
        if hits is None or not {hit.id for hit in hits.documents} & set(names):
            return replace(facts, passages=len(contexts))  # other ids: ranks decide
    return replace(facts, passages=len(contexts), read=read_ids, reads_document=reads_document)


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
