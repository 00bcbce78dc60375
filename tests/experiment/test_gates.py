"""Gates of whole runs: verdicts in every file, exit codes, references, refusals."""

import json
from itertools import groupby

import pytest

from ragbench.data.runs.run_scores import read_run_scores, write_baseline
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.result import load_experiment
from ragbench.experiment.runner import run_experiment
from ragbench.records.gate import exit_code_of
from ragbench.records.manifest import Choices
from ragbench.report.ci import annotate
from ragbench.report.results import render_terminal
from ragbench.retrieve.bm25 import BM25
from tests.experiment.moons import CORPUS

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """The cache of all tests here: they are about what is decided on scores."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def one_cache(cache, monkeypatch):
    monkeypatch.setenv("RAGBENCH_CACHE", str(cache))


def run(config, *gates, **options):
    return run_experiment({**config, "gates": list(gates)}, **options)


def verdicts(experiment):
    return [(gate["system"], gate["verdict"]) for gate in experiment.summary["gates"]]


@pytest.fixture(scope="module")
def baseline_text(moons_run, tmp_path_factory):
    """The text of a baseline file of a first run."""
    path = tmp_path_factory.mktemp("baseline") / "main.json"
    write_baseline(path, read_run_scores(moons_run.path))
    return path.read_text(encoding="utf-8")


@pytest.fixture
def baseline(config, baseline_text, tmp_path):
    """Write main.json, the baseline of a run, to the working directory."""
    (tmp_path / "main.json").write_text(baseline_text, encoding="utf-8")
    return tmp_path / "main.json"


def test_a_run_against_its_own_baseline_is_identical(config, baseline):
    gate = {"measure": "ndcg@10", "system": ["bm25", "exact"], "against": "main.json",
            "max_drop": 0.01}  # fmt: skip

    again = run(config, gate)

    assert verdicts(again) == [("bm25", "pass"), ("exact", "pass")]
    assert all("identical on" in decision["why"] for decision in again.summary["gates"])
    assert again.exit_code == 0


def test_a_run_folder_is_a_reference_too(config, tmp_path):
    run_experiment(config)

    again = run(config, {"measure": "rouge1", "against": "runs/moons", "max_drop": 0.1})

    assert verdicts(again) == [("bm25/extractive", "pass"), ("exact/extractive", "pass")]


def test_verdicts_stand_in_every_file(config, assert_message):
    experiment = run(
        config,
        {"measure": "recall@10", "system": "bm25", "min": 0.1},
        {"measure": "ndcg@10", "system": "bm25", "min": 1.0, "decide": "interval"},
    )

    assert experiment.summary["gates"][0]["gate"] == "recall@10 >= 0.1"
    assert verdicts(experiment) == [("bm25", "pass"), ("bm25", "fail")]
    assert experiment.exit_code == 1
    assert load_experiment(experiment.path).exit_code == 1
    for name in ("report.md", "report.html", "junit.xml"):
        text = (experiment.path / name).read_text(encoding="utf-8")
        assert "recall@10 &gt;= 0.1" in text, name
    assert_message((experiment.path / "report.md").read_text().splitlines()[0])


# Gates without a system -> the systems that they hold
HELD = [
    ({"measure": "map", "min": 0.0}, ["bm25", "exact"]),
    ({"failed": "rouge1", "max": 0.0}, ["bm25/extractive", "exact/extractive"]),
    ({"measure": "usd", "max": 0}, ["bm25", "bm25/extractive", "exact", "exact/extractive"]),
    ({"measure": "map", "max_drop": 1.0}, ["exact"]),
    ({"measure": "map", "max_queries_worse": 9}, ["exact"]),
    ({"measure": "map", "max_drop": 1.0, "against": "exact"}, ["bm25"]),
    ({"measure": "map", "max_drop": 1.0, "against": "main.json"}, ["bm25", "exact"]),
]


def test_without_system_all_are_held_but_what_a_difference_is_against(config, baseline):
    gates = [gate for gate, _ in HELD]

    experiment = run({**config, "controls": ["no_context"]}, *gates)

    groups = groupby(experiment.summary["gates"], key=lambda decision: decision["gate"])
    held = [[decision["system"] for decision in decisions] for _, decisions in groups]
    assert held == [systems for _, systems in HELD]


def test_a_baseline_system_that_always_fails_fails_its_gates(config, tmp_path):
    def broken(question, top_k):
        raise ValueError("down")

    experiment = run(
        {**config, "statistics": {"baseline": "mine"}, "max_failed": 1.0},
        {"failed": "ndcg@10", "max": 0.01}, {"measure": "ndcg@10", "min": 0.1},
        retrievers={"mine": broken},
    )  # fmt: skip

    assert ("mine", "fail") in verdicts(experiment)
    assert ("mine", "undecided") in verdicts(experiment), "its mean is of nothing"
    assert experiment.exit_code == 1


def test_what_a_difference_is_against_is_not_held_against_itself(config, assert_message):
    gate = {"measure": "map", "system": ["bm25", "exact"], "against": "exact", "max_drop": 0.5}

    experiment = run(config, gate)

    assert verdicts(experiment)[1] == ("exact", "undecided")
    assert_message(experiment.summary["gates"][1]["why"])


def test_another_spelling_finds_the_score(config):
    gate = {"measure": "nDCG@10", "system": "exact", "min": 0.0}

    assert verdicts(run(config, gate)) == [("exact", "pass")]


def test_costs_are_those_of_the_summary(config):
    experiment = run(
        config,
        {"measure": "latency_ms.p95", "system": "bm25", "max": 60_000},
        {"measure": "latency_ms.p50", "system": "bm25", "max": 0},
        {"measure": "tokens.input", "system": "bm25/extractive", "max": 0},
    )

    assert [verdict for _, verdict in verdicts(experiment)] == ["pass", "fail", "pass"]


def test_undecided_warns_and_counts_where_that_is_asked_for(config):
    gate = {"measure": "ndcg@10", "max_drop": 0.05, "system": "mine"}
    mine = {"mine": lambda question, top_k: sorted(CORPUS)}

    silent = run(config, gate, retrievers=mine)

    assert verdicts(silent) == [("mine", "undecided")]
    assert silent.exit_code == 0
    assert exit_code_of(silent.record.gates, complete=True, strict=True) == 4
    assert any("1 of 1 gate undecided" in text for text in silent.summary["warnings"])


def test_an_undecided_gate_that_is_not_worse_is_counted_without_a_warning(config, assert_message):
    gate = {"measure": "ndcg@10", "max_drop": 0.05, "system": "same", "identical": "undecided"}

    silent = run(config, gate, retrievers={"same": BM25()})

    assert verdicts(silent) == [("same", "undecided")]
    assert silent.summary["gates"][0]["not_worse"] is True
    assert not any("undecided" in text for text in silent.summary["warnings"])
    text = render_terminal(silent.record, silent.compared)
    assert "gates: 1 undecided\n" in text
    assert "warning: 1 of" not in text
    assert_message(annotate(silent.record.gates, None)[0])
    assert exit_code_of(silent.record.gates, complete=True, strict=True) == 4


def test_what_is_undecided_says_everywhere_what_it_would_take(config, assert_message):
    # An empty ranking for some queries: a drop of which so few queries say little.
    some = {"some": lambda question, top_k: sorted(CORPUS, key=lambda d: (d in question, d))}
    gates = [{"measure": "ndcg@10", "system": "some", "max_drop": 0.3},
             {"measure": "ndcg@10", "system": "bm25", "min": 0.1}]  # fmt: skip

    experiment = run(config, *gates, retrievers=some)

    gate = experiment.record.gates[0]
    assert (gate.verdict, gate.power.estimate) == ("undecided", "beyond")
    assert gate.power.queries_needed.equal > 1
    assert (
        experiment.summary["gates"][0]["queries_needed"]["equal"] == gate.power.queries_needed.equal
    )
    assert load_experiment(experiment.path).record.gates == experiment.record.gates
    for name in ("report.md", "report.html", "junit.xml"):
        text = (experiment.path / name).read_text(encoding="utf-8")
        assert "now no drop fails in 4 of 5 runs" in text, name
    assert_message((experiment.path / "report.md").read_text().splitlines()[0])


def test_a_judge_that_did_not_run_is_undecided_and_may_count_as_failed(config):
    gates = [{"measure": "context_overlap", "min": 0.1}, {"failed": "context_overlap", "max": 1.0},
             {"measure": "context_overlap", "min": 0.1, "undecided": "fail"}]  # fmt: skip

    experiment = run(config, *gates, choices=Choices(judge=False))

    assert [verdict for _, verdict in verdicts(experiment)] == ["undecided", "undecided", "fail"]
    assert experiment.exit_code == 1


def test_a_system_that_was_left_out_is_undecided(config, assert_message):
    experiment = run(config, {"measure": "map", "system": "exact", "min": 0.0},
                choices=Choices(only=("bm25",)))  # fmt: skip

    assert_message(experiment.summary["gates"][0]["why"])


def test_a_sample_is_not_compared_with_the_whole(config, baseline):
    gate = {"measure": "ndcg@10", "system": "bm25", "against": "main.json", "max_drop": 0.1}

    experiment = run(config, gate, choices=Choices(limit=3))

    assert experiment.summary["gates"][0]["verdict"] == "undecided"
    assert "a sample of 3 of" in experiment.summary["gates"][0]["why"]
    assert experiment.exit_code == 0


def test_changed_judgements_are_left_out_and_counted(config, data, baseline, assert_message):
    qrels = data / "qrels" / "test.tsv"
    lines = qrels.read_text().splitlines()
    qrels.write_text("\n".join([*lines[:-1], lines[-1][:-1] + "2", ""]))
    gate = {"measure": "ndcg@10", "system": "bm25", "against": "main.json", "max_drop": 0.1}

    experiment = run(config, gate)

    [decision] = experiment.summary["gates"]
    assert (decision["verdict"], decision["n"]) == ("pass", 4)
    assert_message(decision["why"])
    assert experiment.exit_code == 0


def test_gold_answers_of_other_queries_are_undecided(config, data, baseline, assert_message):
    # two queries change places and answers: the answers in the order of the file are the same
    first, second = ({"query_id": q, "answers": [a]} for q, a in (("q2", "Io"), ("q1", "Europa")))
    for name in ("queries.jsonl", "answers.jsonl"):
        one, two, *lines_behind = (data / name).read_text().splitlines()
        (data / name).write_text("\n".join([two, one, *lines_behind, ""]))
    lines_behind = (data / "answers.jsonl").read_text().splitlines()[2:]
    lines = [json.dumps(first), json.dumps(second), *lines_behind, ""]
    (data / "answers.jsonl").write_text("\n".join(lines))
    gate = {"measure": "rouge1", "system": "bm25/extractive", "against": "main.json",
            "max_drop": 0.1}  # fmt: skip

    experiment = run(config, gate)

    [decision] = experiment.summary["gates"]
    assert decision["verdict"] == "undecided"
    assert_message(decision["why"])
    assert (
        experiment.exit_code,
        exit_code_of(experiment.record.gates, complete=True, strict=True),
    ) == (0, 4)


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        ({"measure": "ndcg@11", "min": 0.1}, "'ndcg@11' is not scored"),
        ({"measure": "map", "system": "exact", "against": "main.json", "max_drop": 0.1}, None),
        ({"measure": "tone", "min": 0.1}, "'tone' is not scored"),
    ],
)
def test_what_the_run_lacks_is_said_before_it_runs(config, baseline, gate, says):
    if says is None:
        assert run(config, gate).exit_code == 0
        return
    with pytest.raises(ConfigError, match=says):
        run(config, gate)


def test_a_reference_that_lacks_what_is_named_is_an_error_before_the_run(
    config, baseline, assert_message
):
    more = {**config, "retrievers": {**config["retrievers"], "new": {"type": "bm25"}}}
    gate = {"measure": "map", "system": "new", "against": "main.json", "max_drop": 0.1}
    (baseline.parent / "broken.json").write_text("{}")

    with pytest.raises(ConfigError) as error:
        run(more, gate)
    assert_message(error.value)
    with pytest.raises(ConfigError, match=r"found schema None"):
        run(config, {**gate, "system": "bm25", "against": "broken.json"})


def test_a_new_system_that_nobody_named_is_undecided(config, baseline):
    more = {**config, "retrievers": {**config["retrievers"], "new": {"type": "bm25"}}}

    experiment = run(more, {"measure": "map", "against": "main.json", "max_drop": 0.1})

    assert verdicts(experiment) == [("bm25", "pass"), ("exact", "pass"), ("new", "undecided")]


def certificate(tmp_path, value, signature=""):
    kappa = {"value": value, "interval": [None, None], "n": 50, "reason": None}
    content = {
        "schema": "ragbench.certificate/1",
        "rubrics": {"context_overlap": {"signature": signature, "agreement": {"kappa": kappa}}},
    }
    (tmp_path / "judge.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("value", "change", "verdict"),
    [
        (0.7, ("", ""), "pass"),
        (0.5, ("", ""), "fail"),
        (None, ("", ""), "undecided"),
        (0.9, ("|model:", "|model:another-"), "undecided"),
        (0.9, ("|rubric:", "|rubric:0"), "undecided"),
    ],
)
def test_certificates(config, moons_run, tmp_path, value, change, verdict):
    systems = moons_run.record.systems
    judged = [s.scores["context_overlap"] for s in systems if "context_overlap" in s.scores]
    certificate(tmp_path, value, judged[0].signature.replace(*change))

    experiment = run(
        config, {"certificate": "judge.json", "rubric": "context_overlap", "min_kappa": 0.6}
    )

    assert verdicts(experiment) == [(None, verdict)]


def test_a_certificate_of_another_rubric_is_an_error(config, tmp_path, assert_message):
    certificate(tmp_path, 0.7)

    with pytest.raises((ConfigError, DataError)) as error:
        run(config, {"certificate": "judge.json", "rubric": "context_overlp", "min_kappa": 0.6})
    assert_message(error.value)


def test_named_clusters_are_the_unit(config, data):
    queries = data / "queries.jsonl"
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    topics = [{**row, "metadata": {"topic": f"t{i % 2}"}} for i, row in enumerate(rows)]
    queries.write_text("".join(f"{json.dumps(row)}\n" for row in topics))
    clustered = {**config, "statistics": {"cluster": "metadata.topic"}}
    mine = {"mine": lambda question, top_k: sorted(CORPUS)}

    experiment = run(
        clustered, {"measure": "ndcg@10", "system": "mine", "max_drop": 0.05}, retrievers=mine
    )

    [gate] = experiment.summary["gates"]
    assert (gate["verdict"], gate["n_clusters"]) == ("undecided", 2)
    assert gate["why"].startswith("2 clusters are too few")
