"""Retrieval stages: the hits of each retriever, and the rankings that are scored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from msgspec import structs

from ragbench.comparison.hit_documents import PoolFilter
from ragbench.errors import AdapterError, RagbenchError
from ragbench.executors.base import Executor, Task
from ragbench.experiment.calls import (
    Calls,
    FileRankings,
    Outcome,
    Value,
    call_on,
    call_once,
    calling,
    failed_row,
    read_outcome,
    rounded_ms,
    with_plain_metadata,
    without_value,
)
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results, RetrieverRun, Work, name_sentences
from ragbench.experiment.stages import base
from ragbench.experiment.stages.excluded_hits import drop_excluded
from ragbench.experiment.stages.keys import KEY_DIGITS, hits_key, query_key
from ragbench.experiment.stages.matching import match_hits, meet_gold
from ragbench.experiment.stages.pools import (
    PooledRun,
    has_pools,
    remarks_on_pools,
)
from ragbench.experiment.stages.rankings import rank_outcomes
from ragbench.experiment.stages.resources import Resources
from ragbench.experiment.stages.unknown_ids import check_ids
from ragbench.files import cache_folder
from ragbench.records.manifest import FailedCall, RetrievedRow, query_label
from ragbench.rerank.base import with_tail
from ragbench.retrieve.base import IndexSearch, Rankings, Retriever
from ragbench.retrieve.python import PoolParameter, first_documents, read_hits
from ragbench.score.base import Advance
from ragbench.score.retrieval.notation import parse_measures
from ragbench.signature import fingerprint
from ragbench.types import Cause, Document, Query, Retrieved, Run, ScoredDocument
from ragbench.types.display import counted, quoted_start
from ragbench.types.json_fields import Record
from ragbench.types.lookups import take_items
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
    pools: PoolFilter | None = None,
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
        pools: Filter for hits outside the pools of the queries; None compares ids alone.

    Raises:
        AdapterError, RuntimeError: The search on workers fails as a whole; see `Executor.map`.
    """
    is_local = executor is not None and executor.is_here
    index = retriever.index_search(top_k) if is_local else None
    if executor is not None and index is not None:
        yield from _search_on_workers(executor, index, queries, calls, rankings)
        return

    inside, pool_of = (pools or PoolFilter(None)).inside, PoolParameter(retriever.retrieve)

    def answers_to(positions: Sequence[int]) -> list[Any]:
        block = take_items(queries, positions)
        if rankings:
            hits = [take_items(source, positions) for source in rankings]
            answers = list(retriever.combine(block, hits, top_k))
        else:
            answers = list(
                retriever.retrieve(
                    block, top_k, **pool_of.keywords([query.pool for query in block])
                )
            )
        if len(answers) != len(block):
            expected = f"{len(block)} quer{'y' if len(block) == 1 else 'ies'}"
            raise AdapterError(f"{counted(len(answers), 'answers')} to {expected}")
        return answers

    def ask_one(position: int) -> Retrieved:
        return read_hits(answers_to([position])[0], top_k, inside(queries[position].pool))

    positions = range(len(queries))
    if retriever.asks_one_by_one:
        yield from calling(ask_one, positions, calls)
        return
    # a time limit is that of one call, and a block may take many
    untimed = Calls(calls.owner, None, calls.concurrency)

    def ask_block(block: Sequence[int]) -> list[Outcome[Retrieved]]:
        answers = call_once(answers_to, block, calls)
        if answers.value is None:
            one_by_one = calling(ask_one, block, replace(calls, concurrency=1))
            return [outcome for _, outcome in one_by_one]
        latency_ms = (answers.latency_ms or 0.0) / len(block)
        # read by itself, so that a malformed answer does not spoil the others of its block
        outcomes = []
        for position, answer in zip(block, answers.value, strict=True):
            read = partial(read_hits, top_k=top_k, is_inside=inside(queries[position].pool))
            outcome = call_once(read, answer, untimed)
            outcomes.append(replace(outcome, latency_ms=latency_ms))
        return outcomes

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
    detail = outcome.detail
    for sign, words in remedies.items():
        if re.search(sign, outcome.detail):
            detail += words
    return replace(outcome, detail=detail)


