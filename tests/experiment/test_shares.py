"""Parts of a run, made side by side in caches of their own: joined, they are the run in one go."""

import os
import random
import signal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import DataError, OptionError
from ragbench.experiment.plan.records import Share
from ragbench.experiment.runner import run_experiment, run_share
from ragbench.llm import Budget
from ragbench.records.manifest import Choices
from tests.chat_server import ChatServer
from tests.experiment.moons import QUERIES, part_of
from tests.experiment.test_exact_resume import of
from tests.experiment.test_stages import contents, work
from tests.score.judge.scripted import Script

PARTS = 4
LARGEST = max(range(1, PARTS + 1), key=lambda n: sum(Share(n, PARTS).has(q) for q in QUERIES))

MINE = """
from pathlib import Path

def note(what):
    with Path("calls.txt").open("a") as stream:
        stream.write(what + "\\n")

def search(question, top_k):
    note("search " + question)
    if Path("broken.txt").exists() and Path("broken.txt").read_text() in question:
        raise ValueError("broken")
    return [f"d{1 + (len(question) + i) % 6}" for i in range(3)]

def answer(question, contexts):
    note("answer " + question)
    return contexts[0].text + " " + question
"""


@pytest.mark.costly
@given(st.lists(st.text(), unique=True), st.integers(1, 40))
def test_each_item_belongs_to_one_part(ids, of):
    parts = [Share(number, of) for number in range(1, of + 1)]

    assert all(sum(part.has(each) for part in parts) == 1 for each in ids)


@pytest.mark.costly
def test_parts_are_about_equal():
    counts = [sum(Share(i, 16).has(f"q{n}") for n in range(16_000)) for i in range(1, 17)]

    assert sum(counts) == 16_000
    # five standard deviations of a binomial count
    assert all(abs(count - 1000) < 5 * (1000 * 15 / 16) ** 0.5 for count in counts)


@pytest.mark.parametrize("text", ["0/4", "5/4", "x", "1/0", "-1/4", "1/2/3", " 1/4", "1.0/4", ""])
def test_what_is_no_part_is_one_clear_error(text):
    with pytest.raises(OptionError, match=r"shard: found .*, allowed: I/N with 1 <= I <= N"):
        Share.parse(text)


@pytest.fixture
def cached(monkeypatch, tmp_path):
    """Use a cache of a name."""

    def use(name):
        monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / name))

    return use


@pytest.fixture
def parts(cached, tmp_path):
    """Make parts in some order, each in a cache of its own; return them, and the last run."""

    def run_parts(config, order=tuple(range(1, PARTS + 1)), of=PARTS, prefix="part", **options):
        made = []
        for number in order:
            cached(f"{prefix}{number}")
            made.append(run_share(config, Share(number, of), **options))
        return made

    return run_parts


@pytest.fixture
def last(cached, tmp_path):
    def run_last(config, numbers=tuple(range(1, PARTS + 1)), prefix="part", **options):
        cached("last")
        also = [str(tmp_path / f"{prefix}{number}") for number in numbers]
        return run_experiment(config, overrides={"cache_also": also}, **options)

    return run_last


@pytest.fixture
def mine(config, tmp_path, monkeypatch):
    """A config whose retriever and generator nobody can look into; what they are asked is noted."""
    (tmp_path / "mine_shared.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return {
        **config,
        "retrievers": {**config["retrievers"], "mine": {"type": "python:mine_shared:search"}},
        "generators": {"own": {"type": "python:mine_shared:answer"}},
    }


def calls(tmp_path):
    """What was asked so far, sorted; asked no more."""
    file = tmp_path / "calls.txt"
    found = sorted(file.read_text().splitlines())
    file.unlink()
    return found


BY_QUERY = ("retrieve", "generate", "judge", "answer", "encode", "index")


def made_by_query(experiment):
    return {name: n for name, n in work(experiment).items() if name.split()[0] in BY_QUERY}


