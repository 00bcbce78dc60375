"""What the stages of a run have produced, before it becomes files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragbench.comparison.systems import SystemScores
from ragbench.experiment.stages.answers import Answers
from ragbench.experiment.stages.items import Work
from ragbench.experiment.stages.judging import JudgeUse
from ragbench.experiment.stages.retrieval import Ranked
from ragbench.score.base import ScoreColumn

if TYPE_CHECKING:
    from ragbench.experiment.stages.early_stopping import EarlyJudge
    from ragbench.experiment.stages.judging import Filled
    from ragbench.experiment.stages.preferences import Preferences


@dataclass(slots=True)
class Results:
    """What the stages of a run have produced."""

    rankings: dict[str, Ranked] = field(default_factory=dict)
    """Retriever -> its run."""
    answers: dict[str, Answers] = field(default_factory=dict)
    """System -> its answers."""
    samples: dict[str, dict[str, list[ScoreColumn]]] = field(default_factory=dict)
    """System -> score -> a column for each sample; systems that answer each query several times."""
    judgements: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """System -> the verdicts, a row each."""
    judge_uses: dict[str, dict[str, JudgeUse]] = field(default_factory=dict)
    """System -> judge -> what it took."""
    systems: list[SystemScores] = field(default_factory=list)
    """Every system with its scores, in the order of the tables."""
    notes: list[str] = field(default_factory=list)
    """What the reader of the numbers should know, a sentence each."""
    warnings: list[str] = field(default_factory=list)
    """What makes numbers doubtful, a sentence each."""
    preferences: list[Preferences] = field(default_factory=list)
    """What judges said of pairs of systems."""
    early: dict[str, EarlyJudge] = field(default_factory=dict)
    """Judge -> how far it went; those that could stop early."""
    filled: Filled | None = None
    """The judgements with those that a model made; None where it made none."""
    comparisons: dict[str, Any] = field(default_factory=dict)
    """The mapping of `comparisons.json`."""
    work: Mapping[str, Work] = field(default_factory=dict)
    """Stage -> how much of it was stored, and how long the rest took."""
    spending: dict[str, Any] | None = None
    """What the budget limits, what was spent and what is missing; None without a budget."""
