"""Judges of a run: connected before anything is asked, their replies on disk before they count."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.errors import AdapterError, MissingExtra
from ragbench.experiment.components import PlannedJudge, connect
from ragbench.llm import Replies, Totals
from ragbench.score.judge.base import AskingJudge
from ragbench.score.judge.columns import Judged
from ragbench.types import Usage


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """What one judge took for one system."""

    models: tuple[str, ...]
    """The models as their servers name them."""
    usage: Usage
    """What the replies took that its verdicts rest on, also those that were paid for earlier."""
    paid: Totals
    """What this run sent and paid."""
    spreads: Mapping[str, float]
    """Rubric -> how far samples or models lie apart, on average."""

    def manifest(self) -> dict[str, Any]:
        """Return what this run sent and paid, JSON-ready."""
        paid = self.paid
        return {
            "models": list(self.models),
            "calls": paid.calls,
            "stored": paid.stored,
            "failed": paid.failed,
            "tokens": {"input": paid.input_tokens, "output": paid.output_tokens},
            "usd": None if paid.unknown_cost else paid.cost_usd,
        }

    def summary(self) -> dict[str, Any]:
        """Return what the verdicts took, whoever paid for it and when, JSON-ready."""
        tokens = {"input": self.usage.input_tokens, "output": self.usage.output_tokens}
        return {"models": list(self.models), "tokens": tokens, "usd": self.usage.usd}


def cache_folder() -> Path:
    """Return where what was paid for is kept: `.ragbench` here, or where `RAGBENCH_CACHE` says."""
    return Path(os.environ.get("RAGBENCH_CACHE") or ".ragbench")


@contextmanager
def connected(judges: Mapping[str, PlannedJudge], *, replay: bool) -> Iterator[None]:
    """Connect the judges that ask models to the store of replies, for as long as a run takes.

    Raises:
        ConfigError: A key is missing, or a server's address is wrong.
        MissingExtra: A package is not installed.
        DataError: The store cannot be used, or there is none to replay.
    """
    asking = [
        (planned, planned.judge)
        for planned in judges.values()
        if isinstance(planned.judge, AskingJudge)
    ]
    with ExitStack() as stack:
        if asking:
            path = cache_folder() / "replies.sqlite"
            replies = stack.enter_context(Replies(path, replay=replay))
        for planned, judge in asking:
            connect(planned, replies)
            stack.callback(judge.close)
        yield


def readiness(name: str, planned: PlannedJudge) -> str | None:
    """Say why a run would not start with a judge; None where it would.

    Raises:
        ConfigError: Its options are wrong, whatever the environment.
    """
    if planned.missing_key is not None:
        return f"judge '{name}' needs a key: {planned.missing_key} is not set"
    if isinstance(planned.judge, AskingJudge):
        try:
            connect(planned, None)
        except (MissingExtra, AdapterError) as error:
            return str(error)
        planned.judge.close()
    return None


def use_of(planned: PlannedJudge, judged: Judged, before: Totals) -> JudgeUse:
    """Return what a judge took, from what it had taken before."""
    now = totals_of(planned)
    paid = Totals(
        **{
            name: getattr(now, name) - getattr(before, name)
            for name in Totals.__slots__
            if name != "models"
        }
    )
    return JudgeUse(judged.models, judged.usage, paid, judged.spreads)


def totals_of(planned: PlannedJudge) -> Totals:
    """Return a copy of what a judge has sent and paid so far; nothing for one that asks nobody."""
    if not isinstance(planned.judge, AskingJudge):
        return Totals()
    return planned.judge.totals()


def warnings_on(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Say what makes a judge's numbers doubtful; a sentence each."""
    found = mixture(system, name, planned, judged)
    for rubric, counts in judged.failures().items():
        total = sum(row["rubric"] == rubric for row in judged.rows)
        causes = ", ".join(f"{count} {cause}" for cause, count in counts.items())
        found.append(
            f"{system}: judge {name}: {sum(counts.values())} of {total} verdicts on {rubric} "
            f"failed ({causes}); kept in judgements/, the mean is over the others"
        )
    return found


def mixture(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Warn where a server answered as more models than were asked."""
    if len(judged.models) <= len(planned.judge.model.split("+")):
        return []
    return [
        f"{system}: judge {name}: the server answered as {len(judged.models)} models, "
        f"{', '.join(judged.models)}: the scores are a mixture"
    ]
