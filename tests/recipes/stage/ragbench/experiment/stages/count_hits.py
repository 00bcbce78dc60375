"""Stage that counts the hits of a retriever."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.experiment.records import Results, Work
from ragbench.experiment.stages.base import Keep, Outputs, Slot, Stage, Step
from ragbench.experiment.stages.retrieval import Retrieve
from ragbench.score.base import Advance


class CountHits(Stage[int]):
    """Stage that counts the hits of a retriever query by query; its output is their sum."""

    kind, version, by_query = "count", 1, True

    def __init__(self, retrieve: Retrieve) -> None:
        super().__init__(retrieve.plan, f"count hits of {retrieve.name}", [retrieve], retrieve)
        self.retrieve = retrieve

    def items(self, inputs: Outputs) -> list[Slot | None]:
        """Return the slot of each query: its key is the ids of the hits, None while pending."""
        group, slots = self.group(self.retrieve.name, []), list[Slot | None]()
        for row, outcome in enumerate(inputs[self.retrieve]):
            hits = () if outcome.value is None else outcome.value.documents
            key = None if outcome.is_pending else " ".join(hit.id for hit in hits)
            slots.append(Slot(group, key, row))
        return slots

    def make(self, inputs: Outputs, todo: Sequence[int], keep: Keep, advance: Advance) -> None:
        """Count the hits of the queries at some positions; a query that failed has none."""
        outcomes = inputs[self.retrieve]
        for row in todo:
            value = outcomes[row].value
            keep(row, {"hits": 0 if value is None else len(value.documents)})
            advance(1)

    def output(self, inputs: Outputs, values: Sequence[dict[str, int] | None]) -> int:
        """Return the number of hits of all queries that are counted."""
        return sum(value["hits"] for value in values if value is not None)

    def add(self, outputs: Outputs, results: Results) -> None:
        """Add a note with the number of hits."""
        results.notes.append(f"{self.retrieve.name}: {outputs[self]} hits in all")

    def step(self, outputs: Outputs, work: Work | None) -> Step:
        """Return the step of a plan, without a cost."""
        return self.node(work, len(self.plan.queries))
