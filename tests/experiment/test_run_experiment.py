"""Whole experiments on small data: what is written, what is counted, what is compared."""

import csv
import json
import math
import os
from pathlib import Path

import pytest
import pytrec_eval

import ragbench as rb
from ragbench.retrieve.run_file import RunFile
from ragbench.store.maintenance import stored_in
from tests.experiment.moons import ANSWERS, CORPUS, QRELS, QUERIES, write_jsonl

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes


def test_retrieval_scores_are_trec_evals(moons_run):
    rankings = (moons_run.path / "rankings" / "exact.trec").read_text().splitlines()
    run = {}
    for line in rankings:
        query, _, document, _, score, _ = line.split()
        run.setdefault(query, {})[document] = float(score)
    judged = {q: docs for q, docs in QRELS.items() if max(docs.values()) > 0}
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "map"}).evaluate(run)
    ours = moons_run.per_query["exact"]
    for query, scores in theirs.items():
        assert ours["ndcg@10"][query] == pytest.approx(scores["ndcg_cut_10"], abs=1e-9)
        assert ours["map"][query] == pytest.approx(scores["map"], abs=1e-9)
    assert math.isnan(ours["map"]["q5"])


def test_folder_has_every_file(moons_run):
    path = moons_run.path
    files = {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}
    assert files == {
        "config.yaml",
        "manifest.json",
        "summary.json",
        "per_query.csv",
        "costs.csv",
        "fingerprints.csv",
        "causes.csv",
        "questions.jsonl",
        "texts.jsonl",
        "unscored.jsonl",
        "comparisons.json",
        "report.md",
        "report.html",
        "junit.xml",
        "rankings/bm25.trec",
        "rankings/exact.trec",
        "predictions/bm25--extractive.jsonl",
        "predictions/exact--extractive.jsonl",
        "judgements/bm25--extractive.jsonl",
        "judgements/exact--extractive.jsonl",
    }
    assert (path.parent / "latest").resolve() == path.resolve()
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


def test_every_score_carries_its_weight(moons_run):
    summary = moons_run.summary
    assert [system["name"] for system in summary["systems"]] == [
        "bm25",
        "bm25/extractive",
        "exact",
        "exact/extractive",
    ]
    for system in summary["systems"]:
        for name, score in system["scores"].items():
            assert score["signature"].startswith(name.split("@")[0][:3])
            assert score["interval"][0] <= score["mean"] <= score["interval"][1]
            assert score["failed"] == {}
            assert score["n"] + score["not_applicable"] == 5
    retrieval, generation = summary["systems"][0]["scores"], summary["systems"][1]["scores"]
    assert retrieval["ndcg@10"]["not_applicable"] == 1, "q5 has no relevant document"
    assert generation["rouge1"]["not_applicable"] == 1, "q5 has no gold answer"
    assert generation["context_overlap"]["judge"] == "python:tests.words:context_overlap"
    assert generation["context_overlap"]["model"] == "tests.words:context_overlap"
    assert summary["baseline"] == "bm25"
    assert summary["complete"] is True


def test_two_runs_are_equal_but_for_timing(config):
    first, second = (rb.run_experiment(config) for _ in range(2))

    def timeless(experiment):
        summary = json.loads((experiment.path / "summary.json").read_text())
        timing = summary.pop("timing")
        assert timing["run_id"] == experiment.path.name
        assert set(timing["systems"]) == {system["name"] for system in summary["systems"]}
        return json.dumps(summary)

    assert first.path != second.path
    assert timeless(first) == timeless(second)
    for name in ("per_query.csv", "comparisons.json", "unscored.jsonl", "config.yaml"):
        assert (first.path / name).read_bytes() == (second.path / name).read_bytes()


def test_per_query_has_an_empty_cell_where_there_is_no_score(moons_run):
    path = moons_run.path
    with (path / "per_query.csv").open(newline="") as stream:
        rows = {(row["system"], row["query_id"]): row for row in csv.DictReader(stream)}
    assert rows["bm25", "q5"]["map"] == ""
    assert rows["bm25", "q1"]["map"] == "1.0"
    assert rows["bm25", "q1"]["rouge1"] == "", "a retriever alone has no generation score"
    unscored = [json.loads(line) for line in (path / "unscored.jsonl").read_text().splitlines()]
    assert {
        "system": "bm25",
        "query_id": "q5",
        "measure": "map",
        "status": "not_applicable",
        "cause": "no_relevant",
        "detail": "",
    } in unscored


