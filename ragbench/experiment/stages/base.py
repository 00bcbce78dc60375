"""Base of the stages of a run: the outputs that a stage reads, its items, and its own output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from ragbench import __version__
from ragbench.experiment.plan.records import Plan
from ragbench.experiment.records import Results, Work
from ragbench.experiment.stages import keys
from ragbench.json_yaml import DEEPEST, load_json
from ragbench.llm import Estimate, Totals
from ragbench.report.progress import StageProgress
from ragbench.score.base import Advance
from ragbench.score.judge.base import JudgedItem
from ragbench.signature import fingerprint, order_key
from ragbench.types import Document
from ragbench.types.documents import full_texts
from ragbench.types.lookups import select_in_order

# Text of a passage to come, where no corpus has an example: 100 words
_EXAMPLE_TEXT = "word " * 100

Output = TypeVar("Output")
Output_co = TypeVar("Output_co", covariant=True)

# Takes the position of an item and its value, when the value is made.
Keep = Callable[[int, Any], None]
# Shows a task by title, number of steps and unit, and counts its seconds.
Timed = Callable[[str, int, str], AbstractContextManager[StageProgress]]


class ItemGroup(NamedTuple):
    """Stored items of a stage under one key.

    Attributes:
        label: Name of the component or data, as `ragbench cache` shows it; not part of the key.
        key: Hash of the inputs that all items of the group depend on.
    """

    label: str
    key: str


@dataclass(frozen=True, slots=True)
class Slot:
    """Place of one item of a stage in the store.

    Attributes:
        group: Group of the item.
        key: Key of the item in its group; None if it depends on an item that is not made yet.
        row: Row of its query or answer; items of one row are made together.
    """

    group: ItemGroup
    key: str | None
    row: int

    @property
    def place(self) -> tuple[str, str | None]:
        """Keys of group and item, which slots of several stages may share."""
        return self.group.key, self.key


@dataclass(slots=True)
class Step:
    """Stage of a run as `ragbench plan` prints it; `Stage.step` makes it.

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
        filled = {}
        for name, part in parts.items():
            if part or name not in optional:
                filled[name] = part
        return filled


@dataclass(frozen=True, slots=True)
class Finished(Generic[Output_co]):
    """Output of a stage, as far as its items are made.

    Attributes:
        value: Output of the stage; items that are not made are pending in it.
        is_complete: True if no item is pending.
        paid: Calls, tokens and cost of this run for its items.
        notes: Notes of its component on its items.
    """

    value: Output_co
    is_complete: bool
    paid: Totals
    notes: Sequence[str] = ()


class Outputs:
    """Outputs of stages: `outputs[stage]` is a value, and computes nothing.

    A stage gets those of its inputs alone: another stage raises a KeyError.
    """

    def __init__(self, finished: dict[Stage[Any], Finished[Any]] | None = None) -> None:
        self._finished = {} if finished is None else finished

    def __getitem__(self, stage: Stage[Output]) -> Output:
        value: Output = self._finished[stage].value
        return value

    def __contains__(self, stage: Stage[Any]) -> bool:
        return stage in self._finished

    def of(self, stages: Iterable[Stage[Any]]) -> Outputs:
        """Return the outputs of some stages, without those that are not there yet."""
        return Outputs(select_in_order(self._finished, stages))

    def put(self, stage: Stage[Output], finished: Finished[Output]) -> None:
        """Set the output of a stage, in place of an earlier one with more pending items."""
        self._finished[stage] = finished

    def is_complete(self, *stages: Stage[Any]) -> bool:
        """Return True if the outputs of all these stages are there, without pending items."""
        return all(s in self._finished and self._finished[s].is_complete for s in stages)

    def paid(self, stage: Stage[Any]) -> Totals:
        """Return calls, tokens and cost of this run for the items of a stage."""
        return self._finished[stage].paid if stage in self._finished else Totals()

    def notes(self, stage: Stage[Any]) -> Sequence[str]:
        """Return the notes of the component of a stage on its items."""
        return self._finished[stage].notes


