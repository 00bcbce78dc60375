"""Records of the contract between retrievers and a generator: right answers by what it reads."""

from __future__ import annotations

from typing import Literal

from ragbench.records.codec import Record

PassageKind = Literal[
    "gold_read", "gold_first", "gold_lower", "gold_not_read", "gold_alone", "wrong_passages"
]


class AnswerRate(Record):
    """Share of right answers of a generator with one kind of passages.

    Attributes:
        passages: Kind of passages: of its pairs `gold_read`, and of these `gold_first` and
            `gold_lower`, and `gold_not_read`; of its controls `gold_alone` and `wrong_passages`.
        questions: Number of questions; a question counts once, with the mean of its pairs.
        right: Mean share of right answers, 0 to 1; None without questions.
        interval: Limits of the share; None without questions.
    """

    passages: PassageKind
    questions: int
    right: float | None
    interval: tuple[float, float] | None


class PairPrediction(Record):
    """Predicted right answers of a retriever with a generator.

    Attributes:
        retriever: Name of the retriever.
        predicted: Expected number of right answers to the questions of the run.
        interval: Limits of the number that a run would count, sampling noise of its answers
            included.
        questions: Number of questions.
        right: Number that the run counted; None if it has not run this pair. The prediction does
            not use the answers of this pair.
    """

    retriever: str
    predicted: float
    interval: tuple[float, float]
    questions: int
    right: int | None


class AnswerGain(Record):
    """Predicted change in the right answers of one generator by a change of its retriever.

    Attributes:
        generator: Name of the generator.
        gain: Expected change in the number of right answers.
        interval: Limits of the change that a run would count.
    """

    generator: str
    gain: float
    interval: tuple[float, float]


class GeneratorContract(Record):
    """Contract of one generator.

    Attributes:
        generator: Name of the generator.
        passages: Number of passages that it reads.
        rates: Share of right answers by kind of passages.
        pairs: Prediction for each stored retriever; empty without both controls. A retriever whose
            pair is the only one of the generator has none: its own answers predict nothing else.
    """

    generator: str
    passages: int
    rates: tuple[AnswerRate, ...]
    pairs: tuple[PairPrediction, ...]
