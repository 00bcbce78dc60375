"""Retrieval: one retriever, all queries, by itself or over others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
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
    naming,
    without_value,
)
from ragbench.experiment.records import Results, RetrieverRun, Work
from ragbench.experiment.stages.base import (
    PENDING,
    UNKNOWN,
    Keep,
    Node,
    Slot,
    Stage,
    StoredStage,
    Workspace,
    keep_all,
)
from ragbench.experiment.stages.item_json import (
    read_retrieved,
    with_text,
    without_text,
    write_retrieved,
)
from ragbench.experiment.stages.keys import hits_key, query_key
from ragbench.experiment.stages.matching import match_hits, ranked, refuse_other_ids
from ragbench.files import cache_folder
from ragbench.retrieve.base import IndexSearch, Rankings, Retriever
from ragbench.retrieve.python import read_hits
from ragbench.score.base import Advance
from ragbench.store.items import StageItems
from ragbench.types import Document, Query, Retrieved, Run, ScoredDocument
from ragbench.types.rows import Mapped

# Position of a query, and its outcome.
QueryOutcome = tuple[int, Outcome[Retrieved]]

_BLOCK = 32  # queries a batch call; small enough that one that fails costs little


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

    Args:
        retriever: Indexed retriever.
        queries: The n queries.
        top_k: Largest number of hits of a query.
        calls: Name in messages, timeout and concurrency of the retriever.
        rankings: For each source of a retriever over others, the hits of each of the n queries.
        executor: Workers that search the index where its files are on this machine; None, or a
            retriever without such an index, searches here.
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


def _search_on_workers(
    executor: Executor,
    index: IndexSearch,
    queries: Sequence[Query],
    calls: Calls,
    rankings: Rankings,
) -> Iterator[QueryOutcome]:
    """Let workers search the index of a retriever; the run makes requests and reads the hits."""

    def request(position: int) -> Any:
        return index.request(queries[position], [source[position] for source in rankings])

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
    """Search an open index in a worker; a query that fails does not spoil the others."""
    return [call_once(partial(find, index), request, Calls(owner)) for request in requests]


_NOTES = "notes"  # an item of its own: the keys of the others are hashes
Hits = Sequence[list[ScoredDocument]]


def make_ready(workspace: Workspace, name: str) -> Retriever:
    """Return a retriever that can be asked: indexed once, and with the retrievers it borrows."""
    plan = workspace.plan
    retriever, corpus = plan.retrievers[name], plan.collection.documents
    if name in workspace.ready:
        return retriever
    retriever.cache_folder = cache_folder(plan.config.cache)
    retriever.cache_also = plan.config.cache_also
    retriever.executor = workspace.executor
    retriever.load()
    if retriever.indexes and corpus is not None:
        with workspace.timed(f"index {name}", len(corpus), "documents") as stage:
            _index(name, retriever, corpus, stage.advance)
    if retriever.borrows:
        retriever.borrow([make_ready(workspace, source) for source in retriever.sources])
    note_encodings(workspace, name)
    workspace.ready.add(name)
    return retriever


def note_encodings(workspace: Workspace, name: str) -> None:
    """Count the texts that a retriever has had encoded so far, and those that were stored."""
    if (done := workspace.plan.retrievers[name].encodings) is not None:
        workspace.work[f"encode {name}"] = Work(done.texts, done.stored, done.seconds)


def retriever_key(workspace: Workspace, name: str, top_k: int) -> str:
    """Return the key of all that a retriever's hits depend on but the queries."""
    retriever = workspace.plan.retrievers[name]
    inputs: dict[str, Any] = {"stage": Retrieve.version, "top_k": top_k}
    if retriever.indexes:
        inputs["corpus"] = workspace.plan.collection.fingerprint("corpus")
    if retriever.borrows:
        inputs["borrows"] = [retriever_key(workspace, source, 0) for source in retriever.sources]
    return workspace.component_key("retriever", name, **inputs)


