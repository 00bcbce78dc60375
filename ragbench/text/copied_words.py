"""Words that a question copies from one sentence of a text."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ragbench.text.tokenize import words

# Share of its words from which on a question is copied.
MOST_COPIED = 0.9
_SHORTEST_QUESTION = 5  # words that a copied question has
_QUESTION_WORDS = frozenset(
    ["what", "which", "who", "whom", "whose", "when", "where", "why", "how"]
)


def copied_words(question: str, sentences: Iterable[Collection[str]]) -> tuple[int, int]:
    """Return (words of a question that one sentence has, at most; words of the question).

    Question words such as `which` do not count. (0, 0) for a question of fewer than 5 other words,
    which a sentence may have by chance.

    Args:
        question: Text of the question.
        sentences: Words of each sentence, by `ragbench.text.tokenize.words`.

    Example:
        >>> copied_words("When was the old bridge opened?", [{"the", "old", "bridge"}, {"was"}])
        (3, 5)
    """
    content = [word for word in words(question) if word not in _QUESTION_WORDS]
    if len(content) < _SHORTEST_QUESTION:
        return 0, 0
    counts = (sum(word in sentence for word in content) for sentence in sentences)
    return max(counts, default=0), len(content)
