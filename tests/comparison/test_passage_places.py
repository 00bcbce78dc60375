"""Places of retrieved passages in their documents."""

import pytest

from ragbench.comparison.passage_places import place_rankings
from ragbench.types import Document, ScoredDocument, Span

IO = "Io has volcanoes.\n\nIt is hot. It is dry. It is hot."
DOCUMENTS = [
    Document("moons/io.md", IO, "The moon Io"),
    Document("moons/europa.md", "Europa has ice. It is dry.", "Europa"),
]
GOLD = [Span("moons/io.md", 0, 2)]


def place(hit, documents=DOCUMENTS, gold=GOLD):
    ((span,),) = place_rankings([[hit]], [gold], documents).spans.passages
    return span and (span.document, span.start, span.end)


def hit(name, text=None, document=None, **metadata):
    return ScoredDocument(name, text=text, metadata=metadata, document=document)


@pytest.mark.parametrize(
    ("passage", "expected"),
    [
        pytest.param(hit("moons/io.md"), ("moons/io.md", 0, 51), id="no text: the whole document"),
        pytest.param(
            hit("d#1", "It is hot.", "moons/io.md", chunk_start=41, chunk_end=51),
            ("moons/io.md", 41, 51),
            id="a chunk of `chunk:`",
        ),
        pytest.param(
            hit("7f3a", "It is hot.", source="/data/moons/io.md", start_index=41),
            ("moons/io.md", 41, 51),
            id="LangChain: source and start_index",
        ),
        pytest.param(
            hit("7f3a", "It is hot.", source="/data/moons/io.md", start_index=-1),
            ("moons/io.md", 19, 29),
            id="LangChain did not find it: the first place",
        ),
        pytest.param(
            hit("7f3a", "It is hot.", source="io.md", start_index=40),
            ("moons/io.md", 19, 29),
            id="other text at the positions: the first place",
        ),
        pytest.param(
            hit("moons/io.md", "volcanoes. It is hot."),
            ("moons/io.md", 7, 29),
            id="other white space",
        ),
        pytest.param(
            hit("moons/io.md", "The moon Io\nIt is dry."),
            ("moons/io.md", 30, 40),
            id="the title before the text",
        ),
        pytest.param(hit("moons/io.md", " "), ("moons/io.md", 0, 0), id="a blank passage"),
        pytest.param(
            hit("7f3a", "Europa has ice."),
            ("moons/europa.md", 0, 15),
            id="no document: by its text",
        ),
        pytest.param(
            hit("7f3a", "It is dry."),
            ("moons/io.md", 30, 40),
            id="a text of two documents: the gold one",
        ),
        pytest.param(
            hit("7f3a", "lcanoes. It is hot. It is d"),
            ("moons/io.md", 9, 37),
            id="no document, cut within words",
        ),
        pytest.param(hit("moons/io.md", "It is cold."), None, id="not in its document"),
        pytest.param(hit("7f3a", "It is cold."), None, id="in no document"),
        pytest.param(hit("7f3a"), None, id="neither text nor document"),
    ],
)
def test_a_passage_is_placed_by_its_positions_else_by_its_text(passage, expected):
    assert place(passage) == expected


def test_a_text_of_two_documents_is_placed_in_the_gold_one():
    passage = hit("7f3a", "It is dry.")

    assert place(passage, gold=[Span("moons/europa.md", 0, 6)]) == ("moons/europa.md", 16, 26)


@pytest.mark.parametrize(
    ("passage", "expected"),
    [
        (hit("a", "hot", document="io", start=3), ("io", 3, 6)),
        (hit("a", document="io", start=3, end=9), ("io", 3, 9)),
        (ScoredDocument("a", metadata={"document": "io", "start": 3, "end": 9}), ("io", 3, 9)),
        (hit("io", "hot", start_index=3, end_index=9), ("io", 3, 9)),
        (hit("io", "hot"), None),
        (hit("io", "hot", start=True, end=2), None),
        (hit("io", "hot", start=5, end=2), None),
    ],
)
def test_positions_are_taken_as_they_are_without_a_corpus(passage, expected):
    assert place(passage, documents=None) == expected


def test_queries_without_gold_have_no_places_and_unplaced_passages_are_named():
    lost = hit("x", "nowhere")

    placed = place_rankings([[lost], [hit("moons/io.md"), lost]], [[], GOLD], DOCUMENTS)

    assert placed.spans.passages == [[], [Span("moons/io.md", 0, 51), None]]
    assert placed.unplaced == [(1, 2, "x")]


def test_a_start_alone_without_an_end_and_a_text_is_no_place():
    assert place(hit("x", None, "moons/io.md", start=5), documents=None) is None
    assert place(hit("x", "abc", "moons/io.md", start=5), documents=None) == ("moons/io.md", 5, 8)
