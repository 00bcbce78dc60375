"""The parts of `scale.py` that may take long: documents, rows, judgements, systems, questions.

`python benchmarks/scale_parts.py` alone measures each of them at a small size.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bars import Bars

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("scale.jsonl")
VOCABULARY, WORDS, QUERY_WORDS, TOP_K = 100_000, 60, 8, 100
# Numbers of a vector: 384, as all-MiniLM-L6-v2 has them, or what `--width` says
WIDTH = int(os.environ.get("SCALE_WIDTH", "384"))
HITS = 100
Line = dict[str, float | str]


# What is made


def texts(count: int, words: int, seed: int) -> Iterator[str]:
    """Texts whose words follow Zipf's law."""
    import numpy as np

    rng = np.random.default_rng(seed)
    names = np.array([f"w{rank}" for rank in range(VOCABULARY)], dtype=object)
    # Zipf: word of rank r with weight 1 / r
    up_to = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    for start in range(0, count, 10_000):
        drawn = rng.random((min(10_000, count - start), words)) * up_to[-1]
        for row in names[np.searchsorted(up_to, drawn)]:
            yield " ".join(row)


def write_corpus(folder: Path, documents: int, queries: int) -> None:
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as stream:
        for row, text in enumerate(texts(documents, WORDS, 19)):
            stream.write(f'{{"_id": "d{row}", "text": "{text}"}}\n')
    with (folder / "queries.jsonl").open("w") as stream:
        for row, text in enumerate(texts(queries, QUERY_WORDS, 23)):
            stream.write(f'{{"_id": "q{row}", "text": "{text}"}}\n')
    with (folder / "qrels" / "test.tsv").open("w") as stream:
        stream.write("query-id\tcorpus-id\tscore\n")
        stream.writelines(f"q{row}\td{row * 7}\t1\n" for row in range(queries))
    (folder / "run.yaml").write_text(
        "dataset: {type: beir, path: .}\nretrievers: {bm25: {type: bm25}}\n"
        f"metrics: {{retrieval: {{measures: [ndcg@10], top_k: {TOP_K}}}}}\n"
    )


