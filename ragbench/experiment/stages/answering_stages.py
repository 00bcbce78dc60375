"""The stages that answer queries: retrieval, by itself or over others, generation, whole apps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench.errors import AdapterError, RagbenchError
from ragbench.experiment.calls import Calls, Outcome
from ragbench.experiment.plan.components import calls_of
from ragbench.experiment.records import Answers, Noun, Plan
from ragbench.experiment.stages.answers import ask_app, document_of, generate
from ragbench.experiment.stages.item_json import (
    read_predicted,
    read_retrieved,
    write_predicted,
    write_retrieved,
)
from ragbench.experiment.stages.items import Items, Keep
from ragbench.experiment.stages.keys import (
    STAGE_VERSIONS,
    component_key,
    hits_key,
    passages_key,
    query_key,
    sample_key,
)
from ragbench.experiment.stages.retrieval import retrieve
from ragbench.files import cache_folder
from ragbench.llm import Budget
from ragbench.retrieve.base import Retriever
from ragbench.score.base import Advance
from ragbench.secrets import redact
from ragbench.signature import order_key
from ragbench.types import Document, Prediction, Retrieved, ScoredDocument

PENDING: Outcome[Any] = Outcome(None)
"""The outcome of an item that is not made yet: neither a value nor a cause."""

_ROUNDS = 10
_NOTES = "notes"  # an item of its own: the keys of the others are hashes
_UNKNOWN = "not known yet"  # the key of an item that depends on one that is not made yet

Hits = list[list[ScoredDocument]]


@dataclass(kw_only=True)
class Stages(Items):
    """Retrieval and generation of a plan; a stage's key holds all that its output depends on."""

    plan: Plan
    """What is run."""
    run_token: str
    """Of the run; part of the keys of what cannot be seen from here."""
    budget: Budget = field(default_factory=Budget)
    """What it may take."""
    _ready: set[str] = field(default_factory=set)
    _retrieved: dict[tuple[str, int], list[Outcome[Retrieved]]] = field(default_factory=dict)

    def retrieved(self, name: str, top_k: int) -> list[Outcome[Retrieved]]:
        """Return what a retriever finds, one outcome per query, at most `top_k` hits each."""
        known = self._retrieved.get((name, top_k))
        if known is None:
            known = self._retrieved[name, top_k] = self._retrieve(name, top_k)
        return known

    def in_random_order(self, rows: Sequence[int]) -> list[int]:
        """Return rows in an order that depends on the seed and the ids alone.

        Rows of several samples, as `Answers` has them, stay together where they are of one query.

        Whatever stops a run, what is done by then is a random sample, the same for each system.
        """
        seed, queries = self.plan.config.seed, self.plan.queries
        return sorted(rows, key=lambda row: order_key(seed, queries[row % len(queries)].id))

    def _retrieve(self, name: str, top_k: int) -> list[Outcome[Retrieved]]:
        plan, retriever = self.plan, self.plan.retrievers[name]
        sources = retriever.sources
        failed, rankings = self._hits_of(sources, retriever.depth or top_k, top_k)
        keys: list[str | None] = [
            _key_of(failed.get(row))
            if row in failed
            else hits_key(query, [source[row] for source in rankings])
            if sources
            else query_key(query)
            for row, query in enumerate(plan.queries)
        ]
        file = self.store.file("retrieve", name, self._retriever_key(name, top_k))
        title = f"retrieve {name}"

        def make(rows: Sequence[int], keep: Keep[Outcome[Retrieved]]) -> None:
            self.make_ready(name)
            with self.timed(title, len(rows)) as stage:

                def take(number: int, outcome: Outcome[Retrieved]) -> None:
                    keep(rows[number], outcome)
                    stage.advance(1)

                retrieve(
                    retriever,
                    [plan.queries[row] for row in rows],
                    top_k,
                    self._calls("retriever", name),
                    take,
                    [[source[row] for row in rows] for source in rankings] if sources else None,
                )
            if notes := list(retriever.notes):
                kept = (file.get(_NOTES) or {}).get("notes", [])
                file.put(_NOTES, {"notes": list(dict.fromkeys([*kept, *notes]))})

        found = self.fill(title, file, keys, read_retrieved, self._write_retrieved, make)
        return [failed.get(row) or found[row] or PENDING for row in range(len(keys))]

    def notes_on(self, name: str, top_k: int) -> list[str]:
        """Return what a retriever noted about its hits, also when they are stored."""
        file = self.store.file("retrieve", name, self._retriever_key(name, top_k))
        return list((file.get(_NOTES) or {}).get("notes", []))

    def _calls(self, noun: Noun, name: str) -> Calls:
        calls = calls_of(noun, name, self.plan.component(noun, name))
        return replace(calls, refused=self._refused)

    def _refused(self) -> str | None:
        if not self.budget.time_is_up:
            return None
        return f"not asked: the budget's {self.budget.minutes:g} minutes are over"

    def rounds(self) -> list[list[int]]:
        """Return growing random samples of the rows, the last of which is all of them.

        Where money may run out, all systems go through one round before the next one begins, so
        that they have much the same queries by then.
        """
        order = self.in_random_order(range(len(self.plan.queries)))
        sizes = [-(-len(order) * part // _ROUNDS) for part in range(1, _ROUNDS + 1)]
        return [order[:size] for size in dict.fromkeys(sizes)]

    def _hits_of(
        self, sources: Sequence[str], depth: int, top_k: int
    ) -> tuple[dict[int, Outcome[Retrieved]], list[Hits]]:
        """The first hits of each source with their texts; the outcomes of rows that lack one."""
        corpus, rankings = self.plan.corpus, list[Hits]()
        failed: dict[int, Outcome[Retrieved]] = {}
        for source in sources:
            outcomes = self.retrieved(source, max(depth, top_k))
            hits: Hits = []
            for row, outcome in enumerate(outcomes):
                if outcome.value is None:
                    failed[row] = Outcome(None, outcome.cause, outcome.detail)
                found = [] if outcome.value is None else outcome.value.documents[:depth]
                hits.append([_with_text(hit, corpus) for hit in found])
            rankings.append(hits)
        return failed, rankings

    def make_ready(self, name: str) -> Retriever:
        """Return a retriever that can be asked: indexed, and given those that it borrows."""
        retriever, corpus = self.plan.retrievers[name], self.plan.collection.documents
        if name in self._ready:
            return retriever
        retriever.cache_folder = cache_folder(self.plan.config.cache)
        retriever.load()
        if retriever.indexes and corpus is not None:
            with self.timed(f"index {name}", len(corpus), "documents") as stage:
                _index(name, retriever, corpus, stage.advance)
        if retriever.borrows:
            retriever.borrow([self.make_ready(source) for source in retriever.sources])
        self._ready.add(name)
        return retriever

    def _retriever_key(self, name: str, top_k: int) -> str:
        plan, retriever = self.plan, self.plan.retrievers[name]
        inputs: dict[str, Any] = {"stage": STAGE_VERSIONS["retrieve"], "top_k": top_k}
        if retriever.indexes:
            inputs["corpus"] = plan.collection.fingerprints.get("corpus")
        if retriever.borrows:
            inputs["borrows"] = [self._retriever_key(each, 0) for each in retriever.sources]
        return self._component_key("retriever", name, **inputs)

    def _component_key(self, noun: Noun, name: str, **inputs: Any) -> str:
        component = self.plan.component(noun, name)
        if component is None:  # a live object is known by its name alone
            inputs["name"] = name
        environment = self.plan.config.environment
        return component_key(component, self.run_token, environment, **inputs)

    def generated(
        self,
        system: str,
        generator: str,
        passages: Sequence[list[Document] | None],
        retrieved: Sequence[Outcome[Retrieved]],
        rows: Collection[int] | None = None,
    ) -> Answers:
        """Return what a generator answers to every query, as often as it is asked.

        Args:
            system: The pair's name.
            generator: The generator's name.
            passages: What it gets; None for a query whose retrieval failed.
            retrieved: The outcomes of retrieval, for the cause of such a failure.
            rows: Only these queries are asked; others are pending where nothing is stored.
        """
        plan, n, samples = self.plan, len(self.plan.queries), self.plan.samples(generator)
        of_first = [
            _key_of(outcome) if documents is None else passages_key(query, documents)
            for query, documents, outcome in zip(plan.queries, passages, retrieved, strict=True)
        ]
        keys = [
            None if key is None else sample_key(key, sample)
            for sample in range(samples)
            for key in of_first
        ]
        key = self._component_key("generator", generator, stage=STAGE_VERSIONS["generate"])
        title = f"generate {system}"

        def make(missing: Sequence[int], keep: Keep[Outcome[Prediction]]) -> None:
            order = self.in_random_order(missing)
            with self.timed(title, len(order), "queries" if samples == 1 else "answers") as stage:

                def take(number: int, outcome: Outcome[Prediction]) -> None:
                    keep(order[number], outcome)
                    stage.advance(1)

                generate(
                    plan.generators[generator],
                    [plan.queries[row % n] for row in order],
                    [passages[row % n] for row in order],
                    [retrieved[row % n] for row in order],
                    self._calls("generator", generator),
                    take,
                    [row // n for row in order],
                )

        file = self.store.file("generate", generator, key)
        chosen = None if rows is None else {r + s * n for r in rows for s in range(samples)}
        found = self.fill(title, file, keys, read_predicted, self._write_predicted, make, chosen)
        outcomes = [
            Outcome(None, asked.cause, asked.detail) if key is None else outcome or PENDING
            for key, asked, outcome in zip(keys, [*retrieved] * samples, found, strict=True)
        ]
        return Answers(system, outcomes, samples)

    def answered(self, name: str, rows: Collection[int] | None = None) -> list[Outcome[Prediction]]:
        """Return what a whole app answers, one outcome per query.

        Args:
            name: The app's name.
            rows: Only these are asked; the others are pending where nothing is stored.
        """
        plan = self.plan
        title = f"answer {name}"

        def make(missing: Sequence[int], keep: Keep[Outcome[Prediction]]) -> None:
            order = self.in_random_order(missing)
            with self.timed(title, len(order)) as stage:

                def take(number: int, outcome: Outcome[Prediction]) -> None:
                    keep(order[number], outcome)
                    stage.advance(1)

                asked = [plan.queries[row] for row in order]
                ask_app(plan.apps[name], asked, self._calls("app", name), take, plan.corpus)

        key = self._component_key("app", name, stage=STAGE_VERSIONS["generate"])
        file = self.store.file("generate", name, key)
        keys = [query_key(query) for query in plan.queries]
        found = self.fill(title, file, keys, read_predicted, self._write_predicted, make, rows)
        return [outcome or PENDING for outcome in found]

    def _write_retrieved(self, outcome: Outcome[Retrieved]) -> dict[str, Any]:
        if outcome.value is not None:
            hits = [_without_text(hit, self.plan.corpus) for hit in outcome.value.documents]
            outcome = replace(outcome, value=Retrieved(hits, outcome.value.queries))
        return self._without_secrets(write_retrieved(outcome))

    def _write_predicted(self, outcome: Outcome[Prediction]) -> dict[str, Any]:
        return self._without_secrets(write_predicted(outcome))

    def _without_secrets(self, stored: dict[str, Any]) -> dict[str, Any]:
        """What went wrong, in words of the user's code, may hold a key."""
        if "detail" in stored:
            stored["detail"] = redact(stored["detail"], self.plan.config.environment)
        return stored


def _key_of(outcome: Outcome[Any] | None) -> str | None:
    """The key of an item whose source has no value: none where it failed."""
    return _UNKNOWN if outcome == PENDING else None


def _with_text(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """A hit with the text that a generator would get for it."""
    if hit.text is not None:
        return hit
    document = document_of(hit, corpus)
    if document is None:
        return hit
    return replace(hit, text=document.text, title=document.title)


def _without_text(hit: ScoredDocument, corpus: Mapping[str, Document]) -> ScoredDocument:
    """A hit without a text that the corpus has anyway."""
    document = corpus.get(hit.id) if hit.text is not None else None
    if document is None or (hit.text, hit.title or "") != (document.text, document.title):
        return hit
    return replace(hit, text=None, title=None)


def _index(name: str, retriever: Retriever, corpus: Sequence[Document], advance: Advance) -> None:
    """Index the corpus; without an index there is nothing to go on with."""
    told = 0

    def tell(n: int = 1) -> None:
        nonlocal told
        told += n
        advance(n)

    try:
        retriever.advance = tell
        retriever.index(corpus)
    except (KeyboardInterrupt, RagbenchError):
        raise
    except BaseException as error:  # code of the user's may raise anything
        raise AdapterError(f"retriever '{name}': index: {type(error).__name__}: {error}") from error
    advance(len(corpus) - told)  # most retrievers tell nothing meanwhile
