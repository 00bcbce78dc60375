"""Doubtful labels of a test set: a judge reads gold passages, and best hits that nobody judged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice

from ragbench.config.schema import ExperimentConfig, Fill
from ragbench.errors import DataError
from ragbench.experiment.audit.audited import AuditedSet
from ragbench.experiment.audit.questions import shorten
from ragbench.experiment.plan.components import open_models
from ragbench.experiment.plan.records import PlannedFill
from ragbench.experiment.plan.scores import plan_fill
from ragbench.experiment.records import judge_totals
from ragbench.llm import Budget
from ragbench.llm.usage import Totals
from ragbench.records.audit import Finding
from ragbench.records.manifest import Choices
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.verdicts import numbered_verdicts
from ragbench.types import Cause, Collection, Document, Query, Verdict
from ragbench.types.lookups import index_by_id


@dataclass(frozen=True, slots=True)
class LabelledPassage:
    """Passage of a question, with the grade that people gave it, as `labelled_passages` yields.

    Attributes:
        query: The question.
        document: The passage, which has a text.
        grade: Grade of people, above 0; None for an unjudged hit.
    """

    query: Query
    document: Document
    grade: int | None


@dataclass(frozen=True, slots=True)
class JudgedLabels:
    """Labels that a judge doubts, as `judge_labels` returns.

    Attributes:
        doubtful: Passages with a doubtful label, by query; gold comes before hits.
        findings: Finding on each of these passages.
        judged: Number of passages with a verdict.
        failed: Cause -> number of passages without a verdict.
        totals: Calls, tokens and cost of the judge.
    """

    doubtful: Sequence[LabelledPassage]
    findings: Sequence[Finding]
    judged: int
    failed: Mapping[str, int]
    totals: Totals

    @property
    def is_unreachable(self) -> bool:
        """True if requests were sent, and the server served none."""
        return 0 < self.totals.unreachable == self.totals.failed and not self.totals.calls


def judge_labels(
    config: ExperimentConfig, collection: Collection, audited: AuditedSet, advance: Advance
) -> JudgedLabels:
    """Return the labels that the judge of a config doubts.

    By the rules of `metrics.retrieval.fill`, or its defaults, the judge grades gold passages, and
    of each stored ranking the best `depth` hits that nobody judged. Gold is doubtful if its level
    is below `relevant_from`, by default half of the levels; gold in the lower half of people's
    grades only at the lowest level. A hit is doubtful from `relevant_from` on.

    Args:
        config: Names the judge, its rules and the budget.
        collection: The data set.
        audited: The same data set, as checks read it.
        advance: Counts passages for the progress display.

    Raises:
        ConfigError: The judge refuses an option, or its key is missing.
        OptionError: The judge cannot apply the rubric.
        DataError: There is no judge, it is left out, or it is unclear which one reads passages.
        AdapterError, MissingExtra: The judge cannot be created.
    """
    # the rules of `fill`, so that a later run with `fill` reads the same replies from the store
    fill = plan_passage_judge(config)
    passages = list(labelled_passages(collection, audited, fill.rules.depth))
    items = []
    for passage in passages:
        query, texts = passage.query, [passage.document.full_text]
        items.append(JudgedItem(query.text, None, texts, query_id=query.id, turns=query.turns))
    # `metrics.retrieval.fill` names one rubric, so that a passage has one verdict
    judge, rubric = fill.judge.judge, fill.rubric
    with open_models({fill.name: fill.judge}, config, budget=Budget(**asdict(config.budget))):
        verdicts = {}
        for number, by_rubric in numbered_verdicts(judge, items, [rubric]):
            verdicts[number] = by_rubric[rubric.name]
            advance(1)
        totals = judge_totals(fill.judge)
    # the best grade that occurs, since files of judgements do not declare a scale
    top = max((p.grade or 0 for p in passages), default=0)
    doubtful, findings, failed = [], [], Counter[str]()
    for number, passage in enumerate(passages):
        verdict = verdicts.get(number)  # None if the time was up before
        if verdict is None or verdict.score is None:
            failed[Cause.OVER_BUDGET.word if verdict is None else verdict.cause] += 1
        elif _is_doubtful(passage, level := _level(verdict, fill), fill, top):
            doubtful.append(passage)
            findings.append(_finding(audited, passage, fill, level, verdict))
    return JudgedLabels(doubtful, findings, len(passages) - failed.total(), failed, totals)


def labelled_passages(
    collection: Collection, audited: AuditedSet, depth: int
) -> Iterator[LabelledPassage]:
    """Yield the gold passages of each query, then its best unjudged hits, each passage once.

    Hits are the first `depth` of each stored ranking that nobody judged. Passages without a text
    are left out, and all hits if judged ids need not be ids of the corpus.
    """
    corpus = index_by_id(audited.corpus or ())
    # records may have no corpus: then the texts of their own passages are judged
    recorded = dict[str, Document]()
    for answered in chain.from_iterable(collection.recorded_answers.values()):
        recorded |= index_by_id(answered.ranking or ())
    rankings = audited.rankings.values() if audited.matches_ids else ()
    for query in audited.queries:
        judged = audited.judged.get(query.id, {})
        for document in audited.gold_documents(query):
            yield LabelledPassage(query, document, judged[document.id])
        # a hit of several rankings is one call
        candidates: dict[str, None] = {}
        for ranking in rankings:
            unjudged = (name for name in ranking.get(query.id, ()) if name not in judged)
            candidates |= dict.fromkeys(islice(unjudged, depth))
        for name in candidates:
            hit = corpus.get(name) or recorded.get(name)
            if hit is not None and hit.full_text.strip():
                yield LabelledPassage(query, hit, None)


def plan_passage_judge(config: ExperimentConfig) -> PlannedFill:
    """Return the judge of passages with its rules; `when: available` alone checks key and packages.

    Raises:
        DataError: No judge is named or clear, it is left out, or a file of nuggets or of a rubric
            is wrong.
        ConfigError: The judge refuses an option.
        OptionError: A rubric is unknown, or the judge cannot apply it.
        AdapterError: Code of the user fails, or returns no judge.
    """
    rules, judges = config.metrics.retrieval, config.metrics.judges or {}
    # to take the first of several judges would spend money on one that the user did not choose
    if rules.fill is None and len(judges) != 1:
        problem = f"{len(judges)} judges, and `fill` does not name the one that reads passages"
        allowed = "one judge as metrics.judge, or metrics.retrieval.fill: {judge: NAME}"
        raise DataError(problem, file=config.path, record="metrics", allowed=allowed)
    rules = replace(rules, fill=rules.fill or Fill(judge=next(iter(judges))))
    config = replace(config, metrics=replace(config.metrics, retrieval=rules))
    fill, reason = plan_fill(config, Choices(), {}, calls=True)
    if fill is None:
        raise DataError(reason, file=config.path, record="metrics.judge")
    return fill


def _is_doubtful(passage: LabelledPassage, level: int, fill: PlannedFill, top: int) -> bool:
    """Return True if a level contradicts the grade of a passage, by the rules of `judge_labels`."""
    relevant_from = fill.rules.relevant_from or fill.rubric.levels // 2 + 1
    if passage.grade is None:
        return level >= relevant_from
    # a passage that people grade as related may not answer the question
    return level < (relevant_from if 2 * passage.grade > top else 2)


def _level(verdict: Verdict, fill: PlannedFill) -> int:
    """Return the level of a scored verdict, rounded with halves down as for `fill`."""
    level = verdict.level
    if level is None:
        level = 1 + (verdict.score or 0) * (fill.rubric.levels - 1)
    # not round(), which rounds halves to even: 2.5 and 3.5 would go in different directions
    return math.ceil(level - 0.5)


def _finding(
    audited: AuditedSet, passage: LabelledPassage, fill: PlannedFill, level: int, verdict: Verdict
) -> Finding:
    """Return the finding on a doubtful label, with the reason of the judge."""
    name, query = passage.document.id, passage.query
    kind, label = "label_suspected_wrong", f"of grade {passage.grade} for"
    if passage.grade is None:
        kind, label = "label_suspected_missing", "an unjudged hit of"
    problem = f"document {name}, {label} query {query.id}, has level {level} of "
    problem += f"{fill.rubric.levels} by judge {fill.name}: {shorten(verdict.reasoning)}"
    return audited.finding(kind, query, problem, document=name)
