"""Runs over answers of TREC RAG: means by hand, gates, and battles judged in both orders."""

import gzip
import itertools
import json

import pytest

import ragbench as rb
from ragbench.calibration.judged_run import read_judged_run
from ragbench.comparison.scorable import nothing_to_score
from ragbench.data.loaders.trec_rag import TrecRag
from ragbench.data.runs.query_view import QueryViews
from ragbench.errors import DataError
from ragbench.experiment.runner import run_experiment
from ragbench.report.page.data import pack_queries
from tests.chat_server import ChatServer
from tests.commands import run_command
from tests.experiment.moons import write_jsonl
from tests.messages import lines_with
from tests.score.judge.scripted import Script

TOPICS = ["t1", "t2", "t3", "t4"]
# Run -> support of the first citation of two sentences, assignment of a vital and an okay nugget.
RUNS = {
    "good": ([2, 2], ["support", "support"]),
    "fair": ([2, 1], ["support", "not_support"]),
    "poor": ([0, None], ["partial_support", "not_support"]),
}
# Run -> weighted precision and recall; strict vital, strict all, vital, all: by hand.
EXPECTED = {
    "good": ([1, 1], [1, 1, 1, 1]),
    "fair": ([0.75, 0.75], [1, 0.5, 1, 0.5]),
    "poor": ([0, 0], [0, 0, 0.5, 0.25]),
}
SUPPORT = ["citation_support.precision", "citation_support.recall"]
NUGGETS = ["nuggets.strict_vital", "nuggets.strict_all", "nuggets.vital", "nuggets.all"]


def answer_row(run, topic, n_words=0):
    # words of an answer, after its name and one word of the second sentence
    answer = [
        {"text": f"{run} {'word ' * n_words}", "citations": [0, 1]},
        {"text": "Second.", "citations": [] if run == "poor" else [1]},
    ]
    ids = {"run_id": run, "topic_id": topic, "topic": f"What of {topic}?"}
    return {**ids, "references": [f"{topic}-a", f"{topic}-b"], "answer": answer}


def judged_row(run, topic):
    labels, _ = RUNS[run]
    sentences = []
    for label in labels:
        sentences.append({"citations": [] if label is None else [{"support": label}]})
    return {"run_id": run, "topic_id": topic, "sentences": sentences}


def nugget_row(run, topic):
    nuggets = []
    for importance, assignment in zip(("vital", "okay"), RUNS[run][1], strict=True):
        nuggets.append({"text": importance, "importance": importance, "assignment": assignment})
    return {"qid": topic, "run_id": run, "nuggets": nuggets}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Files of three runs over four topics; the fourth topic is judged for no run."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    for run in RUNS:
        write_jsonl(tmp_path / f"{run}.jsonl", [answer_row(run, topic) for topic in TOPICS])
    judged = [*itertools.product(RUNS, TOPICS[:3])]
    write_jsonl(tmp_path / "support.jsonl", [judged_row(*cell) for cell in judged])
    write_jsonl(tmp_path / "nuggets.jsonl", [nugget_row(*cell) for cell in judged])
    lines = [f"{topic} 0 {topic}-a 1\n" for topic in TOPICS]
    (tmp_path / "qrels.txt").write_text("".join(lines), encoding="utf-8")
    return tmp_path


def dataset(*runs, **files):
    return {"type": "trec_rag", "answers": [f"{run}.jsonl" for run in runs or RUNS], **files}


def scores_of(experiment):
    return {system["name"]: system["scores"] for system in experiment.summary["systems"]}


def test_means_by_hand_with_intervals_and_gates():
    experiment = run_experiment(
        {
            "dataset": dataset(qrels="qrels.txt", support="support.jsonl", nuggets="nuggets.jsonl"),
            "gates": [
                {"measure": "nuggets.strict_vital", "system": "fair", "min": 0.9},
                {"measure": "words_over_limit", "max": 0},
            ],
        }
    )

    for run, scores in scores_of(experiment).items():
        support, nuggets = EXPECTED[run]
        assert [scores[name]["mean"] for name in SUPPORT] == support
        assert [scores[name]["mean"] for name in NUGGETS] == nuggets
        for name in (*SUPPORT, *NUGGETS):
            # the topic that nobody judged
            assert (scores[name]["n"], scores[name]["not_applicable"]) == (3, 1)
            low, high = scores[name]["interval"]
            assert low < high
        # of two cited documents one is gold
        assert scores["citation_gold.precision"]["mean"] == 0.5
        assert scores["words_over_limit"]["mean"] == 0
        assert scores["recall@10"]["mean"] == 1
    assert [gate["verdict"] for gate in experiment.summary["gates"]] == ["pass"] * 4
    compared = {entry["measure"] for entry in experiment.comparisons["measures"]}
    assert compared >= {*SUPPORT, *NUGGETS, "citation_gold.recall"}


def test_show_and_the_page_have_the_judged_nuggets(assert_message):
    config = {"dataset": dataset("fair", support="support.jsonl", nuggets="nuggets.jsonl")}
    experiment = run_experiment(config)

    shown = run_command("show", str(experiment.path), "t1").stdout
    assert_message(lines_with(shown, "by data set", "nugget ", "sentences: "))
    packed = pack_queries(QueryViews(experiment.path, bare=True)).packed
    queries = json.loads(gzip.decompress(packed))["queries"]
    verdicts = [query["systems"]["fair"].get("verdicts", []) for query in queries]
    # the last topic is not judged
    assert sorted(map(len, verdicts)) == [0, 2, 2, 2]
    # no judge ran: there is nothing to calibrate
    with pytest.raises(DataError):
        read_judged_run(experiment.path)


