"""Kills at random moments over all stages: each time, the same command goes on."""

import json
import os
import random
import signal
import time

import pytest
import yaml

from ragbench.experiment.result import load_experiment
from tests.chat_server import ChatServer
from tests.experiment.test_stages import contents
from tests.score.judge.scripted import Script

# How many; `make torture` kills a hundred times.
KILLS = int(os.environ.get("RAGBENCH_TEST_KILLS", "2"))
QUERIES = 4
CONCURRENCY = 4

SLOW = """
import time

def search(question, top_k):
    time.sleep(0.004)
    return [f"d{1 + (len(question) + i) % 6}" for i in range(3)]

def answer(question, contexts):
    time.sleep(0.004)
    return contexts[0].text + " " + question
"""


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


def write_config(folder, data, url):
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


@pytest.fixture
def start(warm, tmp_path):
    """Run a config to its end, or kill it after so many seconds if any; return the exit code."""
    places = {"OPENAI_API_KEY": "", "RAGBENCH_CACHE": "cache"}

    def run(config, kill_after=0.0):
        environment = {**os.environ, **places}
        process = warm.start("run", config, "--quiet", cwd=tmp_path, env=environment)
        if kill_after:
            time.sleep(kill_after)
            process.kill()
        process.communicate()
        return process.returncode

    return run


@pytest.mark.slow(first=True)
def test_every_kill_is_survived(workplace, tmp_path, start):
    # a fixed seed: a failure can be repeated, except for the timing of the machine
    rng = random.Random(13)
    with ChatServer(Script(), model="m", latency_s=0.003) as server:
        config = write_config(tmp_path, workplace, server.url)
        assert start(config) == 0
        expected = contents(load_experiment(tmp_path / "runs" / "killed"))
        needed = server.counters.requests
        (tmp_path / "cache").rename(tmp_path / "cache0")
        began = time.monotonic()  # everything is imported by now
        assert start(config) == 0
        takes = time.monotonic() - began
        kills = chains = 0
        while kills < KILLS:
            chains += 1
            # each chain of kills starts from an empty cache
            (tmp_path / "cache").rename(tmp_path / f"cache{chains}")
            n_before, killed = server.counters.requests, 0
            while True:
                # from the first instruction to the last file of an undisturbed run
                wait = rng.uniform(0.001, takes) if kills < KILLS else 0
                code = start(config, wait)
                if code == 0:
                    break
                assert code == -signal.SIGKILL, "nothing stops the next run"
                kills, killed = kills + 1, killed + 1
            files = contents(load_experiment(tmp_path / "runs" / "killed"))
            assert files == expected
            n_requests = server.counters.requests - n_before
            assert n_requests - needed <= killed * CONCURRENCY, "only what was under way at a kill"

    assert kills >= KILLS
    runs = [path.name for path in (tmp_path / "runs" / "killed").iterdir()]
    assert not [name for name in runs if name.endswith(".lock.tmp")]