def write_rows(folder: Path, rows: int) -> None:
    """A run file of 100 hits a query, three of them judged."""
    import random

    rng = random.Random(29)
    names = [f"d{rng.randrange(10**7)}" for _ in range(100_003)]
    tails = [f" {rank} {(HITS - rank) / 8 + 0.1} s\n" for rank in range(1, HITS + 1)]
    with (folder / "run.trec").open("w") as run, (folder / "qrels.txt").open("w") as qrels:
        for query in range(rows // HITS):
            # another window of names for each query, without drawing 100 names for each
            offset = query * 37 % (len(names) - HITS)
            hits = names[offset : offset + HITS]
            run.write("".join(f"q{query} Q0 {d}{end}" for d, end in zip(hits, tails, strict=True)))
            # gold at the top, behind the first page, and deep: no measure is constant
            for place in (2, 11, 53):
                qrels.write(f"q{query} 0 {hits[place]} 1\n")


# What is measured, each in a process of its own


def took(command: Sequence[str], folder: Path) -> Line:
    """Run a command to its end; what it printed as JSON, its times and its memory."""
    environment = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), **os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment |= {"RAGBENCH_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    printed = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    line: Line = json.loads(printed) if printed.startswith("{") else {}
    return {
        **line,
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "wall_s": round(time.perf_counter() - start, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


def child(step: str, folder: Path, *arguments: object) -> Line:
    return took([__file__, f"_{step}", *map(str, arguments)], folder)


def size_mb(folder: Path) -> float:
    sizes = (path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return round(sum(sizes) / 1e6, 1)


class Steps:
    """CPU time and memory, step by step; printed as JSON."""

    def __init__(self) -> None:
        self.line: Line = {}
        self._since = time.process_time()

    def __call__(self, step: str) -> None:
        """Note what a step took."""
        time_s = time.process_time()
        self.line[f"{step}_s"] = round(time_s - self._since, 3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.line[f"{step}_peak_mb"] = round(peak / 1024)
        self._since = time_s


def search(kind: str) -> None:
    """Read the corpus of this folder, index it, and search."""
    from ragbench.data.loaders.beir import Beir
    from ragbench.files import cache_folder

    steps = Steps()
    collection = Beir(path=Path()).load()
    steps("read")
    retriever = create_retriever(kind)
    retriever.cache_folder = cache_folder()
    retriever.index(collection.documents)
    steps("index")
    hits = retriever.retrieve(collection.queries, TOP_K)
    steps("search")
    # faiss looks at some vectors alone, and a query of rare words has few documents
    print(json.dumps({**steps.line, "hits": sum(map(len, hits)) / len(hits)}))


def create_retriever(kind: str):  # type: ignore[no-untyped-def]
    """A retriever; a dense one over vectors that are sums of those of their words."""
    import numpy as np

    from ragbench.embed.cache import CachedEmbedder
    from ragbench.files import cache_folder
    from ragbench.retrieve.bm25 import BM25
    from ragbench.retrieve.dense import Dense
    from ragbench.store.database import CACHE_FILE

    if kind == "bm25":
        return BM25()

    class Words:
        """Takes some 20 microseconds a text, so that what is measured is not the model."""

        identity, revision, limit, manner = f"words-{WIDTH}", "", None, "alone"
        prompts: Mapping[str, str] = {"query": "", "document": ""}

        def __init__(self) -> None:
            rng = np.random.default_rng(31)
            self._vectors = rng.standard_normal((VOCABULARY, WIDTH), dtype=np.float32)

        def encode(self, texts, *, prompt="", normalize=True, advance=len):  # type: ignore[no-untyped-def]
            rows = [[int(word[1:]) for word in text.split()] for text in texts]
            return np.stack([self._vectors[row].sum(axis=0) for row in rows])

        def count_tokens(self, texts, *, prompt=""):  # type: ignore[no-untyped-def]
            return [text.count(" ") + 1 for text in texts]

    Path("model").mkdir(exist_ok=True)
    Path("model/config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    retriever = Dense(model=str(Path("model").resolve()), index=kind)
    retriever._open = lambda: CachedEmbedder(Words(), cache_folder() / CACHE_FILE)
    return retriever


def judge(count: int) -> None:
    """Judge so many answers by one rubric, on a server in another process."""
    from ragbench.llm import Replies
    from ragbench.score.judge.base import JudgedItem
    from ragbench.score.judge.chat import OpenAIJudge
    from ragbench.score.judge.rubric import load_rubric

    rubric = load_rubric("fluency")
    items = (
        JudgedItem(f"When did bridge {i} open?", f"Bridge {i} opened in {1900 + i % 100}.")
        for i in range(count)
    )
    judge = OpenAIJudge(model="m", base_url=os.environ["SERVER"], concurrency=64)
    steps = Steps()
    with Replies(Path("cache/replies.sqlite")) as replies:
        judge.keep_replies(replies)
        done = sum(1 for _ in judge.judge_each(items, [rubric]))
        totals = judge.totals()
        judge.close()
    assert done == count
    steps("judge")
    steps.line |= {"input_tokens": totals.input_tokens, "output_tokens": totals.output_tokens}
    print(json.dumps(steps.line))


# The parts


def of_documents(counts: Sequence[int], retrievers: Sequence[str], queries: int) -> Iterator[Line]:
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_corpus(folder, count, queries)
            for kind in retrievers:
                about: Line = {"part": "documents", "documents": count, "queries": queries}
                size_before = size_mb(folder / "cache")
                first = child("search", folder, kind)
                cache_size = {"cache_mb": round(size_mb(folder / "cache") - size_before, 1)}
                again = {
                    f"again_{key}": value for key, value in child("search", folder, kind).items()
                }
                width = int(os.environ.get("SCALE_WIDTH", WIDTH))
                yield {**about, "retriever": kind, "width": width, **cache_size, **first, **again}
            if "bm25" in retrievers:
                for run in ("first", "stored"):
                    line = took(["-m", "ragbench", "run", "run.yaml", "--quiet"], folder)
                    yield {
                        "part": "run",
                        "documents": count,
                        "queries": queries,
                        "run": run,
                        **line,
                    }


def of_rows(counts: Sequence[int], workers: Sequence[int]) -> Iterator[Line]:
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_rows(folder, count)
            size = (folder / "run.trec").stat().st_size / 1e6
            command = ["-m", "ragbench", "score", "qrels.txt"]
            # the smallest run there is, to compile the package
            (folder / "one.trec").write_text("q0 Q0 d1 1 1.0 s\n")
            took([*command, "one.trec"], folder)  # compiled once, as an installed package is
            for n_workers in workers:
                line = took([*command, "run.trec", "--workers", str(n_workers)], folder)
                yield {
                    "part": "rows",
                    "rows": count,
                    "workers": n_workers,
                    "file_mb": round(size),
                    **line,
                }


def of_judgements(counts: Sequence[int]) -> Iterator[Line]:
    from tests.chat_server import ChatServer

    for count in counts:
        reply = '{"reasoning": "It reads well.", "level": 4}'
        with tempfile.TemporaryDirectory() as name, ChatServer(reply) as server:
            os.environ["SERVER"] = server.url
            folder = Path(name)
            (folder / "cache").mkdir()
            line = child("judge", folder, count)
            yield {
                "part": "judgements",
                "judgements": count,
                **line,
                "cache_mb": size_mb(folder / "cache"),
            }


def of_systems(counts: Sequence[int], folders: int) -> Iterator[Line]:
    """Run so many run files over 200 queries, then write one page for folders of 10 systems."""
    from scale import write_files

    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            write_files(Path(name), 200, count, 10)
            line = took(["-m", "ragbench", "run", "run.yaml", "--quiet"], Path(name))
            yield {"part": "systems", "systems": count, **line, "bar_mb": 100 + 2.5 * count}
    with tempfile.TemporaryDirectory() as name:
        folder, head = (
            Path(name),
            "statistics: {resamples: 1000}\nmetrics: {retrieval: {top_k: 10}}\n",
        )
        write_files(folder, 200, 10 * folders, 10)
        for run in range(folders):
            files = range(10 * run, 10 * run + 10)
            retrievers = "".join(f"  s{n}: {{type: run_file, path: {n}.trec}}\n" for n in files)
            (folder / "run.yaml").write_text(
                f"name: r{run}\ndataset: {{type: trec, qrels: qrels.txt, topics: topics.tsv}}\n"
                f"{head}retrievers:\n{retrievers}"
            )
            took(["-m", "ragbench", "run", "run.yaml", "--quiet"], folder)
        runs = [f"runs/r{run}" for run in range(folders)]
        line = took(["-m", "ragbench", "report", *runs, "-o", "page.html"], folder)
        yield {"part": "page", "folders": folders, **line, "bar_mb": 100 + 18 * folders}


def write_questions(folder: Path, questions: int, run_files: int) -> None:
    """Write a BEIR set of 1,000 documents with texts, and run files of 10 hits a question."""
    documents, hits, rng = 1_000, 10, random.Random(7)
    (folder / "data" / "qrels").mkdir(parents=True)
    with (folder / "data" / "corpus.jsonl").open("w") as stream:
        for row, text in enumerate(texts(documents, WORDS, 19)):
            stream.write(f'{{"_id": "d{row}", "title": "title {row}", "text": "{text}"}}\n')
    with (folder / "data" / "queries.jsonl").open("w") as stream:
        for row, text in enumerate(texts(questions, QUERY_WORDS, 23)):
            stream.write(f'{{"_id": "q{row}", "text": "{text}"}}\n')
    gold = [rng.randrange(documents) for _ in range(questions)]
    with (folder / "data" / "qrels" / "test.tsv").open("w") as stream:
        stream.write("query-id\tcorpus-id\tscore\n")
        stream.writelines(f"q{row}\td{document}\t1\n" for row, document in enumerate(gold))
    for number in range(run_files):
        # each system finds the gold of more questions than the one before
        share = 0.3 + 0.2 * number
        with (folder / f"{number}.trec").open("w") as stream:
            for row, document in enumerate(gold):
                ranking = rng.sample(range(documents), hits)
                if rng.random() < share and document not in ranking:
                    ranking[rng.randrange(hits)] = document
                stream.writelines(
                    f"q{row} Q0 d{name} {rank} {hits - rank + 1} s{number}\n"
                    for rank, name in enumerate(ranking, start=1)
                )
    retrievers = "".join(f"  s{n}: {{type: run_file, path: {n}.trec}}\n" for n in range(run_files))
    (folder / "run.yaml").write_text(
        "name: questions\ndataset: {type: beir, path: data, split: test}\n"
        f"retrievers:\n{retrievers}metrics: {{retrieval: {{top_k: {hits}}}}}\n"
    )


# Questions and run files -> most memory of a run, and of `report` and `explain` of it, in MB
QUESTION_BARS = {(100_000, 3): (800, 600), (1_000_000, 1): (6_000, 6_000)}


def of_questions(sizes: Sequence[tuple[int, int]]) -> Iterator[Line]:
    """Run over some questions and run files, then write the page and the explanation."""
    for questions, run_files in sizes:
        of_run, of_readers = QUESTION_BARS.get((questions, run_files), (None, None))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_questions(folder, questions, run_files)
            run = "runs/questions"
            for command, bar in (
                (["run", "run.yaml", "--quiet"], of_run),
                (["report", run, "-o", "page.html"], of_readers),
                (["explain", run], of_readers),
            ):
                line = took(["-m", "ragbench", *command], folder)
                yield {
                    "part": "questions",
                    "questions": questions,
                    "run_files": run_files,
                    "command": command[0],
                    **line,
                    **({} if bar is None else {"bar_mb": bar}),
                }


def main(arguments: Sequence[str]) -> None:
    if arguments and arguments[0].startswith("_"):
        {"_search": search, "_judge": lambda n: judge(int(n))}[arguments[0]](arguments[1])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part", choices=("documents", "rows", "judgements", "systems", "questions", "all")
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[20_000])
    parser.add_argument("--retrievers", nargs="+", default=["bm25", "exact"])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--width", type=int, default=WIDTH, help="numbers of a vector")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--judgements", type=int, nargs="+", default=[500])
    parser.add_argument("--systems", type=int, nargs="+", default=[50])
    parser.add_argument("--folders", type=int, default=5, help="run folders of 10 systems")
    parser.add_argument("--questions", type=int, default=100_000, help="by 3 run files of 10 hits")
    parser.add_argument("--million", action="store_true", help="1,000,000 questions by 1 file, too")
    parser.add_argument("--keep", action="store_true", help=f"append the lines to {RESULTS.name}")
    chosen = parser.parse_args(arguments)
    os.environ["SCALE_WIDTH"] = str(chosen.width)
    parts = {
        "documents": lambda: of_documents(chosen.documents, chosen.retrievers, chosen.queries),
        "rows": lambda: of_rows(chosen.rows, chosen.workers),
        "judgements": lambda: of_judgements(chosen.judgements),
        "systems": lambda: of_systems(chosen.systems, chosen.folders),
        "questions": lambda: of_questions(
            [(chosen.questions, 3), *([(1_000_000, 1)] if chosen.million else [])]
        ),
    }
    # the lines of JSON are alone on stdout
    bars = Bars(sys.stderr)
    for part in parts if chosen.part == "all" else [chosen.part]:
        for line in parts[part]():
            text = json.dumps(line)
            print(text, flush=True)
            if "bar_mb" in line:
                name = " ".join(str(line[key]) for key in ("part", "command") if key in line)
                sentence = f"{name}: {line['peak_mb']} MB, at most {line['bar_mb']}"
                bars.check(sentence, float(line["peak_mb"]) <= float(line["bar_mb"]))
            if chosen.keep:
                with RESULTS.open("a", encoding="utf-8") as stream:
                    stream.write(f"{text}\n")
    bars.exit()


if __name__ == "__main__":
    main(sys.argv[1:] or ["all"])
