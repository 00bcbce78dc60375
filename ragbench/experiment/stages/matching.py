"""What a hit is, before it is scored: passages become their documents, or the gold they match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ragbench.config.schema import Match, RetrievalMetrics
from ragbench.errors import DataError
from ragbench.experiment.plan.groups import document_id, keys_of
from ragbench.experiment.records import Ranked
from ragbench.registry import nearest
from ragbench.score.retrieval.notation import parse_measures
from ragbench.score.retrieval.passage_matching import (
    DEFAULT_OVERLAP,
    GoldPassages,
    PassageWords,
    credit,
    fold,
)
from ragbench.score.retrieval.ranking import ranked_documents
from ragbench.types import Document, Qrels, Run, ScoredDocument


def document_of(hit: ScoredDocument, corpus: Mapping[str, Document]) -> Document | None:
    """Return a hit as a document with text: its own, else the corpus document's, else None."""
    if hit.text is not None:
        return Document(hit.id, hit.text, hit.title or "", hit.metadata)
    return corpus.get(hit.id)


def match_hits(
    ranked: Ranked,
    rules: RetrievalMetrics,
    measures: Sequence[str],
    qrels: Qrels | None,
    corpus: Mapping[str, Document],
) -> Ranked:
    """Return a retriever's rankings as they are scored; generators still get its passages."""
    of_ids = [m for m in parse_measures(measures) if m.spec.reads != "passages"]
    if qrels is None or not of_ids:
        return ranked
    if rules.match.level == "text":
        return _match_texts(ranked, rules, qrels, corpus)
    if rules.match.level == "id":
        return _fold_chunks(ranked)
    # without any cut-off, rankings are looked at as deep as they are kept
    deepest = max((m.k for m in of_ids if m.k is not None), default=rules.top_k)
    return _fold(ranked, rules, deepest, corpus)


def _fold_chunks(ranked: Ranked) -> Ranked:
    """Fold the chunks that we cut ourselves; hits that are documents stay what they are."""
    documents = {
        query: {hit.id: hit.document for hit in hits if hit.document is not None}
        for query, hits in _hits(ranked)
    }
    if not any(documents.values()):
        return ranked
    return replace(ranked, run=fold(ranked.run, documents), unmatched=ranked.run)


def _fold(
    ranked: Ranked, rules: RetrievalMetrics, k: int, corpus: Mapping[str, Document]
) -> Ranked:
    match, documents = rules.match, dict[str, dict[str, str]]()
    homeless, total = 0, 0
    for query, hits in _hits(ranked):
        found = {hit.id: _document_of_hit(hit, match, corpus) for hit in reversed(hits)}
        total += len(found)
        homeless += sum(document is None for document in found.values())
        documents[query] = {hit: doc for hit, doc in found.items() if doc is not None}
    warnings = list(ranked.warnings)
    if homeless:
        found_in = f"{homeless} of {total} passages have no {match.id}"
        if homeless == total:
            raise _nowhere(ranked, match, found_in, corpus)
        warnings.append(f"{ranked.name}: {found_in}; they are counted as documents of their own")
    run = fold(ranked.run, documents)
    warnings += _too_few(ranked, run, k, rules.top_k)
    return replace(ranked, run=run, unmatched=ranked.run, warnings=warnings)


def _hits(ranked: Ranked) -> Iterator[tuple[str, list[ScoredDocument]]]:
    """Yield the queries of the run with their hits; those that failed or are missing are not."""
    for query, outcome in zip(ranked.queries, ranked.outcomes, strict=True):
        if query.id in ranked.run.query_index and outcome.value is not None:
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


def _nowhere(ranked: Ranked, match: Match, found: str, corpus: Mapping[str, Document]) -> DataError:
    found_hits = [hit for _, hits in _hits(ranked) for hit in hits]
    known = (corpus[hit.id].metadata for hit in found_hits if hit.id in corpus)
    keys = keys_of(chain((hit.metadata for hit in found_hits), known))
    return DataError(
        f"{ranked.name}: {found}",
        record="metrics.retrieval.match.id",
        allowed=", ".join(keys) or "metadata in the corpus or from the retriever; there are none",
        nearest=nearest(match.id or "", keys),
    )


def _too_few(ranked: Ranked, run: Run, k: int, top_k: int) -> list[str]:
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


def _match_texts(
    ranked: Ranked, rules: RetrievalMetrics, qrels: Qrels, corpus: Mapping[str, Document]
) -> Ranked:
    overlap = rules.match.overlap or DEFAULT_OVERLAP
    order = ranked_documents(ranked.run, ties=rules.ties, trec_eval=rules.trec_eval)
    known: dict[str, PassageWords] = {}  # texts come up again from query to query
    rankings: dict[str, list[str]] = {}
    unknown = several = 0
    for query, hits in _hits(ranked):
        grades = qrels.by_query.get(query, {})
        gold = {doc: _words(_body(corpus[doc]), known) for doc in grades if doc in corpus}
        by_id = {hit.id: document_of(hit, corpus) for hit in reversed(hits)}
        texts = [by_id[name] for name in order[query]]
        unknown += sum(text is None for text in texts)
        credits = credit(
            (None if text is None else _words(_body(text), known) for text in texts),
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
    return replace(ranked, run=run, unmatched=ranked.run, warnings=warnings, notes=notes)


def _words(text: str, known: dict[str, PassageWords]) -> PassageWords:
    if text not in known:
        known[text] = PassageWords(text)
    return known[text]


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
