"""Stage of a judge that grades the pairs of query and passage without a human judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from ragbench.experiment.plan.records import Plan, PlannedFill
from ragbench.experiment.records import Filled, Results, RetrieverRun, Work, judge_use
from ragbench.experiment.stages.base import Outputs, Stage, Step, example_item
from ragbench.experiment.stages.comparison import model_warnings
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.judging import Verdicts
from ragbench.experiment.stages.matching import document_of
from ragbench.experiment.stages.resources import Resources
from ragbench.experiment.stages.retrieval import BuildRanking
from ragbench.llm import Totals
from ragbench.records.manifest import VerdictRow
from ragbench.records.summary import FillCounts
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.model_judge import ModelJudge, rehearse
from ragbench.score.judge.verdicts import JudgeResults, levels_note, mixed_rubrics
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.types import Qrels, Verdict
from ragbench.types.display import list_counts

# Parts of a judge's signature that the fingerprint of the grades replaces.
_REPLACED_PARTS = ("queries", "gold", "v")


def _pool(
    plan: Plan, rankings: Sequence[RetrieverRun], depth: int
) -> Iterator[tuple[str, JudgedItem]]:
    """Yield id and item of the first `depth` hits of all retrievers, query by query."""
    rules, corpus = plan.config.metrics.retrieval, plan.corpus
    # an average over ties has no single order; the pool needs one
    ties = "docid" if rules.ties == "average" else rules.ties
    orders = []
    for ranking in rankings:
        orders.append(ranked_documents(ranking.run, ties=ties, trec_eval=rules.trec_eval))
    for row, query in enumerate(plan.queries if rankings else ()):
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
    """Return a verdict with the passage id and its grade; the grade is None if it failed."""
    grade = None
    if row.score is not None:
        level = 1 + row.score * (fill.rubric.levels - 1) if row.level is None else row.level
        grade = fill.grade_of(level)
    return structs.replace(row, document_id=document, grade=grade, by="model", judge=fill.name)


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
    }
    for key, value in judged.columns[fill.rubric.name].signature.parts:
        if key not in _REPLACED_PARTS:
            parts[key] = value
    texts = []
    for key, part in parts.items():
        if part is not None:
            texts.append(f"{key}={part}")
    details = ",".join(texts)
    return f"{'' if people is None else 'people+'}model({fill.rubric.name},{details})"


def _fill_warnings(fill: PlannedFill, counts: FillCounts, people: Qrels | None) -> list[str]:
    """Return warnings on passages that stay unjudged, and on unequal scales of the grades."""
    warnings, failed = [], sum(counts.failed.values())
    if failed:
        causes = list_counts(counts.failed)
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


@dataclass(frozen=True, slots=True)
class Judgements:
    """Judgements by which rankings are scored, with the gold that they tell.

    Attributes:
        qrels: Judgements of people and of a model; None without any.
        gold: Gold of the queries by these judgements, and the ranks at which rankings meet it.
        filled: These judgements with the number of grades by a model; None if no model judges.
        ungraded: Pairs of query and passage whose verdict is pending.
    """

    qrels: Qrels | None
    gold: GoldFacts
    filled: Filled | None = None
    ungraded: Sequence[JudgedItem] = ()

    @property
    def source(self) -> str | None:
        """Origin of the judgements for signatures; None without a grade of a model."""
        return None if self.filled is None else self.filled.source


class TakeJudgements(Stage[Judgements]):
    """Stage that takes the judgements of people, where no model judges passages."""

    def output(self, inputs: Outputs, values: Sequence[object]) -> Judgements:
        """Return the judgements of the data set."""
        return Judgements(self.plan.qrels, GoldFacts(self.plan, self.plan.qrels))


@dataclass(frozen=True, slots=True)
class PassagePool:
    """First hits of all rankings, for a model to grade.

    Attributes:
        pairs: Number of all pairs of query and passage.
        unjudged: Number of pairs that people have not judged.
        items: Passage id and item of the unjudged pairs whose passage has a text.
    """

    pairs: int
    unjudged: int
    items: Sequence[tuple[str, JudgedItem]]


class PoolPassages(Stage[PassagePool]):
    """Stage that collects the first hits of all rankings that people have not judged.

    Attributes:
        fill: Judge that grades them.
    """

    def __init__(self, plan: Plan, fill: PlannedFill, ranks: Sequence[BuildRanking]) -> None:
        super().__init__(plan, inputs=ranks)
        self.fill, self._ranks = fill, ranks

    def output(self, inputs: Outputs, values: Sequence[object]) -> PassagePool:
        """Return the pool; each pair is in it once, however many retrievers returned it."""
        plan, people = self.plan, _grades_of_people(self.plan)
        rankings = []
        for rank in self._ranks:
            ranking = inputs[rank]
            if ranking is not None:
                rankings.append(ranking)
        pool = list(_pool(plan, rankings, self.fill.rules.depth))
        unjudged = []
        for document, item in pool:
            if document not in people.get(item.query_id, {}):
                unjudged.append((document, item))
        with_text = []
        for document, item in unjudged:
            if "".join(item.contexts or ()).strip():
                with_text.append((document, item))
        return PassagePool(len(pool), len(unjudged), with_text)


class JudgePassages(Verdicts[Judgements]):
    """Stage that fills the qrels by a judge, which grades hits of all rankings.

    Each pair of query and passage is graded once. A pair whose judgement fails stays unjudged, and
    is counted. Without any grade the qrels are empty, not None.

    Attributes:
        fill: Judge that grades.

    References:
        Upadhyay et al. (2024), UMBRELA: open-source reproduction of the Bing RELevance Assessor.
    """

    place = 1
    unit = "passages"

    def __init__(self, resources: Resources, fill: PlannedFill, pool: Stage[PassagePool]) -> None:
        judge = replace(fill.judge, rubrics=[fill.rubric])
        title = f"judge passages ({fill.name})"
        super().__init__(resources, title, fill.name, judge, (pool,))
        self.fill, self._pool = fill, pool

    def judged_items(self, inputs: Outputs) -> Sequence[JudgedItem]:
        """Return the pairs of query and passage to grade."""
        return [item for _, item in inputs[self._pool].items]

    def output(self, inputs: Outputs, values: Sequence[Verdict | None]) -> Judgements:
        """Return the judgements of people, and of the model on hits without any."""
        plan, fill, pool = self.plan, self.fill, inputs[self._pool]
        items = self.judged_items(inputs)
        if None in values:
            verdicts = self.by_item(values)
            ungraded = []
            for item, graded in zip(items, verdicts, strict=True):
                if not graded:
                    ungraded.append(item)
            return Judgements(plan.qrels, GoldFacts(plan, plan.qrels), ungraded=ungraded)
        judged = self.results_of(items, values)
        people = _grades_of_people(plan)
        pairs = zip(pool.items, judged.rows, strict=True)
        rows = []
        for (document, _), row in pairs:
            rows.append(_grade(document, row, fill))
        grades = _grades_of_rows(rows)
        # grades of people replace those of the model
        merged = {}
        for query in {**people, **grades}:
            merged[query] = {**grades.get(query, {}), **people.get(query, {})}
        use = judge_use(judged, Totals())
        counts = FillCounts(
            judge=fill.name,
            model_name="+".join(judged.models),
            rubric=fill.rubric.name,
            depth=fill.rules.depth,
            pairs=pool.pairs,
            people=pool.pairs - pool.unjudged,
            model=sum(map(len, grades.values())),
            failed=dict(Counter(row.cause for row in rows if row.status == "failed")),
            without_text=pool.unjudged - len(pool.items),
            judging=use.summary(),
        )
        warnings = model_warnings("fill", fill.name, fill.judge, judged)
        if rubrics := mixed_rubrics([judged.weightings]):
            warnings.append(f"fill: {levels_note(rubrics)}")
        filled = Filled(
            qrels=Qrels.from_dict(merged),
            source=_qrels_source(fill, judged, plan.qrels, grades),
            counts=counts,
            rows=rows,
            use=use,
            warnings=[*_fill_warnings(fill, counts, plan.qrels), *warnings],
        )
        return Judgements(filled.qrels, GoldFacts(plan, filled.qrels), filled)

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add judgements and warnings to the results, also if no pair got a grade."""
        filled = outputs[self].filled
        if filled is not None:
            use = replace(filled.use, paid=outputs.paid(self))
            results.filled = replace(filled, use=use)
            results.warnings += filled.warnings

    def step(self, outputs: Outputs, work: Work | None) -> Step:
        """Return a step with the missing verdicts and their cost.

        Before all hits are there, it is an upper limit: first hits of every retriever, none shared.
        """
        fill, plan, model = self.fill, self.plan, self.fill.judge.judge
        if self in outputs:
            node = self.node(work, 0)
            if isinstance(model, ModelJudge):
                node.cost = rehearse(
                    model, outputs[self].ungraded, [fill.rubric], self._resources.counted
                )
            return node
        items = [example_item(plan, row, 1) for row in range(len(plan.queries))]
        count = len(items) * fill.rules.depth * max(len(plan.scored_retrievers), 1)
        node = Step(self.title, count, 0, "passages", at_most=True)
        if isinstance(model, ModelJudge):
            cost = rehearse(model, items, [fill.rubric], self._resources.counted)
            node.cost = cost.times(count / max(len(items), 1))
        return node


def _grades_of_people(plan: Plan) -> Mapping[str, Mapping[str, int]]:
    """Return query -> document -> grade of people; empty without any."""
    return {} if plan.qrels is None else plan.qrels.by_query


def _grades_of_rows(rows: Sequence[VerdictRow]) -> dict[str, dict[str, int]]:
    """Return query -> document -> grade of a model, without failed verdicts."""
    grades: dict[str, dict[str, int]] = {}
    for row in rows:
        if row.grade is not None and row.document_id is not None:
            grades.setdefault(row.query_id, {})[row.document_id] = row.grade
    return grades
