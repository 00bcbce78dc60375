"""Conditions as results print them are read as gates, and decide the same."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.gates.certificate import Certificate
from ragbench.gates.cheapest import Cheapest
from ragbench.gates.conditions import read_condition
from ragbench.gates.drop import Drop, NotWorse, QueriesWorse
from ragbench.gates.failed import Failed
from ragbench.gates.limit import Cost, Limit

QRELS = {f"q{n}": {"d": 1} for n in range(100)}
NAMES = ["mrr", "precision(rel=1)@5", "ndcg@10"]
OLD = rb.evaluate_run({q: ["d", "x"] for q in QRELS}, QRELS, NAMES)
NEW = rb.evaluate_run({q: ["x", "d"] for q in QRELS}, QRELS, NAMES)

# numbers that `:g` prints in full
NUMBERS = st.integers(0, 1000).map(lambda n: n / 1000)
MEASURES = st.sampled_from([*NAMES, "faithfulness(judge=small)", "python:mine:worse"])
# a path may have blanks, brackets and the words of a condition
PATHS = st.text(string.ascii_letters + "./ ()-=", min_size=1, max_size=20).map(
    lambda text: f"runs/{text.strip()}.json"
)
DECIDE = st.sampled_from(["interval", "mean"])


def optional(strategy):
    return st.none() | strategy


def gates(kind, **keys):
    return st.fixed_dictionaries(keys).map(
        lambda drawn: (kind, {key: value for key, value in drawn.items() if value is not None})
    )


GATES = st.one_of(
    gates(Limit, measure=MEASURES, min=NUMBERS, decide=optional(DECIDE)),
    gates(Limit, measure=MEASURES, max=NUMBERS, decide=optional(DECIDE)),
    gates(Cost, measure=st.sampled_from(["usd", "latency_ms.p95"]), max=NUMBERS),
    gates(Failed, failed=MEASURES, max=NUMBERS),
    gates(
        Drop,
        measure=MEASURES,
        max_drop=NUMBERS,
        against=optional(PATHS),
        decide=optional(DECIDE),
        identical=st.sampled_from([None, "undecided"]),
    ),
    gates(NotWorse, measure=MEASURES, against=optional(PATHS)),
    gates(
        QueriesWorse,
        measure=MEASURES,
        max_queries_worse=st.integers(0, 99),
        by=optional(NUMBERS.filter(bool)),
        against=optional(PATHS),
    ),
    gates(
        Certificate, certificate=PATHS, rubric=MEASURES, min_kappa=NUMBERS, decide=optional(DECIDE)
    ),
    gates(Cheapest, cheapest_within=NUMBERS, measure=optional(MEASURES)),
)


@settings(max_examples=300, deadline=None)
@given(gate=GATES)
def test_the_text_of_any_gate_has_its_keys(gate):
    kind, keys = gate

    assert read_condition(kind(**keys).text) == keys


@settings(max_examples=20, deadline=None)
@given(
    gate=st.one_of(
        st.fixed_dictionaries({"measure": st.sampled_from(NAMES), "min": NUMBERS}),
        st.fixed_dictionaries(
            {"measure": st.sampled_from(NAMES), "min": NUMBERS, "decide": DECIDE}
        ),
        st.fixed_dictionaries({"measure": st.sampled_from(NAMES), "max_drop": NUMBERS}),
        st.fixed_dictionaries({"measure": st.sampled_from(NAMES)}),
        st.fixed_dictionaries(
            {"measure": st.sampled_from(NAMES), "max_queries_worse": st.integers(0, 100)}
        ),
        st.fixed_dictionaries({"failed": st.sampled_from(NAMES), "max": NUMBERS}),
    )
)
def test_the_printed_gate_decides_as_the_gate(gate):
    [decision] = rb.check_gates(NEW, gate, OLD)

    assert rb.check_gates(NEW, decision["gate"], OLD) == [decision]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        pytest.param("mrr >= 0.5", "pass", id="the mean is 1/2"),
        pytest.param("mrr>=.51", "fail", id="1/2 is below .51"),
        pytest.param(" mrr >= 5e-1 ", "pass", id="1/2 is .5"),
        pytest.param("mrr drop <= 0.2", "fail", id="1 fell to 1/2"),
        pytest.param("mrr drop > 0.2", "fail", id="a condition that fails"),
        pytest.param("mrr worse by 0.5 on <= 99 queries", "fail", id="100 of 100 fell by 1/2"),
        pytest.param("mrr not worse", "fail", id="it is worse"),
    ],
)
def test_hand_worked(text, verdict):
    assert [gate["verdict"] for gate in rb.check_gates(NEW, [text], OLD)] == [verdict]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mrr", "found 'mrr', allowed: {measure: NAME, min: NUMBER}, or a condition: NAME >="),
        ("mrr >= a lot", "found 'mrr >= a lot', allowed:"),
        ("mrr > 0.5", "NAME >= NUMBER"),
        ("drop > 0.01", "found 'drop > 0.01', allowed:"),
        ("mrr drop > 1%", "a number from 0 on"),
        ("mrr drop > -1", "a number from 0 on"),
        ("mrr drop > nan", "a number from 0 on"),
        ("mrrr >= 0.5", "did you mean 'mrr'"),
        ("factual_correctness >= 0.5", "'factual_correctness' is not scored"),
    ],
)
def test_texts_that_are_no_condition(text, message):
    with pytest.raises(rb.RagbenchError) as raised:
        rb.check_gates(NEW, text)
    assert message in str(raised.value)


def test_a_measure_with_a_blank_in_its_options_is_read():
    keys = read_condition(" precision(rel=2, k=3) drop > 0 ")

    assert keys == {"measure": "precision(rel=2, k=3)", "max_drop": 0.0}
