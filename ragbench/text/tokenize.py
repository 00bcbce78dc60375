"""Words and sentences of a text by rules, for retrievers, judges and generators."""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections.abc import Callable
from itertools import chain
from typing import Literal, TypeVar

from ragbench.text.languages import UNSPACED, data_lines, drop_punctuation, fold_answer, load, marks

_ASCII_WORD = re.compile(
    r"(?<![a-z0-9])[a-z](?:\.[a-z])+(?![a-z0-9])"  # u.s, e.g
    r"|[0-9]+(?:[.,][0-9]+)+"  # 3.14, 1,000
    r"|[a-z0-9]+(?:'[a-z0-9]+)*"
)
# Patterns of scripts are texts, compiled on first use: that takes 5 ms, and most commands split no
# text.
_HAS_UNSPACED = f"[{UNSPACED}]"
# not `{2}`: only a pattern that begins with a plain class is searched for fast
_UNSPACED_RUN = f"[{UNSPACED}][{UNSPACED}]"
# Curly and full-width apostrophes become apostrophes; soft hyphens and joiners are removed.
_CLEAN = {0x2019: "'", 0xFF07: "'", 0x00AD: None, 0x200C: None, 0x200D: None}
_ELIDING = frozenset({"ca", "fr", "it"})
_DOTTED_I = frozenset({"az", "tr"})
_CLOSERS = "\"'”’»)\\]"
_BOUNDARY = re.compile(
    rf"[.!?…](?![.!?…])[{_CLOSERS}]*(?=\s)"  # Latin and alike: a space must follow
    r"|[。！？｡]+[”’」』）]*"  # Chinese and Japanese: nothing need follow
    r"|[।؟](?=\s)"  # Hindi, Arabic
    r"|(?=\n[ \t]*\n)"  # an empty line ends a sentence whatever it ends with
    r"|(?=\n[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t])"  # the next line is an item of a list
)
_NEXT_WORD = re.compile(r"[\s\"'“‘«(\[]*(\w+)")
_OPENERS = "\"'“‘«([¿¡"
# These are abbreviations only before a number: No. 7, Fig. 3, pp. 12
_BEFORE_NUMBERS = frozenset(
    ["art", "ch", "chap", "eq", "eqs", "fig", "figs", "no", "nos", "nr", "p", "pp", "sec", "vol"]
)
# These may end a sentence: they do where a function word starts the next one.
_MAY_END = frozenset(["co", "corp", "etc", "inc", "jr", "ltd", "a.m", "p.m", "u.s", "u.k", "e.u"])


def words(text: str, language: str = "en") -> list[str]:
    """Return the words of a text, in lower case and in order; none for a text without a word.

    Unicode is composed (NFC) and accents are kept. Numbers stay whole (`3.14`, `1,000`), and so
    do dotted initials (`u.s`) and contractions (`don't`). An English possessive loses its ending;
    French, Italian and Catalan split at the apostrophe (`l'homme`). Runs of a script that is
    written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) become overlapping pairs
    of characters, in every language, so that they can be found by their parts. `language` is a
    code: any other than `en` keeps possessives, and `az` and `tr` put I into lower case as ı.

    Example:
        >>> words("The U.S. spends 3.14 % of NASA's budget, doesn't it?")
        ['the', 'u.s', 'spends', '3.14', 'of', 'nasa', 'budget', "doesn't", 'it']
        >>> words("東京都 Café")
        ['東京', '京都', 'café']
    """
    if language in _DOTTED_I:
        text = text.replace("I", "\u0131").replace("\u0130", "i")
    text = text.lower()
    if text.isascii():
        pieces = _ASCII_WORD.findall(text)
    else:
        text = unicodedata.normalize("NFC", text.translate(_CLEAN))
        pieces = _unicode_word().findall(text)
        if re.search(_HAS_UNSPACED, text):
            pieces = list(chain.from_iterable(map(_pairs, pieces)))
    return _split_apostrophes(pieces, language) if "'" in text else pieces


def has_unspaced_words(text: str) -> bool:
    """Return True if a text has adjacent letters of a script without spaces between words.

    A single such letter is no word.

    Example:
        >>> has_unspaced_words("in 東京"), has_unspaced_words("в Москве")
        (True, False)
    """
    return not text.isascii() and re.search(_UNSPACED_RUN, text) is not None


def _pairs(word: str) -> list[str]:
    """Return overlapping pairs of characters in a script without spaces; any other word whole."""
    if len(word) < 3 or not re.match(_HAS_UNSPACED, word):
        return [word]
    return [word[i : i + 2] for i in range(len(word) - 1)]


def _split_apostrophes(pieces: list[str], language: str) -> list[str]:
    """Return pieces, cut at elisions; in English they lose a final `'s`."""
    if language in _ELIDING:
        return "'".join(pieces).split("'") if pieces else []
    if language == "en":
        return [word.removesuffix("'s") for word in pieces]
    return pieces


