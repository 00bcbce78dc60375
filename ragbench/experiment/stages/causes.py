"""Causes of queries by each system: whether an answer is right, or where it was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from ragbench.comparison.answer_verdicts import (
    AnswerRules,
    AnswerVerdict,
    DecidingScores,
    QuestionReply,
    reply_facts,
)
from ragbench.comparison.cause_rules import AnswerFacts, RankingFacts, cause_of_ranking
from ragbench.comparison.causes import SystemCauses
from ragbench.comparison.forbidden import forbidden_ranks, leak_read_column
from ragbench.comparison.gold import loss_of_answer, met_ranks
from ragbench.comparison.systems import find_score
from ragbench.data.runs.scored_systems import SystemScores
from ragbench.experiment.plan.records import Plan, System
from ragbench.experiment.records import (
    Answers,
    JudgedRight,
    Results,
    RetrieverRun,
    mean_over_samples,
    with_failures_of,
)
from ragbench.experiment.repeated_scores import is_judged, judge_of, judgements_of
from ragbench.experiment.stages.answers import hits_of_passages
from ragbench.experiment.stages.gold import GoldFacts
from ragbench.experiment.stages.hits import read_depth, stored_hits
from ragbench.experiment.stages.matching import scored_ids
from ragbench.experiment.stages.pass_rates import pass_column
from ragbench.experiment.stages.passages import hits_of
from ragbench.records.causes import LEAK_READ, Loss
from ragbench.score.retrieval.leak import ForbiddenRanks
from ragbench.types import Cause, Document, FloatArray, ScoreColumn, ScoredDocument
from ragbench.types.documents import record_ids
from ragbench.types.lookups import index_by_id


def find_causes(plan: Plan, gold: GoldFacts, results: Results) -> None:
    """Set the causes and stored hits of the results, and add a column `right`.

    Each repetition of a query has a cause. Each system that answers gets the column, the mean over
    the repetitions. The results have those of all stages.
    """
    causes = dict[str, SystemCauses]()
    for system in results.systems:
        repeats = _system_answers(gold, results, system)
        if not repeats:
            rankings = _rankings(plan, results, system)
            first, *further = [_ranking_losses(gold, ranking) for ranking in rankings]
            causes[system.name] = SystemCauses(first, further)
            continue
        _add_leak_read(plan, results, repeats)
        losses, columns, has_judge = [], [], False
        for answers in repeats:
            rules = AnswerRules(gold.rules, answers.scores)
            verdicts = list(_answer_verdicts(answers, rules))
            losses.append([verdict.loss for verdict in verdicts])
            columns.append(rules.column(verdicts, gold.references))
            has_judge = has_judge or any(verdict.is_judged for verdict in verdicts)
        causes[system.name] = SystemCauses(losses[0], losses[1:])
        # without gold answers and judges, nothing tells of any question
        if plan.collection.answers or has_judge:
            _add_right(plan, results, repeats[0].source, columns)
            if is_judged("generation", columns[0]):
                _add_judged_right(plan, results, repeats)
    results.causes = causes
    for name, ranking in results.rankings.items():
        depth = read_depth(plan, results.answers, name)
        rows = stored_hits(gold, ranking, depth)
        if rows is not None:
            results.hits[name] = rows
        for repeat in results.further_rankings.get(name, ()):
            if (rows := stored_hits(gold, repeat, depth)) is not None:
                results.further_hits.setdefault(name, {})[repeat.number] = rows


def _add_right(
    plan: Plan, results: Results, system: System, columns: Sequence[ScoreColumn]
) -> None:
    """Add `right`, the mean of the columns of the repetitions, and `pass^k` and `pass@k` of it."""
    results.add_first(system.name, mean_over_samples(columns), "generation")
    if len(columns) > 1:
        results.samples[system.name][columns[0].name] = list(columns)
    for entry in plan.pass_metrics():
        if (passes := pass_column(entry.metric, columns)) is not None:
            results.add_scores(system, {passes.name: passes}, "generation")


def _add_judged_right(plan: Plan, results: Results, repeats: Sequence[_SystemAnswers]) -> None:
    """Add `right` by each repetition of the judges that decide; nothing if none is repeated."""
    name = repeats[0].source.name
    tables, judges = dict[str, FloatArray](), dict[str, None]()
    for score in filter(None, repeats[0].scores.columns()):
        judge = judge_of(plan, score.name)
        if judge is None or judge[1].repeat == 1:
            continue
        values = [repeat.system.columns[score.name].values for repeat in repeats]
        table = judgements_of(results, name, judge, np.stack(values, axis=1)[..., None])
        if table.shape[2] > 1:
            tables[score.name], judges[judge[0]] = table, None
    if not tables:
        return
    # of judges with several numbers of repetitions, the common ones are read
    n = min(table.shape[2] for table in tables.values())
    right = np.full((len(plan.ids), len(repeats), n), np.nan)
    for answer, repeat in enumerate(repeats):
        for number in range(n):
            votes = {score: table[:, answer, number] for score, table in tables.items()}
            rules = AnswerRules(repeat.gold.rules, repeat.scores.with_votes(votes))
            right[:, answer, number] = [v.right for v in _answer_verdicts(repeat, rules)]
    results.judged_right[name] = JudgedRight((*judges,), right)


def _add_leak_read(plan: Plan, results: Results, repeats: Sequence[_SystemAnswers]) -> None:
    """Add `leak_read`, the mean of the repetitions; nothing without forbidden documents."""
    if not plan.collection.forbidden:
        return
    columns = []
    for repeat in repeats:
        contexts = [repeat.contexts(row) for row in range(len(plan.ids))]
        ranks = repeat.forbidden_ranks
        column = leak_read_column(ranks, contexts, plan.collection.fingerprint("forbidden"))
        columns.append(with_failures_of(repeat.answers, column))
    results.add_samples(repeats[0].source, LEAK_READ, columns, "generation")


def _rankings(plan: Plan, results: Results, system: SystemScores) -> list[RetrieverRun | None]:
    """Return the rankings of a system, one for each repetition; [None] without any."""
    name = plan.system(system.name).ranking_of or ""
    if name not in results.rankings:
        return [None]
    return [results.rankings[name], *results.further_rankings.get(name, ())]


def _ranking_losses(gold: GoldFacts, ranking: RetrieverRun | None) -> list[Loss]:
    """Return the cause of each query of a system that retrieves alone."""
    facts = zip(gold.facts(ranking), gold.answerable, strict=True)
    losses = []
    for fact, is_one in facts:
        losses.append(cause_of_ranking(fact, gold.rules, answerable=is_one))
    return losses


def _system_answers(
    gold: GoldFacts, results: Results, system: SystemScores
) -> list[_SystemAnswers]:
    """Return the answers of a system, by repetition; [] for a system with a ranking alone."""
    plan, answers = gold.plan, results.answers.get(system.name)
    source = plan.system(system.name)
    rankings = _rankings(plan, results, system)
    if answers is None:
        return []
    if rankings[0] is not None and all(
        o.value is None and o.cause is Cause.MISSING_ANSWER for o in answers.outcomes
    ):
        return []
    # a generator may read one ranking alone; each answer of an app has its own
    n_rankings = len(rankings) if source.generator is None else answers.rankings
    samples, repeats = results.samples.get(system.name, {}), []
    for number, part in enumerate(answers.by_sample()):
        ranking = rankings[number % n_rankings]
        hits = ranking or results.rankings.get(plan.baseline or "")
        columns = {}
        for name, of_samples in samples.items():
            if len(of_samples) == answers.samples:
                columns[name] = of_samples[number]
        scores = replace(system, columns={**system.columns, **columns})
        repeats.append(_SystemAnswers(gold, source, part, ranking, hits, scores))
    return repeats


@dataclass
class _SystemAnswers:
    """Answers of one repetition of a system with their scores, beside the gold of the queries."""

    gold: GoldFacts  # gold documents and answers, and the rules of causes
    source: System  # the system as it is planned
    answers: Answers  # an answer to each query
    ranking: RetrieverRun | None  # the ranking behind them; None for an app without passages
    # ranking by whose hits its passages are placed: its own, or that of the baseline
    hits: RetrieverRun | None
    system: SystemScores  # the system with its score columns

    @cached_property
    def ids(self) -> Mapping[str, Mapping[str, str]]:
        """Id by which each passage was scored, by query and passage id."""
        if self.ranking is None:
            return {}
        return scored_ids(self.ranking, self.gold.plan)

    def contexts(self, row: int) -> Sequence[Document] | None:
        """Return the passages of the answer to a query; None if it failed, or has none."""
        answer = self.answers.outcomes[row].value
        return None if answer is None else answer.contexts

    @cached_property
    def has_unknown_ids(self) -> bool:
        """True if judgements cannot tell what was read: no passage is judged or in the corpus."""
        if self.ranking is not None or self.gold.qrels is None:
            return False
        judged = {*self.gold.qrels.documents}
        names = set[str]()
        for row in range(len(self.gold.plan.ids)):
            names.update(record_ids(self.contexts(row) or ()))
        corpus = self.gold.plan.corpus
        return bool(names) and not any(name in judged or name in corpus for name in names)

    @cached_property
    def read_gold(self) -> list[tuple[frozenset[str], bool]]:
        """(Names of the gold in the passages that were read, True if its document was read)."""
        # Passages are placed by the hits of the ranking, those of a control by the hits of the
        # baseline.
        gold, plan = self.gold, self.gold.plan
        rankings = self.read_hits(plan.collection.gold_spans)
        pieces, spans = [], []
        for query in plan.ids:
            of_query = gold.pieces.get(query, [])
            pieces.append(of_query)
            spans.append([piece.span for piece in of_query if piece.span is not None])
        placed = gold.place(rankings, spans)
        read = []
        for row, names in enumerate(placed.documents):
            hits_with_places = zip(names, placed.spans.passages[row], strict=True)
            ranks, documents = met_ranks(pieces[row], hits_with_places)
            read.append((frozenset(name for _, name in ranks), bool(documents)))
        return read

    def read_hits(self, queries: Mapping[str, object]) -> list[list[ScoredDocument]]:
        """Return the passages that were read as hits with their documents, where these are known.

        Documents are looked for where `queries` has a value for the query.
        """
        # controls have no ranking; an injection is a text that stands in no document
        plan, rankings = self.gold.plan, []
        no_hits: list[list[ScoredDocument]] = [[] for _ in plan.ids]
        retrieved = no_hits if self.hits is None else hits_of(self.hits, plan, queries)
        for row, hits in enumerate(retrieved):
            # a hit knows its document, which the passage that a generator gets may not have
            by_id, by_text = index_by_id(hits), {hit.text: hit for hit in hits}
            by_text.pop(None, None)
            passages = hits_of_passages(self.contexts(row) or ())
            rankings.append([by_id.get(p.id) or by_text.get(p.text, p) for p in passages])
        return rankings

    @cached_property
    def forbidden_ranks(self) -> ForbiddenRanks:
        """Places of the first forbidden passages among those that were read."""
        collection = self.gold.plan.collection
        forbidden = [*map(collection.forbidden.get, self.gold.plan.ids)]
        hits = self.read_hits(collection.forbidden)
        is_unknown = self.has_unknown_ids if self.ranking is None else self.ranking.has_unknown_ids
        unknown = range(len(hits)) if is_unknown else ()
        return forbidden_ranks(hits, forbidden, collection.documents, unknown)

    @cached_property
    def scores(self) -> DecidingScores:
        """Scores that decide: those of the config, else the rubrics of the first judge."""
        rules, judges = self.gold.rules, self.gold.plan.judges.values()
        rubrics = chain.from_iterable(judge.rubrics for judge in judges)
        return DecidingScores(
            self.column(rules.right.measure, "correctness"),
            self.column(rules.supported.measure, "faithfulness"),
            self.column(None, "context_recall"),
            self.column(None, "refusal"),
            frozenset(rubric.name for rubric in rubrics if rubric.method == "claims"),
        )

    def column(self, name: str | None, rubric: str | None = None) -> ScoreColumn | None:
        """Return the column of the score `name`; without a name, the first judge's of `rubric`."""
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


