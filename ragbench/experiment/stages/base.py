"""Base of the stages of a run, with the loop that reads, makes, stores and counts their items."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from ragbench import __version__
from ragbench.config.schema import PYTHON_TIMEOUT
from ragbench.errors import RagbenchError
from ragbench.executors.base import Executor
from ragbench.experiment.calls import Calls, Outcome
from ragbench.experiment.plan.records import Noun, Plan
from ragbench.experiment.records import Results, Work, judge_totals
from ragbench.experiment.stages import stored_items
from ragbench.llm import Budget, Estimate, Replies
from ragbench.report.progress import Progress, StageProgress
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem
from ragbench.secrets import Redactor, redactor
from ragbench.signature import fingerprint, order_key
from ragbench.store.items import StageItems, StageStore
from ragbench.types import Cause, Document
from ragbench.types.conversation import Json

# Outcome of an item that is not made yet: neither a value nor a cause.
PENDING: Outcome[Any] = Outcome(None)

# Key of an item that depends on one that is not made yet: it cannot be looked up.
UNKNOWN = "not known yet"

# Key of the items of a stage, and key of one item.
ItemPlace = tuple[str, str]

# Takes the position of an item and its value, when the value is made.
Keep = Callable[[int, Any], None]


def keep_all(
    outcomes: Iterable[tuple[int, object]], rows: Sequence[int], keep: Keep, advance: Advance
) -> None:
    """Store each outcome when it comes, and count it as done; no outcomes store nothing.

    Args:
        outcomes: Pairs of number and outcome; the number is a position in `rows`.
        rows: Positions of the items that were asked for.
        keep: Stores an outcome by the position of its item.
        advance: Counts items for the progress display.
    """
    for number, outcome in outcomes:
        keep(rows[number], outcome)
        advance(1)


@dataclass(frozen=True, slots=True)
class Slot:
    """Place of one item of a stage in the store, as `StoredStage.slots` returns.

    Attributes:
        items: Stored items of the stage, by key.
        key: Key of the item; `UNKNOWN` if it depends on an item that is not made yet.
        row: Row of its query or answer; items of one row are made together.
    """

    items: StageItems
    key: str
    row: int

    @property
    def place(self) -> ItemPlace:
        """Keys of the item in the store, which slots of several stages may share."""
        return self.items.key, self.key


@dataclass(slots=True)
class Step:
    """Stage in the forecast that `ragbench plan` prints; `Stage.node` makes it.

    Attributes:
        name: Title of the stage: `retrieve bm25`, `judge bm25/gpt (openai)`.
        items: Number of all items.
        stored: Number of items that are stored, and not made again.
        unit: Name of the items, a plural.
        cost: Estimated cost of the other items; None for a stage that sends no prompts.
        after: Steps of the stages that read it; empty without any.
        at_most: True if its items depend on others that are not made: `items - stored` and the cost
            are upper limits.
    """

    name: str
    items: int
    stored: int
    unit: str = "queries"
    cost: Estimate | None = None
    after: list[Step] = field(default_factory=list)
    at_most: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the step as `ragbench plan --json` prints it.

        Keys are `stage`, `items`, `stored`, `unit` and `after` (steps likewise); `at_most` only if
        it is true, and `cost` only if there is one.
        """
        parts = {
            "stage": self.name,
            "items": self.items,
            "stored": self.stored,
            "unit": self.unit,
            "at_most": self.at_most,
            "cost": None if self.cost is None else self.cost.to_dict(),
            "after": [node.to_dict() for node in self.after],
        }
        optional = ("at_most", "cost")
        return {name: part for name, part in parts.items() if part or name not in optional}