class Retrieve(StoredStage):
    """Retrieve the hits of every query, from the corpus or from the hits of other retrievers."""

    kind, version = "retrieve", 1

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        top_k: int,
        made: dict[tuple[str, int], Retrieve],
    ) -> None:
        """`made` are the stages so far: a retriever is asked once for each depth."""
        super().__init__(workspace, f"retrieve {name}")
        made[name, top_k] = self
        self.name, self.top_k = name, top_k
        self.retriever = self.plan.retrievers[name]
        self._depth = self.retriever.depth or top_k
        deep = max(self._depth, top_k)
        self.sources = [
            made.get((source, deep)) or Retrieve(workspace, source, deep, made)
            for source in self.retriever.sources
        ]
        # one that others read and that is not scored stands before all that are scored
        self.place = 1 if name in self.plan.scored_retrievers else 0

    @cached_property
    def outcomes(self) -> Sequence[Outcome[Retrieved]]:
        """What it found, one outcome per query, at most `top_k` hits each.

        What a file has is read from there again, and not stored a second time.
        """
        if self.retriever.recorded() is not None:
            n = len(self.plan.queries)
            self.workspace.work.setdefault(self.title, Work(n, n))
            read = cast("Callable[[], Run]", self.retriever.recorded)
            return FileRankings(self.plan.ids, read, self.top_k)
        failed, _ = self._inputs
        found = self.items(default=PENDING)
        for row, outcome in failed.items():
            if outcome != PENDING:
                found[row] = outcome
        return found

    def retrieved(self) -> Sequence[Outcome[Retrieved]]:
        """Return the outcomes."""
        return self.outcomes

    @property
    def notes(self) -> list[str]:
        """What the retriever noted about its hits, also when they are stored; of a file nothing."""
        kept = None if isinstance(self.outcomes, FileRankings) else self._stored_items.get(_NOTES)
        notes = kept.get(_NOTES) if isinstance(kept, dict) else None
        return list(map(str, notes)) if isinstance(notes, list) else []

    @cached_property
    def _stored_items(self) -> StageItems:
        return self.items_of_key(self.name, retriever_key(self.workspace, self.name, self.top_k))

    @cached_property
    def _inputs(self) -> tuple[dict[int, Outcome[Retrieved]], list[Hits]]:
        """The outcomes of rows that a source lacks; the first hits of each source with texts."""
        failed = dict[int, Outcome[Retrieved]]()
        for source in self.sources:
            for row, outcome in without_value(source.outcomes):
                failed[row] = Outcome(None, outcome.cause, outcome.detail)

        def hits_in(outcome: Outcome[Retrieved]) -> list[ScoredDocument]:
            found = [] if outcome.value is None else outcome.value.documents[: self._depth]
            return [with_text(hit, self.plan.corpus) for hit in found]

        return failed, [Mapped(hits_in, source.outcomes) for source in self.sources]

    def slots(self) -> list[Slot | None]:
        """A query that failed in a source is not asked."""
        failed, rankings = self._inputs
        found: list[Slot | None] = []
        for row, query in enumerate(self.plan.queries):
            if row in failed:
                key = key_after(failed[row])
            else:
                hits = [source[row] for source in rankings]
                key = hits_key(query, hits) if self.sources else query_key(query)
            found.append(None if key is None else Slot(self._stored_items, key, row))
        return found

    def prepare(self) -> None:
        """Index the corpus."""
        make_ready(self.workspace, self.name)

    def pay_for(self, rows: Sequence[int]) -> None:
        """Ask all queries, whatever the others cost."""
        _ = self.outcomes

    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Ask the queries in their order."""
        _, rankings = self._inputs
        queries = [self.plan.queries[row] for row in todo]
        calls = self.workspace.calls("retriever", self.name)
        hits = [Mapped(source.__getitem__, todo) for source in rankings]
        executor = self.workspace.executor
        outcomes = retrieve(self.retriever, queries, self.top_k, calls, hits, executor)
        keep_all(naming(queries, outcomes), todo, keep, advance)
        note_encodings(self.workspace, self.name)
        if notes := [*map(self.workspace.clean, self.retriever.notes)]:
            self._stored_items.put(_NOTES, {_NOTES: list(dict.fromkeys([*self.notes, *notes]))})

    read = staticmethod(read_retrieved)

    def write(self, value: Outcome[Retrieved]) -> dict[str, Any]:
        """Write an outcome without the texts that the corpus has anyway."""
        if value.value is not None:
            hits = [without_text(hit, self.plan.corpus) for hit in value.value.documents]
            value = replace(value, value=Retrieved(hits, value.value.queries))
        return write_retrieved(value)

    @property
    def computes(self) -> bool:
        """Whether a model encodes or reads the texts."""
        return self.retriever.computes

    @property
    def computes_here(self) -> bool:
        """Whether its index lies in a folder, too."""
        corpus = self.plan.collection.documents
        return self.computes or (corpus is not None and self.retriever.keeps_index(corpus))

    def collect(self, results: Results) -> None:
        """Make what is missing; `Rank` says what it is for the results."""
        _ = self.outcomes

    def forecast(self) -> Node:
        """Look up what was found."""
        _ = self.outcomes
        return self.node(len(self.plan.queries))


class Rank(Stage):
    """The ranking that is scored, of what a retriever or a whole app found; not stored."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        source: Retrieve | None,
        retrieved: Callable[[], Sequence[Outcome[Retrieved]] | None],
    ) -> None:
        """`source` is None for a whole app or records, and `retrieved` returns the outcomes."""
        super().__init__(workspace, under=source)
        self.name, self.source, self._retrieved = name, source, retrieved

    @cached_property
    def ranking(self) -> RetrieverRun | None:
        """The ranking; None of an app that never says what it retrieved."""
        outcomes, plan = self._retrieved(), self.plan
        if outcomes is None:
            return None
        rules = plan.config.metrics.retrieval
        # other chunks of the same texts have ids of their own
        known = None if rules.match.level == "text" else plan.collection.documents
        # an app is taken for a retriever that says nothing of itself
        retriever = Retriever() if self.source is None else self.source.retriever
        said = [] if self.source is None else self.source.notes
        # one over others looks at `depth` hits of each, an app at as many as it likes
        limited = self.source is None or bool(retriever.sources)
        full = None if limited else rules.top_k
        found = ranked(self.name, retriever, plan.queries, outcomes, known, full, said)
        if rules.match.level == "id":
            refuse_other_ids(found, plan)
        return match_hits(found, plan)

    @property
    def is_known(self) -> bool:
        """Whether all that it is made of is there."""
        outcomes = () if self.source is None else self.source.outcomes
        return self.source is not None and (
            isinstance(outcomes, FileRankings) or PENDING not in outcomes
        )

    def collect(self, results: Results) -> None:
        """Add the ranking with what is to be said of it."""
        if self.ranking is not None:
            results.rankings[self.name] = self.ranking
            results.notes += self.ranking.notes
            results.warnings += self.ranking.warnings


def key_after(outcome: Outcome[Any]) -> str | None:
    """Return the key of an item whose source has no value: none where it failed."""
    return UNKNOWN if outcome == PENDING else None


def _index(name: str, retriever: Retriever, corpus: Sequence[Document], advance: Advance) -> None:
    """Let a retriever index the documents; an error of its code ends the run."""
    reported = 0

    def report(n: int = 1) -> None:
        nonlocal reported
        reported += n
        advance(n)

    try:
        retriever.advance = report
        retriever.index(corpus)
    except (KeyboardInterrupt, RagbenchError):
        raise
    except BaseException as error:  # code of the user's may raise anything
        what = f"retriever '{name}': index: {type(error).__name__}: {error}"
        raise AdapterError(what) from error
    advance(len(corpus) - reported)  # most retrievers report nothing meanwhile
