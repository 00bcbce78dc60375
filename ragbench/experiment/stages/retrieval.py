"""Retrieval: one retriever, all queries, and what its hits count for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragbench.errors import AdapterError
from ragbench.experiment.calls import Calls, Outcome, call_each, call_once, naming
from ragbench.experiment.records import Ranked
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.python import read_hits
from ragbench.types import Cause, Document, Query, Retrieved, Run, ScoredDocument

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
