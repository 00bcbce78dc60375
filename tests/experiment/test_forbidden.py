"""Forbidden documents in whole experiments: measures, bounds, gates and systems that read."""

import gzip
import json
import math
import warnings
from random import Random

import pytest

import ragbench as rb
from ragbench.data.runs.query_view import QueryViews
from ragbench.data.runs.run_lines import CAUSES_FILE, read_causes
from ragbench.errors import DataError
from ragbench.report.page.data import pack_queries
from ragbench.report.query import render_query
from tests.messages import lines_with

CORPUS = {
    "public": "Salary bands are public.",
    "secret": "Beta salary is secret.",
    "old": "Gamma salary of last year.",
}
LIMIT_OF_NONE_IN_12 = 1 - 0.05 ** (1 / 12)


def rows_with_leaks(n_leaks, n=12):
    rows = []
    for number in range(n):
        second = "hr-secret" if number < n_leaks else "other"
        row = {"id": f"q{number}", "question": f"Salary {number}?", "retrieved": ["pub", second]}
        rows.append({**row, "relevant": ["pub"], "forbidden": ["hr-secret"]})
    return rows


def run_rows(tmp_path, rows, gates=()):
    config = {
        "name": "leaks",
        "metrics": {"retrieval": {"measures": ["recall@5", "leak@1", "leak@5"]}},
        "gates": list(gates),
        "output": str(tmp_path / "runs"),
    }
    return rb.run_experiment(config, dataset=rows)


@pytest.mark.parametrize("n_leaks", [0, 4, 12])
def test_leaks_are_counted_in_a_run_and_in_evaluate(tmp_path, n_leaks):
    rows = rows_with_leaks(n_leaks)

    experiment, evaluation = run_rows(tmp_path, rows), rb.evaluate(rows, ["leak@1", "leak@5"])

    scores = experiment.summary["systems"][0]["scores"]
    assert (scores["leak@1"]["mean"], scores["leak@5"]["mean"]) == (0, n_leaks / 12)
    assert (scores["leak@5"]["direction"], scores["leak@5"]["n"]) == ("lower", 12)
    assert scores["leak@1"]["interval"] == [0, pytest.approx(LIMIT_OF_NONE_IN_12)]
    assert evaluation.mean["leak@5"] == scores["leak@5"]["mean"]
    assert scores["recall@5"]["mean"] == 1.0


def test_leaks_are_scored_where_the_config_names_no_measures(tmp_path):
    experiment = rb.run_experiment({"output": str(tmp_path)}, dataset=rows_with_leaks(3))

    assert experiment.summary["systems"][0]["scores"]["leak@5"]["mean"] == 3 / 12


@pytest.mark.parametrize("seed", range(8))
def test_evaluate_tells_the_leaks_among_the_passages_read_as_a_run_does(tmp_path, seed):
    random = Random(seed)
    rows = []
    for number in range(20):
        names = random.sample(["pub", "a", "b", "c"], random.randint(0, 4))
        passages = [{"id": name, "text": f"Text {name}."} for name in names]
        row = {
            "id": f"q{number}",
            "question": f"Salary {number}?",
            "contexts": random.choice([passages, passages, None]),
            "answer": random.choice(["Text.", "Text.", None]),
            "reference": "Text",
            "forbidden": random.sample(["a", "b", "z"], random.randint(0, 2)),
        }
        rows.append(row)
    rows.append({**row, "id": "last", "contexts": [], "answer": "Text.", "forbidden": ["a"]})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = rb.evaluate(rows, ["leak_read"])
    experiment = rb.run_experiment({"output": str(tmp_path)}, dataset=rows)

    score = experiment.summary["systems"][0]["scores"]["leak_read"]
    ours = evaluation.summary["leak_read"]
    assert (ours.mean, ours.n, list(ours.interval)) == (
        score["mean"],
        score["n"],
        score["interval"],
    )
    assert evaluation.columns["leak_read"].signature.parts
    assert evaluation.columns["leak_read"].direction == "lower"


def test_evaluate_scores_leaks_by_itself_where_rows_tell_what_was_read():
    rows = rows_with_leaks(3)
    answered = [{**row, "answer": "public", "reference": "public"} for row in rows]

    assert "leak_read" not in rb.evaluate(rows).mean
    assert rb.evaluate(rows).mean["leak@5"] == 3 / 12
    assert rb.evaluate(answered).mean["leak_read"] == 3 / 12


