"""CPU time of `ragbench audit` on a large test set, with planted repetitions and copies.

    python benchmarks/audit.py [questions] [documents]

The set has the sizes of the bar by default: 5,000 questions with gold and answers, and 100,000
documents of some 80 words, whose frequencies fall as those of English (Zipf). The command runs in a
process of its own; its CPU time includes starting up and reading the files. Bar: 30 s of CPU time,
and every planted fault found.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path

from bars import Bars

BAR_S = 30.0
PLANTED = 50  # of each kind
VOCABULARY = 30_000
WORDS = 80  # of a document


def write_lines(path: Path, rows: Iterable[object]) -> None:
    """Write rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_set(folder: Path, questions: int, documents: int) -> None:
    """Write a data set in the BEIR layout, with planted faults of three kinds."""
    numbers = random.Random(13)
    names = [f"w{chr(97 + n % 26)}{n}" for n in range(VOCABULARY)]
    # summed here: `choices` would sum the weights again for each text
    weights = list(accumulate(1 / (n + 10) for n in range(VOCABULARY)))

    def text(length: int) -> str:
        return " ".join(numbers.choices(names, cum_weights=weights, k=length))

    texts = [f"{text(WORDS // 2)}. {text(WORDS // 2)}." for _ in range(documents - PLANTED)]
    texts += texts[:PLANTED]  # copies of gold documents that nobody judged
    queries = [f"{text(12)}?" for _ in range(questions)]
    queries[-PLANTED:] = queries[:PLANTED]  # repeated questions
    answers = [" ".join(texts[n].split()[5:8]) for n in range(questions)]
    answers[PLANTED : 2 * PLANTED] = ["an answer elsewhere"] * PLANTED
    rows = [f"q{n}\td{n}\t1\n" for n in range(questions)]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    write_lines(folder / "corpus.jsonl", ({"_id": f"d{n}", "text": t} for n, t in enumerate(texts)))
    write_lines(
        folder / "queries.jsonl", ({"_id": f"q{n}", "text": t} for n, t in enumerate(queries))
    )
    gold = ({"query_id": f"q{n}", "answers": [answer]} for n, answer in enumerate(answers))
    write_lines(folder / "answers.jsonl", gold)


def main() -> None:
    questions, documents = map(int, sys.argv[1:] or (5_000, 100_000))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_set(folder, questions, documents)
        config = "dataset: {type: beir, path: .}\nretrievers: {bm25: {type: bm25}}\n"
        (folder / "c.yaml").write_text(config)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
        command = [sys.executable, "-m", "ragbench", "audit", "c.yaml", "--json"]
        start = os.times()
        result = subprocess.run(
            command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE
        )
        after = os.times()
    seconds = after.children_user - start.children_user
    seconds += after.children_system - start.children_system
    counts = Counter(finding["kind"] for finding in json.loads(result.stdout)["findings"])
    kinds = ("repeated_question", "gold_has_unjudged_duplicate", "answer_not_in_gold")
    print(f"audit of {questions:,} questions x {documents:,} documents")
    bars = Bars()
    bars.check(f"{seconds:.1f} s of CPU time, less than {BAR_S:.0f} s", seconds < BAR_S)
    for kind in kinds:
        sentence = f"{kind}: found {counts[kind]}, planted {PLANTED}"
        bars.check(sentence, counts[kind] == PLANTED)
    bars.exit()


if __name__ == "__main__":
    main()
