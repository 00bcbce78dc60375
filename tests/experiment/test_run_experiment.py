"""Whole experiments on small data: what is written, what is counted, what is compared."""

import csv
import json
import math

import pytest
import pytrec_eval

import ragbench as rb

CORPUS = {
    "d1": ("Io", "Io has hundreds of active volcanoes, the most of any moon."),
    "d2": ("Europa", "Europa hides an ocean of salt water beneath its ice."),
    "d3": ("Titan", "Titan has a thick atmosphere of nitrogen and lakes of methane."),
    "d4": ("Triton", "Triton orbits Neptune backwards and has geysers of nitrogen."),
    "d5": ("Ganymede", "Ganymede is the largest moon and has a magnetic field of its own."),
    "d6": ("Ice", "Ice and salt are found on many moons."),
}
QUERIES = {
    "q1": "Which moon has active volcanoes?",
    "q2": "Where is an ocean beneath the ice?",
    "q3": "Which moon has a thick atmosphere?",
    "q4": "What is the largest moon?",
    "q5": "How old is the moon of Pluto?",
}
QRELS = {
    "q1": {"d1": 3, "d5": 0},
    "q2": {"d2": 3, "d6": 1},
    "q3": {"d3": 3},
    "q4": {"d5": 3},
    "q5": {"d4": 0},
}
ANSWERS = {"q1": ["Io"], "q2": ["Europa"], "q3": ["Titan"], "q4": ["Ganymede"]}


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "moons"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(
        folder / "corpus.jsonl",
        [{"_id": id, "title": title, "text": text} for id, (title, text) in CORPUS.items()],
    )
    write_jsonl(folder / "queries.jsonl", [{"_id": q, "text": t} for q, t in QUERIES.items()])
    write_jsonl(
        folder / "answers.jsonl", [{"query_id": q, "answers": a} for q, a in ANSWERS.items()]
    )
    lines = [f"{q}\t{d}\t{g}" for q, docs in QRELS.items() for d, g in docs.items()]
    (folder / "qrels" / "test.tsv").write_text(
        "\n".join(["query-id\tcorpus-id\tscore", *lines, ""])
    )
    return folder


@pytest.fixture
def config(data, tmp_path, monkeypatch):
    """A config with two retrievers and a generator, as a mapping."""
    monkeypatch.chdir(tmp_path)
    return {
        "name": "moons",
        "dataset": {"type": "beir", "path": str(data), "split": "test"},
        "retrievers": {"bm25": {"type": "bm25"}, "exact": {"type": "bm25", "stemmer": "none"}},
        "generators": {"extractive": {"type": "extractive", "sentences": 1}},
    }


def test_retrieval_scores_are_trec_evals(config):
    experiment = rb.run_experiment(config)

    rankings = (experiment.path / "rankings" / "exact.trec").read_text().splitlines()
    run = {}
    for line in rankings:
        query, _, document, _, score, _ = line.split()
        run.setdefault(query, {})[document] = float(score)
    judged = {q: docs for q, docs in QRELS.items() if max(docs.values()) > 0}
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "map"}).evaluate(run)
    ours = experiment.per_query["exact"]
    for query, scores in theirs.items():
        assert ours["ndcg@10"][query] == pytest.approx(scores["ndcg_cut_10"], abs=1e-9)
        assert ours["map"][query] == pytest.approx(scores["map"], abs=1e-9)
    assert math.isnan(ours["map"]["q5"])


def test_folder_has_every_file(config):
    path = rb.run_experiment(config).path

    files = {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}
    assert files == {
        "config.yaml",
        "manifest.json",
        "summary.json",
        "per_query.csv",
        "unscored.jsonl",
        "comparisons.json",
        "report.md",
        "report.html",
        "rankings/bm25.trec",
        "rankings/exact.trec",
        "predictions/bm25--extractive.jsonl",
        "predictions/exact--extractive.jsonl",
        "judgements/bm25--extractive.jsonl",
        "judgements/exact--extractive.jsonl",
    }
    assert (path.parent / "latest").resolve() == path.resolve()
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []


