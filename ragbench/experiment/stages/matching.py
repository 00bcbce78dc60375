"""Rankings as they are scored: passages become documents, or the gold passages that they match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain

import numpy as np
from msgspec import structs

from ragbench.adapters.libraries import text_id
from ragbench.comparison.id_pairs import QuestionIds, pair_ids
from ragbench.comparison.slices import keys_of
from ragbench.config.schema import Match
from ragbench.data.files.fields import content_id
from ragbench.errors import DataError
from ragbench.experiment.calls import Outcome
from ragbench.experiment.plan.queries import document_id
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import RetrieverRun, name_sentences
from ragbench.registry import nearest
from ragbench.score.retrieval import passage_matching
from ragbench.score.retrieval.notation import measures_of_ids
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.types import Document, Qrels, Retrieved, Run, ScoredDocument
from ragbench.types.lookups import omit_none
from ragbench.types.rows import Mapped
from ragbench.types.spellings import are_plain


def document_of(hit: ScoredDocument, corpus: Mapping[str, Document]) -> Document | None:
    """Return a hit as a document with its own text, else the corpus document; None without both.

    An empty text counts as its own.
    """
    if hit.text is not None:
        return hit.to_document()
    return corpus.get(hit.id)


def passage_order(ranking: RetrieverRun, plan: Plan) -> Mapping[str, Sequence[str]]:
    """Return query -> ids of the passages as they were retrieved, in the order that is scored.

    A query that failed, or that the ranking lacks, has no entry.
    """
    rules = plan.config.metrics.retrieval
    run = ranking.run if ranking.unmatched is None else ranking.unmatched
    return ranked_documents(run, ties=rules.ties, trec_eval=rules.trec_eval)


def name_documents(
    outcome: Outcome[Retrieved], document_of_hit: Callable[[ScoredDocument], str | None]
) -> Outcome[Retrieved]:
    """Return an outcome whose hits name the documents of a function; a failed one as it is."""
    if outcome.value is None:
        return outcome
    hits = []
    for hit in outcome.value.documents:
        hits.append(structs.replace(hit, document=document_of_hit(hit)))
    return replace(outcome, value=structs.replace(outcome.value, documents=hits))


def all_hits(ranking: RetrieverRun, plan: Plan) -> Iterator[ScoredDocument]:
    """Yield the hits of all queries."""
    return chain.from_iterable(hits for _, hits in _hits(ranking, plan))


def has_own_id(hit: ScoredDocument) -> bool:
    """Return False for a hit whose id is a hash of its text; True for one without a text."""
    return hit.text is None or hit.id not in (text_id(hit.text), content_id(hit.text))


def match_hits(ranking: RetrieverRun, plan: Plan) -> RetrieverRun:
    """Return the ranking as it is scored, by `metrics.retrieval.match` and alternatives of gold.

    Raises:
        DataError: No passage has the id of its document, or a text.
    """
    matched, alternatives = _match_level(ranking, plan), plan.collection.alternatives
    if plan.qrels is None or not alternatives:
        return matched
    rules = plan.config.metrics.retrieval
    order = ranked_documents(matched.run, ties=rules.ties, trec_eval=rules.trec_eval)
    rankings = {}
    for query, hits in order.items():
        heads, grades = alternatives.get(query, {}), plan.qrels.by_query.get(query, {})
        rankings[query] = passage_matching.credit_alternatives(hits, heads, grades)
    run = replace(Run.from_rankings(rankings, matched.run.name), duplicates=matched.run.duplicates)
    return replace(matched, scored=run, unmatched=matched.unmatched or ranking.run)


def _match_level(ranking: RetrieverRun, plan: Plan) -> RetrieverRun:
    """Return the ranking as it is scored: with documents or gold passages in place of passages."""
    # `outcomes` stay: generators still get the passages.
    rules, qrels = plan.config.metrics.retrieval, plan.qrels
    if qrels is not None and rules.match.level == "id" and ranking.is_cut:
        # chunks of `chunk:` are folded into their documents, for the causes without measures, too
        run = passage_matching.fold(ranking.run, _chunks_of(ranking, plan))
        return replace(ranking, scored=run, unmatched=ranking.run)
    if qrels is None or rules.match.level == "id":
        return ranking
    if rules.match.level == "text":
        return _match_texts(ranking, qrels, plan)
    measures = measures_of_ids(plan.measures)
    # measures without a cut-off read the whole ranking
    deepest = max((m.k for m in measures if m.k is not None), default=rules.top_k)
    return _fold(ranking, deepest if measures else 0, plan)


def meet_gold(ranking: RetrieverRun, plan: Plan) -> RetrieverRun:
    """Return the ranking with gold ids for hits in another spelling, with a note on them.

    Pairs of ids that are not one to one are told in a warning; so are all pairs of
    `match: {level: document}`, whose ids are those of a rule.
    """
    qrels, level = plan.qrels, plan.config.metrics.retrieval.match.level
    if qrels is None or level == "text":
        return ranking
    run = ranking.run
    if are_plain(run.documents) and are_plain(qrels.documents):
        return ranking  # no id has another spelling, which most files tell in a tenth of the time
    corpus = {} if plan.collection.documents is None else plan.corpus
    pairs = pair_ids(_QuestionIds(qrels, run), corpus)
    if level == "document":
        pairs = pairs.told_alone()
    names = pairs.gold_of_hit
    notes = [*ranking.notes, *name_sentences(ranking.name, pairs.notes())]
    warnings = [*ranking.warnings, *name_sentences(ranking.name, pairs.warnings())]
    if not names:
        return replace(ranking, notes=notes, warnings=warnings) if pairs.unclear else ranking

    def document_of_hit(hit: ScoredDocument) -> str | None:
        return names.get(hit.document or hit.id, hit.document)

    return replace(
        ranking,
        outcomes=Mapped(partial(name_documents, document_of_hit=document_of_hit), ranking.outcomes),
        scored=replace(run, documents=[names.get(name, name) for name in run.documents]),
        unmatched=run if ranking.unmatched is None else ranking.unmatched,
        notes=notes,
        warnings=warnings,
    )


class _QuestionIds(Iterable[QuestionIds]):
    """Judged documents and hits of each query of the judgements, decoded at each pass."""

    def __init__(self, qrels: Qrels, run: Run) -> None:
        self._qrels, self._run = qrels, run

    def __iter__(self) -> Iterator[QuestionIds]:
        run, starts = self._run, self._run.starts.tolist()
        for query in self._qrels.query_ids:
            row = run.query_index.get(query)
            hits = () if row is None else run.documents[starts[row] : starts[row + 1]]
            yield QuestionIds(self._qrels.by_query[query], hits)


def _chunks_of(ranking: RetrieverRun, plan: Plan) -> dict[str, dict[str, str]]:
    """Return query -> id of each chunk -> its document; a query without chunks has {}."""
    chunks = {}
    for query, hits in _hits(ranking, plan):
        document_of = {}
        for hit in hits:
            if hit.document is not None:
                document_of[hit.id] = hit.document
        chunks[query] = document_of
    return chunks


def scored_ids(ranking: RetrieverRun, plan: Plan) -> Mapping[str, Mapping[str, str]]:
    """Return the id that each passage was scored by, by query and passage id.

    A passage without an entry was scored by its own id; {} for a ranking that was not matched.
    """
    if ranking.unmatched is None:
        return {}
    if plan.config.metrics.retrieval.match.level != "text":
        return _judged_ids(ranking, plan)
    passages = passage_order(ranking, plan)
    # the ranking of gold passages has the same order as that of the passages
    names = ranked_documents(ranking.run)
    return {q: dict(zip(ids, names[q], strict=True)) for q, ids in passages.items()}


def _judged_ids(ranking: RetrieverRun, plan: Plan) -> dict[str, dict[str, str]]:
    """Return query -> id of a hit -> its document, or the judged one that it is as good as."""
    documents: Mapping[str, Mapping[str, str | None]] = _chunks_of(ranking, plan)
    if plan.config.metrics.retrieval.match.level == "document":
        documents = dict(documents_of(ranking, plan))
    ids = dict[str, dict[str, str]]()
    for query, of_hit in documents.items():
        group_heads = plan.collection.alternatives.get(query, {})
        names = dict(group_heads)
        for hit, document in of_hit.items():
            if document is not None:
                names[hit] = group_heads.get(document, document)
        ids[query] = names
    return ids


def documents_of(ranking: RetrieverRun, plan: Plan) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Yield the query ids, each with the document id by hit id; None where it is unknown.

    Queries are in the order of the run's queries; failed ones are left out.
    """
    match = plan.config.metrics.retrieval.match
    for query, hits in _hits(ranking, plan):
        # reversed: of a repeated hit the first one counts
        yield query, {hit.id: document_id_of_hit(hit, match, plan.corpus) for hit in reversed(hits)}