def _answer_verdicts(system: _SystemAnswers, rules: AnswerRules) -> Iterator[AnswerVerdict]:
    """Yield the cause of each query of a system that answers, and whether the answer is right."""
    gold = system.gold
    # a control gets other passages than its retriever returned
    reads_ranking = system.source.control is None
    ranked = gold.facts(system.ranking if reads_ranking else None)
    for row, answerable in enumerate(gold.answerable):
        reply, facts = _reply(system, row), ranked[row]
        answer = _with_read_gold(system, row, reply_facts(reply))
        if forbidden := _read_forbidden(system, row):
            answer = replace(answer, forbidden=forbidden)
        if system.ranking is None and reads_ranking and answer.read is None:
            facts = RankingFacts()  # an app without passages: nothing tells what it retrieved
        yield rules.verdict(row, reply, facts, answer, answerable=answerable)


def _read_forbidden(system: _SystemAnswers, row: int) -> str:
    """Return the id of the first forbidden passage that was read; '' without one."""
    if system.gold.plan.ids[row] not in system.gold.plan.collection.forbidden:
        return ""
    rank = int(system.forbidden_ranks.ranks[row])
    contexts = system.contexts(row)
    return contexts[rank - 1].id if rank and contexts else ""


def _reply(system: _SystemAnswers, row: int) -> QuestionReply:
    """Return the reply to one query, or the cause of its failure."""
    outcome = system.answers.outcomes[row]
    return QuestionReply(
        None if outcome.value is None else outcome.value.answer,
        outcome.cause,
        outcome.detail,
        system.contexts(row),
        system.gold.words(row),
    )


