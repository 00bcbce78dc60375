"""Generator that answers with sentences of the passages, without a model: `type: extractive`."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from ragbench.generate.base import Generator
from ragbench.registry import Option
from ragbench.text.analyzer import Analyzer
from ragbench.text.tokenize import sentences
from ragbench.types import Document, Prediction, Usage

_RANK_WEIGHT = 0.1  # a passage at rank r (from 0) counts 1 / (1 + 0.1 r)
_POSITION_WEIGHT = 0.01  # the same for the position in a passage; it only breaks ties
_NEIGHBOUR_SHARE = 0.2  # the answer often stands beside the sentence with the question's words
_REPETITION = 0.5  # share of its score that a sentence loses if its words are chosen already

_NO_MODEL = Usage(input_tokens=0, output_tokens=0, usd=0.0)


class _Sentence(NamedTuple):
    """Sentence of a passage."""

    passage: int
    position: int
    text: str
    terms: frozenset[str]


class Extractive(Generator):
    """Answer with the sentences of the passages that cover the question best.

    The score of a sentence sums the rarity of the question's content words in it, plus a share of
    that of its better neighbour. It falls with the rank of the passage, and with the words that
    chosen sentences already have. `generate` returns a prediction without `contexts` and with a
    cost of 0. The answer keeps the order of the passages; it is empty without passages. The same
    input gives the same answer. An unknown language is no error.
    """

    same_results = "the same passages give the same answer"

    def __init__(
        self,
        *,
        sentences: Annotated[int, Option("Number of sentences in an answer.", ge=1, le=20)] = 2,
        language: Annotated[
            str, Option("ISO 639-1 code of the texts; picks stop words and stemmer.")
        ] = "en",
    ) -> None:
        self.sentences, self.language = sentences, language
        self._analyze = Analyzer.for_language(language)

    def generate(self, question: str, contexts: Sequence[Document]) -> Prediction:
        """Return the best sentences of the passages in their order; empty without passages.

        Sentences without a content word are left out, and equal ones count once. The sentences are
        joined by spaces; without a content word of the question, the first passages win. Its
        `contexts` are None.
        """
        pool = self._split(contexts)
        scores = _scores(pool, frozenset(self._analyze(question)))
        chosen: list[int] = []
        for _ in range(min(self.sentences, len(pool))):
            best, largest = -1, -math.inf
            for index, sentence in enumerate(pool):
                # of equal sentences the first wins
                gain = scores[index] * (1 - _REPETITION * _repeated(sentence, pool, chosen))
                if index not in chosen and gain > largest:
                    best, largest = index, gain
            chosen.append(best)
        texts = [pool[index].text for index in sorted(chosen)]
        return Prediction(" ".join(texts), usage=_NO_MODEL)

    def _split(self, contexts: Sequence[Document]) -> list[_Sentence]:
        """Return the distinct sentences with a content word, in the order of the passages."""
        pool, texts = [], set()
        for rank, document in enumerate(contexts):
            for position, sentence in enumerate(sentences(document.text)):
                text = " ".join(sentence.split())
                terms = frozenset(self._analyze(text))
                if terms and text not in texts:
                    texts.add(text)
                    pool.append(_Sentence(rank, position, text, terms))
        return pool


def _scores(pool: Sequence[_Sentence], question: frozenset[str]) -> list[float]:
    """Return the score of each sentence, in the order of the pool, 0 or more."""
    asked_terms = [sentence.terms & question for sentence in pool]
    frequency = Counter(itertools.chain.from_iterable(asked_terms))
    # As in BM25, a word that every sentence has still counts a little.
    rarity = {}
    for term, n in frequency.items():
        rarity[term] = math.log(1 + len(pool) / n)
    # `fsum`: rounding depends neither on the order of a set nor on the version of Python.
    term_scores = [math.fsum(map(rarity.__getitem__, terms)) for terms in asked_terms]
    scores = []
    for index, sentence in enumerate(pool):
        neighbour = 0.0
        for near in (index - 1, index + 1):
            if 0 <= near < len(pool) and pool[near].passage == sentence.passage:
                neighbour = max(neighbour, term_scores[near])
        content = term_scores[index] + _NEIGHBOUR_SHARE * neighbour
        by_rank, by_position = _RANK_WEIGHT * sentence.passage, _POSITION_WEIGHT * sentence.position
        scores.append(content / ((1 + by_rank) * (1 + by_position)))
    return scores


def _repeated(sentence: _Sentence, pool: Sequence[_Sentence], chosen: Sequence[int]) -> float:
    """Return the largest share of the words of a sentence that a chosen one has."""
    repeated = 0
    for index in chosen:
        repeated = max(repeated, len(sentence.terms & pool[index].terms))
    return repeated / len(sentence.terms)
