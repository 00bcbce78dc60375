"""Stands for your application in langchain.yaml: what it searches with, and what it answers with.

Real stores are made as simply: that of langchain-postgres, langchain-chroma, langchain-qdrant or
any other package goes where InMemoryVectorStore stands.
"""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

_CORPUS = Path(__file__).parent.parent / "datasets" / "example" / "corpus.jsonl"
_SIZE = 512


def build_retriever(k: int = 4) -> Any:
    """Return the retriever, as the application makes it."""
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(bag_of_words())
    rows = [json.loads(line) for line in _CORPUS.read_text(encoding="utf-8").splitlines()]
    store.add_documents(
        [
            Document(row["text"], metadata={"doc_id": row["_id"], "title": row["title"]})
            for row in rows
        ]
    )
    return store.as_retriever(search_kwargs={"k": k})


def build_chain(k: int = 4, short: bool = False) -> Any:
    """Return a chain that retrieves for itself; your model goes where `best` stands."""
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    def best(given: Any) -> str:
        passage = str(given["found"][0].page_content)
        return passage.split(". ")[0] if short else passage

    parts: Any = {"found": build_retriever(k), "question": RunnablePassthrough()}
    return parts | RunnableLambda(best)


def bag_of_words() -> Any:
    """Return an embedding without a model: counts of hashed words."""
    from langchain_core.embeddings import Embeddings

    class BagOfWords(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            vector = [0.0] * _SIZE
            for word in re.findall(r"\w{4,}", text.lower()):
                vector[zlib.crc32(word.encode()) % _SIZE] += 1.0
            return vector

    return BagOfWords()


def answer(question: str) -> Any:
    """Answer a question: with the passages that the answer was made from, or as plain text."""
    from ragbench import Document, Prediction

    found = [
        Document(hit.metadata["doc_id"], hit.page_content, hit.metadata["title"])
        for hit in build_retriever(k=3).invoke(question)
    ]
    return Prediction(found[0].text, found)