@dataclass(kw_only=True)
class Workspace:
    """Resources that the stages of a run share; `graph.run_stages` takes it.

    Attributes:
        plan: Plan of the run.
        store: Stored items of all stages.
        run_token: Token of the run: part of the keys of components whose code or service may change
            unseen, so that no other run reads their results.
        progress: Progress display.
        budget: Money, tokens and minutes that the run may take; by default without limits.
        replies: Stored replies of models; None if the run asks no model.
        executor: Workers, which compute what needs no store and no server; None without any.
        dry: True for a forecast, which counts missing items and makes none.
        work: Number of items, of stored ones, and seconds of each stage by its title.
        new_failures: Places of the items that failed in this run, so that a later stage or round
            does not make them again.
        kept_failures: Place -> cause of the items that failed in an earlier run, and are not made
            again.
        failed_replies: Places of the items that are made again and failed by the content of a
            reply: their models are asked again, and stored replies are not used.
        ready: Names of the retrievers that are indexed.
        prompts: System and user words of the prompts that judges were sent, by their id.
        reached: Component -> whether the calls of this run reached its server, as in `Calls`.
    """

    plan: Plan
    store: StageStore
    run_token: str
    progress: Progress
    budget: Budget = field(default_factory=Budget)
    replies: Replies | None = None
    executor: Executor | None = None
    dry: bool = False
    work: dict[str, Work] = field(default_factory=dict)
    new_failures: set[ItemPlace] = field(default_factory=set)
    kept_failures: dict[ItemPlace, Cause] = field(default_factory=dict)
    failed_replies: set[ItemPlace] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    prompts: dict[str, tuple[str, str]] = field(default_factory=dict)
    reached: dict[str, set[bool]] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str, total: int, unit: str = "queries") -> Iterator[StageProgress]:
        """Show a stage of `total` items in the progress display, and add its seconds to `work`.

        After an error in the block, no seconds are added.
        """
        start = time.perf_counter()
        with self.progress.stage(name, total, unit) as stage:
            yield stage
        # a stage may run in parts: failed items, rounds of a budget
        self.work.setdefault(name, Work(total, 0)).seconds += time.perf_counter() - start

    def component_key(self, noun: Noun, name: str, **inputs: Any) -> str:
        """Return the key of the results of a component for `inputs`, which are JSON-ready.

        It has 32 hexadecimal digits. An unknown name counts as a live object.
        """
        component = self.plan.component(noun, name)
        if component is None:  # a live object has no entry: its name and the run identify it
            inputs["name"] = name
        return stored_items.component_key(
            component, self.run_token, self.plan.config.secrets, **inputs
        )

    def calls(self, noun: Noun, name: str) -> Calls:
        """Return the options for the calls of a component; no call starts once time is up.

        A live object, which has no entry, is called once at a time, without retries, and gets the
        time limit of Python components.
        """
        component, owner = self.plan.component(noun, name), f"{noun} '{name}'"
        reached = self.reached.setdefault(owner, set())
        if component is None:
            return Calls(owner, PYTHON_TIMEOUT, refused=self._refused, reached=reached)
        limits = component.timeout, component.concurrency, component.retries
        return Calls(owner, *limits, refused=self._refused, reached=reached)

    def unreachable(self) -> tuple[str, ...]:
        """Return the components whose server served no request of this run, judges last.

        They are named as in messages: `generator 'gpt'`. Components that sent no request, such as
        those whose items are all stored, are left out.
        """
        totals = {f"judge '{name}'": judge_totals(j) for name, j in self.plan.all_judges.items()}
        return (
            *(owner for owner, reached in self.reached.items() if reached == {False}),
            *(name for name, t in totals.items() if 0 < t.unreachable == t.failed and not t.calls),
        )

    def _refused(self) -> str | None:
        if not self.budget.time_is_up:
            return None
        return f"not asked: the budget's {self.budget.minutes:g} minutes are over"

    def in_random_order(self, rows: Sequence[int]) -> list[int]:
        """Return rows of queries, or of answers as in `Answers`, in random order.

        The order depends on the seed and the query ids alone, and answers to one query stay
        together. A run that stops early so has done the same random sample for each system.
        """
        # a hash of seed and id: the order does not depend on the other rows
        seed, names = self.plan.config.seed, self.plan.ids
        return sorted(rows, key=lambda row: order_key(seed, names[row % len(names)]))

    def count_kept_failures(self) -> dict[str, int]:
        """Return cause -> number of kept failures, most frequent first; empty without any."""
        counts = Counter(cause.word for cause in self.kept_failures.values())
        return dict(counts.most_common())

    @cached_property
    def clean(self) -> Redactor:
        """Replacer of the config's secrets in texts that are stored; falsy without secrets."""
        return redactor(self.plan.config.secrets)

    def example_item(self, row: int, passages: int) -> JudgedItem:
        """Return an item that stands for an answer to come, to estimate the cost of judging it.

        Args:
            row: Row of the query.
            passages: Number of passages, taken from the corpus; the answer is the gold answer, or
                the question where there is none.
        """
        query, answers = self.plan.queries[row], self.plan.collection.answers
        gold = list(answers.get(query.id, ()))
        texts = [document.full_text for document in self.example_passages(row, passages)]
        answer = gold[0] if gold else query.text
        return JudgedItem(query.text, answer, texts, gold, query.id, turns=query.turns)

    def example_passages(self, row: int, passages: int) -> Sequence[Document]:
        """Return up to `passages` documents, others for each row; empty without a corpus.

        They stand for passages to come, to estimate the cost of prompts.
        """
        corpus = self.plan.collection.documents or []
        # other passages for each row, as their lengths vary
        start = (row * passages) % max(len(corpus), 1)
        return corpus[start : start + passages]