@pytest.mark.slow
def test_the_quickstart(repository, cached, parts, last, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    quickstart = repository / "configs" / "quickstart.yaml"
    cached("whole")
    expected = contents(run_experiment(quickstart))

    made = parts(quickstart, order=(3, 1, 4, 2))
    joined = last(quickstart)

    assert contents(joined) == expected
    assert made_by_query(joined) == {}
    assert sum(part.queries for part in made) == made[0].of_queries == 78
    assert {part.exit_code for part in made} == {0}
    sums = {stage: sum(part.made[stage] for part in made) for stage in made[0].stages}
    assert sums.pop("retrieve minilm") == 0, "a run file has all"
    assert set(sums.values()) <= {78, *range(60, 78)}
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["quickstart"]
    assert len({part.token for part in made}) == 1


@pytest.mark.costly
def test_code_of_the_users_is_called_once_for_each_item(mine, cached, parts, last, tmp_path):
    cached("whole")
    expected, asked = contents(run_experiment(mine)), calls(tmp_path)

    parts(mine, order=random.Random(5).sample(range(1, PARTS + 1), PARTS))
    assert calls(tmp_path) == asked

    assert contents(last(mine)) == expected
    assert not (tmp_path / "calls.txt").exists(), "the last run asks nothing again"
    last(mine)
    assert calls(tmp_path) == asked, "a run that was joined is over: the next one is a new one"


@pytest.mark.costly
def test_a_word_joins_and_another_one_does_not(mine, parts, last, tmp_path):
    parts(mine, token="night-7")
    asked = calls(tmp_path)

    last(mine, token="night-8")
    assert calls(tmp_path) == asked
    last(mine, token="night-7")
    assert not (tmp_path / "calls.txt").exists()


def test_parts_of_two_runs_are_told_apart_by_their_words(mine, parts, last):
    parts(mine, order=(1,), token="one")
    parts(mine, order=(2,), token="two")

    with pytest.raises(DataError, match=r"parts of 2 runs of 'moons'.*--token WORD"):
        last(mine, numbers=(1, 2))


@pytest.mark.costly
def test_a_part_that_is_missing_is_made_by_the_last_run(mine, cached, parts, last, tmp_path):
    cached("whole")
    expected, asked = contents(run_experiment(mine)), calls(tmp_path)

    others = [number for number in range(1, PARTS + 1) if number != LARGEST]
    parts(mine, order=others)
    done = calls(tmp_path)
    joined = last(mine, numbers=others)

    assert contents(joined) == expected
    assert 0 < len(done) < len(asked)
    assert sorted(done + calls(tmp_path)) == asked


@pytest.mark.slow
def test_a_part_that_was_killed_goes_on(mine, cached, parts, last, warm, tmp_path):
    cached("whole")
    expected, asked = contents(run_experiment(mine)), calls(tmp_path)
    code = (
        "import os, signal, mine_shared, ragbench.experiment.runner as r\n"
        "from ragbench.experiment.plan.records import Share\n"
        "def killed(*a): os.kill(os.getpid(), signal.SIGKILL)\n"
        "mine_shared.answer = killed\n"
        f"r.run_share('mine.yaml', Share({LARGEST}, {PARTS}))"
    )
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(mine))
    environment = {**os.environ, "RAGBENCH_CACHE": f"part{LARGEST}"}
    ended, _ = warm.run(code, cwd=tmp_path, env=environment)
    assert ended == -signal.SIGKILL

    made = parts(tmp_path / "mine.yaml")

    assert sum(part.made["retrieve mine"] for part in made) < len(QUERIES), "some were stored"
    assert calls(tmp_path) == asked
    assert contents(last(tmp_path / "mine.yaml")) == expected


@pytest.mark.costly
def test_failures_are_stored_and_make_the_part_incomplete(mine, parts, last, tmp_path):
    broken = next(iter(QUERIES.values()))
    (tmp_path / "broken.txt").write_text(broken)
    made = parts(mine)

    failed = [part for part in made if part.exit_code == 3]
    assert len(failed) == 1
    assert failed[0].stages["retrieve mine"].failed == 1
    assert {part.exit_code for part in made if part not in failed} == {0}
    calls(tmp_path)
    assert last(mine).exit_code == 3
    assert not (tmp_path / "calls.txt").exists()

    (tmp_path / "broken.txt").unlink()
    again = parts(mine, choices=Choices(retry_failed=True))
    assert {part.exit_code for part in again} == {0}
    assert f"search {broken}" in calls(tmp_path)


@pytest.mark.slow
def test_no_reply_is_paid_twice(config, cached, parts, last):
    with ChatServer(Script(), model="m") as server:
        judge = {
            "type": "openai",
            "model": "m",
            "base_url": server.url,
            "rubrics": ["faithfulness", "answer_relevancy"],
        }
        config = {
            **config,
            "metrics": {"judge": judge},
            "controls": ["gold_context", "shuffled_context"],
        }
        cached("whole")
        expected, needed = contents(run_experiment(config)), server.counters.requests

        made = parts(config)
        paid = server.counters.requests - needed
        joined = last(config)

        assert contents(joined) == expected
        assert server.counters.requests - needed == needed
        assert needed > paid > needed / 2, "passages of another query are left to the last run"
    assert any("shuffled_context" in stage for stage in made[0].left_out)
    assert not any("shuffled_context" in stage for stage in made[0].stages)


