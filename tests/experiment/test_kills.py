"""Kills at random moments over all stages: each time, the same command goes on."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import yaml

from ragbench.experiment.result import load_experiment
from tests.chat_server import ChatServer
from tests.experiment.test_stages import contents
from tests.score.judge.scripted import Script

KILLS = int(os.environ.get("RAGBENCH_TEST_KILLS", "2"))
"""How many; `make torture` kills a hundred times."""
QUERIES = 4
CONCURRENCY = 4

# Starts runs faster than Python starts: what the first one imported is imported here, the page is
# compiled and the config read once, and each further one is a fork. Nothing else is shared: a fork
# has no threads and no files of ours.
NURSERY = """
import gc, importlib, os, signal, sys
from pathlib import Path
import ragbench.experiment.runner as runner
from ragbench.report.page import html

def run(config):
    try:
        code = runner.run_experiment(config).exit_code
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        return 1
    if not seen:
        Path("imported.txt").write_text(" ".join(sys.modules))
    return code

def import_all(config):
    for name in Path("imported.txt").read_text().split():
        try:
            importlib.import_module(name)
        except ImportError:  # made by its package, not found by its name
            continue
        seen.append(name)
    html._template("page")
    runner.load_config(config)
    gc.freeze()  # else each fork copies what its first collection touches

def kill(*_):
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:  # it ended by itself just now
        pass

seen = []
signal.signal(signal.SIGALRM, kill)
for line in sys.stdin:
    config, wait = line.split()
    child = os.fork()
    if child == 0:
        os._exit(run(config))
    signal.setitimer(signal.ITIMER_REAL, float(wait))
    _, status = os.waitpid(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if not seen:
        import_all(config)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""

SLOW = """
import time

def search(question, top_k):
    time.sleep(0.004)
    return [f"d{1 + (len(question) + i) % 6}" for i in range(3)]

def answer(question, contexts):
    time.sleep(0.004)
    return contexts[0].text + " " + question
"""


class Nursery:
    """Starts runs and kills them."""

    def __init__(self, repository, folder, environment):
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **environment, "PYTHONPATH": str(repository)},
        )

    def run(self, config, kill_after=0):
        """Run to the end, or kill after so many seconds if any; return the exit code."""
        self.process.stdin.write(f"{config} {kill_after}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=300)
        self.process.stdout.close()


@pytest.fixture
def workplace(data, tmp_path):
    """A run that takes a while in each of its stages."""
    queries = [{"_id": f"q{i}", "text": f"Which moon has volcano {i * i}?"} for i in range(QUERIES)]
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    gold = [{"query_id": f"q{i}", "answers": ["Io"]} for i in range(QUERIES)]
    (data / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    lines = [f"q{i}\td1\t1" for i in range(QUERIES)]
    (data / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]))
    (tmp_path / "slow_moons.py").write_text(SLOW)
    return data


def written(folder, data, url):
    config = {
        "name": "killed",
        "dataset": {"type": "beir", "path": str(data), "split": "test"},
        "retrievers": {
            "bm25": {"type": "bm25", "stemmer": "none"},
            "mine": {"type": "python:slow_moons:search"},
        },
        "generators": {"slow": {"type": "python:slow_moons:answer"}},
        "metrics": {
            "retrieval": {"measures": ["ndcg@10"]},
            "generation": ["token_f1"],
            "judge": {
                "type": "openai",
                "model": "m",
                "base_url": url,
                "rubrics": ["faithfulness", "answer_relevancy"],
                "concurrency": CONCURRENCY,
            },
        },
        "statistics": {"resamples": 100},
    }
    path = folder / "killed.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.slow(first=True)
def test_every_kill_is_survived(workplace, tmp_path, repository):
    rng = random.Random(13)
    environment = {"OPENAI_API_KEY": "", "RAGBENCH_CACHE": "cache", "PYTHONHASHSEED": "0"}
    with ChatServer(Script(), model="m", latency_s=0.003) as server:
        config = written(tmp_path, workplace, server.url)
        nursery = Nursery(repository, tmp_path, environment)
        try:
            assert nursery.run(config) == 0
            expected = contents(load_experiment(tmp_path / "runs" / "killed"))
            needed = server.counters.requests
            (tmp_path / "cache").rename(tmp_path / "cache0")
            start = time.monotonic()  # everything is imported by now
            assert nursery.run(config) == 0
            takes = time.monotonic() - start
            kills = chains = 0
            while kills < KILLS:
                chains += 1
                (tmp_path / "cache").rename(tmp_path / f"cache{chains}")
                before, killed = server.counters.requests, 0
                while True:
                    wait = rng.uniform(0.001, takes) if kills < KILLS else 0
                    code = nursery.run(config, wait)
                    if code == 0:
                        break
                    assert code == -signal.SIGKILL, "nothing stops the next run"
                    kills, killed = kills + 1, killed + 1
                found = contents(load_experiment(tmp_path / "runs" / "killed"))
                assert found == expected
                asked = server.counters.requests - before
                assert asked - needed <= killed * CONCURRENCY, "only what was under way at a kill"
        finally:
            nursery.close()

    assert kills >= KILLS
    runs = [path.name for path in (tmp_path / "runs" / "killed").iterdir()]
    assert not [name for name in runs if name.endswith(".lock.tmp")]