def test_every_score_carries_its_weight(config):
    summary = rb.run_experiment(config).summary

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
    assert generation["faithfulness"]["judge"] == "lexical"
    assert generation["faithfulness"]["model"].startswith("lexical/")
    assert summary["baseline"] == "bm25"
    assert summary["complete"] is True


def test_two_runs_are_equal_but_for_time(config):
    first, second = (rb.run_experiment(config) for _ in range(2))

    def timeless(experiment):
        summary = json.loads((experiment.path / "summary.json").read_text())
        del summary["run_id"]
        for system in summary["systems"]:
            del system["latency_ms"]
        return json.dumps(summary)

    assert first.path != second.path
    assert timeless(first) == timeless(second)
    for name in ("per_query.csv", "comparisons.json", "unscored.jsonl", "config.yaml"):
        assert (first.path / name).read_bytes() == (second.path / name).read_bytes()


def test_per_query_has_an_empty_cell_where_there_is_no_score(config):
    path = rb.run_experiment(config).path

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


def test_a_retriever_that_fails_for_one_query_fails_that_query(config):
    def flaky(question, top_k):
        if "ocean" in question:
            raise ConnectionError("index is down")
        return ["d1", "d3", "d5"]

    experiment = rb.run_experiment(config, retrievers={"flaky": flaky})

    scores = {system["name"]: system["scores"] for system in experiment.summary["systems"]}
    assert scores["flaky"]["map"]["failed"] == {"error": 1}
    assert scores["flaky"]["map"]["n"] == 3
    low, high = scores["flaky"]["map"]["bounds"]
    assert high - low == pytest.approx(1 / 4)
    assert scores["flaky/extractive"]["rouge1"]["failed"] == {"error": 1}
    assert scores["flaky/extractive"]["faithfulness"]["failed"] == {"error": 1}
    assert scores["bm25"]["map"]["failed"] == {}
    assert experiment.summary["complete"] is False
    assert experiment.exit_code == 3
    unscored = (experiment.path / "unscored.jsonl").read_text()
    assert "retriever 'flaky': ConnectionError: index is down" in unscored


def test_max_failed_decides_what_is_complete(config):
    def flaky(question, top_k):
        return None if "ocean" in question else ["d1"]

    experiment = rb.run_experiment({**config, "max_failed": 0.3}, retrievers={"flaky": flaky})

    assert experiment.summary["complete"] is True
    assert experiment.exit_code == 0


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
    judge = {"type": "lexical", "rubrics": ["faithfulness"]}

    systems = rb.run_experiment({**config, "metrics": {**metrics, "judge": judge}}).summary[
        "systems"
    ]

    assert list(systems[0]["scores"]) == ["recall@2"]
    assert list(systems[1]["scores"]) == ["rougeL.recall", "faithfulness"]


def test_only_and_limit_narrow_a_run(config):
    from ragbench.experiment.choices import Choices

    summary = rb.run_experiment(config, choices=Choices(limit=3, only=("exact",))).summary

    assert [system["name"] for system in summary["systems"]] == ["exact", "exact/extractive"]
    assert summary["dataset"]["queries"] == 3
    assert summary["baseline"] == "exact"
    assert "a random sample of 3 of 5 queries" in summary["warnings"][0]


def test_no_judge(config):
    from ragbench.experiment.choices import Choices

    experiment = rb.run_experiment(config, choices=Choices(judge=False))

    assert "faithfulness" not in experiment.summary["systems"][1]["scores"]
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

    experiment = rb.run_experiment({"dataset": {"type": "records", "path": "qa.jsonl"}})

    (system,) = experiment.summary["systems"]
    assert system["name"] == "given"
    assert "rouge1" in system["scores"]
    faithfulness = list(experiment.per_query["given"]["faithfulness"].values())
    assert faithfulness[0] > faithfulness[1]


def test_load_experiment_reads_what_was_written(config, tmp_path):
    written = rb.run_experiment(config)

    for path in (written.path, written.path.parent, written.path.parent / "latest"):
        read = rb.load_experiment(path)
        assert read.summary == written.summary
        assert read.comparisons == written.comparisons
    with pytest.raises(rb.DataError, match="no run here"):
        rb.load_experiment(tmp_path / "runs" / "moon")