def _search_on_workers(
    executor: Executor,
    index: IndexSearch,
    queries: Sequence[Query],
    calls: Calls,
    rankings: Rankings,
) -> Iterator[QueryOutcome]:
    """Search the index of a retriever on workers; yield position and outcome of each query."""
    # Requests are created and hits are read here, where the corpus is.

    def request(position: int) -> Any:
        return index.request(queries[position], [source[position] for source in rankings])

    # no time limit: requests are made here, by code of this package
    requests = dict(calling(request, range(len(queries)), Calls(calls.owner)))
    ready, items = [], []
    for position, outcome in requests.items():
        if outcome.value is not None:
            ready.append(position)
            items.append(outcome.value)
    for position in sorted(requests.keys() - ready):
        yield position, cast("Outcome[Retrieved]", requests[position])
    apply = partial(_search_block, index.find, calls.owner)
    task = Task(calls.owner, index.make, index.options, apply)
    for number, outcome in call_on(executor, task, items, _BLOCK, calls, lambda hits: hits):
        hits = None if outcome.value is None else index.read(outcome.value, items[number])
        latency_ms = (requests[ready[number]].latency_ms or 0.0) + (outcome.latency_ms or 0.0)
        yield ready[number], replace(outcome, value=hits, latency_ms=latency_ms)


def _search_block(
    find: Callable[[Any, Any], Any], owner: str, index: Any, requests: list[Any]
) -> list[Outcome[Any]]:
    """Return the outcome of each request to an open index, in a worker."""
    return [call_once(partial(find, index), request, Calls(owner)) for request in requests]


# Hits of each query.
Hits = Sequence[list[ScoredDocument]]
# Outcome of each query, in their order.
HitOutcomes = Sequence[Outcome[Retrieved]]


def make_ready(resources: Resources, name: str, timed: base.Timed) -> Retriever:
    """Load and index a retriever on its first use, with the retrievers that it borrows; return it.

    Raises:
        AdapterError: Indexing fails in code of the user.
        RagbenchError: A model or an index cannot be loaded, such as MissingExtra.
    """
    plan = resources.plan
    retriever, corpus = plan.retrievers[name], plan.collection.documents
    if name in resources.ready:
        return retriever
    # before `load`, which may read the cache
    retriever.cache_folder = cache_folder(plan.config.cache)
    retriever.cache_also = plan.config.cache_also
    retriever.executor = resources.executor
    retriever.pool_statistics = plan.collection.pool_statistics
    retriever.load()
    if retriever.indexes and corpus is not None:
        with timed(f"index {name}", len(corpus), "documents") as progress:
            _index(name, retriever, corpus, progress.advance)
    if retriever.borrows:
        retriever.borrow([make_ready(resources, source, timed) for source in retriever.sources])
    resources.ready.add(name)
    return retriever


def retriever_key(resources: Resources, name: str, top_k: int) -> str:
    """Return the key of a retriever's hits: a hash of its entry, `top_k`, and what it reads.

    That is the corpus if it indexes one, with the statistics of pools if these are their own, its
    depth in other retrievers' hits, and the keys of retrievers that it borrows. The entry of a live
    object is its name and the run. The queries with their pools, and the hits of sources, are in
    the keys of the items. It has 32 hexadecimal digits.
    """
    retriever = resources.plan.retrievers[name]
    inputs: dict[str, Any] = {"stage": Retrieve.version, "top_k": top_k}
    if retriever.indexes:
        inputs["corpus"] = resources.plan.collection.fingerprint("corpus")
        if resources.plan.collection.pool_statistics == "pool":
            inputs["pool_statistics"] = "pool"
    if retriever.sources:
        # notes count over all hits of one depth, so that no depth uses items of another
        inputs["depth"] = retriever.depth
    if retriever.borrows:
        # top_k 0: a borrowed retriever is searched at any depth
        inputs["borrows"] = [retriever_key(resources, source, 0) for source in retriever.sources]
    return resources.component_key("retriever", name, **inputs)


