"""Noise of a score: shares of questions, app and judge in its variance; flipping questions."""

from __future__ import annotations

from typing import Annotated, Literal

from ragbench.types.json_fields import Meaning, Record, optional

# Source of a flip: a repetition of the app alone, or of the app with a judge.
FlipSource = Literal["app", "app or judge"]


class NoiseShare(Record):
    """Share of one source of noise in the variance of a mean, or of a mean difference."""

    share: Annotated[float, Meaning("Part of the variance, from 0 to 1.")]
    low: Annotated[float, Meaning("Lower limit of the share.")]
    high: Annotated[float, Meaning("Upper limit of the share.")]


class NoisePurchase(Record):
    """More questions or repeats for the cost of the run so far, and the interval that they leave.

    The interval is that of the mean, or of the mean difference, which `Noise` describes.
    """

    level: Annotated[str, Meaning("`questions`, `app`, `retrieval`, `answers` or `judge`.")]
    times: Annotated[
        float, Meaning("Number of questions or repeats, as a multiple of those of the run.")
    ]
    half_width: Annotated[float, Meaning("Half width of the interval with them.")]


class FlippingQuestion(Record):
    """Question whose repetitions are right and wrong."""

    query_id: Annotated[str, Meaning("Id of the question.")]
    pass_rate: Annotated[float, Meaning("Share of the repetitions that are right.")]
    passed: Annotated[
        int, Meaning("Number of a repetition that is right, from 0, as `sample` in `predictions/`.")
    ]
    failed: Annotated[int, Meaning("Number of a repetition that is wrong.")]


class Noise(Record):
    """Uncertainty of a mean, or of a mean difference, split into its sources.

    A source that was not repeated is None: its noise counts for the level above it, the app or
    the questions.
    """

    n: Annotated[int, Meaning("Number of questions with a score.")]
    half_width: Annotated[
        float | None, Meaning("Half width of the interval; null without an interval.")
    ]
    questions: Annotated[NoiseShare, Meaning("Share of the choice of questions.")]
    app: Annotated[
        NoiseShare | None,
        Meaning("Share of the repetitions of the app: of retrieval and answers together."),
    ] = None
    retrieval: Annotated[
        NoiseShare | None, Meaning("Share of the retrieval, if retrieval and answers are repeated.")
    ] = optional()
    answers: Annotated[
        NoiseShare | None, Meaning("Share of the answers, if retrieval and answers are repeated.")
    ] = optional()
    judge: Annotated[NoiseShare | None, Meaning("Share of the repetitions of the judge.")] = None
    buy: Annotated[
        tuple[NoisePurchase, ...],
        Meaning("Purchases of more questions or repeats, the most useful one first."),
    ] = ()
    flips_by: Annotated[
        FlipSource | None,
        Meaning("Source of the flips; null where repetitions are not right or wrong."),
    ] = optional()
    n_partly_failed: Annotated[
        int, Meaning("Number of questions of which some repetitions failed, and others did not.")
    ] = optional(0)
    flipping: Annotated[
        tuple[FlippingQuestion, ...], Meaning("Questions that flip, in the order of the data set.")
    ] = optional(())
