"""Gold answers of a question: word by word in a text, or by the share of their words in it.

`answer_hit` and `found` search passages by them, the metric `right` and the causes answers.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ragbench.score.text.answer_words import AUTO, AnswerWords, answer_words
from ragbench.text.analyzer import Analyzer
from ragbench.text.languages import split_unspaced
from ragbench.text.numbers import NumberToken, read_token, split_numbers
from ragbench.text.refusals import is_refusal
from ragbench.text.tokenize import sentences

_LONGEST_QUOTE = 80  # characters
# Gold answers of up to so many content words are names, numbers or terms: all their numbers and
# most of their words must be in an answer, as half a name is another name.
SHORT = 4
_SHORT_SHARE = 2 / 3
# Words from which on a gold answer is a sentence, also without a full stop.
_SENTENCE = 6
_WORDS = answer_words("contains")
# Gold answers that hardly any text lacks: they count only as the first word of an answer.
_YES_OR_NO = {word: _WORDS(word) for word in ("yes", "no", "true", "false")}
_CONTRARY = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
# Beginning of "No information is given", a reply that declines.
_NO_AND_NOUN = re.compile(r"\W*no\s+\w", re.IGNORECASE)
# A month that is a stop word, too.
_MAY = re.compile(r"(?<=[\w.,] )May\b|\bMay(?= [0-9])")


class GoldAnswers:
    """Gold answers of one query, searched word by word in passages.

    The words of an answer must stand in the passage, in a row, by the rule of the metric
    `contains`. An answer without a word is in nothing, nor is any answer if there are none.

    `tokenize` is that of the metric `contains`, `articles` the language whose articles do not
    count. An unknown tokenizer raises OptionError, one that is not installed MissingExtra, and an
    unknown language KeyError: at creation, or without an answer once a passage is searched.

    Example:
        >>> gold = GoldAnswers(["30 days"])
        >>> gold.quote("Refunds are paid within 30 days of the return.")
        'within 30 days of'
        >>> gold.stand_in("Within 30 minutes, or on the next days.")
        False
    """

    def __init__(self, answers: Iterable[str], tokenize: str = AUTO, articles: str = "en") -> None:
        """Normalise the answers.

        With an answer, an unknown tokenizer raises OptionError, one that is not installed
        MissingExtra, and unknown articles KeyError.
        """
        self._words = answer_words("answer_hit", tokenize, articles)
        self._runs = [self._words(answer) for answer in answers]

    def stand_in(self, passage: str) -> bool:
        """Return True if a passage contains one of the answers."""
        words = self._words(passage)
        return any(words.holds(run) for run in self._runs)

    def quote(self, passage: str) -> str:
        """Return the words of a passage that are a gold answer, with one more on either side.

        The first place of the first answer that is there, on one line; behind 80 characters it is
        cut, with dots. The result is empty if none is there.
        """
        words = self._words(passage)
        run = next((run for run in self._runs if words.holds(run)), None)
        if run is None:
            return ""
        text, places = self._locate_words(passage)
        first = words.find(run)
        start, end = places[first].start, places[first + run.n_words - 1].end
        quote_start, quote_end = start, end
        for piece in _piece_places(text):
            if piece.end <= start:
                quote_start = piece.start
            elif piece.start >= end:
                quote_end = piece.end
                break
        quoted = " ".join(text[quote_start:quote_end].split())
        return quoted if len(quoted) <= _LONGEST_QUOTE else f"{quoted[:_LONGEST_QUOTE]} ..."

    def _locate_words(self, passage: str) -> tuple[str, list[_Place]]:
        """Return a passage without invisible characters, and the piece of text of each word."""
        text, places = "", list[_Place]()
        between, numbers = split_numbers(passage)
        for part, number in zip(between, [*numbers, ""], strict=True):
            for piece in _piece_places(part):
                n_words = self._words(part[piece.start : piece.end]).n_words
                places += [_Place(len(text) + piece.start, len(text) + piece.end)] * n_words
            text += part
            if number:
                places.append(_Place(len(text), len(text) + len(number)))
            text += number
        return text, places


class _Place(NamedTuple):
    """First character of a piece of a text, and the one behind it."""

    start: int
    end: int


def _piece_places(text: str) -> list[_Place]:
    """Return the places of the words of a text, and of its characters in unspaced scripts."""
    places, end = list[_Place](), 0
    for piece in split_unspaced(text):
        start = text.index(piece, end)
        end = start + len(piece)
        places.append(_Place(start, end))
    return places


class Share(NamedTuple):
    """Share of the content words of a gold answer that a text has; `GoldWords.share` returns it.

    Words of the question do not count, neither in the gold answer nor in the text, unless the gold
    answer has no others. `reaches` is True for a whole gold answer, or for a large enough share;
    `says` and `words` put it into words.

    Attributes:
        n_shared: Number of content words that both have.
        n_gold: Number of content words of the gold answer.
        whole: True if a gold answer stands in the text, word by word.
        n_text: Number of content words of the text.
        is_short: True if the gold answer has at most `SHORT` content words.
        lacks_number: True if a short gold answer has a number that the text lacks.
        contradicts: True if the text begins with the contrary of a gold answer, as no and yes; or
            if it has the numbers of a short one with other words: 5 April 2020 for 5 March 2020.
    """

    n_shared: int
    n_gold: int
    whole: bool
    n_text: int = 0
    is_short: bool = False
    lacks_number: bool = False
    contradicts: bool = False

    def reaches(self, least: float) -> bool:
        """Return True if the text has a gold answer word by word, or at least a share of its words.

        `least` is the share. A short gold answer needs two thirds of its words (or `least`, if that
        is more), or an F1 of two thirds; and all its numbers. False if no word is shared and no
        gold answer stands in the text, or if the text contradicts it.
        """
        if self.whole or self.contradicts or not self.n_shared:
            return self.whole
        if not self.is_short:
            return self.n_shared >= least * self.n_gold
        f1 = 2 * self.n_shared / (self.n_text + self.n_gold)
        enough = self.n_shared >= max(least, _SHORT_SHARE) * self.n_gold or f1 >= _SHORT_SHARE
        return enough and not self.lacks_number

    @property
    def says(self) -> str:
        """Share in words: `has 2 of 3 words of the gold answer`.

        `, lacks a number` or `, contradicts it` may follow; a whole gold answer gives `has a gold
        answer word by word`.
        """
        if self.whole:
            return "has a gold answer word by word"
        doubt = ", lacks a number" if self.lacks_number else ""
        return f"has {self.words}{doubt}{', contradicts it' if self.contradicts else ''}"

    @property
    def words(self) -> str:
        """Share in words, without a verb: `2 of 3 words of the gold answer`."""
        return f"{self.n_shared} of {self.n_gold} words of the gold answer"


class GoldWords:
    """Gold answers of one question, compared with texts by their content words.

    `share` returns the share of a gold answer that an answer has. `find_in` returns words on the
    gold answer in a passage, or an empty text. Without gold answers, both raise ValueError.

    Attributes:
        is_short: True if a gold answer has 1 to `SHORT` (4) content words, so that a passage has to
            hold one word by word.

    Example:
        Words that an answer repeats from the question do not count.

        >>> gold = GoldWords(["The capital of France is Paris."], "What is the capital of France?")
        >>> wrong, right = "The capital of France is Lyon.", "It is Paris."
        >>> gold.share(wrong).reaches(0.4), gold.share(right).says
        (False, 'has 1 of 1 words of the gold answer')
    """

    def __init__(self, answers: Sequence[str], question: str) -> None:
        self._question = content_of(question)
        self._gold = [_GoldAnswer.of(answer, self._question) for answer in answers]
        # of "Paris" and "The capital of France is Paris, on the Seine" the short one decides: a
        # right answer need not repeat the other words of the sentence
        short = [answer for answer in self._gold if 0 < answer.content.size <= SHORT]
        self.is_short, self._by_words = bool(short), short or self._gold
        self._sentences = [answer for answer in self._by_words if answer.is_sentence]
        self._whole = GoldAnswers(answers)

    @property
    def can_be_found(self) -> bool:
        """True if a passage can have a gold answer: it has content words, and is not yes or no."""
        return any(gold.content.size and not gold.is_yes_or_no for gold in self._gold)

    @property
    def is_distinct(self) -> bool:
        """True if texts have a short gold answer hardly by chance: it is no word and no digit."""
        return self.is_short and all(gold.is_distinct for gold in self._by_words)

    def stand_in(self, passage: str) -> bool:
        """Return True if a passage has a gold answer word by word."""
        return self._whole.stand_in(passage)

    def find_in(self, passage: str, least: float) -> str:
        """Return a phrase on the part of a gold answer in a passage, as subject and verb.

        The phrase is empty if the part is too small.

        A gold answer stands there word by word, by the rule of `answer_hit`. Of gold answers that
        all have more than `SHORT` content words, the share `least` of these words is enough. Of a
        sentence with fewer, a sentence of the passage needs two thirds, and every number.

        Example:
            >>> gold = GoldWords(["30 days"], "When is it paid?")
            >>> gold.find_in("It is paid within 30 days.", 0.5)
            'the gold answer stands ("within 30 days.")'
            >>> gold.find_in("It takes 30 minutes on working days.", 0.5)
            ''
            >>> gold = GoldWords(["The guarantee lasts 24 months."], "How long is the guarantee?")
            >>> gold.find_in("It is red. Its guarantee is 24 months.", 0.5)
            '2 of 3 words of the gold answer are'
        """
        if self._whole.stand_in(passage):
            return f'the gold answer stands ("{self._whole.quote(passage)}")'
        if self.is_short:
            return self._find_sentence(passage)
        share = self.share(passage)
        return f"{share.words} are" if share.reaches(least) else ""

    def _find_sentence(self, passage: str) -> str:
        """Return a phrase on a gold sentence in other words, for one sentence of a passage."""
        # the content of a passage is known from its other uses
        if not any(gold.is_said_in(content_of(passage)) for gold in self._sentences):
            return ""
        for gold, sentence in itertools.product(self._sentences, sentences(passage)):
            content = content_of(sentence)
            if gold.is_said_in(content):
                n_shared = (gold.content & content).size
                return f"{Share(n_shared, gold.content.size, whole=False).words} are"
        return ""

    def name_target(self, least: float) -> str:
        """Return a phrase on the text that `find_in` searches for, as subject and verb.

        It is `the gold answer stands`; with `least` 0.5, and without a short gold answer, `the gold
        answer, or 50% of its words, stands`. For a short sentence it is 67% of its words.
        """
        if not self.is_short or self._sentences:
            share = _SHORT_SHARE if self.is_short else least
            return f"the gold answer, or {share:.0%} of its words, stands"
        return "the gold answer stands"

    def share(self, text: str) -> Share:
        """Return the share of the gold answer that a text has, the best one of several.

        Best is a gold answer word by word, then one without a lacking number, then the largest
        share; of equals the first. If there are short gold answers, these decide alone. `whole` is
        True if any gold answer stands in the text.
        """
        content, words = content_of(text), _WORDS(text)
        # the first word of "No information is given" is no answer
        declines = bool(_NO_AND_NOUN.match(text)) and is_refusal(text)
        shares = [self._share_of(answer, content, words, declines) for answer in self._by_words]
        best = max(
            shares,
            key=lambda s: (
                s.whole, not s.contradicts, not s.lacks_number, s.n_shared / max(s.n_gold, 1),
            ),
        )  # fmt: skip
        return best._replace(whole=any(gold.is_in(words, declines) for gold in self._gold))

    def _share_of(
        self, gold: _GoldAnswer, content: ContentTerms, words: AnswerWords, declines: bool
    ) -> Share:
        """Return the share of one gold answer, by the content and all words of a text."""
        # Yes or no counts as one word, only as the first of a text that does not decline: `No
        # information is given` is no answer.
        whole, contrary = gold.is_in(words, declines), _CONTRARY.get(gold.says)
        contradicts = contrary is not None and words.starts_with(_YES_OR_NO[contrary])
        if gold.is_yes_or_no:
            return Share(int(whole), 1, whole, contradicts=contradicts)
        shared = gold.content & content
        is_short = gold.content.size <= SHORT
        lacks_number = is_short and len(shared.numbers) < len(gold.content.numbers)
        # words of the question do not count, unless the gold answer has no others
        counted = content if gold.is_of_question else content - self._question
        if is_short and shared.numbers and gold.content.stems and not shared.stems:
            contradicts |= bool(counted.stems)
        sizes = shared.size, gold.content.size
        return Share(*sizes, whole, counted.size, is_short, lacks_number, contradicts)


class ContentTerms(NamedTuple):
    """Content of a text: stems of its content words, and its numbers; `content_of` returns it.

    `a & b` has the content of a that b has too, `a - b` the content of a that b lacks.

    Attributes:
        stems: Distinct stems of the content words without a digit.
        numbers: Number tokens, in order of their first occurrence.
    """

    stems: frozenset[str]
    numbers: tuple[NumberToken, ...]

    @property
    def size(self) -> int:
        """Number of stems and numbers."""
        return len(self.stems) + len(self.numbers)

    def __and__(self, other: ContentTerms) -> ContentTerms:
        numbers = tuple(n for n in self.numbers if any(map(n.equals, other.numbers)))
        return ContentTerms(self.stems & other.stems, numbers)

    def __sub__(self, other: ContentTerms) -> ContentTerms:
        numbers = tuple(n for n in self.numbers if not any(map(n.equals, other.numbers)))
        return ContentTerms(self.stems - other.stems, numbers)


class _GoldAnswer(NamedTuple):
    """Gold answer: its content without that of the question, and all its words."""

    content: ContentTerms
    words: AnswerWords
    is_of_question: bool
    all_content: ContentTerms
    is_sentence: bool

    @classmethod
    def of(cls, answer: str, question: ContentTerms) -> _GoldAnswer:
        """Return a gold answer; without content beyond the question it keeps all its content."""
        content = content_of(answer)
        new_content = content - question
        is_of_question = not new_content.size
        counted, n_words = content if is_of_question else new_content, len(answer.split())
        is_sentence = n_words >= (3 if answer.rstrip().endswith(".") else _SENTENCE)
        return cls(counted, _WORDS(answer), is_of_question, content, is_sentence)

    @property
    def says(self) -> str:
        """First word, if it is yes, no, true or false; else empty."""
        for t, word in _YES_OR_NO.items():
            if self.words.starts_with(word):
                return t
        return ""

    @property
    def is_yes_or_no(self) -> bool:
        """True for one word that hardly any text lacks."""
        return any(self.words.is_equal(word) for word in _YES_OR_NO.values())

    def is_said_in(self, sentence: ContentTerms) -> bool:
        """Return True if a sentence has two thirds of the content, and all its numbers."""
        shared = self.content & sentence
        if len(shared.numbers) < len(self.content.numbers):
            return False
        # one word or number needs another one of the whole gold answer with it
        is_alone = self.content.size == 1 < self.all_content.size
        if is_alone and (self.all_content & sentence).size < 2:
            return False
        return shared.size >= max(_SHORT_SHARE * self.content.size, 1)

    @property
    def is_distinct(self) -> bool:
        """True for two content words, or a number of several digits, without a single digit."""
        # texts have one word by chance, and a small number in words: `three years` for `3 years`
        parts = [part for number in self.content.numbers for part in number.parts]
        has_digit = any(len(reading) == 1 for part in parts for reading in part)
        return not has_digit and (self.content.size > 1 or bool(self.content.numbers))

    def is_in(self, words: AnswerWords, declines: bool) -> bool:
        """Return True if a text has the answer word by word."""
        if self.is_yes_or_no:
            return not declines and words.starts_with(self.words)
        return words.holds(self.words)


# on first use: its stemmer and stop words are slow to load
@functools.cache
def _analyzer() -> Analyzer:
    return Analyzer()


# several systems retrieve the same passages for a query
@functools.lru_cache(maxsize=200)
def content_of(text: str) -> ContentTerms:
    """Return the content words of a text as stems, and its numbers; both distinct.

    The result is empty for a text of stop words only; the results of the last 200 texts are cached.
    """
    between, numbers = split_numbers(text)
    # interned: the stems of cached texts repeat, and take most of their memory
    stems = frozenset(map(sys.intern, _analyzer()(" ".join(between))))
    if _MAY.search(text):
        stems |= {"may"}
    return ContentTerms(stems, tuple(dict.fromkeys(map(read_token, numbers))))


def has_no_answer(gold: Sequence[str]) -> bool:
    """Return True if all gold answers of a question say that there is none.

    An empty text counts as saying so; False without gold answers.
    """
    return bool(gold) and all(not text.strip() or is_refusal(text) for text in gold)
