"""The causes of whole runs: their files, their agreement with scores, thresholds, apps, records."""

import csv
import json

import pytest

import ragbench as rb
from ragbench.data.runs.query_view import QueryViews
from ragbench.errors import ConfigError, DataError
from tests.chat_server import ChatServer
from tests.experiment.moons import FEW_SCORES, QUERIES, write_jsonl
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, models or processes


@pytest.fixture
def config(config):
    """The config with one retriever: what is tested needs no second one."""
    del config["retrievers"]["exact"]
    return config


def rows_of(experiment, system):
    with (experiment.path / "causes.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["system"] == system]
    return {row["query_id"]: row for row in rows}


def causes_of(experiment, system):
    return {query: row["cause"] for query, row in rows_of(experiment, system).items()}


def system_of(experiment, name):
    return next(system for system in experiment.summary["systems"] if system["name"] == name)


def test_counts_add_up_and_agree_with_the_file(moons_run):
    for system in moons_run.summary["systems"]:
        rows = causes_of(moons_run, system["name"])
        assert list(rows) == list(QUERIES)
        assert sum(system["causes"].values()) == len(QUERIES)
        for cause, count in system["causes"].items():
            assert [*rows.values()].count(cause) == count
            assert (cause in system["cause_shares"]) == (count > 0)


def test_a_retriever_is_right_where_a_generator_would_read_a_hit(config, assert_message):
    config["metrics"] = {"retrieval": {"measures": ["hit_rate@5", "hit_rate@1"]}}
    config["causes"] = {"read": 1}
    experiment = rb.run_experiment(config)

    hits = experiment.per_query["bm25"]["hit_rate@1"]
    for query, cause in causes_of(experiment, "bm25").items():
        assert (cause == "found") == (hits[query] == 1), query
    lost = rows_of(experiment, "bm25")["q5"]
    assert lost["cause"] == "unknown", "judged, and nothing relevant: nothing to find"
    assert_message(lost["why"])


@pytest.mark.parametrize("match", [{"level": "id"}, {"level": "text", "overlap": 0.8}])
def test_answers_of_a_file(config, tmp_path, match, assert_message):
    # q1 right, q2 wrong, q3 refused, q4 missing, q5 answered though nobody can.
    answers = {"q1": "It is Io.", "q2": "On Mars.", "q3": "I don't know.", "q5": "Four years."}
    write_jsonl(tmp_path / "said.jsonl", [{"query_id": q, "answer": a} for q, a in answers.items()])
    config["generators"] = {"saved": {"type": "predictions", "path": str(tmp_path / "said.jsonl")}}
    config["metrics"] = {"retrieval": {"match": match}, "generation": ["token_f1"]}
    config["max_failed"] = 1.0
    experiment = rb.run_experiment(config)

    assert causes_of(experiment, "bm25/saved") == {
        "q1": "right",
        "q2": "not_used",
        "q3": "refused",
        "q4": "failed",
        "q5": "should_have_refused",
    }
    assert_message(rows_of(experiment, "bm25/saved")["q4"]["why"])


def test_thresholds_of_the_config_decide(config):
    config["metrics"] = {"generation": ["token_f1"]}
    config["causes"] = {"right": {"measure": "token_f1", "min": 0.0}}
    experiment = rb.run_experiment(config)
    lenient = causes_of(experiment, "bm25/extractive")
    config["causes"] = {"right": {"measure": "token_f1", "min": 1.0}}
    strict = rows_of(rb.run_experiment(config), "bm25/extractive")

    assert [lenient[query] for query in ("q1", "q2", "q3", "q4")] == ["right"] * 4
    assert {strict[query]["cause"] for query in ("q1", "q2", "q3", "q4")} == {"not_used"}
    assert "token_f1 0." in strict["q1"]["why"]
    assert "< 1" in strict["q1"]["why"]


def test_a_judge_decides_where_it_was_asked(config, monkeypatch, tmp_path):
    # Correctness, refusal and faithfulness, in this order, by the scores that the run wrote.
    monkeypatch.setenv("RAGBENCH_CACHE", str(tmp_path / "cache"))
    with ChatServer(Script(), model="m") as server:
        rubrics = ["faithfulness", "correctness", "refusal"]
        judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": rubrics}
        experiment = rb.run_experiment({**config, "metrics": {**FEW_SCORES, "judge": judge}})

    rows = rows_of(experiment, "bm25/extractive")
    scores = experiment.per_query["bm25/extractive"]
    for query in ("q1", "q2", "q3", "q4"):
        row, right = rows[query], scores["correctness"][query] >= 0.5
        supported = scores["faithfulness"][query] >= 0.5
        refused = scores["refusal"][query] >= 0.5
        assert f"correctness {scores['correctness'][query]:.2g}" in row["why"] or refused
        wrong = "not_used" if supported else "unsupported"
        assert row["cause"] == ("right" if right else "refused" if refused else wrong)


def test_flows_say_which_queries_moved(config):
    config["retrievers"]["exact"] = {"type": "bm25", "stemmer": "none", "stopwords": "none"}
    config["causes"] = {"read": 1}
    experiment = rb.run_experiment(config)
    causes, after = (causes_of(experiment, name) for name in ("bm25", "exact"))
    [flow] = [family for family in experiment.comparisons["causes"] if family["system"] == "exact"]

    moved = {query: (m["before"], m["after"]) for m in flow["moves"] for query in m["queries"]}
    assert moved == {q: (causes[q], after[q]) for q in QUERIES if causes[q] != after[q]}
    assert flow["same"] == len(QUERIES) - len(moved)
    assert flow["baseline"] == "bm25"


def test_records_without_judgements(tmp_path, monkeypatch):
    # Contexts and references alone: the words of the gold answer say what was read.
    monkeypatch.chdir(tmp_path)
    fact = "The tower in Paris was built by Gustave Eiffel in 1889."
    rows = [
        {"question": "Who built it?", "answer": "Gustave Eiffel", "contexts": [fact]},
        {"question": "Who built the tower?", "answer": "A king", "contexts": [fact]},
        {"question": "Who built a tower?", "answer": "A queen", "contexts": ["Rome is old."]},
        {"question": "Who built towers?", "answer": "I don't know.", "contexts": [fact]},
        {"question": "Who?", "answer": "I don't know.", "contexts": ["Rome is old."]},
    ]
    records = [{**row, "reference": "Gustave Eiffel"} for row in rows]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    experiment = rb.run_experiment(
        {"name": "logs", "dataset": {"type": "records", "path": str(tmp_path / "records.jsonl")}}
    )

    causes = [*causes_of(experiment, "given").values()]
    assert causes == ["right", "not_used", "not_retrieved", "refused", "not_retrieved"]


def test_a_csv_file_says_which_questions_have_no_answer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.csv").write_text(
        "question,answer,reference,answerable\n"
        "Who built it?,Gustave Eiffel,Gustave Eiffel,TRUE\n"
        "Who sold it?,I don't know.,Gustave Eiffel,FALSE\n"
        "Who painted it?,A king,Gustave Eiffel,no\n"
    )
    experiment = rb.run_experiment(
        {"name": "logs", "dataset": {"type": "records", "path": str(tmp_path / "records.csv")}}
    )

    assert [*causes_of(experiment, "given").values()] == ["right", "right", "should_have_refused"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"read": 0}, "causes.read: 0 is out of range"),
        ({"right": {"measure": "token_f2"}}, "causes.right.measure: 'token_f2' is not scored"),
        ({"right": {"measure": "ndcg@10"}}, "'ndcg@10' scores rankings, not answers"),
        ({"rigth": {}}, "did you mean 'right'"),
        ({"need": "some"}, "causes.need: unknown value 'some'"),
    ],
)
def test_mistakes_are_said_before_anything_runs(config, block, message):
    with pytest.raises(ConfigError) as error:
        rb.run_experiment({**config, "causes": block})

    assert message in str(error.value)


