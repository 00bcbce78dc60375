"""`rb.check_gates`: what a run would say of the same gates, of whatever is finished."""

import re
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import check_gates, evaluate_run
from ragbench.data.runs.run_scores import read_run_scores, write_baseline
from ragbench.errors import ConfigError, DataError, OptionError
from ragbench.experiment.result import load_experiment
from ragbench.experiment.runner import run_experiment
from tests.experiment.moons import moons_place
from tests.experiment.test_apps import perfect

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

QRELS = {f"q{n}": {"d": 1} for n in range(40)}
FIRST = evaluate_run({q: {"d": 1.0} for q in QRELS}, QRELS, ["mrr", "num_ret"])
SECOND = evaluate_run({q: {"x": 2.0, "d": 1.0} for q in QRELS}, QRELS, ["mrr", "num_ret"])

GATES = [
    {"measure": "nDCG@10", "system": ["bm25", "exact"], "against": "main.json", "max_drop": 0.05},
    {"measure": "ndcg@10", "against": "bm25", "max_queries_worse": 0, "by": 0.2},
    {"measure": "recall@10", "min": 0.4, "decide": "interval"},
    {"measure": "context_overlap", "max_drop": 0.2, "undecided": "fail"},
    {"failed": "rouge1", "max": 0.01},
    {"measure": "usd", "max": 0},
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder of a run with gates of all kinds, one against a baseline file of another run."""
    folder = tmp_path_factory.mktemp("finished")
    with moons_place(folder) as config:
        write_baseline("main.json", read_run_scores(run_experiment(config).path))
        changed = {**config["retrievers"], "exact": {"type": "bm25", "k1": 0.0}}
        run_experiment({**config, "retrievers": changed, "gates": GATES})
    return folder


@pytest.fixture
def finished(files, tmp_path, monkeypatch):
    """A copy of that run in the working directory."""
    shutil.copytree(files, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return load_experiment("runs/moons")


def verdicts(gates):
    return [(gate["system"], gate["verdict"]) for gate in gates]


@pytest.mark.parametrize("source", ["experiment", "folde", "newest"])
def test_says_what_the_run_said(finished, source):
    run = {"experiment": finished, "folde": finished.path, "newest": "runs/moons"}[source]

    assert check_gates(run, GATES) == finished.summary["gates"]


def test_a_baseline_stands_for_what_gates_do_not_name(finished, tmp_path):
    gate = {"measure": "ndcg@10", "max_drop": 0.05}

    decisions = check_gates(finished, gate, tmp_path / "main.json")

    explicit = check_gates(finished, {**gate, "system": ["bm25", "exact"], "against": "main.json"})
    assert [entry["interval"] for entry in decisions] == [entry["interval"] for entry in explicit]
    assert verdicts(decisions)[0] == ("bm25", "pass"), "the run's own baseline is held too"
    assert verdicts(check_gates(finished, gate))[0][0] == "exact"


@settings(max_examples=8)
@given(st.floats(0, 1).map(lambda x: round(x, 3)))
def test_a_gate_means_the_same_in_every_spelling(margin):
    forms = [
        {"measure": "mrr", "max_drop": margin},
        f"{{measure: mrr, max_drop: {margin}}}",
        f"mrr drop > {margin}",
    ]

    one, *more = [check_gates(SECOND, form, FIRST) for form in forms]

    assert more == [one, one]
    assert one[0]["difference"] == -0.5
    expected = "fail" if margin < 0.5 else "pass" if margin > 0.5 else one[0]["verdict"]
    # 40 equal differences say less of others than their spread of 0 does: plus-four
    low, high = one[0]["interval"]
    if not low <= -margin <= high:
        assert one[0]["verdict"] == expected


def test_two_evaluations_meet_whatever_they_are_called():
    [decision] = check_gates(SECOND, "mrr drop > 0.01", FIRST)

    assert (decision["verdict"], decision["n"], decision["line"]) == ("fail", 40, None)
    assert decision["why"].endswith("a drop by more than 0.01")


def test_other_queries_are_refused_and_said(assert_message):
    alien = evaluate_run({"z1": {"d": 1.0}}, {"z1": {"d": 1}}, ["mrr"])

    [decision] = check_gates(SECOND, "mrr drop > 0.01", alien)

    assert (decision["verdict"], decision["refused"]) == ("undecided", True)
    assert_message(decision["why"])


def test_what_an_evaluation_does_not_know_is_undecided(assert_message):
    decisions = check_gates(FIRST, [{"measure": "latency_ms.p95", "max": 1}, "mrr drop > 0.1"])

    assert_message([gate["why"] for gate in decisions])


def test_a_judge_that_was_skipped_is_undecided(config, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    judge = {"type": "openai", "model": "m", "rubrics": ["faithfulness"], "when": "available"}
    skipped = run_experiment({**config, "metrics": {"judge": judge}})

    [decision] = check_gates(skipped, {"measure": "faithfulness", "min": 0.5})

    assert decision["verdict"] == "undecided"
    assert "judge openai was skipped" in decision["why"]


def test_an_app_is_held_on_both_sides(config):
    gates = [{"measure": name, "system": "prod", "min": 0.9} for name in ("ndcg@10", "rouge1")]

    experiment = run_experiment({**config, "gates": gates}, apps={"prod": perfect})

    assert verdicts(experiment.summary["gates"]) == [("prod", "pass"), ("prod", "pass")]
    assert check_gates(experiment, gates) == experiment.summary["gates"]


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"measure": "mmr", "min": 0.1}, "0.measure: 'mmr' is not scored; did you mean 'mrr'"),
        ({"measure": "mrr", "mim": 0.1}, "gates.0: unknown key 'mim'; did you mean 'min'"),
        ("{measure: mrr, min: 7}", "gates.0.min: 7 is out of range; allowed: a number from"),
        ("{measure: mrr, min: 0.1", "gates.0: "),
        ("mmr drop > 0.1", "'mmr' is not scored; did you mean 'mrr'"),
        ({"measure": "mrr", "max_drop": 0.1, "against": "no.json"}, "no such file: no.json"),
        ({"measure": "mrr", "system": "evalation", "min": 0}, "did you mean 'evaluation'"),
        ({"measure": "num_ret", "max_drop": 0.1}, "is a sum over the queries"),
        (3, "gates.0: 3 is not a mapping"),
    ],
)  # fmt: skip
def test_mistakes_say_what_is_allowed(gate, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_gates(FIRST, [gate])


def test_every_mistake_at_once():
    with pytest.raises(ConfigError, match="2 errors in the gates") as raised:
        check_gates(FIRST, [{"measure": "mmr", "min": 0.1}, {"failed": "mrr"}])

    assert [problem.path for problem in raised.value.problems] == ["gates.0.measure", "gates.1"]


def test_what_the_baseline_lacks_is_a_mistake(finished, tmp_path, assert_message):
    gates = [{"measure": "rouge1", "system": "exact/extractive", "max_drop": 0.1}]
    small = run_experiment(
        {"dataset": finished_dataset(finished), "retrievers": {"bm25": {"type": "bm25"}}}
    )

    with pytest.raises(ConfigError) as error:
        check_gates(finished, gates, small)
    assert_message(error.value)


def finished_dataset(experiment):
    folder = experiment.path.parents[2] / "moons"
    return {"type": "beir", "path": str(folder), "split": "test"}


@pytest.mark.parametrize("text", ["mrr fell > 0.1", "mrr drop > much", ""])
def test_text_that_is_no_gate(text):
    with pytest.raises(OptionError, match="allowed"):
        check_gates(FIRST, text)


def test_no_list(finished, assert_message):
    with pytest.raises(OptionError) as error:
        check_gates(FIRST, 7)
    assert_message(error.value)


def test_a_damaged_folder_is_named(finished, assert_message):
    (finished.path / "comparisons.json").write_text('{"schema": "ragbench.comparison/1"}')

    with pytest.raises(DataError) as error:
        check_gates(finished, GATES[2])
    assert_message(error.value, "TMP/runs/moons/RUN/comparisons.json")
