"""Conditions of `--fail-if`: a drop between two compared runs, decided like a gate."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ragbench.comparison.compare_runs import paired_rows
from ragbench.comparison.matching import Matching
from ragbench.comparison.method import Method
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.errors import OptionError
from ragbench.gates.drop import Drop
from ragbench.records.comparison import ComparedGate, Comparisons
from ragbench.records.gate import Decision, DropFacts

# The name of a measure may have spaces inside its parentheses
_FORM = re.compile(r"\s*(\S(?:.*\S)?)\s+drop\s*>\s*(\S+)\s*")
_ALLOWED = "MEASURE drop > NUMBER, such as 'ndcg@10 drop > 0.01'"


@dataclass(frozen=True, slots=True)
class FailIf:
    """A drop that is not allowed, as `ragbench compare --fail-if` names it.

    `parse` makes it of a text, or raises OptionError. `decide` yields a decision for each pair of
    compared systems.

    Attributes:
        text: Condition as the user wrote it.
        gate: Gate with the same condition.
    """

    text: str
    gate: Drop

    @classmethod
    def parse(cls, text: str) -> FailIf:
        """Return the condition in a text.

        Spaces around the measure and the number do not count; whether the measure exists is not
        checked.

        Raises:
            OptionError: The text is no condition, or its number is negative or not finite.

        Example:
            >>> FailIf.parse("ndcg@10 drop > 0.01").gate.text
            'ndcg@10 drop <= 0.01'
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise OptionError("gate", "", text, _ALLOWED)
        measure, limit = match.groups()
        try:
            margin = float(limit)
        except ValueError:
            margin = math.nan
        # float() takes nan too, which is in no range
        if not 0 <= margin < math.inf:
            allowed = "a number from 0 on: a share of 1, not percent"
            raise OptionError("gate", "drop >", limit, allowed)
        return cls(text, Drop(measure=measure, max_drop=margin))

    def skipped_by(self, sources: Sequence[ScoredSystems]) -> str | None:
        """Return a reason with the run that skipped judges and lacks the measure; None without one.

        The first such run is named, with the reasons of all judges that it skipped. The result is
        None too if no other source has the measure as one of a judge.
        """
        measure = self.gate.measure
        systems = chain.from_iterable(source.systems.values() for source in sources)
        if not any(system.kinds.get(measure) == "judge" for system in systems):
            return None
        for source in sources:
            skipped = None if source.summary is None else source.summary.skipped_judges
            # a run that skipped the judge has no column of it: other sources say its kind
            if skipped and not any(measure in s.columns for s in source.systems.values()):
                reasons = "; ".join(f"{judge}: {why}" for judge, why in skipped.items())
                return f"a judge was skipped in {source.source}: {reasons}"
        return None

    def decide(
        self,
        measure: str,
        comparison: Comparisons,
        matching: Matching,
        method: Method,
        clusters: Sequence[str] | None = None,
    ) -> Iterator[ComparedGate]:
        """Yield the decision for each system that is compared by `measure`.

        `measure` is the name of the condition's measure in the runs. The method is that of the
        comparison, so that the interval that decides is the one printed. Without compared systems
        there is one undecided decision. `clusters` has the cluster label of each query; None if
        queries are units.
        """
        compared = list(paired_rows(comparison, matching, measure, clusters))
        if not compared:
            yield self.undecided(f"no two systems are compared by {measure}; name another measure")
        for system, baseline, pairs in compared:
            decision = self.gate.decide_pairs(pairs, method)
            yield self._entry(measure, decision, (system.label, baseline.label))

    def undecided(self, why: str) -> ComparedGate:
        """Return an undecided decision, without systems, for a measure that was not computed."""
        return self._entry(self.gate.measure, Decision(verdict="undecided", why=why))

    def _entry(
        self, measure: str, decision: Decision, pair: Sequence[str | None] = (None, None)
    ) -> ComparedGate:
        """Return a decision on a system and its baseline, `pair`, in the form of comparisons."""
        return ComparedGate(
            gate=self.text,
            system=pair[0],
            baseline=pair[1],
            measure=measure,
            max_drop=self.gate.max_drop,
            verdict=decision.verdict,
            why=decision.why,
            facts=DropFacts(
                numbers=decision.facts,
                worst_queries=None if decision.means is None else decision.worst_queries,
                means=decision.means,
                power=decision.power,
                not_worse=decision.not_worse,
            ),
        )
