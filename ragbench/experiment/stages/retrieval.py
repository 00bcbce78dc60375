"""Retrieval stages: the hits of each retriever, and the rankings that are scored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, cast

from ragbench.errors import AdapterError, RagbenchError
from ragbench.executors.base import Executor, Task
from ragbench.experiment.calls import (
    Calls,
    FileRankings,
    Outcome,
    call_on,
    call_once,
    calling,
    name_queries,
    without_value,
)
from ragbench.experiment.records import Results, RetrieverRun, Work
from ragbench.experiment.stages import base, stored_items
from ragbench.experiment.stages.matching import (
    check_ids,
    drop_excluded,
    match_hits,
    meet_gold,
    rank_outcomes,
)
from ragbench.experiment.stages.stored_items import hits_key, query_key
from ragbench.files import cache_folder
from ragbench.records.codec import Record, from_json, to_json
from ragbench.rerank.base import with_tail
from ragbench.retrieve.base import IndexSearch, Rankings, Retriever
from ragbench.retrieve.python import first_documents, read_hits
from ragbench.score.base import Advance
from ragbench.score.retrieval.notation import parse_measures
from ragbench.store.items import StageItems
from ragbench.types import Cause, Document, Query, Retrieved, Run, ScoredDocument
from ragbench.types.records import EXCLUDED_NOTE
from ragbench.types.rows import Mapped

# Position of a query, and its outcome.
QueryOutcome = tuple[int, Outcome[Retrieved]]

# Queries of a batch call: few, so that a call that fails costs little.
_BLOCK = 32


def retrieve(
    retriever: Retriever,
    queries: Sequence[Query],
    top_k: int,
    calls: Calls,
    rankings: Rankings = (),
    executor: Executor | None = None,
) -> Iterator[QueryOutcome]:
    """Retrieve hits for queries; yield the position and the outcome of each query when it is there.

    A query whose call raises, times out or returns something else than hits has a cause in place of
    hits, and the other queries go on. A retriever that answers in batches is asked in blocks; the
    queries of a block that fails are asked one by one, so that only the query at fault fails.
    Positions are from 0, in the order in which calls end. Latencies of a block are shared equally
    among its queries, in milliseconds.

    Args:
        retriever: Indexed retriever.
        queries: The n queries.
        top_k: Largest number of hits of a query.
        calls: Name in messages, timeout and concurrency of the retriever.
        rankings: For each source of a retriever over others, the hits of each of the n queries.
        executor: Workers that search the index where its files are on this machine; None, or a
            retriever without such an index, searches here.

    Raises:
        AdapterError, RuntimeError: The search on workers fails as a whole; see `Executor.map`.
    """
    is_local = executor is not None and executor.is_here
    index = retriever.index_search(top_k) if is_local else None
    if executor is not None and index is not None:
        yield from _search_on_workers(executor, index, queries, calls, rankings)
        return

    def answers_to(positions: Sequence[int]) -> list[Any]:
        block = [queries[position] for position in positions]
        if rankings:
            hits = [[source[position] for position in positions] for source in rankings]
            answers = list(retriever.combine(block, hits, top_k))
        else:
            answers = list(retriever.retrieve(block, top_k))
        if len(answers) != len(block):
            expected = f"{len(block)} quer{'y' if len(block) == 1 else 'ies'}"
            raise AdapterError(f"{len(answers)} answers to {expected}")
        return answers

    def ask_one(position: int) -> Retrieved:
        return read_hits(answers_to([position])[0], top_k)

    positions = range(len(queries))
    if retriever.asks_one_by_one:
        yield from calling(ask_one, positions, calls)
        return
    # a time limit is that of one call, and a block may take many
    untimed, read = Calls(calls.owner, None, calls.concurrency), partial(read_hits, top_k=top_k)

    def ask_block(block: Sequence[int]) -> list[Outcome[Retrieved]]:
        answers = call_once(answers_to, block, calls)
        if answers.value is None:
            one_by_one = calling(ask_one, block, replace(calls, concurrency=1))
            return [outcome for _, outcome in one_by_one]
        latency_ms = (answers.latency_ms or 0.0) / len(block)
        # read by itself, so that a malformed answer does not spoil the others of its block
        outcomes = [call_once(read, answer, untimed) for answer in answers.value]
        return [replace(outcome, latency_ms=latency_ms) for outcome in outcomes]

    blocks = [positions[start : start + _BLOCK] for start in range(0, len(queries), _BLOCK)]
    for number, answered in calling(ask_block, blocks, untimed):
        yield from zip(blocks[number], answered.value or (), strict=True)


# Status of a request that a server understands and refuses
_INVALID = re.compile(r"the server answered (?:400|422): ")
# Words of stores that refuse the number of hits without naming it; the last ones are hnswlib's
_ABOUT_DEPTH = r"\btop_?k\b|\bn_results\b|\bnum_results\b|\bresult window\b|contiguous 2D array"


def _with_remedy(outcome: Outcome[Retrieved], top_k: int) -> Outcome[Retrieved]:
    """Return an outcome whose detail names the remedy, if its error is of `top_k` or of threads."""
    is_refused = outcome.cause == Cause.SERVER_ERROR and _INVALID.search(outcome.detail)
    if outcome.cause != Cause.ERROR and not is_refused:
        return outcome
    remedies = {
        # a store that refuses more hits than it has documents says how many were asked for
        rf"(?i)(?<!\d){top_k}(?!\d)|{_ABOUT_DEPTH}": (
            f"; it was asked for {top_k} hits: set metrics.retrieval.top_k"
        ),
        # sqlite3, and other libraries whose connections belong to a thread
        r"\bthread\b": "; calls run in other threads than the import: connect in the function",
    }
    words = [words for sign, words in remedies.items() if re.search(sign, outcome.detail)]
    return replace(outcome, detail=outcome.detail + "".join(words))


def _search_on_workers(
    executor: Executor,
    index: IndexSearch,
    queries: Sequence[Query],
    calls: Calls,
    rankings: Rankings,
) -> Iterator[QueryOutcome]:
    """Search the index of a retriever on workers; yield position and outcome of each query.

    Queries whose request fails come first, then the others in order. Requests are created and hits
    are read here, where the corpus is. Raises as `Executor.map` does.
    """

    def request(position: int) -> Any:
        return index.request(queries[position], [source[position] for source in rankings])

    # no time limit: requests are made here, by code of this package
    requests = dict(calling(request, range(len(queries)), Calls(calls.owner)))
    ready = [position for position, outcome in requests.items() if outcome.value is not None]
    for position in sorted(requests.keys() - ready):
        yield position, cast("Outcome[Retrieved]", requests[position])
    items = [requests[position].value for position in ready]
    apply = partial(_search_block, index.find, calls.owner)
    task = Task(calls.owner, index.make, index.options, apply)
    for number, outcome in call_on(executor, task, items, _BLOCK, calls, lambda hits: hits):
        hits = None if outcome.value is None else index.read(outcome.value, items[number])
        latency_ms = (requests[ready[number]].latency_ms or 0.0) + (outcome.latency_ms or 0.0)
        yield ready[number], replace(outcome, value=hits, latency_ms=latency_ms)


def _search_block(
    find: Callable[[Any, Any], Any], owner: str, index: Any, requests: list[Any]
) -> list[Outcome[Any]]:
    """Return the outcome of each request to an open index, in a worker.

    An error of `find(index, request)` becomes the cause of that request alone.
    """
    return [call_once(partial(find, index), request, Calls(owner)) for request in requests]


# Key of the item that holds the retriever's notes; the keys of the others are hashes.
_NOTES = "notes by items"
# Digits of the key of an item beside a note.
_NOTE_DIGITS = 12


class _StoredNotes(Record):
    """Notes of a retriever on some of its items.

    Attributes:
        notes: The notes, in the order of the retriever.
        items: First digits of the keys of the items that were made when it wrote the notes.
    """

    notes: tuple[str, ...]
    items: tuple[str, ...]


# Hits of each query.
Hits = Sequence[list[ScoredDocument]]


def make_ready(workspace: base.Workspace, name: str) -> Retriever:
    """Load and index a retriever on its first use, with the retrievers that it borrows; return it.

    Raises:
        AdapterError: Indexing fails in code of the user.
        RagbenchError: A model or an index cannot be loaded, such as MissingExtra.
    """
    plan = workspace.plan
    retriever, corpus = plan.retrievers[name], plan.collection.documents
    if name in workspace.ready:
        return retriever
    # before `load`, which may read the cache
    retriever.cache_folder = cache_folder(plan.config.cache)
    retriever.cache_also = plan.config.cache_also
    retriever.executor = workspace.executor
    retriever.load()
    if retriever.indexes and corpus is not None:
        with workspace.timed(f"index {name}", len(corpus), "documents") as stage:
            _index(name, retriever, corpus, stage.advance)
    if retriever.borrows:
        retriever.borrow([make_ready(workspace, source) for source in retriever.sources])
    workspace.ready.add(name)
    return retriever


def retriever_key(workspace: base.Workspace, name: str, top_k: int) -> str:
    """Return the key of a retriever's hits: a hash of its entry, `top_k`, and what it reads.

    That is the corpus if it indexes one, its depth in other retrievers' hits, and the keys of
    retrievers that it borrows. The entry of a live object is its name and the run. The queries, and
    the hits of sources, are in the keys of the items. It has 32 hexadecimal digits.
    """
    retriever = workspace.plan.retrievers[name]
    inputs: dict[str, Any] = {"stage": Retrieve.version, "top_k": top_k}
    if retriever.indexes:
        inputs["corpus"] = workspace.plan.collection.fingerprint("corpus")
    if retriever.sources:
        # notes count over all hits of one depth, so that no depth uses items of another
        inputs["depth"] = retriever.depth
    if retriever.borrows:
        # top_k 0: a borrowed retriever is searched at any depth
        inputs["borrows"] = [retriever_key(workspace, source, 0) for source in retriever.sources]
    return workspace.component_key("retriever", name, **inputs)


class Retrieve(base.StoredStage):
    """Stage that retrieves the hits of every query, from the corpus or from other retrievers' hits.

    `outcomes` has the hits of each query, or the cause of its failure. Creating a stage enters it
    and those of its sources in `stages`, by retriever and depth.

    Attributes:
        name: Name of the retriever.
        top_k: Largest number of hits of a query.
        retriever: Retriever.
        sources: List of the stages whose hits it combines; empty for a retriever over the corpus.
    """

    kind, version = "retrieve", 1

    def __init__(
        self,
        workspace: base.Workspace,
        name: str,
        top_k: int,
        stages: dict[tuple[str, int], Retrieve],
    ) -> None:
        """Add this stage, and those of its sources, to `stages`, by retriever and depth.

        Each retriever is asked once for each depth, whoever reads its hits.
        """
        super().__init__(workspace, f"retrieve {name}")
        stages[name, top_k] = self
        self.name, self.top_k = name, top_k
        self.retriever = self.plan.retrievers[name]
        self._depth = self.retriever.depth or top_k
        source_depth = max(self._depth, top_k)
        self.sources = [
            stages.get((source, source_depth)) or Retrieve(workspace, source, source_depth, stages)
            for source in self.retriever.sources
        ]
        self._made = set[int]()
        # a source that is not scored stands in a plan before the scored retrievers
        self.place = 1 if name in self.plan.scored_retrievers else 0

    @cached_property
    def outcomes(self) -> Sequence[Outcome[Retrieved]]:
        """Outcome of each query, with at most `top_k` hits; retrieved where it is not stored.

        Hits of a run file are read from the file, and not stored a second time. A query that failed
        in a source has its cause; in a forecast, missing ones are `PENDING`.
        """
        if self.retriever.recorded() is not None:
            n = len(self.plan.queries)
            self.workspace.work.setdefault(self.title, Work(n, n))
            read = cast("Callable[[], Run]", self.retriever.recorded)
            return FileRankings(self.plan.ids, read, self.top_k)
        failed, _ = self._inputs
        outcomes = self.items(default=base.PENDING)
        for row, outcome in failed.items():
            if outcome != base.PENDING:
                outcomes[row] = outcome
        if self.retriever.keeps_tail:
            pairs = zip(outcomes, self.sources[0].outcomes, strict=True)
            outcomes = [self._with_tail(*pair) for pair in pairs]
        return outcomes

    def _with_tail(
        self, outcome: Outcome[Retrieved], source: Outcome[Retrieved]
    ) -> Outcome[Retrieved]:
        """Return an outcome with the hits of its source below `depth`; a failed one as it is.

        They are no part of the stored item, so that another `tail` or `top_k` of the source sends
        nothing to the reranker again.
        """
        if outcome.value is None or source.value is None:
            return outcome
        hits = with_tail(outcome.value.documents, source.value.documents, self._depth)
        retrieved = replace(outcome.value, documents=first_documents(hits, self.top_k))
        return replace(outcome, value=retrieved)

    def longest(self) -> int:
        """Return the number of hits of the query that has most; 0 without any."""
        if isinstance(self.outcomes, FileRankings):
            return self.outcomes.longest()
        values = (outcome.value for outcome in self.outcomes)
        return max((len(value.documents) for value in values if value is not None), default=0)

    def retrieved(self) -> Sequence[Outcome[Retrieved]]:
        """Return the outcomes, for `Rank`."""
        return self.outcomes

    @property
    def notes(self) -> list[str]:
        """Stored notes of the retriever about the hits of this run; for a run file, its own.

        The same cache may have notes on other hits, such as those of another source. A note is on
        hits of this run if at least half of its items are items of the run, or the other way round.
        """
        if isinstance(self.outcomes, FileRankings):
            return list(self.retriever.notes)
        if not (stored := self._stored_notes()):
            return []
        items = self._note_items(range(len(self.plan.queries)))
        notes = [
            entry.notes
            for entry in stored
            if 2 * len(items.intersection(entry.items)) >= min(len(items), len(entry.items))
        ]
        return list(dict.fromkeys(chain.from_iterable(notes)))

    def _stored_notes(self) -> list[_StoredNotes]:
        """Return the stored notes of the retriever, with the items that they are about."""
        stored = self._stored_items.get(_NOTES) or []
        return [from_json(_StoredNotes, entry) for entry in stored]

    def _store_notes(self, rows: Sequence[int]) -> None:
        """Store the notes of the retriever after it made the items of the queries at `rows`.

        It counts over all calls so far: its notes replace those on a part of the same items.
        """
        self._made.update(rows)
        if notes := [*map(self.workspace.clean, self.retriever.notes)]:
            items = self._note_items(self._made)
            entries = [entry for entry in self._stored_notes() if not items >= {*entry.items}]
            entries.append(_StoredNotes(notes=tuple(notes), items=tuple(sorted(items))))
            self._stored_items.put(_NOTES, [*map(to_json, entries)])

    def _note_items(self, rows: Iterable[int]) -> set[str]:
        """Return the first digits of the keys of the items of some queries."""
        slots = self.slots()
        return {slot.key[:_NOTE_DIGITS] for row in rows if (slot := slots[row]) is not None}

    @cached_property
    def _stored_items(self) -> StageItems:
        return self.items_of_key(self.name, retriever_key(self.workspace, self.name, self.top_k))

    @cached_property
    def _inputs(self) -> tuple[dict[int, Outcome[Retrieved]], list[Hits]]:
        """Outcomes by row of queries without hits of a source; and the hits of each source.

        The outcome has the cause of the failure, or is pending. Hits are cut at `depth`, and have
        the text of the corpus where they have none.
        """
        failed = dict[int, Outcome[Retrieved]]()
        for source in self.sources:
            for row, outcome in without_value(source.outcomes):
                failed[row] = Outcome(None, outcome.cause, outcome.detail)

        def hits_in(outcome: Outcome[Retrieved]) -> list[ScoredDocument]:
            hits = [] if outcome.value is None else outcome.value.documents[: self._depth]
            return [stored_items.with_text(hit, self.plan.corpus) for hit in hits]

        return failed, [Mapped(hits_in, source.outcomes) for source in self.sources]

    def slots(self) -> list[base.Slot | None]:
        """Return a slot for each query; None for a query that failed in a source.

        The key of a query whose source is pending is `UNKNOWN`.
        """
        failed, rankings = self._inputs
        slots: list[base.Slot | None] = []
        for row, query in enumerate(self.plan.queries):
            if row in failed:
                key = key_after(failed[row])
            else:
                hits = [source[row] for source in rankings]
                key = hits_key(query, hits) if self.sources else query_key(query)
            slots.append(None if key is None else base.Slot(self._stored_items, key, row))
        return slots

    def prepare(self) -> None:
        """Load the retriever and index the corpus, once per run; raise as `make_ready` does."""
        make_ready(self.workspace, self.name)

    def pay_for(self, rows: Sequence[int]) -> None:
        """Retrieve for all queries: `rows` has no effect, as retrieval costs no money."""
        _ = self.outcomes

    def make(self, todo: Sequence[int], keep: base.Keep, advance: Advance) -> None:
        """Retrieve hits for the queries of some slots, in their order, and store the notes."""
        _, rankings = self._inputs
        queries = [self.plan.queries[row] for row in todo]
        calls = self.workspace.calls("retriever", self.name)
        hits = [Mapped(source.__getitem__, todo) for source in rankings]
        executor = self.workspace.executor
        answered = retrieve(self.retriever, queries, self.top_k, calls, hits, executor)
        outcomes = ((row, _with_remedy(outcome, self.top_k)) for row, outcome in answered)
        base.keep_all(name_queries(queries, outcomes), todo, keep, advance)
        self._store_notes(todo)

    read = staticmethod(stored_items.read_retrieved)

    def write(self, value: Outcome[Retrieved]) -> dict[str, Any]:
        """Return an outcome as JSON, without the texts that the corpus has as well."""
        if value.value is not None:
            hits = [
                stored_items.without_text(hit, self.plan.corpus) for hit in value.value.documents
            ]
            value = replace(value, value=Retrieved(hits, value.value.queries))
        return stored_items.write_retrieved(value)

    def collect(self, results: Results) -> None:
        """Retrieve what is not stored; `Rank` adds it to the results."""
        _ = self.outcomes

    def forecast(self) -> base.Step:
        """Return a step with the number of queries, and of those whose hits are stored."""
        _ = self.outcomes  # looks them up, which `node` counts
        return self.node(len(self.plan.queries))


class Rank(base.Stage):
    """Stage that turns the hits of a retriever or an app into the ranking that is scored.

    It stores nothing. `retrieved` returns the outcomes of `source` or of an app, None for an app
    without passages. `ranking` is made on first access, and `collect` adds it to the results.

    Attributes:
        name: Name of the retriever or app.
        source: Stage that retrieves; None for an app or a recorded system.
    """

    def __init__(
        self,
        workspace: base.Workspace,
        name: str,
        source: Retrieve | None,
        retrieved: Callable[[], Sequence[Outcome[Retrieved]] | None],
    ) -> None:
        """`retrieved` returns the outcome of each query, or None if an app returns no passages."""
        super().__init__(workspace, under=source)
        self.name, self.source, self._retrieved = name, source, retrieved

    @cached_property
    def ranking(self) -> RetrieverRun | None:
        """Ranking as it is scored, with notes and warnings; None for an app without passages.

        Raises:
            DataError: Hits cannot be matched, as in `match_hits`, or have unknown ids, as in
                `check_ids`.
        """
        outcomes, plan = self._retrieved(), self.plan
        if outcomes is None:
            return None
        outcomes, n_excluded = drop_excluded(outcomes, plan)
        rules = plan.config.metrics.retrieval
        # hits that are matched by their text need not have ids of the corpus
        corpus = None if rules.match.level == "text" else plan.collection.documents
        # an app declares nothing: the defaults of a retriever hold
        retriever = Retriever() if self.source is None else self.source.retriever
        notes = [] if self.source is None else [*self.source.notes, *self._cut_notes(outcomes)]
        top_k = None if n_excluded else self._expected_hits(retriever)
        if n_excluded:
            notes.append(EXCLUDED_NOTE.format(n_excluded))
        ranking = rank_outcomes(self.name, retriever, plan.queries, outcomes, corpus, top_k, notes)
        ranking = meet_gold(match_hits(ranking, plan), plan)
        return check_ids(ranking, plan, is_app=self.source is None)

    def _expected_hits(self, retriever: Retriever) -> int | None:
        """Return the number of hits of which a ranking that has fewer gets a warning; None: none.

        An app returns as many as it likes, and matching of terms finds fewer in some queries. A
        retriever over others is expected to keep as many hits as its longest source has.
        """
        top_k = self.plan.config.metrics.retrieval.top_k
        if self.source is None or (retriever.ranks_by_score and not retriever.sources):
            return None
        if not retriever.sources:
            return top_k
        return min(top_k, max(source.longest() for source in self.source.sources))

    def _cut_notes(self, outcomes: Sequence[Outcome[Retrieved]]) -> list[str]:
        """Return a note if a run file is deeper than measures without a cut-off read; else []."""
        measures = parse_measures(self.plan.measures)
        if not isinstance(outcomes, FileRankings) or all(measure.k for measure in measures):
            return []
        longest = outcomes.longest()
        if longest <= outcomes.top_k:
            return []
        return [
            f"top_k cuts rankings of up to {longest} hits at {outcomes.top_k}: measures without a "
            "cut-off read no more, and have other means than over the whole file"
        ]

    @property
    def is_known(self) -> bool:
        """Return True if no query is pending: its hits are stored, or its retrieval failed.

        False for an app and for recorded systems.
        """
        outcomes = () if self.source is None else self.source.outcomes
        return self.source is not None and (
            isinstance(outcomes, FileRankings) or base.PENDING not in outcomes
        )

    def collect(self, results: Results) -> None:
        """Add the ranking with its notes and warnings to the results; nothing without a ranking.

        Raises a DataError as `ranking` does.
        """
        if self.ranking is not None:
            results.rankings[self.name] = self.ranking
            results.notes += self.ranking.notes
            results.warnings += self.ranking.warnings


def key_after(outcome: Outcome[Any]) -> str | None:
    """Return the key of an item whose source is pending or failed: `UNKNOWN`, or None if failed."""
    return base.UNKNOWN if outcome == base.PENDING else None


def _index(name: str, retriever: Retriever, corpus: Sequence[Document], advance: Advance) -> None:
    """Index the documents; raise `AdapterError` for an error of the user's code.

    Errors of this package and Ctrl-C pass through. `advance` counts all documents in the end.
    """
    n_reported = 0

    def count(n: int = 1) -> None:
        nonlocal n_reported
        n_reported += n
        advance(n)

    try:
        retriever.advance = count
        retriever.index(corpus)
    except (KeyboardInterrupt, RagbenchError):
        raise
    except BaseException as error:  # code of the user may raise anything
        message = f"retriever '{name}': index: {type(error).__name__}: {error}"
        raise AdapterError(message) from error
    advance(len(corpus) - n_reported)  # most retrievers report no progress