def test_ids_of_another_world_do_not_pass_as_free_of_leaks(tmp_path):
    row = {"relevant": ["doc-1"], "forbidden": ["doc-2"], "answer": "x", "reference": "x"}
    passages = [{"id": "chunk-9", "text": "x"}]
    rows = [{**row, "id": n, "question": f"{n}?", "contexts": passages} for n in "ab"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = rb.evaluate(rows, ["leak@5", "leak_read", "right"])
    [system] = rb.run_experiment({"output": str(tmp_path)}, dataset=rows).summary["systems"]

    assert {*evaluation.causes["leak_read"].values()} == {"unknown_ids"}
    assert (system["scores"]["leak_read"]["n"], system["scores"]["leak_read"]["mean"]) == (0, None)


@pytest.mark.parametrize(
    ("gate", "verdict"),
    [
        ({"measure": "leak@1", "max": 0}, "pass"),
        ({"measure": "leak@5", "max": 0}, "fail"),
        ({"measure": "leak@1", "max": 0.23, "decide": "interval"}, "pass"),
        # none of 12 leaks: at most 22 %
        ({"measure": "leak@1", "max": 0.05, "decide": "interval"}, "fail"),
    ],
)
def test_gates_limit_leaks(tmp_path, gate, verdict):
    [decision] = run_rows(tmp_path, rows_with_leaks(4), [gate]).summary["gates"]

    assert decision["verdict"] == verdict


def test_a_judged_document_that_must_not_come_up_is_gated_downwards(tmp_path):
    rows = [
        {
            "question": f"Salary {number}?",
            "retrieved": ["pub", "secret"] if number < 4 else ["pub"],
            "relevant": {"pub": 1, "secret": 0},
        }
        for number in range(12)
    ]
    config = {
        "metrics": {"retrieval": {"measures": ["num_nonrel_judged_ret"]}},
        "gates": [{"measure": "num_nonrel_judged_ret", "max": 0}],
        "output": str(tmp_path),
    }

    summary = rb.run_experiment(config, dataset=rows).summary

    [gate] = summary["gates"]
    score = summary["systems"][0]["scores"]["num_nonrel_judged_ret"]
    assert (gate["verdict"], score["mean"], score["direction"]) == ("fail", 4, "lower")


def test_passages_that_were_read_are_looked_at_with_the_documents_they_are_of(tmp_path):
    corpus = [{"id": name, "text": text, "year": name} for name, text in CORPUS.items()]
    rows = [
        {"id": "ids", "question": "Beta salary?", "forbidden": ["secret"]},
        {"id": "fields", "question": "Gamma salary?", "forbidden": "year=old"},
        {
            "id": "spans",
            "question": "Beta?",
            "forbidden": [{"document": "secret", "quote": "Beta"}],
        },
        {"id": "below", "question": "Gamma salary?", "forbidden": ["secret"]},
        {"id": "none", "question": "Beta salary?", "forbidden": None},
    ]
    config = {
        "name": "read",
        "retrievers": {
            "whole": {"type": "bm25"},
            "parts": {"type": "bm25", "chunk": {"by": "words", "size": 2}},
        },
        "generators": {"first": {"type": "extractive", "passages": 1}},
        "metrics": {"retrieval": {"measures": ["leak@1", "leak@3"]}},
        "gates": [{"measure": "leak_read", "max": 0}],
        "output": str(tmp_path / "runs"),
    }
    rows = [{**row, "reference": "public", "relevant": ["public"]} for row in rows]
    rows.append({**rows[0], "id": "right", "reference": "Beta salary is secret."})

    experiment = rb.run_experiment(config, dataset=rows, documents=corpus)

    per_query = experiment.per_query
    assert per_query["whole"]["leak@1"] == pytest.approx(
        {"ids": 1, "fields": 1, "spans": 1, "below": 0, "none": math.nan, "right": 1}, nan_ok=True
    )
    for system in ("whole", "parts"):
        read = per_query[f"{system}/first"]["leak_read"]
        assert read == pytest.approx(per_query[system]["leak@1"], nan_ok=True)
    assert per_query["whole"]["leak@3"]["below"] == 1
    assert [gate["verdict"] for gate in experiment.summary["gates"]] == ["fail", "fail"]
    # the passage names the other tenant, and the answer is not `public`
    losses = read_causes(experiment.path / CAUSES_FILE)["whole/first"]
    assert [losses[name].cause for name in ("ids", "fields")] == ["read_forbidden"] * 2
    assert losses["right"].cause == "right"
    assert "read_forbidden" not in {losses[name].cause for name in ("below", "none")}
    assert per_query["whole/first"]["right"]["ids"] == 0
    assert "secret: must never come up" in render_query(QueryViews(experiment.path)["ids"])
    packed = pack_queries(QueryViews(experiment.path, bare=True)).packed
    of_ids = json.loads(gzip.decompress(packed))["queries"][0]["hits"][0]
    assert [hit[-1]["forbidden"] for hit in of_ids if isinstance(hit[-1], dict)] == [True]
    unscored = {(row.measure, row.cause) for row in QueryViews(experiment.path).unscored("none")}
    assert ("leak_read", "no_forbidden") in unscored


def test_hits_that_may_be_forbidden_are_told(tmp_path, assert_message):
    rows = [{**row, "forbidden": ["tenant=b"]} for row in rows_with_leaks(0)]

    summary = run_rows(tmp_path, rows).summary

    score = summary["systems"][0]["scores"]["leak@5"]
    assert (score["n"], score["not_applicable_causes"]) == (0, {"unclear_passage": 12})
    assert_message(lines_with(summary["warnings"], "unclear_passage"))


def test_data_without_the_column_have_no_leaks_to_score(tmp_path, assert_message):
    rows = [
        {key: value for key, value in row.items() if key != "forbidden"}
        for row in rows_with_leaks(4)
    ]
    messages = []
    for call in (lambda: run_rows(tmp_path, rows), lambda: rb.evaluate(rows, ["leak@5"])):
        with pytest.raises(DataError) as caught:
            call()
        messages.append(str(caught.value))

    assert_message(messages)


def test_another_column_is_a_changed_question(tmp_path):
    first = run_rows(tmp_path, rows_with_leaks(4))
    rows = rows_with_leaks(4)
    rows[3]["forbidden"] = ["other"]
    second = run_rows(tmp_path, rows)

    fingerprints = [
        json.loads((run.path / "manifest.json").read_text())["data"] for run in (first, second)
    ]
    assert fingerprints[0] != fingerprints[1]
