"""`max_increase`: costs against a baseline, paired over queries; what they rest on, and files."""

import copy
import json
import shutil

import numpy as np
import pytest

from ragbench import check_gates
from ragbench.data.runs.run_scores import read_baseline, read_run_scores, write_baseline
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.pytest_runs import collect_gates
from ragbench.experiment.runner import run_experiment
from ragbench.types import Prediction, Usage
from tests.experiment.moons import write_jsonl

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

N = 120
TIMES = np.exp(np.random.default_rng(4).normal(3, 0.5, N)).round(3)


class Model:
    """Answers, and says what each answer took."""

    def __init__(self, slower=1.0, noise=0.0, usd=0.001, blocks=0, lost=0):
        self.lost = lost
        rng = np.random.default_rng(5)
        self.times = TIMES * slower * np.exp(rng.normal(0, 1, N) * noise)
        if blocks:
            self.times = np.repeat(self.times[::blocks], blocks)
        self.usd = usd * rng.uniform(1, 2, N)

    def generate(self, question, contexts):
        number = int(question.split()[-1])
        usage = Usage(100 + number, 10, float(self.usd[number]))
        answer = "moon" if number >= self.lost else "sun"
        return Prediction(answer, usage=usage, latency_ms=float(self.times[number]))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The config of each run, over files that no test changes."""
    folder = tmp_path_factory.mktemp("costs") / "data"
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


@pytest.fixture
def config(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return copy.deepcopy(source)


def ask(config, model, *gates):
    return run_experiment({**config, "gates": list(gates)}, generators={"m": model})


@pytest.fixture(scope="module")
def stored_baseline(source, tmp_path_factory):
    """The baseline of a run with the usual costs."""
    folder = tmp_path_factory.mktemp("baseline")
    first = ask({**source, "output": str(folder / "runs"), "cache": str(folder)}, Model())
    write_baseline(folder / "main.json", read_run_scores(first.path), costs=True)
    return folder / "main.json"


@pytest.fixture
def baseline(stored_baseline, config, tmp_path):
    shutil.copy(stored_baseline, tmp_path)
    return stored_baseline.name


def gate(measure, increase, against="main.json"):
    return {"measure": measure, "system": "bm25/m", "against": against, "max_increase": increase}


VERDICTS = [
    (Model(1.3, 0.1), "latency_ms.p50", 0.1, "fail", "more than 0.1"),
    (Model(1.3, 0.1), "latency_ms.p95", 1.0, "pass", "no increase by 1 or more"),
    (Model(1.1, 0.6), "latency_ms.p95", 0.1, "undecided", "to decide (power 0.8)"),
    (Model(2.0), "latency_ms.p95", 0.2, "fail", "on every one of 120 queries"),
    (Model(), "latency_ms.p95", 0.0, "pass", "the same on all 120 queries"),
    (Model(1.5, blocks=8), "latency_ms.p50", 0.2, "undecided", "only 15 different times"),
    (Model(usd=0.002), "usd", 0.5, "fail", "on every one of 120 queries"),
    (Model(), "tokens.input", 0.0, "pass", "the same on all"),
]


@pytest.fixture(scope="module")
def decided(source, tmp_path_factory):
    """The cases and their baseline, and one run of the models of all cases with all gates."""
    folder = tmp_path_factory.mktemp("verdicts")
    places = {**source, "output": str(folder / "runs"), "cache": str(folder)}
    names = [f"m{number}" for number in range(len(VERDICTS))]
    first = run_experiment(places, generators={name: Model() for name in names})
    write_baseline(folder / "main.json", read_run_scores(first.path), costs=True)
    gates = [
        {**gate(measure, increase, str(folder / "main.json")), "system": f"bm25/{name}"}
        for name, (_, measure, increase, *_) in zip(names, VERDICTS, strict=True)
    ]
    models = {name: model for name, (model, *_) in zip(names, VERDICTS, strict=True)}
    return gates, run_experiment({**places, "gates": gates}, generators=models)


@pytest.mark.parametrize("number", range(len(VERDICTS)))
def test_verdicts(decided, number):
    (gates, found), (_, measure, increase, verdict, why) = decided, VERDICTS[number]

    entry = found.summary["gates"][number]
    assert (entry["system"], entry["verdict"]) == (f"bm25/m{number}", verdict)
    assert why in entry["why"]
    assert entry["gate"].startswith(f"{measure} increase <= {increase:g} against ")
    assert check_gates(found, gates[number]) == [entry]


def test_a_failed_verdict_is_the_exit_code(config, baseline):
    found = ask(config, Model(2.0), gate("latency_ms.p95", 0.2))

    assert found.summary["gates"][0]["verdict"] == "fail"
    assert found.exit_code == 1


def test_numbers_are_those_of_the_summary(config, baseline):
    found = ask(config, Model(1.3, 0.1, usd=0.0015), gate("latency_ms.p95", 0.5), gate("usd", 2))

    system = next(s for s in found.summary["systems"] if s["name"] == "bm25/m")
    times = found.summary["timing"]["systems"]["bm25/m"]
    p95, usd = found.summary["gates"]
    assert p95["value"] == pytest.approx(times["latency_ms"]["p95"], abs=1e-3)
    assert p95["baseline"] == pytest.approx(np.percentile(TIMES, 95), abs=1e-3)
    assert p95["increase"] == pytest.approx(p95["value"] / p95["baseline"] - 1)
    assert usd["value"] == pytest.approx(system["usd"])
    assert p95["worst_queries"], "those that became slowest are named"


def test_the_cheapest_that_is_not_worse(config):
    """One answer of 120 is lost by a tenth of the price, which leaves a loss of 0.02 open."""
    gates = [{"cheapest_within": 0.05, "system": name} for name in ("bm25/m", "bm25/dear")]
    models = {"m": Model(usd=0.001, lost=1), "dear": Model(usd=0.01)}
    found = run_experiment({**config, "gates": gates}, generators=models)

    cheap, dear = found.summary["gates"]
    assert (cheap["verdict"], dear["verdict"], found.exit_code) == ("pass", "fail", 1)
    assert "bm25/m is cheaper and surely within 0.05 of the best: 0.001" in dear["why"]
    assert check_gates(found, gates) == [cheap | {"line": None}, dear | {"line": None}]
    [record] = found.summary["timing"]["cheapest"]
    assert (record["measure"], record["best"], record["system"]) == ("rouge1", "bm25/dear", None)
    lines = (found.path / "report.md").read_text(encoding="utf-8").splitlines()
    assert "no cheaper system is surely within 0.02 of the best by rouge1" in lines


def test_a_run_folder_and_another_system_are_references_too(config):
    first = ask(config, Model())
    other = {"measure": "latency_ms.p50", "system": "bm25/slow", "max_increase": 0.5}

    found = run_experiment(
        {**config, "gates": [other, gate("usd", 0.1, against="runs/costs")]},
        generators={"m": Model(), "slow": Model(2.0, 0.1)},
    )
    paired = check_gates(found, {**other, "against": "bm25/m"})

    assert [entry["verdict"] for entry in found.summary["gates"]] == ["undecided", "pass"]
    assert "is the baseline" in found.summary["gates"][0]["why"]
    assert paired[0]["verdict"] == "fail"
    assert check_gates(found, gate("usd", 0.1, against=None), first)[0]["verdict"] == "pass"


def test_the_file_holds_costs_only_where_asked_and_is_read_as_written(config, tmp_path):
    scores = read_run_scores(ask(config, Model()).path)
    write_baseline("plain.json", scores)
    write_baseline("costs.json", scores, costs=True)

    assert "cost_columns" not in (tmp_path / "plain.json").read_text()
    assert not next(iter(read_baseline("plain.json").systems.values())).costs
    read = read_baseline("costs.json").systems
    assert read["bm25/m"].costs["latency_ms"].tolist() == sorted_by_id(TIMES)
    write_baseline("again.json", read_baseline("costs.json"), costs=True)
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "costs.json").read_bytes()


def sorted_by_id(values):
    return [values[i] for i in sorted(range(N), key=lambda i: f"q{i}")]


def test_a_file_without_costs_is_refused_before_anything_runs(config, tmp_path):
    write_baseline("main.json", read_run_scores(ask(config, Model()).path))

    with pytest.raises(ConfigError, match="no usd; allowed: a file of ragbench baseline --costs"):
        ask(config, Model(), gate("usd", 0.1))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda system: system["costs"].pop("q7"), "other queries or columns"),
        (lambda system: system["costs"].update(q7=[1]), "other queries or columns"),
        (lambda system: system["costs"].update(q7=["x", 0, 0, 0]), "a number"),
        (lambda system: system.update(cost_columns=["ms"]), "other queries or columns"),
    ],
)
def test_a_damaged_file_is_named(config, baseline, tmp_path, edit, message):
    content = json.loads((tmp_path / baseline).read_text())
    edit(content["systems"]["bm25/m"])
    (tmp_path / baseline).write_text(json.dumps(content))

    with pytest.raises(DataError) as raised:
        read_baseline(baseline)

    assert message in str(raised.value)
    assert "main.json" in str(raised.value)


def test_a_damaged_table_of_costs_is_named(config):
    file = ask(config, Model()).path / "costs.csv"
    file.write_text("\n".join(file.read_text().splitlines()[:-1]))

    with pytest.raises(DataError, match=r"costs\.csv: other queries or columns"):
        read_run_scores(file.parent)


@pytest.mark.parametrize("with_cost", [True, False])
def test_what_pytest_writes_has_costs_where_a_gate_needs_them(config, tmp_path, with_cost):
    drop = {"measure": "mrr", "system": "bm25", "against": "main.json", "max_drop": 0.1}
    cost = {"measure": "usd", "system": "bm25", "against": "main.json", "max_increase": 0.1}
    file = tmp_path / "e.ragbench.yaml"
    file.write_text(json.dumps({**config, "gates": [drop, cost] if with_cost else [drop]}))

    assert collect_gates(file, None, update=True).baselines == {tmp_path / "main.json": with_cost}
    given = collect_gates(file, "other.json", update=True).baselines
    assert given == {tmp_path / "other.json": with_cost}
