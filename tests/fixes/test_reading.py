"""Changes of what is read or answered, worked by hand on three questions."""

import numpy as np
import pytest
from msgspec import structs

from ragbench.fixes.changes import price_changes
from ragbench.fixes.priced_run import PricedRun
from ragbench.fixes.rankings import NEVER, StoredRankings
from ragbench.fixes.reading import drop_near_duplicates, join_neighbours, refuse_low_scores
from ragbench.records.manifest import ANSWER, HitsRow, StoredHit
from ragbench.types import Qrels, Run


def priced(hits, gold, read=2):
    run = Run.from_dict({q: {d: -float(n) for n, d in enumerate(h)} for q, h in hits.items()})
    qrels = Qrels.from_dict({query: dict.fromkeys(names, 1) for query, names in gold.items()})
    return PricedRun(StoredRankings(qrels, {"r": run}), "r", read, read, 100)


def dropping(run, texts):
    """The change that repeated passages are left out, by document -> text."""
    return drop_near_duplicates(run, lambda query, name: texts.get(name))


def test_a_repeated_passage_makes_room_for_the_next_hit():
    run = priced({"q1": "abx", "q2": "axb", "q3": "cba"}, {"q1": "x", "q2": "b", "q3": "a"})
    texts = {
        "a": "The moon of Mars is Phobos",
        "b": "the moon of Mars is Phobos",
        "c": "Io",
        "x": "Titan",
    }

    change = dropping(run, texts)

    assert (change.rescued, change.lost, change.found) == (("q1",), (), 1)
    # b repeats a, which is read in its place: by its id it is not found
    assert dropping(priced({"q1": "ab"}, {"q1": "b"}), texts).lost == ("q1",)
    assert dropping(run, {**texts, "b": "Europa"}) is None, "nothing is repeated"
    assert dropping(run, {"a": "x", "c": "y", "x": "z"}) is None, "b has no text"


def test_fewer_passages_save_those_that_a_question_has():
    # Two hits and one hit: with 5 passages 1.5 are read on average, with 1 passage 1 is.
    run = priced({"q1": "xa", "q2": "b"}, {"q1": "x", "q2": "b"}, read=5)
    changes, _ = price_changes(run)

    (fewer,) = (change for change in changes if change.passages == 1)
    assert fewer.further == -0.5
    assert not [change for change in changes if change.passages > 5 and change.further]


def passages(gold, read=2, needs=("x 0-9",), unplaced=0):
    """A run of one question whose passages p1, p2 ... have some gold, best first."""
    hits = [StoredHit(rank=n, id=f"p{n}", gold=tuple(g)) for n, g in enumerate(gold, 1)]
    gold_rank = next((hit.rank for hit in hits if hit.gold), 0)
    row = HitsRow(
        query_id="q", needs=needs, gold_rank=gold_rank, unplaced=unplaced, hits=tuple(hits)
    )
    run, doubts = Run.from_dict({"q": {"x": 1.0}}), {"r": np.array([unplaced or NEVER])}
    qrels = Qrels.from_dict({"q": {"x": 1}})
    rankings = StoredRankings(qrels, {"r": run}, hits={"r": {"q": row}}, doubts=doubts)
    return PricedRun(rankings, "r", read, read, 100)


SAME = {"p1": "Phobos and Deimos", "p2": "Phobos and Deimos", "p3": "Titan"}


@pytest.mark.parametrize(
    ("gold", "unplaced", "counts"),
    [
        pytest.param([[], [], ["x 0-9"]], 0, (1, 1, ("q",), ()), id="the third is read"),
        pytest.param([[], ["x 0-9"], []], 0, (0, 1, (), ("q",)), id="the gold is dropped"),
        pytest.param([[], ["x 0-9"], []], 3, (0, 0, (), ()), id="the third may have it"),
    ],
)
def test_repeated_passages_are_dropped_with_their_gold(gold, unplaced, counts):
    change = dropping(passages(gold, unplaced=unplaced), SAME)

    assert (change.found, change.of, change.rescued, change.lost) == counts


def test_repeated_passages_stay_where_the_gold_of_the_next_hits_is_not_stored(assert_message):
    repeats = dict.fromkeys((f"p{n}" for n in range(1, 11)), "Phobos")
    answer = passages([[], [ANSWER], []], needs=(ANSWER,))

    assert_message(dropping(passages([[]] * 10), repeats))
    assert_message(dropping(answer, SAME))


def test_chunks_with_stored_gold_have_no_neighbours(assert_message):
    run = passages([[]])
    [row] = run.rankings.hits["r"].values()
    chunk = structs.replace(row, hits=(structs.replace(row.hits[0], id="guide.md#3"),))
    run.rankings.hits["r"]["q"] = chunk

    assert join_neighbours(passages([[]])) is None
    assert_message(join_neighbours(run))


@pytest.mark.parametrize(
    ("gold", "rescued"),
    [("f#3", ("q1",)), ("f#1", ("q1",)), ("f#4", ()), ("g#3", ())],
    ids=["next", "the one before", "two away", "another file"],
)
def test_a_neighbour_of_a_chunk_is_read_with_it(gold, rescued):
    run = priced({"q1": ["f#2", "plain", gold]}, {"q1": [gold]})

    change = join_neighbours(run)

    assert (change.rescued, change.lost, change.passages) == (rescued, (), 6)


def test_ids_without_numbers_have_no_neighbours():
    assert join_neighbours(priced({"q1": ["apollo-11", "a"]}, {"q1": ["apollo-12"]})) is None


def test_a_threshold_declines_what_has_no_answer():
    names = [f"q{n}" for n in range(20)]
    scores = {query: {"gold": 10.0 + n} for n, query in enumerate(names)}
    scores |= {"n1": {"other": 1.0}, "n2": {"other": 2.0}, "n3": {}}
    gold = Qrels.from_dict({query: {"gold": 1} for query in names})
    run = PricedRun(StoredRankings(gold, {"r": Run.from_dict(scores)}), "r", 5, 5, 100)

    change = refuse_low_scores(run, Run.from_dict(scores), ["n1", "n2", "n3"])

    # at most two questions without an answer have a score: their share of the scores is 2 / 22
    assert change.lost == ()
    assert set(change.rescued) == {"n1", "n2", "n3"}
    assert (change.found, change.of) == (23, 23)
    assert refuse_low_scores(run, Run.from_dict(scores), []) is None


def test_questions_of_a_cluster_are_one_unit_of_the_threshold():
    names = [f"q{n}" for n in range(20)]
    scores = {query: {"gold": 10.0 + n} for n, query in enumerate(names)}
    scores |= {f"n{n}": {"other": 1.0} for n in range(10)}
    gold = Qrels.from_dict({query: {"gold": 1} for query in names})
    run = PricedRun(StoredRankings(gold, {"r": Run.from_dict(scores)}), "r", 5, 5, 100)
    unanswerable = [f"n{n}" for n in range(10)]

    ranking = Run.from_dict(scores)
    alone = refuse_low_scores(run, ranking, unanswerable)
    clustered = refuse_low_scores(run, ranking, unanswerable, [*names, *["one"] * 10])

    assert alone.rescued == clustered.rescued == tuple(unanswerable)
    assert alone.interval[0] > 0 > clustered.interval[0]
