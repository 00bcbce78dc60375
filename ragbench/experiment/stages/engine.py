"""Engine of a run: the one loop that looks up, makes, stores and counts the items of all stages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any

from ragbench.errors import RagbenchError
from ragbench.experiment.records import Work
from ragbench.experiment.stages.base import Finished, Outputs, Slot, Stage
from ragbench.experiment.stages.resources import Resources
from ragbench.llm import Totals
from ragbench.records.codec import clean_tree, cleaned, from_line, to_line
from ragbench.records.manifest import FailedCall
from ragbench.report.progress import Progress, StageProgress
from ragbench.secrets import redactor
from ragbench.store.items import StageItems, StageStore
from ragbench.types import Cause
from ragbench.types.json_fields import Record, optional
from ragbench.types.lookups import take_items

# Keys of the group and of the item in it, which slots of several stages may share.
ItemPlace = tuple[str, str | None]

# Key of the item that holds the notes of a component; the keys of the others are hashes.
_NOTES = "notes by items"
# Digits of the key of an item beside a note.
_NOTE_DIGITS = 12


@dataclass(slots=True)
class Counters:
    """Numbers of items and their failures, which the engine counts in a run.

    Attributes:
        work: Number of items, of stored ones, and seconds of each stage by its title.
        new_failures: Places of the items that failed in this run, so that a later stage or round
            does not make them again.
        kept_failures: Place -> cause of the items that failed in an earlier run, and are not made
            again.
        failed_replies: Places of the items that are made again and failed by the content of a
            reply: their models are asked again, and stored replies are not used.
    """

    work: dict[str, Work] = field(default_factory=dict)
    new_failures: set[ItemPlace] = field(default_factory=set)
    kept_failures: dict[ItemPlace, Cause] = field(default_factory=dict)
    failed_replies: set[ItemPlace] = field(default_factory=set)

    def count_kept_failures(self) -> dict[str, int]:
        """Return cause -> number of kept failures, most frequent first; empty without any."""
        counts = Counter(cause.word for cause in self.kept_failures.values())
        return dict(counts.most_common())


class _StoredNotes(Record):
    """Notes of a component on some of its items."""

    notes: tuple[str, ...]  # the notes, in the order of the component
    # first digits of the keys of the items that were made when it wrote the notes
    items: tuple[str, ...]


class _AllNotes(Record):
    """Notes of a component, each with the items that it is about."""

    entries: tuple[_StoredNotes, ...]


@dataclass(slots=True)
class _Items:
    """Items of a stage while the engine works on them."""

    slots: dict[int, Slot]  # slot by position, without the items that are never made
    values: list[Any]  # value by position; None where an item is not made
    # positions of the values that are causes of the budget alone: no call was made
    unpaid: set[int] = field(default_factory=set)
    new: list[int] = field(default_factory=list)  # positions of the items that were made
    paid: Totals = field(default_factory=Totals)  # calls, tokens and cost of making them

    def missing(self) -> list[int]:
        """Return the positions without a value, in their order."""
        positions = []
        for position in self.slots:
            if self.values[position] is None:
                positions.append(position)
        return positions


class Engine:
    """Run of stages over one store: all items are looked up, made, stored and counted here.

    Attributes:
        counters: Numbers of items and failures so far.
    """

    def __init__(self, resources: Resources, store: StageStore, progress: Progress) -> None:
        self._plan, self._replies = resources.plan, resources.replies
        self._store, self._progress = store, progress
        self._clean = redactor(resources.plan.config.secrets)
        self._slots = dict[Stage[Any], Sequence[Slot | None]]()
        self.counters = Counters()

    def run(
        self,
        stages: Sequence[Stage[Any]],
        outputs: Outputs | None = None,
        rows: Collection[int] | None = None,
        *,
        make: bool = True,
    ) -> Outputs:
        """Go through stages in their order, and return the outputs with those of the stages.

        All items are stored as they are made, so that an interrupted run can go on. Stages whose
        output is complete are left out. A stage that needs complete inputs has no output before.

        Args:
            stages: Stages; the inputs of each are run before it.
            outputs: Outputs so far, which are completed; None starts without any.
            rows: Rows of the queries whose items are made, for one round of a budget; None makes
                those of all queries.
            make: False looks the items up alone, for `ragbench plan`: others are pending.

        Raises:
            RagbenchError: A component fails in a way that is no cause of a single query.
        """
        outputs = Outputs() if outputs is None else outputs
        due = []
        for stage in stages:
            if rows is None or stage.by_query:
                due.append(stage)
        for stage in _after_inputs(due):
            is_ready = stage.by_query or outputs.is_complete(*stage.inputs)
            if is_ready and not outputs.is_complete(stage):
                chosen = None if stage.is_free or rows is None else set(rows)
                outputs.put(stage, self._finish(stage, outputs, chosen, make=make))
        return outputs

    def _finish(
        self, stage: Stage[Any], outputs: Outputs, rows: Collection[int] | None, *, make: bool
    ) -> Finished[Any]:
        """Return the output of a stage, after its missing items are made for some queries."""
        inputs, has_inputs = outputs.of(stage.inputs), outputs.is_complete(*stage.inputs)
        slots = self._slots.get(stage) or stage.items(inputs)
        if has_inputs and rows is not None:
            # keys hash all passages, which later rounds need not do again
            self._slots[stage] = slots
        items = _Items({n: s for n, s in enumerate(slots) if s is not None}, [None] * len(slots))
        for position, slot in items.slots.items():
            self._look_up(stage, slot, items, position)
        self._count(stage, items, bool(slots))
        if make:
            self._make_missing(stage, inputs, items, rows)
        # a later round may have money or time for an item that was not paid
        pending = [*items.missing(), *(() if rows is None else items.unpaid)]
        return Finished(
            stage.output(inputs, items.values),
            is_complete=has_inputs and not pending,
            paid=_add(outputs.paid(stage), items.paid),
            notes=self._read_notes(stage, items) if stage.has_notes else (),
        )

    def _count(self, stage: Stage[Any], items: _Items, has_slots: bool) -> None:
        """Count the items of a stage, and those that are stored, at its first look-up."""
        n_recorded = stage.n_recorded()
        if has_slots or n_recorded:
            n = len(items.slots) + n_recorded
            # later rounds of a budget find items that this run has stored
            self.counters.work.setdefault(stage.title, Work(n, n - len(items.missing())))

    def _make_missing(
        self, stage: Stage[Any], inputs: Outputs, items: _Items, rows: Collection[int] | None
    ) -> None:
        """Make the missing items of some queries, and set their values."""
        # Rows whose items failed before by the content of a reply come last, and ask the models
        # again. Items over budget get a value too, but are not stored.
        n_queries, replies, slots = len(self._plan.queries), self._replies, items.slots
        knowable = []
        for position in items.missing():
            if slots[position].key is not None:
                knowable.append(position)
        if rows is not None:
            knowable = [p for p in knowable if slots[p].row % n_queries in rows]
        # replies that were refused or could not be read are stored as well
        failed_replies = self.counters.failed_replies
        failed = set()
        for position in knowable:
            if slots[position].place in failed_replies:
                failed.add(slots[position].row)
        for has_failed in (False, True):
            todo = []
            for position in knowable:
                if (slots[position].row in failed) == has_failed:
                    todo.append(position)
            if todo:
                asks_again = has_failed and replies is not None and not replies.replay
                with replies.asking_again() if replies and asks_again else nullcontext():
                    self._make(stage, inputs, items, todo)

    def _make(self, stage: Stage[Any], inputs: Outputs, items: _Items, todo: Sequence[int]) -> None:
        """Make the items at some positions, and note what they cost."""

        def keep(position: int, value: Any) -> None:
            self._keep(stage, items, position, value)

        stage.prepare(self.timed)
        previous = stage.totals()
        with self.timed(stage.title, *stage.progress_total(inputs, todo)) as progress:
            stage.make(inputs, todo, keep, progress.advance)
        items.paid = _add(items.paid, _add(stage.totals(), previous, -1))
        new_values = take_items(items.values, todo)
        items.paid = _add(items.paid, stage.reported(new_values))
        items.new += todo
        if stage.has_notes:
            self._store_notes(stage, items)

    def _keep(self, stage: Stage[Any], items: _Items, position: int, value: Any) -> None:
        """Store the row of a value that was made, and set the value in the items."""
        if not stage.kind:
            items.values[position] = value
            return
        row, slot = stage.write(value), items.slots[position]
        # errors, answers and passages of a service or of the user's code may contain an API key
        if stage.has_texts and self._clean:
            is_record = isinstance(row, Record)
            row = cleaned(row, self._clean) if is_record else clean_tree(row, self._clean)
        line = to_line(row).encode()
        cause = _cause_of(line)
        # an item over budget was not tried: the next run makes it
        if cause is Cause.OVER_BUDGET:
            items.unpaid.add(position)
        elif stage.stores:
            self._group(stage, slot).put(str(slot.key), line)
            if cause.failed:
                self.counters.new_failures.add(slot.place)
        # read back, so that a resumed run has the same values to the last bit
        items.values[position] = stage.read(line)

    def _look_up(self, stage: Stage[Any], slot: Slot, items: _Items, position: int) -> None:
        """Read a stored item into the values; not one that failed and is to be tried again."""
        if slot.key is None or not stage.stores:
            return
        group = self._group(stage, slot)
        line = group.get(slot.key)
        if line is None:
            return
        try:
            cause = _cause_of(line)
            failed_before = cause.failed and slot.place not in self.counters.new_failures
            if failed_before and self._is_tried_again(cause, group):
                # after a transient failure, stored replies of other requests are good
                if not cause.is_transient:
                    self.counters.failed_replies.add(slot.place)
                return
            value = stage.read(line)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RagbenchError):
            # a malformed item counts as missing, and its new value replaces it
            group.refuse(slot.key)
            return
        items.values[position] = value
        if value is not None and failed_before:
            self.counters.kept_failures[slot.place] = cause

    def _is_tried_again(self, cause: Cause, group: StageItems) -> bool:
        """Return True if an item that failed in an earlier run is made again."""
        choices = self._plan.choices
        can_mend = group.writable and not choices.judge_replay
        return choices.retry_failed or (cause.is_transient and can_mend)

    def _group(self, stage: Stage[Any], slot: Slot) -> StageItems:
        """Return the stored items of a stage beside a slot; nothing is read yet."""
        return self._store.items(stage.kind, slot.group.label, slot.group.key)

    @contextmanager
    def timed(self, title: str, total: int, unit: str = "queries") -> Iterator[StageProgress]:
        """Show a stage of `total` items in the progress display, and count its seconds.

        After an error in the block, no seconds are counted.
        """
        start = time.perf_counter()
        with self._progress.stage(title, total, unit) as progress:
            yield progress
        # a stage may run in parts: failed items, rounds of a budget
        work = self.counters.work.setdefault(title, Work(total, 0))
        work.seconds += time.perf_counter() - start

    def _read_notes(self, stage: Stage[Any], items: _Items) -> list[str]:
        """Return the stored notes of a component on the items of this run."""
        # The same cache may have notes on other items, such as those of another source.
        if not items.slots:
            return []
        keys = _note_keys(items.slots.values())
        notes: dict[str, None] = {}
        for entry in self._stored_notes(stage, items):
            n_common = len(keys.intersection(entry.items))
            if 2 * n_common >= min(len(keys), len(entry.items)):
                notes |= dict.fromkeys(entry.notes)
        return list(notes)

    def _stored_notes(self, stage: Stage[Any], items: _Items) -> Sequence[_StoredNotes]:
        """Return the stored notes of a component, with the items that they are about."""
        line = self._group(stage, next(iter(items.slots.values()))).get(_NOTES)
        return () if line is None else from_line(_AllNotes, line).entries

    def _store_notes(self, stage: Stage[Any], items: _Items) -> None:
        """Store the notes of a component after it made items."""
        # A component counts over all calls so far: its notes replace those on a part of the same
        # items.
        notes = tuple(map(self._clean, stage.notes()))
        if not notes:
            return
        keys = _note_keys(items.slots[position] for position in items.new)
        entries = []
        for entry in self._stored_notes(stage, items):
            if not keys >= {*entry.items}:
                entries.append(entry)
        entries.append(_StoredNotes(notes=notes, items=tuple(sorted(keys))))
        group = self._group(stage, next(iter(items.slots.values())))
        group.put(_NOTES, to_line(_AllNotes(entries=tuple(entries))).encode())


def _cause_of(line: bytes) -> Cause:
    """Return the cause of a stored item; raise KeyError if it is unknown, DataError without one."""
    call = from_line(_Repeated, line)
    # some repetitions of a verdict may have failed although it has a score
    for cause in (call.cause, *call.repeat_causes):
        if Cause[cause.upper()].failed:
            return Cause[cause.upper()]
    return Cause[call.cause.upper()]


class _Repeated(FailedCall):
    """Cause of a stored item, and those of the repetitions of a judge that calls models."""

    repeat_causes: tuple[str, ...] = optional(())


def _after_inputs(stages: Sequence[Stage[Any]]) -> list[Stage[Any]]:
    """Return the stages and all their inputs, each once and after its inputs."""
    ordered: dict[Stage[Any], None] = {}

    def append(stage: Stage[Any]) -> None:
        if stage not in ordered:
            for source in stage.inputs:
                append(source)
            ordered[stage] = None

    for stage in stages:
        append(stage)
    return list(ordered)


def _note_keys(slots: Iterable[Slot]) -> set[str]:
    """Return the first digits of the keys of some items; pending ones have none."""
    keys = set()
    for slot in slots:
        if slot.key is not None:
            keys.add(slot.key[:_NOTE_DIGITS])
    return keys


# Fields of `Totals` that are numbers.
_COUNTS = tuple(entry.name for entry in fields(Totals) if entry.name != "models")


def _add(totals: Totals, other: Totals, sign: int = 1) -> Totals:
    """Return the sum of two totals without their models; with a sign of -1 the difference."""
    return Totals(**{n: getattr(totals, n) + sign * getattr(other, n) for n in _COUNTS})