def _with_read_gold(system: _SystemAnswers, row: int, facts: AnswerFacts) -> AnswerFacts:
    """Return the facts of an answer with the number of its passages and the gold among them."""
    if facts.failed is not None:
        return facts
    contexts = system.contexts(row)
    if contexts is None:
        generator = system.source.generator
        return replace(facts, passages=system.gold.plan.passages(generator) if generator else None)
    query = system.gold.plan.ids[row]
    relevant = set(system.gold.relevant.get(query, ()))
    scored_id = system.ids.get(query, {})
    names = record_ids(contexts)
    read_ids = frozenset(scored_id.get(name, name) for name in names) & relevant
    reads_document = bool(read_ids)
    if query in system.gold.pieces:
        read_ids, reads_document = system.read_gold[row]
    elif system.has_unknown_ids:
        return replace(facts, passages=len(contexts))
    if system.ranking is not None and system.source.control is None and not read_ids and names:
        hits = system.ranking.outcomes[row].value
        if hits is None or not set(record_ids(hits.documents)) & set(names):
            return replace(facts, passages=len(contexts))  # other ids: ranks decide
    unread = None if query in system.gold.pieces else _unread_answer(system, row, read_ids)
    return replace(
        facts,
        passages=len(contexts),
        read=read_ids,
        reads_document=reads_document,
        unread_answer=unread,
    )


def _unread_answer(system: _SystemAnswers, row: int, read_ids: frozenset[str]) -> Loss | None:
    """Return the loss of a gold answer that no passage has, of gold documents that were read."""
    gold, words = system.gold, system.gold.words(row)
    documents = [gold.plan.corpus[name] for name in sorted(read_ids) if name in gold.plan.corpus]
    contexts = system.contexts(row)
    if words is None or not documents or not contexts or gold.answerable[row] is False:
        return None
    hits: list[Document | None] = []
    if system.ranking is not None and system.source.control is None:
        of_hit = system.ids.get(gold.plan.ids[row], {})
        for hit in gold.first_passages(system.ranking, row):
            is_gold = hit is not None and of_hit.get(hit.id, hit.id) in read_ids
            hits.append(hit if is_gold else None)
    return loss_of_answer(words, documents, contexts, hits, gold.rules.words)
