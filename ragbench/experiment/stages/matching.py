"""Rankings as they are scored: passages become documents, or the gold passages that they match."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain

import numpy as np
from msgspec import structs

from ragbench.adapters.libraries import text_id
from ragbench.comparison.excluded import ExcludedHits, HitNames, find_excluded
from ragbench.comparison.id_pairs import QuestionIds, pair_ids
from ragbench.comparison.passage_places import document_resolver
from ragbench.comparison.slices import keys_of
from ragbench.config.schema import Match
from ragbench.data.files.fields import content_id
from ragbench.data.files.rows import encode_spaces
from ragbench.errors import DataError, list_names
from ragbench.experiment.calls import FileRankings, Outcome, values_of
from ragbench.experiment.plan.queries import document_id
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import RetrieverRun, name_sentences
from ragbench.registry import nearest
from ragbench.retrieve.base import Retriever
from ragbench.score.retrieval import passage_matching
from ragbench.score.retrieval.notation import measures_of_ids
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.types import Document, Qrels, Retrieved, Run, ScoredDocument
from ragbench.types.documents import record_ids
from ragbench.types.lookups import index_by_id, omit_none
from ragbench.types.rows import Mapped
from ragbench.types.spellings import are_plain

# Queries whose hits are in memory at a time.
_BLOCK = 64
# Usual separators between the id of a document and the number of its part.
_SEPARATORS = ("#", "::", ":", "_", "-", "/")


def document_of(hit: ScoredDocument, corpus: Mapping[str, Document]) -> Document | None:
    """Return a hit as a document with its own text, else the corpus document; None without both.

    An empty text counts as its own.
    """
    if hit.text is not None:
        return hit.to_document()
    return corpus.get(hit.id)


def ranked_passages(
    outcome: Outcome[Retrieved], ranked: Sequence[str], corpus: Mapping[str, Document]
) -> list[Document | None]:
    """Return the documents with the ids `ranked`, in this order; None for one without text.

    The result is None too for an id that no hit has. Of a repeated hit the first one counts; a
    failed outcome has no hits.
    """
    documents = {}
    for hit in ranked_hits(outcome, ranked):
        documents[hit.id] = document_of(hit, corpus)
    return [documents.get(name) for name in ranked]


def ranked_hits(outcome: Outcome[Retrieved], ranked: Sequence[str]) -> list[ScoredDocument]:
    """Return the hits with the ids `ranked`, in this order; an id that no hit has is left out.

    Of a repeated hit the first one counts; a failed outcome has no hits.
    """
    hits = [] if outcome.value is None else outcome.value.documents
    by_id = index_by_id(reversed(hits))
    ordered = []
    for name in ranked:
        if name in by_id:
            ordered.append(by_id[name])
    return ordered


def passage_order(ranking: RetrieverRun, plan: Plan) -> Mapping[str, Sequence[str]]:
    """Return query -> ids of the passages as they were retrieved, in the order that is scored.

    A query that failed, or that the ranking lacks, has no entry.
    """
    rules = plan.config.metrics.retrieval
    run = ranking.run if ranking.unmatched is None else ranking.unmatched
    return ranked_documents(run, ties=rules.ties, trec_eval=rules.trec_eval)


def hits_to_place(
    ranking: RetrieverRun, plan: Plan, depth: int | None = None
) -> list[list[ScoredDocument]]:
    """Return the hits of each query with gold spans, as `hits_of` does; other queries have []."""
    return hits_of(ranking, plan, plan.collection.gold_spans, depth)


def hits_of(
    ranking: RetrieverRun, plan: Plan, queries: Mapping[str, object], depth: int | None = None
) -> list[list[ScoredDocument]]:
    """Return the hits of some queries, best first, with the documents they are of.

    They are passages as they were retrieved, before they are folded or matched. A query without
    hits has [].

    Args:
        ranking: Ranking of the hits.
        plan: Plan with the queries and the rule that names documents.
        queries: Mapping with a true value for each query to read; other queries have [].
        depth: Largest number of hits of a query; None takes all.
    """
    by_key = plan.config.metrics.retrieval.match.level == "document"
    documents = dict(documents_of(ranking, plan)) if by_key else {}
    order, rows = passage_order(ranking, plan), []
    for query, outcome in zip(plan.ids, ranking.outcomes, strict=True):
        is_read, of_hit = queries.get(query), documents.get(query, {})
        hits = ranked_hits(outcome, order.get(query, ())[:depth]) if is_read else []
        rows.append([structs.replace(h, document=h.document or of_hit.get(h.id)) for h in hits])
    return rows


def passages_of(
    outcome: Outcome[Retrieved], corpus: Mapping[str, Document], passages: int
) -> list[Document] | None:
    """Return the first `passages` hits as documents with text; None if retrieval failed.

    A hit without a text of its own or in the corpus is left out. Hits are in their order; [] if
    none has a text.
    """
    if outcome.value is None:
        return None
    documents: list[Document] = []
    for hit in outcome.value.documents:
        if len(documents) == passages:
            break
        if (document := document_of(hit, corpus)) is not None:
            documents.append(document)
    return documents


def _short_list_warnings(
    retriever: Retriever,
    outcomes: Sequence[Outcome[Retrieved]],
    corpus: Sequence[Document] | None,
    top_k: int,
) -> list[str]:
    """Return a warning if the longest list of hits is shorter than `top_k` and the corpus."""
    longest = 0
    for outcome in outcomes:
        if outcome.value is not None:
            longest = max(longest, len(outcome.value.documents))
    # a corpus that has no more documents is no limit of the retriever
    if not 0 < longest < (top_k if corpus is None else min(top_k, len(corpus))):
        return []
    option = retriever.depth_option.replace("{top_k}", str(top_k))
    return [
        f"returned at most {longest} hits per query of {top_k}, so that measures at higher "
        f"ranks see nothing{option and f'; set {option}'}"
    ]


def _remarks_on_empty_lists(
    retriever: Retriever, outcomes: Sequence[Outcome[Retrieved]]
) -> tuple[list[str], list[str]]:
    """Return notes and warnings on the number of queries without a hit; none for a run file."""
    if isinstance(outcomes, FileRankings) or retriever.query_ids is not None:
        return [], []
    n_empty = sum(outcome.value is not None and not outcome.value.documents for outcome in outcomes)
    remark = [f"{n_empty} of {len(outcomes)} queries got no hit"]
    # many mean a spent limit or iterator, or a filter
    if n_empty > len(outcomes) / 10:
        return [], remark
    # few are questions without a word of an index, if the index is ours
    return (remark if n_empty and not retriever.indexes else []), []


def drop_excluded(
    outcomes: Sequence[Outcome[Retrieved]], plan: Plan
) -> tuple[Sequence[Outcome[Retrieved]], ExcludedHits | None]:
    """Return the outcomes without the hits that are excluded for their query, and these hits.

    Without excluded documents in the data set the outcomes are returned as they are, and None.
    """
    by_query = plan.collection.excluded
    if not by_query:
        return outcomes, None
    names_of = _hit_names(plan)
    excluded = [by_query.get(query, frozenset()) for query in plan.ids]
    hits = list[Sequence[ScoredDocument]]()
    for names, outcome in zip(excluded, outcomes, strict=True):
        hits.append(outcome.value.documents if names and outcome.value is not None else ())
    rankings = []
    for of_query in hits:
        rankings.append([names_of(hit) for hit in of_query])
    corpus = {} if plan.collection.documents is None else plan.corpus
    by_rule = plan.config.metrics.retrieval.match.level == "document"
    of_all = find_excluded(rankings, excluded, corpus, by_rule=by_rule)
    scored = list[Outcome[Retrieved]]()
    for row, outcome in enumerate(outcomes):
        if any(of_all.marks[row]) and outcome.value is not None:
            allowed = of_all.keep(row, hits[row])
            outcome = replace(outcome, value=structs.replace(outcome.value, documents=allowed))
        scored.append(outcome)
    return scored, of_all


def _hit_names(plan: Plan) -> Callable[[ScoredDocument], HitNames]:
    """Return a function from a hit to its id and the id of its document, as it is scored."""
    match, documents = plan.config.metrics.retrieval.match, plan.collection.documents or ()
    resolve = cache(lambda: document_resolver(documents))

    def names_of(hit: ScoredDocument) -> HitNames:
        """Return the names of a hit; one without a document is its own."""
        if match.level == "document":
            return HitNames(hit.id, _document_of_hit(hit, match, plan.corpus) or hit.id)
        if hit.document is not None or not documents or hit.id in plan.corpus:
            return HitNames(hit.id, hit.document or hit.id)
        return HitNames(hit.id, resolve()(hit) or hit.id)

    return names_of


def rank_outcomes(
    name: str,
    retriever: Retriever,
    query_ids: Sequence[str],
    outcomes: Sequence[Outcome[Retrieved]],
    corpus: Sequence[Document] | None,
    top_k: int | None = None,
    own_notes: Sequence[str] | None = None,
) -> RetrieverRun:
    """Return the ranking of a retriever's hits, with notes and warnings on odd ones.

    Notes and warnings begin with the name. Hits that the corpus lacks are matched with its
    documents by path, file name or title. More than 10 % of hits that stay unknown are a warning,
    fewer a note, unless no hit has an id of its own. A run file is read again when its rankings are
    used.

    Args:
        name: Name of the system, for messages.
        retriever: Retriever, whose scores or whose order rank the hits.
        query_ids: Ids of the n queries.
        outcomes: Outcome of each query; failed ones are not in the run, empty ones are.
        corpus: Documents, to count hits that it lacks; None if hits have other ids.
        top_k: Number of hits that a shorter list gets a warning for; None gives none.
        own_notes: Notes of the retriever; None takes those of `retriever`.
    """
    run, n_unknown, is_cut = _run_of(name, retriever, query_ids, outcomes, corpus)
    notes, warnings = list[str](), list[str]()
    # an index of all other names of the documents is only worth its time for other ids
    if corpus is not None and n_unknown:
        document_of_hit, n_hits = document_resolver(corpus), len(run)
        if any(map(document_of_hit, _unknown_hits(outcomes, run, corpus))):
            outcomes = Mapped(partial(_name_documents, document_of_hit=document_of_hit), outcomes)
            run, n_left, is_cut = _run_of(name, retriever, query_ids, outcomes, corpus)
            notes.append(
                f"{n_unknown - n_left} of {n_hits} hits were matched with documents of the corpus "
                "by path, file name or title"
            )
            n_unknown = n_left
    if repeated := sum(run.duplicates.values()):
        notes.append(f"{repeated} document ids appeared twice in a ranking; counted once")

    def all_hits() -> Iterator[ScoredDocument]:
        return chain.from_iterable(hits.documents for hits in values_of(outcomes))

    # lists of ids alone, as those of records, have no scores to tell of
    if run.substituted and any(hit.score is not None for hit in all_hits()):
        notes.append(
            f"{run.substituted} rankings have scores that are absent, tied or out of order; the "
            "order of the hits was used"
        )
    notes += retriever.notes if own_notes is None else own_notes
    empty_notes, empty_warnings = _remarks_on_empty_lists(retriever, outcomes)
    notes += empty_notes
    warnings += empty_warnings
    if top_k is not None:
        warnings += _short_list_warnings(retriever, outcomes, corpus, top_k)
    # passages without an id of their own cannot be documents of the corpus
    if n_unknown and any(map(_has_own_id, all_hits())):
        remark = f"{n_unknown} of {len(run)} hits have ids that no document of the corpus has; "
        remark += "measures of ids count them as unjudged; make the ids equal, or set id_field"
        # a few may be documents that were removed; more mean the wrong corpus, or other ids
        (warnings if n_unknown > len(run) / 10 else notes).append(remark)
    return RetrieverRun(
        name,
        outcomes,
        partial(outcomes.run, name) if isinstance(outcomes, FileRankings) else run,
        notes=name_sentences(name, notes),
        warnings=name_sentences(name, warnings),
        is_cut=is_cut,
    )


def _unknown_hits(
    outcomes: Sequence[Outcome[Retrieved]], run: Run, corpus: Sequence[Document]
) -> Iterator[ScoredDocument]:
    """Yield the hits without a document that the corpus lacks; those of a run file once."""
    corpus_ids = frozenset(record_ids(corpus))
    # hits of a run file have ids alone, and an object for each of them would take long
    if isinstance(outcomes, FileRankings):
        yield from map(ScoredDocument, {*run.documents} - corpus_ids)
        return
    for outcome in outcomes:
        for hit in () if outcome.value is None else outcome.value.documents:
            if hit.document is None and hit.id not in corpus_ids:
                yield hit


def _name_documents(
    outcome: Outcome[Retrieved], document_of_hit: Callable[[ScoredDocument], str | None]
) -> Outcome[Retrieved]:
    """Return an outcome whose hits name the documents of a function; a failed one as it is."""
    if outcome.value is None:
        return outcome
    hits = []
    for hit in outcome.value.documents:
        hits.append(structs.replace(hit, document=document_of_hit(hit)))
    return replace(outcome, value=structs.replace(outcome.value, documents=hits))


def _run_of(
    name: str,
    retriever: Retriever,
    query_ids: Sequence[str],
    outcomes: Sequence[Outcome[Retrieved]],
    corpus: Sequence[Document] | None,
) -> tuple[Run, int, bool]:
    """Return (run, number of hits that the corpus lacks, True if any hit is a chunk)."""
    corpus_ids = None if corpus is None else frozenset(record_ids(corpus))
    if isinstance(outcomes, FileRankings):
        run = outcomes.run(name)
        if corpus_ids is None:
            return run, 0, False
        return run, sum(document not in corpus_ids for document in run.documents), False
    n_unknown, is_cut, parts = 0, False, []
    # some queries at a time, so that not all hits are in memory
    for start in range(0, len(query_ids), _BLOCK):
        rankings = {}
        for row, query in enumerate(query_ids[start : start + _BLOCK], start):
            value = outcomes[row].value
            is_stored = retriever.query_ids is None or query in retriever.query_ids
            if value is not None and is_stored:
                rankings[query] = value.documents
        for hits in rankings.values():
            # a repeated hit counts once, as in the run
            documents = {hit.id if hit.document is None else hit.document for hit in hits}
            n_unknown += 0 if corpus_ids is None else len(documents - corpus_ids)
            is_cut = is_cut or any(hit.document is not None for hit in hits)
        if retriever.ranks_by_score:
            scores = {}
            for query, hits in rankings.items():
                scores[query] = {hit.id: hit.score or 0.0 for hit in hits}
            parts.append(Run.from_dict(scores))
        else:
            parts.append(Run.from_rankings(rankings))
    return Run.joined(parts, name), n_unknown, is_cut


class UnknownIds(DataError):
    """Ranking without any hit that is judged or in the corpus.

    The run is over: one that is called again is no resumption, as the retriever was changed.
    """


def check_ids(ranking: RetrieverRun, plan: Plan, *, is_app: bool = False) -> RetrieverRun:
    """Return the ranking, marked with `has_unknown_ids` if no hit is judged or in the corpus.

    If measures read ids, a marked ranking has a warning with an id of a hit and a judged one, or a
    note if it is of an app whose passages have no ids. Without hits or qrels, where hits are
    matched by their texts, and where a model judges passages, no ranking is marked.

    Args:
        ranking: Ranking as it is scored.
        plan: Plan with the measures, the qrels and the corpus.
        is_app: True for an app and for records: their answers are scored all the same.

    Raises:
        UnknownIds: No hit is judged or in the corpus, and measures read ids. The message names the
            part of the ids or the metadata that is judged.
    """
    qrels, corpus, run = plan.qrels, plan.corpus, ranking.run
    if qrels is None or not len(run) or plan.config.metrics.retrieval.match.level == "text":
        return ranking
    judged = dict.fromkeys(qrels.documents)  # in their order: every run names the same example
    names = (hit.document or hit.id for hit in _all_hits(ranking, plan))
    if any(name in judged or name in corpus for name in chain(run.documents, names)):
        return ranking
    marked = replace(ranking, has_unknown_ids=plan.fill is None)
    if not measures_of_ids(plan.measures):
        return marked
    hits = list(_all_hits(ranking, plan))
    problem = f"none of its {len(run)} hits is known to the judgements, such as '{hits[0].id}'"
    judged_part = _judged_part(hits, judged)
    if judged_part is not None:
        part, setting = judged_part
        raise UnknownIds(f"{problem}, while {part} is", record=ranking.name, allowed=setting)
    example = next(iter(judged))
    if plan.collection.documents and not is_app:
        document = plan.collection.documents[0].id
        ids = f"ids such as '{example}' (judged) or '{document}' (corpus)"
        raise UnknownIds(problem, record=ranking.name, allowed=f"{ids}; {_id_remedies(hits)}")
    score = "its measures of ids have no score (unknown_ids)"
    if is_app and not any(map(_has_own_id, hits)):
        note = f"{ranking.name}: its passages have no ids: {score}; {_id_advice(ranking, plan)}"
        return replace(marked, notes=[*ranking.notes, note])
    if plan.fill is not None:
        score = "its scores count the grades of the model alone"
    remedy = "make the ids equal" if is_app else "make the ids equal, or set id_field"
    warning = f"{ranking.name}: {problem} (judgements such as '{example}'): {score}; {remedy}"
    return replace(marked, warnings=[warning, *ranking.warnings])


def _id_advice(ranking: RetrieverRun, plan: Plan) -> str:
    """Return the remedy for an app, or a table of answers, whose passages have texts alone."""
    app = plan.config.apps.get(ranking.name)
    if app is not None and app.type == "http":
        advice = 'write ids: "$.sources[*].id"'
    elif ranking.name in plan.apps:
        advice = "return contexts: [{id: ..., text: ...}]"
    else:
        advice = "write contexts as [{id: ..., text: ...}]"
    # texts are compared with those of the judged documents
    if plan.collection.documents:
        advice += ", or metrics: {retrieval: {match: {level: text}}}"
    return advice


def _all_hits(ranking: RetrieverRun, plan: Plan) -> Iterator[ScoredDocument]:
    """Yield the hits of all queries."""
    return chain.from_iterable(hits for _, hits in _hits(ranking, plan))


def _metadata_keys(hits: Sequence[ScoredDocument]) -> list[str]:
    """Return the keys of the metadata of hits, each once."""
    return list(dict.fromkeys(chain.from_iterable(hit.metadata for hit in hits)))


def _id_remedies(hits: Sequence[ScoredDocument]) -> str:
    """Return the settings by which hits with other ids than the judgements can be matched."""
    keys = _metadata_keys(hits)
    remedies = [f"id_field: one of {list_names(keys)}"] if keys else []
    if any(hit.text for hit in hits):
        remedies.append("metrics.retrieval.match: {level: text} to compare texts")
    return "; ".join(remedies) or "the hits have no metadata for an id_field"


def _judged_part(hits: Sequence[ScoredDocument], judged: Container[str]) -> tuple[str, str] | None:
    """Return (part of the hits that is judged, setting that matches by it); None without one."""
    for key in _metadata_keys(hits):
        if any(encode_spaces(str(hit.metadata.get(key))) in judged for hit in hits):
            match = f"match: {{level: document, id: metadata.{key}}} where hits are parts of these"
            setting = f"id_field: {key}; or metrics.retrieval: {match}"
            return f"metadata '{key}' of the hits", setting
    for separator in _SEPARATORS:
        if any(passage_matching.before_last(hit.id, separator) in judged for hit in hits):
            match = f'match: {{level: document, separator: "{separator}"}}'
            return f"what stands before '{separator}'", f"metrics.retrieval: {match}"
    return None


def _has_own_id(hit: ScoredDocument) -> bool:
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
        outcomes=Mapped(
            partial(_name_documents, document_of_hit=document_of_hit), ranking.outcomes
        ),
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
        yield query, {hit.id: _document_of_hit(hit, match, plan.corpus) for hit in reversed(hits)}


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
            hits_of_all = list(_all_hits(ranking, plan))
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


def _document_of_hit(
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
