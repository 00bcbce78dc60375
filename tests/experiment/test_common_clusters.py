"""`compare --cluster` and `--family`: what a run's own comparisons say, from its folder alone."""

import json
import shutil
from pathlib import Path

import pytest

from ragbench import check_gates, compare, evaluate_run
from ragbench.data.runs.run_scores import read_run_scores, write_baseline
from ragbench.errors import DataError, OptionError
from ragbench.experiment.result import load_experiment
from ragbench.experiment.runner import run_experiment
from tests.experiment.moons import QUERIES, moons_place, write_jsonl
from tests.messages import lines_with

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

TOPICS = dict(zip(QUERIES, ["mars", "mars", "jupiter", "earth", "jupiter"], strict=True))
SAME = ("system", "baseline", "difference", "interval", "n_clusters", "p", "p_adjusted", "differs")
NUMBERS = ("mean", "interval", "n")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder of a run whose queries have topics, by which it clusters them."""
    folder = tmp_path_factory.mktemp("clustered")
    with moons_place(folder) as config:
        rows = [
            {"_id": query, "text": text, "metadata": {"topic": TOPICS[query], "tags": ["a"]}}
            for query, text in QUERIES.items()
        ]
        write_jsonl(folder / "moons" / "queries.jsonl", rows)
        statistics = {"cluster": "metadata.topic", "family": "all", "resamples": 1000}
        gate = {"measure": "ndcg@10", "system": "exact", "max_drop": 0.1}
        run_experiment({**config, "statistics": statistics, "gates": [gate]})
    return folder


@pytest.fixture
def clustered(files, tmp_path, monkeypatch):
    """A copy of that run in the working directory."""
    shutil.copytree(files, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return load_experiment("runs/moons")


def chosen(families):
    return {
        family["measure"]: [
            {key: comparison[key] for key in SAME} for comparison in family["comparisons"]
        ]
        for family in families
    }


def test_a_folder_says_what_its_run_said(clustered):
    tables = compare(
        clustered.path, cluster="metadata.topic", family="all", resamples=1000, moved=0
    ).found

    assert chosen(tables["measures"]) == chosen(clustered.comparisons["measures"])
    assert (tables["cluster"], tables["family"]) == ("metadata.topic", "all")
    scores = {system["name"]: system["scores"] for system in clustered.summary["systems"]}
    for system in tables["systems"]:
        for name, score in system["scores"].items():
            expected = scores[system["name"]][name]
            assert {k: score[k] for k in NUMBERS} == {k: expected[k] for k in NUMBERS}


def test_clusters_and_families_change_the_numbers(clustered, assert_message):
    # Or the test above would hold of options that do nothing.
    by_name = compare(clustered.path, resamples=1000).found
    together = compare(clustered.path, resamples=1000, family="all").found

    (clustered.path / "queries.jsonl").rename("queries.jsonl")
    plain = compare(clustered.path, resamples=1000).found
    Path("queries.jsonl").rename(clustered.path / "queries.jsonl")

    first = [tables["measures"][0]["comparisons"][0] for tables in (plain, by_name, together)]
    assert "n_clusters" not in first[0]
    assert first[1]["n_clusters"] == 3
    assert first[1]["interval"] != first[0]["interval"]
    assert together["family"] == "all"
    assert_message(lines_with(str(compare(clustered.path, measures=["map"])), "by one"))
    assert "by all measures" in str(compare(clustered.path, family="all"))
    assert_message(lines_with(str(compare(clustered.path)), "are one"))


def test_runs_are_compared_by_the_clusters_of_their_config(clustered):
    again = run_again(clustered)
    write_baseline("main.json", read_run_scores(clustered.path))

    for sources in ([clustered.path], [clustered.path, again], ["main.json", clustered.path]):
        tables = compare(*sources, moved=0).found
        assert tables["cluster"] == "metadata.topic"
        assert tables == compare(*sources, cluster="metadata.topic", moved=0).found
        assert {
            difference["n_clusters"] for difference in tables["measures"][0]["comparisons"]
        } == {3}


def test_a_baseline_file_takes_the_metadata_of_the_run(clustered):
    write_baseline("main.json", read_run_scores(clustered.path))

    comparison = compare("main.json", clustered, cluster="metadata.topic")

    assert {difference["n_clusters"] for difference in comparison.differences} == {3}
    gates = check_gates(clustered, {"measure": "ndcg@10", "max_drop": 0.1}, "main.json")
    assert {gate["n_clusters"] for gate in gates} == {3}


def test_gates_are_held_by_the_clusters_of_the_run(clustered, assert_message):
    gate = {"measure": "ndcg@10", "system": "exact", "max_drop": 0.1}

    assert check_gates(clustered, gate) == clustered.summary["gates"]
    assert clustered.summary["gates"][0]["n_clusters"] == 3

    (clustered.path / "queries.jsonl").unlink()
    with pytest.raises(DataError) as error:
        check_gates(clustered, gate)
    assert_message(error.value, "TMP/runs/moons/RUN")


def test_a_comparison_says_that_it_does_not_cluster(clustered):
    def notes(**options):
        texts = compare(clustered.path, measures=["map"], **options).found["notes"]
        return [note for note in texts if "relevant document" not in note]

    assert not notes()
    assert not notes(cluster="metadata.topic")

    (clustered.path / "queries.jsonl").unlink()
    assert any("--cluster metadata.topic" in note for note in notes())


def test_no_metadata_no_file(config):
    assert not (run_experiment(config).path / "queries.jsonl").exists()


def test_lists_are_no_groups_and_stay_in_the_run(clustered):
    rows = [json.loads(x) for x in (clustered.path / "queries.jsonl").read_text().splitlines()]

    assert {row["query_id"]: row["metadata"] for row in rows} == {
        query: {"topic": topic, "tags": ["a"]} for query, topic in TOPICS.items()
    }


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("topic", "cluster: found 'topic', allowed: metadata.<key>"),
        ("metadata.topik", "no query has metadata.topik; did you mean 'metadata.topic'"),
    ],
)
def test_mistakes_say_what_is_allowed(clustered, cluster, message):
    with pytest.raises((OptionError, DataError), match=message):
        compare(clustered.path, cluster=cluster)


def test_an_unknown_family_has_a_nearest_one(clustered, assert_message):
    with pytest.raises(OptionError) as error:
        compare(clustered.path, family="measures")
    assert_message(error.value)


def test_evaluations_have_no_metadata(assert_message):
    qrels = {f"q{i}": {"d": 1} for i in range(20)}
    evaluation = evaluate_run({q: {"d": 1.0} for q in qrels}, qrels, ["mrr"])

    with pytest.raises(DataError) as error:
        compare(evaluation, evaluation, cluster="metadata.topic")
    assert_message(error.value)


def test_other_groups_are_refused(clustered, assert_message):
    again = run_again(clustered)
    file = again / "queries.jsonl"
    file.write_text(file.read_text().replace('"earth"', '"moon"'))

    with pytest.raises(DataError) as error:
        compare(clustered.path, again, cluster="metadata.topic")
    assert_message(error.value)


def run_again(experiment):
    return shutil.copytree(experiment.path, experiment.path.parent / "again")


@pytest.mark.parametrize(
    "line", ["{", '{"query_id": "q1"}', "[1]", '{"query_id": 1, "metadata": 2}']
)
def test_a_damaged_file_is_named_with_its_line(clustered, line, assert_message):
    file = clustered.path / "queries.jsonl"
    file.write_text("\n".join([*file.read_text().splitlines()[:1], line, ""]))

    with pytest.raises(DataError) as error:
        compare(clustered.path, cluster="metadata.topic")
    assert_message(error.value, "TMP/runs/moons/RUN/queries.jsonl:2")
