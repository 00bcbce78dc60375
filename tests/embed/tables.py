"""A model whose vectors are written in a test, and what is encoded, and lies in a cache file."""

import numpy as np

from ragbench.embed.base import ignore_progress
from ragbench.embed.cache import CACHE_KIND, VECTOR_ROWS
from ragbench.embed.sentence_transformers import SentenceTransformerEmbedder
from ragbench.store.database import Store


class Table:
    """A model whose vectors and token counts stand in a table; a text that lacks there is 0."""

    identity, revision, limit, manner, prompts = "m", "", None, "", {}

    def __init__(self, vectors=(), counts=()):
        self.vectors, self.counts = dict(vectors), dict(counts)
        self.encoded = []

    def encode(self, texts, *, prompt="", normalize=True, advance=ignore_progress):
        self.encoded += texts
        return np.array([self.vectors.get(text, [0, 0]) for text in texts], dtype=np.float32)

    def count_tokens(self, texts, *, prompt=""):
        return [self.counts.get(text, 0) for text in texts]


def encoded_texts(monkeypatch):
    """The texts that models encode from now on."""
    texts, encode = [], SentenceTransformerEmbedder.encode

    def watched(self, inputs, **options):
        texts.extend(inputs)
        return encode(self, inputs, **options)

    monkeypatch.setattr(SentenceTransformerEmbedder, "encode", watched)
    return texts


def stored_vectors(path):
    store = Store(path)
    count = store.count(CACHE_KIND, VECTOR_ROWS)
    store.close()
    return count