class Stage(ABC, Generic[Output_co]):
    """Step of a run: it says which outputs it reads, lists its items, and makes them.

    The engine calls `items`, reads the stored ones, calls `make` for the others, and passes all
    values to `output`. A stage keeps no state: its attributes say what it does, and no method but
    `make` and `prepare` calls a component. A stage without items has an output alone.

    Attributes:
        plan: Plan of the run.
        title: Title in progress, `summary.json` and plans; empty for a stage without items.
        inputs: Stages whose outputs it reads.
        under: Stage below which a plan shows it; None at the top.
        unit: Name of its items, a plural.
        place: Rank in a plan among the stages without `under`: smaller ones first.
        kind: Kind of its items in the store, such as `generate`; stages may share one. Empty: its
            values are neither written nor read.
        version: Part of the keys: raised when the code of the stage itself changes its results or
            their form, as the keys contain the code of components alone.
        by_query: True if it works query by query, also where other queries are pending; False if it
            needs complete inputs.
        is_free: True if it costs no money: a budget has all its items made in the first round.
        has_texts: True if its items hold texts of services or users, in which a secret may stand.
        has_notes: True if its component has notes on the items that it made.
    """

    unit: str = "queries"
    place: int = 3
    kind: ClassVar[str] = ""
    version: ClassVar[int] = 0
    by_query: ClassVar[bool] = False
    is_free: ClassVar[bool] = False
    has_texts: ClassVar[bool] = True
    has_notes: ClassVar[bool] = False

    def __init__(
        self,
        plan: Plan,
        title: str = "",
        inputs: Sequence[Stage[Any]] = (),
        under: Stage[Any] | None = None,
    ) -> None:
        self.plan, self.title, self.inputs, self.under = plan, title, tuple(inputs), under

    @property
    def stores(self) -> bool:
        """Return True if stored items are read and new ones stored; False makes all again."""
        return bool(self.kind)

    def items(self, inputs: Outputs) -> Sequence[Slot | None]:
        """Return the slot of each item, in order; None for an item that is never made."""
        return ()

    def n_recorded(self) -> int:
        """Return the number of items that stand in a file of the user, and have no slot."""
        return 0

    def prepare(self, timed: Timed) -> None:
        """Load models and indexes before items are made, outside of their time.

        By default this does nothing.
        """

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Make the items at some positions, keep each when it is there, and count it as done.

        `todo` are positions in `items`; `keep` takes the same positions. A failed item is kept with
        its cause.
        """
        raise NotImplementedError(f"{type(self).__name__} has items, and makes none")

    def progress_total(self, inputs: Outputs, todo: Sequence[int]) -> tuple[int, str]:
        """Return (number of steps that progress shows for the items at `todo`, their unit)."""
        return len(todo), self.unit

    def totals(self) -> Totals:
        """Return calls, tokens and cost of its models so far; by default zeros."""
        return Totals()

    def payer(self, results: Results) -> str:
        """Return the component whose calls it pays: `judge openai`; by default none, as empty."""
        return ""

    def reported(self, values: Sequence[Any]) -> Totals:
        """Return the cost that new items report themselves, besides `totals`; by default zeros."""
        return Totals()

    def notes(self) -> Sequence[str]:
        """Return the notes of its component on all items that it made; by default none."""
        return ()

    def read(self, line: bytes) -> Any:
        """Return the value of a stored line, by default its JSON; None counts as not stored.

        An item whose form it refuses is made again: by a LookupError, TypeError, ValueError,
        ArithmeticError, AttributeError or RagbenchError.
        """
        # deeper than a user's file, whose values may be nested in the item
        return load_json(line, deepest=2 * DEEPEST)

    def write(self, value: Any) -> Any:
        """Return the record, or JSON value, that is stored for a value; by default itself."""
        return value

    @abstractmethod
    def output(self, inputs: Outputs, values: Sequence[Any]) -> Output_co:
        """Return the output; `values` are in the order of `items`, None where one is not made."""

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add its complete output to the results; by default nothing."""

    def step(self, outputs: Outputs, work: Work | None) -> Step | None:
        """Return the step of a plan: stored items and the cost of the others; None hides it.

        `work` has the numbers of its items; None if its inputs are pending.
        """
        return None

    def node(self, work: Work | None, items: int) -> Step:
        """Return a step without a cost; without `work`, `items` items, none of them stored."""
        work = work or Work(items, 0)
        return Step(self.title, work.items, work.stored, self.unit)

    def group(self, label: str, parts: Sequence[str]) -> ItemGroup:
        """Return the group whose key is a hash of `parts`, and of ragbench and this stage."""
        # another release may compute the same item in another way
        version = f"{__version__} {self.version}"
        return ItemGroup(label, fingerprint([version, *parts], keys.KEY_DIGITS))


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


def in_random_order(plan: Plan, rows: Sequence[int]) -> list[int]:
    """Return rows of queries, or of answers as in `Answers`, in random order.

    The order depends on the seed and the query ids alone, and answers to one query stay together. A
    run that stops early so has done the same random sample for each system.
    """
    # a hash of seed and id: the order does not depend on the other rows
    seed, names = plan.config.seed, plan.ids
    return sorted(rows, key=lambda row: order_key(seed, names[row % len(names)]))


def example_item(plan: Plan, row: int, passages: int) -> JudgedItem:
    """Return an item that stands for an answer to come, to estimate the cost of judging it.

    Args:
        plan: Plan of the run.
        row: Row of the query.
        passages: Number of passages, taken from the corpus; the answer is the gold answer, or the
            question where there is none.
    """
    query, answers = plan.queries[row], plan.collection.answers
    gold = list(answers.get(query.id, ()))
    texts = full_texts(example_passages(plan, row, passages))
    answer = gold[0] if gold else query.text
    return JudgedItem(query.text, answer, texts, gold, query.id, turns=query.turns)


def example_passages(plan: Plan, row: int, passages: int) -> Sequence[Document]:
    """Return up to `passages` documents, others for each row; made ones without a corpus.

    They stand for passages to come, to estimate the cost of prompts.
    """
    corpus = plan.collection.documents
    if not corpus:
        documents = []
        for n in range(passages):
            name = f"{row}-{n}"
            documents.append(Document(name, f"{name} {_EXAMPLE_TEXT}"))
        return documents
    # other passages for each row, as their lengths vary
    start = (row * passages) % max(len(corpus), 1)
    return corpus[start : start + passages]
