"""Costs of queries: the gate on the cheapest system, and the table of costs in a run folder."""

import numpy as np
import pytest

from ragbench import check_gates
from ragbench.data.runs.run_scores import read_run_scores
from ragbench.errors import DataError
from ragbench.experiment.runner import run_experiment
from ragbench.types import Prediction, Usage
from tests.experiment.moons import write_jsonl
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

N = 120


class PricedModel:
    """Answers with their tokens, price and time."""

    def __init__(self, usd=0.001, lost=0):
        self.usd, self.lost = usd * np.random.default_rng(5).uniform(1, 2, N), lost

    def generate(self, question, contexts):
        number = int(question.split()[-1])
        usage = Usage(100 + number, 10, float(self.usd[number]))
        answer = "moon" if number >= self.lost else "sun"
        return Prediction(answer, usage=usage, latency_ms=10.0 + number)


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The config of each run."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(folder / "corpus.jsonl", [{"_id": "d1", "title": "", "text": "moon"}])
    write_jsonl(folder / "queries.jsonl", [{"_id": f"q{i}", "text": f"moon {i}"} for i in range(N)])
    rows = [f"q{i}\td1\t1" for i in range(N)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]))
    write_jsonl(
        folder / "answers.jsonl", [{"query_id": f"q{i}", "answers": ["moon"]} for i in range(N)]
    )
    return {
        "name": "costs",
        "dataset": {"type": "beir", "path": str(folder), "split": "test"},
        "retrievers": {"bm25": {"type": "bm25"}},
        "metrics": {"retrieval": {"measures": ["mrr"]}, "generation": ["rouge1"]},
        "statistics": {"resamples": 200},
    }


def test_the_cheapest_that_is_not_worse(config, assert_message):
    # The model at a tenth of the price loses 1 answer of 120: a loss of 0.02 is not excluded.
    gates = [{"cheapest_within": 0.05, "system": name} for name in ("bm25/m", "bm25/dear")]
    models = {"m": PricedModel(usd=0.001, lost=1), "dear": PricedModel(usd=0.01)}
    experiment = run_experiment({**config, "gates": gates}, generators=models)

    cheap, dear = experiment.summary["gates"]
    assert (cheap["verdict"], dear["verdict"], experiment.exit_code) == ("pass", "fail", 1)
    assert_message(dear["why"])
    assert check_gates(experiment, gates) == [cheap | {"line": None}, dear | {"line": None}]
    [record] = experiment.summary["timing"]["cheapest"]
    assert (record["measure"], record["best"], record["system"]) == ("right", "bm25/dear", None)
    lines = (experiment.path / "report.md").read_text(encoding="utf-8").splitlines()
    assert_message(lines_with(lines, "0.02 of"))


def test_a_damaged_table_of_costs_is_named(config, assert_message):
    file = run_experiment(config, generators={"m": PricedModel()}).path / "costs.csv"
    file.write_text("\n".join(file.read_text().splitlines()[:-1]))

    with pytest.raises(DataError) as error:
        read_run_scores(file.parent)
    assert_message(error.value, "runs/costs/RUN/costs.csv")


def test_costs_that_answers_report_are_paid_by_this_run(config):
    model = PricedModel(usd=0.01)

    cost = run_experiment(config, generators={"m": model}).summary["cost"]

    assert cost["by"] == {"generator m": pytest.approx(model.usd.sum(), abs=1e-6)}
    assert cost["usd"] == cost["by"]["generator m"]
    assert "cost" not in run_experiment(config).summary, "a retriever alone asks no model"
