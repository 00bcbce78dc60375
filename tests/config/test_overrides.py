"""`--set` and `overrides=`: where values go, and what happens when they lead nowhere."""

import pytest

from ragbench.config.overrides import apply_overrides
from ragbench.config.tree import Node, Place, Report, dotted
from ragbench.errors import ConfigError
from tests.config.conftest import VALID


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("seed=7", lambda c: c.seed == 7),
        ("seed=1_000", lambda c: c.seed == 1000),
        ("name=a=b", None),
        ("name=other", lambda c: c.name == "other"),
        ("retrievers.bm25.k1=1.2", lambda c: c.retrievers["bm25"].options["k1"] == 1.2),
        ("retrievers.bm25={type: bm25, b: 1}", lambda c: c.retrievers["bm25"].options["b"] == 1),
        ("retrievers.new={type: bm25}", lambda c: list(c.retrievers) == ["bm25", "new"]),
        ('retrievers."a.b"={type: bm25}', lambda c: "a.b" in c.retrievers),
        ("statistics.confidence=0.9", lambda c: c.statistics.confidence == 0.9),
        ("metrics.retrieval.top_k=10", lambda c: c.metrics.retrieval.top_k == 10),
        ("metrics.retrieval.measures=[map]", lambda c: c.metrics.retrieval.measures == ("map",)),
        ("metrics.generation=[]", lambda c: c.metrics.generation == ()),
        ("retrievers.bm25.sweep.k1=[1, 2]", None),
        ("retrievers.bm25.sweep={k1: [1, 2]}", lambda c: len(c.retrievers) == 2),
    ],
)
def test_where_values_go(load, override, read):
    if read is None:
        with pytest.raises(ConfigError):
            load(overrides=[override])
    else:
        assert read(load(overrides=[override]))


def test_indices_and_quoted_keys(load):
    text = VALID + "  a.b: {type: bm25}\nmetrics: {retrieval: {measures: [map, ndcg@10]}}\n"

    config = load(text, overrides=['retrievers."a.b".k1=2', "metrics.retrieval.measures.1=mrr"])

    assert config.retrievers["a.b"].options["k1"] == 2
    assert config.metrics.retrieval.measures == ("map", "mrr")


@pytest.mark.parametrize("key", ["k1", "a.b", "a b", "a=b", "it's", 'the "best"'])
def test_the_place_of_a_message_is_a_key_of_an_override(key):
    report = Report()

    tree = apply_overrides(Node({}, Place(), ()), [f"{dotted([key])}=7"], (), report)

    assert tree.plain() == {key: 7}
    assert len(report) == 0


def test_later_ones_win_and_build_on_earlier_ones(load):
    config = load(overrides=["retrievers.x={type: bm25}", "retrievers.x.k1=1", "retrievers.x.k1=2"])

    assert config.retrievers["x"].options["k1"] == 2


def test_python_values_stay_what_they_are(load):
    config = load(overrides={"retrievers.bm25.k1": 1.2, "name": "07", "statistics.baseline": None})

    assert config.retrievers["bm25"].options["k1"] == 1.2
    assert config.name == "07"


@pytest.mark.parametrize(
    ("override", "nearest"),
    [
        ("retrievers.bm52.k1=1", "bm25"),  # misspelt
        ("retreivers.bm25.k1=1", "retrievers"),
        ("metrics.retreival.top_k=1", "retrieval"),
        ("retrievers.bm25.type.x=1", None),  # a value has no keys
        ("seed", None),  # no value
        ("", None),
        ("a..b=1", None),
        ("=1", None),
        ("seed=[1", None),
        ("seed=*x", None),
        ("seed=012", None),  # octal to YAML 1.1, decimal to others
    ],
)
def test_leading_nowhere(problems, override, nearest, assert_message):
    [problem] = problems(VALID, overrides=[override])

    assert problem.file == f"--set {override}"
    assert problem.line is None
    assert_message(problem.found)
    assert problem.nearest == nearest


def test_an_index_beyond_the_list(problems, assert_message):
    text = VALID + "metrics: {retrieval: {measures: [map]}}\n"

    [problem] = problems(text, overrides=["metrics.retrieval.measures.1=mrr"])

    assert_message(problem.found)
    assert problem.allowed == "a number from 0 to 0"


def test_a_wrong_value_names_the_override(problems, assert_message):
    [problem] = problems(VALID, overrides=["retrievers.bm25.k1=-1"])

    assert_message(problem)


def test_an_unknown_key_names_the_override(problems):
    [problem] = problems(VALID, overrides=["retrievers.bm25.stemer=none"])

    assert problem.file == "--set retrievers.bm25.stemer=none"
    assert problem.nearest == "stemmer"


def test_python_overrides_name_their_key(problems, assert_message):
    [problem] = problems(VALID, overrides={"retrievers.bm25.k1": "high"})

    assert_message(problem, "overrides: retrievers.bm25.k1")


def test_problems_of_overrides_come_last(problems):
    mistakes = problems(f"seed: x\n{VALID}", overrides=["max_failed=7"])

    assert [problem.path for problem in mistakes] == ["seed", "max_failed"]


def test_the_allowed_keys_stand_in_one_order(problems):
    # Whatever the hashes of a process are: blocks that the file lacks follow by name
    [problem] = problems(VALID, overrides=["metrisc.x=1"])

    named_first, absent = ["dataset", "retrievers"], problem.allowed.split(", ")[2:]
    assert problem.allowed.split(", ")[:2] == named_first
    assert absent == sorted(absent)
    assert len(absent) > 3
