"""The main job against the BM25 library alone: `ragbench run` on a generated collection.

    python benchmarks/main_job.py [documents] [queries]

Both start a fresh process and read the same files. The library tokenises, indexes and searches;
ragbench also checks the data, stems, scores eight measures with intervals, and writes its report.
Bar: twice the library's wall time plus five seconds.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bars import Bars
from bm25 import texts

# the same job as a script would do it: read, index, search, no scores and no report
LIBRARY = """
import bm25s, json, sys
def read(name): return [json.loads(line)["text"] for line in open(name, encoding="utf-8")]
corpus, questions = read("corpus.jsonl"), read("queries.jsonl")
index = bm25s.BM25(k1=0.9, b=0.4)
index.index(bm25s.tokenize(corpus, stopwords="en", show_progress=False), show_progress=False)
asked = bm25s.tokenize(questions, stopwords="en", show_progress=False)
index.retrieve(asked, k=100, show_progress=False)
"""


def write_collection(folder: Path, n_documents: int, n_queries: int) -> None:
    """A collection in the BEIR layout; each query is judged for one document with its words."""
    rng = random.Random(11)
    documents = texts(n_documents, 200, rng)
    with (folder / "corpus.jsonl").open("w") as stream:
        for i, text in enumerate(documents):
            stream.write(json.dumps({"_id": f"d{i}", "title": "", "text": text}) + "\n")
    (folder / "qrels").mkdir()
    with (
        (folder / "queries.jsonl").open("w") as queries,
        (folder / "qrels" / "test.tsv").open("w") as qrels,
    ):
        qrels.write("query-id\tcorpus-id\tscore\n")
        for i in range(n_queries):
            document = rng.randrange(n_documents)
            # six words of a document find that document, so the ranking is no noise
            words = rng.sample(documents[document].split(), 6)
            queries.write(json.dumps({"_id": f"q{i}", "text": " ".join(words)}) + "\n")
            qrels.write(f"q{i}\td{document}\t1\n")
    (folder / "run.yaml").write_text(
        "dataset: {type: beir, path: ., split: test}\nretrievers: {bm25: {type: bm25}}\n"
    )


def wall(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [5_000, 300]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_collection(folder, *sizes)
        ours, library = [], []
        for _ in range(3):
            library.append(wall([sys.executable, "-c", LIBRARY], folder))
            ours.append(wall([sys.executable, "-m", "ragbench", "run", "run.yaml"], folder))
    # twice the library, and five seconds for scores, intervals and the report
    bar = 2 * min(library) + 5
    bars = Bars()
    bars.check(
        f"main job: {sizes[0]} documents, {sizes[1]} queries: {min(ours):.1f} s, bm25s alone "
        f"{min(library):.1f} s, at most {bar:.1f} s",
        min(ours) <= bar,
    )
    bars.exit()


if __name__ == "__main__":
    main()
