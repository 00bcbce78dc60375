"""The BM25 stage against the library that it stands on: indexing and search, CPU time.

    python benchmarks/bm25.py [documents] [queries]

Both get the same generated texts and the same analysis (lower-cased words, English stop words,
no stemmer), alternated in one process. Bar: at most 1.3 times the library's own time.
"""

from __future__ import annotations

import random
import sys
import time

import bm25s
from bars import Bars

from ragbench.retrieve.bm25 import BM25
from ragbench.types import Document, Query

# CPU time of ours divided by that of bm25s
BAR = 1.3


def texts(n: int, words: int, rng: random.Random) -> list[str]:
    """Texts whose words follow Zipf's law."""
    vocabulary = [f"w{i}" for i in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(vocabulary))]
    return [" ".join(rng.choices(vocabulary, weights, k=words)) for _ in range(n)]


def library(corpus: list[str], questions: list[str]) -> list[set[int]]:
    tokens = bm25s.tokenize(corpus, stopwords="en", show_progress=False)
    # the defaults of ragbench
    index = bm25s.BM25(k1=0.9, b=0.4)
    index.index(tokens, show_progress=False)
    query_tokens = bm25s.tokenize(questions, stopwords="en", show_progress=False)
    documents, _ = index.retrieve(query_tokens, k=10, show_progress=False)
    return [set(row.tolist()) for row in documents]


def ours(corpus: list[str], questions: list[str]) -> list[set[int]]:
    # bm25s stems only with a further package
    retriever = BM25(stemmer="none")
    retriever.index([Document(str(i), text) for i, text in enumerate(corpus)])
    ranked = retriever.retrieve([Query(str(i), text) for i, text in enumerate(questions)], 10)
    return [{int(hit.id) for hit in hits} for hits in ranked]


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [5_000, 300]
    rng = random.Random(7)
    corpus, questions = texts(sizes[0], 120, rng), texts(sizes[1], 8, rng)
    times: dict[str, list[float]] = {"ours": [], "library": []}
    documents = {}
    # in turns, so that a busy machine slows both
    for _ in range(4):
        for name, function in (("library", library), ("ours", ours)):
            start = time.process_time()
            documents[name] = function(corpus, questions)
            times[name].append(time.process_time() - start)
    pairs = zip(documents["ours"], documents["library"], strict=True)
    same = sum(len(a & b) for a, b in pairs) / (10 * len(questions))
    ratio = min(times["ours"]) / min(times["library"])
    bars = Bars()
    bars.check(
        f"bm25: {sizes[0]} documents, {sizes[1]} queries: {min(times['ours']):.2f} s CPU, bm25s "
        f"{min(times['library']):.2f} s: {ratio:.2f} times, at most {BAR}; "
        f"top 10 in common {same:.1%}",
        ratio <= BAR,
    )
    bars.exit()


if __name__ == "__main__":
    main()