@functools.cache
def _unicode_word() -> re.Pattern[str]:
    """Return the pattern of words of any script; a mark belongs to the letter before it."""
    letters = rf"[^\W_{UNSPACED}]+(?:[{marks()}]+[^\W_{UNSPACED}]*)*"
    return re.compile(
        rf"[{UNSPACED}]+"
        r"|(?<!\w)[^\W\d_](?:\.[^\W\d_])+(?!\w)"
        r"|\d+(?:[.,]\d+)+"
        rf"|{letters}(?:'{letters})*"
    )


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, stripped, in order; no word is lost or added.

    Decimals, initials (`J. Smith`), common abbreviations and a full stop before a word in lower
    case end no sentence; quotes and brackets stay with the sentence that they close. Items of a
    list and paragraphs are sentences of their own. A blank text has none.

    Example:
        >>> sentences("Dr. Smith paid 3.14 euros. 'Really?' she asked. It was J. R. Smith.")
        ['Dr. Smith paid 3.14 euros.', "'Really?' she asked.", 'It was J. R. Smith.']
        >>> sentences("これは本です。あれはペンです。")
        ['これは本です。', 'あれはペンです。']
    """
    # without any upper case, a lower-case start does not show that a sentence goes on
    cased = not text.islower()
    pieces, start = [], 0
    for boundary in _BOUNDARY.finditer(text):
        end = boundary.end()
        if boundary.group() and not _ends(text, start, end, cased):
            continue
        if piece := text[start:end].strip():
            pieces.append(piece)
        start = end
    if piece := text[start:].strip():
        pieces.append(piece)
    return pieces


def _ends(text: str, start: int, end: int, cased: bool) -> bool:
    """Return True if the punctuation before `end` ends the sentence that began at `start`."""
    following = _NEXT_WORD.match(text, end)
    next_word = following.group(1) if following else ""
    if cased and next_word[:1].islower():
        return False
    last = text[max(start, end - 60) : end].rstrip(_CLOSERS)
    word = last.split()[-1] if last.endswith(".") else ""
    if len(word) < 2:  # the punctuation is ! or ?, a full stop of another script or alone
        return True
    word = (word.rstrip(".") or ".").lstrip(_OPENERS)
    folded = word.lower()
    if folded in _BEFORE_NUMBERS:
        return not next_word[:1].isdigit()
    if folded in _MAY_END or (len(word) == 1 and word.isupper()):
        return not next_word or next_word.lower() in load("english")
    # "1. Open the door": the number of an item, at the start of its sentence
    if word.isdigit() and len(text[start:end].split()) == 1:
        return False
    return folded not in _abbreviations()


@functools.cache
def _abbreviations() -> frozenset[str]:
    return frozenset(" ".join(data_lines("abbreviations.txt")).split())


# Language -> the articles, which do not count when short answers are compared.
ARTICLES: dict[str, frozenset[str]] = {}
for _line in data_lines("articles.txt"):
    _code, _, _articles = _line.partition(":")
    ARTICLES[_code] = frozenset(_articles.split())

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)


Rules = Literal["unicode", "script", "mlqa"]


def normalize_answer(text: str, articles: str = "en", rules: Rules = "unicode") -> str:
    """Return a text in lower case, without punctuation, articles and extra white space.

    For ASCII and English articles this is the normalisation of the SQuAD script. Beyond ASCII, case
    is folded, composed and decomposed accents are equal, and so are full-width forms (NFKC).
    Punctuation of every script is removed, or becomes a space where it separates words alone. An
    empty text, or one of articles alone, gives an empty text. The Arabic article is removed at any
    place of a word, as by the MLQA script.

    Args:
        text: Any text.
        articles: The language whose articles are dropped, a key of `ARTICLES`.
        rules: `unicode`: as above. `script`: lower case without ASCII punctuation, which is all
            that the SQuAD script does to any text. `mlqa`: lower case without the punctuation of
            every script, as by the MLQA script.

    Raises:
        KeyError: `articles` is no key of `ARTICLES`.

    Example:
        >>> normalize_answer("The  Eiffel-Tower, “Paris”!"), normalize_answer("Ｔｏｋｙｏ、東京。")
        ('eiffeltower paris', 'tokyo 東京')
        >>> normalize_answer("Der Rhein", "de"), normalize_answer("Der Rhein")
        ('rhein', 'der rhein')
        >>> normalize_answer("Ｔｏｋｙｏ、東京。", rules="script")
        'ｔｏｋｙｏ、東京。'

    References:
        Rajpurkar et al. (2016), SQuAD, section 6.1.
        Lewis et al. (2020), MLQA: Evaluating Cross-lingual Extractive Question Answering.
    """
    if rules == "mlqa":
        text = "".join(map(drop_punctuation, text.lower()))
    elif rules == "script" or text.isascii():
        text = text.lower().translate(_ASCII_PUNCTUATION)
    else:
        text = fold_answer(text)
    pattern = _article(articles)
    return " ".join((pattern.sub(" ", text) if pattern else text).split())


@functools.cache
def _article(language: str) -> re.Pattern[str] | None:
    words = sorted(ARTICLES[language])
    if language == "ar":  # written as one word with its noun
        return re.compile("|".join(words))
    return re.compile(rf"\b(?:{'|'.join(words)})\b") if words else None


Value = TypeVar("Value")

# Number of words, more than the vocabulary of most corpora; stems take some 20 MB.
ROOM = 200_000


class Memory(dict[str, Value]):
    """Cache of a function of words: word -> value, computed on first use.

    A vocabulary is small and texts are long, so that most look-ups hit. The cache is emptied when
    it has `room` words; words of more than `longest` characters are not stored (None stores all).
    Only `memory[word]` computes a value; `get` and `in` see stored words alone. An error of the
    function is passed on, and stores nothing.
    """

    def __init__(
        self, compute: Callable[[str], Value], room: int = ROOM, longest: int | None = None
    ) -> None:
        super().__init__()
        self._compute, self._room, self._longest = compute, room, longest

    def __missing__(self, word: str) -> Value:
        value = self._compute(word)
        if self._longest is None or len(word) <= self._longest:
            if len(self) >= self._room:
                self.clear()
            self[word] = value
        return value
