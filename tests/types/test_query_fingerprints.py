"""The fingerprint of a query's judgements is equal where they are, and only there."""

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.score.retrieval.judgements import as_qrels
from ragbench.types import Qrels
from tests.strategies import QUERY_IDS, judgements

QRELS = st.dictionaries(st.sampled_from(QUERY_IDS), judgements() | st.just({}), min_size=1)


@settings(max_examples=15)
@given(QRELS, QRELS, st.randoms())
def test_equal_exactly_where_the_judgements_are(mine, theirs, order):
    one = Qrels.from_dict(mine).query_fingerprints()
    other = as_qrels(shuffled(theirs, order)).query_fingerprints()

    assert [*one] == [*other] == ["judgements"]
    assert {*one["judgements"]} == {query for query, judged in mine.items() if judged}
    for query in mine.keys() & theirs.keys():
        equal = one["judgements"].get(query) == other["judgements"].get(query)
        assert equal == (mine[query] == theirs[query])


def shuffled(qrels, order):
    queries = order.sample([*qrels.items()], len(qrels))
    return {query: dict(order.sample([*docs.items()], len(docs))) for query, docs in queries}


def test_no_two_of_many_judgements_share_one():
    # Grades that changed places, documents that changed queries, one grade more
    rng = random.Random(13)
    judgements = [{"d1": a, "d2": b, f"e{n}": c} for n in range(40) for a in range(-2, 8)
            for b in range(-2, 8) for c in (0, 1)]  # fmt: skip
    rng.shuffle(judgements)
    qrels = Qrels.from_dict({str(n): judged for n, judged in enumerate(judgements)})

    assert len({*qrels.query_fingerprints()["judgements"].values()}) == len(judgements) == 8000


def test_the_query_itself_has_no_part_in_it():
    fingerprints = Qrels.from_dict({"q1": {"d": 1}, "q2": {"d": 1}}).query_fingerprints()[
        "judgements"
    ]

    # it is in files: the same on every machine, in every version
    assert fingerprints == dict.fromkeys(["q1", "q2"], PINNED)


PINNED = "2bb8c0bffb6d"


@given(st.dictionaries(st.sampled_from(QUERY_IDS), st.sampled_from([
    {"d": {"a": 1}}, {"d": {"b": 1}}, {"d": {"a": 1, "b": 0}}, {"d": {"a": 1}, "e": {}}]),
    min_size=2))  # fmt: skip
def test_subtopics_are_a_part_of_their_own(qrels):
    fingerprints = Qrels.from_dict(qrels).query_fingerprints()

    assert [*fingerprints] == ["judgements", "subtopics"]
    texts = {query: json.dumps(judged, sort_keys=True) for query, judged in qrels.items()}
    for query in qrels:
        for other in qrels:
            equal = fingerprints["subtopics"][query] == fingerprints["subtopics"][other]
            assert equal == (texts[query] == texts[other])
