"""Rankings of hits: a run of all queries, with notes and warnings on odd hits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from ragbench.comparison.hit_documents import document_resolver
from ragbench.experiment.calls import FileRankings, Outcome, values_of
from ragbench.experiment.records import RetrieverRun, name_sentences
from ragbench.experiment.stages.matching import has_own_id, name_documents
from ragbench.retrieve.base import Retriever
from ragbench.types import Document, Retrieved, Run, ScoredDocument
from ragbench.types.documents import record_ids
from ragbench.types.rows import Mapped

# Queries whose hits are in memory at a time.
_BLOCK = 64


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
            outcomes = Mapped(partial(name_documents, document_of_hit=document_of_hit), outcomes)
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
    if n_unknown and any(map(has_own_id, all_hits())):
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
