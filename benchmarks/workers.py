"""`executor: {type: local, workers: N}`: two workers against one, one against none, memory.

    python benchmarks/workers.py [--size 0.2] [--rounds 1]

Wall time says little on a machine that others use. Beside it stands what the CPU times allow: work
that is split is done when the busiest process is, and each process has a core. Start-up is left
out, and so is making the texts; each figure is the median of several rounds in turn. Models are as
large as small ones are, and have random weights: what they say does not matter here. The page
docs/scale.md has the figures of `--size 1 --rounds 5`, which take a quarter of an hour. No bar.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import string
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from ragbench.executors.base import Executor
from ragbench.executors.local import Local
from ragbench.experiment.calls import Calls
from ragbench.experiment.stages.retrieval import retrieve
from ragbench.retrieve.base import Retriever
from ragbench.retrieve.bm25 import BM25, RM3
from ragbench.retrieve.chunks import with_chunks
from ragbench.score.judge import JUDGES
from ragbench.score.judge.base import JudgedItem
from ragbench.score.judge.judge import load_rubrics
from ragbench.score.judge.python import as_judge
from ragbench.score.judge.verdicts import judge_all, judge_on
from ragbench.score.text.columns import TextScorer
from ragbench.text.chunk import Chunking
from ragbench.types import Document, Query

_TICKS = 100  # a second, in /proc
os.environ.setdefault("OMP_NUM_THREADS", "1")  # in the run as on workers
Work = Callable[[Executor | None], object]
# Makes the texts of a round; what is left is to be measured
Making = Callable[[], Work]


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--size", type=float, default=0.2, help="times as much work")
    options.add_argument("--only", default="", help="works whose name has this")
    chosen = options.parse_args()
    print(f"load of the machine before: {_load()}, cores: {os.cpu_count()}")
    print(f"{'work':<42}{'two : one':>20}{'one : none':>20}{'memory, MB':>18}")
    print(f"{'':<42}{'CPU':>10}{'wall':>10}{'CPU':>10}{'wall':>10}{'run':>9}{'worker':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, making in _works(Path(folder), chosen.size).items():
            if chosen.only in name:
                print(f"{name:<42}{_measured(making, chosen.rounds)}", flush=True)
    print(f"load of the machine after: {_load()}")


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _works(folder: Path, size: float) -> dict[str, Making]:
    metrics = ["rouge1", "rouge2", "rougeL", "bleu", "chrf"]
    works: dict[str, Making] = {}
    for n_systems, n_rows, answer, gold in ((2, 1000, 100, 100), (4, 4000, 8, 4)):
        rows = round(n_rows * size)
        name = f"ROUGE, BLEU, chrF, {n_systems} x {rows} of {answer} words"
        works[name] = _scoring(metrics, n_systems, rows, (answer, gold))
    few = round(300 * size)
    words = "python:tests.words:Words"
    works[f"judge of words, {10 * few} answers"] = _judging(words, {}, 10 * few)
    chunked, documents = with_chunks(BM25(), Chunking(by="words", size=20)), round(50_000 * size)
    works[f"BM25 over chunks, {5 * few} queries"] = _searching(chunked, documents, 5 * few)
    feedback = _searching(BM25(), documents, 5 * few, RM3(retriever="bm25"))
    works[f"BM25 and RM3, {5 * few} queries"] = feedback
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        print("without models: pip install 'ragbench-eval[bertscore,dense]'")
        return works
    bert, entailment = _models(folder)
    works[f"judge nli, {few} answers"] = _judging("nli", {"model": entailment}, few)
    bertscore = [f'bertscore(model="{bert}", num_layers=6)']
    works[f"BERTScore, {2 * few} answers"] = _scoring(bertscore, 1, 2 * few, (60, 60))
    return works


def _scoring(metrics: Sequence[str], systems: int, rows: int, words: tuple[int, int]) -> Making:
    """Several systems that answer the same questions."""
    scorers: dict[int, TextScorer] = {}  # a model stays loaded

    def make() -> Work:
        gold = [[text] for text in _texts(rows, words[1])]
        answers = [_texts(rows, words[0]) for _ in range(systems)]

        def score(executor: Executor | None) -> None:
            scorer = scorers.setdefault(id(executor), TextScorer(metrics, executor))
            for texts in answers:
                scorer.score(texts, gold)

        return score

    return make


def _judging(type_name: str, options: dict[str, str], rows: int) -> Making:
    judge = as_judge(JUDGES.load(type_name)(**options))
    names = ["faithfulness"] if type_name == "nli" else ["faithfulness", "correctness"]
    rubrics = load_rubrics(names, type_name, judge)

    def make() -> Work:
        passages, gold = _texts(2 * rows, 40), _texts(rows, 20)
        items = [
            JudgedItem("Why?", text, passages[2 * row : 2 * row + 2], [gold[row]])
            for row, text in enumerate(_texts(rows, 30))
        ]

        def judged(executor: Executor | None) -> None:
            if executor is None:
                judge_all(judge, items, rubrics)
            else:
                for _ in judge_on(executor, items, rubrics, judge, type_name, options):
                    pass

        return judged

    return make


def _searching(first: Retriever, documents: int, queries: int, second: RM3 | None = None) -> Making:
    """Queries of six words over documents of sixty; with RM3, its second search alone."""
    indexed: list[tempfile.TemporaryDirectory[str]] = []

    def index() -> None:
        indexed.append(tempfile.TemporaryDirectory())
        first.cache_folder, first.executor = Path(indexed[0].name), Local(workers=1)
        first.load()
        first.index([Document(f"d{n}", text) for n, text in enumerate(_texts(documents, 60))])
        if second is not None:
            second.borrow([first])

    def make() -> Work:
        if not indexed:
            index()
        searched_queries = [Query(f"q{n}", text) for n, text in enumerate(_texts(queries, 6))]
        first_hits = [] if second is None else [first.retrieve(searched_queries, second.depth)]

        def search_all(executor: Executor | None) -> None:
            of = first if second is None else second
            if executor is None:
                _ = (
                    of.retrieve(searched_queries, 10)
                    if second is None
                    else second.combine(searched_queries, first_hits, 10)
                )
                return
            assert of.index_search(10) is not None
            for _, outcome in retrieve(
                of, searched_queries, 10, Calls("search"), first_hits, executor
            ):
                assert outcome.value is not None

        return search_all

    return make


def _models(folder: Path) -> tuple[str, str]:
    """A BERT of six layers, and one that tells entailment, with random weights."""
    import torch
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        BertModel,
        BertTokenizerFast,
    )

    torch.manual_seed(13)
    letters = [*string.ascii_lowercase, *string.digits]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]
    words += [*_WORDS, *letters, *(f"##{letter}" for letter in letters)]
    labels = dict(enumerate(("contradiction", "entailment", "neutral")))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        id2label=labels,
        label2id={name: number for number, name in labels.items()},
    )
    folders = []
    for name, kind in (("bert", BertModel), ("nli", BertForSequenceClassification)):
        place = str(folder / name)
        kind(config).save_pretrained(place)
        vocabulary = {word: number for number, word in enumerate(words)}
        BertTokenizerFast(vocab=vocabulary, model_max_length=512).save_pretrained(place)
        folders.append(place)
    return folders[0], folders[1]


def _texts(n: int, length: int) -> list[str]:
    """Other texts in each call: nothing of them is kept from the round before."""
    return [" ".join(_random.choices(_WORDS, k=length)) + "." for _ in range(n)]


_WORDS = [f"word{number}" for number in range(2000)]
_random = random.Random(13)


def _measured(making: Making, rounds: int) -> str:
    with closing(Local(workers=1)) as one, closing(Local(workers=2)) as two:
        started: list[list[int]] = []
        work = making()
        for executor in (None, one, two):  # starts workers, loads models
            children = _children()
            work(executor)
            started.append(sorted(_children() - children))
        executors = list(zip((None, one, two), started, strict=True))
        times = []
        for _ in range(rounds):
            work = making()
            times.append([_timed(work, *setting) for setting in executors])
        memory = [_peak_mb("self"), max(map(_peak_mb, started[2]))]
    in_run, by_one, by_two = zip(*times, strict=True)
    faster = [_ratio(by_one, by_two, "busiest"), _ratio(by_one, by_two, "wall")]
    slower = [_ratio(by_one, in_run, "total") - 1, _ratio(by_one, in_run, "wall") - 1]
    return (
        "".join(f"{setting:>9.2f}x" for setting in faster)
        + "".join(f"{setting:>+9.0%} " for setting in slower)
        + "".join(f"{setting:>9,.0f}" for setting in memory)
    )


def _ratio(a: tuple[dict[str, float], ...], b: tuple[dict[str, float], ...], key: str) -> float:
    return statistics.median(x[key] / y[key] for x, y in zip(a, b, strict=True))


def _timed(work: Work, executor: Executor | None, pids: Sequence[int]) -> dict[str, float]:
    cpu_start = [_cpu(pid) for pid in ("self", *pids)]
    start = time.perf_counter()
    work(executor)
    wall = time.perf_counter() - start
    spent = [_cpu(pid) - was for pid, was in zip(("self", *pids), cpu_start, strict=True)]
    return {"wall": wall, "total": sum(spent), "busiest": max(spent)}


def _children() -> set[int]:
    """Our processes."""
    path = Path("/proc/self/task")
    return {int(pid) for task in path.iterdir() for pid in (task / "children").read_text().split()}


def _cpu(pid: int | str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak_mb(pid: int | str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
