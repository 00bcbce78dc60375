"""Records of `collections.json`: the systems of one config on several collections."""

from __future__ import annotations

from collections.abc import Mapping

from ragbench.records.comparison import Difference
from ragbench.records.gate import Decision
from ragbench.records.score import Ends, Kind
from ragbench.types import Direction
from ragbench.types.json_fields import Prose, Record, optional

COLLECTIONS_SCHEMA = "ragbench.collections/1"


class CollectionRun(Record):
    """Run of all systems on one collection.

    Attributes:
        name: Name of the collection in the config.
        run: Run folder, relative to the folder of the experiment: `scifact/<run id>`.
        queries: Number of queries; None if it is not known.
        complete: True if the run is complete.
        gates: Decisions on the gates, which apply to each collection.
    """

    name: str
    # relative, so that the folder of the experiment can be moved or archived as a whole
    run: str
    queries: int | None
    complete: bool
    gates: tuple[Decision, ...] = ()


class MacroScore(Record):
    """Score of a system on each collection, and the mean over them.

    Attributes:
        system: Name of the system.
        means: Collection -> mean over its queries; None if nothing was scored there.
        mean: Macro mean: each collection has the same weight; None if one has no mean.
        interval: Confidence limits of the macro mean; None without those of each collection.
        intervals: Collection -> confidence limits of its mean; a missing one has none.
    """

    system: str
    means: Mapping[str, float | None]
    # not the mean of the rest: systems would be compared over different collections
    mean: float | None
    interval: Ends | None
    intervals: Mapping[str, Ends] = optional({})


class MacroMeasure(Record):
    """Scores and differences by one measure over all collections.

    Attributes:
        measure: Name of the measure.
        kind: Kind of the measure: of rankings, of answers by a formula, or of answers by a judge.
        direction: `higher` or `lower`, whichever is better.
        systems: Systems that have it on every collection, in the order of the tables.
        comparisons: Differences of the macro means of systems and their baselines, with the
            stratified randomization test; the numbers of queries are those of all collections.
        unlike: Difference of the signatures of systems on a collection in words: those with other
            signatures are not compared; None if all may be.
        tied_with_best: System with the best macro mean, and systems that are not shown to be worse;
            empty without a best one.
        tied: Collection -> the same systems for its means, as in its run.
    """

    measure: str
    kind: Kind
    direction: Direction
    systems: tuple[MacroScore, ...]
    comparisons: tuple[Difference, ...] = ()
    unlike: Prose | None = optional()
    tied_with_best: tuple[str, ...] = optional(())
    tied: Mapping[str, tuple[str, ...]] = optional({})

    def comparison_of(self, system: str) -> Difference | None:
        """Return the difference of a system from its baseline; None if it was not compared."""
        for comparison in self.comparisons:
            if comparison.system == system:
                return comparison
        return None


class CollectionsSummary(Record):
    """A whole experiment over several collections: `collections.json`.

    Attributes:
        name: Name of the experiment.
        run_id: Name of its folder.
        confidence: Level of the intervals.
        resamples: Sign flips of the tests, at least.
        seed: Seed of the sign flips.
        correction: Correction for several comparisons.
        runs: Run on each collection, in the order of the config.
        measures: Measures that are scored on every collection, in the order of the tables.
        notes: Facts that a reader of the numbers needs, a sentence each.
    """

    # a default before required fields is possible because all fields are keywords
    schema: str = COLLECTIONS_SCHEMA
    name: str
    run_id: str
    confidence: float
    resamples: int
    seed: int
    correction: str
    runs: tuple[CollectionRun, ...]
    measures: tuple[MacroMeasure, ...]
    notes: tuple[Prose, ...] = ()
