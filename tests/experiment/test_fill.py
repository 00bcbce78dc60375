"""Passages that a judge grades: what is asked, what becomes of the grades, what is said of them."""

import json
import math
from pathlib import Path

import pytest
import yaml

import ragbench as rb
from ragbench.config.schema import Fill
from ragbench.data.runs.run_lines import FINGERPRINTS_FILE, read_fingerprints
from ragbench.errors import ConfigError, DataError
from ragbench.experiment.plan.records import PlannedFill
from ragbench.records.manifest import Choices
from ragbench.report.results import render_terminal
from ragbench.score.judge.rubric import load_rubric
from tests.chat_server import ChatServer
from tests.experiment.moons import QRELS, QUERIES, write_jsonl
from tests.score.judge.scripted import Script

pytestmark = pytest.mark.slow  # seconds in all: real runs, servers or many made cases

RUBRICS = Path(rb.__file__).parent / "score" / "judge" / "rubrics"
JUDGED = {("active volcanoes", "Io"): 4, ("ocean", "Europa"): 4, ("thick", "Titan"): 4}
GRADES_MODULE = '''
from ragbench.types import Verdict

class Overlap:
    """Grades a passage by whether it has the longest word of the question."""

    label, model, served, options = "overlap", "overlap/1", None, {}

    def judge(self, item, rubric):
        longest = max(item.question.strip("?").split(), key=len)
        return Verdict(float(longest in item.contexts[0]), reasoning=longest)
'''


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No key and no cache but those that a test sets; tries follow one another fast."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RAGBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("ragbench.llm.limits._FIRST_BACKOFF_S", 0.005)


def level(text):
    """4 for the passage that answers the question, 2 for any other one."""
    levels = [n for (topic, moon), n in JUDGED.items() if topic in text and f"{moon} " in text]
    return levels[0] if levels else 2


def first_three(question, top_k):
    return ["d1", "d2", "d3"]


def last_three(question, top_k):
    return ["d3", "d4", "d2"]


PAIRS = len(QUERIES) * 4  # d1, d2, d3, d4: each once, whatever finds them
RETRIEVERS = {"first": first_three, "last": last_three}


def filling(config, server, measures=("ndcg@3", "precision@3"), **fill):
    judge = {"type": "openai", "model": "m", "base_url": server.url, "rubrics": []}
    rules = {"measures": list(measures), "fill": {"depth": 3, **fill}}
    metrics = {"retrieval": rules, "judge": judge}
    return {**config, "retrievers": {}, "generators": {}, "metrics": metrics}


def without_qrels(config, tmp_path):
    rows = [{"id": q, "question": text, "reference": "x"} for q, text in QUERIES.items()]
    write_jsonl(tmp_path / "qa.jsonl", rows)
    dataset = {"type": "records", "path": "qa.jsonl", "corpus": "moons/corpus.jsonl"}
    return {**config, "dataset": dataset}


def rows(experiment, name="openai"):
    file = experiment.path / "judgements" / "passages" / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def scores(experiment, system):
    return next(s["scores"] for s in experiment.summary["systems"] if s["name"] == system)


def test_measures_of_judgements_without_any(config, tmp_path):
    # Judge each pair once for both retrievers; a second run is free; nDCG follows the grades.
    with ChatServer(Script(level=level), model="m-1") as server:
        source = filling(without_qrels(config, tmp_path), server)
        experiment = rb.run_experiment(source, retrievers=RETRIEVERS)
        assert server.counters.requests == PAIRS
        again = rb.run_experiment(source, retrievers=RETRIEVERS)
        assert server.counters.requests == PAIRS

    grades = {}
    for row in rows(experiment):
        grades.setdefault(row["query_id"], {})[row["document_id"]] = row["grade"]
        assert (row["by"], row["judge"], row["grade"]) == ("model", "openai", row["level"] - 1)
    assert sum(map(len, grades.values())) == PAIRS
    for name, search in RETRIEVERS.items():
        run = {q: {d: -float(i) for i, d in enumerate(search(q, 3))} for q in QUERIES}
        expected = rb.evaluate_run(run, grades, ["ndcg@3", "precision@3"])
        for measure, values in expected.per_query.items():
            assert experiment.per_query[name][measure] == pytest.approx(values)
    prints = read_fingerprints(experiment.path / FINGERPRINTS_FILE)
    assert prints["judgements"] == rb.Qrels.from_dict(grades).query_fingerprints()["judgements"]
    assert again.per_query == experiment.per_query
    assert again.summary["fill"] == experiment.summary["fill"]
    assert scores(again, "first") == scores(experiment, "first")


