"""Factories and objects of a user's module that configs name."""

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

TEXTS = {"io": "Io has volcanoes.", "europa": "Europa has an ocean.", "titan": "Titan has lakes."}


def store(size=32):
    """A real vector store; ids stand in the metadata, the documents have ids of their own."""
    vector_store = InMemoryVectorStore(DeterministicFakeEmbedding(size=size))
    vector_store.add_documents(
        [Document(text, metadata={"doc": key}) for key, text in TEXTS.items()]
    )
    return vector_store


def retriever(k=2):
    return store().as_retriever(search_kwargs={"k": k})


def failing():
    raise ValueError("no such index")


def nothing():
    return None


ready = store()
