"""Tokenizers by name, those of sacrebleu included, n-gram counts, and notes on texts."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Annotated

from ragbench.errors import MissingExtra, OptionError
from ragbench.registry import Option, nearest
from ragbench.text.tokenize import Memory, has_unspaced_words, normalize_answer

_LONGEST_ARTICLES = 20  # characters: longer texts have other words, and are skipped

_REMEMBERED_TEXTS = 100


def note_texts(metric: str, count: int, texts: Sequence[str], clause: str) -> list[str]:
    """Return a note that a clause holds for `count` of the texts; empty list for none.

    The list has at most one note: `bleu: 2 of 5 texts` and the clause, without a full stop.
    """
    return [f"{metric}: {count} of {len(texts)} texts {clause}"] if count else []


def note_unspaced(metric: str, texts: Sequence[str], instead: str) -> list[str]:
    """Return a note on texts without spaces between words, which the metric reads as one word.

    `instead` is the end of the note: the option that helps. The list is empty if there are none.

    Example:
        >>> note_unspaced("bleu", ["東京です", "Tokyo"], "bleu(tokenize=char) splits them")[0][:32]
        'bleu: 1 of 2 texts have words of'
    """
    clause = (
        "have words of a script without spaces (Chinese, Japanese, Thai, ...), and a run of them "
        f"counts as one word; {instead}"
    )
    return note_texts(metric, sum(map(has_unspaced_words, texts)), texts, clause)


def note_only_articles(metric: str, texts: Sequence[str], articles: str) -> list[str]:
    """Return a note on texts that consist of articles, such as the answer "A" of A, B and C.

    The list is empty if there are none; up to three examples, sorted. Texts of more than 20
    characters are skipped.

    Example:
        >>> note_only_articles("token_f1", ["A", "B", "the cat"], "en")
        ["token_f1: 1 of 3 texts has no word but articles ('A'), which are dropped; \
    token_f1(articles=none) keeps them"]
    """
    bare = []
    for text in texts:
        if (
            len(text) <= _LONGEST_ARTICLES
            and not normalize_answer(text, articles)
            and normalize_answer(text, "none")
        ):
            bare.append(text)
    examples = ", ".join(repr(text) for text in sorted(set(bare))[:3])
    clause = (
        f"{'has' if len(bare) == 1 else 'have'} no word but articles ({examples}), which are "
        f"dropped; {metric}(articles=none) keeps them"
    )
    return note_texts(metric, len(bare), texts, clause)


# Function that returns the tokens of a text in order.
Tokenize = Callable[[str], list[str]]
Tokenizer = Annotated[
    str,
    Option(
        "13a, intl (punctuation of every script), zh (Chinese), char, none (at white space), or "
        "ja-mecab, ko-mecab, flores101, flores200, spBLEU-1K where installed."
    ),
]

# Tokenizers that split only at white space and punctuation.
WORD_TOKENIZERS = frozenset({"13a", "intl", "none"})

_LONGEST = 64  # characters of the longest cached word: longer ones rarely repeat
_ACROSS_WORDS = ("<skipped>", "-\n", "&")  # texts for which rules of 13a look across words


def tokenizer(
    owner: str, name: str, lowercase: bool = False, extra: tuple[str, ...] = ()
) -> Tokenize:
    """Return the tokenizer of sacrebleu with this name.

    `owner` names the metric in errors; `extra` are further names of the owner, for the message;
    `lowercase` puts texts into lower case first. The function returns no tokens for an empty text.

    Raises:
        OptionError: sacrebleu has no such tokenizer.
        MissingExtra: The tokenizer needs a package or a model that is not installed.
    """
    split = _tokenizer(owner, name, extra)
    return (lambda text: split(text.lower())) if lowercase else split


@functools.cache
def _tokenizer(owner: str, name: str, extra: tuple[str, ...]) -> Tokenize:
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        names = (*extra, *BLEU.TOKENIZERS)
        raise OptionError(owner, "tokenize", name, ", ".join(names), nearest(name, names))
    try:
        peer = BLEU(tokenize=name).tokenizer
    # sacrebleu reports a missing package in the first three ways, and ends the process if the
    # download of a model fails
    except (ImportError, RuntimeError, AssertionError, OSError, SystemExit) as error:
        package = "a package or a model of sacrebleu"
        advice = " ".join(str(error).split()) or "see the README of sacrebleu"
        raise MissingExtra(f"{owner}(tokenize={name})", package, advice=advice) from error

    def tokenize(text: str) -> list[str]:
        # sacrebleu strips the end of a text before it tokenizes
        return str(peer(text.rstrip())).split()

    # rules of the other tokenizers may look across words
    return by_word(tokenize, _ACROSS_WORDS) if name == "13a" else tokenize


def by_word(tokenize: Tokenize, across: tuple[str, ...] = ()) -> Tokenize:
    """Return a tokenizer that caches the tokens of each word: ten times as fast on texts.

    The tokens of a word must not depend on its neighbours. Texts with one of the strings in
    `across`, for which they do, are tokenized as a whole. Words are split at white space; those of
    more than 64 characters are not cached.
    """
    tokens = Memory(lambda word: tuple(tokenize(word)), longest=_LONGEST).__getitem__

    def tokenize_words(text: str) -> list[str]:
        for mark in across:
            if mark in text:
                return tokenize(text)
        return list(chain.from_iterable(map(tokens, text.split())))

    return tokenize_words


def remember_texts(tokenize: Tokenize) -> Callable[[str], list[str]]:
    """Return a function that tokenizes texts and caches the latest 100, since texts repeat."""
    return functools.lru_cache(_REMEMBERED_TEXTS)(tokenize)


def ngrams(tokens: Sequence[str], n: int) -> Iterable[Hashable]:
    """Return the n-grams in order: tokens for n = 1, tuples above; none for shorter texts.

    Above n = 1 it is an iterator, read once.
    """
    return tokens if n == 1 else zip(*(tokens[start:] for start in range(n)), strict=False)


def clipped_matches(tokens: Sequence[str], references: Sequence[Sequence[str]], n: int) -> int:
    """Return the number of n-grams of a text that match, clipped to the counts of the references.

    An n-gram counts at most as often as the reference in which it is most frequent has it.
    """
    if n > 1 and len(references) == 1:
        # longer n-grams hardly repeat, and a set of them takes half the time of their counts
        grams = set(ngrams(references[0], n))
        if len(grams) == len(references[0]) - n + 1:
            return len(grams.intersection(ngrams(tokens, n)))
    limits = Counter(ngrams(references[0], n))
    for reference in references[1:]:
        limits |= Counter(ngrams(reference, n))
    matches = 0
    for gram, count in Counter(filter(limits.__contains__, ngrams(tokens, n))).items():
        limit = limits[gram]
        matches += count if count < limit else limit
    return matches
