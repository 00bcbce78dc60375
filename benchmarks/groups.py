"""Groups of lost questions that `ragbench fix` names, by chance and where one is planted.

    python benchmarks/groups.py [--runs 2000]

Lost questions of the example are drawn at random, or from one group with a chance four times as
high. Bar: any group is named in at most 5 % of the runs without one. The runs take under a minute
of CPU; all lines come at the end.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from ragbench.fixes.lost_groups import find_lost_groups
from ragbench.json_yaml import load_json
from ragbench.records.causes import CauseRow
from ragbench.records.manifest import QuestionRow

BAR = 0.05


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
            # planted: 60 % of a group of 20 lost; by chance: 20 % of all questions
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
    """Print both shares; return 1 if groups are named by chance more often than the bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    by_chance, planted = simulate_groups(runs)
    print(f"groups of lost questions, {runs} runs of 78 questions")
    print(f"  any group named by chance: {by_chance:.1%} (bar {BAR:.0%})")
    print(f"  planted group of 20, 60 % lost against 15 %, named: {planted:.0%}")
    # three standard deviations of the simulation above the bar
    spread = 3 * (BAR * (1 - BAR) / runs) ** 0.5
    return int(by_chance > BAR + spread)


if __name__ == "__main__":
    sys.exit(main())
