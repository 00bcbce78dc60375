"""Vector stores of production behind `type: langchain`: real servers, exact answers."""

import asyncio
import warnings

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from ragbench.experiment.calls import Calls
from ragbench.experiment.stages.rankings import rank_outcomes
from ragbench.retrieve.frameworks import LangchainRetriever
from ragbench.types import Query
from tests.outcomes import retrieve
from tests.services.conftest import TEXTS

pytestmark = [
    pytest.mark.services,
    # of the stores' own packages and their drivers; what ragbench warns of is an error elsewhere
    pytest.mark.filterwarnings("ignore"),
]
EMBEDDING = DeterministicFakeEmbedding(size=32)
QUERIES = [Query("q1", "document number 7"), Query("q2", "something else")]


def nearest(question, k):
    """The ids by cosine, in NumPy: what every exact store must return."""
    matrix = np.array(EMBEDDING.embed_documents(list(TEXTS.values())))
    vector = np.array(EMBEDDING.embed_query(question))
    cosine = matrix @ vector / np.linalg.norm(matrix, axis=1) / np.linalg.norm(vector)
    return [list(TEXTS)[row] for row in np.argsort(-cosine)[:k]]


def check(store, k=10):
    """Asked as a store and as its retriever, it ranks as NumPy does, whatever its numbers say."""
    for client, top_k in ((store, k), (store.as_retriever(search_kwargs={"k": k}), 100)):
        retriever = LangchainRetriever(client=client, id_field="doc")
        outcomes = retrieve(retriever, QUERIES, top_k, Calls("retriever 'store'", 30.0))
        ranked = rank_outcomes("store", retriever, ["q1", "q2"], outcomes, None, top_k)
        for query in QUERIES:
            ids = [document for document, _ in ranked.run.ranking(query.id)]
            assert ids == nearest(query.text, k)
        assert len(ranked.warnings) == (top_k == 100)
        assert retriever.notes == []


@pytest.mark.slow
def test_postgres_with_pgvector(postgres, documents):
    # Its number is a distance: 0 is the best.
    from langchain_postgres import PGEngine, PGVectorStore

    address = postgres.replace("postgresql://", "postgresql+psycopg://")
    engine = PGEngine.from_connection_string(url=address)
    engine.init_vectorstore_table(table_name="passages", vector_size=32)
    store = PGVectorStore.create_sync(
        engine=engine, table_name="passages", embedding_service=EMBEDDING
    )
    store.add_documents(documents)

    best, distance = store.similarity_search_with_score("document number 7", k=1)[0]
    assert (best.metadata["doc"], distance) == ("d7", pytest.approx(0, abs=1e-6))
    check(store)
    asyncio.run(engine.close())


@pytest.mark.slow
def test_chroma_over_http(chroma, documents):
    import chromadb
    from langchain_chroma import Chroma

    client = chromadb.HttpClient(
        host="127.0.0.1", port=chroma, settings=chromadb.Settings(anonymized_telemetry=False)
    )
    store = Chroma(
        client=client,
        collection_name="passages",
        embedding_function=EMBEDDING,
        collection_metadata={"hnsw:space": "cosine"},
    )
    store.add_documents(documents, ids=[f"own-{n}" for n in range(len(documents))])

    check(store)


@pytest.mark.slow
def test_qdrant_in_its_local_mode(documents):
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    qdrant = pytest.importorskip("langchain_qdrant", reason="langchain-qdrant is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = qdrant.QdrantVectorStore.from_documents(
            documents, EMBEDDING, location=":memory:", collection_name="passages"
        )

    check(store)


def test_the_store_of_langchain_core_itself(documents):
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(EMBEDDING)
    store.add_documents(documents)

    check(store)
