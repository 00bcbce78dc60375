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
    "match",
    [
        "{level: document}",
        '{level: document, id: metadata.a, separator: "#"}',  # either the key or the separator
        "{level: document, id: doc_id}",  # a key of the metadata has the prefix `metadata.`
        "{level: document, id: metadata.}",
        '{level: document, separator: ""}',  # an empty text separates nothing
        "{level: text, id: metadata.a}",
        '{separator: "#"}',
        "{level: document, id: metadata.a, overlap: 1}",
        "{level: text, overlap: 0}",
        "{level: text, overlap: 80}",  # meant in percent
        "{level: txt}",
        "{levle: text}",
    ],
)
def test_mistakes(problems, match, assert_message):
    [problem] = problems(block(match))

    assert_message(problem.found)
    assert problem.path.startswith("metrics.retrieval.match")
    assert problem.line == 4


def test_a_first_match_needs_an_order(problems, assert_message):
    [problem] = problems(block("{level: text}", "ties: average, "))

    assert_message(problem.found)


@pytest.mark.parametrize("name", ["answer_hit@5", "alpha_ndcg(alpha=0.9)@10", "redundancy@5"])
def test_every_measure_can_be_named(load, name):
    config = load(f'{VALID}metrics: {{retrieval: {{measures: ["{name}"]}}}}\n')

    assert config.metrics.retrieval.measures == (name,)


@pytest.mark.parametrize(
    "name",
    [
        "answer_hit",
        "answer_hits@5",
        "alpha_ndcg(alpha=1)@5",  # with alpha 1 a repeated subtopic is worth nothing
        "answer_hit@500",  # the ranking is cut at top_k
    ],
)
def test_measures_that_are_written_wrong(problems, name, assert_message):
    [problem] = problems(f'{VALID}metrics: {{retrieval: {{measures: ["{name}"]}}}}\n')

    assert_message(problem.found)
