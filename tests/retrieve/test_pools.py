"""Random pools against brute force: the ranking of the whole corpus, then its hits in the pool."""

import random
from dataclasses import replace

import pytest

from ragbench.comparison.hit_documents import PoolFilter
from ragbench.errors import DataError
from ragbench.experiment.calls import Calls
from ragbench.experiment.stages.retrieval import retrieve
from ragbench.rerank.mmr import MMR
from ragbench.retrieve.bm25 import BM25, RM3
from ragbench.retrieve.chunks import with_chunks
from ragbench.retrieve.dense import Dense
from ragbench.retrieve.fusion import Fusion
from ragbench.retrieve.python import as_retriever, first_documents, to_retriever
from ragbench.retrieve.run_file import RunFile
from ragbench.text.chunk import Chunking
from ragbench.types import Document, Query
from tests.executors.tasks import search_by_worker

POOLS_PER_RETRIEVER = 8  # of each of 2 corpora and 18 retrievers: 288 pools
WORDS = [
    "io",
    "europa",
    "moon",
    "orbit",
    "dust",
    "ring",
    "ice",
    "lava",
    "probe",
    "crater",
    "comet",
    "star",
]
VARIANTS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


def draw_corpus(rng, n=40):
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(0, 9))) for _ in range(n)]
    # equal texts tie, and the larger id comes first
    return [Document(f"d{n}", text) for n, text in enumerate([*texts, *texts[:5]])]


def draw_queries(rng, corpus):
    queries = []
    for number in range(POOLS_PER_RETRIEVER):
        pool = rng.sample([document.id for document in corpus], rng.randint(1, len(corpus)))
        text = " ".join(rng.choices(WORDS, k=rng.randint(1, 4)))
        queries.append(Query(f"q{number}", text, pool=tuple(pool)))
    return queries


def hits_of(retriever, queries, top_k, rankings=()):
    """Return the hits of each query as a run retrieves them."""
    hits = {}
    for row, outcome in retrieve(to_retriever(retriever), queries, top_k, Calls("it"), rankings):
        assert outcome.value is not None, outcome.detail
        hits[row] = outcome.value.documents
    return [hits[row] for row in range(len(queries))]


def brute_force(retriever, queries, corpus):
    """Return the hits in the pool of each query among all hits of the corpus."""
    wholes = hits_of(retriever, [replace(q, pool=None) for q in queries], 10 * len(corpus))
    in_pools = []
    for query, whole in zip(queries, wholes, strict=True):
        in_pools.append([hit for hit in whole if (hit.document or hit.id) in query.pool])
    return in_pools


@pytest.fixture(params=range(2), ids=["seed 0", "seed 1"])
def problem(request):
    rng = random.Random(request.param)
    corpus = draw_corpus(rng)
    return corpus, draw_queries(rng, corpus), rng


