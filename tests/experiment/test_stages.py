"""Stages: what changed is made again and nothing else; failures stay until they are asked for."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from ragbench.errors import DataError
from ragbench.experiment.runner import run_experiment
from ragbench.experiment.stages import comparison, keys
from ragbench.records.codec import from_line, to_line
from ragbench.records.columns import ColumnRow, column_row, read_column_row
from ragbench.records.manifest import Choices
from ragbench.signature import Signature
from ragbench.store.database import CACHE_FILE
from ragbench.store.sqlite_file import DamagedCache
from ragbench.types import Cause, Retrieved, ScoreColumn
from tests.experiment.moons import FEW_SCORES, QUERIES, moons_place, write_jsonl
from tests.store.rows import damage, items

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


def work(experiment):
    """Stage -> how many of its items were made."""
    manifest = json.loads((experiment.path / "manifest.json").read_text())
    counts = {name: w["items"] - w["stored"] for name, w in manifest["work"].items()}
    return {name: count for name, count in counts.items() if count}


def contents(experiment):
    """Everything in the run folder but names, times and what they are made of."""
    summary = json.loads(json.dumps(experiment.summary))
    del summary["timing"]
    files = {"summary": summary}
    for name in ("per_query.csv", "unscored.jsonl", "comparisons.json"):
        files[name] = (experiment.path / name).read_text()
    for folder in ("rankings", "judgements"):
        for file in sorted(experiment.path.glob(f"{folder}/**/*.*")):
            files[file.relative_to(experiment.path / folder).as_posix()] = file.read_text()
    for file in sorted(experiment.path.glob("predictions/*")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        files[f"predictions {file.name}"] = [
            {key: value for key, value in row.items() if key != "latency_ms"} for row in rows
        ]
    return files


def test_a_comparison_is_of_the_very_numbers_and_causes():
    # Read from the store they are known again; whatever differs is another comparison.
    odd = np.copysign(np.nan, -1.0)  # NaN with its sign set
    scored = [Cause.SCORED, Cause.SCORED, Cause.TIMEOUT]
    signature = Signature("ndcg@10", (("v", "1"),))
    column = ScoreColumn("é", np.array([0.1, -0.0, odd]), np.array(scored, np.uint8), signature)
    read = read_column_row(from_line(ColumnRow, to_line(column_row(column))))

    assert comparison._fingerprint(column) == comparison._fingerprint(read)
    variants = [
        column,
        replace(column, values=np.array([0.1, 0.0, np.nan])),
        replace(column, values=np.array([0.1 + 2**-56, -0.0, np.nan])),
        replace(column, causes=np.array([*scored[:2], Cause.ERROR], np.uint8)),
        replace(column, details={2: "slow"}),
        replace(column, direction="lower"),
    ]
    assert len({comparison._fingerprint(variant) for variant in variants}) == len(variants)


def test_lines_of_predictions_are_the_rows_of_the_store(moons_run, moons_folder):
    stored = {line.decode() for _, _, line in items(moons_folder / "cache", "generate")}

    lines = (moons_run.path / "predictions" / "bm25--extractive.jsonl").read_text().splitlines()

    assert len(lines) == len(QUERIES)
    for name, line in zip(QUERIES, lines, strict=True):
        assert line.startswith(f'{{"query_id":"{name}",')
        assert "{" + line.removeprefix(f'{{"query_id":"{name}",') in stored


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"causes": {}}, ValueError),
        ({"causes": {"timeout": [0, 1]}}, ValueError),
        ({"causes": {"timeout": [7]}}, IndexError),
        ({"causes": {"tired": [1]}}, KeyError),
        ({"values": [0.5, "x"]}, DataError),
        ({"details": {"one": "slow"}}, ValueError),
    ],
)
def test_a_stored_column_with_neither_value_nor_cause_is_refused(change, error):
    signature, causes = Signature("ndcg@10"), np.array([Cause.SCORED, Cause.TIMEOUT], np.uint8)
    details = {1: "half of a pair: \ud800"}
    column = ScoreColumn("ndcg@10", np.array([0.5, np.nan]), causes, signature, details=details)
    row = json.loads(to_line(column_row(column)))
    assert read_column_row(from_line(ColumnRow, json.dumps(row))).details == details

    with pytest.raises(error):
        read_column_row(from_line(ColumnRow, json.dumps(row | change)))


def test_a_second_run_makes_nothing_and_says_the_same(ran, moons_run):
    second = run_experiment(ran)

    assert sum(work(moons_run).values()) > 0
    assert work(second) == {}
    assert contents(second) == contents(moons_run)


N = len(QUERIES)
PAIRS = {"bm25/extractive", "exact/extractive"}


def of_pairs(*stages):
    return {stage.replace("*", pair) for stage in stages for pair in PAIRS}


METRICS = {
    "retrieval": {"measures": ["ndcg@10"], "top_k": 10},
    "generation": ["rouge1", "bleu"],
    "judge": {"type": "python:tests.words:Words", "rubrics": ["faithfulness"]},
}


@pytest.fixture(scope="module")
def stored_metrics(tmp_path_factory):
    """The cache of a run with those metrics, which no test changes."""
    folder = tmp_path_factory.mktemp("metrics")
    with moons_place(folder) as config:
        run_experiment({**config, "metrics": METRICS})
    return folder / "cache"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"metrics.retrieval.measures": ["ndcg@5"]}, {"score bm25", "score exact"}),
        ({"metrics.retrieval.missing": "skip"}, {"score bm25", "score exact"}),
        ({"metrics.generation": ["rouge1(stemmer=true)", "bleu"]}, of_pairs("score *")),
        ({"metrics.judge.language": "de"}, of_pairs("judge * (python:tests.words:Words)")),
        (
            {"metrics.judge.rubrics": ["faithfulness", "answer_relevancy"]},
            of_pairs("judge * (python:tests.words:Words)"),
        ),
        ({"statistics.resamples": 500}, set()),
        ({"max_failed": 0.5}, None),
        (
            {"generators.extractive.sentences": 2},
            of_pairs("generate *", "score *", "judge * (python:tests.words:Words)"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_a_change_makes_its_stage_again_and_what_reads_it(
    config, stored_metrics, own_cache, change, expected
):
    shutil.copytree(stored_metrics, own_cache)

    again = work(run_experiment({**config, "metrics": METRICS}, overrides=change))

    assert set(again) == (set() if expected is None else expected | {"compare"})


def test_a_changed_retriever_leaves_the_other_one_alone(ran):
    again = work(run_experiment(ran, overrides={"retrievers.exact.b": 0.1}))

    assert {"index exact", "retrieve exact", "score exact"} <= set(again)
    assert not [name for name in again if "bm25" in name]


def test_one_metric_of_several_is_computed(config):
    config = {**config, "metrics": {**FEW_SCORES, "generation": ["rouge1", "bleu", "chrf"]}}
    run_experiment(config)

    names = ["rouge1", "bleu(smooth=floor)", "chrf"]
    again = work(run_experiment({**config, "metrics": {**FEW_SCORES, "generation": names}}))

    assert again == {"score bm25/extractive": 1, "score exact/extractive": 1, "compare": 1}


def test_one_measure_of_several_is_computed(config):
    measures = {"retrieval": {"measures": ["ndcg@10"]}, "generation": []}
    run_experiment({**config, "metrics": measures})
    measures["retrieval"] = {"measures": ["ndcg@10", "map"]}

    again = work(run_experiment({**config, "metrics": measures}))

    # the measure is the key of an item: the stored ndcg@10 is not computed a second time
    assert again["score bm25"] == again["score exact"] == 1


def test_one_rubric_of_several_is_judged(config, tmp_path):
    rubrics = ["faithfulness", "answer_relevancy"]
    config = {
        **config,
        "metrics": {
            **FEW_SCORES,
            "judge": {"type": "python:tests.words:Words", "rubrics": rubrics},
        },
    }
    run_experiment(config)

    config["metrics"]["judge"]["rubrics"] = [*rubrics, "correctness"]
    again = work(run_experiment(config))

    assert set(again) == {
        "judge bm25/extractive (python:tests.words:Words)",
        "judge exact/extractive (python:tests.words:Words)",
        "compare",
    }


def test_a_changed_corpus_is_searched_again_and_only_what_changed_is_answered(ran, data):
    rows = [json.loads(line) for line in (data / "corpus.jsonl").read_text().splitlines()]
    write_jsonl(data / "corpus.jsonl", [*rows, {"_id": "zz", "title": "", "text": "unrelated"}])

    again = work(run_experiment(ran))

    assert again["retrieve bm25"] == N
    assert not any(name.startswith("generate") for name in again), "the passages are the same"


def test_a_sample_is_part_of_the_whole(config):
    run_experiment(config, choices=Choices(limit=2))

    assert work(run_experiment(config))["retrieve bm25"] == N - 2


class Flaky:
    """Fails for some queries, and counts."""

    def __init__(self, refuses=()):
        self.refuses, self.asked = set(refuses), []

    def retrieve(self, queries, top_k):
        self.asked += [query.id for query in queries]
        if self.refuses & {query.id for query in queries}:
            raise RuntimeError("gone")
        return [["d1"] for _ in queries]


def test_live_objects_are_asked_again_by_each_run(config):
    for _ in range(2):
        mine = Flaky()
        run_experiment({**config, "retrievers": {}}, retrievers={"mine": mine})
        assert len(mine.asked) == N


MINE = """
import json, os
from pathlib import Path

