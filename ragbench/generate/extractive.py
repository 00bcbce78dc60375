"""Sentences of the passages, without a model: `type: extractive`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from ragbench.errors import OptionError
from ragbench.generate.base import Generator
from ragbench.registry import Option
from ragbench.text.analyzer import Analyzer
from ragbench.text.tokenize import sentences
from ragbench.types import Document, Prediction, Usage

_RANK_WEIGHT = 0.1  # a passage at rank r (from 0) counts 1 / (1 + 0.1 r)
_POSITION_WEIGHT = 0.01  # the same for the place within a passage: it decides among equals
_NEIGHBOUR_SHARE = 0.2  # an answer often stands beside the sentence that has the question's words
_REPETITION = 0.5  # share of the worth that a sentence loses where its words are chosen already

_NO_MODEL = Usage(input_tokens=0, output_tokens=0, usd=0.0)


class _Sentence(NamedTuple):
    passage: int
    position: int
    text: str
    terms: frozenset[str]


class Extractive(Generator):
    """Answer with the sentences of the passages that cover the question best.

    A sentence is worth the content words of the question that it has, each by its rarity among
    the sentences, a part of what its neighbours have, and less the further down its passage
    stands and the more it repeats what is chosen already. The answer keeps the order of the
    passages. Without passages it is empty. The same input gives the same answer.
    """

    def __init__(
        self,
        *,
        sentences: Annotated[int, Option("Number of sentences in an answer.", ge=1, le=20)] = 2,
        language: Annotated[
            str, Option("ISO 639-1 code of the texts; picks stop words and stemmer.")
        ] = "en",
    ) -> None:
        if type(sentences) is not int or not 1 <= sentences <= 20:
            raise OptionError("extractive", "sentences", sentences, "an integer from 1 to 20")
        self.sentences, self.language = sentences, language
        self._analyze = Analyzer.for_language(language)

    def check_samples(self, samples: int) -> None:
        """Refuse to be asked again, since the same passages give the same answer."""
        if samples > 1:
            allowed = "1: the same passages give the same answer"
            raise OptionError("extractive", "samples", samples, allowed)

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction:
        """Return the best sentences of the passages, in their order there."""
        pool = self._split(contexts)
        worth = _worth(pool, frozenset(self._analyze(question)))
        chosen: list[int] = []
        for _ in range(min(self.sentences, len(pool))):
            left = (index for index in range(len(pool)) if index not in chosen)
            chosen.append(max(left, key=lambda index: _gain(index, pool, worth, chosen)))
        return Prediction(" ".join(pool[index].text for index in sorted(chosen)), usage=_NO_MODEL)

    def _split(self, contexts: Sequence[Document]) -> list[_Sentence]:
        """All different sentences with a content word, in order."""
        pool, seen = [], set()
        for rank, document in enumerate(contexts):
            for position, sentence in enumerate(sentences(document.text)):
                text = " ".join(sentence.split())
                terms = frozenset(self._analyze(text))
                if terms and text not in seen:
                    seen.add(text)
                    pool.append(_Sentence(rank, position, text, terms))
        return pool


def _worth(pool: Sequence[_Sentence], question: frozenset[str]) -> list[float]:
    frequency = Counter(term for sentence in pool for term in sentence.terms & question)
    # as in BM25: a word that every sentence has still counts a little
    rarity = {term: math.log(1 + len(pool) / n) for term, n in frequency.items()}
    # summed in a fixed order, so that rounding does not depend on the order of a set
    own = [sum(rarity[term] for term in sorted(s.terms & question)) for s in pool]
    worth = []
    for index, sentence in enumerate(pool):
        beside = [
            own[near]
            for near in (index - 1, index + 1)
            if 0 <= near < len(pool) and pool[near].passage == sentence.passage
        ]
        content = own[index] + _NEIGHBOUR_SHARE * max(beside, default=0.0)
        by_rank, by_position = _RANK_WEIGHT * sentence.passage, _POSITION_WEIGHT * sentence.position
        worth.append(content / ((1 + by_rank) * (1 + by_position)))
    return worth


def _gain(
    index: int, pool: Sequence[_Sentence], worth: Sequence[float], chosen: Sequence[int]
) -> tuple[float, int]:
    """What a sentence adds to those chosen; of equals, the first."""
    terms = pool[index].terms
    repeated = max((len(terms & pool[other].terms) / len(terms) for other in chosen), default=0.0)
    return worth[index] * (1 - _REPETITION * repeated), -index
