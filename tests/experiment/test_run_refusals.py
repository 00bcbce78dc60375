"""Whole experiments that go wrong: what fails alone, what is refused, what is never written."""

import json

import pytest

import ragbench as rb
from ragbench.config.load import load_config
from tests.experiment.moons import write_jsonl

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes


@pytest.fixture
def config(config):
    """The config with one retriever: what is tested needs no second one."""
    del config["retrievers"]["exact"]
    return config


def test_a_retriever_that_fails_for_one_query_fails_that_query(config):
    def flaky(question, top_k):
        if "ocean" in question:
            raise ConnectionError("index is down")
        return ["d1", "d3", "d5"]

    experiment = rb.run_experiment(config, retrievers={"flaky": flaky})

    scores = {system["name"]: system["scores"] for system in experiment.summary["systems"]}
    assert scores["flaky"]["map"]["failed"] == {"server_error": 1}
    assert scores["flaky"]["map"]["n"] == 3
    low, high = scores["flaky"]["map"]["bounds"]
    assert high - low == pytest.approx(1 / 4)
    assert scores["flaky/extractive"]["rouge1"]["failed"] == {"server_error": 1}
    assert scores["flaky/extractive"]["context_overlap"]["failed"] == {"server_error": 1}
    assert scores["bm25"]["map"]["failed"] == {}
    assert experiment.summary["complete"] is False
    assert experiment.exit_code == 3
    unscored = (experiment.path / "unscored.jsonl").read_text()
    assert "retriever 'flaky': ConnectionError: index is down" in unscored


def build_nothing():
    """A factory that forgets to return."""


def test_a_factory_that_fails_is_named_with_its_entry(config, assert_message):
    # Two entries of one type were told apart by nothing.
    entry = {"type": "langchain", "factory": f"{__name__}:build_nothing"}

    with pytest.raises(rb.AdapterError) as error:
        rb.run_experiment({**config, "retrievers": {"theirs": entry}, "generators": {}})
    assert_message(error.value, "retrievers.theirs")


def test_max_failed_decides_what_is_complete(config):
    def flaky(question, top_k):
        return None if "ocean" in question else ["d1"]

    experiment = rb.run_experiment({**config, "max_failed": 0.3}, retrievers={"flaky": flaky})

    assert experiment.summary["complete"] is True
    assert experiment.exit_code == 0


def test_a_measure_without_judgements_is_refused(config, tmp_path, assert_message):
    write_jsonl(tmp_path / "qa.jsonl", [{"question": "a?", "reference": "b"}])
    config["dataset"] = {"type": "records", "path": "qa.jsonl", "corpus": "moons/corpus.jsonl"}
    config["metrics"] = {"retrieval": {"measures": ["map"]}}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config)
    assert_message(error.value, "metrics.retrieval.measures")


def test_a_named_measure_is_scored_on_the_contexts_of_records(config, tmp_path):
    rows = [
        {"question": "a?", "reference": "x", "answer": "x", "contexts": ["no", "an x"]},
        {"question": "b?", "reference": "北京", "contexts": ["在北京。"]},
        {"question": "c?", "reference": "z", "answer": "z"},
    ]
    write_jsonl(tmp_path / "qa.jsonl", rows)
    del config["retrievers"], config["generators"]
    config |= {"dataset": {"type": "records", "path": "qa.jsonl"}, "max_failed": 1}
    names = ["answer_hit@1", "answer_hit@2"]
    config["metrics"] = {"retrieval": {"measures": names}, "generation": ["contains"]}

    experiment = rb.run_experiment(config)

    (system,) = experiment.summary["systems"]
    scores = system["scores"]
    assert [*scores] == ["right", "found@5", *names, "contains"]
    assert [scores[name]["mean"] for name in names] == [0.5, 1.0]
    assert [scores[name]["n"] for name in names] == [2, 2]
    assert scores["answer_hit@1"]["kind"] == "retrieval"
    assert (experiment.path / "rankings" / "given.trec").is_file()
    # without a name, what was recorded is judged by its answers alone
    config["metrics"] = {"generation": ["contains"]}
    scores = rb.run_experiment(config).summary["systems"][0]["scores"]
    assert {score["kind"] for score in scores.values()}.isdisjoint({"retrieval"})


