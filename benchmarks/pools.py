"""Cost of 500 questions with 50 sessions of 40 turns each, by BM25: `python benchmarks/pools.py`.

Every session is in one pool alone, in rows of the form of LongMemEval. The run reads the file,
indexes the sessions, ranks the pools and scores them, in one new process with an empty cache. Bars:
20 CPU seconds and 1 GB of memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bars import Bars

QUESTIONS, SESSIONS, TURNS, WORDS = 500, 50, 40, 10
MOST_CPU_S, MOST_GB = 20.0, 1.0
# As in English, few words make most of a text: 20,000 words by Zipf's law.
VOCABULARY = [f"w{number}" for number in range(20_000)]
WEIGHTS = [1 / rank for rank in range(1, len(VOCABULARY) + 1)]
CONFIG = {
    "name": "pools",
    "dataset": {"type": "records", "path": "memory.json"},
    "retrievers": {"bm25": {"type": "bm25"}},
    "metrics": {"retrieval": {"measures": ["hit_rate@1", "recall@5"], "top_k": 50}},
    "output": "runs",
}


def write_questions(path: Path, n_questions: int) -> None:
    """Write rows of LongMemEval: one session of each question has the rare word of the question."""
    rng, cumulative = random.Random(5), list(itertools.accumulate(WEIGHTS))
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_questions):
            row = draw_question(rng, number, cumulative)
            file.write(("[" if number == 0 else ",\n") + json.dumps(row))
        file.write("]")


def draw_question(rng: random.Random, number: int, cumulative: list[float]) -> dict[str, object]:
    """Return a question with its sessions."""
    gold = rng.randrange(SESSIONS)
    sessions = []
    for session in range(SESSIONS):
        turns = []
        for turn in range(TURNS):
            words = rng.choices(VOCABULARY, cum_weights=cumulative, k=WORDS)
            if session == gold and turn == 0:
                words.append("bicycle")
            role = "assistant" if turn % 2 else "user"
            turns.append({"role": role, "content": " ".join(words)})
        sessions.append(turns)
    return {
        "question_id": f"q{number}",
        "question": "Where is my bicycle?",
        "answer": "here",
        "answer_session_ids": [f"s{number}-{gold}"],
        "haystack_dates": [],
        "haystack_session_ids": [f"s{number}-{session}" for session in range(SESSIONS)],
        "haystack_sessions": sessions,
    }


def main() -> None:
    """Print CPU seconds, memory and the score of the run; exit 1 above a bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    n_questions = parser.parse_args().questions
    with tempfile.TemporaryDirectory() as folder:
        write_questions(Path(folder) / "memory.json", n_questions)
        (Path(folder) / "pools.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")
        environment = {**os.environ, "RAGBENCH_CACHE": f"{folder}/cache"}
        command = [sys.executable, "-m", "ragbench", "run", "pools.yaml"]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        [summary] = Path(folder).glob("runs/pools/2*/summary.json")
        scores = json.loads(summary.read_text())["systems"][0]["scores"]
    cpu_s, gb = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
    print(f"{n_questions} questions x {SESSIONS} sessions x {TURNS} turns of {WORDS} words")
    print(f"hit_rate@1 {scores['hit_rate@1']['mean']:.3f}")
    bars = Bars()
    bars.check(f"{cpu_s:.1f} CPU s, at most {MOST_CPU_S:g}", cpu_s <= MOST_CPU_S)
    bars.check(f"{gb:.2f} GB, at most {MOST_GB:g}", gb <= MOST_GB)
    bars.exit()


if __name__ == "__main__":
    main()
