"""A sweep that is decided on one split and reported on another, against single runs of each."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.config.load import load_config
from ragbench.errors import ConfigError
from ragbench.experiment.base_run import GateBase
from ragbench.experiment.gate_run import run_gate
from ragbench.experiment.gates import scored_without_controls
from ragbench.experiment.plan.plan import load_collection, make_plan
from ragbench.experiment.plan.records import LiveComponents
from ragbench.experiment.pytest_runs import collect_gates
from ragbench.records.manifest import Choices
from ragbench.report.progress import Progress
from tests.experiment.moons import write_jsonl
from tests.experiment.splits import write_splits

# the extremes of both parameters, so that their rankings differ on 13 queries
GRID = [{"k1": k1, "b": b} for k1 in (3.0, 0.1) for b in (0.0, 1.0)]
SELECT = {"on": "train", "measure": "ndcg@3"}


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_splits(tmp_path / "data")
    return {
        "name": "s",
        "dataset": {"type": "beir", "path": str(folder)},
        "retrievers": {
            "bm25": {"type": "bm25"},
            "tuned": {
                "type": "bm25",
                "sweep": {"k1": [3.0, 0.1], "b": [0.0, 1.0]},
                "select": SELECT,
            },
            "both": {"type": "fusion", "retrievers": ["tuned", "bm25"]},
        },
        "metrics": {"retrieval": {"measures": ["ndcg@3", "map"]}},
        "statistics": {"resamples": 100},
    }


def mean(data, options, split):
    """Return nDCG@3 of one BM25 on one split."""
    config = {
        **data,
        "dataset": {**data["dataset"], "split": split},
        "retrievers": {"one": {"type": "bm25", **options}},
    }
    return rb.run_experiment(config).record.systems[0].scores["ndcg@3"].mean


@pytest.mark.slow
def test_the_best_on_train_is_reported_on_test(data, assert_message):
    # a plain comparison of the grid on the split that decides
    grid = {**data["retrievers"]["tuned"]}
    del grid["select"]
    plain = rb.run_experiment(
        {
            **data,
            "dataset": {**data["dataset"], "split": "train"},
            "retrievers": {"tuned": grid},
        }
    )
    means = {s.name: s.scores["ndcg@3"].mean for s in plain.record.systems}
    winner = max(means, key=means.__getitem__)
    best = GRID[[*means].index(winner)]

    experiment = rb.run_experiment(data)

    summary = experiment.record
    [choice] = summary.selected
    assert [system.name for system in summary.systems] == ["bm25", winner, "both"]
    assert (choice.sweep, choice.system, choice.combinations) == ("tuned", winner, 4)
    assert winner == f"tuned-k1={best['k1']}-b={best['b']}"
    assert choice.score.mean == pytest.approx(means[winner], abs=1e-12)
    assert summary.system(winner).scores["ndcg@3"].mean == pytest.approx(
        mean(data, best, "test"), abs=1e-12
    )
    # systems that are not shown to be worse than the winner are named, not hidden
    assert {winner, *choice.tied} == set(plain.compared.measures[1].tied_with_best)
    assert_message(summary.notes)
    assert_message(plain.record.notes)
    assert not any("that report it" in note for note in summary.notes)
    # the stored config has the choice, so that a repetition needs none
    saved = load_config(experiment.path / "config.yaml")
    assert list(saved.retrievers) == ["bm25", winner, "both"]
    assert saved.retrievers["both"].options["retrievers"] == [winner, "bm25"]


@pytest.mark.slow
def test_a_combination_that_only_names_is_run_without_a_choice(data):
    name = "tuned-k1=0.1-b=1.0"
    summary = rb.run_experiment(data, choices=Choices(only=(name,))).record

    assert [system.name for system in summary.systems] == [name]
    assert summary.selected == ()


@pytest.mark.slow
def test_the_name_of_a_sweep_in_only_means_the_winner(data):
    summary = rb.run_experiment(data, choices=Choices(only=("tuned",))).record

    [choice] = summary.selected
    assert [system.name for system in summary.systems] == [choice.system]
    # without a choice, all combinations
    del data["retrievers"]["tuned"]["select"]
    summary = rb.run_experiment(data, choices=Choices(only=("tuned",))).record
    assert len(summary.systems) == 4


def test_a_plan_of_a_sweep_says_that_a_run_chooses(data):
    config = load_config(data)
    collection = load_collection(config)

    warnings = {}
    for only in ("tuned", "bm25"):
        plan = make_plan(config, collection, Choices(only=(only,)), LiveComponents())
        warnings[only] = [line for line in plan.warnings if "a run chooses one of the 4" in line]
    assert [len(lines) for lines in warnings.values()] == [1, 0]


def test_an_unknown_name_in_only_is_refused_before_a_combination_runs(data, assert_message):
    with pytest.raises(rb.OptionError) as error:
        rb.run_experiment(data, choices=Choices(only=("bm25", "tunde")))

    assert_message(error.value)
    assert not Path("runs").exists()


@pytest.mark.slow
def test_what_a_caller_changes_in_the_config_outlives_the_choice(data):
    # `ragbench gate` runs the base in a folder of its own, without gates or missing judges.
    data["gates"] = [{"measure": "map", "system": "tuned", "min": 0.0}]
    data["retrievers"]["tuned"]["sweep"] = {"b": [0.0, 1.0]}
    config = load_config(data)
    rules = replace(config.metrics.retrieval, measures=("map",))
    metrics = replace(config.metrics, retrieval=rules)
    config = replace(config, output="base", gates=(), metrics=metrics)

    experiment = rb.run_experiment(config)

    assert experiment.path.parent == Path("base/s")
    assert [Path(choice.run).parent for choice in experiment.record.selected] == [
        Path("base/s/select-tuned")
    ]
    assert experiment.record.gates == ()
    assert "ndcg@3" not in experiment.record.systems[0].scores
    assert not Path("runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("gates", [[], [{"measure": "map", "system": "tuned", "max_drop": 0.9}]])
def test_gate_compares_the_choice_with_that_of_the_base(data, gates):
    # The combinations have other names in base and head; `bm25` alone used to be decided.
    data["retrievers"]["tuned"]["sweep"] = {"b": [0.0, 1.0]}
    data["generators"] = {"first": {"type": "extractive", "retrievers": ["tuned"]}}
    answers = ({"query_id": f"q{n}", "answers": ["red"]} for n in range(13))
    write_jsonl(Path(data["dataset"]["path"], "answers.jsonl"), answers)
    base = rb.run_experiment(data)
    data["retrievers"]["tuned"]["sweep"] = {"b": [0.25, 0.75]}
    settings = load_config({**data, "gates": gates, "output": "head"})

    gate_base = GateBase(scored=scored_without_controls(base.path))
    review = run_gate(settings, gate_base, Choices(), Progress(quiet=True))

    # other values of b, hence other names of the chosen systems
    old, new = (run.selected[0].system for run in (base.record, review.summary))
    assert old != new
    # right answers are told whatever the gates are
    systems = {"bm25", "both", new, f"{new}/first"}
    changed = {change.system for change in review.scores}
    assert changed == systems
    assert {gate.system for gate in review.decisions} == ({new} if gates else changed)
    assert not review.is_same
    means = (base.record.system(old), review.summary.system(new))
    if gates:
        expected = [system.scores["map"].mean for system in means]
        assert review.decisions[0].means == pytest.approx(expected)


def test_a_gate_on_an_open_choice_has_one_test_of_pytest(data):
    # The tests are collected before the run decides; `both` has its name already.
    data["retrievers"]["tuned"]["sweep"] = {"b": [0.0, 1.0]}
    data["gates"] = [
        {"measure": "map", "system": name, "min": 0.1} for name in ("tuned", "bm25", "both")
    ]
    file = Path("s.ragbench.yaml")
    file.write_text(json.dumps(data), encoding="utf-8")

    tests = collect_gates(file, None, update=False).tests

    assert [system for _, system in tests] == [None, "bm25", "both"]


@pytest.mark.slow
def test_the_split_that_decides_may_report_with_a_note(data, assert_message):
    data["retrievers"]["tuned"]["select"] = {**SELECT, "on": "test"}

    notes = rb.run_experiment(data).record.notes

    assert_message(notes)


def test_the_note_on_a_table_without_splits_names_what_it_can_use(
    tmp_path, monkeypatch, assert_message
):
    monkeypatch.chdir(tmp_path)
    config = {"retrievers": {"tuned": {"type": "bm25", "sweep": {"k1": [0.1, 3.0]}}}}
    rows = [{"question": "Which moon is hot?", "relevant": "io"}]
    documents = {"io": "Io is a hot moon.", "titan": "Titan is a cold moon."}

    notes = rb.run_experiment(config, dataset=rows, documents=documents).record.notes

    assert_message([note for note in notes if note.startswith("tuned: ")])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"select": {"on": "train"}}, r"retrievers.tuned.select: missing key 'measure'"),
        ({"select": {**SELECT, "measure": "ndgc@3"}}, r"unknown measure 'ndgc@3'"),
        ({"select": {**SELECT, "measure": "ndcg_cut_5,10"}}, "names several measures"),
        ({"select": {**SELECT, "measure": "ndcg@500"}}, "looks deeper than top_k"),
        ({"select": {**SELECT, "in": "x"}}, "unknown key 'in'"),
    ],
)
def test_a_wrong_choice_is_refused(data, change, message):
    data["retrievers"]["tuned"] |= change
    with pytest.raises(ConfigError, match=message):
        load_config(data)


def test_a_choice_needs_a_sweep_and_named_splits(data, assert_message):
    data["retrievers"]["bm25"]["select"] = SELECT
    data["dataset"]["split"] = {"test": 0.5}
    with pytest.raises(ConfigError) as caught:
        load_config(data)

    assert "unknown key 'select'" in str(caught.value)
    assert_message(str(caught.value))
