"""Facts of a run, as read back from its folder: kinds, baselines, gates of no system."""

import pytest

import ragbench as rb
from ragbench.calibration.judged_run import read_judged_run
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_folder import read_comparisons, read_summary
from ragbench.data.runs.run_scores import read_baseline, read_run_scores, write_baseline
from ragbench.experiment.pages import write_pages
from ragbench.experiment.runner import run_experiment
from ragbench.records.manifest import Choices
from ragbench.types import Document, Prediction
from tests.experiment.test_apps import perfect
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes


@pytest.fixture
def without_judge(config):
    """A run whose gate is on a judge that did not run: its verdict is of no system."""
    gates = [{"measure": "context_overlap", "min": 0.1}]
    return run_experiment({**config, "gates": gates}, choices=Choices(judge=False))


def test_a_run_with_a_gate_of_no_system_is_read_by_everyone(
    without_judge, tmp_path, assert_message
):
    path = without_judge.path
    assert [gate["system"] for gate in without_judge.summary["gates"]] == [None]

    assert rb.load_experiment(path).summary == without_judge.summary
    assert len(write_pages([path])) == 2
    write_pages([path, path], tmp_path / "both.md")
    assert_message(lines_with((tmp_path / "both.md").read_text(), "&gt;= 0.1"))
    assert rb.compare(path).differences
    write_baseline(tmp_path / "main.json", read_run_scores(path))
    [decision] = rb.check_gates(path, {"measure": "map", "system": "bm25", "min": 0})
    assert decision["verdict"] == "pass"


def test_rankings_of_an_app_stay_rankings(config, tmp_path):
    path = run_experiment(config, apps={"prod": perfect}).path

    write_baseline(tmp_path / "main.json", read_run_scores(path))
    [decision] = rb.check_gates(path, {"measure": "ndcg@10", "system": "bm25", "min": 0})

    kinds = {
        (system.name, name): kind
        for system in read_baseline(tmp_path / "main.json").systems.values()
        for name, kind in system.kinds.items()
    }
    assert (decision["system"], decision["verdict"]) == ("bm25", "pass")
    assert kinds["prod", "ndcg@10"] == kinds["bm25", "ndcg@10"] == "retrieval"
    assert kinds["prod", "rouge1"] == "generation"
    assert kinds["prod", "context_overlap"] == "judge"


def test_pairs_without_the_baseline_retriever_have_one_baseline_everywhere(config):
    # The generator does not run on the baseline: its first pair is what its others meet.
    retrievers = {**config["retrievers"], "third": {"type": "bm25", "k1": 0.5}}
    generators = {"extractive": {"type": "extractive", "retrievers": ["exact", "third"]}}
    experiment = run_experiment({**config, "retrievers": retrievers, "generators": generators})

    baselines = {
        comparison["system"]: comparison["baseline"]
        for family in experiment.comparisons["measures"]
        for comparison in family["comparisons"]
        if family["kind"] == "judge"
    }
    summary = rb.load_experiment(experiment.path).record
    read = {system.name: system.baseline for system in summary.systems}
    assert baselines == {"third/extractive": "exact/extractive"}
    assert read_judged_run(experiment.path).against == baselines
    assert read["third/extractive"] == "exact/extractive"
    assert read["exact/extractive"] is None


def test_an_app_of_a_run_meets_itself_in_another(config):
    # Not the first system of the other run, whatever it answers with.
    first, second = (run_experiment(config, apps={"prod": perfect}) for _ in range(2))

    comparison = rb.compare(first, second, measures=["ndcg@10"])

    pairs = [
        (difference["system"], difference["baseline"]) for difference in comparison.differences
    ]
    names = {system["name"]: system["system"] for system in comparison.found["systems"]}
    assert [(names[one], names[other]) for one, other in pairs] == [
        (name, name) for name in ("bm25", "exact", "prod")
    ]


def vague(question):
    """Finds another moon than the right one first, and names none."""
    prediction = perfect(question)
    return Prediction("no moon", [Document("d9", "Rings", "Saturn"), *prediction.contexts])


def test_what_moved_most_comes_with_the_rankings_of_every_system(config):
    # Hits of an app are compared too: its ranking is its own.
    first, second = (run_experiment(config, apps={"prod": app}) for app in (vague, perfect))

    for measure in ("ndcg@10", "rouge1"):
        moved = rb.compare(first, second, measures=[measure], moved=1).found["moved"]

        [prod] = [table for table in moved if table["system"].startswith("prod")]
        [query] = prod["queries"]
        assert query["ranking"] == ["d1"]
        assert query["baseline_ranking"] == ["d9", "d1"]


def test_a_run_says_what_its_systems_are(config):
    config = {**config, "controls": ["no_context"]}
    path = run_experiment(config, apps={"prod": perfect, "silent": silent}).path

    of = {system.name: (system.type, system.ranking_of) for system in read_summary(path).systems}

    assert of["bm25"] == ("retriever", "bm25")
    assert of["bm25/extractive"] == ("pair", "bm25")
    assert of["no_context/extractive"] == ("control", None)
    assert of["prod"] == ("app", "prod")
    assert of["silent"] == ("app", None)
    against = {flow.system: flow.baseline for flow in read_comparisons(path).causes}
    assert against == {
        "exact": "bm25",
        "exact/extractive": "bm25/extractive",
        "no_context/extractive": "bm25/extractive",
        "prod": "bm25",
        "silent": "bm25",
    }
    assert set(QueryViews(path).rankings) == {"bm25", "exact", "prod", *pairs(config)}


def silent(question):
    """Answers, and never says what it found."""
    return Prediction(perfect(question).answer)


def pairs(config):
    return {
        f"{retriever}/{generator}"
        for retriever in config["retrievers"]
        for generator in config["generators"]
    }
