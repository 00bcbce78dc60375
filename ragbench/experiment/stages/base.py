"""What a stage of a run is, and the one loop in which items are read, made, stored and counted."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

from ragbench import __version__
from ragbench.errors import RagbenchError
from ragbench.executors.base import Executor
from ragbench.experiment.calls import Calls, Outcome
from ragbench.experiment.plan.components import calls_of
from ragbench.experiment.plan.records import Noun, Plan
from ragbench.experiment.records import Results, Work
from ragbench.experiment.stages.item_json import cause_of, without_secrets
from ragbench.experiment.stages.keys import KEY_DIGITS, component_key
from ragbench.llm import Budget, Estimate, Replies
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem
from ragbench.secrets import Redactor, redactor
from ragbench.signature import fingerprint, order_key
from ragbench.store.items import StageItems, StageStore
from ragbench.types import Cause, Document
from ragbench.types.conversation import Json

# The outcome of an item that is not made yet: neither a value nor a cause.
PENDING: Outcome[Any] = Outcome(None)

# The key of an item that depends on one that is not made yet.
UNKNOWN = "not known yet"

# Told an item's position and what was made of it.
Keep = Callable[[int, Any], None]


class StageProgress(Protocol):
    """Progress display of one stage."""

    def advance(self, n: int = 1) -> None:
        """Count `n` more items as done."""


class RunProgress(Protocol):
    """Progress display of a run."""

    def stage(
        self, name: str, total: int, unit: str = "queries"
    ) -> AbstractContextManager[StageProgress]:
        """Open the display of a stage of `total` items, counted in `unit`, a plural."""


class NoProgress:
    """Progress display, of a run and of its stages, that shows nothing."""

    def advance(self, n: int = 1) -> None:
        """Show nothing."""

    def stage(
        self, name: str, total: int, unit: str = "queries"
    ) -> AbstractContextManager[StageProgress]:
        """Open a stage that shows nothing."""
        return nullcontext(self)


def keep_all(
    found: Iterable[tuple[int, object]], rows: Sequence[int], keep: Keep, advance: Advance
) -> None:
    """Keep what comes of some rows, by its number among them, as soon as it is there."""
    for number, outcome in found:
        keep(rows[number], outcome)
        advance(1)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one item of a stage is stored.

    Attributes:
        row: The query, or answer, that it is of; items of one row are made together.
    """

    items: StageItems
    key: str
    row: int


