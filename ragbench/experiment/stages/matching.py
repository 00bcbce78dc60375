"""Rankings before they are scored: passages become their documents, or the gold they match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice

from ragbench.config.schema import Match
from ragbench.data.files.rows import encode_spaces
from ragbench.errors import DataError
from ragbench.experiment.calls import FileRankings, Outcome
from ragbench.experiment.plan.groups import document_id, keys_of
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import RetrieverRun
from ragbench.registry import nearest
from ragbench.retrieve.base import Retriever
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.retrieval.passage_matching import (
    DEFAULT_OVERLAP,
    GoldPassages,
    PassageWords,
    before_last,
    credit,
    fold,
)
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.types import Document, Qrels, Query, Retrieved, Run, ScoredDocument
from ragbench.types.packed_documents import ids_of

_BLOCK = 64  # queries
# What usually stands between the id of a document and that of its part.
_SEPARATORS = ("#", "::", ":", "_", "-", "/")


def document_of(hit: ScoredDocument, corpus: Mapping[str, Document]) -> Document | None:
    """Return a hit as a document with text: its own, else the corpus document's, else None."""
    if hit.text is not None:
        return Document(hit.id, hit.text, hit.title or "", hit.metadata)
    return corpus.get(hit.id)


def passages_of(
    outcome: Outcome[Retrieved], corpus: Mapping[str, Document], passages: int
) -> list[Document] | None:
    """Return the first passages that were found as documents with text; None where it failed.

    A hit's own text counts, else the corpus document's; a hit that has neither is left out.
    """
    if outcome.value is None:
        return None
    found = (document_of(hit, corpus) for hit in outcome.value.documents)
    return list(islice((document for document in found if document is not None), passages))


def ranked(
    name: str,
    retriever: Retriever,
    queries: Sequence[Query],
    outcomes: Sequence[Outcome[Retrieved]],
    corpus: Sequence[Document] | None,
    top_k: int | None = None,
    said: Sequence[str] | None = None,
) -> RetrieverRun:
    """Turn a retriever's outcomes into the run that is scored, with notes on what was odd.

    `corpus` is None where ids of hits are not those of documents, `top_k` where a shorter list is
    nothing to speak of, `said` where the retriever itself is asked what it noted.
    """
    run, strange, is_cut = _run_of(name, retriever, queries, outcomes, corpus)
    notes, warnings = list[str](), list[str]()
    if repeated := sum(run.duplicates.values()):
        notes.append(f"{repeated} document ids appeared twice in a ranking; counted once")
    if run.substituted:
        notes.append(
            f"{run.substituted} rankings have scores that are absent, tied or out of order; the "
            "order of the hits was used"
        )
    notes += retriever.notes if said is None else said
    if top_k is not None and not retriever.ranks_by_score:
        hits = (outcome.value.documents for outcome in outcomes if outcome.value is not None)
        longest = max(map(len, hits), default=0)
        # a corpus that has no more documents is no limit of the retriever
        if 0 < longest < (top_k if corpus is None else min(top_k, len(corpus))):
            warnings.append(
                f"returned at most {longest} hits per query of {top_k}, so that measures at higher "
                f"ranks see nothing; LangChain: search_kwargs={{'k': {top_k}}}, LlamaIndex: "
                f"similarity_top_k={top_k}"
            )
    if strange:
        remark = f"{strange} of {len(run)} hits have ids that no document of the corpus has, and "
        remark += "count as unjudged; make the ids equal, or set id_field"
        # a few may be a corpus that has moved on; more mean the wrong corpus, or other ids
        (warnings if strange > len(run) / 10 else notes).append(remark)
    return RetrieverRun(
        name,
        queries,
        outcomes,
        partial(outcomes.run, name) if isinstance(outcomes, FileRankings) else run,
        notes=[f"{name}: {note}" for note in notes],
        warnings=[f"{name}: {warning}" for warning in warnings],
        is_cut=is_cut,
    )


def _run_of(
    name: str,
    retriever: Retriever,
    queries: Sequence[Query],
    outcomes: Sequence[Outcome[Retrieved]],
    corpus: Sequence[Document] | None,
) -> tuple[Run, int, bool]:
    """The run, how many of its hits the corpus lacks, whether any is a chunk of ours."""
    corpus_ids = None if corpus is None else frozenset(ids_of(corpus))
    if isinstance(outcomes, FileRankings):
        run = outcomes.run(name)
        if corpus_ids is None:
            return run, 0, False
        return run, sum(document not in corpus_ids for document in run.documents), False
    strange, is_cut, parts = 0, False, []
    # some queries at a time, so that not all hits are in memory
    for start in range(0, len(queries), _BLOCK):
        rankings = {
            query.id: value.documents
            for row, query in enumerate(queries[start : start + _BLOCK], start)
            if (value := outcomes[row].value) is not None
            and (retriever.query_ids is None or query.id in retriever.query_ids)
        }
        for hits in rankings.values():
            # a repeated hit counts once, as in the run
            documents = {hit.id if hit.document is None else hit.document for hit in hits}
            strange += 0 if corpus_ids is None else len(documents - corpus_ids)
            is_cut = is_cut or any(hit.document is not None for hit in hits)
        if retriever.ranks_by_score:
            scores = {q: {d.id: d.score or 0.0 for d in hits} for q, hits in rankings.items()}
            parts.append(Run.from_dict(scores))
        else:
            parts.append(Run.from_rankings(rankings))
    return Run.joined(parts, name), strange, is_cut


