"""Matching of retrieved passages with gold passages, by words or by document; `answer_hit@k`.

`match: {level: text}` is for judgements whose ids belong to another chunking of the same texts.
`match: {level: document}` folds passages into documents before a cut-off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ragbench.score.retrieval.base import Cutoff, RetrievedPassages, measure
from ragbench.score.text.answer_words import AUTO, AnswerTokenizer, Articles
from ragbench.score.text.gold_words import GoldAnswers
from ragbench.text.tokenize import words
from ragbench.types import Cause, FloatArray, Run

# Default share of a gold passage's words that a matching chunk must contain.
DEFAULT_OVERLAP = 0.8


class PassageWords:
    """Words of a text in lower case without punctuation.

    Attributes:
        counts: Word -> number of occurrences.
        total: Number of words.
    """

    def __init__(self, text: str) -> None:
        tokens = words(text)
        self.counts = Counter(tokens)
        self.total = len(tokens)
        self._tokens = tokens

    @cached_property
    def line(self) -> str:
        """Words with spaces around each, so that a substring matches only whole words.

        A text without words gives two spaces.
        """
        return f" {' '.join(self._tokens)} "


class GoldPassages:
    """Gold passages of one query, document id -> words, indexed by their words.

    `found_in` returns the ids of those that a passage matches, in the order of `texts`, perhaps
    none: `overlap` is the share of the gold words that the passage must contain, from 0 to 1.
    """

    def __init__(self, texts: Mapping[str, PassageWords], overlap: float = DEFAULT_OVERLAP) -> None:
        """Index the words; a text without words matches no passage.

        `overlap` is the share of a gold passage's words, with repetitions, that a match contains.
        It is 0 to 1, and not checked here. The mapping is kept, not copied.
        """
        self._texts, self._overlap = texts, overlap
        self._holding: dict[str, list[tuple[str, int]]] = {}
        for document, text in texts.items():
            for word, count in text.counts.items():
                self._holding.setdefault(word, []).append((document, count))

    def found_in(self, passage: PassageWords) -> list[str]:
        """Return the ids of the gold passages that a retrieved one matches, in judgement order.

        It matches if it contains the share `overlap` of the gold words, or if it is a part of the
        gold text itself, word by word. A passage without a word of the gold never matches, as an
        empty one.
        """
        # by the index: only gold passages that share a word are visited
        shared: Counter[str] = Counter()
        for word, count in passage.counts.items():
            for document, gold_count in self._holding.get(word, ()):
                shared[document] += min(count, gold_count)
        documents = []
        for gold, text in self._texts.items():
            n_shared = shared[gold]
            if not n_shared:
                continue
            # the passage can be a part of the text only if all its words are in it
            is_part = n_shared == passage.total and passage.line in text.line
            if is_part or n_shared / text.total >= self._overlap:
                documents.append(gold)
        return documents


@dataclass(frozen=True, slots=True)
class Credits:
    """Gold passages that the retrieved passages of a query are credited with.

    `credit` creates it.

    Attributes:
        documents: Id of the gold passage of each retrieved passage, in rank order; None without
            credit.
        several: Number of retrieved passages that matched two or more gold passages that were
            still open.
    """

    documents: list[str | None]
    several: int


def credit(
    passages: Iterable[PassageWords | None], gold: GoldPassages, grades: Mapping[str, int]
) -> Credits:
    """Credit each gold passage once, to the first retrieved passage that matches it.

    A passage that matches several gold passages is credited with the best graded of those that are
    still open, the first if grades are equal; the others stay open. A passage that matches only
    credited ones gets nothing, as does None, a passage of unknown text. A gold passage without a
    grade gets no credit; no passages give no credits.

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


