"""Contract between retrievers and a generator: right answers by what the generator reads.

A generator with controls has answered each question from its gold documents, and from wrong
passages. The answers of its pairs show how much further hits, or other wrong passages, change that.
Both together predict the right answers of a pair that was never run.

The assumption: whether an answer is right depends on the question, on whether the generator reads
the gold and whether the gold comes first, and on no other passage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ragbench.records.fixes import AnswerRate, GeneratorContract, PairPrediction, PassageKind
from ragbench.stats import mean_interval
from ragbench.types import FloatArray, IntArray
from ragbench.types.rows import BoolArray


class CountPrediction(NamedTuple):
    """Predicted number of right answers, or change of this number.

    `AnswersByReading.predict` and `predict_gain` return it.

    Attributes:
        mean: Expected number.
        lower: Lower limit of the number that a run counts, a whole number.
        upper: Upper limit of this number.
    """

    mean: float
    lower: float
    upper: float


# Reading of each question as a number
_STATES = _NOT_READ, _FIRST, _LOWER = range(3)
_READ = (_FIRST, _LOWER)


@dataclass(frozen=True, eq=False)
class AnswersByReading:
    """Answers of one generator to n questions, with what it read.

    Values are 1 for a right answer, 0 for any other, NaN where there is none or it failed; arrays
    have a value per question. `contract` sums them up for a report, and `predict` and
    `predict_gain` return a `CountPrediction`, or raise ValueError unless both controls have an
    answer.

    Attributes:
        depths: Retriever -> rank of the gold document that decides, for each question, from 1;
            larger than `passages` where the generator does not read it.
        passages: Number of passages that the generator reads.
        pairs: Retriever -> answers from its hits; only pairs that were run.
        gold_alone: Answers from gold documents, alone or among distractors.
        wrong_passages: Answers from passages of other questions, or from none.
    """

    depths: Mapping[str, IntArray]
    passages: int
    pairs: Mapping[str, FloatArray]
    gold_alone: FloatArray
    wrong_passages: FloatArray

    @property
    def has_controls(self) -> bool:
        """True if both controls have an answer to any question."""
        return not any(np.isnan(v).all() for v in (self.gold_alone, self.wrong_passages))

    def contract(self, generator: str, confidence: float = 0.95) -> GeneratorContract:
        """Return the shares of right answers and the predictions of a generator by this name.

        Predictions need both controls, with a value for any question, and a pair beside the
        predicted one: controls alone do not tell what further passages change. OptionError if
        confidence is outside (0, 1).
        """
        readings: list[tuple[PassageKind, Sequence[int]]] = [
            ("gold_read", _READ),
            ("gold_first", (_FIRST,)),
            ("gold_lower", (_LOWER,)),
            ("gold_not_read", (_NOT_READ,)),
        ]
        columns = [(name, self._answers(states, self.pairs)) for name, states in readings]
        columns += [("gold_alone", self.gold_alone), ("wrong_passages", self.wrong_passages)]
        rates = tuple(_rate(name, values, confidence) for name, values in columns)
        # Each prediction must leave out the pair that it predicts, so a single pair predicts only
        # retrievers that the generator has not run with.
        names = [name for name in self.depths if self.has_controls and set(self.pairs) - {name}]
        pairs = [self._prediction(name, confidence) for name in names]
        return GeneratorContract(
            generator=generator, passages=self.passages, rates=rates, pairs=tuple(pairs)
        )

    def predict(
        self, depths: IntArray, *, unused: str | None = None, confidence: float = 0.95
    ) -> CountPrediction:
        """Return the number of right answers to all questions from a ranking.

        Args:
            depths: Rank of the deciding gold document of each question in the ranking, from 1;
                gold behind `passages` is not read.
            unused: Retriever whose pair is left out; None uses all pairs. Without any pair, the
                controls decide alone.
            confidence: Chance that a run of the ranking counts a number inside the limits, between
                0 and 1; not checked.

        Raises:
            ValueError: A control has no answer.
        """
        evidence = [name for name in self.pairs if name != unused]
        states = self._states(depths)
        # One estimate per kind of reading: gold at the first rank and lower gold differ in
        # difficulty, and a ranking may have them in other shares than the pairs that serve as
        # evidence.
        parts = [self._reading([s], evidence).expect(states == s) for s in _STATES]
        return _limits(parts, 0, len(states), confidence)

    def predict_gain(
        self, retriever: str, rescued: BoolArray, lost: BoolArray, *, confidence: float = 0.95
    ) -> CountPrediction:
        """Return the change in right answers of a pair if other questions get their gold read.

        The mean is the number of rescued questions x P(right | gold read), less those of them that
        are right now; and likewise for the lost ones. All other questions keep their answers on
        average, but other passages turn some of them either way, which the limits allow for. A
        failed answer counts as not right.

        Args:
            retriever: Retriever of the pair.
            rescued: True for each question whose gold would be read, and is not read now.
            lost: True for each question whose gold is read now, and would not be.
            confidence: Chance that a run of the change counts a gain inside the limits, between 0
                and 1; not checked.

        Raises:
            KeyError: The pair was not run.
            ValueError: A control has no answer.
        """
        values, names = self.pairs[retriever], list(self.pairs)
        is_changed, is_read = rescued | lost, self.depths[retriever] <= self.passages
        # the rank of rescued gold is that of no stored ranking: any rank that is read
        read, not_read = self._reading(_READ, names), self._reading([_NOT_READ], names)
        parts = [read.expect(rescued), not_read.expect(lost)]
        # The answers that the change replaces are counted, not estimated: they have no variance.
        parts.append((-float(np.nansum(values[is_changed])), 0.0))
        for reading, questions in ((read, is_read), (not_read, ~is_read)):
            # Twice the noise: the old answer and the new one to a question both vary.
            n_kept = int(np.count_nonzero(questions & ~is_changed))
            parts.append((0.0, 2 * n_kept * reading.noise))
        n_right = float(np.nansum(values))
        return _limits(parts, -n_right, len(values) - n_right, confidence)

    def _prediction(self, retriever: str, confidence: float) -> PairPrediction:
        """Return the prediction of a pair without its own answers, beside its count.

        The count is None for a pair that was not run. ValueError if a control has no answer.
        """
        depths, values = self.depths[retriever], self.pairs.get(retriever)
        prediction = self.predict(depths, unused=retriever, confidence=confidence)
        return PairPrediction(
            retriever=retriever,
            predicted=prediction.mean,
            interval=(prediction.lower, prediction.upper),
            questions=len(depths),
            right=None if values is None else int(np.nansum(values)),
        )

    def _states(self, depths: IntArray) -> IntArray:
        """Return `_NOT_READ`, `_FIRST` or `_LOWER` for each question.

        `depths` has the rank of its gold document, from 1; gold behind `passages` is not read.
        """
        return np.where(depths > self.passages, _NOT_READ, np.where(depths == 1, _FIRST, _LOWER))

    def _answers(self, states: Sequence[int], pairs: Iterable[str]) -> FloatArray:
        """Return the mean answer of pairs to each question where they read so; NaN without any.

        `states` are the kinds of reading that count.
        """
        # A row of NaN, so that no pairs at all still give an array with a value per question.
        values = [np.full(len(self.gold_alone), np.nan)]
        for name in pairs:
            is_read = np.isin(self._states(self.depths[name]), states)
            values.append(np.where(is_read, self.pairs[name], np.nan))
        table = np.array(values)
        # Not `nanmean`, which warns for a question that no pair reads in this way.
        n_answers = np.count_nonzero(~np.isnan(table), axis=0)
        total = np.nansum(table, axis=0)
        means: FloatArray = np.full(len(total), np.nan)
        np.divide(total, n_answers, out=means, where=n_answers > 0)
        return means

    def _reading(self, states: Sequence[int], pairs: Sequence[str]) -> _Reading:
        """Return the answers of pairs beside those of the control, for one kind of reading.

        Args:
            states: What is read: `_NOT_READ`, or gold at any of these ranks.
            pairs: Retrievers whose pairs count.

        Raises:
            ValueError: A control has no answer.
        """
        if not self.has_controls:
            raise ValueError("predictions need answers from the gold and from wrong passages")
        control = self.wrong_passages if _NOT_READ in states else self.gold_alone
        # a question without this control counts as the mean one
        control = np.where(np.isnan(control), np.nanmean(control), control)
        answers = self._answers(states, pairs)
        is_known = ~np.isnan(answers)
        sample = answers[is_known] if is_known.any() else control
        # Half a right answer in one more: a share of 0 or 1 would have no variance, and limits of
        # width 0.
        share = (float(sample.sum()) + 0.5) / (len(sample) + 1)
        differences = np.where(is_known, answers - control, 0.0)
        # the variance of two independent answers stands beside the data: few equal answers do not
        # make certain
        squares = float((differences**2).sum()) / 2 + share * (1 - share)
        return _Reading(control, is_known, differences, squares / (is_known.sum() + 1))


class _Reading(NamedTuple):
    """Answers of pairs that read in one way, beside those of the control.

    Attributes:
        control: Answer of the control to each question.
        is_known: True for each question that a pair answers with this reading.
        differences: Answer of the pairs minus that of the control; 0 where it is not known.
        noise: Variance of one answer to one question.
    """

    control: FloatArray
    is_known: BoolArray
    differences: FloatArray
    noise: float

    def expect(self, questions: BoolArray) -> tuple[float, float]:
        """Return (mean, variance) of the number of right answers to some questions.

        This is the difference estimator: the answers of the control to these questions, plus the
        mean difference between pairs and control over the questions that pairs read so. The control
        tells how hard these questions are, the difference what further passages change. The
        variance has the noise of the new answers, of the control, and of the mean difference.
        Without a pair that reads so, the mean is the sum of the answers of the control, and the
        variance n² / 4, which allows for any number. No questions give (0, 0).

        References:
            Sarndal, Swensson and Wretman (1992), Model assisted survey sampling, 6.3.
        """
        n, m = int(np.count_nonzero(questions)), int(np.count_nonzero(self.is_known))
        expected = float(self.control[questions].sum())
        if not m:  # nothing tells the difference: the limits allow for any share of right answers
            return expected, n * n / 4
        ratio = n / m
        # noise of control answers that stand in the sum and in the mean difference cancels
        weights = questions - ratio * self.is_known
        # Noise of n new answers; of the mean of m pair answers, scaled up to n questions; and of
        # the control answers, each with the weight above.
        variance = self.noise * (n + n * ratio + float((weights**2).sum()))
        # one pair of equal answers stands beside the data, as in the noise
        return expected + n * float(self.differences.sum()) / (m + 1), variance


def _limits(
    parts: Sequence[tuple[float, float]], least: float, most: float, confidence: float
) -> CountPrediction:
    """Return the sum of means with limits of a whole number, between the least and the most.

    `parts` are (mean, variance) of independent numbers; `confidence` is inside (0, 1).
    """
    mean, variance = (math.fsum(numbers) for numbers in zip(*parts, strict=True))
    half = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(variance)
    # Before the limits: an extrapolated mean may leave the range of counts, and
    # limits around it would then miss all possible counts.
    mean = min(max(mean, least), most)
    # Rounded outwards: a run counts whole answers, and inward rounding would cover too seldom.
    lower, upper = math.floor(mean - half), math.ceil(mean + half)
    return CountPrediction(mean, max(lower, least), min(upper, most))


def _rate(passages: PassageKind, values: FloatArray, confidence: float) -> AnswerRate:
    """Return the mean of the values that are not NaN, with its interval; None for both without any.

    OptionError if confidence is outside (0, 1).
    """
    answers = values[~np.isnan(values)]
    if not len(answers):
        return AnswerRate(passages=passages, questions=0, right=None, interval=None)
    share = mean_interval(answers, confidence=confidence)
    return AnswerRate(
        passages=passages,
        questions=len(answers),
        right=share.mean,
        interval=(share.lower, share.upper),
    )