def test_whose_judgements_is_said_beside_every_mean(config, tmp_path):
    with ChatServer(Script(level=level), model="m-1") as server:
        source = filling(without_qrels(config, tmp_path), server)
        experiment = rb.run_experiment(source, retrievers=RETRIEVERS)

    for score in scores(experiment, "first").values():
        assert score["judged_by"] == {"people": 0, "model": PAIRS, "failed": 0}
        assert "|qrels:model(passage_relevance,grades=" in score["signature"]
        assert "judge=openai,model=m-1,rubric=" in score["signature"]
        assert "people" not in score["signature"]
    fill = experiment.summary["fill"]
    assert (fill["model_name"], fill["pairs"], fill["failed"]) == ("m-1", PAIRS, {})
    sent = sum(row["usage"]["input_tokens"] for row in rows(experiment))
    assert fill["judging"]["tokens"]["input"] == sent > 0
    sentence = (
        f"{PAIRS} pairs of query and passage in the best 3 of any retriever: 0 judged by people"
    )
    page = render_terminal(experiment.record, experiment.compared)
    assert page.count(f"{sentence}, {PAIRS} by m-1 (passage_relevance), 0 failed") == 2
    assert f"{sentence}, {PAIRS} by m-1" in (experiment.path / "report.html").read_text()
    assert f"{sentence}, {PAIRS} by m-1" in (experiment.path / "report.md").read_text()


def test_people_are_not_asked_again_and_never_overruled(config):
    with ChatServer(Script(level=level), model="m-1") as server:
        experiment = rb.run_experiment(filling(config, server), retrievers=RETRIEVERS)
        theirs = sum(d in ("d1", "d2", "d3", "d4") for docs in QRELS.values() for d in docs)
        assert server.counters.requests == PAIRS - theirs

    assert not {(r["query_id"], r["document_id"]) for r in rows(experiment)} & {
        (q, d) for q, docs in QRELS.items() for d in docs
    }
    score = scores(experiment, "first")["ndcg@3"]
    assert score["judged_by"] == {"people": theirs, "model": PAIRS - theirs, "failed": 0}
    assert "|qrels:people+model(passage_relevance,people=" in score["signature"]
    assert experiment.summary["dataset"]["judgements"] == sum(map(len, QRELS.values()))
    assert not any("people grade up to" in text for text in experiment.summary["warnings"])


def test_without_a_hole_nothing_is_asked_and_the_signature_is_peoples(config):
    best = lambda question, top_k: ["d1"] if "volcanoes" in question else []  # noqa: E731
    with ChatServer(Script()) as server:
        filled = rb.run_experiment(filling(config, server), retrievers={"r": best})
        assert server.counters.requests == 0
        source = filling(config, server)
        del source["metrics"]["retrieval"]["fill"]
        plain = rb.run_experiment(source, retrievers={"r": best})

    assert scores(filled, "r")["ndcg@3"]["signature"] == scores(plain, "r")["ndcg@3"]["signature"]
    assert filled.per_query["r"]["ndcg@3"] == pytest.approx(
        plain.per_query["r"]["ndcg@3"], nan_ok=True
    )


def test_a_failed_judgement_is_no_grade(config, tmp_path):
    good = Script(level=level)

    def script(body, times_asked):
        if "Titan has" in str(body["messages"][1]):
            return "I would rather not say."
        return good(body, times_asked)

    with ChatServer(script) as server:
        source = filling(without_qrels(config, tmp_path), server)
        experiment = rb.run_experiment(source, retrievers=RETRIEVERS)

    failed = [row for row in rows(experiment) if row["status"] == "failed"]
    assert {(row["document_id"], row["grade"]) for row in failed} == {("d3", None)}
    assert all("I would rather not say." in row["raw"] for row in failed)
    by = scores(experiment, "first")["ndcg@3"]["judged_by"]
    assert by == {"people": 0, "model": PAIRS - 5, "failed": 5}
    assert experiment.summary["fill"]["failed"] == {"unreadable": 5}
    assert experiment.exit_code == 3
    sentence = f"fill: judge openai: 5 of {PAIRS} passages could not be graded (5 unreadable)"
    assert any(sentence in text for text in experiment.summary["warnings"])
    assert "5 failed (unreadable 5)" in (experiment.path / "report.html").read_text()


@pytest.mark.parametrize(
    ("level", "fill", "grades"),
    [
        pytest.param(4, {}, 3, id="level 4 is grade 3"),
        pytest.param(1, {}, 0, id="level 1 is grade 0"),
        pytest.param(3, {"relevant_from": 3}, 1, id="relevant from 3: 3 is relevant"),
        pytest.param(2, {"relevant_from": 3}, 0, id="relevant from 3: 2 is not"),
    ],
)
def test_a_level_becomes_a_grade(config, tmp_path, level, fill, grades):
    with ChatServer(Script(level=level)) as server:
        source = filling(without_qrels(config, tmp_path), server, **fill)
        experiment = rb.run_experiment(source, retrievers={"first": first_three})

    assert {row["grade"] for row in rows(experiment)} == {grades}
    signature = scores(experiment, "first")["ndcg@3"]["signature"]
    assert ("relevant_from=3" in signature) == bool(fill)


