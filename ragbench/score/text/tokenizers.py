"""Tokens of a text: tokenizers by name, with those of sacrebleu, and n-gram counts."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from ragbench.errors import MissingExtra, OptionError
from ragbench.registry import Option, nearest
from ragbench.text.tokenize import Memory, has_unspaced_words, normalize_answer

_ARTICLE = re.compile(r"\ban?\b", re.IGNORECASE)
WORTH_A_SENTENCE = 10  # one text in so many; English texts with accents and articles are fewer
_LONGEST_ARTICLES = 20  # characters; longer texts have other words, and are not read again

Counts = Mapping[Hashable, int]

_ROOM = 5_000_000  # tokens of references: at 8 bytes and their texts, a few hundred MB
_REMEMBERED_TEXTS = 2_000  # repeated texts; at 1,000 tokens each, a few hundred MB
_UNKNOWN: list[str] = []  # a reference that was not met yet


def note_unspaced(metric: str, texts: Sequence[str], instead: str) -> list[str]:
    """Say in how many texts a metric that parts words at spaces takes whole clauses for words.

    `instead` is a clause that says what does better.

    Example:
        >>> note_unspaced("bleu", ["東京です", "Tokyo"], "bleu(tokenize=char) splits them")[0][:32]
        'bleu: 1 of 2 texts have words of'
    """
    count = sum(map(has_unspaced_words, texts))
    if not count:
        return []
    return [
        f"{metric}: {count} of {len(texts)} texts have words of a script without spaces (Chinese, "
        f"Japanese, Thai, ...), and a run of them counts as one word; {instead}"
    ]


def note_not_english(metric: str, texts: Sequence[str]) -> list[str]:
    """Say how many texts have letters, but none of English, so that its word forms are no help.

    Example:
        >>> note_not_english("meteor", ["Москва", "Moscow", "3"])[0][:52]
        'meteor: 1 of 3 texts have no letter a-z: its stems a'
    """
    count = sum(1 for text in texts if not text.isascii() and _has_other_letters_alone(text))
    if not count:
        return []
    return [
        f"{metric}: {count} of {len(texts)} texts have no letter a-z: its stems and synonyms are "
        "English, so that only equal words count in them"
    ]


def _has_other_letters_alone(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    return bool(letters) and not any(letter.isascii() for letter in letters)


def note_articles(metric: str, texts: Sequence[str]) -> list[str]:
    """Say in how many texts a word was dropped as an English article that may be none.

    Counted are texts with letters beyond a-z and an `a` or `an`; a few of them, as in English with
    an accent here and there, are not worth a sentence.

    Example:
        >>> note_articles("exact_match", ["Ça va à Marc, il a faim", "the café", "the cat"])
        ["exact_match: 1 of 3 texts have letters beyond a-z and an 'a' or 'an', which is dropped \
as an English article; exact_match(articles=none) keeps it"]
    """
    count = sum(1 for text in texts if has_accented_words(text) and _ARTICLE.search(text))
    if count * WORTH_A_SENTENCE <= len(texts):
        return []
    return [
        f"{metric}: {count} of {len(texts)} texts have letters beyond a-z and an 'a' or 'an', "
        f"which is dropped as an English article; {metric}(articles=none) keeps it"
    ]


def note_only_articles(metric: str, texts: Sequence[str], articles: str) -> list[str]:
    """Say which texts have no word but articles, as the answer "A" to a choice of A, B and C.

    Example:
        >>> note_only_articles("token_f1", ["A", "B", "the cat"], "en")
        ["token_f1: 1 of 3 texts has no word but articles ('A'), which are dropped; \
token_f1(articles=none) keeps them"]
    """
    bare = [
        text
        for text in texts
        if len(text) <= _LONGEST_ARTICLES
        and not normalize_answer(text, articles)
        and normalize_answer(text, "none")
    ]
    if not bare:
        return []
    shown = ", ".join(repr(text) for text in sorted(set(bare))[:3])
    have = "has" if len(bare) == 1 else "have"
    return [
        f"{metric}: {len(bare)} of {len(texts)} texts {have} no word but articles ({shown}), "
        f"which are dropped; {metric}(articles=none) keeps them"
    ]


def has_accented_words(text: str) -> bool:
    """Whether a text has a letter beyond a-z."""
    return not text.isascii() and any(c.isalpha() and not c.isascii() for c in text)


Tokenize = Callable[[str], list[str]]
"""Text -> its tokens in order."""
Tokenizer = Annotated[
    str,
    Option(
        "13a, intl (punctuation of every script), zh (Chinese), char, none (at white space), or "
        "ja-mecab, ko-mecab, flores101, flores200, spBLEU-1K where installed."
    ),
]

WORD_TOKENIZERS = frozenset({"13a", "intl", "none"})
"""Those that part words at white space and punctuation alone."""

_PACKAGES = {
    "ja-mecab": ("MeCab with the IPA dictionary", "pip install 'sacrebleu[ja]'"),
    "ko-mecab": ("MeCab-ko with its dictionary", "pip install 'sacrebleu[ko]'"),
}
_LONGEST = 64  # characters of a word that is worth remembering

_REMEMBERED = 100_000  # words

_SYMBOL = re.compile(r"([!-&(-+/:-@\[-`{-~])")
_POINT_AFTER_NON_DIGIT = re.compile(r"([^0-9])([.,])")
_POINT_BEFORE_NON_DIGIT = re.compile(r"([.,])([^0-9])")
_DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")

# In this order: `&amp;lt;` becomes `<`, as in the original.
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))


def tokenizer(
    owner: str, name: str, lowercase: bool = False, others: tuple[str, ...] = ()
) -> Tokenize:
    """Return the tokenizer of that name; `others` are names that the owner has besides."""
    split = _tokenizer(owner, name, others)
    return (lambda text: split(text.lower())) if lowercase else split


@functools.cache
def _tokenizer(owner: str, name: str, others: tuple[str, ...]) -> Tokenize:
    if name == "13a":
        return tokenize_13a
    if name == "none":
        return str.split
    if name == "char":
        return lambda text: list("".join(text.split()))
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        names = (*others, *BLEU.TOKENIZERS)
        raise OptionError(owner, "tokenize", name, ", ".join(names), nearest(name, names))
    if name == "zh":
        return _chinese()
    theirs = _load(f"{owner}(tokenize={name})", name, BLEU)
    if name == "intl":
        return _by_word(functools.partial(_substitute, rules=theirs._re))
    return lambda text: str(theirs(text.rstrip())).split()


def _load(owner: str, name: str, bleu: Any) -> Any:
    """The tokenizer itself, or one sentence on what it lacks."""
    package, advice = _PACKAGES.get(name, ("sentencepiece", "pip install sentencepiece"))
    try:
        return bleu(tokenize=name).tokenizer
    except (ImportError, RuntimeError, AssertionError) as error:
        raise MissingExtra(owner, package, advice=advice) from error
    except (OSError, SystemExit) as error:  # the model of a sentencepiece tokenizer is fetched
        from sacrebleu.utils import SACREBLEU_DIR

        found = f"a model that cannot be fetched ({error})"
        raise MissingExtra(owner, found, advice=f"put it into {SACREBLEU_DIR}/models") from error


def _chinese() -> Tokenize:
    """`zh`: Chinese characters one by one, the rest by the rules of 13a."""
    from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

    theirs: Any = TokenizerZh
    apart = _Apart(theirs._is_chinese_char)
    rules = theirs()._post_tokenizer._re
    split = _by_word(functools.partial(_substitute, rules=rules))
    return lambda text: split(text.strip().translate(apart))


class _Apart(dict[int, "str | int"]):
    """Code point -> the character between spaces if it is a token of its own."""

    def __init__(self, is_token: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_token = is_token

    def __missing__(self, code: int) -> str | int:
        self[code] = f" {chr(code)} " if self._is_token(chr(code)) else code
        return self[code]


def _substitute(text: str, rules: list[tuple[re.Pattern[str], str]]) -> list[str]:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text.split()


def _by_word(split: Tokenize) -> Tokenize:
    """Apply rules word by word, from memory, where none of them looks across white space.

    What stands before and behind a word counts as white space, but for the first and the last
    word, which the rules may see at the very start and end of the text.
    """

    def split_padded(word: str, before: str = " ", after: str = " ") -> tuple[str, ...]:
        # no rule touches letters and digits alone
        return (word,) if word.isalnum() else tuple(split(f"{before}{word}{after}"))

    remembered = Memory(split_padded, longest=_LONGEST).__getitem__

    def tokenize(text: str) -> list[str]:
        words = text.split()
        if len(words) < 3:
            return split(text.rstrip())
        before = " " if text[0].isspace() else ""
        inner = itertools.chain.from_iterable(map(remembered, words[1:-1]))
        first, last = split_padded(words[0], before), split_padded(words[-1], after="")
        return [*first, *inner, *last]

    return tokenize


def _split(word: str) -> tuple[str, ...]:
    """Split the punctuation off one word without white space in it."""
    if word.isalnum():
        return (word,)
    word = _SYMBOL.sub(r" \1 ", f" {word} ")
    word = _POINT_AFTER_NON_DIGIT.sub(r"\1 \2 ", word)
    word = _POINT_BEFORE_NON_DIGIT.sub(r" \1 \2", word)
    return tuple(_DASH_AFTER_DIGIT.sub(r"\1 \2 ", word).split())


_split_remembered = Memory(_split, _REMEMBERED, _LONGEST).__getitem__


def tokenize_13a(text: str) -> list[str]:
    """Split a text into the tokens that sacrebleu's default tokeniser gives.

    No rule of 13a looks across white space once `<skipped>`, hyphenated line ends and the four
    entities are resolved, so that words can be split one by one and remembered.
    """
    text = text.rstrip()
    if "<skipped>" in text:
        text = text.replace("<skipped>", "")
    if "-\n" in text:
        text = text.replace("-\n", "")
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return list(itertools.chain.from_iterable(map(_split_remembered, text.split())))


class TokenizedText:
    """The tokens of a text; n-grams are counted when first asked for."""

    __slots__ = ("_counts", "tokens")

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self._counts: dict[int, Counts] = {}

    def counts(self, n: int) -> Counts:
        """Count the n-grams: tokens themselves for n = 1, tuples above."""
        counts = self._counts.get(n)
        if counts is None:
            counts = self._counts[n] = Counter(ngrams(self.tokens, n))
        return counts


class TokenizedTexts:
    """Tokenises texts, and remembers those that come again.

    References come again with the next system: their tokens are kept. Texts that are repeated
    among the rows at hand keep their n-gram counts as well. (Keeping all counts would make every
    score slower: they are so many objects that Python's garbage collection has to look at.)
    """

    def __init__(self, tokenize: Callable[[str], list[str]]) -> None:
        self._tokenize = tokenize
        self._references: dict[str, list[str]] = {}
        self._repeated: set[str] = set()
        self._counted: dict[str, TokenizedText] = {}
        self._room = _ROOM

    def expect(self, rows: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Look at the rows to come."""
        times = Counter(
            text for prediction, references in rows for text in (prediction, *references)
        )
        self._repeated = {text for text, count in times.items() if count > 1}
        self._counted = {}
        references = {text for _, references in rows for text in references}
        if self._room <= 0:  # those of rows before have taken it
            kept = self._references
            self._references = {text: kept[text] for text in references & kept.keys()}
            self._room = _ROOM - sum(map(len, self._references.values()))
        for text in references:
            self._references.setdefault(text, _UNKNOWN)

    def __call__(self, text: str) -> TokenizedText:
        """Return the tokens of a text."""
        known = self._counted.get(text)
        if known is None:
            known = TokenizedText(self._tokens(text))
            if text in self._repeated:
                if len(self._counted) >= _REMEMBERED_TEXTS:
                    del self._counted[next(iter(self._counted))]
                self._counted[text] = known
        return known

    def _tokens(self, text: str) -> list[str]:
        tokens = self._references.get(text)
        if tokens is None:
            return self._tokenize(text)
        if tokens is _UNKNOWN:
            tokens = self._tokenize(text)
            if self._room > 0:
                self._room -= len(tokens)
                self._references[text] = tokens
        return tokens


def ngrams(tokens: Sequence[str], n: int) -> Iterable[Hashable]:
    """Return the n-grams in order: tokens themselves for n = 1, above that tuples, or strings."""
    if n == 1:
        return tokens
    if isinstance(tokens, str):
        return [tokens[start : start + n] for start in range(len(tokens) - n + 1)]
    return zip(*(tokens[start:] for start in range(n)), strict=False)


def overlap(tokens: Sequence[str], counts: Counts, n: int, *, distinct: bool = False) -> int:
    """Count the n-grams of a text that others have, each at most as often as they have it.

    `distinct` says that the others have no n-gram twice, which saves looking.
    """
    # Only n-grams that match are counted: most do not, and a look-up is cheaper than an entry.
    matching = list(filter(counts.__contains__, ngrams(tokens, n)))
    if distinct:
        return len(set(matching))
    total = 0
    for gram, here in Counter(matching).items():
        there = counts[gram]
        total += here if here < there else there
    return total