def test_a_query_as_the_run_folder_knows_it(moons_run):
    views = QueryViews(moons_run.path)
    view = views[views.find("ocean beneath")]

    assert (view.id, view.question, view.answers) == ("q2", QUERIES["q2"], ("Europa",))
    assert view.judged == {"d2": 3, "d6": 1}
    assert [(item.id, item.grade, item.title) for item in view.gold] == [
        ("d2", 3, "Europa"),
        ("d6", 1, "Ice"),
    ]
    pair = view.system("bm25/extractive")
    assert pair is not None
    ranks = (moons_run.path / "rankings" / "bm25.trec").read_text().splitlines()
    expected = [line.split()[2] for line in ranks if line.startswith("q2 ")]
    assert [hit.id for hit in pair.ranking] == expected
    assert [hit.rank for hit in pair.ranking] == list(range(1, len(expected) + 1))
    passages = pair.answers[0].contexts
    assert passages is not None
    assert [hit.id for hit in pair.ranking if hit.read] == [passage.id for passage in passages]
    assert pair.ranking[0].grade == view.judged[pair.ranking[0].id]
    assert pair.ranking[0].text
    assert pair.cause == causes_of(moons_run, "bm25/extractive")["q2"]
    assert {item.rubric for item in pair.verdicts} <= set(pair.scores)
    assert pair.scores["token_f1"] == moons_run.per_query["bm25/extractive"]["token_f1"]["q2"]
    assert view.system("bm25").answers == ()


def test_a_query_that_is_not_there(moons_run, assert_message):
    views = QueryViews(moons_run.path)

    with pytest.raises(DataError) as error:
        views.find("qq3")
    assert_message(error.value, "TMP/runs/moons/RUN")
    with pytest.raises(DataError) as error:
        views.find("which MOON")
    assert_message(error.value, "TMP/runs/moons/RUN")
    assert [view.id for view in views] == list(QUERIES)


def test_ids_that_look_like_formulas_come_back(config, data):
    for name in ("queries.jsonl", "answers.jsonl", "qrels/test.tsv"):
        path = data / name
        path.write_text(path.read_text().replace("q1", "=1+1").replace("q2", "'q2"))
    experiment = rb.run_experiment(config)

    text = (experiment.path / "causes.csv").read_text()
    assert "bm25,'=1+1," in text
    assert "bm25,'q2," in text, "a quote alone is no formula"
    views = QueryViews(experiment.path)
    assert set(views.causes["bm25"]) == {"=1+1", "'q2", "q3", "q4", "q5"}
    assert views[views.find("=1+1")].systems[0].cause == "found"


def test_hits_that_nobody_knows_are_not_held_against_the_judgements(
    config, tmp_path, monkeypatch, assert_message
):
    # An app whose passages have ids of their own: their words tell what was read.
    (tmp_path / "strange_app.py").write_text(
        "def answer(question):\n"
        "    return {'answer': 'On Mars.', 'contexts': ['Io has the most volcanoes.']}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    config["apps"] = {"mine": {"type": "python:strange_app:answer"}}
    for key in ("retrievers", "generators"):
        config.pop(key, None)

    experiment = rb.run_experiment(config)
    rows = rows_of(experiment, "mine")

    assert_message(experiment.record.notes)
    assert not any("gold" in row["why"] and " not among " in row["why"] for row in rows.values())
    assert rows["q1"]["cause"] == "not_used", "the answer, Io, stands in what it read"
    assert {row["cause"] for row in rows.values()} != {"not_used"}
