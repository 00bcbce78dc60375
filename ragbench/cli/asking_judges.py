"""`ragbench calibrate RUN --probe NAME`: the judges of a run, asked again about changed answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragbench.calibration.asking import Probe
    from ragbench.calibration.scale import Scale
    from ragbench.calibration.sheet import Question
    from ragbench.calibration.verdicts import JudgedRun, JudgedScore, Key
    from ragbench.experiment.components import PlannedJudge
    from ragbench.score.judge.base import Item


def ask_judges(
    run: JudgedRun,
    scores: Sequence[JudgedScore],
    probes: Sequence[Probe],
    *,
    n: int,
    seed: int,
    scale: Scale | None = None,
    confidence: float = 0.95,
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Ask each judge, as the run's config has it, about a sample of its answers.

    Returns:
        Score -> probe -> what came out, and notes on what was sent.

    Raises:
        ConfigError: A judge lacks its key or model.
        DataError: The data set is not what it was, or another model answers now.
    """
    from ragbench.calibration.asking import ask_again, sample_answers
    from ragbench.cli.run_questions import read_questions
    from ragbench.experiment.judging import connected, totals_of
    from ragbench.files import cache_folder

    questions = read_questions(run)
    found: dict[str, dict[str, Any]] = {}
    notes = []
    for name in dict.fromkeys(score.judge for score in scores):
        own = [score for score in scores if score.judge == name]
        keys = sample_answers(own, n, seed)
        planned = _planned(run, name, own)
        with connected({name: planned}, cache_folder(), replay=False):
            asked = ask_again(
                planned.judge,
                [score.rubric for score in own],
                {key: _item(run, key, questions[key[1]]) for key in keys},
                probes,
                scale=scale,
                confidence=confidence,
            )
            sent = totals_of(planned)
        found |= {score.name: asked[score.rubric.name] for score in own}
        what = f"{len(keys)} answers, seed {seed}"
        calls = f"; {sent.calls} calls, {sent.stored} replies from the store" if sent.models else ""
        notes.append(f"judge {name} asked again about {what}{calls}")
    return found, notes


def _planned(run: JudgedRun, name: str, scores: Sequence[JudgedScore]) -> PlannedJudge:
    """The judge as the run's own config has it."""
    from ragbench.config import load_config
    from ragbench.experiment.components import build_judge

    judges = load_config(run.folder / "config.yaml").metrics.judges or {}
    return build_judge(judges.get(name), [score.rubric.name for score in scores])


def _item(run: JudgedRun, key: Key, question: Question) -> Item:
    """What the judge was shown."""
    from ragbench.score.judge.base import Item

    judged = run.answers[key]
    return Item(
        question=question.text,
        answer=judged.answer,
        contexts=list(judged.contexts) or None,
        references=list(question.references),
        query_id=key[1],
        queries=list(judged.queries) or None,
    )
