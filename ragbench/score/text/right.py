"""Metric `right`: whether an answer is right, by the words of the gold answers."""

from __future__ import annotations

import math
from typing import Annotated

from ragbench.registry import Option
from ragbench.score.text import base
from ragbench.score.text.gold_words import GoldWords
from ragbench.signature import Signature
from ragbench.text.refusals import refuses

# Default share of the words of a gold answer that a right answer has.
WORDS = 0.4

Words = Annotated[
    float,
    Option("Share of the content words of a long gold answer that a right answer has.", gt=0, le=1),
]


@base.metric(
    "right",
    reads="questions",
    facts={"by": "words"},
    equals="the causes of a run, and values by hand",
    not_for="answers that may be worded otherwise, or that negate the gold answer: ask a judge",
)
def right(prediction: str, question: base.AskedQuestion, *, words: Words = WORDS) -> float:
    """Return 1 for a right answer, else 0, by the words of the gold answers.

    An answer is right if a gold answer stands in it word by word, or if it has enough of its
    content words, those of the question left out, and all numbers of a short one. A question
    without an answer is right if the reply declines; NaN where it is not sure that it does. One
    with an answer that is not given, as by its gold documents, is wrong if the reply declines, and
    else NaN. An empty answer gives 0. In an experiment the rubric `correctness` decides where a
    judge applies it, as `causes.right` says.

    Args:
        prediction: Answer.
        question: Text of the question, its gold answers, and whether it has an answer.
        words: Share of the content words of a gold answer of more than four.

    Example:
        >>> from ragbench.score.text.base import AskedQuestion
        >>> question = AskedQuestion("What is the capital of France?", ["It is Paris."])
        >>> right("Paris, on the Seine.", question), right("The capital is Lyon.", question)
        (1.0, 0.0)
        >>> unanswerable = AskedQuestion("Who won in 2031?", ["It is not said."], False)
        >>> right("The texts do not say.", unanswerable)
        1.0
    """
    if question.answerable is False:
        declines = refuses(prediction)
        return math.nan if declines is None else float(declines)
    if not question.answers:
        return 0.0 if question.answerable and refuses(prediction) else math.nan
    share = GoldWords(question.answers, question.text).share(prediction)
    return float(share.reaches(words))


def judged_signature(judged: Signature, least: float) -> Signature:
    """Return the signature of `right` where another score decides, from a value of `least` on."""
    return Signature.of("right", by=judged.name, min=least, **dict(judged.parts))
