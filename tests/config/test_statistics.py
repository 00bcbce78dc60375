"""The block `statistics`: what goes together, and what is said where it does not."""

import pytest

HEAD = "dataset: {type: beir, path: data, split: test}\nretrievers: {a: {type: bm25}}\n"


def test_what_is_read(load):
    config = load(
        HEAD
        + "statistics: {test: t, correction: bh, family: all, cluster: metadata.source.doc, "
        + "slices: [query_length, metadata.topic, query_length]}\n"
    )

    found = config.statistics
    assert (found.test, found.correction, found.family) == ("t", "benjamini_hochberg", "all")
    assert found.cluster == "metadata.source.doc"
    assert found.slices == ("query_length", "metadata.topic")


def test_defaults(load):
    found = load(HEAD).statistics

    assert (found.test, found.correction, found.family) == ("randomization", "holm", "measure")
    assert found.cluster is found.slices is None


@pytest.mark.parametrize(
    ("block", "path", "found"),
    [
        (
            "test: t, correction: max_t",
            "correction",
            "correction: max_t needs sign flips, which test: t",
        ),
        (
            "correction: none, family: all",
            "family",
            "family: all has no effect with correction: none",
        ),
        ("test: mcnemar, cluster: metadata.a", "test", "test: mcnemar counts single queries"),
        ("cluster: topic", "cluster", "'topic' does not name a key of the metadata"),
        ("slices: [metadata.a, query_lenth]", "slices", "unknown field 'query_lenth'"),
        ("test: wilcoxen", "test", "unknown value 'wilcoxen'"),
        ("slices: relevant", "slices", "'relevant' is not a list"),
    ],
)
def test_what_does_not_go_together_is_said(problems, block, path, found):
    [problem] = problems(f"{HEAD}statistics: {{{block}}}\n")

    assert problem.path.startswith(f"statistics.{path}")
    assert problem.found.startswith(found)
    assert problem.allowed


def test_the_nearest_field_is_offered(problems):
    [problem] = problems(HEAD + "statistics: {slices: [query_lenth]}\n")

    assert problem.nearest == "query_length"
