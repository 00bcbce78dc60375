"""Compare answers with gold answers by their words; count causes, and queries that moved."""

from __future__ import annotations

import functools
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ragbench.comparison.differences import Slicing
from ragbench.records.causes import CAUSES, AnswerCause, CauseFlow, CauseMove, CauseShare, Loss
from ragbench.score.judge.sentences import is_refusal, numbers_in, terms_of
from ragbench.score.text.squad import answer_tokens, holds_run
from ragbench.stats import mean_interval
from ragbench.text.analyzer import Analyzer
from ragbench.text.tokenize import sentences

# Up to so many content words, all numbers of a gold answer must be there.
SHORT = 4
_MOST = 2 / 3
_YES_OR_NO = frozenset([("yes",), ("no",), ("true",), ("false",)])
_TOKENS = answer_tokens("contains")


class Share(NamedTuple):
    """The share of the best gold answer that a text has.

    Attributes:
        n_gold: Content words of the gold answer beyond those of the question.
        whole: Whether a gold answer stands in the text, word by word.
        n_text: Content words of the text beyond those of the question.
        is_short: Whether the gold answer is a name, a number, a few words.
        lacks_number: Whether a short gold answer has a number that the text lacks.
    """

    n_found: int
    n_gold: int
    whole: bool
    n_text: int = 0
    is_short: bool = False
    lacks_number: bool = False

    def reaches(self, least: float) -> bool:
        """Return True for a whole gold answer, or for a share of its words.

        Of a short one most words: half a name is another name, unless the text says nothing else.
        """
        if self.whole or not self.n_found:
            return self.whole
        if not self.is_short:
            return self.n_found >= least * self.n_gold
        f1 = 2 * self.n_found / (self.n_text + self.n_gold)
        enough = self.n_found >= max(least, _MOST) * self.n_gold or f1 >= _MOST
        return enough and not self.lacks_number

    @property
    def says(self) -> str:
        """The share in words."""
        if self.whole:
            return "has a gold answer word by word"
        lacks = ", lacks a number" if self.lacks_number else ""
        return f"has {self.n_found} of {self.n_gold} words of the gold answer{lacks}"


class GoldWords:
    """The gold answers of one question, by their words.

    Example:
        The words that an answer takes from the question count for nothing.

        >>> gold = GoldWords(["The capital of France is Paris."], "What is the capital of France?")
        >>> wrong, right = "The capital of France is Lyon.", "It is Paris."
        >>> gold.share(wrong).reaches(0.4), gold.share(right).says
        (False, 'has 1 of 1 words of the gold answer')
    """

    def __init__(self, answers: Sequence[str], question: str) -> None:
        self._question = question_terms = terms(question)
        contents = [(terms(answer), tuple(_TOKENS(answer))) for answer in answers]
        self._gold = [(words - question_terms or words, tokens) for words, tokens in contents]
        # where one says it in few words, most words of a sentence that says it are others
        short = [answer for answer in self._gold if 0 < len(answer[0]) <= SHORT]
        self._by_words = short or self._gold

    @property
    def can_be_found(self) -> bool:
        """Whether a passage can have it: `yes` and `no` stand in no passage as an answer."""
        return any(words and tokens not in _YES_OR_NO for words, tokens in self._gold)

    def share(self, text: str) -> Share:
        """Return the share of the gold answer, of several the best, that a text has."""
        words, tokens = terms(text), _TOKENS(text)
        shares = [self._share_of(answer, words, tokens) for answer in self._by_words]
        best = max(
            shares, key=lambda s: (s.whole, not s.lacks_number, s.n_found / max(s.n_gold, 1))
        )
        is_whole = any(_is_whole(gold_tokens, tokens) for _, gold_tokens in self._gold)
        return best._replace(whole=is_whole)

    def _share_of(
        self,
        gold: tuple[frozenset[str], Sequence[str]],
        words: frozenset[str],
        tokens: Sequence[str],
    ) -> Share:
        gold_words, gold_tokens = gold
        whole = _is_whole(gold_tokens, tokens)
        if tuple(gold_tokens) in _YES_OR_NO:
            return Share(int(whole), 1, whole)
        short, both = len(gold_words) <= SHORT, gold_words & words
        lacks = short and not numbers_in(gold_words) <= words
        n_text = len(words - self._question | both)
        return Share(len(both), len(gold_words), whole, n_text, short, lacks)


def _is_whole(gold: Sequence[str], tokens: Sequence[str]) -> bool:
    """Return True if a gold answer stands in a text; `no`, which stands in many, comes first."""
    if tuple(gold) in _YES_OR_NO:
        return tuple(tokens[:1]) == tuple(gold)
    return holds_run(tokens, gold)


