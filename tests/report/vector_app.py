"""A LangChain app over parts of three documents, whose store gives them random ids."""

from __future__ import annotations

import hashlib
import re

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

DOCUMENTS = {
    "leave.md": (
        "# Leave\n\nA new employee has 30 days of leave in a year. Half a year counts half. "
        "Days that are left move to the next year until the end of March.\n\n## Illness\n\n"
        "A note of a doctor is due on the third day. Illness during a leave gives days back.\n\n"
        "## Parents\n\nParents may stay at home for up to three years.\n"
    ),
    "travel.md": (
        "# Travel\n\nBook a train for journeys under four hours. "
        "A hotel may cost 120 euros for a night 😀.\n\n## Meals\n\n"
        "The office pays 28 euros a day for meals abroad.\n\n## Cars\n\n"
        "A car of your own earns 30 cents for each kilometre.\n"
    ),
    "pay.md": (
        "# Pay\n\nPay day is the 25th. If that is a Sunday, pay comes on the Friday before it.\n\n"
        "## Bonus\n\nThe bonus is paid in May.\n\n## Overtime\n\n"
        "Overtime is paid with a quarter on top.\n"
    ),
}
# Question, gold answer, gold document, quote.
QUESTIONS = [
    ("How long is the leave?", "30 days", "leave.md", "A new employee has 30 days of leave"),
    ("When is a doctor's note due?", "third day", "leave.md", "is due on the third day."),
    ("How long at home?", "three years", "leave.md", "at home for up to three years."),
    ("What may a hotel cost?", "120 euros", "travel.md", "A hotel may cost 120 euros"),
    ("What are meals abroad?", "28 euros", "travel.md", "28 euros a day for meals abroad."),
    ("What does a car earn?", "30 cents", "travel.md", "30 cents for each kilometre."),
    ("When is pay day?", "the 25th", "pay.md", "Pay day is the 25th."),
    ("When is the bonus paid?", "in May", "pay.md", "The bonus is paid in May."),
    ("How is overtime paid?", "a quarter on top", "pay.md", "with a quarter on top."),
    ("Until when do days move?", "March", "leave.md", "until the end of March."),
]


class WordHashes(Embeddings):
    """Embeddings that count words by their hash: the same in each process."""

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * 64
        for word in re.findall(r"\w+", text.lower()):
            vector[hashlib.md5(word.encode()).digest()[0] % 64] += 1
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


def split_documents(size: int, *, has_starts: bool) -> list[Document]:
    """Return the documents in parts of `size` characters, with the file of each part."""
    parts = []
    for name, text in DOCUMENTS.items():
        for start in range(0, len(text), size):
            places = {"start_index": start} if has_starts else {}
            metadata = {"source": f"docs/{name}", **places}
            parts.append(Document(text[start : start + size], metadata=metadata))
    return parts


def store(size: int, *, has_starts: bool) -> InMemoryVectorStore:
    """Return a store with the parts of the documents; it gives them UUIDs."""
    vectors = InMemoryVectorStore(WordHashes())
    vectors.add_documents(split_documents(size, has_starts=has_starts))
    return vectors


def chain(size: int, has_starts: bool, k: int) -> Runnable:
    """Return an app that answers with the first words of the best part."""
    retriever = store(size, has_starts=has_starts).as_retriever(search_kwargs={"k": k})
    first_words = RunnableLambda(lambda state: state["passages"][0].page_content[:40])
    return {"question": RunnablePassthrough(), "passages": retriever} | first_words