def test_a_measure_without_judgements_is_refused(config, tmp_path):
    write_jsonl(tmp_path / "qa.jsonl", [{"question": "a?", "reference": "b"}])
    config["dataset"] = {"type": "records", "path": "qa.jsonl", "corpus": "moons/corpus.jsonl"}
    config["metrics"] = {"retrieval": {"measures": ["map"]}}

    with pytest.raises(rb.DataError, match="map needs relevance judgements"):
        rb.run_experiment(config)


def test_a_retriever_without_a_corpus_to_search_is_refused(config, data):
    (data / "corpus.jsonl").unlink()

    with pytest.raises(rb.DataError, match="retriever 'bm25' searches a corpus"):
        rb.run_experiment(config)


def test_a_live_name_that_the_config_has_is_refused(config):
    with pytest.raises(rb.OptionError, match="found 'bm25', allowed: a name that the config lacks"):
        rb.run_experiment(config, retrievers={"bm25": lambda question, top_k: []})


def test_depth_is_in_the_signature_of_uncut_measures_only(config):
    metrics = {"retrieval": {"top_k": 50, "measures": ["map", "map@10"]}}

    scores = rb.run_experiment({**config, "metrics": metrics}).summary["systems"][0]["scores"]

    assert "|top_k:50" in scores["map"]["signature"]
    assert "top_k" not in scores["map@10"]["signature"]


def test_a_secret_from_the_environment_is_not_written(config, monkeypatch):
    monkeypatch.setenv("MY_NAME", "s3cret-value-of-mine")
    config["retrievers"]["bm25"]["version"] = "${MY_NAME}"

    path = rb.run_experiment(config).path

    for file in path.rglob("*"):
        if file.is_file():
            assert "s3cret" not in file.read_text(errors="replace"), file


