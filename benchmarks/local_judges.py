"""Measure the AUC of judges on RAGTruth: answers with a made-up span against all others.

    python benchmarks/local_judges.py --judge '{type: classifier, preset: hhem}'

The figures of `auc` in ragbench/score/judge/presets.yaml come from here.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from agreement import Scores, auc_table, ragtruth

import ragbench as rb
from ragbench.json_yaml import load_yaml

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--judge", required=True, help="the block of a judge, in YAML")
    parser.add_argument("--rubric", help="default: that of the judge")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--limit", type=int, help="the first so many answers")
    chosen = parser.parse_args()
    rated = ragtruth(chosen.data)
    rows = [
        {"question": item.question, "answer": item.answer, "contexts": item.contexts}
        for item in rated.items[: chosen.limit]
    ]
    rubrics = None if chosen.rubric is None else [chosen.rubric]
    with rb.Judge(rubrics=rubrics, **load_yaml(chosen.judge, typed=True)) as judge:
        [rubric] = judge.rubrics
        verdicts = [verdicts[rubric.name] for verdicts in judge.score_many(rows)]
        name = f"{judge!r}"
    print(f"{name}: {sum(v.score is None for v in verdicts)} of {len(rows)} without a score")
    values = np.array([np.nan if v.score is None else v.score for v in verdicts])
    # the table expects a value per answer; answers beyond --limit have none
    missing = np.full(len(rated.items) - len(rows), np.nan)
    scores = Scores(rubric.name, np.concatenate([values, missing]))
    print("\n".join(auc_table(rated, [scores])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
