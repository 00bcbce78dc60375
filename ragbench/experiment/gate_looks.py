"""Further looks of a gate at a loss that is not sure: they decide, and estimate nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from msgspec import structs

from ragbench.config.schema import ExperimentConfig
from ragbench.data.runs.scored_systems import ScoredSystems
from ragbench.experiment.gates import scored_without_controls
from ragbench.experiment.looked_scores import cost_of, has_same_scores, merge_looks, with_choices_of
from ragbench.experiment.runner import run_experiment
from ragbench.gates.base import Gate
from ragbench.gates.drop import SURELY_WORSE, NotWorse, PairGate
from ragbench.records.gate import Decision
from ragbench.records.manifest import Choices
from ragbench.report.gate import GateReview
from ragbench.report.progress import Progress
from ragbench.report.text import counted, ends_of

# Further looks at a loss that is not sure; benchmarks/year.py has the reason
_MOST_LOOKS = 3
# Base and head of a look
Sides = tuple[ScoredSystems, ScoredSystems]


class DecideLook(Protocol):
    """Function that reviews the scores of base and head."""

    def __call__(
        self, head: ScoredSystems, base: ScoredSystems, *, of_all_looks: Sequence[Decision] = ()
    ) -> GateReview:
        """Return the review of a head and a base, with verdicts of the means of all looks."""
        ...


@dataclass(slots=True, kw_only=True)
class FurtherLooks:
    """Further runs of both sides on the questions that changed.

    A look at the changed questions alone cannot estimate the difference: the questions that
    happened not to change are not asked again, so that the mean of all looks is too near to 0. The
    mean therefore decides, and every number of the review is of the first look.

    Attributes:
        config: Config of the head.
        again: Runs the base on the questions of a look, with a budget in USD or None.
        choices: Options of the command line.
        progress: Display of the progress.
        usd: Rest of the budget in USD for each side; 0 if costs are not known.
        folder: Folder for the runs of the head, which the review reads.
        looks: Further looks so far.
    """

    config: ExperimentConfig
    again: Callable[[Choices, float | None], ScoredSystems]
    choices: Choices
    progress: Progress
    usd: float
    folder: str
    looks: list[Sides] = field(default_factory=list)

    def decide(
        self,
        review: GateReview,
        sides: Sides,
        decide: DecideLook,
    ) -> GateReview:
        """Return the review of the first look, with the verdicts of the mean of all looks.

        At most three further looks are taken. They end when no score of `review.unsure` is lower
        without being sure, when more questions would be asked again than the run has, when the
        budget is spent, or when the scores are stored ones.

        Args:
            review: Review of the first look.
            sides: Base and head of the first look.
            decide: Returns the review of a head and a base.
        """
        base, head = sides
        questions, is_limited = review.unsure.questions, self.usd > 0
        of_all_looks, unsure = review, review.unsure.losses
        while unsure and len(self.looks) < _MOST_LOOKS:
            is_spent = is_limited and self.usd <= 0
            if is_spent or (len(self.looks) + 1) * len(questions) > len(head.query_ids):
                break
            self.looks.append(self._look(questions, head, len(self.looks) + 1))
            old, new = zip(*self.looks, strict=True)
            of_all_looks = decide(merge_looks(head, new), merge_looks(base, old))
            unsure &= of_all_looks.unsure.losses
            # stored replies: a further look would show nothing else
            if has_same_scores(head, new[-1]) and has_same_scores(base, old[-1]):
                break
        if not self.looks:
            return review
        old, new = zip(*self.looks, strict=True)
        final = decide(
            replace(head, looks=new),
            replace(base, looks=old),
            of_all_looks=of_all_looks.decisions,
        )
        times = "once" if len(self.looks) == 1 else f"{len(self.looks)} times"
        ran = f"{counted(len(questions), 'changed questions')} ran {times} more on both sides"
        line = (
            f"looked at again: {ran}; the mean of all looks decides, all numbers are of the first"
        )
        return replace(final, looks=line)

    def _look(self, questions: Sequence[str], head: ScoredSystems, number: int) -> Sides:
        """Return base and head of another run on some questions, whose cost is subtracted."""
        part = structs.replace(self.choices, queries=tuple(questions), look=number)
        budget = replace(self.config.budget, usd=self.usd or self.config.budget.usd)
        output = os.path.join(self.folder, str(number))
        config = replace(self.config, gates=(), budget=budget, output=output, has_page=False)
        run = run_experiment(config, choices=part, progress=self.progress)
        new = scored_without_controls(run.path)
        old = with_choices_of(self.again(part, self.usd or None), head)
        self.usd -= cost_of(new)
        return old, new


def is_unsure(gate: Gate, decision: Decision) -> bool:
    """Return True for a failed gate on a difference whose interval does not exclude 0."""
    if decision.verdict != "fail" or not isinstance(gate, PairGate) or decision.means is None:
        return False
    ends = ends_of(decision.facts.interval)
    return ends is None or ends[0] * ends[1] <= 0


def with_looks(
    gate: Gate,
    first: Decision,
    of_all_looks: Decision,
    n_looks: int,
    losses: Collection[tuple[str, str]],
) -> Decision:
    """Return a decision on the first look with the verdict of all looks, if they were taken for it.

    Args:
        gate: The gate.
        first: Its decision on the scores of the first look, whose numbers stay.
        of_all_looks: Its decision on the means of all looks.
        n_looks: Number of looks, with the first one.
        losses: (measure, system) of the losses that were looked at again.
    """
    # other gates are on scores of all questions, such as the mean of the system
    is_looked_at = isinstance(gate, NotWorse) or is_unsure(gate, first)
    if not is_looked_at or (gate.quantity, first.system) not in losses:
        return first
    mean, change = of_all_looks.facts.difference, of_all_looks.facts.change
    reason = of_all_looks.why.removeprefix(change)
    if change and isinstance(mean, float):
        # an interval of means of looks does not cover the difference: it makes nothing sure
        reason = reason.replace(SURELY_WORSE, "worse")
        reason = f"{first.facts.change}; mean of {n_looks} looks {mean:+.4g}{reason}"
    else:
        mean, reason = None, f"{reason}, in the mean of {n_looks} looks"
    facts = structs.replace(first.facts, n_looks=n_looks, looks_difference=mean)
    return structs.replace(
        first,
        verdict=of_all_looks.verdict,
        why=reason,
        power=of_all_looks.power,
        not_worse=of_all_looks.not_worse,
        facts=facts,
    )
