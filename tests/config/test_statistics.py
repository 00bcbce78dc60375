"""The block `statistics`: what goes together, and what is said where it does not."""

import pytest

HEAD = "dataset: {type: beir, path: data, split: test}\nretrievers: {a: {type: bm25}}\n"


def test_what_is_read(load):
    config = load(
        HEAD
        + "statistics: {test: t, correction: bh, family: all, cluster: metadata.source.doc, "
        + "slices: [query_length, metadata.topic, tenant, query_length]}\n"
    )

    statistics = config.statistics
    assert (statistics.test, statistics.correction, statistics.family) == (
        "t",
        "benjamini_hochberg",
        "all",
    )
    assert statistics.cluster == "metadata.source.doc"
    assert statistics.slices == ("query_length", "metadata.topic", "tenant")


def test_defaults(load):
    statistics = load(HEAD).statistics

    assert (statistics.test, statistics.correction, statistics.family) == (
        "randomization",
        "holm",
        "measure",
    )
    assert statistics.cluster is statistics.slices is None


@pytest.mark.parametrize(
    ("block", "path"),
    [
        (
            "test: t, correction: max_t",
            "correction",
        ),
        (
            "correction: none, family: all",
            "family",
        ),
        ("test: mcnemar, cluster: metadata.a", "test"),
        ("cluster: topic", "cluster"),
        ("slices: [metadata.a, query_lenth]", "slices"),
        ("test: wilcoxen", "test"),
        ("slices: relevant", "slices"),
    ],
)
def test_what_does_not_go_together_is_said(problems, block, path, assert_message):
    [problem] = problems(f"{HEAD}statistics: {{{block}}}\n")

    assert problem.path.startswith(f"statistics.{path}")
    assert_message(problem.found)
    assert problem.allowed


def test_the_nearest_field_is_offered(problems):
    [problem] = problems(HEAD + "statistics: {slices: [query_lenth]}\n")

    assert problem.nearest == "query_length"