def test_a_named_measure_that_nothing_can_give_is_refused(config, tmp_path, assert_message):
    row = {"question": "a?", "reference": "x", "answer": "x"}
    write_jsonl(tmp_path / "qa.jsonl", [row])
    del config["retrievers"], config["generators"]
    config["dataset"] = {"type": "records", "path": "qa.jsonl"}
    config["metrics"] = {"retrieval": {"measures": ["answer_hit@1"]}, "generation": ["contains"]}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config)
    assert_message(error.value, "metrics.retrieval.measures")


def test_a_retriever_without_a_corpus_to_search_is_refused(config, data, assert_message):
    (data / "corpus.jsonl").unlink()

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config)
    assert_message(error.value, "retrievers.bm25")


def test_a_live_name_that_the_config_has_is_refused(config, assert_message):
    with pytest.raises(rb.OptionError) as error:
        rb.run_experiment(config, retrievers={"bm25": lambda question, top_k: []})
    assert_message(error.value)


def test_overrides_of_a_checked_config_are_refused(config):
    message = "overrides: found 'seed', allowed: none for a checked config: load_config"
    with pytest.raises(rb.OptionError, match=message):
        rb.run_experiment(load_config(config), {"seed": 7})


def test_a_secret_from_the_environment_is_not_written(config, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "s3cret-value-of-mine")
    config["retrievers"]["bm25"]["version"] = "${MY_SECRET}"

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

    texts = {p: p.read_text(errors="replace") for p in path.rglob("*") if p.is_file()}
    assert not [p for p, text in texts.items() if "sk-very-secret" in text]
    assert "401 for ${MY_KEY}" in texts[path / "unscored.jsonl"]
    assert "***" in texts[path / "config.yaml"]
    assert not [p for p, text in texts.items() if "sk-literal" in text]
    assert "401 for ${retrievers.literal.api_key}" in texts[path / "unscored.jsonl"]


def test_half_a_character_in_an_answer_does_not_lose_the_run(config):
    def cut(question, contexts):
        return "cut in the middle of \ud83d"

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
    # q5 has no relevant document and no gold answer: no system could have had a score.
    def search(question, top_k):
        if "Pluto" in question:
            raise RuntimeError
        return ["d1"]

    config["metrics"] = {"judge": {"type": "python:tests.words:Words"}}
    experiment = rb.run_experiment(config, retrievers={"mine": search})

    scores = {system["name"]: system["scores"] for system in experiment.summary["systems"]}
    assert scores["mine"]["map"]["failed"] == {}
    assert scores["mine"]["map"]["not_applicable"] == 1
    assert scores["mine/extractive"]["rouge1"]["failed"] == {}
    assert scores["mine/extractive"]["correctness"]["failed"] == {}
    assert scores["mine/extractive"]["answer_relevancy"]["failed"] == {"error": 1}


def test_an_index_that_fails_names_the_retriever(config, assert_message):
    class Broken:
        def index(self, corpus):
            raise ValueError("no memory")

        def retrieve(self, queries, top_k):
            return [[] for _ in queries]

    with pytest.raises(rb.AdapterError) as error:
        rb.run_experiment(config, retrievers={"mine": Broken()})
    assert_message(error.value)


@pytest.mark.parametrize("name", ["a/b", "../evil", "<b>", "", 1, "."])
def test_live_names_are_checked(config, name):
    with pytest.raises(rb.OptionError, match="retrievers"):
        rb.run_experiment(config, retrievers={name: lambda question, top_k: []})


def test_two_systems_never_share_a_file(config, assert_message):
    def search(question, top_k):
        return []

    def answer(question, contexts):
        return ""

    retrievers = {"a": search, "a--g": search}
    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config, retrievers=retrievers, generators={"g": answer, "g--g": answer})
    assert_message(error.value)


def test_a_system_of_the_records_named_like_a_retriever_is_refused(
    config, tmp_path, assert_message
):
    write_jsonl(tmp_path / "qa.jsonl", [{"question": "a?", "answer": "b", "system": "bm25"}])
    config["dataset"] = {"type": "records", "path": "qa.jsonl", "corpus": "moons/corpus.jsonl"}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config)
    assert_message(error.value)