def refuse_other_ids(ranked: RetrieverRun, plan: Plan) -> None:
    """Refuse hits of which neither judgements nor corpus know one, while they say better.

    Raises:
        DataError: The metadata have a key, or the ids a part, that the judgements know.
    """
    qrels, corpus = plan.qrels, plan.corpus
    if qrels is None or not len(ranked.run):
        return
    judged = set(qrels.documents)
    names = (hit.document or hit.id for _, found in _hits(ranked) for hit in found)
    if any(name in judged or name in corpus for name in names):
        return
    hits = [hit for _, found in _hits(ranked) for hit in found]
    nothing = f"none of its {len(ranked.run)} hits is known to the judgements"
    example = f"such as '{hits[0].id}'"
    for key in dict.fromkeys(key for hit in hits for key in hit.metadata):
        if any(encode_spaces(str(hit.metadata.get(key))) in judged for hit in hits):
            match = f"match: {{level: document, id: metadata.{key}}} where hits are parts of these"
            raise DataError(
                f"{nothing}, {example}, while metadata '{key}' of the hits is",
                record=ranked.name,
                allowed=f"id_field: {key}; or metrics.retrieval: {match}",
            )
    for separator in _SEPARATORS:
        if any(before_last(hit.id, separator) in judged for hit in hits):
            raise DataError(
                f"{nothing}, {example}, while what stands before '{separator}' is",
                record=ranked.name,
                allowed=f'metrics.retrieval: match: {{level: document, separator: "{separator}"}}',
            )


def match_hits(ranked: RetrieverRun, plan: Plan) -> RetrieverRun:
    """Return a retriever's rankings as they are scored; generators still get its passages."""
    rules, qrels = plan.config.metrics.retrieval, plan.qrels
    of_ids = [m for m in parse_measures(plan.measures) if m.spec.reads != "passages"]
    if qrels is None or not of_ids:
        return ranked
    if rules.match.level == "text":
        return _match_texts(ranked, qrels, plan)
    if rules.match.level == "id":
        # fold the chunks that we cut ourselves; hits that are documents stay what they are
        if not ranked.is_cut:
            return ranked
        return replace(ranked, scored=fold(ranked.run, _chunks_of(ranked)), unmatched=ranked.run)
    # without any cut-off, rankings are looked at as deep as they are kept
    deepest = max((m.k for m in of_ids if m.k is not None), default=rules.top_k)
    return _fold(ranked, deepest, plan)


def _chunks_of(ranked: RetrieverRun) -> dict[str, dict[str, str]]:
    return {
        query: {hit.id: hit.document for hit in hits if hit.document is not None}
        for query, hits in _hits(ranked)
    }


def scored_ids(ranked: RetrieverRun, plan: Plan) -> Mapping[str, Mapping[str, str]]:
    """Return query -> passage -> the id that it was scored by, of a ranking that was matched.

    What is not in it was scored by its own id.
    """
    rules = plan.config.metrics.retrieval
    if ranked.unmatched is None:
        return {}
    if rules.match.level == "id":
        return _chunks_of(ranked)
    if rules.match.level == "document":
        return {
            query: {hit: document for hit, document in documents.items() if document is not None}
            for query, documents in _documents_of(ranked, plan)
        }
    passages = ranked_documents(ranked.unmatched, ties=rules.ties, trec_eval=rules.trec_eval)
    # each passage is in the place of what it was matched with
    names = ranked_documents(ranked.run)
    return {q: dict(zip(found, names[q], strict=True)) for q, found in passages.items()}


