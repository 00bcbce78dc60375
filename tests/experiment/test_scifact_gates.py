"""Gates on SciFact: a real change fails, no change passes, and ten queries say nothing."""

import gzip
import json

import numpy as np
import pytest

from ragbench.comparison.method import Method
from ragbench.comparison.pairs import PairedScores
from ragbench.experiment.runner import run_experiment
from ragbench.gates.drop import Drop
from ragbench.signature import Signature
from ragbench.types import ScoreColumn
from tests.lazy import Lazy

stats = Lazy("scipy.stats")


def part_of_scifact(source, folder):
    """Keep of the documents those that are judged, and a twentieth of the others."""
    folder.mkdir()
    for name in ("queries.jsonl", "qrels"):
        (folder / name).symlink_to(source / name)
    judged = {line.split("\t")[1] for line in (source / "qrels/test.tsv").read_text().splitlines()}
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        # the corpus of 5,183 documents would take most of the time of the test
        rows = [
            row for n, row in enumerate(lines) if n % 20 == 0 or json.loads(row)["_id"] in judged
        ]
    (folder / "corpus.jsonl").write_text("".join(rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def experiment(lent_data, tmp_path_factory):
    """BM25 without stemming, the same again, and without saturation of term counts.

    The corpus is a part of SciFact, with all that is judged for its 300 queries.
    """
    folder = tmp_path_factory.mktemp("scifact")
    data = part_of_scifact(lent_data / "scifact", folder / "data")
    # k1 = 0 counts a term once: some queries become better and more become worse
    bm25 = {"type": "bm25", "stemmer": "none", "k1": 0.9}
    return run_experiment(
        {
            "name": "scifact",
            "dataset": {"type": "beir", "path": str(data), "split": "test"},
            "retrievers": {"bm25": bm25, "again": bm25, "flat": {**bm25, "k1": 0}},
            "metrics": {"retrieval": {"measures": ["ndcg@10"], "top_k": 10}, "generation": []},
            "gates": [
                {"measure": "ndcg@10", "max_drop": 0.01, "system": "again"},
                {"measure": "ndcg@10", "max_drop": 0.01, "system": "flat"},
                {"measure": "ndcg@10", "max_drop": 0.04, "system": "flat"},
            ],
            "output": str(folder / "runs"),
            "cache": str(folder / "cache"),
        }
    )


def test_the_verdicts_on_300_queries(experiment, assert_message):
    same, fails, undecided = experiment.summary["gates"]

    assert same["verdict"] == "pass"
    assert_message(same["why"])
    assert fails["verdict"] == "fail"
    assert undecided["verdict"] == "undecided"
    assert undecided["queries_needed"]["equal"] > 0
    flat, base = columns(experiment)
    # the interval of the gate contains the t interval of scipy
    theirs = stats.ttest_rel(flat, base).confidence_interval(0.95)
    assert fails["difference"] == pytest.approx((flat - base).mean())
    assert fails["interval"][0] <= theirs.low + 1e-12
    assert fails["interval"] == pytest.approx([theirs.low, theirs.high], abs=0.003)


def test_ten_of_the_queries_say_nothing(experiment):
    flat, base = columns(experiment)
    random, n_undecided = np.random.default_rng(13), 0
    for _ in range(10):
        # ten drawn samples of ten queries: too few for a margin of 0.01
        rows = random.choice(len(base), 10, replace=False)
        pairs = PairedScores(column(flat[rows]), column(base[rows]), [str(row) for row in rows])
        decision = Drop(measure="ndcg@10", max_drop=0.01).decide_pairs(pairs, Method())
        if (flat[rows] == base[rows]).all():
            assert decision.verdict == "pass"
            continue
        n_undecided += 1
        assert decision.verdict == "undecided"
        assert decision.power.queries_needed.equal > 10
        assert f", {decision.power.queries_needed.equal} if equal" in decision.why
    assert n_undecided > 5


def columns(experiment):
    return [
        np.array(list(experiment.per_query[name]["ndcg@10"].values())) for name in ("flat", "bm25")
    ]


def column(values):
    return ScoreColumn("ndcg@10", values, np.zeros(len(values), np.uint8), Signature("ndcg@10"))
