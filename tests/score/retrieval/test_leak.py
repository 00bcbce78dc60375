"""Leak: a forbidden hit among the first k, and a forbidden passage that was read; against sets."""

import math
import random

import numpy as np
import pytest

from ragbench.comparison.forbidden import forbidden_ranks
from ragbench.score.retrieval.leak import ForbiddenRanks, leak
from ragbench.types import Cause, Document, ScoredDocument, Span
from ragbench.types.forbidden import Forbidden

WITHOUT_REFERENCE = {
    "leak": "no package has it: 10,000 random cases of ids, metadata and spans against sets"
}
CASES = 3_000


@pytest.mark.parametrize(
    ("rank", "unclear", "at_3"),
    [
        pytest.param(3, 0, 1, id="rank 3 of 3"),
        pytest.param(4, 0, 0, id="rank 4 is not looked at"),
        pytest.param(0, 0, 0, id="none"),
        pytest.param(0, 3, math.nan, id="rank 3 may be forbidden"),
        pytest.param(0, 4, 0, id="rank 4 may be forbidden"),
        pytest.param(3, 1, 1, id="rank 3 is forbidden whatever rank 1 is"),
    ],
)
def test_values_by_hand(rank, unclear, at_3):
    ranks = ForbiddenRanks(np.array([rank]), np.array([unclear]), np.zeros(1, np.uint8))

    assert leak(ranks, k=3) == pytest.approx([at_3], nan_ok=True)


def test_random_cases_equal_sets():
    draw = random.Random(7)
    for _ in range(CASES):
        corpus = [
            Document(name, "0123456789", metadata={"tenant": draw.choice("xyz"), "old": name > "d"})
            for name in "abcdef"
        ]
        starts = {name: draw.randrange(10) for name in "abcdef"}
        hits = draw.sample(corpus, draw.randrange(7))
        documents = frozenset(draw.sample("abcdef", draw.randrange(3)))
        fields = frozenset(draw.sample([("tenant", "x"), ("tenant", "y"), ("old", "true")], 1))
        fields = fields if draw.random() < 0.4 else frozenset()
        places = [(name, draw.randrange(9)) for name in draw.sample("abcdef", draw.randrange(3))]
        spans = tuple(Span(name, start, start + 1) for name, start in places)
        passages = [
            ScoredDocument(
                f"{hit.id}#1",
                text=hit.text[: starts[hit.id] + 1],
                document=hit.id,
                metadata={"start": 0, "end": starts[hit.id] + 1},
            )
            for hit in hits
        ]
        k = draw.randrange(1, 7)

        ranks = forbidden_ranks([passages], [Forbidden(documents, fields, spans)], corpus)

        banned = set(documents)
        banned |= {d.id for d in corpus if ("tenant", d.metadata["tenant"]) in fields}
        banned |= {d.id for d in corpus if ("old", "true") in fields and d.metadata["old"]}
        banned |= {name for name, start in places if start <= starts[name]}
        expected = float(bool(banned & {hit.id for hit in hits[:k]}))
        expected = expected if documents or fields or spans else math.nan
        assert leak(ranks, k=k)[0] == pytest.approx(expected, nan_ok=True)


def test_what_is_not_known_is_no_leak_and_no_safety():
    by_field = Forbidden(fields=frozenset({("tenant", "b")}))
    by_span = Forbidden(spans=(Span("a", 0, 4),))
    stranger, known = ScoredDocument("s", text="no such text"), ScoredDocument("a")
    corpus = [Document("a", "abcdefgh", metadata={"tenant": "a"})]

    ranks = forbidden_ranks(
        [[known, stranger], [stranger], [stranger]], [by_field, by_span, None], corpus
    )

    assert ranks.unclear.tolist() == [2, 1, 0]
    assert ranks.causes.tolist() == [Cause.SCORED, Cause.SCORED, Cause.NO_FORBIDDEN]
    assert leak(ranks, k=1) == pytest.approx([0, math.nan, math.nan], nan_ok=True)
    assert leak(ranks, k=2) == pytest.approx([math.nan] * 3, nan_ok=True)


def test_ids_of_another_corpus_tell_nothing():
    forbidden = Forbidden(documents=frozenset({"a"}))

    ranks = forbidden_ranks([[ScoredDocument("7")]], [forbidden], None, unknown_ids=[0])

    assert ranks.causes.tolist() == [Cause.UNKNOWN_IDS]
    assert math.isnan(leak(ranks, k=1)[0])


@pytest.mark.parametrize(
    ("hits", "at_2"),
    [
        pytest.param(["7", "90"], 1, id="zeros in front"),
        pytest.param(["7", "hr/090"], 1, id="path"),
        pytest.param(["7", "091"], 0, id="another id"),
        pytest.param(["0090", "90"], math.nan, id="two that look alike"),
    ],
)
def test_another_spelling_of_a_forbidden_id_is_met_as_gold_is(hits, at_2):
    forbidden = Forbidden(documents=frozenset({"090"}))

    ranks = forbidden_ranks([[*map(ScoredDocument, hits)]], [forbidden], None)

    assert leak(ranks, k=2) == pytest.approx([at_2], nan_ok=True)