@functools.cache
def _analyzer() -> Analyzer:
    return Analyzer()


# passages come up again, for other questions and systems
@functools.lru_cache(maxsize=200)
def terms(text: str) -> frozenset[str]:
    """Return the content words of a text as stems."""
    # one copy of each stem for all texts
    return frozenset(map(sys.intern, terms_of(text, _analyzer())))


def refuses(answer: str) -> str | None:
    """Return the words for an answer that refuses; None if it does not.

    It does where it is empty, or its first sentence says that there is no answer.

    Example:
        >>> refuses("I don't know."), refuses(" "), refuses("Paris. The texts do not say more.")
        ('declines', 'is empty', None)
    """
    if not answer.strip():
        return "is empty"
    first = next(iter(sentences(answer)), answer)
    return "declines" if is_refusal(first) or first.strip(" .").lower() == "none" else None


def has_no_answer(gold: Sequence[str]) -> bool:
    """Return True if the gold answers of a question say that there is none."""
    return bool(gold) and all(not text.strip() or is_refusal(text) for text in gold)


@dataclass(frozen=True, slots=True)
class SystemCauses:
    """The cause of every query of one system.

    Attributes:
        lost: In the order of the queries.
    """

    lost: Sequence[Loss]

    def counts(self) -> dict[AnswerCause, int]:
        """Return how many queries have each cause; they add up to the queries."""
        counter = Counter(lost.cause for lost in self.lost)
        return {cause: counter[cause] for cause in CAUSES}

    def shares(
        self, confidence: float, clusters: Sequence[str] | None = None
    ) -> dict[AnswerCause, CauseShare]:
        """Return the share of each cause that occurs, with its interval."""
        causes = np.array([lost.cause for lost in self.lost], dtype=object)
        shares: dict[AnswerCause, CauseShare] = {}
        for cause, count in self.counts().items():
            if count:
                hits = (causes == cause).astype(np.float64)
                limits = mean_interval(hits, confidence=confidence, clusters=clusters)
                shares[cause] = CauseShare(
                    count=count, share=count / len(self.lost), interval=(limits.lower, limits.upper)
                )
        return shares

    def by_slice(self, slicings: Sequence[Slicing]) -> dict[str, dict[str, dict[AnswerCause, int]]]:
        """Return field -> slice -> how many of its queries have each cause that occurs there."""
        fields: dict[str, dict[str, dict[AnswerCause, int]]] = {}
        for slicing in slicings:
            counts: dict[str, Counter[AnswerCause]] = {name: Counter() for name in slicing.names}
            for labels, lost in zip(slicing.labels, self.lost, strict=True):
                for label in labels:
                    counts[label][lost.cause] += 1
            fields[slicing.field] = {
                name: {cause: count[cause] for cause in CAUSES if count[cause]}
                for name, count in counts.items()
            }
        return fields


def cause_flows(
    causes: Mapping[str, SystemCauses],
    baselines: Iterable[tuple[str, str | None]],
    query_ids: Sequence[str],
) -> tuple[CauseFlow, ...]:
    """Return the moves of queries between causes, from each baseline to its systems."""
    of_queries = {name: [lost.cause for lost in each.lost] for name, each in causes.items()}
    return tuple(
        flow_of(system, baseline, of_queries[baseline], of_queries[system], query_ids)
        for system, baseline in baselines
        if baseline is not None
    )


def flow_of(
    system: str,
    baseline: str,
    before: Sequence[AnswerCause],
    after: Sequence[AnswerCause],
    query_ids: Sequence[str],
) -> CauseFlow:
    """Group the queries whose cause differs.

    Example:
        >>> flow = flow_of("new", "old", ["right", "refused"], ["right", "right"], ["q1", "q2"])
        >>> flow.same, [(move.before, move.after, move.queries) for move in flow.moves]
        (1, [('refused', 'right', ('q2',))])
    """
    groups: dict[tuple[AnswerCause, AnswerCause], list[str]] = defaultdict(list)
    for query, old, new in zip(query_ids, before, after, strict=True):
        if old != new:
            groups[old, new].append(query)
    order = {cause: place for place, cause in enumerate(CAUSES)}
    ordered = sorted(groups.items(), key=lambda g: (-len(g[1]), order[g[0][0]], order[g[0][1]]))
    moves = tuple(CauseMove(before=b, after=a, queries=tuple(q)) for (b, a), q in ordered)
    same = len(query_ids) - sum(len(move.queries) for move in moves)
    return CauseFlow(system=system, baseline=baseline, same=same, moves=moves)