def _fold(ranking: RetrieverRun, k: int, plan: Plan) -> RetrieverRun:
    """Return the ranking of documents, each at the rank of the best passage that it contains."""
    # A passage without a document counts as one.
    rules, documents = plan.config.metrics.retrieval, dict[str, dict[str, str]]()
    match, n_without, n_hits = rules.match, 0, 0
    for query, document_of in documents_of(ranking, plan):
        n_hits += len(document_of)
        documents[query] = omit_none(document_of)
        n_without += len(document_of) - len(documents[query])
    warnings = list(ranking.warnings)
    if n_without:
        problem = f"{n_without} of {n_hits} passages have no {match.id}"
        if n_without == n_hits:
            hits_of_all = list(all_hits(ranking, plan))
            of_corpus = (plan.corpus[h.id].metadata for h in hits_of_all if h.id in plan.corpus)
            keys = keys_of(chain((hit.metadata for hit in hits_of_all), of_corpus))
            raise DataError(
                f"{ranking.name}: {problem}",
                record="metrics.retrieval.match.id",
                allowed=", ".join(keys) or "metadata in the corpus or from the retriever",
                nearest=nearest(match.id or "", keys),
            )
        warnings.append(f"{ranking.name}: {problem}; they are counted as documents of their own")
    run = passage_matching.fold(ranking.run, documents)
    n_documents = np.diff(run.starts)
    if n_short := int((n_documents < k).sum()):
        problem = f"{n_short} of {len(n_documents)} queries have fewer than {k} documents after"
        remedy = f"raise top_k, which is {rules.top_k} and counts passages"
        warnings.append(f"{ranking.name}: {problem} folding; {remedy}")
    return replace(ranking, scored=run, unmatched=ranking.run, warnings=warnings)


