"""Numbers made of verdicts: worked by hand, and identities that any verdicts keep."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.score.judge.grounding import FORMULAS, Grounding, apply_formula
from ragbench.types import Cause

S, C, N = "supported", "contradicted", "not_mentioned"
# four claims of the answer, three of the reference, three passages
GROUNDING = Grounding(
    answer_passages=[[S, N, N], [N, N, S], [N, C, N], [N, N, N]],
    answer_reference=[S, N, N, S],
    reference_passages=[[S, N, N], [S, S, N], [N, N, C]],
    reference_answer=[S, N, S],
    sentences=[0, 0, 1, 2],
    cited=[frozenset([1, 2]), frozenset([1, 2]), frozenset([2]), frozenset([9])],
)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        pytest.param("faithfulness", 2 / 4, id="claims 1 and 2"),
        pytest.param("factual_consistency", 3 / 4, id="all but claim 3"),
        pytest.param("hallucination", 1 / 4, id="claim 3: neither passage nor reference"),
        pytest.param("self_knowledge", 1 / 4, id="claim 4: right, in no passage"),
        pytest.param("noise_sensitivity", 1 / 4, id="claim 2: in passage 3, not right"),
        pytest.param("context_recall", 2 / 3, id="claims 1 and 2 of the reference"),
        pytest.param("context_precision", 2 / 3, id="passages 1 and 2"),
        pytest.param("context_utilization", 1 / 2, id="of claims 1 and 2, the answer has 1"),
        pytest.param("claim_precision", 2 / 4, id="claims 1 and 4"),
        pytest.param("claim_recall", 2 / 3, id="claims 1 and 3 of the reference"),
        pytest.param("claim_f1", 2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3), id="harmonic mean"),
        pytest.param("citation_recall", 1 / 4, id="claim 1 by passage 1; 3 is elsewhere"),
        pytest.param(
            "citation_precision", 1 / 4, id="(0, 1) holds; (0, 2), (1, 2) and (2, 9) do not"
        ),
    ],
)
def test_hand_worked(formula, expected):
    assert apply_formula(formula, GROUNDING) == pytest.approx(expected)


def test_every_formula_is_worked_by_hand_above():
    worked = {mark.values[0] for mark in test_hand_worked.pytestmark[0].args[1]}
    assert worked == set(FORMULAS)


@pytest.mark.parametrize("formula", FORMULAS)
def test_without_claims_nothing_applies(formula):
    assert apply_formula(formula, Grounding()) is Cause.NO_CLAIMS


def test_an_answer_without_claims_has_an_f1_of_0_if_the_reference_has_claims():
    assert apply_formula("claim_f1", Grounding(reference_answer=[N, N])) == 0
    assert apply_formula("claim_f1", Grounding(answer_reference=[N])) is Cause.NO_CLAIMS


def test_why_a_number_does_not_apply():
    bare = Grounding(
        answer_passages=[[S]],
        sentences=[0],
        cited=[frozenset()],
        reference_passages=[[N]],
        reference_answer=[S],
    )
    assert apply_formula("citation_precision", bare) is Cause.NO_CITATIONS
    assert apply_formula("citation_recall", bare) == 0
    assert apply_formula("context_utilization", bare) is Cause.NOTHING_TO_USE


def test_a_claim_that_passages_dispute_is_consistent():
    assert apply_formula("factual_consistency", Grounding(answer_passages=[[C, S]])) == 1


T = "supported_together"


@pytest.mark.parametrize(
    ("cited", "precision", "recall"),
    [
        pytest.param({1, 3}, 1.0, 1.0, id="all that it takes"),
        pytest.param({1}, 1.0, 0.0, id="a part of what it takes"),
        pytest.param({1, 2, 3}, 2 / 3, 1.0, id="one more"),
        pytest.param({2}, 0.0, 0.0, id="another one"),
    ],
)
def test_what_passages_support_together(cited, precision, recall):
    # One claim, supported by passages 1 and 3 together
    grounding = Grounding(
        answer_passages=[[T, N, T]],
        answer_reference=[N],
        reference_passages=[[T, N, T]],
        reference_answer=[S],
        sentences=[0],
        cited=[frozenset(cited)],
    )

    for name in ("faithfulness", "factual_consistency", "noise_sensitivity", "context_recall"):
        assert apply_formula(name, grounding) == 1
    assert apply_formula("context_precision", grounding) == 2 / 3
    assert apply_formula("citation_precision", grounding) == precision
    assert apply_formula("citation_recall", grounding) == recall


RULINGS = st.sampled_from([S, C, N])
CELLS = st.sampled_from([S, C, N, T])


@st.composite
def groundings(draw):
    claims, gold, passages = (draw(st.integers(1, 4)) for _ in range(3))
    row = st.lists(CELLS, min_size=passages, max_size=passages)

    def of(strategy, size):
        return draw(st.lists(strategy, min_size=size, max_size=size))

    return Grounding(
        answer_passages=of(row, claims),
        reference_passages=of(row, gold),
        answer_reference=of(RULINGS, claims),
        reference_answer=of(RULINGS, gold),
        sentences=sorted(of(st.integers(0, 2), claims)),
        cited=of(st.frozensets(st.integers(1, 5)), claims),
    )


@given(groundings())
def test_identities(grounding):
    def value(name):
        return apply_formula(name, grounding)

    parts = ("faithfulness", "self_knowledge", "hallucination")
    assert sum(map(value, parts)) == pytest.approx(1)
    assert value("noise_sensitivity") <= value("faithfulness") <= value("factual_consistency")
    assert value("noise_sensitivity") + value("hallucination") == pytest.approx(
        1 - value("claim_precision")
    )
    assert value("citation_recall") <= value("faithfulness")
    assert (value("context_recall") == 0) == (value("context_precision") == 0)
    for name in FORMULAS:
        assert isinstance(value(name), Cause) or 0 <= value(name) <= 1


@settings(max_examples=30)
@given(groundings(), st.randoms())
def test_the_order_of_passages_does_not_matter(grounding, random):
    order = list(range(len(grounding.answer_passages[0])))
    random.shuffle(order)
    shuffled = Grounding(
        answer_passages=[[row[p] for p in order] for row in grounding.answer_passages],
        reference_passages=[[row[p] for p in order] for row in grounding.reference_passages],
        answer_reference=grounding.answer_reference,
        reference_answer=grounding.reference_answer,
        sentences=grounding.sentences,
        cited=[
            frozenset(order.index(c - 1) + 1 if c <= len(order) else c for c in cited)
            for cited in grounding.cited
        ],
    )
    for name in FORMULAS:
        assert apply_formula(name, shuffled) == apply_formula(name, grounding)
