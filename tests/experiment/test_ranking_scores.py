"""Measures of texts and of subtopics in whole experiments: what they read, and what they need."""

import pytest

import ragbench as rb
from tests.experiment.moons import ANSWERS, QUERIES, write_jsonl


@pytest.fixture
def config(config):
    """The config with one retriever: what is tested needs no second one."""
    del config["retrievers"]["exact"]
    return config


def scores_of(experiment, system):
    return next(s["scores"] for s in experiment.summary["systems"] if s["name"] == system)


@pytest.fixture
def answered(config, tmp_path):
    """Questions with gold answers and a corpus, and no judgement at all."""
    rows = [
        {"id": q, "question": text, "reference": ANSWERS.get(q, [None])[0]}
        for q, text in QUERIES.items()
    ]
    write_jsonl(tmp_path / "qa.jsonl", rows)
    config["dataset"] = {"type": "records", "path": "qa.jsonl", "corpus": "moons/corpus.jsonl"}
    config["generators"], config["metrics"] = {}, {}
    return config


def first_three(question, top_k):
    """Io, Europa, Titan, whatever the question."""
    return ["d1", "d2", "d3"]


def test_answers_without_judgements_get_answer_hit(answered):
    experiment = rb.run_experiment(answered, retrievers={"fixed": first_three})

    scores = scores_of(experiment, "fixed")
    assert list(scores) == ["found@5", "answer_hit@5", "answer_hit@1", "answer_hit@10"]
    assert experiment.per_query["fixed"]["answer_hit@1"] == pytest.approx(
        {"q1": 1.0, "q2": 0.0, "q3": 0.0, "q4": 0.0, "q5": float("nan")}, nan_ok=True
    )
    assert scores["answer_hit@5"]["mean"] == 3 / 4
    assert scores["answer_hit@5"]["not_applicable"] == 1
    assert "|gold:" in scores["answer_hit@5"]["signature"]
    assert "qrels" not in scores["answer_hit@5"]["signature"]
    causes = (experiment.path / "unscored.jsonl").read_text()
    assert '"no_reference"' in causes


def test_defaults_deeper_than_top_k_are_left_out(answered):
    answered["metrics"] = {"retrieval": {"top_k": 5}}

    scores = scores_of(rb.run_experiment(answered), "bm25")
    assert list(scores) == ["found@5", "answer_hit@5", "answer_hit@1"]


@pytest.mark.costly
def test_measures_of_ids_and_texts_stand_in_the_order_of_the_config(config):
    names = ["ndcg@10", "answer_hit@2", "map"]
    config["metrics"] = {"retrieval": {"measures": names}}

    experiment = rb.run_experiment(config, retrievers={"fixed": first_three})

    assert list(scores_of(experiment, "fixed")) == ["found@5", *names]
    assert scores_of(experiment, "fixed")["answer_hit@2"]["mean"] == 2 / 4


def test_the_text_of_the_hit_counts_before_that_of_the_corpus(answered):
    def search(question, top_k):
        return [{"id": "d2", "text": "Nothing here."}, {"id": "mine", "text": "It is Europa."}]

    scores = rb.run_experiment(answered, retrievers={"mine": search}).per_query["mine"]

    assert (scores["answer_hit@1"]["q2"], scores["answer_hit@5"]["q2"]) == (0.0, 1.0)


def test_passages_without_text_are_counted(answered, assert_message):
    def search(question, top_k):
        return ["unknown", "d2"]

    experiment = rb.run_experiment(answered, retrievers={"mine": search})

    assert_message(experiment.summary["warnings"])


def test_no_text_at_all_is_refused(answered, assert_message):
    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(answered, retrievers={"mine": lambda question, top_k: ["unknown"]})
    assert_message(error.value)