class Retrieve(base.Stage[HitOutcomes]):
    """Stage that retrieves the hits of every query, from the corpus or from other retrievers' hits.

    Its output has the hits of each query, at most `top_k`, or the cause of its failure. Hits of a
    run file are read from the file, and not stored a second time.

    Attributes:
        name: Name of the retriever.
        top_k: Largest number of hits of a query.
        number: Number of the repetition, from 0.
        retriever: Retriever.
        sources: Stages whose hits it combines; empty for a retriever over the corpus.
        signed: Parts that it adds to the signatures of scores of its ranking.
    """

    kind, version = "retrieve", 2
    by_query = is_free = has_notes = True
    signed: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        resources: Resources,
        name: str,
        top_k: int,
        sources: Sequence[Retrieve],
        number: int = 0,
    ) -> None:
        repeat = f" (repeat {number + 1})" if number else ""
        super().__init__(resources.plan, f"retrieve {name}{repeat}", sources)
        self._resources, self.name, self.top_k, self.number = resources, name, top_k, number
        self.retriever = self.plan.retrievers[name]
        self.sources = tuple(sources)
        self._depth = self.retriever.depth or top_k
        # a source that is not scored stands in a plan before the scored retrievers
        self.place = 1 if name in self.plan.scored_retrievers else 0

    def n_recorded(self) -> int:
        """Return the number of queries for a run file, else 0."""
        return 0 if self.retriever.recorded() is None else len(self.plan.queries)

    def items(self, inputs: base.Outputs) -> list[base.Slot | None]:
        """Return a slot for each query; None for a query that failed in a source."""
        if self.retriever.recorded() is not None:
            return []
        failed, rankings = self._source_hits(inputs)
        key = retriever_key(self._resources, self.name, self.top_k)
        group, slots = base.ItemGroup(self.name, key), list[base.Slot | None]()
        # a retriever that is not repeated gives equal hits of its sources the same result
        repeats = self.plan.repeat("retriever", self.name) > 1
        suffix = f"-{self.number}" if repeats and self.number else ""
        for row, query in enumerate(self.plan.queries):
            if row not in failed:
                hits = [source[row] for source in rankings]
                item = hits_key(query, hits) if self.sources else query_key(query)
                # hits of sources are within the pool; a search of the index depends on it
                if query.pool is not None and (self.retriever.borrows or not self.sources):
                    item = fingerprint([item, *query.pool], KEY_DIGITS)
                slots.append(base.Slot(group, item + suffix, row))
            else:
                slots.append(base.Slot(group, None, row) if failed[row].is_pending else None)
        return slots

    def _source_hits(
        self, inputs: base.Outputs
    ) -> tuple[dict[int, Outcome[Retrieved]], list[Hits]]:
        """Return the outcomes by row of queries without hits of a source; and the hits of each."""
        failed = dict[int, Outcome[Retrieved]]()
        for source in self.sources:
            for row, outcome in without_value(inputs[source]):
                failed[row] = Outcome(None, outcome.cause, outcome.detail)

        def hits_in(outcome: Outcome[Retrieved]) -> list[ScoredDocument]:
            hits = [] if outcome.value is None else outcome.value.documents[: self._depth]
            return [with_text(hit, self.plan.corpus) for hit in hits]

        return failed, [Mapped(hits_in, inputs[source]) for source in self.sources]

    def prepare(self, timed: base.Timed) -> None:
        """Load the retriever and index the corpus, once per run; raise as `make_ready` does."""
        make_ready(self._resources, self.name, timed)

    def make(
        self, inputs: base.Outputs, todo: Sequence[int], keep: base.Keep, advance: Advance
    ) -> None:
        """Retrieve hits for the queries of some slots, in their order."""
        _, rankings = self._source_hits(inputs)
        queries = take_items(self.plan.queries, todo)
        calls = self._resources.calls("retriever", self.name)
        hits = [Mapped(source.__getitem__, todo) for source in rankings]
        executor, pools = self._resources.executor, PoolFilter(self.plan.collection.documents)
        answered = retrieve(self.retriever, queries, self.top_k, calls, hits, executor, pools)
        outcomes = ((row, _with_remedy(outcome, self.top_k)) for row, outcome in answered)
        base.keep_all(name_queries(queries, outcomes), todo, keep, advance)

    def notes(self) -> Sequence[str]:
        """Return the notes of the retriever on all hits that it returned so far."""
        return self.retriever.notes

    def read(self, line: bytes) -> Outcome[Retrieved]:
        """Return a stored outcome: hits, or the cause of a failure."""
        return read_outcome(Retrieved, line)

    def write(self, value: Outcome[Retrieved]) -> Record:
        """Return the row of an outcome, without the texts that the corpus has as well."""
        if value.value is None:
            return failed_row(FailedCall, value)
        hits = [_stored_hit(hit, self.plan.corpus) for hit in value.value.documents]
        queries, n_outside = list(value.value.queries), value.value.n_outside
        return RetrievedRow(hits, queries, n_outside, latency_ms=rounded_ms(value))

    def output(
        self, inputs: base.Outputs, values: Sequence[Outcome[Retrieved] | None]
    ) -> HitOutcomes:
        """Return the outcome of each query; a query that failed in a source has its cause."""
        if self.retriever.recorded() is not None:
            read = cast("Callable[[], Run]", self.retriever.recorded)
            if not has_pools(self.plan):
                return FileRankings(self.plan.ids, read, self.top_k)
            pooled = PooledRun(read, self.plan)
            return FileRankings(self.plan.ids, pooled, self.top_k, pooled.n_outside)
        failed, _ = self._source_hits(inputs)
        outcomes = []
        for row, value in enumerate(values):
            outcomes.append(value or failed.get(row, Outcome(None)))
        if self.retriever.keeps_tail:
            pairs = zip(outcomes, inputs[self.sources[0]], strict=True)
            outcomes = [self._with_tail(*pair) for pair in pairs]
        return outcomes

    def _with_tail(
        self, outcome: Outcome[Retrieved], source: Outcome[Retrieved]
    ) -> Outcome[Retrieved]:
        """Return an outcome with the hits of its source below `depth`; a failed one as it is."""
        # The tail is no part of the stored item, so that another `tail` or `top_k` of the source
        # sends nothing to the reranker again.
        if outcome.value is None or source.value is None:
            return outcome
        hits = with_tail(outcome.value.documents, source.value.documents, self._depth)
        retrieved = structs.replace(outcome.value, documents=first_documents(hits, self.top_k))
        return replace(outcome, value=retrieved)

    def step(self, outputs: base.Outputs, work: Work | None) -> base.Step:
        """Return a step with the number of queries, and of those whose hits are stored."""
        return self.node(work, len(self.plan.queries))


