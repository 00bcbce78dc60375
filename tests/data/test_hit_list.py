"""The list of retrieved and read documents: joins, places, marks, and ranks of gold."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragbench.data.runs.hit_list import (
    Hit,
    StoredRanking,
    gold_names,
    join_contexts,
    list_hits,
    mark_read,
)
from ragbench.data.runs.run_lines import Lines, Texts
from ragbench.records.codec import to_json
from ragbench.records.manifest import HitsRow, StoredHit, TextRow
from ragbench.types import Document, Span
from tests.experiment.moons import write_jsonl

IDS = st.sampled_from(["a", "b", "c", "0f3e", "hr.md"])
TEXTS = st.sampled_from(["Pay day.", "Pay  day.\n", "Leave.", "", "x" * 9_000])


def words(text):
    """Return the words of a text as far as a run folder stores it."""
    return (text or "")[:8_000].split()


@given(
    st.lists(st.tuples(IDS, TEXTS), max_size=6, unique_by=lambda pair: pair[0]),
    st.lists(st.tuples(IDS | st.uuids().map(str), TEXTS), max_size=6),
)
@example([("a", "Leave."), ("b", "Pay day.")], [("1", "Pay day."), ("2", "Pay day.")])
@example([("a", "Leave.")], [("a", "Pay day."), ("9", "Leave.")])
def test_each_context_is_listed_once_and_read(ranked, passages):
    hits = [Hit(n, name, 1.0 / n, text=text) for n, (name, text) in enumerate(ranked, start=1)]
    contexts = [Document(name, text) for name, text in passages]

    rows = mark_read(hits, contexts)

    numbers = sorted(number for row in rows for number in row.read)
    assert numbers == list(range(1, len(contexts) + 1))
    assert [row.id for row in rows if row.rank is not None] == [name for name, _ in ranked]
    assert all(row.read for row in rows if row.rank is None)
    for row in rows:
        for number in row.read:
            context = contexts[number - 1]
            assert words(row.text) == words(context.text)
            assert row.id == context.id or words(context.text)
    whole = {(hit.id, tuple(words(hit.text))) for hit in hits}
    of_number = {number: row for row in rows for number in row.read}
    for number, context in enumerate(contexts, start=1):
        if words(context.text) and (context.id, tuple(words(context.text))) in whole:
            assert of_number[number].rank is not None


@pytest.mark.parametrize(
    ("contexts", "places"),
    [
        pytest.param([("u2", "Leave.")], [1], id="by id and text"),
        pytest.param([("u1", "Leave.")], [0], id="by id before text"),
        pytest.param([("new", " Leave.\n")], [1], id="by text alone"),
        pytest.param([("u1", "")], [0], id="by id alone"),
        pytest.param([("new", "Bonus.")], [None], id="no hit"),
        pytest.param([("u1", "Pay."), ("u1", "Bonus.")], [0, None], id="one id, two texts"),
        pytest.param([("n1", "Leave."), ("n2", "Leave.")], [1, 1], id="read twice"),
        pytest.param([("n1", "Same."), ("n2", "Same.")], [2, 3], id="equal texts in order"),
    ],
)
def test_contexts_are_joined_by_id_else_by_text(contexts, places):
    hits = [Hit(1, "u1", 4.0, text="Pay."), Hit(2, "u2", 3.0, text="Leave.")]
    hits += [Hit(3, "u3", 2.0, text="Same."), Hit(4, "u4", 1.0, text="Same.")]

    assert join_contexts(hits, [Document(name, text) for name, text in contexts]) == places


HR = "Pay day is the 25th. A new employee has 30 days of leave."
GOLD = Span("hr.md", 21, 57, HR[21:])
JUDGED = {"hr.md": 2, "faq.md": 1, "old.md": 0}


def list_stored(tmp_path, row, ranked, texts):
    """Return the hits of a ranking `chain` of passages."""
    write_jsonl(tmp_path / "texts.jsonl", map(to_json, texts))
    stored = Texts(Lines(tmp_path / "texts.jsonl", "id"), "q")
    return list_hits(StoredRanking.of("chain", dict(ranked), row), JUDGED, [GOLD], stored)


def test_a_hit_has_its_own_text_its_place_and_its_relation_to_the_gold(tmp_path):
    needs = ("hr.md 21-57", "faq.md")
    stored = (
        StoredHit(rank=1, id="u1", document="hr.md", start=0, end=20),
        StoredHit(rank=2, id="u2", document="hr.md", start=21, end=57, gold=needs[:1]),
        StoredHit(rank=3, id="u3", document="faq.md", start=5, end=9, gold=needs[1:]),
        StoredHit(rank=4, id="u4", document="hr.md"),
        StoredHit(rank=5, id="old.md"),
        StoredHit(rank=6, id="u6"),
        StoredHit(rank=7, id="hr.md", document="hr.md", start=4, end=7),
        StoredHit(rank=8, id="x.md", document="x.md"),
    )
    ranked = [(hit.id, 9.0 - hit.rank) for hit in stored] + [("u9", 0.0)]
    texts = [
        TextRow(id="hr.md", title="Pay", text=HR),
        TextRow(id="u1", text=HR[:20]),
        TextRow(id="old.md", text="Long ago."),
        TextRow(id="x.md", text="Whole."),
        TextRow(id="u6", text="A memo of nobody knows whom, with many words in it."),
    ]

    hits = list_stored(tmp_path, HitsRow(query_id="q", needs=needs, hits=stored), ranked, texts)

    assert [hit.text for hit in hits] == [
        HR[:20],
        HR[21:],  # only the text of its document is stored
        None,
        None,
        "Long ago.",
        "A memo of nobody knows whom, with many words in it.",
        "day",  # a passage with the id of its document
        "Whole.",
        None,
    ]
    assert [hit.label for hit in hits] == [
        "hr.md 0 to 20",
        "hr.md 21 to 57",
        "faq.md 5 to 9",
        "hr.md",
        "old.md",
        'u6 "A memo of nobody knows whom, with many w..."',
        "hr.md 4 to 7",
        "x.md",
        "u9",
    ]
    beside = "right document, other passage"
    no_place = "right document, place unknown"
    marks = [beside, "has gold hr.md 21-57", "", no_place, "", "", beside, "", ""]
    assert [hit.mark for hit in hits] == marks
    assert [hit.grade for hit in hits] == [2, 2, 1, 2, 0, None, 2, None, None]


def test_a_ranking_of_documents_is_its_own_gold(tmp_path):
    ranked = [("faq.md", 2.0), ("x.md", 1.5), ("hr.md", 1.0)]

    hits = list_stored(tmp_path, None, ranked, [TextRow(id="hr.md", text=HR)])

    assert [(hit.label, hit.gold, hit.mark) for hit in hits] == [
        ("faq.md", ("faq.md",), ""),
        ("x.md", (), ""),
        ("hr.md", ("hr.md",), ""),
    ]
    assert hits[2].text == HR


def test_hits_of_equal_scores_stand_in_the_order_that_was_scored():
    # A run file sorts equal scores by id, descending: d, c, b, a
    row = HitsRow(query_id="q", hits=(StoredHit(rank=3, id="d"), StoredHit(rank=1, id="b")))

    assert StoredRanking.of("s", dict.fromkeys("dcba", 1.0), row).ids == ["b", "c", "d", "a"]


def test_ranks_of_gold_are_those_of_the_first_hit_that_meets_it():
    needs = ("hr.md 21-57", "faq.md")
    hits = (
        StoredHit(rank=2, id="u2", gold=needs[:1]),
        StoredHit(rank=12, id="u3", gold=needs),
    )
    row = HitsRow(query_id="q", needs=needs, hits=hits)
    passages = StoredRanking.of("chain", {}, row)
    documents = StoredRanking.of("bm25", {"faq.md": 2.0, "hr.md": 1.0}, None)

    names = gold_names(JUDGED, [GOLD], [documents, passages])

    assert names == {"hr.md 21-57": 2, "faq.md": 1}
    assert passages.gold_ranks(names) == {"hr.md 21-57": 2, "faq.md": 12}
    assert gold_names(JUDGED, [GOLD], [documents]) == {"hr.md": 2, "faq.md": 1}
    assert documents.gold_ranks(["hr.md", "x.md"]) == {"hr.md": 2, "x.md": 0}


def test_a_ranking_of_documents_finds_whole_ids_alone():
    ranking = StoredRanking.of("bm25", {"d11": 3.0, "d2": 2.0, "d1": 1.0}, None)

    assert ranking.gold_ranks(["d1", "d2", "d11", "d", "1"]) == {
        "d1": 3,
        "d2": 2,
        "d11": 1,
        "d": 0,
        "1": 0,
    }
    assert ranking.first(2) == [("d11", 3.0), ("d2", 2.0)]
    assert ranking.first(5) == [("d11", 3.0), ("d2", 2.0), ("d1", 1.0)]


def test_a_ranking_without_hits_has_no_gold():
    ranking = StoredRanking.of("bm25", {}, None)

    assert ranking.ids == []
    assert ranking.first(3) == []
    assert ranking.gold_ranks(["d1"]) == {"d1": 0}
