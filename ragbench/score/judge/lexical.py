"""Word overlap as a check of judges: `type: lexical`. Offline, deterministic, without a model."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

from ragbench.errors import OptionError
from ragbench.registry import Option
from ragbench.score.judge.base import Item, Judge, Rubric, not_applicable
from ragbench.score.judge.sentences import (
    cited_sentences,
    is_refusal,
    numbers_in,
    plain_number,
    without_item_mark,
)
from ragbench.text.analyzer import Analyzer
from ragbench.text.tokenize import Memory, sentences, words
from ragbench.types.scores import Cause, Verdict

_NEGATIONS = frozenset(["no", "not", "never", "nor", "none", "neither", "cannot", "without"])
_NOT_ONLY = frozenset(["only", "just", "merely"])  # `not only` denies nothing
_TOKEN = re.compile(r"[^\W_][\w'-]*")
_NOUNS_ARE_CAPITALISED = frozenset(["de", "lb"])


class Sentence(NamedTuple):
    """A sentence as words that can be found in another text."""

    text: str
    terms: tuple[str, ...]
    """Its content words as stems, in order."""
    negated: frozenset[str]
    """The content words that stand next behind a negation."""
    names: frozenset[str]
    """The content words with a capital letter that do not begin the sentence."""

    @property
    def distinct(self) -> list[str]:
        """The content words, each once, in the order of their first places."""
        return list(dict.fromkeys(self.terms))


class Credit(NamedTuple):
    """What a sentence is worth against a text."""

    score: float
    """0..1."""
    total: int
    """How many content words it has."""
    lacking: list[str]
    """Those that the text does not have."""
    moved: int
    """How many of them stand in another order than in the closest sentence of the text."""
    faults: list[str]
    """What halves the score, in words."""

    def explain(self) -> str:
        """Say what the credit is made of."""
        parts = [f"{self.total - len(self.lacking)} of {self.total} words found"]
        if self.lacking:
            parts[0] += f", not {', '.join(self.lacking)}"
        if self.moved:
            parts.append(f"{self.moved} in another order")
        if self.faults:
            parts.append(f"halved: {', '.join(self.faults)}")
        return f"{self.score:.2f}: {'; '.join(parts)}"


class Source:
    """Texts against which sentences are held."""

    def __init__(self, read: Iterable[Sentence]) -> None:
        self._sentences = list(read)
        self._places = [_places(sentence.terms) for sentence in self._sentences]
        self._terms = frozenset(term for sentence in self._sentences for term in sentence.terms)

    def credit(self, sentence: Sentence) -> Credit:
        """Return the share of a sentence's content words that the texts have, less its faults.

        A word counts half that stands in another order than in the closest sentence, which is
        the one that shares most words. The whole is halved where a number or a name is in none of
        the texts, or where a shared word is negated here and not there, or there and not here.
        """
        terms = sentence.distinct
        lacking = [term for term in terms if term not in self._terms]
        moved, denied = self._closest(sentence)
        faults = []
        for kind, expected in (("number", numbers_in(terms)), ("name", sentence.names)):
            if missed := expected.intersection(lacking):
                faults.append(f"{kind} not found ({', '.join(sorted(missed))})")
        if denied:
            faults.append(f"negated on one side alone ({', '.join(sorted(denied))})")
        share = (len(terms) - len(lacking) - moved / 2) / len(terms)
        return Credit(share / 2 if faults else share, len(terms), lacking, moved, faults)

    def _closest(self, sentence: Sentence) -> tuple[int, Collection[str]]:
        """Words in another order, and words negated on one side, next to the closest sentence.

        Of sentences that share as many words, the one with the fewest faults.
        """
        best: tuple[int, int, int] = (0, 0, 0)
        denied: Collection[str] = ()
        for other, places in zip(self._sentences, self._places, strict=True):
            shared = [term for term in sentence.distinct if term in places]
            if len(shared) < max(best[0], 1):
                continue
            differing = (sentence.negated ^ other.negated) & set(shared)
            moved = len(shared) - _in_order([places[term] for term in shared])
            rank = (len(shared), -len(differing), -moved)
            if best[0] == 0 or rank > best:
                best, denied = rank, differing
        return -best[2], denied


class Lexical(Judge):
    """Count the content words that an answer shares with passages, question or reference.

    It understands nothing: a paraphrase looks wrong to it, and a contradiction in new words right.
    It is a sanity check of real judges, and says nothing of faithfulness, relevancy or
    correctness. Content words are compared as stems; stop words do not count.

    - context_overlap: for each sentence of the answer, the share of its content words that the
      passages have together; the mean over the sentences.
    - reference_overlap: the same over the sentences of the answer against the reference
      (precision), and of the reference against the answer (recall), each sentence weighted by its
      number of words; F1 of the two, and the best of several references.
    - question_overlap: the share of the question's content words that the answer has. It rises
      where an answer repeats its question, which is no merit.

    Against a sentence count, in the first two: a word that stands in another order than in the
    closest sentence counts half; the sentence counts half if one of its numbers or names (words
    with a capital letter that do not begin it; not for German) is nowhere in the other text, or if
    a word next behind a negation (English) is not negated in the closest sentence, or the other
    way round.

    An answer that declines makes no claim: context_overlap does not apply to it, and the others
    are 0, unless the reference declines as well.
    """

    computes = True
    label = "word overlap: it counts shared words and understands none; a check of judges, no judge"
    model = "lexical/2"
    served = ("context_overlap", "question_overlap", "reference_overlap")
    instead: Mapping[str, str] = {
        "faithfulness": "context_overlap",
        "hallucination": "context_overlap",
        "factual_consistency": "context_overlap",
        "answer_relevancy": "question_overlap",
        "relevance": "question_overlap",
        "correctness": "reference_overlap",
    }

    def __init__(
        self,
        *,
        language: Annotated[
            str, Option("ISO 639-1 code of the texts; picks stop words and stemmer.")
        ] = "en",
    ) -> None:
        self._language = language
        self._analyze = analyze = Analyzer.for_language(language)
        self._terms = Memory(lambda word: tuple(map(plain_number, analyze(word))))

    @property
    def options(self) -> Mapping[str, str]:
        """The language, on which stop words and stems depend."""
        return {"language": self._language}

    def judge(self, item: Item, rubric: Rubric) -> Verdict:
        """Apply one of the rubrics that it serves."""
        answer = item.answer or ""
        if rubric.name == "context_overlap":
            return self._with_contexts(answer, item.contexts or [])
        if rubric.name == "question_overlap":
            return self._with_question(answer, item.question or "")
        if rubric.name == "reference_overlap":
            verdicts = [self._with_reference(answer, text) for text in item.references]
            number, best = max(enumerate(verdicts, start=1), key=lambda pair: pair[1].score or 0.0)
            where = (
                f"reference {number} of {len(item.references)}: "
                if len(item.references) > 1
                else ""
            )
            return Verdict(best.score, reasoning=where + best.reasoning)
        raise OptionError("lexical", "rubric", rubric.name, ", ".join(self.served))

    def _with_contexts(self, answer: str, contexts: Sequence[str]) -> Verdict:
        said = [sentence for sentence in self._said(answer) if sentence.terms]
        if not said:
            what = "the answer declines to answer" if answer.strip() else "the answer is empty"
            return not_applicable(Cause.NO_CLAIMS, f"{what}, so that there is nothing to look for")
        source = Source(sentence for text in contexts for sentence in self._sentences(text))
        credits = [source.credit(sentence) for sentence in said]
        mean = sum(credit.score for credit in credits) / len(credits)
        return Verdict(mean, reasoning="\n".join(_lines(said, credits, "sentence")))

    def _with_question(self, answer: str, question: str) -> Verdict:
        if not question.strip():
            return not_applicable(Cause.NO_QUESTION, "there is no question to share words with")
        if not answer.strip() or _declines(answer):
            what = "declines to answer" if answer.strip() else "is empty"
            return Verdict(0.0, reasoning=f"the answer {what}")
        asked = {term for sentence in self._readable(question) for term in sentence.terms}
        every = words(answer, self._language)  # some questions have none but stop words
        given = {term for word in every for term in self._terms[word]}.union(every)
        shared = asked & given
        score = len(shared) / len(asked) if asked else 0.0
        listed = f" ({', '.join(sorted(shared))})" if shared else ""
        reasoning = f"the answer has {len(shared)} of {len(asked)} words of the question{listed}"
        return Verdict(score, reasoning=reasoning)

    def _with_reference(self, answer: str, reference: str) -> Verdict:
        if not answer.strip():
            return Verdict(0.0, reasoning="the answer is empty")
        declines = [_declines(text) for text in (answer, reference)]
        if any(declines):
            who = "both decline" if all(declines) else "only one of the two declines"
            return Verdict(float(all(declines)), reasoning=f"{who} to answer")
        said, gold = self._readable(answer), self._readable(reference)
        precision, lines = _weighted(said, Source(gold), "sentence")
        recall, more = _weighted(gold, Source(said), "reference sentence")
        score = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        head = f"precision {precision:.2f}, recall {recall:.2f}"
        return Verdict(score, reasoning="\n".join([head, *lines, *more]))

    def _said(self, text: str) -> list[Sentence]:
        """The sentences of an answer; a marker such as [1] is none of its numbers."""
        found = [sentence for sentence, _ in cited_sentences(text) if not is_refusal(sentence)]
        return [self._read(sentence) for sentence in found]

    def _sentences(self, text: str) -> list[Sentence]:
        return [self._read(sentence) for sentence in sentences(text)]

    def _readable(self, text: str) -> list[Sentence]:
        """The sentences with content words; all words count where there is none (`No.`)."""
        found = [sentence for sentence in self._said(text) if sentence.terms]
        if found:
            return found
        all_words = tuple(words(text, self._language))
        return [Sentence(text, all_words, frozenset(), frozenset())] if all_words else []

    def _read(self, text: str) -> Sentence:
        body = without_item_mark(text).replace("\u2019", "'")
        terms: list[str] = []
        negated, pending = set(), False
        for word in words(body, self._language):
            if self._language == "en" and (word in _NEGATIONS or word.endswith("n't")):
                pending = True
            elif pending and word in _NOT_ONLY:
                pending = False
            elif found := self._terms[word]:
                terms += found
                negated |= set(found) if pending else set()
                pending = False
        return Sentence(text, tuple(terms), frozenset(negated), self._names(body))

    def _names(self, body: str) -> frozenset[str]:
        if self._language in _NOUNS_ARE_CAPITALISED:
            return frozenset()
        tokens = [token for token in _TOKEN.findall(body)[1:] if len(token) > 1]
        capital = [token for token in tokens if token[0].isupper()]
        return frozenset(
            term
            for token in capital
            for word in words(token, self._language)
            for term in self._terms[word]
        )


def _weighted(read: Sequence[Sentence], source: Source, whose: str) -> tuple[float, list[str]]:
    """The mean credit of some sentences, weighted by their words, and a line for each."""
    credits = [source.credit(sentence) for sentence in read]
    total = sum(credit.total for credit in credits)
    mean = sum(credit.score * credit.total for credit in credits) / max(total, 1)
    return mean, _lines(read, credits, whose)


def _lines(read: Sequence[Sentence], credits: Sequence[Credit], whose: str) -> list[str]:
    pairs = enumerate(zip(read, credits, strict=True), start=1)
    return [f"{whose} {n}: {credit.explain()}: {sentence.text}" for n, (sentence, credit) in pairs]


def _places(terms: Sequence[str]) -> dict[str, list[int]]:
    """Where each term stands, last place first."""
    found: dict[str, list[int]] = {}
    for place in range(len(terms) - 1, -1, -1):
        found.setdefault(terms[place], []).append(place)
    return found


def _in_order(places: Iterable[Sequence[int]]) -> int:
    """The length of the longest common subsequence, as the longest rising run of places.

    Hunt and Szymanski (1977), A fast algorithm for computing longest common subsequences.
    """
    ends: list[int] = []
    for descending in places:
        for place in descending:
            ends[(at := bisect_left(ends, place)) : at + 1] = [place]
    return len(ends)


def _declines(text: str) -> bool:
    """Whether each sentence of a text says that there is no answer."""
    return all(is_refusal(sentence) for sentence in sentences(text))
