"""Judges of a run: connected before anything is asked, their replies on disk before they count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ragbench.config.schema import Component
from ragbench.errors import AdapterError, DataError, MissingExtra
from ragbench.experiment.plan.components import connect, connect_generator
from ragbench.experiment.records import JudgeUse, PlannedJudge
from ragbench.generate.base import Generator
from ragbench.llm import Budget, Replies, Totals
from ragbench.score.judge.base import AskingJudge, CheckedJudge
from ragbench.score.judge.verdicts import Judged
from ragbench.store.replies import REPLIES_FILE
from ragbench.types import Cause


@contextmanager
def connected(
    judges: Mapping[str, PlannedJudge],
    folder: Path,
    also: Sequence[Path] = (),
    *,
    replay: bool,
    budget: Budget | None = None,
    generators: Mapping[str, tuple[Component | None, Generator]] | None = None,
) -> Iterator[Replies | None]:
    """Connect judges and generators for as long as a run takes: to servers, and to stored replies.

    Args:
        judges: Judges by name.
        folder: The cache folder.
        also: Cache folders of others.
        replay: Whether models answer from stored replies alone.
        budget: What all calls may cost together.
        generators: Generators by name, with what the config says of them.

    Yields:
        The stored replies; None where nobody asks models.

    Raises:
        ConfigError: A key or a model is missing, or a server's address is wrong.
        MissingExtra: A package is not installed.
        DataError: The store cannot be used, there is none to replay, or a model cannot be fetched.
    """
    with ExitStack() as stack:
        made = generators or {}
        asking = any(isinstance(planned.judge, AskingJudge) for planned in judges.values())
        replies = None
        if asking or any(generator.asks is not None for _, generator in made.values()):
            others = [other / REPLIES_FILE for other in also if (other / REPLIES_FILE).is_file()]
            replies = stack.enter_context(
                Replies(folder / REPLIES_FILE, also=others, replay=replay)
            )
        for name, (component, generator) in made.items():
            connect_generator(name, component, generator, replies, budget)
            if generator.asks is not None:
                stack.callback(generator.asks.close)
        for planned in judges.values():
            if isinstance(planned.judge, AskingJudge):
                planned.judge.spend_from(budget)
            connect(planned, replies)
            if isinstance(planned.judge, CheckedJudge):
                stack.callback(planned.judge.close)
        yield replies


def readiness(name: str, planned: PlannedJudge) -> str | None:
    """Say why a run would not start with a judge; None where it would.

    Raises:
        ConfigError: Its options are wrong, whatever the environment.
    """
    if planned.missing_key is not None:
        return f"judge '{name}' needs a key: {planned.missing_key} is not set"
    if isinstance(planned.judge, CheckedJudge):
        try:
            connect(planned, None)
        except (MissingExtra, AdapterError, DataError) as error:
            return str(error)
        planned.judge.close()
    return None


def missing_keys(generators: Mapping[str, Generator]) -> list[str]:
    """Say which generators lack a key, so that a run would not start; a phrase each."""
    return [
        f"generator '{name}' needs a key: {generator.missing_key} is not set"
        for name, generator in generators.items()
        if generator.missing_key is not None
    ]


def use_of(planned: PlannedJudge, judged: Judged, before: Totals) -> JudgeUse:
    """Return what a judge took, from what it had taken before."""
    paid = paid_since(before, totals_of(planned))
    return JudgeUse(judged.models, judged.usage, paid, judged.spreads)


def paid_since(before: Totals, now: Totals, others: Totals | None = None) -> Totals:
    """Return what was sent and paid between two counts, together with others."""
    others = others or Totals()
    return Totals(
        **{
            name: getattr(others, name) + getattr(now, name) - getattr(before, name)
            for name in Totals.__slots__
            if name != "models"
        }
    )


def totals_of(planned: PlannedJudge) -> Totals:
    """Return a copy of what a judge has sent and paid so far; nothing for one that asks nobody."""
    if not isinstance(planned.judge, AskingJudge):
        return Totals()
    return planned.judge.totals()


def warnings_on(system: str, name: str, planned: PlannedJudge, judged: Judged) -> list[str]:
    """Say what makes a judge's numbers doubtful; a sentence each."""
    found = mixture(system, name, planned, judged)
    for rubric, counts in judged.failures().items():
        total = sum(
            row["rubric"] == rubric and row.get("cause") != Cause.STOPPED_EARLY.word
            for row in judged.rows
        )
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
