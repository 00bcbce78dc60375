"""Words that a question copies from one sentence of a document."""

from __future__ import annotations

from functools import lru_cache

from ragbench.text.tokenize import sentences, words

_MOST_COPIED = 0.9  # share of the words of a question that it may have from one sentence
_SHORTEST_QUESTION = 5  # words that a copied question has
_QUESTION_WORDS = frozenset(
    ["what", "which", "who", "whom", "whose", "when", "where", "why", "how"]
)


def copied_words(question: str, title: str, text: str) -> tuple[int, int] | None:
    """Return (words of a question that one sentence has, at most; words of the question).

    None if the first number is at most 90 % of the second: the question is no copy. Question words
    such as `which` do not count. A question of fewer than 5 other words is no copy, because a
    sentence may have these by chance.

    Args:
        question: Text of the question.
        title: Title of the document, which counts as a sentence; may be empty.
        text: Text of the document, or a passage of it.

    Example:
        >>> copied_words("Was the old bridge opened late?", "", "The old bridge was opened late.")
        (6, 6)
        >>> copied_words("When was the new bridge opened?", "", "The old bridge was opened late.")
    """
    content = [word for word in words(question) if word not in _QUESTION_WORDS]
    if len(content) < _SHORTEST_QUESTION:
        return None
    n_copied = max(sum(map(sentence.__contains__, content)) for sentence in _sentences(title, text))
    return (n_copied, len(content)) if n_copied > _MOST_COPIED * len(content) else None


# documents are gold of several questions
@lru_cache(maxsize=1000)
def _sentences(title: str, text: str) -> list[frozenset[str]]:
    """Return the words of the title and of each sentence."""
    return [frozenset(words(sentence)) for sentence in (title, *sentences(text))]