def test_a_secret_in_an_error_text_is_not_written(config, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    (tmp_path / "leaky_module.py").write_text(
        "class Leaky:\n"
        "    def __init__(self, api_key): self.api_key = api_key\n"
        "    def retrieve(self, queries, top_k): raise ValueError(f'401 for {self.api_key}')\n"
    )
    entry = {"type": "python:leaky_module:Leaky", "api_key": "${MY_KEY}"}
    literal = {**entry, "api_key": "sk-literal-secret"}
    config["retrievers"] = {"leaky": entry, "literal": literal}

    path = rb.run_experiment(config).path

    written = {p: p.read_text(errors="replace") for p in path.rglob("*") if p.is_file()}
    assert not [p for p, text in written.items() if "sk-very-secret" in text]
    assert "401 for ${MY_KEY}" in written[path / "unscored.jsonl"]
    assert "***" in written[path / "config.yaml"]
    assert "sk-literal" not in written[path / "config.yaml"]


def test_half_a_character_in_an_answer_does_not_lose_the_run(config):
    cut = lambda question, contexts: "cut in the middle of \ud83d"  # noqa: E731

    path = rb.run_experiment(config, generators={"cut": cut}).path

    lines = (path / "predictions" / "bm25--cut.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["answer"] == "cut in the middle of \ud83d"


@pytest.mark.parametrize(
    "raised", [SystemExit(0), GeneratorExit(), BaseException("odd"), MemoryError()]
)
def test_whatever_a_component_raises_fails_its_item_alone(config, raised):
    def search(question, top_k):
        if "ocean" in question:
            raise raised
        return ["d1"]

    scores = rb.run_experiment(config, retrievers={"odd": search}).summary["systems"][-2]["scores"]

    assert scores["map"]["failed"] == {"error": 1}


def test_a_failure_where_nothing_applies_is_no_failure(config):
    """q5 has no relevant document and no gold answer: no system could have had a score."""

    def search(question, top_k):
        if "Pluto" in question:
            raise RuntimeError
        return ["d1"]

    experiment = rb.run_experiment(config, retrievers={"mine": search})

    scores = {system["name"]: system["scores"] for system in experiment.summary["systems"]}
    assert scores["mine"]["map"]["failed"] == {}
    assert scores["mine"]["map"]["not_applicable"] == 1
    assert scores["mine/extractive"]["rouge1"]["failed"] == {}
    assert scores["mine/extractive"]["correctness"]["failed"] == {}
    assert scores["mine/extractive"]["answer_relevancy"]["failed"] == {"error": 1}


def test_an_index_that_fails_names_the_retriever(config):
    class Broken:
        def index(self, corpus):
            raise ValueError("no memory")

        def retrieve(self, queries, top_k):
            return [[] for _ in queries]

    with pytest.raises(rb.AdapterError, match="retriever 'mine': index: ValueError: no memory"):
        rb.run_experiment(config, retrievers={"mine": Broken()})


@pytest.mark.parametrize("name", ["a/b", "../evil", "<b>", "", 1, "."])
def test_live_names_are_checked(config, name):
    with pytest.raises(rb.OptionError, match="retrievers"):
        rb.run_experiment(config, retrievers={name: lambda question, top_k: []})


def test_two_systems_never_share_a_file(config):
    def search(question, top_k):
        return []

    def answer(question, contexts):
        return ""

    retrievers = {"a": search, "a--g": search}
    with pytest.raises(rb.DataError, match="'a--g' and 'a/g' would write the same file 'a--g'"):
        rb.run_experiment(config, retrievers=retrievers, generators={"g": answer, "g--g": answer})


def test_a_system_of_the_records_named_like_a_retriever_is_refused(config, tmp_path):
    write_jsonl(tmp_path / "qa.jsonl", [{"question": "a?", "answer": "b", "system": "bm25"}])
    config["dataset"] = {"type": "records", "path": "qa.jsonl", "corpus": "moons/corpus.jsonl"}

    with pytest.raises(rb.DataError, match="would write the same file 'bm25'"):
        rb.run_experiment(config)


def test_stored_results_of_another_data_set_are_refused(config, tmp_path):
    (tmp_path / "old.trec").write_text("zz Q0 d1 1 2.0 old\n")
    write_jsonl(tmp_path / "p.jsonl", [{"query_id": "zz", "answer": "x"}])
    run = {"old": {"type": "run_file", "path": "old.trec"}}
    stored = {"p": {"type": "predictions", "path": "p.jsonl"}}

    with pytest.raises(rb.DataError, match="retriever 'old' has none of the 5 queries"):
        rb.run_experiment({**config, "retrievers": run})
    with pytest.raises(rb.DataError, match="generator 'p' has none of the 5 queries"):
        rb.run_experiment({**config, "generators": stored})


def test_stored_results_for_some_queries_are_a_warning(config, tmp_path):
    write_jsonl(tmp_path / "p.jsonl", [{"query_id": "q1", "answer": "Io"}])
    config["generators"] = {"p": {"type": "predictions", "path": "p.jsonl"}}

    summary = rb.run_experiment(config).summary

    assert summary["warnings"] == ["generator 'p' has nothing for 4 of 5 queries"]
    assert summary["systems"][1]["scores"]["rouge1"]["n"] == 1


def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(config, tmp_path):
    (tmp_path / "file").write_text("")
    asked = []

    for output in ("file", "a\0b", "x" * 300):
        with pytest.raises(rb.DataError, match="cannot write results here"):
            rb.run_experiment(
                {**config, "output": output}, retrievers={"m": lambda q, k: asked.append(q) or []}
            )
    assert asked == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "moons"]


def test_nothing_scored_is_a_warning(config):
    config["metrics"] = {"retrieval": {"measures": []}}
    config["generators"] = {}

    assert "nothing was scored" in rb.run_experiment(config).summary["warnings"][0]


def test_the_baseline_may_be_a_system_of_the_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        {"question": question, "answer": answer, "reference": "Io", "system": system}
        for question in ("a?", "b?")
        for system, answer in (("one", "Io"), ("two", "Europa"))
    ]
    write_jsonl(tmp_path / "qa.jsonl", rows)
    config = {"dataset": {"type": "records", "path": "qa.jsonl"}}

    def pairs(experiment):
        found = experiment.comparisons["measures"][0]["comparisons"]
        return [(c["system"], c["baseline"]) for c in found]

    assert pairs(rb.run_experiment(config)) == [("two", "one")]
    named = {**config, "statistics": {"baseline": "two"}}
    assert pairs(rb.run_experiment(named)) == [("one", "two")]
    with pytest.raises(rb.OptionError, match="did you mean 'two'"):
        rb.run_experiment({**config, "statistics": {"baseline": "twoo"}})
