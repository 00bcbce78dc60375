"""Judged runs for tests: made of scores that the test plants."""

from pathlib import Path

from ragbench.calibration.judged_run import JudgedRun, JudgedScore
from ragbench.calibration.labels import Labels
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.rubric import load_rubric

RUBRIC = load_rubric("answer_relevancy")


def planted(scores, *, answers=None, unscored=None, against=None):
    """A run whose judge gave these scores: (system, query) -> 0..1."""
    systems = tuple(dict.fromkeys(system for system, _ in scores))
    score = JudgedScore(
        name=RUBRIC.name,
        rubric=RUBRIC,
        judge="planted",
        model="planted/1",
        signature=f"{RUBRIC.name}|judge:planted|model:planted/1|rubric:{RUBRIC.fingerprint}",
        scores=scores,
        unscored=unscored or {},
    )
    texts = {key: f"answer of {key[0]} to {key[1]}" for key in scores} | (answers or {})
    items = {
        key: JudgedItem(f"=question of {key[1]}", text, ["a passage"], ["gold"])
        for key, text in texts.items()
    }
    return JudgedRun(
        folder=Path("planted"),
        name="planted",
        seed=13,
        systems=systems,
        against=against or {},
        data={},
        answers=items,
        scores={score.name: score},
    )


def score_of(run):
    return run.scores[RUBRIC.name]


def labels_of(*raters, draw=""):
    """Labels of several raters, each a mapping of answers to labels."""
    by_rater = {f"label_{number}": dict(of) for number, of in enumerate(raters, start=1)}
    return Labels(by_rater, {key: draw for of in raters for key in of})