@pytest.mark.parametrize(("level", "grade"), [(1.0, 0), (2.49, 1), (2.5, 1), (2.51, 2), (4.0, 3)])
def test_a_weighted_level_takes_the_grade_next_to_it_and_the_lower_of_two(level, grade):
    rubric = load_rubric("passage_relevance")

    assert PlannedFill("gpt", None, rubric, Fill()).grade_of(level) == grade


def test_only_the_best_hits_are_graded(config, tmp_path):
    with ChatServer(Script(level=level)) as server:
        source = filling(without_qrels(config, tmp_path), server, depth=1)
        experiment = rb.run_experiment(source, retrievers=RETRIEVERS)

    assert {row["document_id"] for row in rows(experiment)} == {"d1", "d3"}
    assert len(rows(experiment)) == 2 * len(QUERIES)


def test_other_grades_than_peoples_are_a_warning(config):
    with ChatServer(Script(level=level)) as server:
        source = filling(config, server, relevant_from=3)
        experiment = rb.run_experiment(source, retrievers=RETRIEVERS)

    sentence = "fill: people grade up to 3, the model up to 1"
    assert any(sentence in text for text in experiment.summary["warnings"])


def test_a_passage_without_text_stays_unjudged(config, tmp_path):
    with ChatServer(Script()) as server:
        source = filling(without_qrels(config, tmp_path), server)
        experiment = rb.run_experiment(source, retrievers={"r": lambda question, k: ["d1", "zz"]})
        assert server.counters.requests == len(QUERIES)

    assert experiment.summary["fill"]["without_text"] == len(QUERIES)
    assert any("have no text" in text for text in experiment.summary["warnings"])


def test_the_default_measures_and_what_looks_too_deep(config, tmp_path, assert_message):
    with ChatServer(Script(level=level)) as server:
        source = filling(without_qrels(config, tmp_path), server)
        del source["metrics"]["retrieval"]["measures"]
        experiment = rb.run_experiment(source, retrievers={"first": first_three})

    assert [*scores(experiment, "first")][:2] == ["found@5", "ndcg@10"]
    deep_warnings = [
        text for text in experiment.summary["warnings"] if "may look below rank 3" in text
    ]
    assert len(deep_warnings) == 1
    assert_message(deep_warnings[0])


def test_a_judge_of_answers_grades_passages_too(config, tmp_path):
    # A judge grades passages through the same connection as its rubrics for answers.
    with ChatServer(Script(level=level)) as server:
        source = filling(config, server, judge="gpt")
        source["generators"] = {"extractive": {"type": "extractive", "sentences": 1}}
        block = {**source["metrics"]["judge"], "rubrics": ["answer_relevancy"]}
        words = {"type": "python:tests.words:context_overlap"}
        source["metrics"]["judge"] = {"gpt": block, "words": words}
        source["metrics"]["generation"] = []
        experiment = rb.run_experiment(source, retrievers={"first": first_three})

    assert len(rows(experiment, "gpt")) > 0
    assert "answer_relevancy(judge=gpt)" in scores(experiment, "first/extractive")
    assert set(experiment.summary["judges"]) == {"gpt", "words"}


def test_a_judge_of_ones_own_without_a_server(config, tmp_path):
    (tmp_path / "grades.py").write_text(GRADES_MODULE)
    source = {
        **without_qrels(config, tmp_path),
        "generators": {},
        "metrics": {
            "retrieval": {"measures": ["hit_rate@1"], "fill": {"depth": 2}},
            "judge": {"type": "python:grades:Overlap", "rubrics": []},
        },
    }
    path = tmp_path / "exp.yaml"
    path.write_text(yaml.safe_dump(source))
    experiment = rb.run_experiment(path)

    values = experiment.per_query["bm25"]["hit_rate@1"]
    assert values["q1"] == 1.0
    assert math.isnan(values["q5"]), "no passage is relevant: not applicable, not 0"
    signature = scores(experiment, "bm25")["hit_rate@1"]["signature"]
    assert "judge=python:grades:Overlap,model=overlap/1" in signature


