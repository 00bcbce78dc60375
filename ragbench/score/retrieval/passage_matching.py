"""Matches retrieved passages with judged ones: by their words, or by the documents they are of.

`answer_hit@k` looks for gold answers in them.

`match: {level: text}` is for judgements whose ids did not survive another cut of the same texts
into chunks; `match: {level: document}` folds passages into documents before anything is cut off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ragbench.score.retrieval.base import Cutoff, RetrievedPassages, measure
from ragbench.score.text import squad
from ragbench.text.tokenize import words
from ragbench.types import Cause, FloatArray, Run

# Share of a gold passage's words that a chunk must hold, where nothing else is said.
DEFAULT_OVERLAP = 0.8


class PassageWords:
    """The words of a text, lower-cased, without punctuation; made once, read many times."""

    def __init__(self, text: str) -> None:
        tokens = words(text)
        # Word -> how often it occurs.
        self.counts = Counter(tokens)
        # How many words there are.
        self.total = len(tokens)
        self._tokens = tokens

    @cached_property
    def line(self) -> str:
        """The words with a space around each, so that what is found in it are whole words."""
        return f" {' '.join(self._tokens)} "


class GoldPassages:
    """The gold passages of one query, indexed by their words."""

    def __init__(self, texts: Mapping[str, PassageWords], overlap: float = DEFAULT_OVERLAP) -> None:
        """Index the words.

        A text without words is found by nothing; `overlap` is the share of a gold passage's words,
        repetitions counted, that a match holds.
        """
        self._texts, self._overlap = texts, overlap
        self._holding: dict[str, list[tuple[str, int]]] = {}
        for document, text in texts.items():
            for word, count in text.counts.items():
                self._holding.setdefault(word, []).append((document, count))

    def found_in(self, passage: PassageWords) -> list[str]:
        """Return the gold passages that a retrieved one matches, in the order of the judgements.

        It matches where it holds enough of the words (all of them, where the gold text stands in
        it), or where it is itself a part of the gold text, word by word. Costs a look-up for
        each different word of the passage, and one step for each gold passage that has it.
        """
        shared: Counter[str] = Counter()
        for word, count in passage.counts.items():
            for document, gold_count in self._holding.get(word, ()):
                shared[document] += min(count, gold_count)
        return [
            document
            for document, text in self._texts.items()
            if shared[document]
            and (
                shared[document] / text.total >= self._overlap
                # only where no word is missing can it be a part of the text
                or (shared[document] == passage.total and passage.line in text.line)
            )
        ]


@dataclass(frozen=True, slots=True)
class Credits:
    """Gold passages that the retrieved passages of a query count for.

    Attributes:
        documents: Rank - 1 -> the gold passage; None where it counts for none.
        several: How many retrieved passages matched further gold passages, not credited before.
    """

    documents: list[str | None]
    several: int


def credit(
    passages: Iterable[PassageWords | None], gold: GoldPassages, grades: Mapping[str, int]
) -> Credits:
    """Credit each gold passage once, to the first retrieved passage that matches it.

    A rank is one hit: a passage that matches several which are still open counts for the best
    graded of them, the first where grades are equal, and the others stay open. One that matches
    only what was credited before counts for nothing. A passage is None where its text is not known.

    Example:
        Two chunks overlap in one gold passage; the second gains nothing.

        >>> gold = GoldPassages({"g": PassageWords("Io has volcanoes.")})
        >>> chunks = ["Moons: Io has volcanoes", "has volcanoes. Europa", "io has VOLCANOES!"]
        >>> credit(map(PassageWords, chunks), gold, {"g": 1}).documents
        ['g', None, None]
    """
    still_open = dict.fromkeys(grades)
    documents: list[str | None] = []
    several = 0
    for passage in passages:
        matches = [] if passage is None else gold.found_in(passage)
        candidates = [document for document in matches if document in still_open]
        several += len(candidates) > 1
        best = max(candidates, key=grades.__getitem__, default=None)
        documents.append(best)
        if best is not None:
            del still_open[best]
    return Credits(documents, several)


def before_last(identifier: str, separator: str) -> str:
    """Return the part of a passage's id before the last separator: the id of its document.

    The last one, because numbers are put behind ids that may hold the separator themselves. An id
    without it, or that starts with it, stays whole.

    Example:
        >>> [before_last(name, "#") for name in ("d1#0", "site/a#top#3", "d2", "#1")]
        ['d1', 'site/a#top', 'd2', '#1']
    """
    head, _, _ = identifier.rpartition(separator)
    return head or identifier


def fold(run: Run, documents: Mapping[str, Mapping[str, str]]) -> Run:
    """Put documents into the place of their passages: score and place of the best passage.

    Known as max-passage: a document is as relevant as its best part, however many it has. Equal
    scores stay ties; where order decides them, a document stands where its best passage stood. A
    passage without a document stays what it is.

    References:
        Dai and Callan (2019), Deeper Text Understanding for IR with Contextual Neural Language
        Modeling. SIGIR: MaxP.
    """
    folded = {query: _best(hits, documents.get(query, {})) for query, hits in run.to_dict().items()}
    best = Run.from_dict(folded, run.name)
    return replace(best, duplicates=run.duplicates, substituted=run.substituted)


def _best(hits: Mapping[str, float], documents: Mapping[str, str]) -> dict[str, float]:
    best: dict[str, float] = {}
    for passage, score in hits.items():
        document = documents.get(passage, passage)
        if document not in best or score > best[document]:
            best.pop(document, None)  # so that it stands where its best passage stood
            best[document] = score
    return best


@measure(
    "answer_hit",
    group="first hits",
    range=(0.0, 1.0),
    reads="passages",
    cutoff="required",
    nan_means=Cause.NO_REFERENCE,
)
def answer_hit(
    retrieved: RetrievedPassages,
    *,
    k: Cutoff | None = None,
    tokenize: squad.AnswerTokenizer = squad.AUTO,
    articles: squad.Articles = "en",
) -> FloatArray:
    """Score each query 1 if one of its first k passages contains a gold answer, else 0.

    Both are normalised as SQuAD does: lower case, no punctuation, no articles. The words of the
    answer must stand in the passage, in a row, as for the metric `contains`: `no` is not in `know`.
    In scripts without spaces between words, characters count. An answer without a word is in
    nothing. A hit is not a proof: the answer may stand there for another reason. NaN for a query
    without a gold answer.

    Example:
        >>> passages = [["I know the river.", "It rises in the Alps."]]
        >>> answer_hit(RetrievedPassages(passages, [["no"]]), k=2)
        array([0.])
        >>> retrieved = RetrievedPassages(passages, [["the Alps!", "Alpes"]])
        >>> answer_hit(retrieved, k=1), answer_hit(retrieved, k=2)
        (array([0.]), array([1.]))

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1, for the normalisation.
    """
    tokens = squad.answer_tokens("answer_hit", tokenize, articles)
    scores = np.full(len(retrieved.answers), np.nan)
    pairs = zip(retrieved.passages, retrieved.answers, strict=True)
    for query, (passages, answers) in enumerate(pairs):
        gold = [tokens(answer) for answer in answers]
        if gold:
            texts = map(tokens, passages[:k])
            scores[query] = any(squad.holds_run(text, run) for text in texts for run in gold)
    return scores