def search(question, top_k):
    with Path(os.environ["MINE_LOG"]).open("a") as log:
        log.write(question + "\\n")
    if os.environ.get("MINE_FAILS") and question.startswith(os.environ["MINE_FAILS"]):
        raise RuntimeError("no answer from " + os.environ.get("PLANTED_KEY", "nowhere"))
    return ["d1", "d2"]

def rerank(question, hits):
    return hits[::-1]
"""


@pytest.fixture
def mine(config, tmp_path, monkeypatch):
    """A retriever of the user's own with a version; what it was asked is in a file."""
    (tmp_path / "mine_search.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MINE_LOG", str(tmp_path / "asked.txt"))
    entry = {"type": "python:mine_search:search", "version": "v1"}
    config = {**config, "retrievers": {"mine": entry}, "generators": {}}

    def questions_sent():
        log = tmp_path / "asked.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    return config, questions_sent


def test_a_version_vouches_for_what_we_cannot_see(mine):
    config, questions_sent = mine
    run_experiment(config)
    assert len(questions_sent()) == N
    run_experiment(config)
    assert questions_sent() == []
    run_experiment(config, overrides={"retrievers.mine.version": "v2"})
    assert len(questions_sent()) == N


def test_failures_are_kept_until_they_are_asked_for(mine, monkeypatch):
    config, questions_sent = mine
    bad = next(iter(QUERIES.values()))
    monkeypatch.setenv("MINE_FAILS", bad)
    failing = run_experiment(config)
    questions_sent()
    monkeypatch.delenv("MINE_FAILS")

    resumed = run_experiment(config)
    assert questions_sent() == []
    assert contents(resumed) == contents(failing)
    assert resumed.exit_code == 3

    mended = run_experiment(config, choices=Choices(retry_failed=True))
    assert questions_sent() == [bad]
    assert mended.exit_code == 0
    assert work(mended)["retrieve mine"] == 1


