"""Where answers are lost: what gold answers tell without a judge, how many queries, which moved."""

from __future__ import annotations

import functools
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ragbench.comparison.differences import Slicing
from ragbench.records.causes import CAUSES, AnswerCause, CauseFlow, CauseMove, CauseShare, Lost
from ragbench.score.judge.sentences import is_refusal, numbers_in, terms_of
from ragbench.score.text.squad import answer_tokens, holds_run
from ragbench.stats import mean_interval
from ragbench.text.analyzer import Analyzer
from ragbench.text.tokenize import sentences

SHORT = 4
"""Up to so many content words, all numbers of a gold answer must be there."""
_MOST = 2 / 3
_YES_OR_NO = frozenset([("yes",), ("no",), ("true",), ("false",)])
_REMEMBERED = 200_000
"""Characters of texts whose words are kept: about 4 MB. A count of texts would bound nothing."""
_TOKENS = answer_tokens("contains")


class Share(NamedTuple):
    """How much of the best gold answer a text has."""

    found: int
    of: int
    """Content words of the gold answer beyond those of the question."""
    whole: bool
    """Whether a gold answer stands in the text, word by word."""
    own: int = 0
    """Content words of the text beyond those of the question."""
    is_short: bool = False
    """Whether the gold answer is a name, a number, a few words."""
    lacks_number: bool = False
    """Whether a short gold answer has a number that the text lacks."""

    def reaches(self, least: float) -> bool:
        """Whether it is enough: a whole gold answer, or a share of its words.

        Of a short one most words: half a name is another name, unless the text says nothing else.
        """
        if self.whole or not self.found:
            return self.whole
        if not self.is_short:
            return self.found >= least * self.of
        f1 = 2 * self.found / (self.own + self.of)
        enough = self.found >= max(least, _MOST) * self.of or f1 >= _MOST
        return enough and not self.lacks_number

    @property
    def says(self) -> str:
        """The share in words."""
        if self.whole:
            return "has a gold answer word by word"
        lacks = ", lacks a number" if self.lacks_number else ""
        return f"has {self.found} of {self.of} words of the gold answer{lacks}"


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
        self._asked = asked = terms(question)
        contents = [(terms(answer), tuple(_TOKENS(answer))) for answer in answers]
        self._gold = [(content - asked or content, tokens) for content, tokens in contents]
        # where one says it in few words, most words of a sentence that says it are others
        short = [each for each in self._gold if 0 < len(each[0]) <= SHORT]
        self._by_words = short or self._gold

    @property
    def can_be_found(self) -> bool:
        """Whether a passage can have it: `yes` and `no` stand in no passage as an answer."""
        return any(own and tokens not in _YES_OR_NO for own, tokens in self._gold)

    def share(self, text: str) -> Share:
        """Return how much of the gold answer, of several the best, a text has."""
        own, tokens = terms(text), _TOKENS(text)
        found = [self._one(each, own, tokens) for each in self._by_words]
        best = max(found, key=lambda s: (s.whole, not s.lacks_number, s.found / max(s.of, 1)))
        is_whole = any(_is_whole(wanted, tokens) for _, wanted in self._gold)
        return best._replace(whole=is_whole)

    def _one(
        self, gold: tuple[frozenset[str], Sequence[str]], own: frozenset[str], tokens: Sequence[str]
    ) -> Share:
        content, wanted = gold
        whole = _is_whole(wanted, tokens)
        if tuple(wanted) in _YES_OR_NO:
            return Share(int(whole), 1, whole)
        short, both = len(content) <= SHORT, content & own
        lacks = short and not numbers_in(content) <= own
        return Share(len(both), len(content), whole, len(own - self._asked | both), short, lacks)

    def rank_in(self, texts: Iterable[str | None], least: float) -> int:
        """Return the rank of the first text that has enough of a gold answer; 0 if none has."""
        for rank, text in enumerate(texts, start=1):
            if text is not None and self.share(text).reaches(least):
                return rank
        return 0


def _is_whole(wanted: Sequence[str], tokens: Sequence[str]) -> bool:
    """Whether a gold answer stands in a text; `no`, which stands in many, comes first in it."""
    if tuple(wanted) in _YES_OR_NO:
        return tuple(tokens[:1]) == tuple(wanted)
    return holds_run(tokens, wanted)


@functools.cache
def _analyzer() -> Analyzer:
    return Analyzer()


class Terms:
    """The content words of texts as stems, remembered: passages come up again."""

    def __init__(self, characters: int = _REMEMBERED) -> None:
        self._room = characters
        self.known: OrderedDict[str, frozenset[str]] = OrderedDict()

    def __call__(self, text: str) -> frozenset[str]:
        """Return the content words of a text as stems."""
        if text in self.known:
            self.known.move_to_end(text)
            return self.known[text]
        # one copy of each stem for all texts
        found = frozenset(map(sys.intern, terms_of(text, _analyzer())))
        self._room -= len(text)
        while self._room < 0 and self.known:
            self._room += len(self.known.popitem(last=False)[0])
        self.known[text] = found
        return found


terms = Terms()
"""Return the content words of a text as stems."""


def refuses(answer: str) -> str | None:
    """Return how an answer refuses, for a sentence about it; None if it does not.

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
    """Whether the gold answers of a question say that there is none."""
    return bool(gold) and all(not text.strip() or is_refusal(text) for text in gold)


@dataclass(frozen=True, slots=True)
class SystemCauses:
    """The cause of every query of one system."""

    system: str
    lost: Sequence[Lost]
    """In the order of the queries."""

    def counts(self) -> dict[AnswerCause, int]:
        """Return how many queries have each cause; they add up to the queries."""
        found = Counter(each.cause for each in self.lost)
        return {cause: found[cause] for cause in CAUSES}

    def shares(
        self, confidence: float, clusters: Sequence[str] | None = None
    ) -> dict[AnswerCause, CauseShare]:
        """Return the share of each cause that occurs, with its interval."""
        causes = np.array([each.cause for each in self.lost], dtype=object)
        found: dict[AnswerCause, CauseShare] = {}
        for cause, count in self.counts().items():
            if count:
                hits = (causes == cause).astype(np.float64)
                limits = mean_interval(hits, confidence=confidence, clusters=clusters)
                found[cause] = CauseShare(
                    count=count, share=count / len(self.lost), interval=(limits.lower, limits.upper)
                )
        return found

    def by_slice(self, slicings: Sequence[Slicing]) -> dict[str, dict[str, dict[AnswerCause, int]]]:
        """Return field -> slice -> how many of its queries have each cause that occurs there."""
        found: dict[str, dict[str, dict[AnswerCause, int]]] = {}
        for slicing in slicings:
            counts: dict[str, Counter[AnswerCause]] = {name: Counter() for name in slicing.names}
            for labels, lost in zip(slicing.labels, self.lost, strict=True):
                for label in labels:
                    counts[label][lost.cause] += 1
            found[slicing.field] = {
                name: {cause: count[cause] for cause in CAUSES if count[cause]}
                for name, count in counts.items()
            }
        return found


def cause_flows(
    found: Mapping[str, SystemCauses],
    against: Iterable[tuple[str, str | None]],
    query_ids: Sequence[str],
) -> tuple[CauseFlow, ...]:
    """Say which queries moved from which cause to which, from each baseline to its systems."""
    flows = []
    for system, baseline in against:
        if baseline is not None:
            before, after = ([e.cause for e in found[name].lost] for name in (baseline, system))
            flows.append(flow_of(system, baseline, before, after, query_ids))
    return tuple(flows)


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