def test_words_over_the_limit(files):
    rows = [answer_row("long", topic, n_words=408) for topic in TOPICS]
    write_jsonl(files / "long.jsonl", rows)

    config = {"dataset": dataset("long"), "metrics": {"generation": ["words_over_limit"]}}
    (scores,) = scores_of(run_experiment(config)).values()

    # 400 words are allowed, and each answer has two more than its 408
    assert scores["words_over_limit"]["mean"] == 10
    assert scores["words_over_limit"]["direction"] == "lower"


def test_a_run_without_an_answer_fails_at_judged_topics_alone(files):
    write_jsonl(files / "good.jsonl", [answer_row("good", topic) for topic in TOPICS[1:3]])

    experiment = run_experiment({"dataset": dataset(nuggets="nuggets.jsonl")})

    counts = scores_of(experiment)["good"][NUGGETS[0]]
    assert (counts["n"], counts["failed"], counts["not_applicable"]) == (
        2,
        {"missing_answer": 1},
        1,
    )


def test_a_topic_with_other_nuggets_is_not_compared(files, assert_message):
    config = {"dataset": dataset("good", "fair", nuggets="nuggets.jsonl")}
    old = run_experiment(config)
    rows = [nugget_row(run, topic) for run in RUNS for topic in TOPICS[:3]]
    for row in rows[::3]:  # the first topic of each run
        row["nuggets"][0]["text"] = "another fact"
    write_jsonl(files / "nuggets.jsonl", rows)
    new = run_experiment(config)

    with pytest.raises(DataError) as caught:
        rb.compare(old, new, measures=NUGGETS[0])
    assert_message(lines_with(caught.value, "nuggets differ"))
    compared = rb.compare(old, new, measures=NUGGETS[0], intersect=True)
    assert compared.to_dict()["differing"] == {"nuggets": ["t1"]}


def test_answers_alone_cannot_be_scored(assert_message):
    with pytest.raises(DataError) as caught:
        run_experiment({"dataset": dataset()})
    assert "\n" not in str(caught.value)
    assert_message(nothing_to_score(TrecRag(answers="good.jsonl").load(), "config"))


@pytest.mark.parametrize("name", [SUPPORT[0], NUGGETS[0]])
def test_a_metric_without_its_judgements_is_refused(assert_message, name):
    with pytest.raises(DataError) as caught:
        run_experiment({"dataset": dataset(), "metrics": {"generation": [name]}})
    assert_message(caught.value, "metrics.generation")


def with_judge(server, *runs, rubric="pairwise", generation=(), **files):
    judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": [rubric]}
    metrics = {"retrieval": {"measures": []}, "generation": [*generation], "judge": judge}
    return run_experiment({"dataset": dataset(*runs, **files), "metrics": metrics})


def prefers(text):
    """A judge that prefers the run of the higher place in RUNS, and the first of equal ones."""
    order = [*RUNS]
    positions = []
    for line in text.splitlines():
        if (word := line.partition(" ")[0].partition("[")[0]) in order:
            positions.append(order.index(word))
    return "A" if positions[0] <= positions[1] else "B"


@pytest.mark.slow  # runs with a server
@pytest.mark.parametrize(
    "order",
    # each run at each place, and every two of them in both orders
    [("good", "fair", "poor"), ("poor", "good", "fair"), ("fair", "poor", "good")],
    ids="-".join,
)
def test_battles_in_swapped_order_give_the_same_ranking(order):
    with ChatServer(Script(outcome=prefers)) as server:
        experiment = with_judge(server, *order)
        # three pairs, four topics, both orders
        assert server.counters.requests == 3 * 4 * 2

    (entry,) = experiment.comparisons["preferences"]
    ranks = {system["system"]: system["rank"] for system in entry["systems"]}
    assert ranks == {"good": 1, "fair": 2, "poor": 3}
    strengths = {system["system"]: system["strength"] for system in entry["systems"]}
    assert strengths["good"] == pytest.approx(-strengths["poor"])


@pytest.mark.slow  # a run with a server
def test_the_nuggets_of_the_data_set_are_those_of_the_judge():
    with ChatServer(Script(support=lambda n: "support")) as server:
        experiment = with_judge(
            server, "good", rubric="nugget_recall", generation=["nuggets"], nuggets="nuggets.jsonl"
        )
        schemas = [r.body["response_format"]["json_schema"]["schema"] for r in server.received]

    (scores,) = scores_of(experiment).values()
    assert (scores["nugget_recall"]["mean"], scores["nugget_recall"]["n"]) == (1, 3)
    assert {json.dumps([*schema["properties"]]) for schema in schemas} == {
        '["nugget_1", "nugget_2"]'
    }
    # people's assignments stand beside the verdicts of the judge, which alone are calibrated
    assert [*read_judged_run(experiment.path).scores] == ["nugget_recall"]
    assert scores["nuggets.vital"]["mean"] == 1