def test_no_secret_is_stored(mine, tmp_path, monkeypatch):
    config, _ = mine
    monkeypatch.setenv("MINE_FAILS", next(iter(QUERIES.values())))
    monkeypatch.setenv("PLANTED_KEY", "sk-planted-0123")
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    config["retrievers"]["mine"]["version"] = "${PLANTED_KEY}"
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(config))

    experiment = run_experiment(path)

    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert any(p.name == CACHE_FILE for p in files)
    assert [p for p in files if b"sk-planted" in p.read_bytes()] == []
    assert "${PLANTED_KEY}" in (experiment.path / "unscored.jsonl").read_text()


def test_damage_is_made_again_with_a_warning(config, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    first = run_experiment(config)
    damage(tmp_path / "cache" / CACHE_FILE)

    with pytest.warns(DamagedCache):
        second = run_experiment(config)

    assert contents(first) == contents(second)
    assert work(second)


class Backwards:
    """A retriever over others: their hits joined, from the back."""

    sources, depth = ("bm25", "exact"), 3

    def __init__(self):
        self.seen = []

    def combine(self, queries, rankings, top_k):
        self.seen.append([[len(hits) for hits in source] for source in rankings])
        assert all(hit.text for source in rankings for hits in source for hit in hits)
        joined = [[*a, *b] for a, b in zip(*rankings, strict=True)]
        return [Retrieved(list(dict.fromkeys(h[::-1])), ["formulated"]) for h in joined]


def test_a_retriever_over_others_reads_their_rankings(config):
    mine = Backwards()

    experiment = run_experiment(config, retrievers={"mine": mine})

    assert [s["name"] for s in experiment.summary["systems"] if not s["generator"]] == [
        "bm25",
        "exact",
        "mine",
    ]
    assert max(n for sources in mine.seen for source in sources for n in source) <= 3


def test_a_source_that_nobody_asked_to_see_is_no_system(config):
    experiment = run_experiment(
        config, retrievers={"mine": Backwards()}, choices=Choices(only=("mine",))
    )

    assert [system["name"] for system in experiment.summary["systems"]] == [
        "mine",
        "mine/extractive",
    ]
    assert "retrieve bm25" in work(experiment)


def test_a_reranker_of_the_users_own(mine, tmp_path):
    config, _ = mine
    reranked = {"type": "python:mine_search:rerank", "retriever": "mine"}
    config["retrievers"]["reranked"] = reranked

    experiment = run_experiment(config)

    first = (experiment.path / "rankings" / "mine.trec").read_text().splitlines()[:2]
    second = (experiment.path / "rankings" / "reranked.trec").read_text().splitlines()[:2]
    assert [line.split()[2] for line in first] == ["d1", "d2"]
    assert [line.split()[2] for line in second] == ["d2", "d1"]


def test_a_query_that_failed_at_the_source_fails_at_the_reranker(mine, monkeypatch):
    config, _ = mine
    monkeypatch.setenv("MINE_FAILS", next(iter(QUERIES.values())))
    config["retrievers"]["reranked"] = {
        "type": "python:mine_search:rerank",
        "retriever": "mine",
        "depth": 1,
    }

    experiment = run_experiment(config)

    lines = (experiment.path / "unscored.jsonl").read_text().splitlines()
    failed = [json.loads(line) for line in lines]
    causes = {(row["system"], row["cause"]) for row in failed if row["status"] == "failed"}
    assert causes == {("mine", "error"), ("reranked", "error")}


def test_two_runs_at_once_are_refused(config, tmp_path):
    from ragbench.experiment.runner import lock_experiment

    with (
        lock_experiment(tmp_path / "runs" / "moons"),
        pytest.raises(DataError, match="another run"),
    ):
        run_experiment(config)


@pytest.fixture
def newer():
    """Have a module of the package read as one of a later version."""
    read = Path.read_bytes

    def forget():
        keys.code_in.cache_clear()
        keys.code_of.cache_clear()

    def make_newer(module):
        def read_newer(path):
            return read(path) + b"\n# another rule\n" * path.match(f"ragbench/{module}")

        patch.setattr(Path, "read_bytes", read_newer)
        forget()

    with pytest.MonkeyPatch.context() as patch:
        yield make_newer
    forget()


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("stats/difference.py", {"compare"}),
        ("comparison/differences.py", {"compare"}),
        # equal scores are compared as before
        ("score/retrieval/precision_recall.py", {"score bm25", "score exact"}),
        ("report/layout.py", set()),
    ],
)
def test_another_version_of_the_code_computes_again(ran, newer, module, expected):
    # Rules may have changed since the cache was written.
    newer(module)

    assert set(work(run_experiment(ran))) == expected