def with_text(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """Return a hit with text and title of its corpus document if its text is None.

    A hit that has a text, also an empty one, or that the corpus lacks is returned unchanged.
    """
    document = corpus.get(hit.id) if hit.text is None else None
    if document is None:
        return hit
    return structs.replace(hit, text=document.text, title=document.title)


def _stored_hit(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """Return a hit with plain metadata, without text and title if the corpus has the same."""
    hit = with_plain_metadata(hit)
    document = corpus.get(hit.id) if hit.text is not None else None
    # a missing title equals an empty one
    if document is None or (hit.text, hit.title or "") != (document.text, document.title):
        return hit
    return structs.replace(hit, text=None, title=None)


class BuildRanking(base.Stage[RetrieverRun | None]):
    """Stage that turns the hits of a retriever or an app into the ranking that is scored.

    Its output is the ranking with notes and warnings; None for an app without passages.

    Attributes:
        name: Name of the retriever or app.
        number: Number of the repetition, from 0.
        hits: Stage with the hits of each query.
        retrieve: `hits`, if it is the stage of a retriever; None for an app or a recorded system.
    """

    def __init__(
        self, plan: Plan, name: str, hits: base.Stage[HitOutcomes | None], number: int = 0
    ) -> None:
        self.retrieve = hits if isinstance(hits, Retrieve) else None
        sources = () if self.retrieve is None else self.retrieve.sources
        super().__init__(plan, inputs=(hits, *sources), under=self.retrieve)
        self.name, self.hits, self.number = name, hits, number

    def output(self, inputs: base.Outputs, values: Sequence[Any]) -> RetrieverRun | None:
        """Return the ranking as it is scored; None for an app without passages.

        Raises:
            DataError: Hits cannot be matched, as in `match_hits`, or have unknown ids, as in
                `check_ids`.
        """
        outcomes, plan = inputs[self.hits], self.plan
        if outcomes is None:
            return None
        outcomes, excluded = drop_excluded(outcomes, plan)
        rules = plan.config.metrics.retrieval
        # hits that are matched by their text need not have ids of the corpus
        corpus = None if rules.match.level == "text" else plan.collection.documents
        # an app declares nothing: the defaults of a retriever hold
        retriever = Retriever() if self.retrieve is None else self.retrieve.retriever
        top_k, notes = self._expected_hits(inputs), self._notes(inputs)
        warnings = list[str]()
        if excluded is not None:
            # a list is shorter then, which is no limit of the retriever
            top_k = None if any(map(any, excluded.marks)) else top_k
            notes += excluded.notes()
            warnings = name_sentences(self.name, excluded.warnings())
        if self.retrieve is not None and has_pools(plan):
            remarks = remarks_on_pools(inputs[self.retrieve], plan, self.retrieve.top_k)
            top_k = None if any(remarks) else top_k
            notes += remarks[0]
            warnings += name_sentences(self.name, remarks[1])
        ranking = rank_outcomes(self.name, retriever, plan.ids, outcomes, corpus, top_k, notes)
        warnings = [*ranking.warnings, *warnings]
        ranking = replace(ranking, number=self.number, warnings=warnings)
        ranking = meet_gold(match_hits(ranking, plan), plan)
        return check_ids(ranking, plan, is_app=self.retrieve is None)

    def _expected_hits(self, inputs: base.Outputs) -> int | None:
        """Return the number of hits that a ranking needs to get no warning; None for any number."""
        # An app returns as many as it likes, and matching of terms finds fewer in some queries. A
        # retriever over others is expected to keep as many hits as its longest source has.
        top_k = self.plan.config.metrics.retrieval.top_k
        if self.retrieve is None:
            return None
        retriever, sources = self.retrieve.retriever, self.retrieve.sources
        if retriever.ranks_by_score and not retriever.sources:
            return None
        if not retriever.sources:
            if not has_pools(self.plan):
                return top_k
            sizes = []
            for query in self.plan.queries:
                sizes.append(top_k if query.pool is None else len(query.pool))
            return min(top_k, max(sizes, default=top_k))
        return min(top_k, max(_longest(inputs[source]) for source in sources))

    def _notes(self, inputs: base.Outputs) -> list[str]:
        """Return the notes of the retriever, and one on a run file that `top_k` cuts."""
        if self.retrieve is None:
            return []
        outcomes, measures = inputs[self.retrieve], parse_measures(self.plan.measures)
        if not isinstance(outcomes, FileRankings):
            return [*inputs.notes(self.retrieve)]
        notes, longest = list(self.retrieve.retriever.notes), 0
        if not all(measure.k for measure in measures):
            longest = outcomes.longest()
        if longest > outcomes.top_k:
            notes.append(
                f"top_k cuts rankings of up to {longest} hits at {outcomes.top_k}: measures "
                "without a cut-off read no more, and have other means than over the whole file"
            )
        return notes

    def add(self, outputs: base.Outputs, results: Results) -> None:
        """Add the ranking with its notes and warnings to the results; nothing without a ranking.

        Of several rankings the first one stands for the system: in files, causes and notes.
        """
        ranking = outputs[self]
        if ranking is not None and self.number:
            results.further_rankings.setdefault(self.name, []).append(ranking)
        elif ranking is not None:
            results.rankings[self.name] = ranking
            results.notes += ranking.notes
            results.warnings += ranking.warnings


def _longest(outcomes: HitOutcomes) -> int:
    """Return the number of hits of the query that has most; 0 without any."""
    if isinstance(outcomes, FileRankings):
        return outcomes.longest()
    longest = 0
    for outcome in outcomes:
        if outcome.value is not None:
            longest = max(longest, len(outcome.value.documents))
    return longest


def _index(name: str, retriever: Retriever, corpus: Sequence[Document], advance: Advance) -> None:
    """Index the documents; raise `AdapterError` for an error of the user's code."""
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


def name_queries(
    queries: Sequence[Query], outcomes: Iterable[tuple[int, Outcome[Value]]]
) -> Iterator[tuple[int, Outcome[Value]]]:
    """Yield the outcomes as they come, with ` (query 'q1')` at the end of a detail.

    A query of a table without ids has its row and its question: ` (row 2 'Which moon is hot?')`. An
    outcome without a detail stays without one.
    """
    for position, outcome in outcomes:
        query, detail = queries[position], ""
        if outcome.detail:
            name = f"query {query.id!r}"
            if query.row is not None:
                name = f"{query_label(query.id, query.row)} {quoted_start(query.text)}"
            detail = f"{outcome.detail} ({name})"
        yield position, replace(outcome, detail=detail)
