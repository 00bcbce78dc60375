"""Groups of lost questions that `ragbench fix` names, by chance and where one is planted.

    python benchmarks/groups.py [--trials 2000]

Lost questions of the example are drawn at random, or from one group with a chance four times as
high. Bar: any group is named in at most 5 % of the trials without one, and three standard errors.
Measured are 4.4 %, with a standard error of .5 points in 2,000 trials; a longer run takes 10,000.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from bars import Bars
from trials import add_trials, percent, run_jobs, share_error

from ragbench.fixes.lost_groups import find_lost_groups
from ragbench.json_yaml import load_json
from ragbench.records.causes import CauseRow
from ragbench.records.manifest import QuestionRow

BAR = 0.05
BLOCKS = 20  # of trials, for the processes


def simulate_groups(trials: range) -> tuple[int, int]:
    """Return the trials that name any group by chance, and those that name a planted one."""
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
    for trial in trials:
        rng = np.random.default_rng(trial)
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
            groups = find_lost_groups(rows, metadata, causes, seed=trial).groups
            if is_planted:
                n_named += any(group.value == "paraphrase" for group in groups)
            else:
                n_false += bool(groups)
    return n_false, n_named


def main() -> None:
    """Print both shares, check the bar, and end the process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_trials(parser, 2_000, 10_000, "draws of lost questions")
    trials = parser.parse_args().trials
    blocks = [range(start, trials, BLOCKS) for start in range(BLOCKS)]
    counts = np.sum(run_jobs(simulate_groups, blocks), axis=0)
    by_chance, planted = (counts / trials).tolist()
    print(f"groups of lost questions, {trials} trials of 78 questions")
    print(f"planted group of 20, 60 % lost against 15 %, named in {planted:.0%}")
    figure, bars = percent(by_chance, share_error(by_chance, trials)), Bars()
    bars.check(
        f"any group named by chance: {figure}, at most {BAR:.0%} + 3 errors",
        by_chance <= BAR + 3 * share_error(BAR, trials),
    )
    bars.exit()


if __name__ == "__main__":
    main()
