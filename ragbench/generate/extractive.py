"""Generator that answers with sentences of the passages, without a model: `type: extractive`."""

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
_POSITION_WEIGHT = 0.01  # the same for the position in a passage; it only breaks ties
_NEIGHBOUR_SHARE = 0.2  # the answer often stands beside the sentence with the question's words
_REPETITION = 0.5  # share of its score that a sentence loses if its words are chosen already

_NO_MODEL = Usage(input_tokens=0, output_tokens=0, usd=0.0)


class _Sentence(NamedTuple):
    """Sentence of a passage.

    Attributes:
        passage: Rank of the passage, from 0.
        position: Position of the sentence in the passage, from 0.
        text: Text with single spaces.
        terms: Content words, stemmed if the language has a stemmer.
    """

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
    input gives the same answer. OptionError if `sentences` is no integer from 1 to 20; an unknown
    language is no error.
    """

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

    def check_samples(self, samples: int) -> None:
        """Raise an OptionError for several samples, since all answers would be equal.

        One sample passes.
        """
        if samples > 1:
            allowed = "1: the same passages give the same answer"
            raise OptionError("extractive", "samples", samples, allowed)

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
            candidates = (index for index in range(len(pool)) if index not in chosen)
            chosen.append(max(candidates, key=lambda index: _gain(index, pool, scores, chosen)))
        return Prediction(" ".join(pool[index].text for index in sorted(chosen)), usage=_NO_MODEL)

    def _split(self, contexts: Sequence[Document]) -> list[_Sentence]:
        """Return the distinct sentences with a content word, in the order of the passages.

        White space is joined; of equal sentences the first one counts.
        """
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
    """Return the score of each sentence, in the order of the pool, 0 or more.

    It is the rarity of its words of the question and a share of that of its better neighbour, so
    that a sentence without such a word may have a score, too. It falls with the rank of the passage
    and the position in it. An empty pool gives an empty list.
    """
    frequency = Counter(term for sentence in pool for term in sentence.terms & question)
    # As in BM25, a word that every sentence has still counts a little.
    rarity = {term: math.log(1 + len(pool) / n) for term, n in frequency.items()}
    # `fsum`: rounding depends neither on the order of a set nor on the version of Python.
    term_scores = [math.fsum(rarity[term] for term in s.terms & question) for s in pool]
    scores = []
    for index, sentence in enumerate(pool):
        neighbours = [
            term_scores[near]
            for near in (index - 1, index + 1)
            if 0 <= near < len(pool) and pool[near].passage == sentence.passage
        ]
        content = term_scores[index] + _NEIGHBOUR_SHARE * max(neighbours, default=0.0)
        by_rank, by_position = _RANK_WEIGHT * sentence.passage, _POSITION_WEIGHT * sentence.position
        scores.append(content / ((1 + by_rank) * (1 + by_position)))
    return scores


def _gain(
    index: int, pool: Sequence[_Sentence], scores: Sequence[float], chosen: Sequence[int]
) -> tuple[float, int]:
    """Return the sort key of a sentence: its score less repetition, then its earlier position.

    The largest key is chosen.

    Args:
        index: Number of the sentence in the pool.
        pool: All sentences.
        scores: Score of each sentence.
        chosen: Numbers of the sentences chosen so far.
    """
    terms = pool[index].terms
    repeated = max((len(terms & pool[other].terms) / len(terms) for other in chosen), default=0.0)
    return scores[index] * (1 - _REPETITION * repeated), -index