def test_a_generator_of_the_users_own(config):
    class Shouting:
        def generate(self, question, contexts):
            if not contexts:
                return ""
            return rb.Prediction(contexts[0].title.upper())

    experiment = rb.run_experiment(config, generators={"shouting": Shouting()})

    scores = {system["name"]: system["scores"] for system in experiment.summary["systems"]}
    assert scores["bm25/shouting"]["token_f1"]["mean"] > 0.5
    lines = (experiment.path / "predictions" / "bm25--shouting.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["answer"] == "IO"


def test_a_run_file_gives_what_a_retriever_with_its_hits_gives(config, tmp_path):
    lines = ["q1 Q0 d3 1 1 x", "q1 Q0 d1 2 1.0 x", "q2 Q0 d2 1 0.5 x", "q4 Q0 other 1 0.25 x"]
    (tmp_path / "saved.trec").write_text("\n".join(lines))
    config["retrievers"] = {"saved": {"type": "run_file", "path": str(tmp_path / "saved.trec")}}
    live = RunFile(path=tmp_path / "saved.trec")
    live.recorded = lambda: None

    experiment = rb.run_experiment(config, retrievers={"live": live})

    by_system = {}
    for file in ("per_query.csv", "causes.csv", "unscored.jsonl"):
        rows = (experiment.path / file).read_text().splitlines()
        for name in ("saved", "live"):
            by_system.setdefault(name, []).append([r.replace(name, "") for r in rows if name in r])
    for name, files in by_system.items():
        ranking = (experiment.path / "rankings" / f"{name}.trec").read_text()
        files.append(ranking.replace(name, ""))
    assert by_system["saved"] == by_system["live"]
    assert len(by_system["saved"][-1].splitlines()) == 4
    timing = experiment.summary["timing"]["systems"]
    assert timing["saved"]["latency_ms"]["p50"] is None
    assert timing["live"]["latency_ms"]["p50"] is not None
    work = json.loads((experiment.path / "manifest.json").read_text())["work"]
    assert work["retrieve saved"] == {"items": 5, "stored": 5}
    stored = stored_in(Path(os.environ["RAGBENCH_CACHE"]))
    assert "saved" not in [entry.label for entry in stored if entry.kind == "retrieve"]


def test_a_run_file_that_lacks_a_query(config, tmp_path):
    (tmp_path / "old.trec").write_text("q1 Q0 d1 1 2.0 old\nq2 Q0 d6 1 1.5 old\n")
    retrievers = {"old": {"type": "run_file", "path": str(tmp_path / "old.trec")}}
    rules = {"retrieval": {"measures": ["map"]}}
    base = {**config, "retrievers": retrievers, "generators": {}}

    zero = rb.run_experiment({**base, "metrics": rules}).summary["systems"][0]["scores"]["map"]
    rules["retrieval"]["missing"] = "skip"
    skip = rb.run_experiment({**base, "metrics": rules}).summary["systems"][0]["scores"]["map"]

    assert (zero["n"], zero["mean"]) == (4, pytest.approx((1 + 0.5) / 4))
    assert (skip["n"], skip["mean"]) == (2, pytest.approx((1 + 0.5) / 2))


def test_a_block_that_is_given_is_taken_as_it_is(config):
    metrics = {"retrieval": {"measures": ["recall@2"]}, "generation": ["rougeL.recall"]}
    judge = {"type": "python:tests.words:context_overlap"}

    systems = rb.run_experiment({**config, "metrics": {**metrics, "judge": judge}}).summary[
        "systems"
    ]

    # whatever is named, the counts of the first line are scores
    assert list(systems[0]["scores"]) == ["found@5", "recall@2"]
    assert list(systems[1]["scores"]) == ["right", "rougeL.recall", "context_overlap"]


def test_only_and_limit_narrow_a_run(config, assert_message):
    from ragbench.records.manifest import Choices

    summary = rb.run_experiment(config, choices=Choices(limit=3, only=("exact",))).summary

    assert [system["name"] for system in summary["systems"]] == ["exact", "exact/extractive"]
    assert summary["dataset"]["queries"] == 3
    assert summary["baseline"] == "exact"
    assert_message(summary["warnings"][0])


def test_no_judge_runs_that_the_config_does_not_name(config):
    for metrics in ({}, {"generation": ["rouge1"]}, {"judge": {}}):
        experiment = rb.run_experiment({**config, "metrics": metrics})

        kinds = {s.kind for system in experiment.record.systems for s in system.scores.values()}
        assert kinds == {"retrieval", "generation"}
        assert not (experiment.path / "judgements").exists()


def test_no_judge(config):
    from ragbench.records.manifest import Choices

    experiment = rb.run_experiment(config, choices=Choices(judge=False))

    assert "context_overlap" not in experiment.summary["systems"][1]["scores"]
    assert not (experiment.path / "judgements").exists()


def test_records_are_a_system(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "question": QUERIES[q],
            "answer": answer,
            "contexts": [CORPUS[d][1]],
            "reference": ANSWERS[q][0],
        }
        for q, d, answer in [("q1", "d1", "Io has volcanoes."), ("q2", "d2", "It is Mars.")]
    ]
    write_jsonl(tmp_path / "qa.jsonl", rows)

    data, judge = (
        {"type": "records", "path": "qa.jsonl"},
        {"type": "python:tests.words:context_overlap"},
    )
    experiment = rb.run_experiment({"dataset": data, "metrics": {"judge": judge}})

    (system,) = experiment.summary["systems"]
    assert system["name"] == "given"
    assert "rouge1" in system["scores"]
    overlaps = list(experiment.per_query["given"]["context_overlap"].values())
    assert overlaps[0] > overlaps[1]


