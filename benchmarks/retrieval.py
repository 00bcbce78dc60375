"""Scoring runs against the peers: CPU, wall time and peak memory from files, and time from dicts.

    python benchmarks/retrieval.py [rows]    # 10,000,000 by default, as the bars ask for

Generates runs of 1,000 documents a query, every ninth score tied with the one before, and 50
judgements a query. Each tool reads the same files in a fresh process, the tools taking turns; the
smallest of the turns counts. Beyond 1,000,000 rows they are ragbench and pytrec_eval, which the
bars are about. Up to there, all peers that are installed are compared; a built trec_eval is looked
for on the path. Values must agree to 1e-9, or to the four digits that trec_eval prints; ranx breaks
ties otherwise, so its difference is shown, not checked, and in each process it waits for numba.
Then the growth of ragbench from 10,000 rows on, and calls on dicts: of the same run, and of 10,000
lists of 10 documents.

Bars: at 10,000,000 rows from files 5 times pytrec_eval by CPU time with 0.12 of its memory; at
1,000,000 rows from dicts 3 times pytrec_eval.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bars import Bars

DEPTH = 1000
ROWS, ROWS_OF_PEERS = 10_000_000, 1_000_000
MEASURES = ["ndcg@10", "map", "mrr", "precision@10", "recall@100"]
TREC_EVAL = ["ndcg_cut.10", "map", "recip_rank", "P.10", "recall.100"]
BARS = {"files": (10_000_000, 5.0), "memory": (10_000_000, 0.12), "dicts": (1_000_000, 3.0)}

PYTREC_EVAL = """
import json, pytrec_eval, sys
with open(sys.argv[1]) as f: run = pytrec_eval.parse_run(f)
with open(sys.argv[2]) as f: qrels = pytrec_eval.parse_qrel(f)
asked = ["ndcg_cut.10", "map", "recip_rank", "P.10", "recall.100"]
values = pytrec_eval.RelevanceEvaluator(qrels, set(asked)).evaluate(run).values()
print(json.dumps([sum(v[m.replace(".", "_")] for v in values) / len(values) for m in asked]))
"""
IR_MEASURES = """
import ir_measures as ir, json, sys
asked = [ir.nDCG@10, ir.AP, ir.RR, ir.P@10, ir.R@100]
values = ir.calc_aggregate(asked, ir.read_trec_qrels(sys.argv[2]), ir.read_trec_run(sys.argv[1]))
print(json.dumps([values[m] for m in asked]))
"""
RANX = """
import json, ranx, sys
asked = ["ndcg@10", "map", "mrr", "precision@10", "recall@100"]
qrels = ranx.Qrels.from_file(sys.argv[2], kind="trec")
values = ranx.evaluate(qrels, ranx.Run.from_file(sys.argv[1], kind="trec"), asked)
print(json.dumps([float(values[m]) for m in asked]))
"""


class Cost(NamedTuple):
    """CPU and wall time and peak memory of a process."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def write_files(folder: Path, rows: int) -> tuple[str, str]:
    """Write a run and its qrels; return their paths.

    Four decimals differ as 32-bit floats too, which is how pytrec_eval compares scores.
    """
    run, qrels = folder / f"run-{rows}", folder / f"qrels-{rows}"
    if run.exists():
        return str(run), str(qrels)
    rng = random.Random(17)
    with run.open("w") as hits, qrels.open("w") as grades:
        for query in range(rows // DEPTH):
            documents, score = rng.sample(range(2_000_000), DEPTH), 100.0
            for rank, document in enumerate(documents, start=1):
                score -= rng.random() * 0.1 * (rng.random() > 0.11)
                hits.write(f"q{query} Q0 doc-{document:07d} {rank} {score:.4f} made\n")
            judged = rng.sample(documents, 30) + rng.sample(range(2_000_000, 2_100_000), 20)
            for document in judged:
                grades.write(f"q{query} 0 doc-{document:07d} {rng.choice([0, 0, 1, 2, 3])}\n")
    return str(run), str(qrels)


def commands(run: str, qrels: str) -> dict[str, list[str]]:
    """Return the command of every tool that is installed; ours is the first."""
    ours = [sys.executable, "-m", "ragbench", "score", "--qrels", qrels, "--run", run]
    commands_by_name = {
        "ragbench": [*ours, "--format", "json", *(f"-m{name}" for name in MEASURES)]
    }
    peers = {"pytrec_eval": PYTREC_EVAL, "ir_measures": IR_MEASURES, "ranx": RANX}
    for name, code in peers.items():
        if importlib.util.find_spec(name):
            commands_by_name[name] = [sys.executable, "-c", code, run, qrels]
    if binary := shutil.which("trec_eval"):
        commands_by_name["trec_eval"] = [binary, *(f"-m{name}" for name in TREC_EVAL), qrels, run]
    return commands_by_name


def measure(command: list[str]) -> tuple[Cost, str]:
    """Run a command in a fresh process, with bytecode on disk as an installed package has it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
    ):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            err.seek(0)
            sys.exit(f"{command[:3]} exits {process.returncode}: {err.read()[-400:]}")
        out.seek(0)
        cpu = used.ru_utime + used.ru_stime
        return Cost(cpu, wall, used.ru_maxrss / 1024), out.read()


def means(name: str, output: str) -> list[float]:
    """Read the means of the five measures off what a tool printed."""
    if name == "ragbench":
        scores = json.loads(output)["systems"][0]["scores"]
        return [scores[measure]["mean"] for measure in MEASURES]
    if name == "trec_eval":
        rows = dict(line.split()[::2] for line in output.splitlines())
        return [float(rows[measure.replace(".", "_")]) for measure in TREC_EVAL]
    values: list[float] = json.loads(output)
    return values


def compare_files(folder: Path, rows: int) -> dict[str, float]:
    """Print what every tool costs on the same files; return our ratios to pytrec_eval."""
    tools = commands(*write_files(folder, rows))
    if rows > ROWS_OF_PEERS:
        tools = {name: tools[name] for name in ("ragbench", "pytrec_eval")}
    costs: dict[str, list[Cost]] = {name: [] for name in tools}
    values = {}
    for _ in range(3):
        for name, command in tools.items():
            cost, output = measure(command)
            costs[name].append(cost)
            values[name] = means(name, output)
    least = {name: Cost(*map(min, zip(*turns, strict=True))) for name, turns in costs.items()}
    ours = least["ragbench"]
    print(f"{rows} rows from files, {len(MEASURES)} measures")
    print("tool           CPU s  wall s  peak MB   CPU x  wall x  memory  difference")
    for name, cost in least.items():
        difference = max(abs(a - b) for a, b in zip(values[name], values["ragbench"], strict=True))
        ratios = (cost.cpu_s / ours.cpu_s, cost.wall_s / ours.wall_s, ours.peak_mb / cost.peak_mb)
        print(
            f"{name:12}{cost.cpu_s:8.2f}{cost.wall_s:8.2f}{cost.peak_mb:9.0f}"
            f"{ratios[0]:8.1f}{ratios[1]:8.1f}{ratios[2]:8.2f}{difference:12.1e}"
        )
        # trec_eval prints four digits
        assert name == "ranx" or difference < (5.1e-5 if name == "trec_eval" else 1e-9), name
    peer = least["pytrec_eval"]
    return {"files": peer.cpu_s / ours.cpu_s, "memory": ours.peak_mb / peer.peak_mb}


def compare_dicts(folder: Path, rows: int) -> float:
    """Print the time of one call on dicts of a run; return the ratio to pytrec_eval."""
    import pytrec_eval

    paths = write_files(folder, rows)
    with (
        open(paths[0], encoding="utf-8") as run_file,
        open(paths[1], encoding="utf-8") as qrels_file,
    ):
        run, qrels = pytrec_eval.parse_run(run_file), pytrec_eval.parse_qrel(qrels_file)
    return compare_calls(f"{rows} rows from dicts", run, qrels)


def compare_short_lists(queries: int = 10_000) -> float:
    """Do what `compare_dicts` does for 10 documents a query: what a RAG system retrieves."""
    rng = random.Random(19)
    run, qrels = {}, {}
    for query in range(queries):
        documents = [f"doc-{number:07d}" for number in rng.sample(range(2_000_000), 15)]
        scores = sorted((round(rng.random(), 2) for _ in range(10)), reverse=True)
        run[f"q{query}"] = dict(zip(documents, scores, strict=False))
        grades = {name: rng.choice([0, 0, 1, 2, 3]) for name in documents[6:]}
        qrels[f"q{query}"] = {documents[5]: 1} | grades
    return compare_calls(f"{queries} lists of 10 from dicts", run, qrels)


def compare_calls(title: str, run: dict[str, Any], qrels: dict[str, Any]) -> float:
    """Print the time of one call, alternated with pytrec_eval; return the ratio."""
    import pytrec_eval

    import ragbench as rb

    outputs: dict[str, Any] = {}
    times: dict[str, list[float]] = {"ragbench": [], "ragbench Run": [], "pytrec_eval": []}
    columns = rb.Run.from_dict(run), rb.Qrels.from_dict(qrels)
    calls = {
        "ragbench": lambda: rb.evaluate_run(run, qrels, MEASURES),
        "ragbench Run": lambda: rb.evaluate_run(*columns, MEASURES),
        "pytrec_eval": lambda: pytrec_eval.RelevanceEvaluator(qrels, {*TREC_EVAL}).evaluate(run),
    }
    for _ in range(5):
        for name, call in calls.items():
            start = time.process_time()
            outputs[name] = call()
            times[name].append(time.process_time() - start)
    peer, least = outputs["pytrec_eval"], {name: min(turns) for name, turns in times.items()}
    for ours, theirs in zip(MEASURES, TREC_EVAL, strict=True):
        for query, value in outputs["ragbench"].per_query[ours].items():
            assert abs(value - peer[query][theirs.replace(".", "_")]) < 1e-9, (ours, query)
    ratio = least["pytrec_eval"] / least["ragbench"]
    times_text = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in least.items())
    print(f"{title}: {times_text}: {ratio:.2f} x")
    return ratio


def show_growth(folder: Path, rows: int) -> None:
    """Print what ragbench alone costs, ten times as many rows each time."""
    print("growth of ragbench from files")
    size = 10_000
    while size <= rows:
        run, qrels = write_files(folder, size)
        cost, _ = measure(commands(run, qrels)["ragbench"])
        print(f"{size:12} rows{cost.cpu_s:8.2f} s CPU{cost.peak_mb:8.0f} MB")
        size *= 10


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    rows_of_peers = min(rows, ROWS_OF_PEERS)
    if not importlib.util.find_spec("pytrec_eval"):
        sys.exit("the bars are ratios to pytrec_eval: pip install pytrec-eval-terrier")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reached = compare_files(folder, rows_of_peers)
        if rows > rows_of_peers:
            reached = compare_files(folder, rows)
        show_growth(folder, rows)
        # last: a process that is started later would inherit the peak of these dicts
        reached["dicts"] = compare_dicts(folder, rows_of_peers)
        compare_short_lists()
    bars = Bars()
    for key, (least_rows, bar) in BARS.items():
        if rows < least_rows:
            print(f"{key}: {reached[key]:.2f}; the bar of {bar} counts from {least_rows:,} rows")
            continue
        is_met = reached[key] <= bar if key == "memory" else reached[key] >= bar
        limit = f"at {'most' if key == 'memory' else 'least'} {bar}"
        bars.check(f"{key}: {reached[key]:.2f} of pytrec_eval, {limit}", is_met)
    bars.exit()


if __name__ == "__main__":
    main()