class Stage:
    """Step of a run; `graph.stages_of` lists all stages in the order of their work.

    `collect` makes the items of the stage and adds them to the results; in a run with a budget,
    `pay_for` makes those of some queries before. `forecast` counts them for a plan. The base does
    nothing: `collect` and `pay_for` make no items, and `forecast` returns None, which hides it.

    Attributes:
        workspace: Resources that the stages share.
        plan: Plan of the run.
        title: Title in progress, `summary.json` and plans; empty for a stage that stores nothing.
        under: Stage whose output it reads; a plan shows it below that one.
        unit: Name of its items, a plural.
        place: Rank in a plan among the stages without `under`: smaller ones first.
    """

    unit: str = "queries"
    place: int = 3

    def __init__(self, workspace: Workspace, title: str = "", under: Stage | None = None) -> None:
        self.workspace, self.plan, self.title, self.under = workspace, workspace.plan, title, under

    def collect(self, results: Results) -> None:
        """Make the items that are not stored, and add all to `results`; by default nothing."""

    def pay_for(self, rows: Sequence[int]) -> None:
        """Make the items of the queries at `rows` (from 0), in a run with a budget.

        By default nothing.
        """

    def forecast(self) -> Step | None:
        """Return the step of a plan: stored items and the cost of the others; None hides it."""
        return None

    def node(self, items: int) -> Step:
        """Return a step without a cost.

        The counts are those of the look-up of the stage; without one, `items` items, none of them
        stored.
        """
        work = self.workspace.work.get(self.title) or Work(items, 0)
        return Step(self.title, work.items, work.stored, self.unit)


