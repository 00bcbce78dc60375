"""`metrics.retrieval.match`: what goes together, and what the checked config says."""

import pytest

from tests.config.conftest import VALID


def block(match, rules=""):
    return f"{VALID}metrics: {{retrieval: {{{rules}match: {match}}}}}\n"


@pytest.mark.parametrize(
    ("match", "rule"),
    [
        ("{level: id}", None),
        ("{}", None),
        ("{level: document, id: metadata.doc_id}", "document(id=metadata.doc_id)"),
        ("{level: document, id: metadata.source.doc}", "document(id=metadata.source.doc)"),
        ('{level: document, separator: "#"}', "document(separator=#)"),
        ("{level: text}", "text(overlap=0.8)"),
        ("{level: text, overlap: 1}", "text(overlap=1)"),
    ],
)
def test_rules(load, match, rule):
    assert load(block(match)).metrics.retrieval.match.rule == rule


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("{level: document}", "level: document needs the document id of each passage"),
        (
            '{level: document, id: metadata.a, separator: "#"}',
            "id and separator exclude each other",
        ),
        ("{level: document, id: doc_id}", "'doc_id' does not name a key of the metadata"),
        ("{level: document, id: metadata.}", "'metadata.' does not name a key of the metadata"),
        ('{level: document, separator: ""}', "the separator is empty"),
        ("{level: text, id: metadata.a}", "'id' has no effect with level: text"),
        ('{separator: "#"}', "'separator' has no effect with level: id"),
        ("{level: document, id: metadata.a, overlap: 1}", "'overlap' has no effect with level: d"),
        ("{level: text, overlap: 0}", "0 is out of range"),
        ("{level: text, overlap: 80}", "80 is out of range"),
        ("{level: txt}", "unknown value 'txt'"),
        ("{levle: text}", "unknown key 'levle'"),
    ],
)
def test_mistakes(problems, match, expected):
    [problem] = problems(block(match))

    assert problem.found.startswith(expected)
    assert problem.path.startswith("metrics.retrieval.match")
    assert problem.line == 4


def test_a_first_match_needs_an_order(problems):
    [problem] = problems(block("{level: text}", "ties: average, "))

    assert problem.found == "level: text cannot be combined with ties: average"


@pytest.mark.parametrize("name", ["answer_hit@5", "alpha_ndcg(alpha=0.9)@10", "redundancy@5"])
def test_every_measure_can_be_named(load, name):
    config = load(f'{VALID}metrics: {{retrieval: {{measures: ["{name}"]}}}}\n')

    assert config.metrics.retrieval.measures == (name,)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("answer_hit", "'answer_hit' has no k"),
        ("answer_hits@5", "unknown measure 'answer_hits@5'"),
        ("alpha_ndcg(alpha=1)@5", "alpha of 'alpha_ndcg(alpha=1)@5': found 1"),
        ("answer_hit@500", "'answer_hit@500' looks deeper than top_k"),
    ],
)
def test_measures_that_are_written_wrong(problems, name, expected):
    [problem] = problems(f'{VALID}metrics: {{retrieval: {{measures: ["{name}"]}}}}\n')

    assert problem.found == expected