def test_load_experiment_reads_what_was_written(moons_run):
    experiments = moons_run.path.parent
    for path in (moons_run.path, experiments, experiments / "latest"):
        read = rb.load_experiment(path)
        assert read.summary == moons_run.summary
        assert read.comparisons == moons_run.comparisons
    with pytest.raises(rb.DataError, match="no run here"):
        rb.load_experiment(experiments.parent / "moon")


def test_depth_is_in_the_signature_of_uncut_measures_only(config):
    metrics = {"retrieval": {"top_k": 50, "measures": ["map", "map@10"]}}

    scores = rb.run_experiment({**config, "metrics": metrics}).summary["systems"][0]["scores"]

    assert "|top_k:50" in scores["map"]["signature"]
    assert "top_k" not in scores["map@10"]["signature"]


def test_every_measure_comes_through_a_run_also_with_failures(config, data):
    # Unbounded ones and sums have no interval or no bounds: null, never an error.
    from ragbench.score.retrieval import MEASURES

    judged = (data / "qrels" / "test.tsv").read_text().splitlines()
    topics = ["subtopic", *(f"s{row % 2}" for row in range(len(judged) - 1))]
    lines = [f"{line}\t{topic}\n" for line, topic in zip(judged, topics, strict=True)]
    (data / "qrels" / "test.tsv").write_text("".join(lines))

    def flaky(question, top_k):
        if "ocean" in question:
            raise RuntimeError
        return ["d1", "d3"]

    # gold spans and forbidden documents are in records alone
    measures = []
    for name in MEASURES.names():
        if not name.startswith(("span_", "leak")):
            measures.append(_with_cutoff(name))
    config["metrics"] = {"retrieval": {"measures": measures}}

    experiment = rb.run_experiment(config, retrievers={"flaky": flaky})

    for system in experiment.summary["systems"]:
        for name in measures if system["generator"] is None else ():
            assert system["scores"][name]["mean"] is not None, name
    scores = experiment.summary["systems"][0]["scores"]
    by_query = experiment.per_query["bm25"]["map"]
    values = [value for value in by_query.values() if not math.isnan(value)]
    assert scores["gmap"]["mean"] == pytest.approx(math.prod(values) ** (1 / len(values)))
    assert scores["num_ret"]["interval"] == [None, None]
    assert scores["dcg@10"]["bounds"][0] == scores["dcg@10"]["mean"]


def _with_cutoff(name):
    from ragbench.errors import OptionError
    from ragbench.score.retrieval.notation import parse_measure

    for spelling in (name, f"{name}@10"):
        try:
            parse_measure(spelling)
        except OptionError:
            continue
        return spelling
    return f"{name}@0.5"


def test_a_generator_that_lacks_the_baseline_is_compared_among_its_own(config):
    config["retrievers"]["third"] = {"type": "bm25", "k1": 0}
    config["generators"]["extractive"]["retrievers"] = ["exact", "third"]

    measures = rb.run_experiment(config).comparisons["measures"]

    (rouge1,) = [family for family in measures if family["measure"] == "rouge1"]
    pairs = [(c["system"], c["baseline"]) for c in rouge1["comparisons"]]
    assert pairs == [("third/extractive", "exact/extractive")]


def test_judge_signatures_tell_samples_of_queries_apart(config):
    from ragbench.records.manifest import Choices

    def signature(**choices):
        run = rb.run_experiment(config, choices=Choices(**choices))
        return run.summary["systems"][1]["scores"]["context_overlap"]["signature"]

    assert signature() == signature()
    assert signature() != signature(limit=3)


def test_the_saved_config_runs_where_it_lies(config):
    config["retrievers"]["swept"] = {"type": "bm25", "sweep": {"k1": [0.5, 1.5]}}
    first = rb.run_experiment(config)

    again = rb.run_experiment(first.path / "config.yaml")

    assert [s["name"] for s in again.summary["systems"]] == [
        s["name"] for s in first.summary["systems"]
    ]