def test_the_saved_config_runs_again_from_the_stored_replies(config, tmp_path):
    # With a rubric of one's own, whose path moves with the config.
    text = (RUBRICS / "passage_relevance.yaml").read_text().replace("name: passage_", "name: my_")
    (tmp_path / "mine.yaml").write_text(text)
    with ChatServer(Script(level=level)) as server:
        source = filling(without_qrels(config, tmp_path), server, rubric="mine.yaml")
        source["retrievers"] = {"bm25": {"type": "bm25"}}
        experiment = rb.run_experiment(source)
    saved = yaml.safe_load((experiment.path / "config.yaml").read_text())
    fill = saved["metrics"]["retrieval"]["fill"]
    assert (fill["judge"], fill["depth"]) == ("openai", 3)
    assert (experiment.path / fill["rubric"]).resolve() == tmp_path / "mine.yaml"

    replayed = rb.run_experiment(
        experiment.path / "config.yaml", choices=Choices(judge_replay=True)
    )
    assert replayed.summary["fill"]["rubric"] == "my_relevance"
    assert replayed.per_query == experiment.per_query


def test_no_judge_no_measures_of_judgements(config, tmp_path, assert_message):
    with ChatServer(Script()) as server:
        source = filling(without_qrels(config, tmp_path), server)
        with pytest.raises(DataError) as error:
            rb.run_experiment(source, choices=Choices(judge=False), retrievers=RETRIEVERS)
        assert_message(error.value, "metrics.retrieval.measures")
        people = rb.run_experiment(
            filling(config, server), choices=Choices(judge=False), retrievers=RETRIEVERS
        )
        assert server.counters.requests == 0
    assert "fill" not in people.summary
    assert_message(people.summary["warnings"])


def test_a_judge_without_its_key_is_skipped_and_said(config):
    source = filling(config, type("NoServer", (), {"url": ""}))
    source["metrics"]["judge"] = {"type": "openai", "model": "m", "when": "available"}
    experiment = rb.run_experiment(source, retrievers=RETRIEVERS)

    sentence = "judgements are not filled: judge openai: OPENAI_API_KEY is not set"
    assert sentence in experiment.summary["warnings"]
    assert "judged_by" not in scores(experiment, "first")["ndcg@3"]


def test_data_without_judgements_and_without_fill_name_it(config, tmp_path):
    source = {**without_qrels(config, tmp_path), "generators": {}}
    source["metrics"] = {"retrieval": {"measures": ["ndcg@10"]}}
    with pytest.raises(DataError, match=r"metrics\.retrieval\.fill"):
        rb.run_experiment(source)


def test_no_measure_of_judgements_asks_nobody(config, tmp_path):
    with ChatServer(Script()) as server:
        source = filling(without_qrels(config, tmp_path), server, measures=["answer_hit@3"])
        experiment = rb.run_experiment(source, retrievers=RETRIEVERS)
        assert server.counters.requests == 0

    sentence = "fill: no measure reads judgements, and so none are made"
    assert sentence in experiment.summary["warnings"]


MODEL = {"type": "openai", "model": "m", "rubrics": []}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"retrieval": {"fill": {}}}, r"fill: fill needs a judge, and metrics.judge is missing"),
        (
            {"retrieval": {"fill": {"judge": "gtp"}}, "judge": {"gpt": MODEL}},
            r"fill\.judge: no judge 'gtp'[^!]*did you mean 'gpt'",
        ),
        (
            {"retrieval": {"fill": {}}, "judge": {"a": MODEL, "b": MODEL}},
            r"fill must name one of the 2 judges[^!]*judge: a, b",
        ),
        (
            {"retrieval": {"fill": {"rubric": "fluency"}}, "judge": MODEL},
            r"fill\.rubric: rubric 'fluency' cannot grade passages",
        ),
        (
            {"retrieval": {"fill": {"rubric": "passage_relevanc"}}, "judge": MODEL},
            r"unknown rubric 'passage_relevanc'[^!]*did you mean 'passage_relevance'",
        ),
        (
            {"retrieval": {"fill": {}}, "judge": {"type": "python:tests.words:Words"}},
            r"judge 'python:tests.words:Words' cannot apply rubric 'passage_relevance'",
        ),
        (
            {"retrieval": {"top_k": 5, "fill": {"depth": 6}}, "judge": MODEL},
            r"fill\.depth: 6 is more than top_k",
        ),
        (
            {"retrieval": {"fill": {"relevant_from": 5}}, "judge": MODEL},
            r"5 is above the highest level of rubric 'passage_relevance'",
        ),
        (
            {
                "retrieval": {"match": {"level": "document", "separator": "#"}, "fill": {}},
                "judge": MODEL,
            },
            r"fill cannot be combined with match: level: document",
        ),
        ({"retrieval": {"fill": {"dept": 3}}, "judge": MODEL}, r"did you mean 'depth'"),
    ],
)
def test_mistakes_in_the_block(config, metrics, message):
    with pytest.raises(ConfigError, match=message):
        rb.run_experiment({**config, "metrics": metrics})
