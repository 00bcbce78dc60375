"""Noise of a score: shares of questions, app and judge in its variance; flipping questions."""

from __future__ import annotations

from typing import Literal

from ragbench.types.json_fields import Record, optional

# Source of a flip: a repetition of the app alone, or of the app with a judge.
FlipSource = Literal["app", "app or judge"]


class NoiseShare(Record):
    """Share of one source of noise in the variance of a mean, or of a mean difference.

    Attributes:
        share: Part of the variance, from 0 to 1.
        low: Lower limit of the share.
        high: Upper limit of the share.
    """

    share: float
    low: float
    high: float


class NoisePurchase(Record):
    """More questions or repeats for the cost of the run so far, and the interval that they leave.

    Attributes:
        level: `questions`, `app`, `retrieval`, `answers` or `judge`.
        times: Number of questions or repeats, as a multiple of those of the run.
        half_width: Half width of the interval with them.
    """

    level: str
    times: float
    half_width: float


class FlippingQuestion(Record):
    """Question whose repetitions are right and wrong.

    Attributes:
        query_id: Id of the question.
        pass_rate: Share of the repetitions that are right.
        passed: Number of a repetition that is right, from 0, as `sample` in `predictions/`.
        failed: Number of a repetition that is wrong.
    """

    query_id: str
    pass_rate: float
    passed: int
    failed: int


class Noise(Record):
    """Uncertainty of a mean, or of a mean difference, split into its sources.

    A source that was not repeated is None: its noise counts for the level above it, the app or
    the questions.

    Attributes:
        n: Number of questions with a score.
        half_width: Half width of the interval; None without an interval.
        questions: Share of the choice of questions.
        app: Share of the repetitions of the app: of retrieval and answers together.
        retrieval: Share of the retrieval, if retrieval and answers are repeated.
        answers: Share of the answers, if retrieval and answers are repeated.
        judge: Share of the repetitions of the judge.
        buy: Purchases of more questions or repeats, the most useful one first.
        flips_by: Source of the flips; None where repetitions are not right or wrong.
        flipping: Questions that flip, in the order of the data set.
    """

    n: int
    half_width: float | None
    questions: NoiseShare
    app: NoiseShare | None = None
    retrieval: NoiseShare | None = optional()
    answers: NoiseShare | None = optional()
    judge: NoiseShare | None = None
    buy: tuple[NoisePurchase, ...] = ()
    flips_by: FlipSource | None = optional()
    flipping: tuple[FlippingQuestion, ...] = optional(())