def credit_alternatives(
    hits: Sequence[str], group_heads: Mapping[str, str], grades: Mapping[str, int]
) -> list[str]:
    """Return the id that each hit is scored by, where several documents are alternatives.

    The first hit of a group of alternatives is scored as its judged document. Further ones gain
    nothing: they keep their rank under an id that is not judged.

    Args:
        hits: Ids of the hits, in rank order.
        group_heads: Id of an alternative -> judged document that it stands for.
        grades: Grades of the query.

    Example:
        >>> credit_alternatives(["b", "a", "c"], {"b": "a"}, {"a": 1, "c": 1})
        ['a', 'a~', 'c']
    """
    credited = list[str | None]()
    for hit in hits:
        judged = group_heads.get(hit, hit)
        credited.append(judged if judged in grades and judged not in credited else None)
    return names_of_credits(hits, credited, grades)


def names_of_credits(
    passages: Sequence[str], credited: Sequence[str | None], judged: Mapping[str, int]
) -> list[str]:
    """Return the id that each passage is scored by, in rank order.

    Args:
        passages: Ids of the passages.
        credited: Id of the gold passage that each one matches, or None.
        judged: Grades of the query. A passage that matches nothing and has a judged id by chance
            gets this id with `~` behind it, so that it is not taken for that document.
    """
    ids = {*passages, *judged}
    names = []
    for passage, gold in zip(passages, credited, strict=True):
        name = passage if gold is None else gold
        if gold is None and passage in judged:
            while name in ids:
                name += "~"
            ids.add(name)
        names.append(name)
    return names


def before_last(identifier: str, separator: str) -> str:
    """Return the document id of a passage id: the part before the last separator.

    The last one counts, since numbers are appended to ids that may contain the separator. An id
    without separator, or with one only at its start, is returned whole.

    Example:
        >>> [before_last(name, "#") for name in ("d1#0", "site/a#top#3", "d2", "#1")]
        ['d1', 'site/a#top', 'd2', '#1']
    """
    head, _, _ = identifier.rpartition(separator)
    return head or identifier


def fold(run: Run, documents: Mapping[str, Mapping[str, str]]) -> Run:
    """Return a new run of documents, each with score and place of its best passage (MaxP).

    Equal scores stay ties; if input order breaks them, a document has the place of its best
    passage. `documents` is query id -> passage id -> document id; a passage that it lacks stays a
    document of its own. Queries keep their order.

    References:
        Dai and Callan (2019), Deeper Text Understanding for IR with Contextual Neural Language
        Modeling. SIGIR: MaxP.
    """
    folded = {query: _best(hits, documents.get(query, {})) for query, hits in run.to_dict().items()}
    best = Run.from_dict(folded, run.name)
    return replace(best, duplicates=run.duplicates, substituted=run.substituted)


def _best(hits: Mapping[str, float], documents: Mapping[str, str]) -> dict[str, float]:
    """Return document -> score of its best hit."""
    best: dict[str, float] = {}
    for passage, score in hits.items():
        document = documents.get(passage, passage)
        if document not in best or score > best[document]:
            best.pop(document, None)  # to move it to the place of its best passage
            best[document] = score
    return best


@measure(
    "answer_hit",
    group="first hits",
    range=(0.0, 1.0),
    reads="passages",
    cutoff="required",
    nan_means=Cause.NO_REFERENCE,
    # 2: signs and inner punctuation of numbers count
    version=2,
)
def answer_hit(
    retrieved: RetrievedPassages,
    *,
    k: Cutoff | None = None,
    tokenize: AnswerTokenizer = AUTO,
    articles: Articles = "en",
) -> FloatArray:
    """Score each query 1 if one of its first k passages contains a gold answer, else 0.

    The rule is that of `GoldAnswers`, by which `ragbench explain` finds gold answers, too. A hit is
    not a proof: the answer may stand there for another reason. A query without a gold answer has no
    value (NaN). Without k all passages are looked at.

    Returns:
        Array of shape (n,).

    Raises:
        OptionError: An option is not allowed, or the tokenizer is unknown.
        MissingExtra: The tokenizer needs a package that is not installed.
        ValueError: The lists of passages and of answers have different lengths.

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
    scores = np.full(len(retrieved.answers), np.nan)
    pairs = zip(retrieved.passages, retrieved.answers, strict=True)
    for query, (passages, answers) in enumerate(pairs):
        if answers:
            gold = GoldAnswers(answers, tokenize, articles)
            scores[query] = any(map(gold.stand_in, passages[:k]))
    return scores