def test_a_query_that_fails_has_no_answer_hit(answered):
    def search(question, top_k):
        if "ocean" in question or "Pluto" in question:
            raise RuntimeError
        return ["d1"]

    scores = scores_of(rb.run_experiment(answered, retrievers={"flaky": search}), "flaky")

    assert scores["answer_hit@1"]["failed"] == {"error": 1}
    assert scores["answer_hit@1"]["n"] == 3


@pytest.mark.parametrize(("rule", "n", "mean"), [("zero", 4, 1 / 4), ("skip", 1, 1.0)])
def test_a_query_that_a_run_file_lacks(answered, tmp_path, rule, n, mean):
    (tmp_path / "old.trec").write_text("q1 Q0 d1 1 2.0 old\n")
    answered["retrievers"] = {"old": {"type": "run_file", "path": "old.trec"}}
    answered["metrics"] = {"retrieval": {"measures": ["answer_hit@1"], "missing": rule}}

    score = scores_of(rb.run_experiment(answered), "old")["answer_hit@1"]

    assert (score["n"], score["mean"]) == (n, mean)


def test_ties_of_a_run_file_are_broken_as_for_every_measure(answered, tmp_path):
    (tmp_path / "old.trec").write_text("q1 Q0 d1 1 2.0 old\nq1 Q0 d2 2 2.0 old\n")
    answered["retrievers"] = {"old": {"type": "run_file", "path": "old.trec"}}
    answered["metrics"] = {"retrieval": {"measures": ["answer_hit@1", "answer_hit@2"]}}

    scores = rb.run_experiment(answered).per_query["old"]

    assert (scores["answer_hit@1"]["q1"], scores["answer_hit@2"]["q1"]) == (0.0, 1.0)


def test_judgements_that_are_not_there_point_to_answer_hit(answered, assert_message):
    answered["metrics"] = {"retrieval": {"measures": ["map"]}}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(answered)
    assert_message(error.value, "metrics.retrieval.measures")


def test_answers_that_are_not_there(config, data, assert_message):
    (data / "answers.jsonl").unlink()
    config["metrics"] = {"retrieval": {"measures": ["answer_hit@5"]}}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config)
    assert_message(error.value, "metrics.retrieval.measures")


def test_subtopics_that_are_not_there(config, assert_message):
    config["metrics"] = {"retrieval": {"measures": ["alpha_ndcg@5"]}}

    with pytest.raises(rb.DataError) as error:
        rb.run_experiment(config)
    assert_message(error.value, "metrics.retrieval.measures")


def test_a_rule_that_a_measure_cannot_follow_is_refused_before_anything_runs(
    config, assert_message
):
    config["metrics"] = {"retrieval": {"measures": ["map", "answer_hit@5"], "ties": "average"}}
    questions = []

    with pytest.raises(rb.OptionError) as error:
        rb.run_experiment(config, retrievers={"m": lambda q, k: questions.append(q) or []})
    assert_message(error.value)
    assert questions == []


@pytest.mark.costly
def test_subtopics_of_a_data_set(config, data):
    # q2: d2 covers a, d6 covers a and b; Europa, Ice: a twice, b once.
    rows = ["q1\td1\t1\ta", "q2\td2\t1\ta", "q2\td6\t1\ta", "q2\td6\t2\tb"]
    table = "\n".join(["query-id\tcorpus-id\tscore\tsubtopic", *rows, ""])
    (data / "qrels" / "test.tsv").write_text(table)
    names = ["subtopic_recall@1", "redundancy@2", "ndcg@5"]
    config["metrics"] = {"retrieval": {"measures": names}}

    experiment = rb.run_experiment(config, retrievers={"mine": lambda q, k: ["d6", "d2", "d1"]})

    scores = experiment.per_query["mine"]
    assert scores["subtopic_recall@1"] == {"q1": 0.0, "q2": 1.0}
    assert scores["redundancy@2"]["q2"] == 1 / 2
    signature = scores_of(experiment, "mine")["subtopic_recall@1"]["signature"]
    assert "|subtopics:" in signature
    assert "subtopics" not in scores_of(experiment, "mine")["ndcg@5"]["signature"]
