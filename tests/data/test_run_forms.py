"""Runs and judgements of ranx, BEIR and MS MARCO: against pytrec_eval, and their errors."""

from __future__ import annotations

import json

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from ragbench import evaluate_run, read_qrels, read_run
from ragbench.data.files.judgements import read_judgements

IDS = st.text("abc019#é", min_size=1, max_size=4).filter(lambda name: name[0] != "#")
RUNS = st.dictionaries(
    IDS, st.dictionaries(IDS, st.floats(-1e6, 1e6), min_size=1, max_size=5), min_size=1, max_size=4
)
GRADES = st.dictionaries(
    IDS, st.dictionaries(IDS, st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=4
)


@given(run=RUNS)
def test_a_run_in_json_is_the_run(tmp_path_factory, run):
    path = tmp_path_factory.getbasetemp() / "bm25.json"
    path.write_text(json.dumps(run))

    read = read_run(path)

    assert read.name == "bm25"
    assert {query: dict(read.ranking(query)) for query in read.query_ids} == run


@given(grades=GRADES, whole=st.booleans())
def test_qrels_in_json_are_the_qrels(tmp_path_factory, grades, whole):
    # BEIR writes integers, data frames whole floats
    path = tmp_path_factory.getbasetemp() / "qrels.json"
    values = grades if whole else json.loads(json.dumps(grades), parse_int=float)
    path.write_text(json.dumps(values))

    assert read_qrels(path).to_dict() == grades
    assert read_judgements(path).grades == grades


@given(ranking=st.lists(IDS, min_size=1, max_size=6, unique=True), gold=IDS)
def test_ranks_of_ms_marco_give_the_scores_of_trec_eval(tmp_path_factory, ranking, gold):
    path = tmp_path_factory.getbasetemp() / "dev.tsv"
    path.write_text("".join(f"7\t{name}\t{rank}\n" for rank, name in enumerate(ranking, 1)))
    qrels = {"7": {gold: 1}}

    scores = {name: 1 / rank for rank, name in enumerate(ranking, 1)}
    oracle = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "ndcg"}).evaluate({"7": scores})
    ours = evaluate_run(read_run(path), qrels, ["mrr", "ndcg"])

    assert ours.summary["mrr"].mean == pytest.approx(oracle["7"]["recip_rank"])
    assert ours.summary["ndcg"].mean == pytest.approx(oracle["7"]["ndcg"])


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.json", "[]", "a.json"),
        ("a.json", "{}", "a.json"),  # nothing to score
        ("a.json", '{"q": ["d"]}', "a.json"),  # hits without scores
        ("a.json", '{"q": {"d": "1"}}', "a.json"),  # a score in quotes
        ("a.json", '{"q": {"d": true}}', "a.json"),  # True is 1 in Python
        ("a.json", f'{{"q": {{"d": 1{"0" * 400}}}}}', "a.json"),  # 1e400 is infinite
        ("a.json", '{"q": {"big plan": 1}}', ""),  # a blank in an id
        ("a.json", '{"#q": {"d": 1}}', "a.json"),  # a comment in run files
        ("a.tsv", "1\t2\t0\n", "a.tsv:1"),  # ranks begin at 1
        ("a.tsv", "1\t2\t1\n1\t3\n", "a.tsv:2"),
        ("a.tsv", "1\tQ0\t7\n", "a.tsv:1"),  # neither MS MARCO's three columns nor TREC's six
    ],
)
def test_other_values_are_named(write, problem, name, content, place, assert_message):
    path = write(name, content)

    assert_message(problem(lambda: read_run(path)), place)


def test_a_wrong_grade_of_json_is_named(write, problem, assert_message):
    path = write("qrels.json", '{"q": {"d": 0.5}}')

    assert_message(problem(lambda: read_qrels(path)), "qrels.json:1")