@dataclass(slots=True)
class Node:
    """One stage as `ragbench plan` shows it.

    Attributes:
        name: `retrieve bm25`, `judge bm25/gpt (openai)`.
        cost: What the calls for the others will take; None for a stage that asks no model of ours.
        after: The stages that read it.
        by_workers: Whether the workers of the executor compute what takes long of it.
        at_most: Whether what is stored of it could not be looked up: it may be less, and cost less.
    """

    name: str
    items: int
    stored: int
    unit: str = "queries"
    cost: Estimate | None = None
    after: list[Node] = field(default_factory=list)
    by_workers: bool = False
    at_most: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the stage as `ragbench plan --json` prints it, with the stages that read it."""
        parts = {
            "stage": self.name,
            "items": self.items,
            "stored": self.stored,
            "unit": self.unit,
            "at_most": self.at_most,
            "by_workers": self.by_workers,
            "cost": None if self.cost is None else self.cost.to_dict(),
            "after": [node.to_dict() for node in self.after],
        }
        optional = ("at_most", "by_workers", "cost")
        return {name: part for name, part in parts.items() if part or name not in optional}


@dataclass(kw_only=True)
class Workspace:
    """What the stages of a run share.

    Attributes:
        run_token: Of the run; part of the keys of what cannot be seen from here.
        executor: The workers of an executor that has some; only what needs no store and no server
            is given to them.
        dry: Whether nothing is made: what is missing is counted and stays None.
        work: Title of a stage -> how much of it was made.
        retried: The items that were made in this run, where failed ones are made again.
        ready: Names of the retrievers that are indexed.
        prompts: Id -> system and user words of the prompts that judges were sent.
    """

    plan: Plan
    store: StageStore
    run_token: str
    progress: RunProgress
    budget: Budget = field(default_factory=Budget)
    replies: Replies | None = None
    executor: Executor | None = None
    dry: bool = False
    work: dict[str, Work] = field(default_factory=dict)
    retried: set[tuple[str, str]] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    prompts: dict[str, tuple[str, str]] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str, total: int, unit: str = "queries") -> Iterator[StageProgress]:
        """Show and time what a stage makes."""
        start = time.perf_counter()
        with self.progress.stage(name, total, unit) as stage:
            yield stage
        self.work.setdefault(name, Work(total, 0)).seconds += time.perf_counter() - start

    def component_key(self, noun: Noun, name: str, **inputs: Any) -> str:
        """Return the key of what a component makes of its inputs."""
        component = self.plan.component(noun, name)
        if component is None:  # a live object is known by its name alone
            inputs["name"] = name
        return component_key(component, self.run_token, self.plan.config.secrets, **inputs)

    def calls(self, noun: Noun, name: str) -> Calls:
        """Return how a component is called: no more when the time is up."""
        calls = calls_of(noun, name, self.plan.component(noun, name))
        return replace(calls, refused=self._refused)

    def _refused(self) -> str | None:
        if not self.budget.time_is_up:
            return None
        return f"not asked: the budget's {self.budget.minutes:g} minutes are over"

    def in_random_order(self, rows: Sequence[int]) -> list[int]:
        """Return rows in an order that depends on the seed and the ids alone.

        Rows of several samples, as `Answers` has them, stay together where they are of one query.
        Whatever stops a run, what is done by then is a random sample, the same for each system.
        """
        seed, names = self.plan.config.seed, self.plan.ids
        return sorted(rows, key=lambda row: order_key(seed, names[row % len(names)]))

    @cached_property
    def clean(self) -> Redactor:
        """What keeps the secrets of the config out of what is stored and written."""
        return redactor(self.plan.config.secrets)

    def imagined(self, row: int, passages: int) -> JudgedItem:
        """An item that is like those to come: the gold answer, and passages of the corpus."""
        query, answers = self.plan.queries[row], self.plan.collection.answers
        gold = list(answers.get(query.id, ()))
        texts = [document.full_text for document in self.some_passages(row, passages)]
        answer = gold[0] if gold else query.text
        return JudgedItem(query.text, answer, texts, gold, query.id, turns=query.turns)

    def some_passages(self, row: int, passages: int) -> Sequence[Document]:
        """Passages of the corpus, others for each row: what a plan takes for those to come."""
        corpus = self.plan.collection.documents or []
        start = (row * passages) % max(len(corpus), 1)
        return corpus[start : start + passages]


class Stage:
    """One stage of a run: whatever walks a run walks the list of them in `graph.stages_of`.

    One without a title stores nothing and is not shown. A plan shows a stage `under` the one whose
    output it reads.

    Attributes:
        place: Where a plan shows it among the stages that read the data set: smaller ones first.
    """

    unit: str = "queries"
    place: int = 3

    def __init__(self, workspace: Workspace, title: str = "", under: Stage | None = None) -> None:
        self.workspace, self.plan, self.title, self.under = workspace, workspace.plan, title, under

    @property
    def computes(self) -> bool:
        """Whether workers can compute what takes long of it."""
        return False

    @property
    def computes_here(self) -> bool:
        """Whether workers that read the files of this machine can."""
        return self.computes

    def collect(self, results: Results) -> None:
        """Make what is not stored, and add what came out to the results of the run."""

    def pay_for(self, rows: Sequence[int]) -> None:
        """Make what belongs to some queries, where money may run out before all are done."""

    def forecast(self) -> Node | None:
        """Look up what is stored and estimate the rest; None for what a plan does not show."""
        return None

    def node(self, items: int) -> Node:
        """Return the node of a stage whose items were looked up, or could not be."""
        work = self.workspace.work.get(self.title) or Work(items, 0)
        return Node(self.title, work.items, work.stored, self.unit)


class StoredStage(Stage, ABC):
    """A stage whose items are stored: it says where, how they are read and written, and made.

    Attributes:
        kind: The folder of the cache in which its items lie; stages may share one.
        version: Moves where what it stores, or how that comes about, changes outside its
            components.
        has_texts: Whether its items hold texts of others, in which a secret may stand.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    has_texts: ClassVar[bool] = True

    def items_of(self, label: str, parts: Sequence[str]) -> StageItems:
        """Return the stored items that depend on `parts`; `ragbench cache` shows the label."""
        version = f"{__version__} {self.version}"
        return self.items_of_key(label, fingerprint([version, *parts], KEY_DIGITS))

    def items_of_key(self, label: str, key: str) -> StageItems:
        """Return the stored items of a key, which has the version in it."""
        return self.workspace.store.items(self.kind, label, key)

    @abstractmethod
    def slots(self) -> Sequence[Slot | None]:
        """Return where each item is stored; None for one that is not made."""

    @abstractmethod
    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Make some items by their positions, and tell each as soon as it is there."""

    def read(self, stored: Any) -> Any:
        """Turn what is stored into a value."""
        return stored

    def write(self, value: Any) -> dict[str, Any]:
        """Turn a value into what is stored."""
        written: dict[str, Any] = value
        return written

    @property
    def stores(self) -> bool:
        """Whether what is stored counts."""
        return True

    def prepare(self) -> None:
        """Load what making items needs; the time of the items does not contain it."""

    def shown(self, todo: Sequence[int]) -> tuple[int, str]:
        """Return how much progress shows for some items, and in which unit."""
        return len(todo), self.unit

    def items(self, rows: Collection[int] | None = None, default: Json = None) -> list[Json]:
        """Read the items that are stored and make the others, of `rows` alone where given.

        What is stored under an item's key is taken as it is. Items that failed are stored as
        well, and made again only with `retry_failed`. One that is not there is `default`.
        """
        space, places = self.workspace, self.slots()
        values: list[Json] = [default] * len(places)
        slots = {at: slot for at, slot in enumerate(places) if slot is not None}
        missing = [at for at, slot in slots.items() if not self._find(slot, values, at)]
        space.work.setdefault(self.title, Work(len(slots), len(slots) - len(missing)))
        if not space.dry:
            chosen = {slot.row for slot in slots.values()} if rows is None else set(rows)
            todo = [at for at in missing if slots[at].key != UNKNOWN and slots[at].row in chosen]
            self._make_missing(slots, values, todo)
        return values

    def _make_missing(
        self, slots: Mapping[int, Slot], values: list[Json], missing: Sequence[int]
    ) -> None:
        """Make the items at some positions, first those that no run has made before."""
        space, replies = self.workspace, self.workspace.replies

        def keep(position: int, value: Any) -> None:
            stored, slot = self.write(value), slots[position]
            # errors, answers and passages of a service or of the user's code may hold a key
            if self.has_texts and space.clean:
                stored = without_secrets(stored, space.clean)
            if self.stores and cause_of(stored) is not Cause.OVER_BUDGET:
                slot.items.put(slot.key, stored)
                if self.plan.choices.retry_failed:
                    space.retried.add((slot.items.key, slot.key))
            # as it would be read: a run that was resumed differs in nothing
            values[position] = self.read(stored)

        # what is stored of them has failed: its replies are of no use
        places = [slots[at] for at in missing if self.stores]
        failed = {slot.row for slot in places if slot.key in slot.items}
        for again in (False, True):
            todo = [at for at in missing if (slots[at].row in failed) == again]
            if todo:
                asks_again = again and replies is not None and not replies.replay
                with replies.asking_again() if replies and asks_again else nullcontext():
                    self.prepare()
                    with space.timed(self.title, *self.shown(todo)) as stage:
                        self.make(todo, keep, stage.advance)

    def _find(self, slot: Slot, values: list[Json], at: int) -> bool:
        """Look an item up that is stored, unless it is to be made again; tell whether it is."""
        stored = slot.items.get(slot.key) if self.stores else None
        if stored is None:
            return False
        retry = self.plan.choices.retry_failed and (
            (slot.items.key, slot.key) not in self.workspace.retried
        )
        try:
            if retry and cause_of(stored).failed:
                return False
            value = self.read(stored)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RagbenchError):
            slot.items.refuse(slot.key)
            return False
        if value is not None:
            values[at] = value
        return value is not None