class StoredStage(Stage, ABC):
    """Stage whose items are stored: `slots` says where, `make` makes those that are missing.

    `items` returns the values of all items, in the order of `slots`: `read` reads the stored ones,
    and the others are made and stored as `write` writes them. An item that fails has a value with
    its cause. Errors of `make` pass through.

    Attributes:
        kind: Kind of its items in the store, such as `generate`; stages may share one.
        version: Part of the keys: raised when the code of the stage itself changes its results or
            their form, as the keys contain the code of components alone.
        has_texts: True if its items hold texts of services or users, in which a secret may stand.
    """

    kind: ClassVar[str]
    version: ClassVar[int]
    has_texts: ClassVar[bool] = True

    def items_of(self, label: str, parts: Sequence[str]) -> StageItems:
        """Return the collection of stored items under one key; empty if nothing is stored yet.

        The key is a hash of `parts` and of the versions of ragbench and of this stage.

        Args:
            label: Name of the component or data in `ragbench cache`; not part of the key.
            parts: Inputs that all items of the collection depend on.
        """
        # another release may compute the same item in another way
        version = f"{__version__} {self.version}"
        return self.items_of_key(label, fingerprint([version, *parts], stored_items.KEY_DIGITS))

    def items_of_key(self, label: str, key: str) -> StageItems:
        """Return the stored items of a key, which must contain the version of the stage.

        Nothing is read yet.
        """
        return self.workspace.store.items(self.kind, label, key)

    @abstractmethod
    def slots(self) -> Sequence[Slot | None]:
        """Return the slot of each item, in order; None for an item that is never made."""

    @abstractmethod
    def make(self, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Make the items at some positions, keep each when it is there, and count it as done.

        `todo` are positions in `slots`; `keep` takes the same positions. A failed item is kept with
        its cause.
        """

    def read(self, stored: Any) -> Any:
        """Return the value of a stored item, by default its JSON; None counts as not stored.

        An item whose form it refuses is made again: by a LookupError, TypeError, ValueError,
        ArithmeticError, AttributeError or RagbenchError.
        """
        return stored

    def write(self, value: Any) -> dict[str, Any]:
        """Return the JSON object that is stored for a value; by default the value itself."""
        stored: dict[str, Any] = value
        return stored

    @property
    def stores(self) -> bool:
        """Return True if stored items are read and new ones stored; False makes all again."""
        return True

    def prepare(self) -> None:
        """Load models and indexes before items are made, outside of their time.

        By default nothing.
        """

    def progress_total(self, todo: Sequence[int]) -> tuple[int, str]:
        """Return (number of steps that progress shows for the items at `todo`, their unit)."""
        return len(todo), self.unit

    def items(self, rows: Collection[int] | None = None, default: Json = None) -> list[Json]:
        """Return the values of all items: read where they are stored, else made.

        Failures are stored as well. Those of earlier runs are made again if their cause is
        transient or `retry_failed` is set, and else noted in `workspace.kept_failures`. In the
        order of `slots`; an item without a slot has the default. In a dry run nothing is made.

        Args:
            rows: Values of `Slot.row` whose items are made; None makes those of all rows.
            default: Value of an item that is neither stored nor made.
        """
        space, all_slots = self.workspace, self.slots()
        values: list[Json] = [default] * len(all_slots)
        slots = {index: slot for index, slot in enumerate(all_slots) if slot is not None}
        missing = [index for index, slot in slots.items() if not self._look_up(slot, values, index)]
        # the first look-up counts: later rounds of a budget find items that this run has stored
        space.work.setdefault(self.title, Work(len(slots), len(slots) - len(missing)))
        if not space.dry:
            chosen = {slot.row for slot in slots.values()} if rows is None else set(rows)
            knowable = {index: slots[index] for index in missing if slots[index].key != UNKNOWN}
            todo = [index for index, slot in knowable.items() if slot.row in chosen]
            self._make_missing(slots, values, todo)
        return values

    def _make_missing(
        self, slots: Mapping[int, Slot], values: list[Json], missing: Sequence[int]
    ) -> None:
        """Make the items at some positions, and set their values in `values`.

        Rows whose items failed before by the content of a reply come last, and ask the models
        again. Items over budget get a value too, but are not stored.
        """
        space, replies = self.workspace, self.workspace.replies

        def keep(position: int, value: Any) -> None:
            stored, slot = self.write(value), slots[position]
            # errors, answers and passages of a service or of the user's code may contain an API key
            if self.has_texts and space.clean:
                stored = stored_items.without_secrets(stored, space.clean)
            cause = stored_items.cause_of(stored)
            # an item over budget was not tried: the next run makes it
            if self.stores and cause is not Cause.OVER_BUDGET:
                slot.items.put(slot.key, stored)
                if cause.failed:
                    space.new_failures.add(slot.place)
            # read back, so that a resumed run has the same values to the last bit
            values[position] = self.read(stored)

        # replies that were refused or could not be read are stored as well
        failed = {slots[i].row for i in missing if slots[i].place in space.failed_replies}
        for has_failed in (False, True):
            positions = [index for index in missing if (slots[index].row in failed) == has_failed]
            if positions:
                asks_again = has_failed and replies is not None and not replies.replay
                with replies.asking_again() if replies and asks_again else nullcontext():
                    self.prepare()
                    with space.timed(self.title, *self.progress_total(positions)) as stage:
                        self.make(positions, keep, stage.advance)

    def _look_up(self, slot: Slot, values: list[Json], position: int) -> bool:
        """Read a stored item into `values`; return False if it is to be made.

        That is an item that is not stored, cannot be read, or failed and is to be tried again. An
        item that cannot be read is marked as refused, and no error is raised.
        """
        stored = slot.items.get(slot.key) if self.stores else None
        if stored is None:
            return False
        space = self.workspace
        try:
            cause = stored_items.cause_of(stored)
            failed_before = cause.failed and slot.place not in space.new_failures
            if failed_before and self._is_tried_again(cause, slot):
                # after a transient failure, stored replies of other requests are good
                if not cause.is_transient:
                    space.failed_replies.add(slot.place)
                return False
            value = self.read(stored)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RagbenchError):
            # a malformed item counts as missing, and its new value replaces it
            slot.items.refuse(slot.key)
            return False
        if value is not None:
            values[position] = value
            if failed_before:
                space.kept_failures[slot.place] = cause
        return value is not None

    def _is_tried_again(self, cause: Cause, slot: Slot) -> bool:
        """Return True if an item that failed in an earlier run is made again.

        Without `retry_failed` that holds for a transient cause, where new results can be stored and
        the run may send requests.
        """
        choices = self.plan.choices
        can_mend = slot.items.writable and not choices.judge_replay
        return choices.retry_failed or (cause.is_transient and can_mend)