@pytest.mark.slow
def test_budget_and_calls_at_once_are_divided(config, cached, parts):
    with ChatServer(Script(), model="m", latency_s=0.05) as server:
        judge = {"type": "openai", "model": "m", "base_url": server.url, "concurrency": 8}
        config = {**config, "metrics": {"judge": {**judge, "rubrics": ["faithfulness"]}}}
        (made,) = parts(config, order=(1,), of=1)
        assert server.counters.peak_in_flight > 2
        whole, server.counters.peak_in_flight = made, 0
        parts(config, of=PARTS, prefix="four")
        assert 0 < server.counters.peak_in_flight <= 2

        spent = server.counters.requests
        rich = {**config, "budget": {"tokens": 1_000_000}}
        assert {part.exit_code for part in parts(rich, prefix="rich")} == {0}
        assert server.counters.requests > spent, "the same whole budget: each part has enough"
        spent, scarce = server.counters.requests, {**config, "budget": {"tokens": 4 * PARTS}}
        poor = [part for part in parts(scarce, prefix="poor") if part.queries]
        assert server.counters.requests == spent
    assert whole.exit_code == 0
    assert {(part.exit_code, part.over_budget) for part in poor} == {(3, True)}


def test_a_budget_is_divided():
    budget = Budget(usd=2.0, tokens=401, minutes=30, parts=4)

    assert (budget.usd, budget.tokens, budget.minutes) == (0.5, 100, 30)
    assert [budget.concurrency(most) for most in (16, 5, 4, 1)] == [4, 1, 1, 1]


@pytest.mark.slow
def test_vectors_are_made_by_all_parts_and_read_by_each(
    config, cached, parts, last, tiny_embedder, tmp_path
):
    dense = {"type": "dense", "model": tiny_embedder, "device": "cpu"}
    config = {
        **config,
        "retrievers": {
            "dense": dense,
            "cut": {**dense, "chunk": {"by": "words", "size": 8, "overlap": 2}},
        },
    }
    cached("whole")
    whole = run_experiment(config)

    first = parts(config)
    assert {part.exit_code for part in first} == {0}
    assert {name for part in first for name in part.waiting} == {"dense", "cut"}
    also = [str(tmp_path / f"part{number}") for number in range(1, PARTS + 1)]
    second = parts({**config, "cache_also": also})
    joined = last(config)

    assert {tuple(part.waiting) for part in second} == {()}
    assert sum(part.made["retrieve dense"] for part in second) == len(QUERIES)
    assert of(joined) == of(whole)
    assert made_by_query(joined) == {}


@pytest.mark.slow
def test_vectors_of_a_real_model(repository, cached, parts, last, minilm, example_data, tmp_path):
    data = part_of(example_data, tmp_path / "data", 12, 30)
    config = {
        "name": "dense",
        "dataset": {"type": "beir", "path": str(data), "split": "test"},
        "retrievers": {"minilm": {"type": "dense", "model": minilm, "device": "cpu"}},
        "metrics": {"retrieval": {"measures": ["ndcg@10"]}},
        "output": str(tmp_path / "runs"),
    }
    cached("whole")
    expected = contents(run_experiment(config))

    parts(config, of=2, order=(1, 2))
    joined = last(config, numbers=(1, 2))

    assert contents(joined) == expected
    assert work(joined)["retrieve minilm"] == 12, "the first round was of vectors alone"
    assert work(joined)["encode minilm"] == 12, "of the queries; each document was encoded once"


@pytest.mark.costly
def test_part_of_a_sample(config, parts, last, cached):
    choices = Choices(limit=2, only=("bm25",), judge=False)
    cached("whole")
    expected = contents(run_experiment(config, choices=choices))

    made = parts(config, choices=choices)
    joined = last(config, choices=choices)

    assert sum(part.queries for part in made) == 2
    assert contents(joined) == expected
    assert made_by_query(joined) == {}


@pytest.mark.slow
def test_parts_side_by_side_may_have_one_cache(mine, cached, warm, tmp_path):
    cached("whole")
    expected, asked = contents(run_experiment(mine)), calls(tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(mine))
    environment = {**os.environ, "RAGBENCH_CACHE": "one"}
    running = [
        warm.start("run", "mine.yaml", "--shard", f"{number}/2", cwd=tmp_path, env=environment)
        for number in (1, 2)
    ]
    for process in running:
        process.communicate()
    assert [process.returncode for process in running] == [0, 0]
    assert calls(tmp_path) == asked

    cached("one")
    assert contents(run_experiment(tmp_path / "mine.yaml")) == expected
    assert not (tmp_path / "calls.txt").exists()


@pytest.mark.slow
def test_judges_of_all_systems_at_once_are_left_to_the_last_run(config, cached, parts, last):
    with ChatServer(Script(), model="m") as server:
        asking = {"type": "openai", "model": "m", "base_url": server.url}
        judges = {
            "early": {**asking, "rubrics": ["faithfulness"], "stop_when": "decided"},
            "pairs": {**asking, "rubrics": ["pairwise"]},
        }
        config = {**config, "metrics": {"judge": judges}}
        cached("whole")
        expected, needed = contents(run_experiment(config)), server.counters.requests

        made = parts(config)
        assert server.counters.requests == needed, "a part asks none of them"
        joined = last(config)

    assert contents(joined) == expected
    assert {"judge bm25/extractive (early)", "judge pairs (pairs)"} <= set(made[0].left_out)
