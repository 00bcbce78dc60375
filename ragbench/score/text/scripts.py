"""What metrics that were made for English do not see in texts of other scripts, in sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragbench.text.tokenize import has_unspaced_words

_ARTICLE = re.compile(r"\ban?\b", re.IGNORECASE)
_WORTH_A_SENTENCE = 10  # one text in so many; English texts with accents and articles are fewer


def note_unspaced(metric: str, texts: Sequence[str], instead: str) -> list[str]:
    """Say in how many texts a metric that parts words at spaces takes whole clauses for words.

    Args:
        metric: The metric, as it is named.
        texts: All texts that it sees.
        instead: What does better, as a clause.

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
as an English article"]
    """
    count = sum(1 for text in texts if _has_accents(text) and _ARTICLE.search(text))
    if count * _WORTH_A_SENTENCE <= len(texts):
        return []
    return [
        f"{metric}: {count} of {len(texts)} texts have letters beyond a-z and an 'a' or 'an', "
        "which is dropped as an English article"
    ]


def _has_accents(text: str) -> bool:
    return not text.isascii() and any(c.isalpha() and not c.isascii() for c in text)
