"""Causes of queries by each system: whether an answer is right, or where it was lost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from ragbench.comparison.cause_rules import (
    AnswerFacts,
    RankingFacts,
    cause_of_answer,
    cause_of_ranking,
    right_value,
)
from ragbench.comparison.causes import SystemCauses
from ragbench.comparison.gold import find_answer, met_ranks
from ragbench.comparison.matching import QUERY_PARTS
from ragbench.comparison.systems import find_score
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.records import System
from ragbench.experiment.records import Answers, Results, RetrieverRun
from ragbench.experiment.stages.answers import hits_of_passages
from ragbench.experiment.stages.base import Stage, Workspace
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.hits import read_depth, stored_hits
from ragbench.experiment.stages.matching import hits_to_place, scored_ids
from ragbench.experiment.stages.model_judgements import JudgePassages
from ragbench.records.causes import RIGHT, Loss
from ragbench.score.text.columns import gold_print, shared_signature
from ragbench.score.text.notation import parse_metric
from ragbench.score.text.right import judged_signature
from ragbench.signature import Signature, fingerprint
from ragbench.text.refusals import refuses
from ragbench.types import Cause, Document, Prediction, ScoreColumn

# True, False or None where it is unknown; and the reason, empty where it is unknown.
Decision = tuple[bool | None, str]


class FindCauses(Stage):
    """Stage that finds the cause of each query, and the metric `right`; stores nothing.

    It reads the results of all stages but the comparison. `collect` sets `results.causes` and
    `results.hits`, and adds the column `right` to each system that answers.
    """

    def __init__(self, workspace: Workspace, judgements: JudgePassages) -> None:
        super().__init__(workspace)
        self._judgements = judgements

    def collect(self, results: Results) -> None:
        """Set the causes and stored hits, and add a column `right` to each system that answers."""
        gold, causes = self._judgements.gold, dict[str, SystemCauses]()
        for system in results.systems:
            answers = _system_answers(gold, results, system)
            if answers is None:
                ranking = results.rankings.get(self.plan.system(system.name).ranking_of or "")
                losses = [
                    cause_of_ranking(facts, gold.rules, answerable=gold.answerable[row])
                    for row, facts in enumerate(gold.facts(ranking))
                ]
            else:
                verdicts = list(_answer_verdicts(answers))
                losses = [verdict.loss for verdict in verdicts]
                # without gold answers and judges, nothing tells of any question
                tells = (Cause.SCORED, Cause.UNSURE_REFUSAL)
                if self.plan.collection.answers or any(v.unscored in tells for v in verdicts):
                    column = _right_column(answers, verdicts)
                    results.add_first(system.name, column, "generation")
            causes[system.name] = SystemCauses(losses)
        results.causes = causes
        for name, ranking in results.rankings.items():
            depth = read_depth(self.plan, results.answers, name)
            rows = stored_hits(gold, ranking, depth)
            if rows is not None:
                results.hits[name] = rows


def _system_answers(
    gold: GoldFacts, results: Results, system: SystemScores
) -> _SystemAnswers | None:
    """Return the answers of a system; None for a system with a ranking alone.

    Recorded systems may have passages and no answer: all of their answers are `MISSING_ANSWER`.
    """
    plan, answers = gold.plan, results.answers.get(system.name)
    source = plan.system(system.name)
    ranking = results.rankings.get(source.ranking_of or "")
    if answers is None:
        return None
    if ranking is not None and all(
        o.value is None and o.cause is Cause.MISSING_ANSWER for o in answers.outcomes
    ):
        return None
    hits = ranking or results.rankings.get(plan.baseline or "")
    return _SystemAnswers(gold, source, answers, ranking, hits, system)


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
            by_id, by_text = {hit.id: hit for hit in hits}, {hit.text: hit for hit in hits}
            by_text.pop(None, None)
            passages = hits_of_passages(self.contexts(row) or ())
            rankings.append([by_id.get(p.id) or by_text.get(p.text, p) for p in passages])
        pieces = [gold.pieces.get(query, []) for query in plan.ids]
        spans = [[p.span for p in of if p.span is not None] for of in pieces]
        placed = gold.place(rankings, spans)
        rows = zip(pieces, placed.documents, placed.spans.passages, strict=True)
        gold_ranks = [met_ranks(of, zip(names, places, strict=True)) for of, names, places in rows]
        return [
            (frozenset(n for _, n in ranks), bool(documents)) for ranks, documents in gold_ranks
        ]

    @cached_property
    def correctness(self) -> ScoreColumn | None:
        """Score that decides whether an answer is right; None where words decide."""
        return self.column(self.gold.rules.right.measure, "correctness")

    @cached_property
    def faithfulness(self) -> ScoreColumn | None:
        """Score that decides whether an answer is supported by its passages; None without one."""
        return self.column(self.gold.rules.supported.measure, "faithfulness")

    @cached_property
    def context_recall(self) -> ScoreColumn | None:
        """Score of a judge that tells whether the passages hold the gold answer."""
        return self.column(None, "context_recall")

    @cached_property
    def refusal(self) -> ScoreColumn | None:
        """Score of a judge that tells whether an answer declines."""
        return self.column(None, "refusal")

    @cached_property
    def claim_rubrics(self) -> frozenset[str]:
        """Names of the rubrics whose score is a share of claims."""
        judges = self.gold.plan.judges.values()
        rubrics = chain.from_iterable(judge.rubrics for judge in judges)
        return frozenset(rubric.name for rubric in rubrics if rubric.method == "claims")

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


class _Verdict(NamedTuple):
    """Cause of one query by a system that answers, and its value of the metric `right`."""

    loss: Loss
    right: float
    unscored: Cause


def _answer_verdicts(system: _SystemAnswers) -> Iterator[_Verdict]:
    """Yield the cause of each query of a system that answers, and whether the answer is right."""
    gold = system.gold
    # a control gets other passages than its retriever returned
    reads_ranking = system.source.control is None
    ranked = gold.facts(system.ranking if reads_ranking else None)
    for row, answerable in enumerate(gold.answerable):
        answer, facts = _answer_facts(system, row), ranked[row]
        if answer.failed is None:
            answer = _with_scores(system, answer, facts, row)
        if system.ranking is None and reads_ranking and answer.read is None:
            facts = RankingFacts()  # an app without passages: nothing tells what it retrieved
        loss = cause_of_answer(facts, answer, gold.rules, answerable=answerable)
        yield _Verdict(loss, *right_value(loss, answer, answerable=answerable))


def _with_scores(
    system: _SystemAnswers, answer: AnswerFacts, facts: RankingFacts, row: int
) -> AnswerFacts:
    """Return the facts of an answer with those that scores tell: right, supported, declining."""
    rules, column = system.gold.rules, system.correctness
    is_right, right_how = _is_right(system, row)
    is_supported, supported_how = _reaches(system.faithfulness, row, rules.supported.min)
    holds, holds_how = _holds_answer(system, facts, row)
    cause = Cause.SCORED if column is None else Cause(int(column.causes[row]))
    answer = replace(
        answer,
        unscored=cause if is_right is None else Cause.SCORED,
        is_right=is_right,
        right_how=right_how,
        is_supported=is_supported,
        has_unsupported=_has_unsupported(system, row),
        supported_how=supported_how,
        holds_answer=holds,
        holds_how=holds_how,
    )
    is_refusal, how = _reaches(system.refusal, row, 0.5, oriented=False)
    if is_refusal is not None:
        answer = replace(answer, refuses=is_refusal, refuses_how=f"declines ({how})")
    return answer


def _has_unsupported(system: _SystemAnswers, row: int) -> bool:
    """Return True if a judge found a claim of an answer without support in its passages.

    A score that is a share of claims has one below 1; another score, below its threshold.
    """
    column, least = system.faithfulness, system.gold.rules.supported.min
    if column is not None and column.name.partition("(")[0] in system.claim_rubrics:
        least = 1.0
    is_supported, _ = _reaches(column, row, least)
    return is_supported is False


def _right_column(system: _SystemAnswers, verdicts: Sequence[_Verdict]) -> ScoreColumn:
    """Return the column of the metric `right`, with everything that it depends on."""
    return ScoreColumn(
        RIGHT,
        np.array([verdict.right for verdict in verdicts]),
        np.array([verdict.unscored for verdict in verdicts], np.uint8),
        _right_signature(system),
        details={
            row: system.samples[0][row].detail
            for row, verdict in enumerate(verdicts)
            if verdict.unscored.failed
        },
    )


def _right_signature(system: _SystemAnswers) -> Signature:
    """Return the signature of `right`: the rule, the gold answers, and judges that decide.

    Where words alone decide, it is that of the metric of this name.
    """
    gold, rules = system.gold, system.gold.rules.right
    collection, column = gold.plan.collection, system.correctness
    answers = [tuple(collection.answers.get(query, ())) for query in gold.plan.ids]
    if column is None:
        metric = parse_metric(f"{RIGHT}(words={rules.words:g})")
        signed = shared_signature(metric, gold_print(answers))
    else:
        signed = judged_signature(column.signature, rules.min)
    # judges that decide some of the questions: those without a gold answer, and refusals
    judges = {"supported": None if all(answers) else system.faithfulness, "refusal": system.refusal}
    parts = {
        # other questions or gold answers are no other judge
        name: fingerprint([str(judge.signature.without(QUERY_PARTS))])
        for name, judge in judges.items()
        if judge is not None
    }
    return Signature(RIGHT, signed.parts).with_parts(**parts)


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
        was_asked = cause.failed or cause is Cause.SCORED
        return AnswerFacts(failed=cause.word, was_asked=was_asked, unscored=cause)
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


def _is_right(system: _SystemAnswers, row: int) -> Decision:
    """Return (whether the answer to a query is right, reason such as "f1 0.7 >= 0.5").

    By the score of the config or the judge; else by the share of gold words in the answers, of
    several samples in at least half of them. None where neither has a value, and where a named
    measure or a judgement has none. The caller has checked that an answer did not fail.
    """
    rules, column = system.gold.rules.right, system.correctness
    decision, how = _reaches(column, row, rules.min)
    has_failed = column is not None and Cause(int(column.causes[row])).failed
    if decision is not None or rules.measure is not None or has_failed:
        name = rules.measure if column is None else column.name
        return decision, how or f"{name} has no value"
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


def _holds_answer(system: _SystemAnswers, facts: RankingFacts, row: int) -> Decision:
    """Return (whether the passages of a query hold its gold answer, reason).

    By the judge's context recall, else by the share of gold words in the passages. None for a
    judged query, where ranks decide, and where neither has a value.
    """
    if facts.gold is not None:
        return None, ""
    decision, how = _reaches(system.context_recall, row, 0.5)
    if decision is not None:
        return decision, how
    words, contexts = system.gold.words(row), system.contexts(row)
    if words is None or contexts is None or not words.can_be_found:
        return None, ""
    rank, how = find_answer(words, contexts, system.gold.rules.words)
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
