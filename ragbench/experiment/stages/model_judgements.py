"""Stage of a judge that grades the pairs of query and passage without a human judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ragbench.config.schema import RetrievalMetrics
from ragbench.experiment.plan.records import PlannedFill
from ragbench.experiment.records import Filled, Results, RetrieverRun, judge_totals, judge_use
from ragbench.experiment.stages.base import Stage, Step, Workspace
from ragbench.experiment.stages.comparison import model_warnings
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.judging import Verdicts
from ragbench.experiment.stages.matching import document_of
from ragbench.experiment.stages.retrieval import Rank
from ragbench.records.manifest import VerdictRow
from ragbench.records.summary import FillCounts
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.verdicts import JudgeResults, levels_note, mixed_rubrics
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.types import Document, Qrels

# Parts of a judge's signature that the fingerprint of the grades replaces.
_REPLACED_PARTS = ("queries", "gold", "v")


def _pool(
    rankings: Sequence[RetrieverRun],
    depth: int,
    corpus: Mapping[str, Document],
    rules: RetrievalMetrics,
) -> Iterator[tuple[str, JudgedItem]]:
    """Yield id and item of the first `depth` hits of all retrievers, query by query.

    A passage that several retrievers return is yielded once. Its text is that of the corpus, else
    that of the first retriever that returns one, else empty.
    `rankings` may be empty, and then nothing is yielded. The order is that of the retrievers, best
    hits first.
    """
    # an average over ties has no single order; the pool needs one
    ties = "docid" if rules.ties == "average" else rules.ties
    orders = [ranked_documents(r.run, ties=ties, trec_eval=rules.trec_eval) for r in rankings]
    queries = rankings[0].queries if rankings else ()
    for row, query in enumerate(queries):
        pool: dict[str, str] = {}
        for ranking, order in zip(rankings, orders, strict=True):
            best = order.get(query.id, [])[:depth]
            # id -> text of the hits: the corpus' where it has them, else the retriever's
            texts, value = dict[str, str](), ranking.outcomes[row].value
            for hit in reversed([] if value is None else value.documents):
                passage = corpus.get(hit.id) or document_of(hit, corpus)
                texts[hit.id] = "" if passage is None else passage.full_text
            for document in best:
                # a retriever may return ids alone where another one brings the text
                pool[document] = pool.get(document) or texts.get(document, "")
        for document, text in pool.items():
            yield (
                document,
                JudgedItem(query.text, None, [text], query_id=query.id, turns=query.turns),
            )


def _grade(document: str, row: VerdictRow, fill: PlannedFill) -> VerdictRow:
    """Return a verdict with the passage id and its grade; the grade is None if it failed.

    Without a level, the score (0 to 1) is mapped to the levels.
    """
    grade = None
    if row.score is not None:
        level = 1 + row.score * (fill.rubric.levels - 1) if row.level is None else row.level
        grade = fill.grade_of(level)
    return replace(row, document_id=document, grade=grade, by="model", judge=fill.name)


def _qrels_source(
    fill: PlannedFill,
    judged: JudgeResults,
    people: Qrels | None,
    grades: Mapping[str, Mapping[str, int]],
) -> str | None:
    if not grades:
        return None
    parts = {
        "people": None if people is None else people.fingerprint(),
        "grades": Qrels.from_dict(grades).fingerprint(),
        "depth": fill.rules.depth,
        "relevant_from": fill.rules.relevant_from,
        **{
            key: value
            for key, value in judged.columns[fill.rubric.name].signature.parts
            if key not in _REPLACED_PARTS
        },
    }
    details = ",".join(f"{key}={value}" for key, value in parts.items() if value is not None)
    return f"{'' if people is None else 'people+'}model({fill.rubric.name},{details})"


def _fill_warnings(fill: PlannedFill, counts: FillCounts, people: Qrels | None) -> list[str]:
    """Return warnings on passages that stay unjudged, and on unequal scales of the grades.

    [] without any.
    """
    warnings, failed = [], sum(counts.failed.values())
    if failed:
        causes = ", ".join(f"{count} {cause}" for cause, count in counts.failed.items())
        warnings.append(
            f"fill: judge {fill.name}: {failed} of {failed + counts.model} passages could not "
            f"be graded ({causes}); they stay unjudged, which measures take for not relevant"
        )
    if counts.without_text:
        warnings.append(
            f"fill: {counts.without_text} passages have no text and stay unjudged, which "
            "measures take for not relevant"
        )
    human_top = int(people.grades.max()) if people is not None and len(people) else 0
    if counts.model and human_top >= 1 and human_top != fill.top_grade:
        warnings.append(
            f"fill: people grade up to {human_top}, the model up to {fill.top_grade}: the same "
            "relevance counts differently; a rubric with as many levels, or `relevant_from` for "
            "grades of 0 and 1, would agree"
        )
    return warnings


class JudgePassages(Stage):
    """Stage that fills the qrels by a judge, which grades hits of all rankings.

    `filled` has all judgements with the counts, and `qrels` those alone; the first access of either
    asks the judge. Without `metrics.retrieval.fill` it does nothing: `qrels` are those of people.

    References:
        Upadhyay et al. (2024), UMBRELA: open-source reproduction of the Bing RELevance Assessor.
    """

    place = 1

    def __init__(self, workspace: Workspace, ranks: Sequence[Rank]) -> None:
        fill = workspace.plan.fill
        super().__init__(workspace, "" if fill is None else f"judge passages ({fill.name})")
        self._ranks = ranks

    @property
    def qrels(self) -> Qrels | None:
        """Judgements of people and of the model, as `filled` makes them.

        Without a fill those of people, None without any.
        """
        return self.plan.qrels if self.filled is None else self.filled.qrels

    @cached_property
    def gold(self) -> GoldFacts:
        """Gold of the queries by these judgements, and the ranks at which rankings meet it."""
        return GoldFacts(self.plan, self.qrels)

    @property
    def source(self) -> str | None:
        """Origin of the judgements for signatures; None without a grade of the model.

        The first access judges, as that of `filled`.
        """
        return None if self.filled is None else self.filled.source

    @cached_property
    def filled(self) -> Filled | None:
        """Judgements of people, and of the model on hits without any; None without a fill.

        The first access sends the requests. Each pair of query and passage is graded once, however
        many retrievers returned it. A pair whose judgement fails stays unjudged, and is counted.
        Without any grade the qrels are empty, not None.
        """
        plan, fill = self.plan, self.plan.fill
        if fill is None:
            return None
        people = {} if plan.qrels is None else plan.qrels.by_query
        rankings = [rank.ranking for rank in self._ranks if rank.ranking is not None]
        pool = list(_pool(rankings, fill.rules.depth, plan.corpus, plan.config.metrics.retrieval))
        unjudged = [
            (name, item) for name, item in pool if name not in people.get(item.query_id, {})
        ]
        pairs = [(name, item) for name, item in unjudged if "".join(item.contexts or ()).strip()]
        items = [item for _, item in pairs]
        totals, grading = judge_totals(fill.judge), replace(fill.judge, rubrics=[fill.rubric])
        judged = Verdicts(self.workspace, self.title, fill.name, grading, items).collected()
        rows = [_grade(name, row, fill) for (name, _), row in zip(pairs, judged.rows, strict=True)]
        grades: dict[str, dict[str, int]] = {}
        for row in rows:
            if row.grade is not None and row.document_id is not None:
                grades.setdefault(row.query_id, {})[row.document_id] = row.grade
        # grades of people replace those of the model
        merged = {q: {**grades.get(q, {}), **people.get(q, {})} for q in {**people, **grades}}
        use = judge_use(fill.judge, judged, totals)
        counts = FillCounts(
            judge=fill.name,
            model_name="+".join(judged.models),
            rubric=fill.rubric.name,
            depth=fill.rules.depth,
            pairs=len(pool),
            people=len(pool) - len(unjudged),
            model=sum(map(len, grades.values())),
            failed=dict(Counter(row.cause for row in rows if row.status == "failed")),
            without_text=len(unjudged) - len(pairs),
            judging=use.summary(),
        )
        warnings = model_warnings("fill", fill.name, fill.judge, judged)
        if rubrics := mixed_rubrics([judged.weightings]):
            warnings.append(f"fill: {levels_note(rubrics)}")
        return Filled(
            qrels=Qrels.from_dict(merged),
            source=_qrels_source(fill, judged, plan.qrels, grades),
            counts=counts,
            rows=rows,
            use=use,
            warnings=[*_fill_warnings(fill, counts, plan.qrels), *warnings],
        )

    def collect(self, results: Results) -> None:
        """Judge the pairs without a stored verdict, and add judgements and warnings to the results.

        Sets `results.filled`, also if no pair got a grade. Without a fill, `results` is unchanged.
        """
        if self.filled is not None:
            results.filled = self.filled
            results.warnings += self.filled.warnings

    def forecast(self) -> Step | None:
        """Return a step with an upper limit: first hits of every retriever, none shared.

        None without a fill.
        """
        fill = self.plan.fill
        if fill is None:
            return None
        items = [self.workspace.example_item(row, 1) for row in range(len(self.plan.queries))]
        count = len(items) * fill.rules.depth * max(len(self.plan.scored_retrievers), 1)
        node = Step(self.title, count, 0, "passages", at_most=True)
        if isinstance(fill.judge.judge, ModelJudge):
            cost = rehearse(fill.judge.judge, items, [fill.rubric])
            node.cost = cost.times(count / max(len(items), 1))
        return node
