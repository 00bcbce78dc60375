"""Passages of a corpus in a seeded order, spread evenly over the documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.questions.base import QuestionPassage
from ragbench.signature import fingerprint
from ragbench.text.chunk import Chunker, Chunking
from ragbench.types import Document

# In words: a passage of this size holds several facts, and ten of them fit into any prompt.
CHUNKING = Chunking(by="words", size=200)


def draw_passages(documents: Sequence[Document], seed: str) -> Iterator[QuestionPassage]:
    """Yield every passage of the corpus once, in an order that depends on texts, ids and seed.

    First one passage of each document, then a second one of each that has two, and so on: n
    passages come from as many documents as possible. Blank documents have no passage. Documents
    are cut when they are reached.
    """
    chunker = Chunker(CHUNKING)

    longer: list[list[QuestionPassage]] = []
    # hashes, not a random generator: an added document moves no other one
    for document in sorted(documents, key=lambda document: fingerprint([seed, document.id], 64)):
        texts = [chunk.text for chunk in chunker(document.text)]
        texts.sort(key=lambda text: fingerprint([seed, text], 64))
        longer.append([QuestionPassage(document, text) for text in texts])
        yield from (longer[-1].pop(0) for _ in texts[:1])
    while longer := [passages for passages in longer if passages]:
        yield from (passages.pop(0) for passages in longer)