def _documents_of(ranked: RetrieverRun, plan: Plan) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Yield each query with its hits by id, and the document of each; None where it is unknown."""
    match = plan.config.metrics.retrieval.match
    for query, hits in _hits(ranked):
        # of a repeated hit the first one counts
        yield query, {hit.id: _document_of_hit(hit, match, plan.corpus) for hit in reversed(hits)}


def _fold(ranked: RetrieverRun, k: int, plan: Plan) -> RetrieverRun:
    rules, documents = plan.config.metrics.retrieval, dict[str, dict[str, str]]()
    match, homeless, total = rules.match, 0, 0
    for query, found in _documents_of(ranked, plan):
        total += len(found)
        documents[query] = {hit: doc for hit, doc in found.items() if doc is not None}
        homeless += len(found) - len(documents[query])
    warnings = list(ranked.warnings)
    if homeless:
        found_in = f"{homeless} of {total} passages have no {match.id}"
        if homeless == total:
            raise _nowhere(ranked, match, found_in, plan.corpus)
        warnings.append(f"{ranked.name}: {found_in}; they are counted as documents of their own")
    run = fold(ranked.run, documents)
    warnings += _too_few(ranked, run, k, rules.top_k)
    return replace(ranked, scored=run, unmatched=ranked.run, warnings=warnings)


def _hits(ranked: RetrieverRun) -> Iterator[tuple[str, Sequence[ScoredDocument]]]:
    """Yield the queries of the run with their hits; those that failed or are missing are not."""
    known = ranked.run.query_index
    for query, outcome in zip(ranked.queries, ranked.outcomes, strict=True):
        if query.id in known and outcome.value is not None:
            yield query.id, outcome.value.documents


def _document_of_hit(
    hit: ScoredDocument, match: Match, corpus: Mapping[str, Document]
) -> str | None:
    """What the retriever says of its hit, else what the corpus says of the document of that id.

    A chunk that we cut ourselves is of the document of its document.
    """
    if hit.document is not None:
        hit = replace(hit, id=hit.document)
    found = document_id(hit, match)
    if found is None and hit.id in corpus:
        return document_id(corpus[hit.id], match)
    return found


def _nowhere(
    ranked: RetrieverRun, match: Match, found: str, corpus: Mapping[str, Document]
) -> DataError:
    found_hits = [hit for _, hits in _hits(ranked) for hit in hits]
    known = (corpus[hit.id].metadata for hit in found_hits if hit.id in corpus)
    keys = keys_of(chain((hit.metadata for hit in found_hits), known))
    return DataError(
        f"{ranked.name}: {found}",
        record="metrics.retrieval.match.id",
        allowed=", ".join(keys) or "metadata in the corpus or from the retriever; there are none",
        nearest=nearest(match.id or "", keys),
    )


def _too_few(ranked: RetrieverRun, run: Run, k: int, top_k: int) -> list[str]:
    """Warn where passages are of so few documents that a cut-off looks into the void."""
    left = (run.starts[1:] - run.starts[:-1]).tolist()
    short = [n for n in left if n < k]
    if not short:
        return []
    passages = (ranked.run.starts[1:] - ranked.run.starts[:-1]).tolist()
    whole = sum(n < k and of < top_k for n, of in zip(left, passages, strict=True))
    warning = (
        f"{ranked.name}: {len(short)} of {len(left)} queries have fewer than {k} documents after "
        f"folding (the fewest: {min(short)}); raise top_k, which is {top_k} and counts passages"
    )
    if whole:
        warning += f" ({whole} of them got fewer passages than that from the retriever)"
    return [warning]


def _match_texts(ranked: RetrieverRun, qrels: Qrels, plan: Plan) -> RetrieverRun:
    rules, corpus = plan.config.metrics.retrieval, plan.corpus
    overlap = rules.match.overlap or DEFAULT_OVERLAP
    order = ranked_documents(ranked.run, ties=rules.ties, trec_eval=rules.trec_eval)
    words_of = cache(PassageWords)  # texts come up again from query to query
    rankings: dict[str, list[str]] = {}
    unknown = several = 0
    for query, hits in _hits(ranked):
        grades = qrels.by_query.get(query, {})
        gold = {doc: words_of(_body(corpus[doc])) for doc in grades if doc in corpus}
        by_id = {hit.id: document_of(hit, corpus) for hit in reversed(hits)}
        texts = [by_id[name] for name in order[query]]
        unknown += sum(text is None for text in texts)
        credits = credit(
            (None if text is None else words_of(_body(text)) for text in texts),
            GoldPassages(gold, overlap),
            grades,
        )
        several += credits.several
        rankings[query] = _names(order[query], credits.documents, grades)
    warnings, notes = list(ranked.warnings), list(ranked.notes)
    if unknown:
        found = f"{ranked.name}: {unknown} of {len(ranked.run)} passages have no text"
        if unknown == len(ranked.run):
            allowed = "a retriever that returns texts, or a data set with these documents"
            raise DataError(found, record="metrics.retrieval.match", allowed=allowed)
        warnings.append(f"{found} and match nothing")
    if several:
        what = "passages match several gold passages; each counts for one, the best graded"
        notes.append(f"{ranked.name}: {several} {what}")
    run = replace(Run.from_rankings(rankings, ranked.run.name), duplicates=ranked.run.duplicates)
    return replace(ranked, scored=run, unmatched=ranked.run, warnings=warnings, notes=notes)


def _body(document: Document) -> str:
    """The text without the title, which chunks of the same text may lack or repeat."""
    return document.text or document.title


def _names(
    passages: Sequence[str], credited: Sequence[str | None], judged: Mapping[str, int]
) -> list[str]:
    """The ids that are scored: of the gold passage, or else one that nothing is judged by."""
    taken = {*passages, *judged}
    names = []
    for passage, gold in zip(passages, credited, strict=True):
        name = passage if gold is None else gold
        if gold is None and passage in judged:
            while name in taken:
                name += "~"
            taken.add(name)
        names.append(name)
    return names
