"""Retrieval: one retriever, all queries, and what its hits count for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ragbench.config.schema import Match, RetrievalMetrics
from ragbench.data.files.collection import encode_spaces
from ragbench.data.files.jsonl import id_problem
from ragbench.errors import AdapterError, DataError
from ragbench.experiment.calls import Calls, Outcome, call_each, call_once, naming
from ragbench.experiment.plan.groups import keys_of, look_up
from ragbench.experiment.records import Ranked
from ragbench.experiment.stages.answers import document_of
from ragbench.registry import nearest
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.python import read_hits
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
from ragbench.types import Cause, Document, Qrels, Query, Retrieved, Run, ScoredDocument

OnOutcome = Callable[[int, Outcome[Retrieved]], None]
"""Given the position of a query and its outcome."""

_BLOCK = 32  # queries a batch call; small enough that one that fails costs little


def retrieve(
    retriever: Retriever,
    queries: Sequence[Query],
    top_k: int,
    calls: Calls,
    on_outcome: OnOutcome = lambda position, outcome: None,
    rankings: Sequence[Sequence[Sequence[ScoredDocument]]] | None = None,
) -> list[Outcome[Retrieved]]:
    """Ask a retriever every query and return one outcome each, in order.

    A retriever that answers in batches is asked in blocks; where a block raises, hangs or has the
    wrong length, its queries are asked one by one, so that only the guilty one fails. What went
    wrong names the retriever and the query.

    Args:
        retriever: Has `retrieve(queries, top_k)`, or `combine(queries, rankings, top_k)`.
        queries: The n queries.
        top_k: How many hits are wanted.
        calls: Timeout and concurrency.
        on_outcome: Given each query's position and outcome as soon as its block is done.
        rankings: For a retriever over others: for each of its sources, n lists of hits.
    """

    def take(position: int, outcome: Outcome[Retrieved]) -> None:
        on_outcome(position, naming(queries[position].id, outcome))

    outcomes = _asked(retriever, queries, top_k, calls, take, rankings)
    return [naming(query.id, outcome) for query, outcome in zip(queries, outcomes, strict=True)]


def _asked(
    retriever: Retriever,
    queries: Sequence[Query],
    top_k: int,
    calls: Calls,
    on_outcome: OnOutcome,
    rankings: Sequence[Sequence[Sequence[ScoredDocument]]] | None,
) -> list[Outcome[Retrieved]]:
    """One outcome per query, by blocks or one by one."""

    def answers_to(positions: Sequence[int]) -> list[Any]:
        asked = [queries[position] for position in positions]
        if rankings is None:
            answers = list(retriever.retrieve(asked, top_k))
        else:
            hits = [[source[position] for position in positions] for source in rankings]
            answers = list(retriever.combine(asked, hits, top_k))
        if len(answers) != len(asked):
            wanted = f"{len(asked)} quer{'y' if len(asked) == 1 else 'ies'}"
            raise AdapterError(f"{len(answers)} answers to {wanted}")
        return answers

    def ask_one(position: int) -> Retrieved:
        return read_hits(answers_to([position])[0], top_k)

    everything = range(len(queries))
    if retriever.asks_one_by_one:
        return call_each(ask_one, everything, calls, on_outcome)

    def ask(block: Sequence[int]) -> list[Outcome[Retrieved]]:
        answered = call_once(answers_to, block, calls)
        if answered.value is None:
            return call_each(ask_one, block, Calls(calls.owner, calls.timeout))
        latency = (answered.latency_ms or 0.0) / len(block)
        return [_read(answer, top_k, calls.owner, latency) for answer in answered.value]

    blocks = [everything[start : start + _BLOCK] for start in range(0, len(queries), _BLOCK)]

    def take(number: int, block: Outcome[list[Outcome[Retrieved]]]) -> None:
        for position, outcome in zip(blocks[number], block.value or (), strict=True):
            on_outcome(position, outcome)

    done = call_each(ask, blocks, Calls(calls.owner, None, calls.concurrency), take)
    return [outcome for block in done for outcome in block.value or ()]


def _read(answer: Any, top_k: int, owner: str, latency_ms: float) -> Outcome[Retrieved]:
    """One answer of a block, read by itself: a malformed one does not spoil the others."""
    try:
        return Outcome(read_hits(answer, top_k), latency_ms=latency_ms)
    except AdapterError as error:
        return Outcome(None, Cause.MALFORMED, f"{owner}: {error}", latency_ms)


def ranked(
    name: str,
    retriever: Retriever,
    queries: Sequence[Query],
    outcomes: list[Outcome[Retrieved]],
    corpus: Sequence[Document] | None,
    top_k: int | None = None,
    said: Sequence[str] | None = None,
) -> Ranked:
    """Turn a retriever's outcomes into the run that is scored, with notes on what was odd.

    Args:
        name: Its name.
        retriever: The retriever itself, for what it says of its hits.
        queries: The n queries.
        outcomes: n outcomes.
        corpus: The documents, where their ids are those of hits.
        top_k: How many hits it was asked for; None where a shorter list is nothing to speak of.
        said: What it noted about its hits; None asks it.
    """
    covered = retriever.query_ids
    rankings = {
        query.id: outcome.value.documents
        for query, outcome in zip(queries, outcomes, strict=True)
        if outcome.value is not None and (covered is None or query.id in covered)
    }
    if retriever.ranks_by_score:
        run = Run.from_dict(
            {q: {d.id: d.score or 0.0 for d in hits} for q, hits in rankings.items()}, name
        )
    else:
        run = Run.from_rankings(rankings, name)
    notes = [*_notes(run), *(retriever.notes if said is None else said)]
    limited = top_k is not None and not retriever.ranks_by_score
    warnings = _never_full(outcomes, corpus, top_k or 0) if limited else []
    if corpus is not None and (strange := _outside(rankings, corpus)):
        remark = f"{strange} of {len(run)} hits have ids that the corpus lacks; they are unjudged"
        # a few may be a corpus that has moved on; most mean the wrong corpus, or other ids
        (warnings if strange > len(run) / 2 else notes).append(remark)
    return Ranked(
        name,
        queries,
        outcomes,
        run,
        notes=[f"{name}: {note}" for note in notes],
        warnings=[f"{name}: {warning}" for warning in warnings],
    )


def _outside(rankings: Mapping[str, Sequence[ScoredDocument]], corpus: Sequence[Document]) -> int:
    """How many hits the corpus lacks; a repeated one counts once, as in the run."""
    known = {document.id for document in corpus}
    return sum(
        len({hit.id if hit.document is None else hit.document for hit in hits} - known)
        for hits in rankings.values()
    )


def _never_full(
    outcomes: Sequence[Outcome[Retrieved]], corpus: Sequence[Document] | None, top_k: int
) -> list[str]:
    """Say where a limit of the retriever's own cuts every list short of `top_k`.

    A corpus that has no more documents is no such limit.
    """
    lengths = [len(outcome.value.documents) for outcome in outcomes if outcome.value is not None]
    most = max(lengths, default=0)
    if not 0 < most < (top_k if corpus is None else min(top_k, len(corpus))):
        return []
    return [f"returned at most {most}; search_kwargs? ({top_k} were asked for)"]


def _notes(run: Run) -> list[str]:
    notes = []
    if repeated := sum(run.duplicates.values()):
        notes.append(f"{repeated} document ids appeared twice in a ranking; counted once")
    if run.substituted:
        notes.append(
            f"the order of {run.substituted} rankings counts; their scores, absent, tied or out of "
            "order, were replaced by falling ones"
        )
    return notes


def match_hits(
    ranked: Ranked,
    rules: RetrievalMetrics,
    measures: Sequence[str],
    qrels: Qrels | None,
    corpus: Mapping[str, Document],
) -> Ranked:
    """Return a retriever's rankings as they are scored; generators still get its passages.

    Args:
        ranked: What the retriever returned.
        rules: How hits are matched with judgements.
        measures: What is scored.
        qrels: The judgements; without any, nothing is matched or folded.
        corpus: Documents by id, for the text and metadata that a hit does not bring.

    Raises:
        DataError: No hit has what it would be matched by.
    """
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


def document_id(passage: Document | ScoredDocument, match: Match) -> str | None:
    """Return the id of the document that a passage is of; None where its metadata lack it.

    Example:
        >>> passage = Document("d1#4", metadata={"source": {"doc": 7}})
        >>> document_id(passage, Match(level="document", id="metadata.source.doc"))
        '7'
        >>> document_id(passage, Match(level="document", separator="#"))
        'd1'
    """
    if match.id is None:
        return before_last(passage.id, match.separator or "")
    value = look_up(passage.metadata, match.id)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    identifier = encode_spaces(str(value))  # as ids of judgements and of hits are written
    return None if id_problem(identifier) else identifier


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
    """Say that no passage names its document, and which keys there are."""
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
    found = known.get(text)
    if found is None:
        found = known[text] = PassageWords(text)
    return found


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
