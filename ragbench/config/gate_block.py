"""One entry of `gates`: its keys, and the checked record."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from ragbench.config.problems import Place
from ragbench.registry import Option

QUANTILES = {"latency_ms.p50": 0.5, "latency_ms.p95": 0.95}
"""Costs of which a quantile over the queries counts; the others are totals."""
COSTS = ("latency_ms.p50", "latency_ms.p95", "tokens.input", "tokens.output", "usd")
"""What a gate may limit besides scores; as `summary.json` has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A condition that a run has to meet."""

    measure: Annotated[str | None, Option(f"A score of the run, or one of {', '.join(COSTS)}.")] = (
        None
    )
    failed: Annotated[
        str | None, Option("A score of which few items may have failed; `max` is their share.")
    ] = None
    certificate: Annotated[
        str | None,
        Option("File of `ragbench calibrate` with `rubric` and `min_kappa`.", refers_to="path"),
    ] = None
    system: Annotated[
        str | list[str] | None, Option("Whose; default: every system but the baseline.")
    ] = None
    against: Annotated[
        str | None,
        Option(
            "A baseline file, a run folder, or another system of the run; default: the system's "
            "baseline in the run."
        ),
    ] = None
    max_drop: Annotated[
        float | None, Option("Largest drop of the mean paired difference that may be.", ge=0)
    ] = None
    max_increase: Annotated[
        float | None,
        Option("Cost: largest increase that may be, as a share of the baseline's.", ge=0),
    ] = None
    max_queries_worse: Annotated[int | None, Option("How many queries may become worse.", ge=0)] = (
        None
    )
    by: Annotated[
        float | None, Option("max_queries_worse: smallest drop that counts; default: any.", gt=0)
    ] = None
    min: Annotated[float | None, Option("The mean is at least this.")] = None
    max: Annotated[float | None, Option("The mean, share or cost is at most this.")] = None
    rubric: Annotated[str | None, Option("certificate: the rubric that it certifies.")] = None
    min_kappa: Annotated[
        float | None, Option("certificate: smallest kappa of judge and people.", ge=-1, le=1)
    ] = None
    decide: Annotated[
        Literal["interval", "mean"] | None,
        Option(
            "`interval`: of all such queries, the default of max_drop; `mean`: of exactly these, "
            "the default of min, max and min_kappa."
        ),
    ] = None
    undecided: Annotated[
        Literal["warn", "fail"], Option("`fail`: what the data cannot tell counts as failed.")
    ] = "warn"
    file: Path | None = None
    """The certificate, or the baseline file or run folder; None where `against` is a system."""
    place: Place = field(default_factory=Place, compare=False, repr=False)
    """Where it stands, for errors and verdicts that come later."""

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that it names; none is every system but the baseline."""
        if self.system is None:
            return ()
        return (self.system,) if isinstance(self.system, str) else tuple(self.system)

    @property
    def compares(self) -> bool:
        """Whether it is about a change, for which there has to be something to compare with."""
        changes = (self.max_drop, self.max_increase, self.max_queries_worse)
        return any(change is not None for change in changes)

    @property
    def text(self) -> str:
        """The condition as summaries show it.

        Example:
            >>> Gate(measure="recall@10", min=0.8).text
            'recall@10 >= 0.8'
            >>> Gate(measure="ndcg@10", max_drop=0.05, against="main.json").text
            'ndcg@10 drop <= 0.05 against main.json'
        """
        how = f" ({self.decide})" if self.decide else ""
        if self.certificate is not None:
            return f"kappa of {self.rubric} >= {self.min_kappa:g} in {self.certificate}{how}"
        if self.failed is not None:
            return f"failed {self.failed} <= {self.max:g}"
        if self.min is not None:
            return f"{self.measure} >= {self.min:g}{how}"
        if self.max is not None:
            return f"{self.measure} <= {self.max:g}{how}"
        against = f" against {self.against}" if self.against is not None else ""
        if self.max_drop is not None:
            return f"{self.measure} drop <= {self.max_drop:g}{against}{how}"
        if self.max_increase is not None:
            return f"{self.measure} increase <= {self.max_increase:g}{against}"
        least = f" by {self.by:g}" if self.by is not None else ""
        return f"{self.measure} worse{least} on <= {self.max_queries_worse} queries{against}"