def by_overlap(corpus, takes_pool):
    """Return a function of the user that ranks by common words, with or without `pool=`."""
    words = {document.id: set(document.text.split()) for document in corpus}

    def rank(question, top_k, pool):
        common = {name: len(words[name] & set(question.split())) for name in pool or words}
        return sorted(common, key=lambda name: (-common[name], name))[:top_k]

    if takes_pool:
        return rank
    return lambda question: rank(question, len(words), None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_bm25_equals_brute_force(problem, variant):
    corpus, queries, rng = problem
    bm25 = BM25(variant=variant, stopwords="none")
    bm25.index(corpus)

    for top_k in (1, rng.randint(2, 8), 99):
        expected = [hits[:top_k] for hits in brute_force(bm25, queries, corpus)]
        assert hits_of(bm25, queries, top_k) == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_bm25_with_statistics_of_the_pool_is_an_index_of_the_pool_alone(problem, variant):
    corpus, queries, _ = problem
    bm25 = BM25(variant=variant, stopwords="none")
    bm25.pool_statistics = "pool"
    bm25.index(corpus)

    for query, hits in zip(queries, hits_of(bm25, queries, 5), strict=True):
        alone = BM25(variant=variant, stopwords="none")
        pool = [document for document in corpus if document.id in query.pool]
        if not any(document.text for document in pool):
            assert hits == []
            continue
        alone.index(pool)
        assert hits == alone.retrieve([replace(query, pool=None)], 5)[0]


def test_chunks_dense_run_files_and_own_code_equal_brute_force(problem, tmp_path, tiny_embedder):
    corpus, queries, rng = problem
    chunks = with_chunks(BM25(stopwords="none"), Chunking(by="words", size=3, overlap=1))
    # the function is asked for all hits, as `top_k` hits of the corpus may lack those of a pool
    own = by_overlap(corpus, takes_pool=False)
    retrievers = {
        "chunks": chunks,
        "dense": Dense(model=tiny_embedder, device="cpu"),
        "own": as_retriever(own, {}, "own"),
        "own with pool": as_retriever(by_overlap(corpus, takes_pool=True), {}, "own"),
        "run file": None,
    }
    for retriever in (chunks, retrievers["dense"]):
        retriever.cache_folder = tmp_path
        retriever.load()
        retriever.index(corpus)
    lines = []
    for query in queries:
        for document in corpus:
            lines.append(f"{query.id} Q0 {document.id} 1 {rng.randint(0, 9)} tag\n")
    (tmp_path / "any.trec").write_text("".join(lines))
    retrievers["run file"] = RunFile(path=tmp_path / "any.trec")

    for name, retriever in retrievers.items():
        for top_k in (1, 4, 99):
            expected = brute_force(retriever, queries, corpus)
            expected = [first_documents(hits, top_k) for hits in expected]
            assert hits_of(retriever, queries, top_k) == expected, (name, top_k)


def test_fusion_feedback_and_rerankers_combine_hits_in_the_pool(problem, tmp_path, tiny_embedder):
    corpus, queries, _ = problem
    texts = {document.id: document.text for document in corpus}
    bm25, plus = BM25(stopwords="none"), BM25(variant="bm25+", stopwords="none", b=0.9)
    sources = []
    for retriever in (bm25, plus):
        retriever.index(corpus)
        sources.append(brute_force(retriever, queries, corpus))
    fusion = Fusion(retrievers=["bm25", "plus"])
    feedback = RM3(retriever="bm25", terms=3, documents=4)
    feedback.borrow([bm25])
    mmr = MMR(model=tiny_embedder, device="cpu")
    mmr.cache_folder = tmp_path
    mmr.load()

    fused = hits_of(fusion, queries, 5, [hits_of(bm25, queries, 99), hits_of(plus, queries, 99)])
    expanded = hits_of(feedback, queries, 5, [hits_of(bm25, queries, 4)])
    selected = mmr.rerank(queries, with_texts(hits_of(bm25, queries, 99), texts), 5)

    whole = [replace(query, pool=None) for query in queries]
    assert fused == fusion.combine(whole, sources, 5)
    first_hits = [hits[:4] for hits in sources[0]]
    all_expanded = feedback.combine(whole, [first_hits], 99)
    for query, hits, retrieved in zip(queries, expanded, all_expanded, strict=True):
        assert hits == [hit for hit in retrieved.documents if hit.id in query.pool][:5]
    assert selected == mmr.rerank(whole, with_texts(sources[0], texts), 5)


class AllChunks:
    """Own index that returns all chunks, in their order."""

    def index(self, corpus):
        self.ids = [document.id for document in corpus]

    def retrieve(self, queries, top_k):
        return [self.ids for _ in queries]


class ChunksOfPool(AllChunks):
    def retrieve(self, queries, top_k, pool):
        return [[name for name in self.ids if name in of_query] for of_query in pool]


@pytest.mark.parametrize(("own", "n_outside"), [(AllChunks, 4), (ChunksOfPool, 0)])
def test_own_code_under_chunks_finds_the_chunks_of_the_pool(own, n_outside):
    chunked = with_chunks(own(), Chunking(by="words", size=1))
    chunked.index([Document("a", "io moon"), Document("b", "dust"), Document("c", "ice ring lava")])

    [(_, outcome)] = retrieve(chunked, [Query("q", "?", pool=("a", "missing"))], 2, Calls("it"))

    assert [hit.document for hit in outcome.value.documents] == ["a", "a"]
    assert outcome.value.n_outside == n_outside


def with_texts(rankings, texts):
    filled = []
    for hits in rankings:
        filled.append([type(hit)(hit.id, hit.score, texts[hit.id]) for hit in hits])
    return filled


@pytest.mark.parametrize("kind", ["whole", "chunks", "feedback"])
def test_workers_find_the_same_hits_in_a_pool(worker, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("ragbench.retrieve.bm25.WORTH_KEEPING", 0)
    rng = random.Random(7)
    corpus = draw_corpus(rng)
    queries = draw_queries(rng, corpus)[:5]
    bm25 = BM25(stopwords="none")
    retriever = bm25
    if kind == "chunks":
        retriever = with_chunks(bm25, Chunking(by="words", size=3, overlap=0))
    retriever.cache_folder = tmp_path
    retriever.executor = worker
    retriever.load()
    retriever.index(corpus)
    rankings = []
    if kind == "feedback":
        rankings = [hits_of(bm25, queries, 4)]
        retriever = RM3(retriever="bm25", terms=3, documents=4)
        retriever.borrow([bm25])
    here = hits_of(retriever, queries, 4, rankings)
    search = retriever.index_search(4)
    for row, query in enumerate(queries):
        hits = [ranking[row] for ranking in rankings]
        retrieved = search_by_worker(worker, search, query, hits)
        assert retrieved.documents == here[row]


@pytest.mark.parametrize("statistics", ["corpus", "pool"])
def test_an_empty_pool_has_no_hits_and_an_unknown_document_is_refused(statistics):
    bm25 = BM25()
    bm25.pool_statistics = statistics
    bm25.index([Document("a", "moon"), Document("b", "")])

    hits = bm25.retrieve([Query("q", "moon", pool=pool) for pool in ((), ("b",), ("a",))], 5)

    assert [[hit.id for hit in ranking] for ranking in hits] == [[], [], ["a"]]
    with pytest.raises(DataError, match="'gone'"):
        bm25.retrieve([Query("q", "moon", pool=("gone",))], 5)


def test_hits_in_other_spellings_are_in_the_pool():
    pools = PoolFilter([Document("docs/io.md", "Io."), Document("docs/europa.md", "Europa.")])
    inside = pools.inside(["docs/io.md"])
    [*_, (_, outcome)] = retrieve(
        as_retriever(lambda question: ["io.md", "europa.md", "docs/io.md", "gone"], {}, "own"),
        [Query("q", "?", pool=("docs/io.md",))],
        9,
        Calls("own"),
        pools=pools,
    )

    assert [hit.id for hit in outcome.value.documents] == ["io.md", "docs/io.md"]
    assert outcome.value.n_outside == 2
    assert inside(outcome.value.documents[0])