def test_stored_results_of_another_data_set_are_refused(config, tmp_path, assert_message):
    (tmp_path / "old.trec").write_text("zz Q0 d1 1 2.0 old\n")
    write_jsonl(tmp_path / "p.jsonl", [{"query_id": "zz", "answer": "x"}])
    run = {"old": {"type": "run_file", "path": "old.trec"}}
    stored = {"p": {"type": "predictions", "path": "p.jsonl"}}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment({**config, "retrievers": run})
    assert_message(error.value)
    with pytest.raises(rb.DataError) as error:
        rb.run_experiment({**config, "generators": stored})
    assert_message(error.value)


def test_stored_results_for_some_queries_are_a_warning(config, tmp_path, assert_message):
    write_jsonl(tmp_path / "p.jsonl", [{"query_id": "q1", "answer": "Io"}])
    config["generators"] = {"p": {"type": "predictions", "path": "p.jsonl"}}

    summary = rb.run_experiment(config).summary

    assert_message(summary["warnings"][0])
    rouge1 = summary["systems"][1]["scores"]["rouge1"]
    assert (rouge1["n"], rouge1["failed"], rouge1["not_applicable"]) == (
        1,
        {"missing_answer": 3},
        1,
    )
    assert rouge1["bounds"][0] < 0.3 < 0.9 < rouge1["bounds"][1]
    assert summary["complete"] is False


def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(
    config, tmp_path, assert_message
):
    (tmp_path / "file").write_text("")
    questions = []

    for output in ("file", "a\0b", "x" * 300):
        with pytest.raises(rb.DataError) as error:
            rb.run_experiment(
                {**config, "output": output},
                retrievers={"m": lambda q, k: questions.append(q) or []},
            )
        assert_message(error.value)
    assert questions == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "moons"]


def test_a_run_that_would_score_nothing_is_refused_before_it_starts(config):
    config["metrics"] = {"retrieval": {"measures": []}}
    config["generators"] = {}

    with pytest.raises(rb.DataError, match="nothing to score") as caught:
        rb.run_experiment(config)
    assert caught.value.exit_code == 2


def test_gold_that_no_query_can_use_exits_with_2(tmp_path, monkeypatch):
    # Every judged document has grade 0: no measure applies, and no call has failed.
    monkeypatch.chdir(tmp_path)
    rows = [{"question": "a?", "retrieved": ["d1"], "relevant": ["d1"], "grades": [0]}]

    experiment = rb.run_experiment(dataset=rows)

    assert experiment.exit_code == 2
    assert "nothing was scored" in experiment.summary["warnings"][-1]


def test_rows_without_an_answer_are_no_failed_calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"question": q, "retrieved": None, "relevant": ["d1"]} for q in ("a?", "b?")]

    with pytest.raises(rb.DataError, match="nothing to score"):
        rb.run_experiment(dataset=rows)
    rows[0]["retrieved"] = ["d1"]
    assert rb.run_experiment(dataset=rows).exit_code == 3


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
        comparisons = experiment.comparisons["measures"][0]["comparisons"]
        return [(c["system"], c["baseline"]) for c in comparisons]

    assert pairs(rb.run_experiment(config)) == [("two", "one")]
    two_as_baseline = {**config, "statistics": {"baseline": "two"}}
    assert pairs(rb.run_experiment(two_as_baseline)) == [("one", "two")]
    with pytest.raises(rb.OptionError, match="did you mean 'two'"):
        rb.run_experiment({**config, "statistics": {"baseline": "twoo"}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"retrievers": {"bm25": {"type": "bm25"}, "x": {"type": "fusion", "retrievers": []}}},
            "retrievers.x.retrievers: found []; allowed: two retrievers or more",
            id="the path starts at the top of the config",
        ),
        pytest.param(
            {"gates": [{"measure": "map", "system": [], "min": 0.1}]},
            "gates.0.system: the list of systems is empty",
            id="nobody is not everybody",
        ),
        pytest.param(
            {"gates": [{"measure": "map", "against": "old.trec", "max_drop": 0.1}]},
            "no baseline file; allowed: a file of ragbench baseline, or a run folder",
            id="no advice that a config cannot follow",
        ),
    ],
)
def test_a_mistake_says_where_it_is_and_what_helps(config, tmp_path, changes, message):
    (tmp_path / "old.trec").write_text("q1 Q0 d1 1 2.0 old\n")
    if "gates" in changes and "against" in changes["gates"][0]:
        changes["gates"][0]["against"] = str(tmp_path / "old.trec")

    with pytest.raises(rb.ConfigError) as caught:
        rb.run_experiment({**config, **changes})

    assert message in str(caught.value)
