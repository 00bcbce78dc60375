"""Tool calls against gold ones: worked by hand, and beside what ragas and deepeval give."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.score.text.base import CallRows
from ragbench.score.text.columns import TextScorer
from ragbench.types import Cause, ToolCall

# Random calls with the values of ragas 0.3.9 (accuracy, f1) and deepeval 4.3.1 (correctness)
THEIRS = [
    json.loads(line)
    for line in Path(__file__)
    .with_name("tool_calls.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


WITHOUT_REFERENCE = {"tool_call_count": "a count, worked by hand, equal to the counts of a harness"}


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


SEARCH, CLOCK = call("search", query="Io", limit=5), call("clock")


@pytest.mark.costly
def test_the_values_are_those_of_the_packages():
    for row in THEIRS:
        calls, gold = row["made"], row["gold"]
        for name, value in row.items():
            if name in ("made", "gold"):
                continue
            if name == "f1":
                assert round(rb.tool_call_f1(calls, gold).f1, 4) == value, row
            elif name.startswith("accuracy"):
                order = name.partition("_")[2]
                assert rb.tool_call_accuracy(calls, gold, order=order) == pytest.approx(value), row
            else:
                _, order, arguments = name.split("_")
                ours = rb.tool_call_correctness(calls, gold, order=order, arguments=arguments)
                assert ours == pytest.approx(value), row


def test_there_is_something_to_compare():
    assert {name for row in THEIRS for name in row} >= {"f1", "accuracy_any", "accuracy_strict"}
    parts = [v for row in THEIRS for name, v in row.items() if name.startswith("correctness")]
    assert len(parts) > 200
    assert any(0 < value < 1 for value in parts)


@pytest.mark.parametrize(
    ("calls", "gold", "options", "expected"),
    [
        ([SEARCH, CLOCK], [SEARCH, CLOCK], {}, 1.0),
        ([CLOCK, SEARCH], [SEARCH, CLOCK], {}, 0.0),
        ([CLOCK, SEARCH], [SEARCH, CLOCK], {"order": "any"}, 1.0),
        # one of two gold arguments in the first call, none wanted in the second
        ([call("search", query="Io", limit=6), CLOCK], [SEARCH, CLOCK], {}, 0.75),
        (
            [call("search", query="Io", limit=6), CLOCK],
            [SEARCH, CLOCK],
            {"arguments": "exact"},
            0.5,
        ),
        ([call("search", query="x", limit=6), CLOCK], [SEARCH, CLOCK], {"arguments": "names"}, 1.0),
        ([call("search"), CLOCK], [SEARCH, CLOCK], {"arguments": "ignore"}, 1.0),
        ([SEARCH, SEARCH], [SEARCH], {}, 0.0),
        ([], [], {}, 1.0),
        ([SEARCH], [], {}, 0.0),
        ([], [SEARCH], {}, 0.0),
    ],
)
def test_accuracy(calls, gold, options, expected):
    assert rb.tool_call_accuracy(calls, gold, **options) == expected


@pytest.mark.parametrize(
    ("calls", "gold", "options", "expected"),
    [
        ([SEARCH, CLOCK], [SEARCH], {}, (2 / 3, 1 / 2, 1.0)),
        ([SEARCH, SEARCH], [SEARCH], {}, (1.0, 1.0, 1.0)),
        ([call("search", limit=5.0, query="Io")], [SEARCH], {}, (1.0, 1.0, 1.0)),
        ([call("search", limit="5", query="Io")], [SEARCH], {}, (0.0, 0.0, 0.0)),
        ([call("search", limit=1, query="")], [SEARCH], {"arguments": "names"}, (1.0, 1.0, 1.0)),
        ([call("search")], [SEARCH], {"arguments": "ignore"}, (1.0, 1.0, 1.0)),
        ([], [], {}, (1.0, 1.0, 1.0)),
        ([], [SEARCH], {}, (0.0, 0.0, 0.0)),
    ],
)
def test_f1(calls, gold, options, expected):
    assert rb.tool_call_f1(calls, gold, **options) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("calls", "gold", "options", "expected"),
    [
        ([CLOCK, SEARCH], [SEARCH, CLOCK], {}, 1.0),
        ([CLOCK, SEARCH], [SEARCH, CLOCK], {"order": "strict"}, 0.5),
        ([CLOCK, SEARCH], [SEARCH, CLOCK], {"order": "exact"}, 0.0),
        # query is the same, limit is not, lang is only here: one of three
        ([call("search", query="Io", limit=6, lang="de")], [SEARCH], {}, 1 / 3),
        ([call("search", query="Io", limit=6, lang="de")], [SEARCH], {"arguments": "names"}, 2 / 3),
        ([call("f", at={"x": 1, "y": 3})], [call("f", at={"x": 1, "y": 2}, n=1)], {}, 0.25),
        # a call is taken once
        ([SEARCH], [SEARCH, SEARCH], {}, 0.5),
        ([SEARCH, SEARCH], [SEARCH, SEARCH], {}, 1.0),
        ([SEARCH, CLOCK, CLOCK], [SEARCH], {}, 1.0),
        ([SEARCH, CLOCK], [SEARCH], {"order": "exact"}, 0.0),
        ([], [], {}, 1.0),
        ([CLOCK], [], {}, 0.0),
    ],
)
def test_correctness(calls, gold, options, expected):
    assert rb.tool_call_correctness(calls, gold, **options) == pytest.approx(expected)


def test_an_argument_that_is_null_is_not_given():
    # Parquet fills the arguments of all calls up with nulls
    assert rb.tool_call_f1([call("clock", zone=None)], [CLOCK]).f1 == 1


def test_truth_values_are_no_numbers():
    assert rb.tool_call_f1([call("f", on=True)], [call("f", on=1)]).f1 == 0


@pytest.mark.parametrize("function", [rb.tool_call_accuracy, rb.tool_call_correctness])
def test_what_is_no_call_is_refused(function, assert_message):
    with pytest.raises(rb.DataError) as caught:
        function([{"arguments": {}}], [])
    assert_message(caught.value, "'calls'")
    with pytest.raises(rb.DataError, match="'expected': found text"):
        function([], "search")
    with pytest.raises(rb.OptionError, match="order"):
        function([], [], order="loose")


CALLS = st.lists(
    st.tuples(st.sampled_from(["f", "g"]), st.sampled_from(["Io", 1, True, ["a"], {"b": 2}])).map(
        lambda pair: call(pair[0], query=pair[1])
    ),
    max_size=4,
)


@settings(max_examples=30)
@given(CALLS, CALLS)
def test_all_lie_between_0_and_1_and_equal_lists_are_right(calls, gold):
    for function in (rb.tool_call_accuracy, rb.tool_call_correctness):
        assert 0 <= function(calls, gold) <= 1
        assert function(calls, calls) == 1
    loose = rb.tool_call_correctness(calls, gold)
    assert loose >= rb.tool_call_correctness(calls, gold, order="exact")
    assert rb.tool_call_f1(calls, gold).f1 == rb.tool_call_f1(gold, calls).f1


def test_a_column_has_a_cause_where_calls_are_not_known():
    gold = (ToolCall("clock"),)
    rows = CallRows([gold, None, None, ()], [gold, gold, gold, None])
    scorer = TextScorer(["tool_call_f1", "tool_call_f1.recall", "exact_match"])
    f1, recall, texts = scorer.score(["a", "a", None, "a"], [["a"]] * 4, None, rows)

    causes = [Cause.SCORED, Cause.NO_TOOL_CALLS, Cause.NO_ANSWER, Cause.NO_EXPECTED_CALLS]
    assert f1.causes.tolist() == recall.causes.tolist() == causes
    assert f1.values[0] == 1
    assert texts.values.tolist()[:2] == [1, 1]


@pytest.mark.parametrize(
    ("calls", "options", "expected"),
    [
        ([], {}, 0),
        ([SEARCH, CLOCK, SEARCH], {}, 3),
        ([SEARCH, CLOCK, SEARCH], {"tool": "search"}, 2),
        (["clock", "Search"], {"tool": "search"}, 0),
    ],
)
def test_a_count_takes_every_call_of_a_tool(calls, options, expected):
    assert rb.tool_call_count(calls, **options) == expected


def test_a_count_needs_no_gold_calls():
    rows = CallRows([(ToolCall("clock"),) * 3, None, None, ()], [None] * 4)
    [count] = TextScorer(["tool_call_count"]).score(["a", "a", None, "a"], [[]] * 4, None, rows)

    causes = [Cause.SCORED, Cause.NO_TOOL_CALLS, Cause.NO_ANSWER, Cause.SCORED]
    assert (count.values[[0, 3]].tolist(), count.causes.tolist()) == ([3, 0], causes)
    assert (count.direction, count.signature.parts) == ("lower", (("tool", ""), ("v", "1")))


def test_counted_calls_are_gated_downwards(tmp_path):
    rows = [
        {"question": f"{n}?", "answer": "x", "reference": "x", "tool_calls": ["search"] * n}
        for n in range(5)
    ]
    gates = [{"measure": "tool_call_count", "max": limit} for limit in (1, 2)]
    config = {"metrics": {"generation": ["tool_call_count"]}, "gates": gates}

    summary = rb.run_experiment({**config, "output": str(tmp_path)}, dataset=rows).summary

    assert rb.evaluate(rows, ["tool_call_count"]).mean == {"tool_call_count": 2}
    assert [gate["verdict"] for gate in summary["gates"]] == ["fail", "pass"]


def test_texts_alone_are_refused(assert_message):
    with pytest.raises(rb.OptionError) as caught:
        rb.evaluate_texts(["a"], ["a"], ["tool_call_f1"])
    assert_message(caught.value, "metric: name")