def _hits(ranking: RetrieverRun, plan: Plan) -> Iterator[tuple[str, Sequence[ScoredDocument]]]:
    """Yield id and hits of each query in the run; failed and missing queries are left out."""
    query_index = ranking.run.query_index
    for query, outcome in zip(plan.ids, ranking.outcomes, strict=True):
        if query in query_index and outcome.value is not None:
            yield query, outcome.value.documents


def document_id_of_hit(
    hit: ScoredDocument, match: Match, corpus: Mapping[str, Document]
) -> str | None:
    """Return the document of a hit by its metadata, else by those of the corpus document."""
    if hit.document is not None:
        hit = structs.replace(hit, id=hit.document)
    document = document_id(hit, match)
    if document is None and hit.id in corpus:
        return document_id(corpus[hit.id], match)
    return document


def _match_texts(ranking: RetrieverRun, qrels: Qrels, plan: Plan) -> RetrieverRun:
    """Return the ranking with passages replaced by the gold passages whose words they contain."""
    # A passage that matches several counts for the best graded one.
    rules, corpus = plan.config.metrics.retrieval, plan.corpus
    overlap = rules.match.overlap or passage_matching.DEFAULT_OVERLAP
    order = ranked_documents(ranking.run, ties=rules.ties, trec_eval=rules.trec_eval)
    words_of = cache(passage_matching.PassageWords)  # queries share passages
    rankings: dict[str, list[str]] = {}
    n_without_text = n_several = 0
    for query, hits in _hits(ranking, plan):
        grades = qrels.by_query.get(query, {})
        gold = {}
        for doc in grades:
            if doc in corpus:
                gold[doc] = words_of(_body(corpus[doc]))
        by_id = {}
        for hit in reversed(hits):
            by_id[hit.id] = document_of(hit, corpus)
        words = []
        for name in order[query]:
            document = by_id[name]
            n_without_text += document is None
            words.append(None if document is None else words_of(_body(document)))
        passages = passage_matching.GoldPassages(gold, overlap)
        credits = passage_matching.credit(words, passages, grades)
        n_several += credits.several
        rankings[query] = passage_matching.names_of_credits(order[query], credits.documents, grades)
    warnings, notes = list(ranking.warnings), list(ranking.notes)
    if n_without_text:
        problem = f"{ranking.name}: {n_without_text} of {len(ranking.run)} passages have no text"
        if n_without_text == len(ranking.run):
            allowed = "a retriever that returns texts, or a data set with these documents"
            raise DataError(problem, record="metrics.retrieval.match", allowed=allowed)
        warnings.append(f"{problem} and match nothing")
    if n_several:
        note = "passages match several gold passages; each counts for one, the best graded"
        notes.append(f"{ranking.name}: {n_several} {note}")
    run = replace(Run.from_rankings(rankings, ranking.run.name), duplicates=ranking.run.duplicates)
    return replace(ranking, scored=run, unmatched=ranking.run, warnings=warnings, notes=notes)


def _body(document: Document) -> str:
    """Return the text without the title, which chunks may lack or repeat; the title if empty."""
    return document.text or document.title
